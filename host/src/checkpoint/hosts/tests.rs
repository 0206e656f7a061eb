//! Leases through renewals, ends and dead processes, and checkpoints that are owned by them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::lease::{self, Swap};
use super::*;
use crate::checkpoint::records::FORMAT;
use crate::checkpoint::samples::{commit_record, identity, offset, planned};
use crate::checkpoint::{
    BEFORE_THE_FIRST, CLOSED, Checkpoint, CheckpointError, CheckpointReader, CommitRecord, Owner, Resume, Running,
    lock_unowned, reconcile,
};
use crate::error::{Classify as _, ErrorKind};
use crate::identity::BatchId;
use crate::lsn::UtcMicros;
use crate::storage::Place;

fn at(folder: impl AsRef<Path>) -> Place {
    Place::from(folder.as_ref())
}

fn lease_file(hosts: &Path, id: &str) -> PathBuf {
    hosts.join(format!("{id}.json"))
}

fn life_file(hosts: &Path, id: &str) -> PathBuf {
    hosts.join(format!("{id}.lock"))
}

fn look(hosts: &Path, id: &str) -> Result<LeaseState, CheckpointError> {
    super::look(&at(hosts), id)
}

/// Longer than any test: nothing is renewed by itself.
const LONG: Duration = Duration::from_secs(100_000);

fn start(hosts: &Path) -> Arc<ProcessLease> {
    Arc::new(ProcessLease::start(&at(hosts), LONG).unwrap())
}

fn held(hosts: &Path, id: &str) -> (Lease, Vec<u8>) {
    match lease::read(&at(hosts), id).unwrap() {
        (LeaseState::Held(lease), bytes) => (lease, bytes),
        other => panic!("{other:?}"),
    }
}

/// Ends a lease as a process does that has seen it run out.
fn end(hosts: &Path, id: &str) {
    let (lease, bytes) = held(hosts, id);
    let swap = lease::end(&at(hosts), &lease, &bytes, "process 7 on host b".to_owned()).unwrap();
    assert!(matches!(swap, Swap::Done(_)));
}

/// The lease of a process of this machine that left its files behind.
fn left_behind(hosts: &Path, id: &str, change: impl FnOnce(&mut Lease)) {
    std::fs::create_dir_all(hosts).unwrap();
    let mut lease = Lease {
        format: FORMAT,
        id: id.to_owned(),
        host: "a".to_owned(),
        pid: 4,
        boot_id: lease::boot_id(),
        device: lease::device_of(&at(hosts)),
        beat: 12,
        lease_ms: 15_000,
        started_at: UtcMicros(0),
        renewed_at: UtcMicros(0),
        ended: None,
    };
    change(&mut lease);
    std::fs::write(lease_file(hosts, id), lease::to_bytes(&at(hosts), &lease).unwrap()).unwrap();
    std::fs::write(life_file(hosts, id), b"").unwrap();
}

#[test]
fn a_renewal_raises_the_beat_and_an_end_is_noticed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let lease = start(folder.path());
    let (first, stale) = held(folder.path(), lease.id());
    assert!(lease.renew_now().unwrap());
    let (second, _) = held(folder.path(), lease.id());
    assert_eq!(second.beat, first.beat + 1);
    // Who saw the lease before the renewal cannot end it.
    let swap = lease::end(&at(folder.path()), &first, &stale, "somebody".to_owned()).unwrap();
    assert!(matches!(swap, Swap::Differs(Some(_))));
    assert!(lease.renew_now().unwrap() && lease.check().is_ok());

    end(folder.path(), lease.id());
    assert!(!lease.renew_now().unwrap());
    let lost = lease.check().unwrap_err();
    assert!(lost.to_string().contains("was ended by process 7 on host b"), "{lost}");
    assert!(matches!(look(folder.path(), lease.id()).unwrap(), LeaseState::Ended(_)));
}

#[test]
fn a_lease_whose_file_is_gone_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let lease = start(folder.path());
    std::fs::remove_file(lease_file(folder.path(), lease.id())).unwrap();
    assert!(!lease.renew_now().unwrap());
    assert!(matches!(lease.check(), Err(LeaseLost::Removed { .. })));
    assert_eq!(look(folder.path(), lease.id()).unwrap(), LeaseState::Missing);
}

