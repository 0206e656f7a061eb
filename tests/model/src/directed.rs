//! Schedules that were found by thinking, step by step.

use crate::choice::Seeded;
use crate::config::{Config, config};
use crate::planted::Planted;
use crate::play::{Action, Play};
use crate::stores::{Key, Late, Object, Owner};
use crate::world::{Budget, FaultOn, Mode, Settings};

/// One stream under leases, with a commit of two rows: chain 1 keeps one of them, chain 2 none.
fn play(planted: Option<Planted>) -> Play {
    let mut config: Config = config(0, planted);
    (config.mode, config.streams, config.commits) = (Mode::Lease, 1, vec![[2, 0]]);
    config.settings = Settings { chain: 1, go_on: true };
    config.budget = Budget {
        pauses: 2,
        changes: 1,
        reopens: 1,
        ..Budget::default()
    };
    config.faults.on = FaultOn::Other;
    config.orderly = true;
    config.weights.seen = [1, 0];
    Play::new(config, Box::new(Seeded::new(0)), true)
}

impl Play {
    fn told(&self) -> String {
        self.world
            .borrow()
            .trace
            .as_ref()
            .map_or_else(String::new, |lines| lines.join("\n"))
    }

    fn last(&self) -> String {
        self.told().lines().last().unwrap_or_default().to_owned()
    }

    /// Steps of the stream of a process until one of them says `what`.
    fn until(&mut self, place: usize, what: &str) {
        for _ in 0..100 {
            self.act(Action::Step(place, 0));
            if self.last().contains(what) {
                return;
            }
        }
        panic!("never {what}: {}", self.told());
    }
}

#[test]
fn who_opens_again_slept_while_a_successor_planned() {
    for planted in [None, Some(Planted::OpenedAgainOwesNothing)] {
        let mut play = play(planted);
        play.start(0);
        play.until(0, "owes: false");
        play.act(Action::Reopen(0, 0));
        play.until(0, "reads owner.json");
        play.act(Action::Pause(0));
        play.act(Action::Change);
        play.start(1);
        play.until(1, "owes: false");
        play.until(1, "reads the fence");
        play.act(Action::Pause(1));
        play.act(Action::Wake(0));
        play.until(0, "Rows");
        play.act(Action::Wake(1));
        play.act(Action::Step(1, 0));
        assert_eq!(play.check().is_ok(), planted.is_none(), "{}", play.told());
    }
}

/// What a process wrote to `owner.json` and was not answered arrives when another has the stream.
#[test]
fn who_was_overtaken_while_it_read_is_named_by_a_late_write() {
    for planted in [None, Some(Planted::OnlyOwnerAsked)] {
        let mut play = play(planted);
        play.start(0);
        play.until(0, "owes: true");
        let owner = Owner {
            pid: 1,
            fencing: 1,
            owes: true,
        };
        let late = Late::Put(Key::Owner(0), Object::Owner(owner));
        play.world.borrow_mut().stores.late.push(late);
        play.until(0, "Claim");
        play.until(0, "reads commits");
        play.act(Action::Pause(0));
        play.start(1);
        play.until(1, "Rows");
        play.act(Action::Land(0));
        play.act(Action::Wake(0));
        play.until(0, "ends stream 0");
        assert_eq!(
            play.last().ends_with("Err(Owned)"),
            planted.is_none(),
            "{}",
            play.told()
        );
    }
}
