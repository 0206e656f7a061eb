//! A run in the background.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::project::{Project, wait_for};

/// How long an event may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// A process and the events that it prints; killed when dropped.
pub struct Running {
    child: Child,
    events: Receiver<Value>,
    seen: Vec<Value>,
}

impl Running {
    /// Starts `sluice run --json` with more arguments.
    pub fn start(project: &Project, arguments: &[&str]) -> Running {
        Running::start_with(project, arguments, &[])
    }

    /// The same with more in its environment.
    pub fn start_with(project: &Project, arguments: &[&str], environment: &[(&str, &str)]) -> Running {
        let mut child = project
            .command("run", &[&["--json"], arguments].concat())
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sluice starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Running {
            child,
            events,
            seen: Vec::new(),
        }
    }

    /// The next event that fits; those before it are kept.
    pub fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let patience = Instant::now() + PATIENCE;
        loop {
            let left = patience.saturating_duration_since(Instant::now());
            let Ok(event) = self.events.recv_timeout(left) else {
                panic!("no {what}, only {:#?}", self.seen);
            };
            self.seen.push(event.clone());
            if fits(&event) {
                return event;
            }
        }
    }

    /// The next event of a type.
    pub fn until_type(&mut self, kind: &str) -> Value {
        self.until(kind, |event| event["type"] == kind)
    }

    /// Until each of these tables has ended a batch.
    pub fn until_batches(&mut self, capture_instances: &[&str]) {
        let mut waiting = capture_instances.to_vec();
        while !waiting.is_empty() {
            let batch = self.until_type("batch");
            waiting.retain(|name| batch["capture_instance"] != *name);
        }
    }

    /// Events of a type that came so far.
    pub fn count(&self, kind: &str) -> usize {
        self.seen.iter().filter(|event| event["type"] == kind).count()
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let _ = std::process::Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
    }

    /// Waits for the end: the exit code.
    pub fn code(&mut self) -> Option<i32> {
        assert!(
            wait_for(|| matches!(self.child.try_wait(), Ok(Some(_)))),
            "it does not end: {:#?}",
            self.seen
        );
        self.child.wait().expect("ended").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
