//! Every schedule of a small configuration. States that were seen are not gone into again: what a process will do depends
//! on its configuration and on the answers that it got, and those are compared.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use crate::choice::{Choose, Scripted};
use crate::config::Config;
use crate::play::Play;
use crate::schedule::{Failure, Stats};

/// What was tried.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    /// States that were seen.
    pub states: usize,
    /// Schedules that were played to a state that was seen, or to their end.
    pub schedules: usize,
    /// How often each thing happened.
    pub stats: Stats,
}

#[derive(Clone)]
struct Shared(Rc<RefCell<Scripted>>);

impl Choose for Shared {
    fn pick(&mut self, weights: &[u32]) -> usize {
        self.0.borrow_mut().pick(weights)
    }

    fn replays(&self) -> bool {
        self.0.borrow().replays()
    }
}

/// Tries every schedule, or `limit` of them: then the answer is what was tried, and less than all.
pub fn explore(config: &Config, limit: usize) -> Result<Tried, Box<Failure>> {
    let script = Rc::new(RefCell::new(Scripted::default()));
    let mut seen = HashSet::new();
    let mut tried = Tried::default();
    loop {
        let mut play = Play::new(config.clone(), Box::new(Shared(Rc::clone(&script))), false);
        let ended = play.run(|play| {
            // On the way to where the script takes a new turn, everything was seen.
            script.borrow().replays() || seen.insert(play.state())
        });
        tried.schedules += 1;
        for (what, times) in &play.world.borrow().counts {
            *tried.stats.entry(what).or_default() += times;
        }
        if let Err(violation) = ended {
            script.borrow_mut().at = 0;
            let mut play = Play::new(config.clone(), Box::new(Shared(Rc::clone(&script))), true);
            let _ = play.run(|_| true);
            let trace = play.world.borrow_mut().trace.take().unwrap_or_default();
            return Err(Box::new(Failure {
                seed: None,
                planted: config.planted,
                invariant: violation.invariant,
                found: violation.found,
                config: config.clone(),
                trace,
            }));
        }
        if !script.borrow_mut().advance() || tried.schedules >= limit {
            break;
        }
    }
    tried.states = seen.len();
    Ok(tried)
}
