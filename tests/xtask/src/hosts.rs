//! `cargo xtask hosts`: two hosts on the same tables, killed and paused at random, for longer than a run of all tests plays it.

use anyhow::{Result, bail};

use crate::numbers::numbers;
use crate::shell::{self, say};

const USAGE: &str = "cargo xtask hosts [--minutes M] [--seed S] [--on folder|s3|azure|gcs]";
/// Where the tables and leases are, each played after the other.
const PLACES: [&str; 4] = ["folder", "s3", "azure", "gcs"];
/// In each place, as long as nobody says.
const MINUTES: u64 = 10;
const TESTS: &str = "many_tables::hosts::two_hosts_";

/// Plays it. An error when a change is missing or there twice.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let environment = environment(arguments)?;
    say("building sluice, the stand-in server and the tests …");
    shell::cargo(&["build", "--workspace", "--bins"])?;
    say("killing and pausing hosts …");
    shell::cargo_with(
        &[
            "test",
            "--workspace",
            "--test",
            "it",
            TESTS,
            "--",
            "--nocapture",
            "--test-threads=1",
        ],
        &environment,
    )
}

/// The arguments, as the test takes them.
fn environment(arguments: &[String]) -> Result<Vec<(&'static str, String)>> {
    let mut environment = vec![("SLUICE_HOSTS_SECONDS", (MINUTES * 60).to_string())];
    let mut arguments = arguments.to_vec();
    if let Some(at) = arguments.iter().position(|argument| argument == "--on") {
        match arguments.get(at + 1) {
            Some(place) if PLACES.contains(&place.as_str()) => environment.push(("SLUICE_HOSTS_ON", place.clone())),
            _ => bail!("--on needs one of {}: {USAGE}", PLACES.join(", ")),
        }
        arguments.drain(at..at + 2);
    }
    for (name, number) in numbers(&arguments, USAGE)? {
        match name {
            "--minutes" => environment[0].1 = (number * 60).to_string(),
            "--seed" => environment.push(("SLUICE_SEED", number.to_string())),
            other => bail!("unknown argument {other:?}: {USAGE}"),
        }
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_played_for_ten_minutes_unless_somebody_says_how_long() {
        let of = |words: &[&str]| environment(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]).unwrap(), [("SLUICE_HOSTS_SECONDS", "600".to_owned())]);
        assert_eq!(
            of(&["--minutes", "2", "--seed", "7"]).unwrap(),
            [
                ("SLUICE_HOSTS_SECONDS", "120".to_owned()),
                ("SLUICE_SEED", "7".to_owned())
            ]
        );
        assert_eq!(
            of(&["--on", "s3", "--minutes", "1"]).unwrap(),
            [
                ("SLUICE_HOSTS_SECONDS", "60".to_owned()),
                ("SLUICE_HOSTS_ON", "s3".to_owned())
            ]
        );
        for wrong in [
            &["--minutes"][..],
            &["--minutes", "x"],
            &["--hours", "1"],
            &["--on"],
            &["--on", "moon"],
        ] {
            assert!(of(wrong).unwrap_err().to_string().contains(USAGE));
        }
    }
}