#[test]
fn one_renewal_that_failed_is_no_loss_and_no_beat_is_used_twice() {
    let folder = tempfile::tempdir().unwrap();
    let lease = start(folder.path());
    let (first, _) = held(folder.path(), lease.id());
    // No turn can be taken, so the renewal fails.
    let turns = folder.path().join("lock");
    std::fs::remove_file(&turns).unwrap();
    std::fs::create_dir(&turns).unwrap();
    assert!(lease.renew_now().is_err());
    assert!(lease.check().is_ok(), "one failure is no loss");
    std::fs::remove_dir(&turns).unwrap();
    assert!(lease.renew_now().unwrap());
    let (after, _) = held(folder.path(), lease.id());
    assert!(after.beat > first.beat + 1, "no beat is used twice: {after:?}");
}

#[test]
fn a_lease_that_cannot_be_renewed_for_its_whole_time_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let lease = ProcessLease::start(&at(folder.path()), Duration::from_millis(60)).unwrap();
    let turns = folder.path().join("lock");
    std::fs::remove_file(&turns).unwrap();
    std::fs::create_dir(&turns).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let lost = runtime.block_on(lease.lost()).expect("lost");
    assert!(matches!(lost, LeaseLost::NotRenewed { .. }), "{lost}");
    assert_eq!(lease.check(), Err(lost));
}

#[test]
fn an_orderly_end_leaves_nothing_and_tells_who_waits() {
    let folder = tempfile::tempdir().unwrap();
    let lease = start(folder.path());
    let lost = lease.lost();
    drop(lease);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    assert_eq!(runtime.block_on(lost), None);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(
        left.len(),
        2,
        "the folder's name and the lock for turns alone: {left:?}"
    );
}

#[test]
fn a_folder_that_does_not_answer_keeps_no_process_from_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let lease = ProcessLease::start(&at(folder.path()), Duration::from_millis(200)).unwrap();
    let file = lease_file(folder.path(), lease.id());
    // The renewal hangs: it holds what it works on until this test ends.
    lease.while_a_renewal_hangs(|lease| {
        drop(lease);
        assert!(file.exists(), "nobody could give it back");
    });
}

#[test]
fn a_lock_without_a_lease_is_removed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let other = start(folder.path());
    std::fs::remove_file(lease_file(folder.path(), other.id())).unwrap();
    let stray = life_file(folder.path(), "stray");
    std::fs::write(&stray, b"").unwrap();
    let lease = start(folder.path());
    assert!(!stray.exists());
    // One that is held, or has a lease, stays.
    assert!(life_file(folder.path(), other.id()).exists() && life_file(folder.path(), lease.id()).exists());
}

