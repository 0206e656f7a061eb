//! Whose the stream is: lock or lease, `owner.json`, and whether somebody may still write who had it before.

use crate::owner::Owner;
use crate::planted::Planted;
use crate::stores::{Key, Lease, LeaseState, LogId, Object, Owner as OwnerFile, Pid, Stream, Txn, recorded};
use crate::world::{Hands, Mode, Put, Stop};

/// How the owner before was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// There was none.
    Nobody,
    /// It is this process, which opened the stream before.
    Itself,
    /// It gave its lease back.
    GivenBack,
    /// It is known to be dead.
    Dead,
    /// Its lease ran out.
    RanOut,
}

/// Takes the stream: what `owner.json` says then. Nothing is compared when it is replaced: what the code compares there,
/// another machine may change until it is written.
pub(crate) async fn take(hands: &Hands, mode: Mode, stream: Stream) -> Result<OwnerFile, Stop> {
    let pid = hands.memory.pid;
    match mode {
        Mode::Lock => {
            let locked = hands.read_on("the lock", |world| *world.stores.locks.entry(stream).or_insert(pid));
            if locked.await != pid {
                return Err(Stop::Owned);
            }
        }
        Mode::Lease => start_lease(hands).await,
    }
    loop {
        let before = read_owner(hands, stream).await?;
        let owes = match (mode, before) {
            (Mode::Lock, _) => false,
            (_, None) => owes(hands, None, Before::Nobody),
            (_, Some(owner)) if owner.pid == pid => owes(hands, before, Before::Itself),
            (_, Some(owner)) => owes(hands, before, expect_over(hands, owner.pid).await?),
        };
        let mine = OwnerFile {
            pid,
            fencing: before.map_or(0, |before| before.fencing) + 1,
            owes,
        };
        if hands.put(Key::Owner(stream), Object::Owner(mine)).await == Ok(Put::Written) {
            if mode == Mode::Lease {
                hands.count("stream taken by lease");
            }
            return Ok(mine);
        }
    }
}

/// Whether somebody may still write who had the stream before.
fn owes(hands: &Hands, owner: Option<OwnerFile>, before: Before) -> bool {
    let carried = owner.is_some_and(|owner| owner.owes);
    match before {
        Before::Nobody if hands.is(Planted::FreshOwesNothing) => false,
        Before::GivenBack if hands.is(Planted::GivenBackOwesNothing) => carried,
        Before::Dead if hands.is(Planted::DeadOwesNothing) => carried,
        Before::RanOut if hands.is(Planted::RanOutOwesNothing) => carried,
        Before::RanOut => true,
        _ if hands.is(Planted::OnlyRanOutOwes) => carried,
        Before::Itself if hands.is(Planted::OpenedAgainOwesNothing) => carried,
        _ => true,
    }
}

/// A number above the one that bronze has: `owner.json` can have been lost, or name an earlier owner.
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
    hands.count("number raised above bronze's");
    write_owner(hands, stream, raised, |there| is_foreign(there, mine)).await?;
    Ok(raised)
}

impl Owner {
    /// `owner.json` names this process, or a successor.
    pub(crate) async fn stay_named(&self) -> Result<(), Stop> {
        if !self.leased {
            return Ok(());
        }
        let pid = self.hands.memory.pid;
        match read_owner(&self.hands, self.stream).await? {
            Some(there) if there.fencing > self.fencing || there.pid == pid => Ok(()),
            _ => {
                self.hands.count("owner.json named another");
                self.write_claimed(false).await
            }
        }
    }

    /// It no longer matters whether somebody else still writes.
    pub(crate) async fn settled(&self) -> Result<(), Stop> {
        self.write_claimed(false).await?;
        self.hands.count("take-over settled");
        Ok(())
    }

    /// Bronze has the number from this process: of two that counted to it, it is the owner.
    async fn write_claimed(&self, owes: bool) -> Result<(), Stop> {
        let fencing = self.fencing;
        let mine = OwnerFile {
            pid: self.hands.memory.pid,
            fencing,
            owes,
        };
        write_owner(&self.hands, self.stream, mine, |there| there.fencing > fencing).await
    }
}

/// Somebody who came later, or counted to the same number.
fn is_foreign(there: &OwnerFile, mine: OwnerFile) -> bool {
    there.fencing > mine.fencing || (there.fencing == mine.fencing && there.pid != mine.pid)
}

/// Files and tables are not what this process wrote: because another has the stream now, or because they are broken.
pub(crate) async fn is_taken_over(hands: &Hands, stream: Stream, stop: Stop) -> Stop {
    let Some(mine) = hands.counted.get() else {
        return stop;
    };
    if hands.is(Planted::SuccessorNotAsked) {
        return stop;
    }
    let mut is_taken = matches!(read_owner(hands, stream).await, Ok(Some(there)) if is_foreign(&there, mine));
    if !is_taken && !hands.is(Planted::OnlyOwnerAsked) {
        // A write of an earlier owner that came late may have replaced the successor's name. Its claim stands.
        let read = hands.read_on("bronze's owner", |world| {
            recorded(&world.stores.log(LogId::Bronze(stream)), Txn::Owner(stream))
        });
        let (there, mine) = (read.await, Some(mine.fencing));
        is_taken = there > mine || (there == mine && !hands.claimed.get());
    }
    if is_taken {
        hands.count("stream was taken by another meanwhile");
        return Stop::Owned;
    }
    stop
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

/// Replaces `owner.json`, unless what it says is over this process. Another machine may write between look and write.
async fn write_owner(
    hands: &Hands,
    stream: Stream,
    mine: OwnerFile,
    is_over: impl Fn(&OwnerFile) -> bool,
) -> Result<(), Stop> {
    loop {
        if read_owner(hands, stream).await?.as_ref().is_some_and(&is_over) {
            return Err(Stop::Owned);
        }
        if hands.put(Key::Owner(stream), Object::Owner(mine)).await == Ok(Put::Written) {
            return Ok(());
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

/// The owner's lease has to be over.
async fn expect_over(hands: &Hands, pid: Pid) -> Result<Before, Stop> {
    let mut state = look(hands, pid).await;
    if let LeaseState::Held(lease) = state {
        state = end_lease(hands, pid, lease).await?;
    }
    match state {
        LeaseState::Missing => {
            hands.count("lease was given back");
            Ok(Before::GivenBack)
        }
        LeaseState::Dead => {
            hands.count("owner is known to be dead");
            Ok(Before::Dead)
        }
        LeaseState::Ended => Ok(Before::RanOut),
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
