//! A run that is held at a failpoint, can be paused as a whole, and goes on when it is told.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::project::{Project, Run, finish, wait_for};

/// A process at a failpoint; killed when dropped.
pub struct Held {
    child: Option<Child>,
    marker: PathBuf,
}

impl Held {
    /// Starts `sluice run --once --json` and waits until it is at the failpoint.
    pub fn at(project: &Project, failpoint: &str) -> Held {
        Held::command_at(project, "run", &["--once", "--json"], failpoint)
    }

    /// The same with another command.
    pub fn command_at(project: &Project, command: &str, arguments: &[&str], failpoint: &str) -> Held {
        static HELD: AtomicU32 = AtomicU32::new(0);
        let number = HELD.fetch_add(1, Ordering::Relaxed);
        let marker = project.path().join(format!("held-{number}"));
        let mut child = project
            .command(command, arguments)
            .env("SLUICE_FAILPOINT", failpoint)
            .env("SLUICE_FAILPOINT_FILE", &marker)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sluice starts");
        let there = wait_for(|| marker.exists() || matches!(child.try_wait(), Ok(Some(_)))) && marker.exists();
        if !there {
            let _ = child.kill();
            let run = finish(child.wait_with_output().expect("ended"));
            panic!("it did not come to {failpoint}: {}\n{}", run.stdout, run.stderr);
        }
        Held {
            child: Some(child),
            marker,
        }
    }

    /// SIGSTOP: nothing of the process runs any more, until [`Held::wake`].
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub fn wake(&self) {
        self.signal("CONT");
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a process").id()
    }

    /// Lets the process go on from the failpoint, and waits for its end.
    pub fn release(mut self) -> Run {
        let mut go = self.marker.clone().into_os_string();
        go.push(".go");
        std::fs::write(go, "").expect("written");
        let child = self.child.take().expect("a process");
        finish(child.wait_with_output().expect("ended"))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([format!("-{name}"), self.pid().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
