//! Schedules from seeds, and the report of one that breaks a rule.

use std::collections::BTreeMap;
use std::fmt;

use crate::choice::Seeded;
use crate::planted::Planted;
use crate::play::{Config, Play, Weights};
use crate::world::{Budget, FaultOn, Faults, Mode, Settings};

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
                "again with: SLUICE_SEED={seed} cargo nextest run -p sluice-model --no-capture replays_one_seed"
            ),
            None => writeln!(f, "found among all schedules of a small configuration"),
        }
    }
}

/// What a seed plays.
pub fn config(seed: u64, planted: Option<Planted>) -> Config {
    let mut seeded = Seeded::new(seed ^ 0x00c0_ffee);
    let mut below = |bound| seeded.below(bound);
    // Each seed has its own liking: what never comes together otherwise comes together in some.
    let profile = [Profile::Any, Profile::Late, Profile::Woken, Profile::Damaged][(seed % 4) as usize];
    let mode = match profile {
        Profile::Late => Mode::Lock,
        Profile::Woken => Mode::Lease,
        _ => [Mode::Lock, Mode::Lease][below(2) as usize],
    };
    let is_focused = matches!(profile, Profile::Late | Profile::Woken);
    let damages = if profile == Profile::Damaged { 1 + below(2) } else { 0 };
    let commits = (0..1 + below(3)).map(|_| [below(3) as u8, below(3) as u8]).collect();
    let mut weight = || [2, 8, 25, 80][below(4) as usize];
    let weights = Weights {
        join: 3,
        start: 40 + weight(),
        crash: if profile == Profile::Late { 12 } else { weight().min(12) },
        pause: if profile == Profile::Woken {
            25
        } else {
            weight().min(25)
        },
        wake: weight(),
        land: if profile == Profile::Late { 4 } else { weight() },
        beat: 4,
        grow: weight(),
        purge: weight().min(8),
        change: if is_focused { 80 } else { weight() },
        damage: 40,
        ask: if profile == Profile::Woken { 8 } else { 2 },
        publisher: [20, 200][below(2) as usize],
    };
    let faults = Faults {
        per_mille: match profile {
            Profile::Late => 250,
            _ => [20, 60, 200][below(3) as usize],
        },
        on: match profile {
            Profile::Late => FaultOn::Bronze,
            _ => [FaultOn::All, FaultOn::All, FaultOn::Bronze, FaultOn::Done][below(4) as usize],
        },
        kinds: match profile {
            Profile::Late => [1, 0, 12, 0],
            _ => [0; 4].map(|_| [1, 4, 12][below(3) as usize]),
        },
    };
    Config {
        mode,
        streams: if is_focused { 1 } else { 1 + below(2) as usize },
        budget: Budget {
            // Lost files are no fault of a store.
            faults: match profile {
                Profile::Late => 8,
                Profile::Damaged => 0,
                _ => below(7),
            },
            crashes: if profile == Profile::Late { 6 } else { below(4) },
            pauses: if profile == Profile::Woken { 4 } else { below(4) },
            expiries: below(3),
            changes: if is_focused { 8 } else { below(5) },
            grows: 2 + below(6),
            purges: if below(3) == 0 { 1 + below(3) } else { 0 },
            damages,
            starts: if profile == Profile::Late { 12 } else { 4 + below(6) },
            beats: below(6),
            asks: below(3),
        },
        commits,
        settings: Settings {
            chain: if profile == Profile::Woken { 2 } else { below(3) as u8 },
            go_on: below(3) > 0,
        },
        faults,
        weights,
        steps: 150 + below(350),
        planted,
        facts_at_once: false,
    }
}

/// What a seed has a liking for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    /// Everything.
    Any,
    /// Commits that arrive after their process was killed.
    Late,
    /// Processes that stand still and wake up.
    Woken,
    /// Files that are lost.
    Damaged,
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
