//! What happens to a schedule from outside: another configuration, lost files, and at last nobody who disturbs.

use std::collections::BTreeSet;

use crate::check::{self, Violation};
use crate::play::{Action, Play};
use crate::stores::{Key, LogId, Txn, recorded};
use crate::world::Stop;

/// Steps of the undisturbed end: far more than it takes.
const QUIET_STEPS: u32 = 20_000;
/// Starts of a process in the undisturbed end.
const QUIET_STARTS: u32 = 6;

impl Play {
    pub(crate) fn change(&mut self) {
        let world = &mut *self.world.borrow_mut();
        world.budget.changes -= 1;
        // Where every order is tried, one other chain is enough.
        let kinds = if world.stops_at_once { [1, 0, 0] } else { [4, 1, 1] };
        match world.choose.pick(&kinds) {
            _ if world.stops_at_once => world.settings.chain = (world.settings.chain + 1) % 3,
            0 => world.settings.chain = world.choose.pick(&[1, 1, 1]) as u8,
            1 => world.settings.go_on = !world.settings.go_on,
            _ => world.stores.source.offset += 1,
        }
        world.count("change of configuration or clock");
        let (settings, offset) = (world.settings, world.stores.source.offset);
        world.note(|| format!("from now on {settings:?}, clock offset {offset}"));
    }

    /// A file of the first stream's checkpoint is lost or torn.
    pub(crate) fn damage(&mut self) {
        let world = &mut *self.world.borrow_mut();
        world.budget.damages -= 1;
        let done = world.stores.done(0);
        let newest = done.last().map_or(0, |done| done.batch);
        let facts = recorded(&world.stores.log(LogId::Facts), Txn::Facts(0));
        let weights = [3, u32::from(newest > 0) * 3, 1, 1];
        let (key, torn) = match world.choose.pick(&weights) {
            0 => (Key::Done(0, newest), false),
            1 => {
                // Best one that the facts table lacks.
                let lacking = facts.map_or(0, |facts| facts + 1);
                let middle = match lacking < newest && world.choose.pick(&[1, 1]) == 0 {
                    true => lacking,
                    false => world.choose.pick(&vec![1; newest as usize]) as i64,
                };
                (Key::Done(0, middle), false)
            }
            2 => (Key::Done(0, newest), true),
            _ => (Key::Owner(0), true),
        };
        if !world.stores.objects.contains_key(&key) {
            return;
        }
        match torn {
            true => {
                world.stores.torn.insert(key);
                world.count("file torn");
            }
            false => {
                world.stores.objects.remove(&key);
                let next_is_planned = world.stores.plans(0).iter().any(|plan| plan.batch > newest);
                if matches!(key, Key::Done(_, n) if n == newest && Some(n) > facts) && !next_is_planned {
                    // Nobody has seen it, so it may be recorded anew as something else.
                    world.stores.ever.remove(&key);
                }
                world.count("file lost");
            }
        }
        world.note(|| format!("{key:?} is {}", if torn { "torn" } else { "lost" }));
    }

    /// Nobody disturbs any more: everything that is to happen happens.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        {
            let world = &mut *self.world.borrow_mut();
            world.quiet = true;
            world.settings.go_on = true;
            world.note(|| "from here on nobody disturbs".to_owned());
        }
        for place in 0..2 {
            if self.processes[place].as_ref().is_some_and(|process| process.paused) {
                self.act(Action::Wake(place));
            }
        }
        let mut starts = [0; 2];
        for _ in 0..QUIET_STEPS {
            let late = self.world.borrow().stores.late.len();
            if late > 0 {
                self.act(Action::Land(late - 1));
                self.check()?;
                continue;
            }
            let mut actions = Vec::new();
            for (place, process) in self.processes.iter().enumerate() {
                let Some(process) = process else {
                    continue;
                };
                for (task, running) in process.tasks.iter().enumerate() {
                    if running.stream.is_some() || process.memory.can_publish() || running.publishing() {
                        actions.push(Action::Step(place, task));
                    }
                }
            }
            if actions.is_empty() {
                // Each place gets a run of its own, after the other's.
                let wants = |place: &usize| {
                    let ends = &self.ends[*place];
                    starts[*place] == 0
                        || (starts[*place] < QUIET_STARTS && ends.values().any(|end| !matches!(end, Ok(()))))
                };
                let Some(place) = (0..2).find(wants) else {
                    return self.finally();
                };
                starts[place] += 1;
                self.start(place);
                continue;
            }
            let picked = match self.config.steps {
                // Few orders where all of them are tried.
                _ if self.config.orderly => actions.len() - 1,
                _ => self.world.borrow_mut().choose.pick(&vec![1; actions.len()]),
            };
            self.act(actions[picked]);
            self.check()?;
        }
        Err(Violation {
            invariant: "an undisturbed run ends",
            found: format!("it did not within {QUIET_STEPS} steps"),
        })
    }

    fn finally(&mut self) -> Result<(), Violation> {
        let world = &mut *self.world.borrow_mut();
        let mut stopped = BTreeSet::new();
        for stream in 0..self.config.streams {
            let stop = match (self.ends[0].get(&stream), self.ends[1].get(&stream)) {
                (Some(Ok(())), _) | (_, Some(Ok(()))) => continue,
                (Some(Err(stop)), _) | (_, Some(Err(stop))) => *stop,
                (None, None) => Stop::Store,
            };
            let position = world.stores.done(stream).last().map_or(0, |done| done.end);
            let open = world
                .stores
                .plans(stream)
                .last()
                .and_then(|plan| plan.range)
                .map_or(0, |(from, _)| from);
            let lost = position + 1 < world.stores.source.min || open < world.stores.source.min;
            let is_damaged = self.config.budget.damages > world.budget.damages;
            let allowed = match stop {
                Stop::DataLoss => lost,
                _ => is_damaged,
            };
            if !allowed {
                return Err(Violation {
                    invariant: "an undisturbed run stops only where the protocol says so",
                    found: format!("stream {stream}: {stop:?}"),
                });
            }
            world.count(match stop {
                Stop::DataLoss => "ended with data loss",
                _ => "ended refused after damage",
            });
            stopped.insert(stream);
        }
        if stopped.is_empty() {
            world.count("ended with everything delivered");
        }
        check::finally(&world.stores, &stopped, self.config.streams)
    }
}
