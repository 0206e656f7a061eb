//! A process of sluice: held at a failpoint, stopped, killed, or awaited, and how it ended.

use std::path::PathBuf;
use std::process::{Child, Command};

use super::check::ensure;
use super::plan::Fault;
use crate::harness::wait_for;

/// Exit codes.
pub const OK: i32 = 0;
const CONFIG: i32 = 2;
const RETRYABLE: i32 = 3;
const COMPONENT_REFUSED: i32 = 6;
pub const STATE: i32 = 7;

/// How a process may end that stores make it hard for.
pub fn codes(faults: &[Fault]) -> &'static [i32] {
    if faults.is_empty() { &[OK] } else { &[OK, RETRYABLE] }
}

/// A process of sluice; killed when dropped.
pub struct Process {
    pub child: Child,
    /// It appears when the process is at its failpoint.
    pub marker: PathBuf,
    pub output: PathBuf,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub code: i32,
    pub text: String,
}

pub enum Reached {
    /// It is held at its failpoint.
    There(Process),
    /// It did not pass it.
    Ended(Ended),
}

impl Process {
    pub fn reach(self) -> Result<Reached, String> {
        self.reach_or_end(true)
    }

    pub fn reach_or_end(mut self, held: bool) -> Result<Reached, String> {
        if !held {
            return self.end().map(Reached::Ended);
        }
        let happened = wait_for(|| self.marker.exists() || matches!(self.child.try_wait(), Ok(Some(_))));
        ensure!(
            happened,
            "a process neither ends nor reaches its failpoint: {}",
            self.text()
        );
        if self.marker.exists() {
            return Ok(Reached::There(self));
        }
        self.end().map(Reached::Ended)
    }

    pub fn end(mut self) -> Result<Ended, String> {
        let ended = wait_for(|| matches!(self.child.try_wait(), Ok(Some(_))));
        ensure!(ended, "a process does not end: {}", self.text());
        let status = self.child.wait().map_err(|error| error.to_string())?;
        Ok(Ended {
            code: status.code().unwrap_or(-1),
            text: self.text(),
        })
    }

    pub fn signal(&mut self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIG{signal}");
    }

    /// Wakes it up, and lets it pass its failpoint.
    pub fn go_on(&mut self) {
        self.signal("CONT");
        let mut go = self.marker.clone().into_os_string();
        go.push(".go");
        std::fs::write(go, "").expect("written");
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// A process that does not come to renew its lease in time gives its tables up, and has to.
    pub fn lost_its_lease(&self) -> bool {
        self.code == STATE && self.text.contains("could not be renewed for")
    }

    /// A retry is refused while a batch is to be planned anew.
    fn waits_for_a_run(&self) -> bool {
        self.code == CONFIG
            && self
                .text
                .contains("bring the table up to date with `sluice run --once` first")
    }

    /// Two checkpoints counted to the same batch, and put other rows into quarantine under its number.
    pub fn met_another_batch(&self) -> bool {
        self.code == COMPONENT_REFUSED && self.text.contains("rows when it was transformed once more")
    }

    pub fn code(self, allowed: &[i32]) -> Result<(), String> {
        ensure!(
            allowed.contains(&self.code) || self.lost_its_lease() || self.waits_for_a_run(),
            "a process ended with {}, allowed is {allowed:?}: {}",
            self.code,
            self.text
        );
        Ok(())
    }
}
