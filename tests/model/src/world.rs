//! The world that processes share, and the steps by which they reach it: one interaction with a store each, with the
//! faults that a store can have.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::choice::Choose;
use crate::planted::Planted;
use crate::stores::{Body, Entry, FactsRow, Key, Late, LogId, Lsn, Object, Owner, Pid, Snapshot, Stores, Stream};

/// How it is decided who may run a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A lock of the operating system; the checkpoint's files are local.
    Lock,
    /// A lease; the checkpoint's files are on a store.
    Lease,
}

/// What a process reads at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The chain of every stream.
    pub chain: u8,
    /// `on_transform_change = "continue"`.
    pub go_on: bool,
}

/// What may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Faults of stores.
    pub faults: u32,
    /// Processes that are killed.
    pub crashes: u32,
    /// Processes that stand still for a while.
    pub pauses: u32,
    /// Leases that run out though their process lives.
    pub expiries: u32,
    /// Changes of configuration and of the source's clock.
    pub changes: u32,
    /// Commits that the source gets.
    pub grows: u32,
    /// Clean-ups of the source.
    pub purges: u32,
    /// Files of a checkpoint that are lost or torn.
    pub damages: u32,
    /// Starts of processes.
    pub starts: u32,
    /// Beats of leases.
    pub beats: u32,
    /// Processes that are asked to stop.
    pub asks: u32,
    /// Streams that fail while they are opened, and are opened again by the same process.
    pub reopens: u32,
}

/// Everything outside of processes.
pub struct World {
    /// What outlives processes.
    pub stores: Stores,
    /// Ownership.
    pub mode: Mode,
    /// The planted fault.
    pub planted: Option<Planted>,
    /// The configuration now.
    pub settings: Settings,
    /// What may still happen.
    pub budget: Budget,
    /// Who decides.
    pub choose: Box<dyn Choose>,
    /// How faults come.
    pub faults: Faults,
    /// How often each thing happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// The steps, when they are wanted.
    pub trace: Option<Vec<String>>,
    /// Processes that stand still or were killed where nobody sees it: their leases run out.
    pub still: Vec<Pid>,
    /// A stream ends when it has caught up, and does not look again.
    pub stops_at_once: bool,
    /// Nobody disturbs any more.
    pub quiet: bool,
    /// As `shaken`, and the looks before a write that relies on them.
    pub moment: bool,
    /// A write got no answer just now: a good moment to kill its process.
    pub shaken: bool,
    /// Bronze was read or written just now, or an attempt planned: a good moment for a late write or a process that slept.
    pub ripe: bool,
}

impl World {
    /// Counts something.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Adds a line to the trace.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    /// Whether that fault is planted.
    pub fn is(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    fn fault(&mut self, on: FaultOn, possible: &[Fault]) -> Fault {
        let at_all = self.faults.on == FaultOn::All || self.faults.on == on;
        if self.budget.faults == 0 || self.quiet || !at_all {
            return Fault::None;
        }
        let each = self.faults.per_mille;
        let kinds = self.faults.kinds;
        let mut weights = vec![(1000 - each) * 10];
        weights.extend(possible.iter().map(|fault| each * kinds[*fault as usize]));
        match self.choose.pick(&weights) {
            0 => Fault::None,
            picked => {
                self.budget.faults -= 1;
                let fault = possible[picked - 1];
                self.count(fault.name());
                self.shaken = matches!(fault, Fault::ReplyLost | Fault::Late);
                fault
            }
        }
    }
}

/// How faults of stores come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// In this many of a thousand steps.
    pub per_mille: u32,
    /// At which.
    pub on: FaultOn,
    /// Weights: reply lost, nothing written, written later, "exists" with nothing written.
    pub kinds: [u32; 4],
}

/// The steps that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOn {
    /// Every step.
    All,
    /// Writes to bronze.
    Bronze,
    /// `commits/<n>`.
    Done,
    /// `offsets/<n>.a<k>`.
    Plan,
    /// `owner.json`.
    Owner,
    /// Nothing of these.
    Other,
}

/// What a store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It did it, and does not say so.
    ReplyLost,
    /// It did nothing.
    Failed,
    /// It did nothing yet.
    Late,
    /// It says that it is there, and did nothing.
    Exists,
    None,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::None => "no fault",
            Fault::ReplyLost => "fault: reply lost",
            Fault::Failed => "fault: nothing written",
            Fault::Late => "fault: written later",
            Fault::Exists => "fault: exists, nothing written",
        }
    }
}

/// The store did not answer, or with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoAnswer;

