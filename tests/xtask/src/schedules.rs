//! `cargo xtask schedules`: more of the seeded schedules than a run of all tests has.

use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::shell::{self, say};

const MODEL: u64 = 1000;
const PROCESS: u64 = 300;

/// What to play.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    model: u64,
    process: u64,
    seed: Option<u64>,
}

/// Plays them: those of the model, then those of the real process, then the small ones in every order. An error when one
/// failed.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let wanted = Wanted::parse(arguments)?;
    say("building sluice, the stand-in server and the tests …");
    shell::cargo(&["build", "--workspace", "--bins"])?;
    shell::cargo(&["test", "--workspace", "--no-run"])?;
    let model = wanted.play("the model", wanted.model, "SLUICE_MODEL_SCHEDULES", &MODEL_TEST);
    let process = wanted.play(
        "the real process",
        wanted.process,
        "SLUICE_PROCESS_SCHEDULES",
        &PROCESS_TEST,
    );
    // What is small enough is played in every order, the cases that take long included.
    let exhaustive = match (wanted.model, wanted.seed) {
        (1.., None) => {
            say("playing every schedule of the small configurations of the model …");
            shell::cargo(&["test", "--workspace", "--test", "exhaustive", "--", "--include-ignored"])
        }
        _ => Ok(()),
    };
    model.and(process).and(exhaustive)
}

/// What `cargo test --workspace` is told for the test that plays them.
const MODEL_TEST: [&str; 2] = ["--test", "schedules"];
const PROCESS_TEST: [&str; 3] = ["--test", "it", "every_schedule_ends_with_every_change_once"];

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Wanted> {
        let mut wanted = Wanted {
            model: MODEL,
            process: PROCESS,
            seed: None,
        };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            let number = || -> Result<u64> {
                let text = arguments
                    .clone()
                    .next()
                    .with_context(|| format!("{name} needs a number"))?;
                text.parse().with_context(|| format!("{name} {text} is no number"))
            };
            match name.as_str() {
                "--model" => wanted.model = number()?,
                "--process" => wanted.process = number()?,
                "--seed" => wanted.seed = Some(number()?),
                other => {
                    bail!("unknown argument {other:?}: cargo xtask schedules [--model N] [--process N] [--seed S]")
                }
            }
            arguments.next();
        }
        Ok(wanted)
    }

    fn play(&self, of: &str, count: u64, variable: &str, test: &[&str]) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        match self.seed {
            Some(seed) => say(&format!("playing schedule {seed} of {of} …")),
            None => say(&format!("playing {count} schedules of {of} …")),
        }
        let since = Instant::now();
        let mut environment = vec![(variable, count.to_string())];
        environment.extend(self.seed.map(|seed| ("SLUICE_SEED", seed.to_string())));
        let played = shell::cargo_with(
            &[&["test", "--workspace"], test, &["--", "--nocapture"]].concat(),
            &environment,
        );
        let outcome = if played.is_ok() { "passed" } else { "FAILED" };
        say(&format!(
            "schedules of {of}: {outcome} after {:.0} s",
            since.elapsed().as_secs_f64()
        ));
        played
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_and_mistakes_are_refused() {
        let parse = |text: &str| Wanted::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let wanted = Wanted {
            model: 0,
            process: PROCESS,
            seed: Some(7),
        };
        assert_eq!(parse("--model 0 --seed 7").unwrap(), wanted);
        for mistake in ["--model", "--model x", "7", "--modell 7"] {
            assert!(parse(mistake).is_err(), "{mistake}");
        }
    }
}
