//! Schedules from seeds, and the report of one that breaks a rule.

use std::collections::BTreeMap;
use std::fmt;

use crate::choice::Seeded;
use crate::config::Config;
pub use crate::config::config;
use crate::planted::Planted;
use crate::play::Play;

/// How often each thing happened.
pub type Stats = BTreeMap<&'static str, u64>;

/// A schedule in which a rule does not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed; `None` where every schedule of a small configuration was tried.
    pub seed: Option<u64>,
    /// The planted fault.
    pub planted: Option<Planted>,
    /// The rule.
    pub invariant: &'static str,
    /// What was found.
    pub found: String,
    /// The configuration.
    pub config: Config,
    /// The steps, a line each.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { mode, streams, .. } = self.config;
        writeln!(f, "broken: {}", self.invariant)?;
        writeln!(f, "  {}", self.found)?;
        writeln!(f, "  mode {mode:?}, {streams} streams, planted: {:?}", self.planted)?;
        for (number, line) in self.trace.iter().enumerate() {
            writeln!(f, "{number:4} {line}")?;
        }
        match self.seed {
            Some(seed) => writeln!(
                f,
                "again with: SLUICE_SEED={seed}{} cargo nextest run -p sluice-model --no-capture replays_one_seed",
                self.planted
                    .map_or(String::new(), |planted| format!(" SLUICE_PLANTED={planted:?}"))
            ),
            None => writeln!(f, "found among all schedules of a small configuration"),
        }
    }
}

/// Plays the schedule of a seed.
pub fn schedule(seed: u64, config: &Config) -> Result<Stats, Box<Failure>> {
    play(seed, config, false).map(|(stats, _)| stats)
}

/// Plays the schedule of a seed and tells its steps.
pub fn traced(seed: u64, config: &Config) -> Result<(Stats, Vec<String>), Box<Failure>> {
    play(seed, config, true)
}

fn play(seed: u64, config: &Config, wants_trace: bool) -> Result<(Stats, Vec<String>), Box<Failure>> {
    let attempt = |traced: bool| {
        let mut play = Play::new(config.clone(), Box::new(Seeded::new(seed)), traced);
        let ended = play.run(|_| true);
        let world = &mut *play.world.borrow_mut();
        let (stats, trace) = (std::mem::take(&mut world.counts), world.trace.take());
        (ended, stats, trace.unwrap_or_default())
    };
    let (ended, stats, trace) = attempt(wants_trace);
    let Err(violation) = ended else {
        return Ok((stats, trace));
    };
    // Once more, for its steps: a seed always plays the same.
    let trace = if wants_trace { trace } else { attempt(true).2 };
    Err(Box::new(Failure {
        seed: Some(seed),
        planted: config.planted,
        invariant: violation.invariant,
        found: violation.found,
        config: config.clone(),
        trace,
    }))
}
