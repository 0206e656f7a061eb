//! Whose the stream is: lock or lease, `owner.json`, and whether the owner before may wake up.

use crate::owner::Owner;
use crate::planted::Planted;
use crate::stores::{Key, Lease, LeaseState, LogId, Object, Owner as OwnerFile, Pid, Stream, Txn, recorded};
use crate::world::{Hands, Mode, Put, Stop};

/// Takes the stream: what `owner.json` says then.
pub(crate) async fn take(hands: &Hands, mode: Mode, stream: Stream) -> Result<OwnerFile, Stop> {
    let pid = hands.memory.pid;
    let (before, may_wake) = match mode {
        Mode::Lock => {
            let locked = hands.read_on("the lock", |world| *world.stores.locks.entry(stream).or_insert(pid));
            if locked.await != pid {
                return Err(Stop::Owned);
            }
            (read_owner(hands, stream).await?, false)
        }
        Mode::Lease => {
            start_lease(hands).await;
            let before = read_owner(hands, stream).await?;
            let may_wake = match before {
                Some(owner) => expect_over(hands, owner.pid).await?,
                None => false,
            };
            (before, may_wake)
        }
    };
    let carried = before
        .filter(|_| !hands.is(Planted::TakenFromNotCarried))
        .and_then(|before| before.from);
    if !may_wake && carried.is_some() {
        hands.count("somebody else than the owner before may wake up");
    }
    let mine = OwnerFile {
        pid,
        fencing: before.map_or(0, |before| before.fencing) + 1,
        from: before.map(|before| before.pid).filter(|_| may_wake).or(carried),
    };
    let blindly = mode == Mode::Lock || hands.is(Planted::OwnerNotCompared) || hands.is(Planted::LockDoesNotReach);
    write_owner(hands, stream, before, mine, blindly).await?;
    if mode == Mode::Lease {
        hands.count("stream taken by lease");
    }
    Ok(mine)
}

/// A number above the one that bronze has: `owner.json` can have been lost.
pub(crate) async fn fence_above(hands: &Hands, stream: Stream, mine: OwnerFile) -> Result<OwnerFile, Stop> {
    let read = hands.read_on("bronze's owner", |world| {
        recorded(&world.stores.log(LogId::Bronze(stream)), Txn::Owner(stream))
    });
    let Some(fenced) = read.await.filter(|fenced| *fenced >= mine.fencing) else {
        return Ok(mine);
    };
    let raised = OwnerFile {
        fencing: fenced + 1,
        ..mine
    };
    write_owner(hands, stream, Some(mine), raised, false).await?;
    Ok(raised)
}

impl Owner {
    /// Where the folder's lock does not reach: `owner.json` names this process, or a successor.
    pub(crate) async fn stay_named(&self) -> Result<(), Stop> {
        if !self.hands.is(Planted::LockDoesNotReach) {
            return Ok(());
        }
        let there = read_owner(&self.hands, self.stream).await?;
        let pid = self.hands.memory.pid;
        match there {
            Some(there) if there.fencing > self.fencing || there.pid == pid => Ok(()),
            there => {
                let mine = OwnerFile {
                    pid,
                    fencing: self.fencing,
                    from: None,
                };
                write_owner(&self.hands, self.stream, there, mine, true).await
            }
        }
    }

    /// It no longer matters whether somebody wakes up.
    pub(crate) async fn settled(&self, mine: OwnerFile) -> Result<(), Stop> {
        let settled = OwnerFile { from: None, ..mine };
        let before = match self.hands.is(Planted::LockDoesNotReach) {
            true => match read_owner(&self.hands, self.stream).await? {
                Some(there) if there.fencing > mine.fencing => return Err(Stop::Owned),
                there => there,
            },
            false => Some(mine),
        };
        write_owner(&self.hands, self.stream, before, settled, before != Some(mine)).await?;
        self.hands.count("take-over settled");
        Ok(())
    }
}

