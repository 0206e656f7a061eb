//! Processes on a world, an action at a time.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::task::{Context, Waker};

use crate::check::{self, Violation};
use crate::choice::Choose;
use crate::config::Config;
use crate::owner;
use crate::publish;
use crate::stores::{Key, Late, Lease, LeaseState, Lsn, Object, Pid, Stores, Stream};
use crate::world::{Hands, Memory, Mode, Stop, Task, World, describe};

pub(crate) struct Running {
    task: Task,
    pub(crate) hands: Hands,
    /// `None`: the publisher.
    pub(crate) stream: Option<Stream>,
}

pub(crate) struct Process {
    pub(crate) memory: Rc<Memory>,
    pub(crate) tasks: Vec<Running>,
    pub(crate) paused: bool,
    ends: BTreeMap<Stream, Result<(), Stop>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Step(usize, usize),
    Start(usize),
    Crash(usize),
    Pause(usize),
    Wake(usize),
    Ask(usize),
    Reopen(usize, usize),
    Land(usize),
    Beat(usize),
    Grow,
    Purge,
    Change,
    Damage,
}

/// A world with two places for processes.
pub struct Play {
    /// The world.
    pub world: Rc<RefCell<World>>,
    pub(crate) processes: [Option<Process>; 2],
    /// How the last process at each place ended.
    pub(crate) ends: [BTreeMap<Stream, Result<(), Stop>>; 2],
    next_pid: Pid,
    /// The place of the last step.
    turn: usize,
    pub(crate) config: Config,
    verdicts: [Option<Lsn>; 2],
    /// A process said that the checkpoint is broken, and nobody broke it.
    alarm: Option<(Stream, Stop)>,
}

impl Play {
    /// Nothing has happened yet.
    pub fn new(config: Config, choose: Box<dyn Choose>, traced: bool) -> Play {
        let mut stores = Stores::default();
        stores.source.commits.clone_from(&config.commits);
        stores.source.min = 1;
        let world = World {
            stores,
            mode: config.mode,
            planted: config.planted,
            settings: config.settings,
            budget: config.budget,
            choose,
            faults: config.faults,
            counts: BTreeMap::new(),
            trace: traced.then(Vec::new),
            still: Vec::new(),
            stops_at_once: config.orderly,
            quiet: false,
            shaken: false,
            moment: false,
            ripe: false,
        };
        Play {
            world: Rc::new(RefCell::new(world)),
            processes: [None, None],
            ends: [BTreeMap::new(), BTreeMap::new()],
            next_pid: 1,
            turn: 0,
            config,
            verdicts: [None, None],
            alarm: None,
        }
    }

    /// Plays to the end. `go_on` is asked before each action of the disturbed part, and may end the play early: then
    /// nothing is said about its end.
    pub fn run(&mut self, mut go_on: impl FnMut(&Play) -> bool) -> Result<bool, Violation> {
        for _ in 0..self.config.steps {
            if !go_on(self) {
                return Ok(false);
            }
            let (actions, weights) = self.actions();
            {
                let world = &mut *self.world.borrow_mut();
                (world.shaken, world.ripe, world.moment) = (false, false, false);
            }
            if actions.is_empty() {
                break;
            }
            let picked = self.world.borrow_mut().choose.pick(&weights);
            self.act(actions[picked]);
            self.check()?;
        }
        self.settle()?;
        Ok(true)
    }