/// Why a task ended before its work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stop {
    /// It was asked to.
    Asked,
    /// Another process has the stream.
    Owned,
    /// Its lease was ended by another.
    LeaseEnded,
    /// Bronze has a higher fencing number.
    Fenced,
    /// Bronze has another newest batch than the one that the process knows.
    Moved,
    /// A commit may or may not be there.
    Unknown,
    /// The store did not answer for too long.
    Store,
    /// A name is taken by something else.
    Conflict,
    /// A file cannot be read, or one is missing.
    Damaged,
    /// Bronze or facts are ahead of the checkpoint.
    Rewound,
    /// Bronze lacks what is done.
    BronzeBehind,
    /// Bronze has a batch that should have no rows.
    Foreign,
    /// Bronze has another batch under the number.
    OtherBatch,
    /// The chain changed, and nobody said that it may.
    Chain,
    /// What is wanted is purged.
    DataLoss,
}

impl Stop {
    /// It says that files or tables are not what they were written as.
    pub fn is_alarm(self) -> bool {
        use Stop::{BronzeBehind, Damaged, Foreign, OtherBatch, Rewound};
        matches!(self, Damaged | Rewound | BronzeBehind | Foreign | OtherBatch)
    }
}

/// Answer of a conditional write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Put {
    /// Written now.
    Written,
    /// There already, or something else is there.
    Exists,
}

/// A recorded batch on its way to facts and verdict.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Committed {
    /// The stream.
    pub stream: Stream,
    /// Facts rows, in order.
    pub entries: Vec<FactsRow>,
    /// Where the verdict may go.
    pub verdict: Lsn,
}

/// What the tasks of a process share.
#[derive(Debug)]
pub struct Memory {
    /// The process.
    pub pid: Pid,
    /// Its configuration.
    pub settings: Settings,
    /// Batches that wait for their facts.
    pub queue: RefCell<VecDeque<Committed>>,
    /// Streams that run.
    pub running: Cell<usize>,
    /// Another process ended the lease, and this one has seen it.
    pub lease_ended: Cell<bool>,
    /// Somebody asked the process to stop.
    pub asked: Cell<bool>,
    /// Tokens that were given out.
    pub tokens: Cell<u32>,
}

/// A task's hands.
#[derive(Clone)]
pub struct Hands {
    /// The world.
    pub world: Rc<RefCell<World>>,
    /// The process.
    pub memory: Rc<Memory>,
    /// What the task has seen so far: it is all that its state depends on.
    pub seen: Rc<Cell<u64>>,
    /// The stream is being opened: after a failure it is opened again.
    pub opening: Rc<Cell<bool>>,
    /// What `owner.json` was written as by this task.
    pub counted: Rc<Cell<Option<Owner>>>,
    /// That number is claimed in bronze.
    pub claimed: Rc<Cell<bool>>,
    /// The task is the publisher, in the middle of its work.
    pub publishing: Rc<Cell<bool>>,
}

impl Hands {
    /// Of a task that begins.
    pub fn new(world: &Rc<RefCell<World>>, memory: &Rc<Memory>) -> Hands {
        Hands {
            world: Rc::clone(world),
            memory: Rc::clone(memory),
            seen: Rc::new(Cell::new(0)),
            opening: Rc::new(Cell::new(true)),
            counted: Rc::new(Cell::new(None)),
            claimed: Rc::new(Cell::new(false)),
            publishing: Rc::new(Cell::new(false)),
        }
    }

