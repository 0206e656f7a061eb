//! What a schedule may contain, and how likely each part of it is.

use crate::choice::Seeded;
use crate::planted::Planted;
use crate::stores::Pid;
use crate::world::{Budget, FaultOn, Faults, Mode, Settings};

/// What is played.
#[derive(Clone, Debug)]
pub struct Config {
    /// Ownership.
    pub mode: Mode,
    /// Streams of each process: 1 or 2.
    pub streams: usize,
    /// What may happen.
    pub budget: Budget,
    /// Commits of the source at the beginning: rows of each stream.
    pub commits: Vec<[u8; 2]>,
    /// The configuration at the beginning.
    pub settings: Settings,
    /// Faults of stores.
    pub faults: Faults,
    /// How likely each action is.
    pub weights: Weights,
    /// Steps before nobody disturbs any more.
    pub steps: u32,
    /// The planted fault.
    pub planted: Option<Planted>,
    /// Facts are written before the stream's next step, and a stream looks at its source once: fewer orders are possible.
    pub orderly: bool,
    /// The only process that may stand still; `None`: each.
    pub sleeper: Option<Pid>,
    /// The only process that may be killed; `None`: each.
    pub victim: Option<Pid>,
    /// Processes are killed and stand still, and openings fail, only at moments that matter: after a look at `owner.json`
    /// or the fence, in the midst of a take-over, after a write that got no answer.
    pub moments: bool,
}

/// How likely each action is, against 200 for a step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// A process starts where the other runs.
    pub join: u32,
    /// A process starts where the other is not there or stands still.
    pub start: u32,
    /// A process is killed.
    pub crash: u32,
    /// Under leases: its death is seen, or it is not.
    pub seen: [u32; 2],
    /// A process stands still.
    pub pause: u32,
    /// A process wakes up.
    pub wake: u32,
    /// A late write arrives.
    pub land: u32,
    /// A lease's beat is raised.
    pub beat: u32,
    /// The source grows.
    pub grow: u32,
    /// The source is cleaned up.
    pub purge: u32,
    /// The configuration or the clock changes.
    pub change: u32,
    /// A file is lost.
    pub damage: u32,
    /// A process is asked to stop.
    pub ask: u32,
    /// A stream fails while it is opened.
    pub reopen: u32,
    /// The task that writes facts and verdicts takes a step.
    pub publisher: u32,
}

/// What a seed plays.
pub fn config(seed: u64, planted: Option<Planted>) -> Config {
    let mut seeded = Seeded::new(seed ^ 0x00c0_ffee);
    let mut below = |bound| seeded.below(bound);
    // Each seed has its own liking: what never comes together otherwise comes together in some.
    let profile = Profile::ALL[(seed % 5) as usize];
    let mode = match profile {
        Profile::Late => Mode::Lock,
        Profile::Woken | Profile::Row => Mode::Lease,
        _ => [Mode::Lock, Mode::Lease][below(2) as usize],
    };
    let is_focused = matches!(profile, Profile::Late | Profile::Woken | Profile::Row);
    let damages = if profile == Profile::Damaged { 1 + below(2) } else { 0 };
    let commits = (0..1 + below(3)).map(|_| [below(3) as u8, below(3) as u8]).collect();
    let (reopens, is_shaky) = (below(3), below(2) as usize);
    let mut weight = || [2, 8, 25, 80][below(4) as usize];
    let weights = Weights {
        join: 3,
        start: 40 + weight(),
        crash: match profile {
            Profile::Late | Profile::Row => 12,
            _ => weight().min(12),
        },
        seen: [1, 1],
        pause: match profile {
            Profile::Woken | Profile::Row => 25,
            _ => weight().min(25),
        },
        wake: match profile {
            Profile::Woken | Profile::Row => 2,
            _ => weight(),
        },
        land: if profile == Profile::Late { 4 } else { weight() },
        beat: 4,
        grow: weight(),
        purge: weight().min(8),
        change: if is_focused { 80 } else { weight() },
        damage: 40,
        ask: if profile == Profile::Woken { 16 } else { 2 },
        reopen: [2, 20][is_shaky],
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
            crashes: match profile {
                Profile::Late => 6,
                Profile::Row => 4,
                _ => below(4),
            },
            pauses: match profile {
                Profile::Woken | Profile::Row => 4,
                _ => below(4),
            },
            expiries: below(3),
            changes: if is_focused { 8 } else { below(5) },
            grows: 2 + below(6),
            purges: if below(3) == 0 { 1 + below(3) } else { 0 },
            damages,
            starts: match profile {
                Profile::Late | Profile::Row => 12,
                _ => 4 + below(6),
            },
            beats: below(6),
            reopens,
            asks: if profile == Profile::Woken { 3 } else { below(3) },
        },
        commits,
        settings: Settings {
            chain: match profile {
                Profile::Woken | Profile::Row => 2,
                _ => below(3) as u8,
            },
            go_on: below(3) > 0,
        },
        faults,
        weights,
        steps: 150 + below(350),
        planted,
        orderly: false,
        sleeper: None,
        victim: None,
        moments: false,
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
    /// Owners that are killed while they take over from ones that stand still.
    Row,
}

impl Profile {
    const ALL: [Profile; 5] = [
        Profile::Any,
        Profile::Late,
        Profile::Woken,
        Profile::Damaged,
        Profile::Row,
    ];
}
