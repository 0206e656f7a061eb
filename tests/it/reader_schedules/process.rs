//! A run of sluice, to its end.

use std::fs::File;
use std::process::Stdio;

use crate::harness::{Project, wait_for};

/// How a run ended, and what it said.
pub struct Ended {
    pub code: i32,
    pub text: String,
}

/// `sluice run --once`. An error when it does not end.
pub fn once(project: &Project) -> Result<Ended, String> {
    let output = project.path().join("output");
    let file = File::create(&output).expect("created");
    let mut child = project
        .command("run", &["--once", "--json"])
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("a second handle"))
        .stderr(file)
        .spawn()
        .expect("sluice starts");
    let ends = wait_for(|| matches!(child.try_wait(), Ok(Some(_))));
    if !ends {
        // Waiting for it below would be for ever.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(&output).unwrap_or_default();
    ensure!(ends, "a run does not end\n{text}");
    Ok(Ended {
        code: status.code().unwrap_or(-1),
        text,
    })
}