    /// Ends the step before, so that anything can happen before what follows.
    pub fn turn(&self) -> impl Future<Output = ()> {
        let mut first = true;
        std::future::poll_fn(move |_: &mut Context<'_>| match std::mem::replace(&mut first, false) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
    }

    /// Waits until there is something to publish, or nothing will come.
    pub fn wait(&self) -> impl Future<Output = ()> + '_ {
        std::future::poll_fn(|_: &mut Context<'_>| match self.memory.can_publish() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
    }

    /// A number that no other commit has.
    pub fn token(&self) -> (Pid, u32) {
        self.memory.tokens.set(self.memory.tokens.get() + 1);
        (self.memory.pid, self.memory.tokens.get())
    }

    /// Whether that fault is planted.
    pub fn is(&self, planted: Planted) -> bool {
        self.world.borrow().is(planted)
    }

    /// Counts something.
    pub fn count(&self, what: &'static str) {
        self.world.borrow_mut().count(what);
    }

    /// Remembers what was seen, for the comparison of states.
    pub fn observe(&self, what: &impl Hash) {
        let mut hasher = DefaultHasher::new();
        (self.seen.get(), what).hash(&mut hasher);
        self.seen.set(hasher.finish());
    }

    /// Reads something. One step.
    pub async fn read<T: Hash + Clone>(&self, what: &str, get: impl FnOnce(&mut World) -> T) -> Result<T, NoAnswer> {
        self.turn().await;
        let world = &mut *self.world.borrow_mut();
        let answer = match world.fault(FaultOn::Other, &[Fault::Failed]) {
            Fault::None => Ok(get(world)),
            _ => Err(NoAnswer),
        };
        let pid = self.memory.pid;
        let failed = answer.is_err();
        world.note(|| format!("process {pid} reads {what}{}", if failed { ": no answer" } else { "" }));
        self.observe(&answer);
        // Between a look at the fence and the write that relies on it.
        world.shaken |= what == "the fence";
        world.moment =
            matches!(what, "the fence" | "owner.json" | "offsets" | "commits" | "bronze") || what.starts_with("Bronze");
        world.ripe = what.starts_with("bronze");
        answer
    }

    /// Reads something until the store answers.
    pub async fn read_on<T: Hash + Clone>(&self, what: &str, mut get: impl FnMut(&mut World) -> T) -> T {
        loop {
            if let Ok(answer) = self.read(what, &mut get).await {
                return answer;
            }
        }
    }

    /// A log as it is now.
    pub async fn log(&self, log: LogId) -> Result<Snapshot, NoAnswer> {
        self.read(&format!("{log:?}"), |world| world.stores.log(log)).await
    }

    /// Put-if-absent.
    pub async fn put_new(&self, key: Key, object: Object) -> Result<Put, NoAnswer> {
        self.write(Late::New(key, object)).await
    }

    /// Compare and replace.
    pub async fn replace(&self, key: Key, seen: Option<Object>, object: Object) -> Result<Put, NoAnswer> {
        self.write(Late::Replace(key, seen, object)).await
    }

    /// Replace, whatever is there.
    pub async fn put(&self, key: Key, object: Object) -> Result<Put, NoAnswer> {
        self.write(Late::Put(key, object)).await
    }

    /// The next version of a log.
    pub async fn append(&self, log: LogId, version: usize, entry: Entry) -> Result<Put, NoAnswer> {
        self.write(Late::Append(log, version, entry)).await
    }

    async fn write(&self, request: Late) -> Result<Put, NoAnswer> {
        self.turn().await;
        let world = &mut *self.world.borrow_mut();
        let is_local = world.mode == Mode::Lock && !matches!(request, Late::Append(..));
        // A system call of a process that died does not go on.
        let on = match &request {
            Late::Append(LogId::Bronze(_), ..) => FaultOn::Bronze,
            Late::New(Key::Done(..), _) => FaultOn::Done,
            Late::New(Key::Plan(..), _) => FaultOn::Plan,
            Late::Put(Key::Owner(_), _) => FaultOn::Owner,
            _ => FaultOn::Other,
        };
        let fault = match (is_local, &request) {
            (true, _) => world.fault(on, &[Fault::ReplyLost, Fault::Failed]),
            (false, Late::Put(..)) => world.fault(on, &[Fault::ReplyLost, Fault::Failed, Fault::Late]),
            (false, _) => world.fault(on, &[Fault::ReplyLost, Fault::Failed, Fault::Late, Fault::Exists]),
        };
        let pid = self.memory.pid;
        let text = world.trace.is_some().then(|| describe(&request));
        world.ripe = match &request {
            Late::New(Key::Plan(_, _, attempt), _) => *attempt > 0,
            Late::Append(.., entry) => matches!(entry.body, Body::Rows(..)),
            _ => false,
        };
        // In the midst of a take-over.
        world.shaken |= match &request {
            Late::Put(Key::Owner(_), Object::Owner(owner)) => owner.owes,
            Late::Append(.., entry) => world.mode == Mode::Lease && matches!(entry.body, Body::Claim(_)),
            _ => false,
        };
        world.moment = world.shaken
            || match &request {
                Late::Put(Key::Owner(_), _) => true,
                Late::Append(.., entry) => matches!(entry.body, Body::Rows(..)),
                _ => false,
            };
        let written = match fault {
            Fault::None | Fault::ReplyLost => match request {
                Late::New(key, object) => world.stores.put_new(key, object),
                Late::Replace(key, seen, object) => world.stores.replace(key, &seen, object),
                Late::Put(key, object) => world.stores.put(key, object),
                Late::Append(log, version, entry) => world.stores.append(log, version, entry),
            },
            Fault::Late => {
                world.stores.late.push(request);
                false
            }
            Fault::Failed | Fault::Exists => false,
        };
        let answer = match (fault, written) {
            (Fault::None, true) => Ok(Put::Written),
            (Fault::None, false) | (Fault::Exists, _) => Ok(Put::Exists),
            _ => Err(NoAnswer),
        };
        world.note(|| {
            let ended = match fault {
                Fault::None if written => "written",
                Fault::None => "is there",
                other => other.name(),
            };
            format!("process {pid} writes {}: {ended}", text.unwrap_or_default())
        });
        self.observe(&answer);
        answer
    }
}

impl Memory {
    /// Whether the publisher has something to do, or is to end.
    pub fn can_publish(&self) -> bool {
        !self.queue.borrow().is_empty() || self.running.get() == 0
    }
}

/// A write in a line.
pub fn describe(request: &Late) -> String {
    match request {
        Late::New(key, object) => format!("{key:?} ({object:?})"),
        Late::Replace(key, _, object) | Late::Put(key, object) => format!("{key:?} := {object:?}"),
        Late::Append(log, version, entry) => format!("{log:?} version {version} {:?} {:?}", entry.txns, entry.body),
    }
}

/// A task of a process.
pub type Task = Pin<Box<dyn Future<Output = Result<(), Stop>>>>;
