//! Streams that are owned by leases: who lives is not taken over, who is dead is taken over at once, and who only seemed
//! dead finds out and changes nothing.

use std::path::{Path, PathBuf};

use serde_json::Value;
use sluice::failpoint;
use sluice_test_guests::component;

use crate::harness::{Held, Project, Run, Running, Server, commits, ids, insert, rows_of, sales};

/// Where a process is waited for that does not renew its lease, and the others have to keep theirs, also on a busy machine.
const LEASE: &str = "6s";

/// A table `dbo.t`, one beside it that is not read, and streams under leases.
async fn set_up(lease: &str, rest: &str) -> (Server, Project) {
    let server = sales(&["t", "beside"]).await;
    let mut project = Project::new(&server, "sales").table("dbo_t", rest);
    project.edit(
        "\n[defaults]",
        &format!("\n[ownership]\nmode = \"lease\"\nlease = \"{lease}\"\nhosts = \"hosts\"\n\n[defaults]"),
    );
    (server, project)
}

fn json(file: &Path) -> Value {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// The leases that are there.
fn leases(project: &Project) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(project.path().join("hosts")).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files
}

fn owner(project: &Project) -> Value {
    json(&project.lake().join("checkpoints/dbo_t/owner.json"))
}

fn error_of(run: &Run) -> String {
    assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
    run.failure("dbo_t")["error"].as_str().expect("text").to_owned()
}

/// The fencing numbers in bronze's log never go down: nobody wrote after his successor. All of them, in order.
fn fences(project: &Project) -> Vec<i64> {
    let fences: Vec<i64> = commits(&project.bronze("dbo_t"))
        .iter()
        .flatten()
        .filter(|action| action["txn"]["appId"].as_str().is_some_and(|id| id.ends_with("#owner")))
        .map(|action| action["txn"]["version"].as_i64().expect("a number"))
        .collect();
    assert!(fences.is_sorted(), "{fences:?}");
    fences
}

/// The facts of batches by number: each once, and none is missing. `(rows, detail)`.
fn facts(project: &Project) -> Vec<(i64, Option<String>)> {
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["batch_id"]).expect("facts");
    let columns = ["batch_id", "rows", "detail"].map(|name| facts.texts(name));
    let [numbers, rows, details] = &columns;
    let batches: Vec<usize> = (0..facts.len()).filter(|row| numbers[*row].is_some()).collect();
    let found: Vec<String> = batches
        .iter()
        .map(|row| numbers[*row].clone().expect("a number"))
        .collect();
    let wanted: Vec<String> = (0..batches.len()).map(|number| number.to_string()).collect();
    assert_eq!(found, wanted, "one facts row a batch");
    batches
        .into_iter()
        .map(|row| {
            let count = rows[row].as_deref().expect("rows").parse().expect("a number");
            (count, details[row].clone())
        })
        .collect()
}

