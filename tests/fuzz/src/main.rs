//! `sluice-fuzz [TARGET…] [--seconds N] [--seed N]`: runs targets, all of them by default.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use sluice_fuzz::harness;
use sluice_fuzz::targets::{TARGETS, Target, find};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut targets: Vec<&'static Target> = Vec::new();
    let (mut seconds, mut seed) = (600, rand_seed());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64> {
            let value = arguments.next().with_context(|| format!("{argument} takes a number"))?;
            value.parse().with_context(|| format!("{value} is no number"))
        };
        match argument.as_str() {
            "--seconds" => seconds = number()?,
            "--seed" => seed = number()?,
            name => match find(name) {
                Some(target) => targets.push(target),
                None => {
                    let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                    bail!("there is no target {name}; there are {}", known.join(", "));
                }
            },
        }
    }
    if targets.is_empty() {
        targets = TARGETS.iter().filter_map(|target| find(target.name)).collect();
    }
    for target in targets {
        println!("{}: {seconds} s, seed {seed}", target.name);
        let ran = harness::run(target, seed, Duration::from_secs(seconds))?;
        println!("{}: {} inputs, no panic", target.name, ran.inputs);
    }
    Ok(())
}

/// The clock will do: the seed is printed.
fn rand_seed() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