    /// What everything depends on from here.
    pub fn state(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let world = self.world.borrow();
        (&world.stores, world.settings, world.budget, &world.still).hash(&mut hasher);
        (self.next_pid, self.config.moments.then_some((world.moment, self.turn))).hash(&mut hasher);
        for (process, ends) in self.processes.iter().zip(&self.ends) {
            ends.hash(&mut hasher);
            let Some(process) = process else {
                continue;
            };
            (
                process.memory.pid,
                process.memory.settings,
                process.paused,
                process.memory.lease_ended.get(),
                process.memory.asked.get(),
            )
                .hash(&mut hasher);
            process.memory.queue.borrow().hash(&mut hasher);
            for running in &process.tasks {
                (running.stream, running.hands.seen.get(), running.hands.opening.get()).hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    pub(crate) fn check(&mut self) -> Result<(), Violation> {
        if let Some((stream, stop)) = self.alarm {
            return Err(Violation {
                invariant: "nobody says that a whole checkpoint is broken",
                found: format!("stream {stream}: {stop:?}"),
            });
        }
        let world = self.world.borrow();
        if world.choose.replays() {
            self.verdicts = [0, 1].map(|stream| world.stores.verdict(stream));
            return Ok(());
        }
        if self.config.budget.damages == 0 && self.config.mode == Mode::Lock {
            check::owners(&world.stores)?;
        }
        check::always(&world.stores, world.planted, &mut self.verdicts)
    }

    fn actions(&self) -> (Vec<Action>, Vec<u32>) {
        let world = self.world.borrow();
        let budget = world.budget;
        let weights = self.config.weights;
        // A write without an answer is a good moment to kill its process.
        let shaken = if world.shaken { 20 } else { 1 };
        let ripe = if world.ripe { 20 } else { 1 };
        let now = world.moment || !self.config.moments;
        // Otherwise the process whose turn it is goes on.
        let rests = |place: usize| self.processes[place].as_ref().is_none_or(|process| process.paused);
        let is_turn = |place: usize| now || place == self.turn || rests(self.turn);
        let mut actions = Vec::new();
        let mut offer = |action, weight: u32, may: bool| {
            if may {
                actions.push((action, weight));
            }
        };
        for (place, process) in self.processes.iter().enumerate() {
            let Some(process) = process else {
                let other = self.processes[1 - place].as_ref();
                let alone = other.is_none_or(|other| other.paused && world.mode == Mode::Lease);
                offer(
                    Action::Start(place),
                    if alone { weights.start } else { weights.join },
                    budget.starts > 0 && is_turn(place),
                );
                continue;
            };
            if process.paused {
                let may = (weights.join > 0 || budget.starts == 0) && is_turn(place);
                offer(Action::Wake(place), weights.wake * ripe, may);
                continue;
            }
            let publishing = process
                .tasks
                .iter()
                .any(|task| task.stream.is_none() && task.publishing());
            let publishes = self.config.orderly && (publishing || process.memory.can_publish());
            for (task, running) in process.tasks.iter().enumerate() {
                let may = match running.stream {
                    None => process.memory.can_publish() || running.publishing(),
                    Some(_) => !publishes,
                };
                let weight = if running.stream.is_none() {
                    weights.publisher
                } else {
                    200
                };
                offer(Action::Step(place, task), weight, may && is_turn(place));
            }
            let (pid, sleeper, victim) = (process.memory.pid, self.config.sleeper, self.config.victim);
            let may_die = victim.is_none_or(|victim| victim == pid);
            let may_sleep = sleeper.is_none_or(|sleeper| sleeper == pid);
            offer(
                Action::Crash(place),
                weights.crash * shaken,
                now && budget.crashes > 0 && may_die,
            );
            offer(
                Action::Pause(place),
                weights.pause * shaken,
                now && budget.pauses > 0 && may_sleep,
            );
            offer(Action::Ask(place), weights.ask, budget.asks > 0);
            for (task, running) in process.tasks.iter().enumerate() {
                let may = running.stream.is_some() && running.hands.opening.get() && now && budget.reopens > 0;
                offer(Action::Reopen(place, task), weights.reopen * shaken, may);
            }
            let beats = world.mode == Mode::Lease
                && budget.beats > 0
                && world.stores.lease(process.memory.pid) != LeaseState::Missing;
            offer(Action::Beat(place), weights.beat, beats);
        }
        for late in 0..world.stores.late.len() {
            offer(Action::Land(late), weights.land * ripe, true);
        }
        offer(Action::Grow, weights.grow, budget.grows > 0);
        offer(
            Action::Purge,
            weights.purge,
            budget.purges > 0 && world.stores.source.min <= world.stores.source.max(),
        );
        let rests = |process: &Option<Process>| process.as_ref().is_none_or(|process| process.paused);
        let (idle, still) = (
            self.processes.iter().all(Option::is_none),
            self.processes.iter().all(rests),
        );
        // What a process reads at its start need not change in between, where every order is tried.
        let starts = match weights.join {
            0 => still && budget.starts < 2,
            _ => still || (budget.starts > 0 && self.processes.iter().any(Option::is_none)),
        };
        offer(
            Action::Change,
            weights.change,
            budget.changes > 0 && (starts || !self.config.orderly),
        );
        offer(Action::Damage, weights.damage, budget.damages > 0 && idle);
        actions.into_iter().unzip()
    }

    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Step(place, task) => self.step(place, task),
            Action::Start(place) => {
                self.world.borrow_mut().budget.starts -= 1;
                self.start(place);
            }
            Action::Crash(place) => {
                if let Some(process) = self.processes[place].take() {
                    let world = &mut *self.world.borrow_mut();
                    world.budget.crashes -= 1;
                    let pid = process.memory.pid;
                    world.note(|| format!("process {pid} is killed"));
                    world.count("crash");
                    if !world.stores.late.is_empty() {
                        world.count("crash with a write on its way");
                    }
                    world.stores.locks.retain(|_, holder| *holder != pid);
                    match world.mode == Mode::Lease && world.choose.pick(&self.config.weights.seen) == 0 {
                        true => {
                            world.note(|| "its death is seen".to_owned());
                            world.count("death seen");
                            world.stores.dead.insert(pid);
                        }
                        false => world.still.push(pid),
                    }
                }
            }
            Action::Pause(place) => {
                if let Some(process) = &mut self.processes[place] {
                    process.paused = true;
                    let pid = process.memory.pid;
                    let world = &mut *self.world.borrow_mut();
                    world.budget.pauses -= 1;
                    world.still.push(pid);
                    world.count("pause");
                    world.note(|| format!("process {pid} stands still"));
                }
            }
            Action::Wake(place) => {
                if let Some(process) = &mut self.processes[place] {
                    process.paused = false;
                    let pid = process.memory.pid;
                    let world = &mut *self.world.borrow_mut();
                    world.still.retain(|still| *still != pid);
                    world.moment = true;
                    world.count("wake");
                    world.note(|| format!("process {pid} wakes up"));
                }
            }
            Action::Ask(place) => {
                let world = &mut *self.world.borrow_mut();
                world.budget.asks -= 1;
                if let Some(process) = &self.processes[place] {
                    process.memory.asked.set(true);
                    let pid = process.memory.pid;
                    world.note(|| format!("process {pid} is asked to stop"));
                }
            }
            Action::Reopen(place, task) => {
                {
                    let world = &mut *self.world.borrow_mut();
                    world.budget.reopens -= 1;
                    world.count("stream opened again");
                    if let Some(process) = &self.processes[place] {
                        let (pid, stream) = (process.memory.pid, process.tasks[task].stream);
                        world.note(|| {
                            format!("process {pid} fails while it opens stream {stream:?}, and opens it again")
                        });
                    }
                }
                self.reopen(place, task);
            }
            Action::Land(late) => {
                let world = &mut *self.world.borrow_mut();
                let text = world.trace.is_some().then(|| describe(&world.stores.late[late]));
                let lease = match &world.stores.late[late] {
                    Late::New(Key::Lease(pid), _) => Some(*pid),
                    _ => None,
                };
                let written = world.stores.land(late);
                let runs = |pid| self.processes.iter().flatten().any(|process| process.memory.pid == pid);
                // A lease that nobody renews.
                world.still.extend(lease.filter(|pid| written && !runs(*pid)));
                world.count(if written {
                    "late write arrived"
                } else {
                    "late write was refused"
                });
                world.note(|| {
                    let ended = if written { "written" } else { "refused" };
                    format!("a late write of {} arrives: {ended}", text.unwrap_or_default())
                });
            }
            Action::Beat(place) => {
                self.world.borrow_mut().budget.beats -= 1;
                self.beat(place);
            }
            Action::Grow => {
                let world = &mut *self.world.borrow_mut();
                world.budget.grows -= 1;
                let rows = [world.choose.pick(&[3, 3, 2]) as u8, world.choose.pick(&[3, 3, 2]) as u8];
                world.stores.source.commits.push(rows);
                let lsn = world.stores.source.max();
                world.note(|| format!("the source has commit {lsn} with {rows:?} rows"));
            }
            Action::Purge => {
                let world = &mut *self.world.borrow_mut();
                world.budget.purges -= 1;
                world.stores.source.min += 1;
                let min = world.stores.source.min;
                world.count("purge");
                world.note(|| format!("the source keeps commits from {min} on"));
            }
            Action::Change => self.change(),
            Action::Damage => self.damage(),
        }
    }

    pub(crate) fn start(&mut self, place: usize) {
        let pid = self.next_pid;
        self.next_pid += 1;
        let world = Rc::clone(&self.world);
        let memory = Rc::new(Memory {
            pid,
            settings: world.borrow().settings,
            queue: RefCell::new(VecDeque::new()),
            running: Cell::new(self.config.streams),
            lease_ended: Cell::new(false),
            asked: Cell::new(false),
            tokens: Cell::new(0),
        });
        world
            .borrow_mut()
            .note(|| format!("process {pid} starts with {:?}", memory.settings));
        let hands = || Hands::new(&world, &memory);
        let mode = self.config.mode;
        let mut tasks: Vec<Running> = (0..self.config.streams)
            .map(|stream| {
                let hands = hands();
                Running {
                    task: Box::pin(owner::run(hands.clone(), mode, stream)),
                    hands,
                    stream: Some(stream),
                }
            })
            .collect();
        let hands = hands();
        tasks.push(Running {
            task: Box::pin(publish::publish(hands.clone())),
            hands,
            stream: None,
        });
        self.processes[place] = Some(Process {
            memory,
            tasks,
            paused: false,
            ends: BTreeMap::new(),
        });
        // To where the first step is about to be taken.
        for task in (0..=self.config.streams).rev() {
            self.step(place, task);
        }
    }

    fn reopen(&mut self, place: usize, task: usize) {
        let Some(process) = &mut self.processes[place] else {
            return;
        };
        let Some(stream) = process.tasks[task].stream else {
            return;
        };
        let hands = Hands::new(&self.world, &process.memory);
        // What the process will do depends on what it did: its numbers go on.
        hands.observe(&process.memory.tokens.get());
        process.tasks[task] = Running {
            task: Box::pin(owner::run(hands.clone(), self.config.mode, stream)),
            hands,
            stream: Some(stream),
        };
        self.step(place, task);
    }

    fn step(&mut self, place: usize, task: usize) {
        let Some(process) = &mut self.processes[place] else {
            return;
        };
        self.turn = place;
        let running = &mut process.tasks[task];
        let mut context = Context::from_waker(Waker::noop());
        let std::task::Poll::Ready(ended) = running.task.as_mut().poll(&mut context) else {
            return;
        };
        let pid = process.memory.pid;
        let ended_task = process.tasks.remove(task);
        let world = &mut *self.world.borrow_mut();
        if let Some(stream) = ended_task.stream {
            world.note(|| format!("process {pid} ends stream {stream}: {ended:?}"));
            if let Err(stop) = ended {
                world.count(name(stop));
                if stop.is_alarm() && self.config.budget.damages == world.budget.damages {
                    self.alarm = Some((stream, stop));
                }
            }
            process.ends.insert(stream, ended);
        }
        if !process.tasks.is_empty() {
            return;
        }
        world.note(|| format!("process {pid} ends"));
        world.stores.locks.retain(|_, holder| *holder != pid);
        // Also a lease that was ended is given back: the process is gone.
        world.stores.objects.remove(&Key::Lease(pid));
        self.ends[place] = std::mem::take(&mut process.ends);
        self.processes[place] = None;
    }

    /// The process raises its lease's beat, and so finds out when the lease was ended.
    fn beat(&mut self, place: usize) {
        let Some(process) = &self.processes[place] else {
            return;
        };
        let pid = process.memory.pid;
        let world = &mut *self.world.borrow_mut();
        let lease = match world.stores.lease(pid) {
            LeaseState::Held(lease) => lease,
            LeaseState::Ended => {
                process.memory.lease_ended.set(true);
                world.note(|| format!("process {pid} sees that its lease was ended"));
                return;
            }
            LeaseState::Missing | LeaseState::Dead => return,
        };
        world.count("beat");
        world.note(|| format!("process {pid} raises its beat"));
        let raised = Lease {
            beat: lease.beat + 1,
            ended: false,
        };
        world.stores.objects.insert(Key::Lease(pid), Object::Lease(raised));
    }
}

impl Running {
    /// The publisher is in the middle of its work.
    pub(crate) fn publishing(&self) -> bool {
        self.hands.publishing.get()
    }
}

fn name(stop: Stop) -> &'static str {
    match stop {
        Stop::Asked => "stopped: asked to",
        Stop::Owned => "stopped: owned by another",
        Stop::LeaseEnded => "stopped: its lease was ended",
        Stop::Fenced => "stopped: fenced",
        Stop::Moved => "stopped: bronze moved",
        Stop::Unknown => "stopped: commit unknown",
        Stop::Store => "stopped: store",
        Stop::Conflict => "stopped: name taken",
        Stop::Damaged => "stopped: checkpoint damaged",
        Stop::Rewound => "stopped: checkpoint set back",
        Stop::BronzeBehind => "stopped: bronze behind",
        Stop::Foreign => "stopped: foreign batch",
        Stop::OtherBatch => "stopped: other batch in bronze",
        Stop::Chain => "stopped: chain changed",
        Stop::DataLoss => "stopped: data loss",
    }
}
