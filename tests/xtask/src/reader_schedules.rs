//! `cargo xtask reader-schedules`: the seeded schedules of the reader, for longer than a run of all tests plays them.

use anyhow::{Result, bail};

use crate::numbers::numbers;
use crate::shell::{self, say};

const USAGE: &str = "cargo xtask reader-schedules [--minutes M | --count N] [--first S] [--seed S]";

/// What `cargo test --workspace` is told for the test that plays them.
const TEST: [&str; 3] = [
    "--test",
    "it",
    "many_schedules_of_the_reader_end_with_the_history_in_bronze",
];

/// Plays them. An error when one failed.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let environment = environment(arguments)?;
    say("building sluice, the stand-in server and the tests …");
    shell::cargo(&["build", "--workspace", "--bins"])?;
    say("playing schedules of the reader …");
    shell::cargo_with(
        &[
            &["test", "--workspace"],
            TEST.as_slice(),
            &["--", "--ignored", "--nocapture"],
        ]
        .concat(),
        &environment,
    )
}

/// The arguments, as the test takes them.
fn environment(arguments: &[String]) -> Result<Vec<(&'static str, String)>> {
    let mut environment = Vec::new();
    for (name, number) in numbers(arguments, USAGE)? {
        let (variable, value) = match name {
            "--minutes" => ("SLUICE_CPU_SECONDS", number * 60),
            "--count" => ("SLUICE_SCHEDULES", number),
            "--first" => ("SLUICE_FIRST_SEED", number),
            "--seed" => ("SLUICE_SEED", number),
            other => bail!("unknown argument {other:?}: {USAGE}"),
        };
        environment.push((variable, value.to_string()));
    }
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_and_mistakes_are_refused() {
        let of = |text: &str| environment(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            of("--minutes 2 --first 7").unwrap(),
            [
                ("SLUICE_CPU_SECONDS", "120".to_owned()),
                ("SLUICE_FIRST_SEED", "7".to_owned())
            ]
        );
        for mistake in ["--minutes", "--minutes x", "7", "--seeds 7"] {
            assert!(of(mistake).is_err(), "{mistake}");
        }
    }
}
