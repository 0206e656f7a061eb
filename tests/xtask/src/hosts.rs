//! `cargo xtask hosts`: two hosts on the same tables, killed and paused at random, for longer than a run of all tests plays it.

use anyhow::{Result, bail};

use crate::numbers::numbers;
use crate::shell::{self, say};

const USAGE: &str = "cargo xtask hosts [--minutes M] [--seed S]";
/// As long as nobody says.
const MINUTES: u64 = 10;
const TEST: &str = "two_hosts_that_are_killed_and_paused_at_random_write_every_change_once";

/// Plays it. An error when a change is missing or there twice.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let environment = environment(arguments)?;
    say("building sluice, the stand-in server and the tests …");
    shell::cargo(&["build", "--workspace", "--bins"])?;
    say("killing and pausing hosts …");
    shell::cargo_with(
        &["test", "--workspace", "--test", "it", TEST, "--", "--nocapture"],
        &environment,
    )
}

/// The arguments, as the test takes them.
fn environment(arguments: &[String]) -> Result<Vec<(&'static str, String)>> {
    let mut environment = vec![("SLUICE_HOSTS_SECONDS", (MINUTES * 60).to_string())];
    for (name, number) in numbers(arguments, USAGE)? {
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
        for wrong in [&["--minutes"][..], &["--minutes", "x"], &["--hours", "1"]] {
            assert!(of(wrong).unwrap_err().to_string().contains(USAGE));
        }
    }
}