/// What says that a batch was closed.
fn is_closed((rows, detail): &(i64, Option<String>)) -> bool {
    *rows == 0
        && detail
            .as_deref()
            .is_some_and(|detail| detail.starts_with("closed: taken over from process "))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_renews_its_lease_keeps_its_streams_and_gives_them_back_at_the_end() {
    let (server, project) = set_up("12s", "").await;
    insert(&server, 1..=1).await;
    let mut first = Running::start(&project, &[]);
    first.until_type("batch");
    let files = leases(&project);
    let lease = json(&files[0]);
    let name = format!("process {} on host", lease["pid"]);
    assert_eq!((files.len(), &owner(&project)["lease"]), (1, &lease["id"]));

    let second = project.once();
    let error = error_of(&second);
    assert!(
        error.contains(&name) && error.contains("(since ") && error.contains("is being renewed"),
        "{error}"
    );
    let warnings = second.warnings();
    assert!(
        warnings
            .iter()
            .any(|text| text.contains(&name) && text.contains("in at most 12s")),
        "{warnings:?}"
    );
    assert_eq!(leases(&project), files, "the second took its own lease away");
    let status = project.run("status", &[]).ok().stdout;
    assert!(
        status.contains(&name) && status.contains("lease renewed at"),
        "{status}"
    );

    insert(&server, 2..=2).await;
    first.until_type("batch");
    first.terminate();
    assert_eq!(first.code(), Some(0));
    let left = std::fs::read_dir(project.path().join("hosts"))
        .expect("a folder")
        .count();
    assert_eq!(left, 2, "the folder's name and the lock for turns alone");
    insert(&server, 3..=3).await;
    assert_eq!(project.once().ok().warnings(), [""; 0]);
    assert_eq!(ids(&project), [1, 2, 3]);
    fences(&project);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_of_this_machine_is_not_waited_for() {
    // Nobody waits that long here.
    let (server, project) = set_up("10m", "").await;
    insert(&server, 1..=2).await;
    assert!(project.kill_at(failpoint::FILES_STAGED));
    assert_eq!(leases(&project).len(), 1);
    insert(&server, 3..=3).await;
    let run = project.once().ok();
    // Not waited for; what it began is closed all the same, because what it wrote may still arrive where others see it.
    let warnings = run.warnings();
    assert!(
        warnings.len() == 1 && warnings[0].contains("which is gone: batch 0 was planned"),
        "{warnings:?}"
    );
    assert_eq!(ids(&project), [1, 2, 3]);
    let facts = facts(&project);
    assert!(
        is_closed(&facts[0]) && facts[1..].iter().all(|row| !is_closed(row)),
        "{facts:?}"
    );
    assert_eq!(facts.iter().map(|(rows, _)| *rows).sum::<i64>(), 3);
    assert_eq!(leases(&project).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_slept_before_its_commit_is_refused_by_bronze() {
    let (server, project) = set_up(LEASE, "").await;
    insert(&server, 1..=1).await;
    project.once().ok();
    insert(&server, 2..=3).await;
    let slept = Held::at(&project, failpoint::BEFORE_COMMIT);
    let held = owner(&project)["fencing"].as_i64().expect("a number");
    slept.pause();
    insert(&server, 4..=4).await;
    let successor = project.once().ok();
    let warnings = successor.warnings();
    assert!(
        warnings.iter().any(|text| text.contains("is closed without rows")),
        "{warnings:?}"
    );
    assert_eq!(ids(&project), [1, 2, 3, 4]);

    let by = format!("process {} on host", owner(&project)["pid"]);
    assert!(!by.contains(&slept.pid().to_string()));
    slept.wake();
    let error = error_of(&slept.release());
    assert!(
        error.contains(&by) && error.contains("has taken this table over"),
        "{error}"
    );
    let fence = format!("is owned under fencing number {}", owner(&project)["fencing"]);
    assert!(error.contains(&fence), "the fence comes before all else: {error}");
    assert_eq!(ids(&project), [1, 2, 3, 4]);
    let (fences, last) = (fences(&project), owner(&project)["fencing"].as_i64());
    assert!(fences.contains(&held) && fences.last().copied() == last, "{fences:?}");

    insert(&server, 5..=5).await;
    project.once().ok();
    assert_eq!(ids(&project), [1, 2, 3, 4, 5]);
    let facts = facts(&project);
    assert_eq!(facts.iter().map(|(rows, _)| *rows).sum::<i64>(), 5, "{facts:?}");
    assert!(is_closed(&facts[1]) && facts.iter().filter(|row| is_closed(row)).count() == 1);
    assert_eq!(project.verdict().0.as_deref(), Some("current"));
}

/// A chain that puts every text which is no number into quarantine.
const TO_NUMBER: &str = "[[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\n\
                         config = { columns = { v = { cast = \"int\" } } }\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_slept_before_it_put_rows_into_quarantine_is_refused_there() {
    let (server, project) = set_up(LEASE, TO_NUMBER).await;
    let exec = |statement: &'static str| server.exec("sales", statement);
    exec("INSERT INTO dbo.t VALUES (1, N'1')").await;
    project.once().ok();
    exec("INSERT INTO dbo.t VALUES (2, N'2'), (3, N'bad')").await;
    // The first passage is the claim of its number.
    let slept = Held::at(&project, "before-quarantine:2");
    slept.pause();
    exec("INSERT INTO dbo.t VALUES (4, N'4')").await;
    project.once().ok();
    assert_eq!(ids(&project), [1, 2, 4]);
    slept.wake();
    let error = error_of(&slept.release());
    assert!(error.contains("has taken this table over"), "{error}");
    // Its rows of the batch that was closed are not there; those of the batch that read the range again are.
    let quarantined = rows_of(&project.bronze("dbo_t__quarantine"), &["batch_id"]).expect("rows");
    assert_eq!(quarantined.texts("state"), [Some("open".to_owned())]);
    assert_eq!(quarantined.numbers("batch_id"), [2]);
    exec("INSERT INTO dbo.t VALUES (5, N'5')").await;
    project.once().ok();
    assert_eq!(ids(&project), [1, 2, 4, 5]);
    let status = project.run("status", &["--json"]).of_type("status").remove(0);
    assert_eq!(status["open_quarantined"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_another_machine_is_waited_for_and_its_first_batch_closed() {
    let (server, project) = set_up(LEASE, "").await;
    insert(&server, 1..=2).await;
    assert!(project.kill_at(failpoint::FILES_STAGED));
    let file = leases(&project).remove(0);
    let mut lease = json(&file);
    lease["boot_id"] = "of another machine".into();
    std::fs::write(&file, lease.to_string()).expect("written");
    let run = project.once().ok();
    let warnings = run.warnings();
    assert!(
        warnings[0].contains("waiting to see whether its lease is renewed")
            && warnings[1].contains("batch 0 was planned"),
        "{warnings:?}"
    );
    assert!(json(&file)["ended"]["by"].is_string());
    assert_eq!(owner(&project)["unsettled"], Value::Array(Vec::new()));
    assert_eq!(ids(&project), [1, 2]);
    let facts = facts(&project);
    assert!(is_closed(&facts[0]), "{facts:?}");
    assert_eq!(facts[1], (2, None));
    // The batch that was closed was none of the chain's.
    let all = rows_of(&project.lake().join("ops/ingestion_facts"), &["written_at"]).expect("facts");
    let events: Vec<String> = all.texts("event").into_iter().flatten().collect();
    assert_eq!(events, ["transform_set"]);
    insert(&server, 3..=3).await;
    project.once().ok();
    assert_eq!(ids(&project), [1, 2, 3]);
}

/// The lease that the only process that was killed left behind is one of another machine from here on.
fn moved_to_another_machine(project: &Project) -> PathBuf {
    let file = leases(project).remove(0);
    let mut lease = json(&file);
    lease["boot_id"] = "of another machine".into();
    std::fs::write(&file, lease.to_string()).expect("written");
    file
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_loses_its_lease_while_it_waits_for_another_ends_with_code_7() {
    let (server, project) = set_up("12s", "").await;
    insert(&server, 1..=1).await;
    assert!(project.kill_at(failpoint::FILES_STAGED));
    let left = moved_to_another_machine(&project);
    let mut run = Running::start(&project, &["--once"]);
    run.until("the wait", |event| {
        event["message"].as_str().is_some_and(|text| text.contains("owned by"))
    });
    let own = leases(&project).into_iter().find(|file| *file != left);
    std::fs::remove_file(own.expect("its own lease")).expect("removed");
    let failed = run.until_type("failed");
    let error = failed["error"].as_str().expect("text");
    assert!(error.contains("this process has lost its tables"), "{error}");
    assert_eq!(run.code(), Some(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_names_the_owner_each_process_of_the_folder_is_waited_for() {
    let (server, project) = set_up(LEASE, "").await;
    insert(&server, 1..=2).await;
    assert!(project.kill_at(failpoint::FILES_STAGED));
    moved_to_another_machine(&project);
    std::fs::remove_file(project.lake().join("checkpoints/dbo_t/owner.json")).expect("removed");
    let run = project.once().ok();
    let warnings = run.warnings();
    assert!(
        warnings[0].contains("does not say who ran this table") && warnings[1].contains("is closed without rows"),
        "{warnings:?}"
    );
    assert_eq!(ids(&project), [1, 2]);
    assert_eq!(facts(&project).len(), 2);
    assert_eq!(owner(&project)["unsettled"], Value::Array(Vec::new()));
}

/// A process sleeps after it compared the fence for the last time and before it records the batch, which has no rows. The
/// batch is closed under it.
async fn closed_under_a_sleeper(server: &Server, project: &Project) {
    let slept = Held::at(project, failpoint::BEFORE_COMMIT_FILE);
    slept.pause();
    insert(server, 2..=2).await;
    project.once().ok();
    let all = facts(project);
    let closed = all.iter().position(is_closed).expect("a closed batch");
    let record = project.lake().join(format!("checkpoints/dbo_t/commits/{closed}.json"));
    let before = json(&record);

    slept.wake();
    let error = error_of(&slept.release());
    assert!(error.contains("has taken this table over"), "{error}");
    assert_eq!(json(&record), before, "what the successor wrote stands");
    assert_eq!(facts(project), all);
    assert_eq!(ids(project), [1, 2]);
    insert(server, 3..=3).await;
    project.once().ok();
    assert_eq!(ids(project), [1, 2, 3]);
    assert_eq!(facts(project)[..all.len()], all);
    fences(project);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_the_chain_left_nothing_of_is_recorded_by_one_process() {
    let (server, project) = set_up(
        LEASE,
        "[[table.transform]]\nplugin = \"badguest\"\nconfig = { behave = \"drop-updates\" }\n",
    )
    .await;
    project.plugin("badguest", &component("badguest"));
    insert(&server, 1..=1).await;
    project.once().ok();
    server.exec("sales", "UPDATE dbo.t SET v = N'x' WHERE id = 1").await;
    closed_under_a_sleeper(&server, &project).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_without_changes_is_recorded_by_one_process() {
    let (server, project) = set_up(LEASE, "").await;
    insert(&server, 1..=1).await;
    project.once().ok();
    server.exec("sales", "INSERT INTO dbo.beside VALUES (1, N'x')").await;
    closed_under_a_sleeper(&server, &project).await;
}

/// Two processes with the same list: the first has the table; when it is killed the other goes on, and the first, started
/// again, stands by.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stands_by_takes_over_what_a_dead_one_had() {
    let (server, mut project) = set_up("2s", "").await;
    project.edit("mode = \"lease\"", "mode = \"lease\"\nstandby = true");
    insert(&server, 1..=1).await;
    let mut newest = Running::start(&project, &[]);
    newest.until_type("batch");
    let mut id = 1;
    for _ in 0..3 {
        let mut next = Running::start(&project, &[]);
        next.until("standing by", |event| {
            event["message"]
                .as_str()
                .is_some_and(|message| message.contains("standing by"))
        });
        id += 1;
        insert(&server, id..=id).await;
        newest.until_type("batch");
        newest.signal("KILL");
        newest.code();
        id += 1;
        insert(&server, id..=id).await;
        next.until("batch with the row", |event| {
            event["type"] == "batch" && event["rows"] == 1
        });
        newest = next;
    }
    // In order, it leaves at once to whoever stands by.
    let mut next = Running::start(&project, &[]);
    next.until_type("warning");
    newest.terminate();
    assert_eq!(newest.code(), Some(0));
    next.until_type("opened");
    next.terminate();
    assert_eq!(next.code(), Some(0));
    assert_eq!(ids(&project), (1..=id).collect::<Vec<_>>());
    fences(&project);
    facts(&project);
    // Once is for a run that ends: it does not wait.
    let mut holder = Running::start(&project, &[]);
    holder.until_type("opened");
    let once = project.once();
    assert!(error_of(&once).contains("renew"), "{once:?}");
}