/// Files and tables are not what this process wrote: because another has the stream now, or because they are broken.
pub(crate) async fn is_taken_over(hands: &Hands, stream: Stream, stop: Stop) -> Stop {
    match read_owner(hands, stream).await {
        Ok(Some(owner)) if owner.pid != hands.memory.pid && !hands.is(Planted::SuccessorNotAsked) => {
            hands.count("stream was taken by another meanwhile");
            Stop::Owned
        }
        _ => stop,
    }
}

async fn read_owner(hands: &Hands, stream: Stream) -> Result<Option<OwnerFile>, Stop> {
    let key = Key::Owner(stream);
    let read = hands.read_on("owner.json", |world| {
        (
            world.stores.objects.get(&key).cloned(),
            world.stores.torn.contains(&key),
        )
    });
    match read.await {
        (_, true) => Err(Stop::Damaged),
        (Some(Object::Owner(owner)), _) => Ok(Some(owner)),
        _ => Ok(None),
    }
}

/// Replaces `owner.json`, where it still is what was read.
async fn write_owner(
    hands: &Hands,
    stream: Stream,
    before: Option<OwnerFile>,
    mine: OwnerFile,
    blindly: bool,
) -> Result<(), Stop> {
    let mut before = before;
    loop {
        let answer = hands
            .replace(Key::Owner(stream), before.map(Object::Owner), Object::Owner(mine))
            .await;
        if answer == Ok(Put::Written) {
            return Ok(());
        }
        let there = read_owner(hands, stream).await?;
        if there == Some(mine) {
            return Ok(());
        }
        if there != before {
            if !blindly {
                return Err(Stop::Owned);
            }
            before = there;
        }
    }
}

/// This process's own lease: whatever the answer, it is there once it is seen.
async fn start_lease(hands: &Hands) {
    let pid = hands.memory.pid;
    let lease = Lease { beat: 0, ended: false };
    loop {
        let _ = hands.put_new(Key::Lease(pid), Object::Lease(lease)).await;
        if look(hands, pid).await != LeaseState::Missing {
            return;
        }
    }
}

async fn look(hands: &Hands, pid: Pid) -> LeaseState {
    hands.read_on("a lease", |world| world.stores.lease(pid)).await
}

/// The owner's lease has to be over. Whether its process may wake up.
async fn expect_over(hands: &Hands, pid: Pid) -> Result<bool, Stop> {
    let mut state = look(hands, pid).await;
    if let LeaseState::Held(lease) = state {
        state = end_lease(hands, pid, lease).await?;
    }
    match state {
        LeaseState::Missing => {
            hands.count("lease was given back");
            Ok(false)
        }
        LeaseState::Dead => {
            hands.count("owner is known to be dead");
            Ok(false)
        }
        LeaseState::Ended => Ok(!hands.is(Planted::RanOutIsGone)),
        LeaseState::Held(_) => Err(Stop::Owned),
    }
}

/// Ends the lease of another, if it ran out. What it is then.
async fn end_lease(hands: &Hands, pid: Pid, seen: Lease) -> Result<LeaseState, Stop> {
    let is_over = {
        let world = &mut *hands.world.borrow_mut();
        let lives = !world.still.contains(&pid);
        let may = world.budget.expiries > 0 && !world.quiet;
        let is_over = !lives || (may && world.choose.pick(&[2, 1]) == 1);
        if is_over && lives {
            world.budget.expiries -= 1;
            world.count("lease of a living process ran out");
        }
        is_over
    };
    if !is_over {
        return Err(Stop::Owned);
    }
    let ended = Object::Lease(Lease { ended: true, ..seen });
    loop {
        match hands
            .replace(Key::Lease(pid), Some(Object::Lease(seen)), ended.clone())
            .await
        {
            Ok(Put::Written) => break,
            Ok(Put::Exists) | Err(_) => match look(hands, pid).await {
                LeaseState::Held(there) if there == seen => {}
                state => return Ok(state),
            },
        }
    }
    hands.count("lease ended by another");
    Ok(LeaseState::Ended)
}