#[test]
fn a_free_lock_tells_of_a_death_on_this_machine_only() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path();
    left_behind(hosts, "here", |_| {});
    left_behind(hosts, "ended", |lease| {
        lease.ended = Some(Ended {
            by: "somebody".to_owned(),
            at: UtcMicros(1),
        });
    });
    left_behind(hosts, "boot", |lease| lease.boot_id = Some("another".to_owned()));
    left_behind(hosts, "none", |lease| lease.boot_id = None);
    left_behind(hosts, "mount", |lease| {
        lease.device = lease.device.map(|device| device + 1)
    });
    left_behind(hosts, "unlocked", |_| {});
    std::fs::remove_file(life_file(hosts, "unlocked")).unwrap();
    let is_dead = |id: &str| matches!(look(hosts, id).unwrap(), LeaseState::Dead(_));
    assert!(is_dead("here") && is_dead("ended"));
    for id in ["boot", "none", "mount", "unlocked"] {
        assert!(matches!(look(hosts, id).unwrap(), LeaseState::Held(_)), "{id}");
    }
    // A new process removes what is surely nobody's any more.
    let lease = start(hosts);
    assert_eq!(look(hosts, "here").unwrap(), LeaseState::Missing);
    assert_eq!(look(hosts, "ended").unwrap(), LeaseState::Missing);
    assert!(!life_file(hosts, "here").exists() && life_file(hosts, "boot").exists());
    assert!(matches!(look(hosts, lease.id()).unwrap(), LeaseState::Held(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_what_runs_out_and_says_who_is_surely_gone() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path();
    let watcher = HostWatcher::default();
    assert_eq!(watcher.watch(&at(hosts), "nobody").await.unwrap(), Outcome::Gone);
    left_behind(hosts, "dead", |_| {});
    assert_eq!(watcher.watch(&at(hosts), "dead").await.unwrap(), Outcome::Gone);
    // A lease of no time runs out between two looks.
    left_behind(hosts, "away", |lease| {
        lease.boot_id = None;
        lease.lease_ms = 0;
    });
    let place = at(hosts);
    let all = (0..20).map(|_| watcher.watch(&place, "away"));
    for outcome in futures::future::join_all(all).await {
        assert!(matches!(outcome.unwrap(), Outcome::RanOut(_)));
    }
    let LeaseState::Ended(lease) = look(hosts, "away").unwrap() else {
        panic!("it is ended in the file");
    };
    let by = lease.ended.unwrap().by;
    assert!(by.contains(&format!("process {}", std::process::id())), "{by}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_sees_that_a_lease_is_renewed() {
    let folder = tempfile::tempdir().unwrap();
    let lease = start(folder.path());
    let seen = Arc::new(AtomicBool::new(false));
    let renewing = {
        let (lease, seen) = (Arc::clone(&lease), Arc::clone(&seen));
        std::thread::spawn(move || {
            while !seen.load(Ordering::SeqCst) {
                assert!(lease.renew_now().unwrap());
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    };
    let watcher = HostWatcher::default();
    let outcome = watcher.watch(&at(folder.path()), lease.id()).await.unwrap();
    seen.store(true, Ordering::SeqCst);
    renewing.join().unwrap();
    assert!(matches!(outcome, Outcome::Renewed(_)), "{outcome:?}");
}

/// A checkpoint and two processes with leases.
struct Two {
    _folder: tempfile::TempDir,
    place: PathBuf,
    hosts: PathBuf,
    first: Arc<ProcessLease>,
    second: Arc<ProcessLease>,
}

impl Two {
    fn new() -> Two {
        let folder = tempfile::tempdir().unwrap();
        let hosts = folder.path().join("hosts");
        Two {
            place: folder.path().join("checkpoint"),
            first: start(&hosts),
            second: start(&hosts),
            hosts,
            _folder: folder,
        }
    }

    fn open(&self, lease: &Arc<ProcessLease>, before: Option<&Owner>, may_wake: bool) -> Option<Checkpoint> {
        Checkpoint::open_leased(&at(&self.place), &identity("orders", "orders"), lease, before, may_wake).unwrap()
    }

    fn owner(&self) -> Owner {
        self.reader().owner().unwrap().unwrap()
    }

    fn reader(&self) -> CheckpointReader {
        CheckpointReader::new(&at(&self.place))
    }
}

#[test]
fn an_owner_file_of_an_older_sluice_has_no_lease() {
    let two = Two::new();
    drop(two.open(&two.first, None, false).unwrap());
    let file = two.place.join("owner.json");
    let old = r#"{"format": 1, "host": "a", "pid": 3, "fencing": 4, "since": "2026-11-30T00:00:00.000Z"}"#;
    std::fs::write(&file, old).unwrap();
    let owner = two.owner();
    assert!(owner.lease.is_none() && owner.unsettled.is_empty());
    assert_eq!(two.reader().running().unwrap(), Running::Nobody);
    assert_eq!(two.open(&two.first, Some(&owner), false).unwrap().fencing(), 5);
}

#[test]
fn who_was_judged_has_to_be_the_owner_still() {
    let two = Two::new();
    drop(two.open(&two.first, None, false).unwrap());
    assert!(two.open(&two.second, None, false).is_none());
    let judged = two.owner();
    drop(two.open(&two.first, Some(&judged), false).unwrap());
    assert!(two.open(&two.second, Some(&judged), false).is_none());
    assert_eq!(two.open(&two.second, Some(&two.owner()), false).unwrap().fencing(), 3);
}

#[test]
fn lock_and_lease_respect_each_other() {
    let two = Two::new();
    let id = identity("orders", "orders");
    let locked = Checkpoint::open(&at(&two.place), &id).unwrap();
    let owner = two.owner();
    let error = Checkpoint::open_leased(&at(&two.place), &id, &two.first, Some(&owner), false).unwrap_err();
    assert!(matches!(error, CheckpointError::Owned { .. }), "{error}");
    drop(locked);

    let leased = two.open(&two.first, Some(&owner), false).unwrap();
    let Running::By(words) = two.reader().running().unwrap() else {
        panic!("it runs");
    };
    assert!(words.contains("lease renewed at"), "{words}");
    let error = Checkpoint::open(&at(&two.place), &id).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State);
    assert!(
        error.to_string().contains(two.first.id()) && error.to_string().contains("mode = \"lease\""),
        "{error}"
    );
    end(&two.hosts, two.first.id());
    let Running::RanOut(words) = two.reader().running().unwrap() else {
        panic!("it ran out");
    };
    assert!(words.contains("process 7 on host b ended it"), "{words}");
    let locked = Checkpoint::open(&at(&two.place), &id).unwrap();
    assert!(locked.unsettled()[0].may_wake);
    drop((leased, locked));
}

/// What the owner is told to be when its lease is looked for in `hosts`.
fn seen_from(two: &Two, hosts: Option<&Path>) -> Result<LeaseState, CheckpointError> {
    let found = two.reader().with_hosts(hosts.map(at).as_ref()).lease_of(&two.owner())?;
    Ok(found.unwrap().1)
}

#[test]
fn a_lease_counts_as_given_back_only_in_the_folder_that_it_was_in() {
    let two = Two::new();
    let third = start(&two.hosts);
    drop(two.open(&third, None, false).unwrap());
    // Another folder, with leases of its own, and the same one under another path.
    let elsewhere = two.hosts.with_file_name("elsewhere");
    let _theirs = start(&elsewhere);
    let moved = two.hosts.with_file_name("moved");
    assert!(matches!(
        seen_from(&two, Some(&elsewhere)).unwrap(),
        LeaseState::Held(_)
    ));

    // The folder is mounted elsewhere, and its path leads nowhere.
    std::fs::rename(&two.hosts, &moved).unwrap();
    assert!(matches!(seen_from(&two, Some(&moved)).unwrap(), LeaseState::Held(_)));
    for hosts in [None, Some(elsewhere.as_path())] {
        let error = seen_from(&two, hosts).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::State);
        assert!(
            text.contains(&lease_file(&two.hosts, third.id()).display().to_string())
                && text.contains("not seen from here"),
            "{text}"
        );
    }
    let Running::Unseen(words) = two.reader().running().unwrap() else {
        panic!("nobody knows");
    };
    assert!(words.contains("not seen from here"), "{words}");
    let error = Checkpoint::open(&at(&two.place), &identity("orders", "orders")).unwrap_err();
    assert!(matches!(error, CheckpointError::HostsUnseen { .. }), "{error}");
    // An empty folder under the path is another one.
    std::fs::create_dir(&two.hosts).unwrap();
    let error = seen_from(&two, None).unwrap_err();
    assert!(matches!(error, CheckpointError::HostsUnseen { .. }), "{error}");

    std::fs::remove_dir(&two.hosts).unwrap();
    std::fs::rename(&moved, &two.hosts).unwrap();
    drop(third);
    assert_eq!(seen_from(&two, None).unwrap(), LeaseState::Missing);
    assert_eq!(seen_from(&two, Some(&elsewhere)).unwrap(), LeaseState::Missing);
    assert_eq!(two.reader().running().unwrap(), Running::Nobody);
}

#[test]
fn a_repair_locks_out_who_runs_and_waits_for_who_may_wake_up() {
    let two = Two::new();
    let reader = two.reader().with_hosts(Some(&at(&two.hosts)));
    let refused = || lock_unowned(&reader).map(drop).unwrap_err();
    let third = start(&two.hosts);
    drop(two.open(&third, None, false).unwrap());
    assert!(matches!(refused(), CheckpointError::Leased { .. }));
    // Nothing says who runs it, and three may.
    let file = two.place.join("owner.json");
    let whole = std::fs::read(&file).unwrap();
    for lost in [None, Some(&whole[..9])] {
        match lost {
            None => std::fs::remove_file(&file).unwrap(),
            Some(cut) => std::fs::write(&file, cut).unwrap(),
        }
        let error = refused();
        let text = error.to_string();
        assert!(matches!(error, CheckpointError::OwnerUnknown { .. }), "{text}");
        for lease in [&two.first, &two.second, &third] {
            assert!(
                text.contains(&lease_file(&two.hosts, lease.id()).display().to_string()),
                "{text}"
            );
        }
    }
    std::fs::write(&file, &whole).unwrap();
    end(&two.hosts, third.id());
    let error = refused();
    assert!(
        matches!(error, CheckpointError::MayWake { .. }) && error.to_string().contains(third.id()),
        "{error}"
    );
    // Its successor ends in order, and has not settled what the sleeper may do.
    let first = two.owner();
    drop(two.open(&two.second, Some(&first), true).unwrap());
    assert!(matches!(refused(), CheckpointError::Unsettled { .. }));
    let second = two.owner();
    two.open(&two.second, Some(&second), false).unwrap().settled().unwrap();
    drop(two.second);
    let lock = lock_unowned(&reader).unwrap();
    let error = lock_unowned(&reader).map(drop).unwrap_err();
    assert!(matches!(error, CheckpointError::Owned { .. }), "{error}");
    drop(lock);
}

/// Two count to one number at once, as where a lock does not reach: the first is the owner, and the file names the second.
fn counted_twice(two: &Two) -> (Checkpoint, Checkpoint) {
    let first = two.open(&two.first, None, false).unwrap();
    std::fs::remove_file(two.place.join("owner.json")).unwrap();
    let second = two.open(&two.second, None, false).unwrap();
    assert_eq!(first.fencing(), second.fencing());
    (first, second)
}

#[test]
fn of_two_that_counted_to_one_number_the_one_that_goes_on_is_named() {
    let two = Two::new();
    let (mut first, second) = counted_twice(&two);
    assert_eq!(first.successor().unwrap(), Some(two.owner()));
    // Before the claim, the later goes on.
    let error = first.fence_above(Some(4)).unwrap_err();
    assert!(matches!(error, CheckpointError::TakenOver { .. }), "{error}");
    assert_eq!(two.owner().lease.as_deref(), Some(two.second.id()));
    // The record of a batch is one's own.
    first.plan(&planned(0, 0)).unwrap();
    first.commit(&commit_record(0, None)).unwrap();
    assert_eq!(two.owner().lease.as_deref(), Some(two.first.id()));
    assert_eq!(
        (first.successor().unwrap(), second.successor().unwrap()),
        (None, Some(two.owner()))
    );
}

#[test]
fn an_owner_file_that_is_lost_is_written_again_by_who_runs() {
    let two = Two::new();
    let first = two.open(&two.first, None, false).unwrap();
    let file = two.place.join("owner.json");
    let owner = two.owner();
    for (n, cut) in [(0, None), (1, Some("{"))] {
        match cut {
            None => std::fs::remove_file(&file).unwrap(),
            Some(cut) => std::fs::write(&file, cut).unwrap(),
        }
        first.plan(&planned(n, 0)).unwrap();
        first.commit(&commit_record(n, None)).unwrap();
        assert_eq!(two.owner(), owner);
    }
    // Not over a successor.
    let second = two.open(&two.second, Some(&owner), true).unwrap();
    first.plan(&planned(2, 0)).unwrap();
    first.commit(&commit_record(2, None)).unwrap();
    assert_eq!(
        (two.owner().fencing, two.owner().lease.as_deref()),
        (second.fencing(), Some(two.second.id()))
    );
}

#[test]
fn that_an_owner_may_wake_up_is_known_until_it_no_longer_matters() {
    let two = Two::new();
    drop(two.open(&two.first, None, false).unwrap());
    let first = two.owner();
    // The second takes over and dies before it has claimed anything.
    drop(two.open(&two.second, Some(&first), true).unwrap());
    let second = two.owner();
    let mut third = two.open(&two.first, Some(&second), false).unwrap();
    let from = third.unsettled().to_vec();
    let words: Vec<String> = from.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            format!("{first}, whose lease ran out"),
            format!("{second}, which is gone")
        ]
    );
    third.fence_above(Some(9)).unwrap();
    assert_eq!(two.owner().unsettled, from);
    third.settled().unwrap();
    assert!(two.owner().unsettled.is_empty() && third.unsettled().is_empty());
    assert_eq!(third.fencing(), 10);
}

#[test]
fn an_owner_that_wakes_up_changes_nothing() {
    let two = Two::new();
    let mut first = two.open(&two.first, None, false).unwrap();
    first.plan(&planned(0, 0)).unwrap();
    let before = two.owner();
    let second = two.open(&two.second, Some(&before), true).unwrap();
    let error = first.fence_above(Some(20)).unwrap_err();
    assert!(matches!(error, CheckpointError::TakenOver { .. }), "{error}");
    assert_eq!(first.successor().unwrap(), Some(two.owner()));
    assert_eq!(second.successor().unwrap(), None);

    // It has not noticed yet, and finds the name taken.
    let closed = CommitRecord {
        end: BEFORE_THE_FIRST,
        chain: String::new(),
        ..commit_record(0, None)
    };
    assert!(second.close(&closed).unwrap());
    let error = first.commit(&commit_record(0, None)).unwrap_err();
    assert!(
        matches!(error, CheckpointError::Conflict { .. }) && error.to_string().contains("taken the stream over"),
        "{error}"
    );
    // It has noticed, and writes nothing.
    end(&two.hosts, two.first.id());
    assert!(!two.first.renew_now().unwrap());
    for refused in [
        first.plan(&planned(1, 0)),
        first.commit(&commit_record(1, None)),
        first.prune(None),
        first.settled(),
    ] {
        match refused {
            Err(CheckpointError::LeaseLost(LeaseLost::Ended { .. })) | Ok(()) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(two.reader().latest().unwrap().open, None);
}

#[test]
fn a_closed_batch_leaves_the_stream_where_it_was() {
    let two = Two::new();
    let checkpoint = two.open(&two.first, None, false).unwrap();
    checkpoint.plan(&planned(0, 0)).unwrap();
    let closed = |n: i64, end| CommitRecord {
        end,
        attempt: CLOSED,
        ..commit_record(n, None)
    };
    assert!(checkpoint.close(&closed(0, BEFORE_THE_FIRST)).unwrap());
    let state = checkpoint.latest().unwrap();
    let last = state.last_committed.clone().unwrap();
    assert_eq!(last.position(), None);
    let plan = two.reader().closed_plan(&last).unwrap().expect("it was closed");
    assert_eq!((plan.batch_id, plan.ranges), (BatchId(0), planned(0, 0).ranges));
    let next = |state| match reconcile(&state, None, None).unwrap() {
        Resume::Continue { next, .. } => next,
        other => panic!("{other:?}"),
    };
    assert_eq!(next(state), BatchId(1));
    // What the owner before recorded stands.
    checkpoint.plan(&planned(1, 0)).unwrap();
    checkpoint.commit(&commit_record(1, None)).unwrap();
    assert!(!checkpoint.close(&closed(1, offset(10))).unwrap());
    let state = checkpoint.latest().unwrap();
    assert_eq!(
        state.last_committed.as_ref().and_then(CommitRecord::position),
        Some(offset(20))
    );
    assert_eq!(
        two.reader()
            .closed_plan(state.last_committed.as_ref().unwrap())
            .unwrap(),
        None
    );
    assert_eq!(next(state), BatchId(2));
}

#[test]
fn under_a_lease_everybody_is_settled_with_and_under_the_lock_who_had_a_lease() {
    let two = Two::new();
    let mut first = two.open(&two.first, None, false).unwrap();
    assert_eq!(first.unsettled()[0].to_string(), "whoever was here, if anybody was");
    // Opened once more by the same process, after that is settled: another may have come and gone in between.
    first.settled().unwrap();
    let mut first = two.open(&two.first, Some(&two.owner()), false).unwrap();
    assert!(!first.unsettled().is_empty());
    first.settled().unwrap();

    let before = two.owner();
    let mut second = two.open(&two.second, Some(&before), false).unwrap();
    assert_eq!(second.unsettled()[0].to_string(), format!("{before}, which is gone"));
    second.settled().unwrap();
    drop((first, second));
    // Given back.
    std::fs::remove_file(lease_file(&two.hosts, two.second.id())).unwrap();
    let id = identity("orders", "orders");
    let mut locked = Checkpoint::open(&at(&two.place), &id).unwrap();
    assert!(!locked.unsettled().is_empty());
    locked.settled().unwrap();
    drop(locked);
    assert!(Checkpoint::open(&at(&two.place), &id).unwrap().unsettled().is_empty());
}
