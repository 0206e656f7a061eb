//! Quarantine: what is missing of it needs a person, who can accept the loss; what else is wrong with it is found and mended.

use super::*;

const TO_NUMBER: &str = "[[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\n\
                         config = { columns = { v = { cast = \"int\" } } }\n";
const WITHOUT_V: &str = "[[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\n\
                         config = { columns = { v = { drop = true } } }\n";
/// Puts `v3` into quarantine.
const STRICT: &str = "[[table.transform]]\nplugin = \"badguest\"\non_error = \"quarantine\"\n\
                      config = { behave = \"trap\", on = \"v3\" }\n";
/// Takes every row.
const GENTLE: &str = "on_transform_change = \"continue\"\n[[table.transform]]\nplugin = \"badguest\"\n\
                      on_error = \"quarantine\"\nconfig = { behave = \"well\" }\n";

/// What is found, whether a run stops at it, and the damage to files.
type FileHarm<'a> = (&'a [&'a str], bool, &'a dyn Fn());
/// What is found, and the damage.
type Harm = (&'static str, fn(&Patient));

/// A change for bronze, and one for quarantine in the same commit.
async fn insert_mixed(patient: &mut Patient) {
    let id = patient.next;
    let text = format!("INSERT INTO dbo.t VALUES ({id}, N'{id}'), ({}, N'bad')", id + 1);
    patient.server.exec("sales", &text).await;
    patient.next += 2;
}

/// A batch of one row for bronze and one for quarantine.
async fn mixed(patient: &mut Patient) {
    insert_mixed(patient).await;
    patient.project.once().ok();
}

/// So many of these, and one after them without a row for quarantine.
async fn with_quarantine(batches: usize) -> Patient {
    let mut patient = Patient::new(TO_NUMBER).await;
    for _ in 0..batches {
        mixed(&mut patient).await;
    }
    let text = format!("INSERT INTO dbo.t VALUES ({}, N'7')", patient.next);
    patient.server.exec("sales", &text).await;
    patient.next += 1;
    patient.project.once().ok();
    patient
}

/// Changes 1 to 4, of which the third is in quarantine.
async fn with_one_in_quarantine() -> Patient {
    let mut patient = Patient::new(STRICT).await;
    patient.project.plugin("badguest", &component("badguest"));
    patient.insert_many(4).await;
    patient.project.once().ok();
    assert_eq!(open(&patient).len(), 1);
    patient
}

fn place(patient: &Patient) -> PathBuf {
    patient.project.bronze("dbo_t__quarantine")
}

/// The rows that are open.
fn open(patient: &Patient) -> Vec<Value> {
    let run = patient.project.run("quarantine", &["list", "--json"]).ok();
    run.of_type("quarantined")
}

fn open_by_verdict(patient: &Patient) -> Value {
    let run = patient.project.run("status", &["--json"]).ok();
    run.of_type("status")[0]["open_quarantined"].clone()
}

fn retry(patient: &Patient) -> Run {
    patient.project.run("quarantine", &["retry", "--json"]).ok()
}

fn bronze(patient: &Patient) -> Vec<i64> {
    let mut ids = ids(&patient.project);
    ids.sort_unstable();
    ids
}

fn events(patient: &Patient) -> Vec<String> {
    let facts = rows_of(&patient.facts(), &["written_at"]).expect("facts");
    let mut events: Vec<String> = facts.texts("event").into_iter().flatten().collect();
    events.sort();
    events
}

fn put_back(patient: &Patient, saved: &Path) {
    fs::remove_dir_all(place(patient)).expect("removed");
    copy(saved, &place(patient));
}

/// A repair without the word of a person changes nothing.
fn is_refused(patient: &Patient, arguments: &[&str]) {
    let before = snapshot(&patient.project.lake());
    let run = patient.doctor(arguments);
    assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
    assert!(
        before == snapshot(&patient.project.lake()),
        "a repair changed something"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_of_quarantine_needs_a_person_who_can_accept_the_loss() {
    let mut patient = with_quarantine(2).await;
    assert_eq!(open(&patient).len(), 2);
    patient.finds(0, &[]);
    fs::remove_dir_all(place(&patient)).expect("removed");
    let findings = patient.finds(7, &["quarantine-missing"]);
    assert!(
        text(&findings[0], "what").contains("put there (2 rows)"),
        "{}",
        findings[0]
    );
    assert_eq!(
        (&findings[0]["severity"], &findings[0]["repair"]),
        (&"needs_person".into(), &Value::Null)
    );
    let accepting = text(&findings[0], "on_accepted_loss");
    assert!(accepting.contains("quarantine-lost"), "{accepting}");
    is_refused(&patient, &["--repair"]);
    let alone = patient.project.run("doctor", &["--accept-loss"]);
    assert_eq!(alone.code, 2, "it says what a repair may do: {}", alone.stderr);

    let run = patient.doctor(&["--repair", "--accept-loss"]);
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    patient.finds(0, &[]);
    let rows = open(&patient);
    let codes: Vec<&str> = rows.iter().map(|row| text(row, "code")).collect();
    assert_eq!(codes, ["quarantine-lost"; 2]);
    // They stay as the record of what bronze lacks. They name no change that a retry could look for.
    let retried = retry(&patient);
    assert_eq!(retried.warnings(), [""; 0]);
    assert_eq!(retried.of_type("retried")[0]["rows"], 0);
    mixed(&mut patient).await;
    assert_eq!(open(&patient).len(), 3);
    assert_eq!(open_by_verdict(&patient), 3);
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_older_copy_only_what_it_lacks_is_lost() {
    let mut patient = Patient::new(TO_NUMBER).await;
    mixed(&mut patient).await;
    let saved = crate::harness::scratch();
    copy(&place(&patient), saved.path());
    mixed(&mut patient).await;
    put_back(&patient, saved.path());
    let findings = patient.finds(7, &["quarantine-behind"]);
    assert!(
        text(&findings[0], "what").contains("put there (1 rows)"),
        "{}",
        findings[0]
    );
    is_refused(&patient, &["--repair"]);
    patient.doctor(&["--repair", "--accept-loss"]).ok();
    patient.project.once().ok();
    let rows = open(&patient);
    let codes: Vec<&str> = rows.iter().map(|row| text(row, "code")).collect();
    assert_eq!(codes, ["cast-invalid", "quarantine-lost"]);
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_retry_brought_to_bronze_do_not_become_open_again() {
    let mut patient = with_one_in_quarantine().await;
    let saved = crate::harness::scratch();
    copy(&place(&patient), saved.path());
    patient.project.edit(STRICT, GENTLE);
    retry(&patient);
    assert_eq!(bronze(&patient), [1, 2, 3, 4]);
    put_back(&patient, saved.path());
    // It calls the third change open.
    let findings = patient.finds(7, &["quarantine-behind"]);
    assert_eq!(findings[0]["on_accepted_loss"], Value::Null);
    assert!(
        text(&findings[0], "advice").contains("would double them"),
        "{}",
        findings[0]
    );
    is_refused(&patient, &["--repair", "--accept-loss"]);
    assert_eq!(patient.project.run("quarantine", &["retry", "--json"]).code, 7);
    // As advised.
    fs::remove_dir_all(place(&patient)).expect("removed");
    patient.doctor(&["--repair", "--accept-loss"]).ok();
    retry(&patient);
    assert_eq!(bronze(&patient), [1, 2, 3, 4]);
    assert_eq!(open(&patient).len(), 1);
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_attempt_that_bronze_never_took_are_made_void_again() {
    let mut patient = Patient::new(&format!("on_transform_change = \"continue\"\n{TO_NUMBER}")).await;
    insert_mixed(&mut patient).await;
    assert!(patient.project.kill_at("after-quarantine"));
    patient.finds(0, &["open-batch"]);
    patient.project.edit(TO_NUMBER, WITHOUT_V);
    patient.project.once().ok();
    patient.project.edit(WITHOUT_V, TO_NUMBER);
    mixed(&mut patient).await;
    assert_eq!((bronze(&patient), open(&patient).len()), (vec![1, 2, 3], 1));
    // The commit that made them void loses its row.
    let is_void = |file: &PathBuf| {
        let text = fs::read_to_string(file).expect("readable");
        text.contains("{\"add\"") && !text.contains("#quarantine\"")
    };
    let entries = files_under(&place(&patient).join("_delta_log"));
    let void: Vec<PathBuf> = entries.into_iter().filter(is_void).collect();
    assert_eq!(void.len(), 1, "{void:?}");
    let entry = fs::read_to_string(&void[0]).expect("readable");
    let kept: Vec<&str> = entry.lines().filter(|line| !line.starts_with("{\"add\"")).collect();
    fs::write(&void[0], kept.join("\n") + "\n").expect("written");
    assert_eq!(open(&patient).len(), 2, "a row that is in bronze is called open");

    let findings = patient.finds(7, &["quarantine-not-void"]);
    assert_eq!(findings[0]["severity"], "repairable");
    patient.doctor(&["--repair"]).ok();
    patient.finds(0, &[]);
    patient.project.once().ok();
    assert_eq!((open(&patient).len(), open_by_verdict(&patient)), (1, 1.into()));
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_to_the_files_of_quarantine_stops_the_table_and_is_told() {
    let patient = with_quarantine(3).await;
    let saved = crate::harness::scratch();
    copy(&place(&patient), saved.path());
    let data = || {
        let files = files_under(&place(&patient)).into_iter();
        let mut data = files.filter(|path| path.extension().is_some_and(|end| end == "parquet"));
        data.next().expect("a data file")
    };
    let entry = place(&patient).join(format!("_delta_log/{:020}.json", 2));
    // An entry that is empty may be one without actions to the kernel.
    let harms: [FileHarm<'_>; 4] = [
        (&["data-file-missing"], true, &|| {
            fs::remove_file(data()).expect("removed")
        }),
        (&["data-file-cut"], true, &|| cut(&data())),
        (&["log-entry-missing"], true, &|| {
            fs::remove_file(&entry).expect("removed")
        }),
        (&["log-entry-damaged"], false, &|| {
            fs::write(&entry, "").expect("written")
        }),
    ];
    for (wanted, stops, harm) in harms {
        harm();
        let findings = patient.finds(7, wanted);
        let what = text(&findings[0], "what");
        assert!(what.contains("the quarantine table"), "{what}");
        is_refused(&patient, &["--repair", "--accept-loss"]);
        assert!(!stops || patient.project.once().code != 0, "{wanted:?}");
        put_back(&patient, saved.path());
    }
    patient.project.once().ok();
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_did_to_quarantine_is_told() {
    let patient = with_quarantine(2).await;
    let log = commits(&place(&patient));
    let add = log.iter().rev().flatten().find(|action| action["add"].is_object());
    let add = &add.expect("a file")["add"];
    let remove = serde_json::json!({"remove": {
        "path": add["path"], "dataChange": true, "deletionTimestamp": 1, "size": add["size"],
        "extendedFileMetadata": true, "partitionValues": {},
    }});
    let info = serde_json::json!({"commitInfo": {"operation": "DELETE", "timestamp": 1}});
    let entry = place(&patient).join(format!("_delta_log/{:020}.json", log.len()));
    fs::write(entry, format!("{info}\n{remove}\n")).expect("written");
    let findings = patient.finds(7, &["foreign-commit", "quarantine-row-count"]);
    let counted = findings
        .iter()
        .find(|finding| finding["code"] == "quarantine-row-count");
    let what = text(counted.expect("found"), "what");
    assert!(what.contains("0 rows of batch") && what.contains("count 1"), "{what}");
    is_refused(&patient, &["--repair", "--accept-loss"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_plan_of_a_batch_that_left_rows_in_quarantine_is_made_anew() {
    let mut patient = with_quarantine(1).await;
    insert_mixed(&mut patient).await;
    assert!(patient.project.kill_at("after-quarantine"));
    let mut plans = files_under(&patient.checkpoint().join("offsets"));
    plans.sort();
    cut(&plans.pop().expect("a plan"));
    assert_eq!(patient.project.once().code, 7);
    patient.finds(7, &["plan-file-damaged"]);
    patient.doctor(&["--repair"]).ok();
    patient.project.once().ok();
    assert_eq!((bronze(&patient), open(&patient).len()), (vec![1, 3, 4], 2));
    let facts = rows_of(&patient.facts(), &["batch_id"]).expect("facts");
    let told = facts.texts("detail").into_iter().flatten();
    assert_eq!(
        told.filter(|text| text.starts_with("attempt 1: its plan is lost"))
            .count(),
        1
    );
    patient.finds(0, &[]);
}

const UNDER_A_LEASE: &str = "\n[ownership]\nmode = \"lease\"\nlease = \"10m\"\nhosts = \"hosts\"\n\n[defaults]";

/// A batch that left a row in quarantine under a lease, and whose plan is lost: changes 4 and 5, of which the second is in
/// quarantine.
async fn with_a_lost_plan_under_a_lease() -> Patient {
    let mut patient = with_quarantine(1).await;
    patient.project.edit("\n[defaults]", UNDER_A_LEASE);
    insert_mixed(&mut patient).await;
    assert!(patient.project.kill_at("after-quarantine"));
    let mut plans = files_under(&patient.checkpoint().join("offsets"));
    plans.sort();
    cut(&plans.pop().expect("a plan"));
    patient.finds(7, &["plan-file-damaged"]);
    patient.doctor(&["--repair"]).ok();
    patient
}

/// The batch was closed, and what it read is where it has to be.
fn is_closed_and_read_by_the_next(patient: &Patient, run: &Run) {
    let warned = run.warnings().concat();
    assert!(
        warned.contains("left rows in quarantine without a plan, and is closed without rows"),
        "{warned}"
    );
    assert_eq!((bronze(patient), open(patient).len()), (vec![1, 3, 4], 2));
    let facts = rows_of(&patient.facts(), &["batch_id"]).expect("facts");
    let told = facts.texts("detail").into_iter().flatten();
    let closed = told.filter(|text| text.starts_with("closed: taken over from process "));
    assert_eq!(closed.count(), 1);
    assert_eq!(open_by_verdict(patient), 2);
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_lease_a_batch_whose_plan_is_lost_is_closed_and_the_next_one_reads_its_range() {
    let mut patient = with_a_lost_plan_under_a_lease().await;
    let check = patient.project.run("check", &[]).ok();
    assert!(
        check.stdout.contains("the next run closes it without rows"),
        "{}",
        check.stdout
    );
    let run = patient.project.once().ok();
    is_closed_and_read_by_the_next(&patient, &run);
    mixed(&mut patient).await;
    assert_eq!((bronze(&patient), open(&patient).len()), (vec![1, 3, 4, 6], 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_after_a_lease_closes_a_batch_whose_plan_is_lost_also_at_its_second_start() {
    let mut patient = with_a_lost_plan_under_a_lease().await;
    patient.project.edit(UNDER_A_LEASE, "\n[defaults]");
    // The number is not in quarantine yet.
    assert!(patient.project.kill_at("before-quarantine"));
    let owner = fs::read(patient.checkpoint().join("owner.json")).expect("readable");
    let owner: Value = serde_json::from_slice(&owner).expect("JSON");
    assert_ne!(owner["unsettled"], serde_json::json!([]), "{owner}");
    let run = patient.project.once().ok();
    is_closed_and_read_by_the_next(&patient, &run);
    mixed(&mut patient).await;
    assert_eq!((bronze(&patient), open(&patient).len()), (vec![1, 3, 4, 6], 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_only_an_older_plan_is_left_the_batch_is_planned_anew_after_what_is_in_quarantine() {
    // As the older attempt had it, and as the newer one.
    for (chain, in_bronze, in_quarantine) in [(WITHOUT_V, vec![1, 2], 0), (TO_NUMBER, vec![1], 1)] {
        let mut patient = Patient::new(&format!("on_transform_change = \"continue\"\n{WITHOUT_V}")).await;
        insert_mixed(&mut patient).await;
        assert!(patient.project.kill_at("after-offset"));
        patient.project.edit(WITHOUT_V, TO_NUMBER);
        assert!(patient.project.kill_at("after-quarantine"));
        let mut plans = files_under(&patient.checkpoint().join("offsets"));
        plans.sort();
        let newest = plans.pop().expect("a plan");
        assert!(newest.ends_with("0.a1.json"), "{newest:?}");
        cut(&newest);
        patient.finds(7, &["plan-file-damaged"]);
        patient.doctor(&["--repair"]).ok();
        if chain != TO_NUMBER {
            patient.project.edit(TO_NUMBER, chain);
        }
        let check = patient.project.run("check", &[]).ok();
        assert!(
            check
                .stdout
                .contains("plans it anew (attempt 2): the plan of attempt 1 is lost"),
            "{}",
            check.stdout
        );
        patient.project.once().ok();
        assert_eq!((bronze(&patient), open(&patient).len()), (in_bronze, in_quarantine));
        let facts = rows_of(&patient.facts(), &["batch_id"]).expect("facts");
        let told = facts.texts("detail").into_iter().flatten();
        let anew = told.filter(|text| text.starts_with("attempt 2: the plan of attempt 1 is lost"));
        assert_eq!(anew.count(), 1);
        patient.finds(0, &[]);
    }
}

/// The newest record, without what only the process that wrote it knew.
fn newest_record(patient: &Patient) -> Value {
    let file = records(&patient.checkpoint()).pop().expect("a record");
    let record: Value = serde_json::from_slice(&fs::read(file).expect("readable")).expect("JSON");
    let events = record["events"].as_array().expect("a list").iter();
    let events: Vec<Value> = events.map(|event| event["event"].clone()).collect();
    let fields = [
        "batch_id",
        "attempt",
        "end",
        "chain",
        "last_event",
        "last_with_rows",
        "in_quarantine",
    ];
    let mut kept: serde_json::Map<String, Value> = fields
        .iter()
        .map(|field| ((*field).to_owned(), record[*field].clone()))
        .collect();
    kept.insert("events".to_owned(), events.into());
    kept.into()
}

fn remove_newest_record_and_plan(patient: &Patient) {
    let newest = records(&patient.checkpoint()).pop().expect("a record");
    let batch = newest.file_stem().expect("a name").to_string_lossy().into_owned();
    fs::remove_file(newest).expect("removed");
    fs::remove_file(patient.checkpoint().join(format!("offsets/{batch}.a0.json"))).expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_record_of_a_retry_is_written_again_with_its_event() {
    let mut patient = with_one_in_quarantine().await;
    patient.project.edit(STRICT, GENTLE);
    retry(&patient);
    let told = ["quarantine_retried", "transform_changed", "transform_set"];
    assert_eq!(events(&patient), told);
    let before = newest_record(&patient);
    assert_eq!(
        before["events"],
        serde_json::json!(["quarantine_retried", "transform_changed"])
    );
    let harms: [Harm; 2] = [
        ("commit-file-missing", remove_newest_record_and_plan),
        ("checkpoint-deleted", |patient| {
            fs::remove_dir_all(patient.checkpoint()).expect("removed");
        }),
    ];
    for (code, harm) in harms {
        harm(&patient);
        patient.finds(7, &[code]);
        patient.doctor(&["--repair"]).ok();
        assert_eq!(newest_record(&patient), before, "{code}");
    }
    patient.batch().await;
    assert_eq!(
        (bronze(&patient), events(&patient)),
        (vec![1, 2, 3, 4, 5], told.map(str::to_owned).to_vec())
    );
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_which_only_bronze_tells_gets_its_event_all_the_same() {
    let mut patient = with_one_in_quarantine().await;
    patient.project.edit(STRICT, GENTLE);
    let killed = patient
        .project
        .kill_command_at("quarantine", &["retry", "--json"], "after-commit-file");
    assert!(killed);
    let before = newest_record(&patient);
    remove_newest_record_and_plan(&patient);
    patient.finds(7, &["commit-file-missing", "facts-behind"]);
    patient.doctor(&["--repair"]).ok();
    assert_eq!(newest_record(&patient), before);
    patient.batch().await;
    assert_eq!(
        events(&patient),
        ["quarantine_retried", "transform_changed", "transform_set"]
    );
    assert_eq!((bronze(&patient), open(&patient).len()), (vec![1, 2, 3, 4, 5], 0));
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drill_damages_quarantine_where_there_is_one() {
    let patient = with_quarantine(3).await;
    let before = snapshot(patient.project.path());
    let run = patient.project.run("drill", &["--json"]);
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    assert!(
        before == snapshot(patient.project.path()),
        "the drill changed the table"
    );
    let trials = run.of_type("drill");
    let of_quarantine = trials
        .iter()
        .filter(|trial| text(trial, "damage").contains("quarantine"));
    let ended: Vec<(&str, &str)> = of_quarantine
        .map(|trial| (text(trial, "code"), text(trial, "outcome")))
        .collect();
    let wanted = [
        "quarantine-missing",
        "quarantine-behind",
        "data-file-missing",
        "log-entry-damaged",
    ];
    assert_eq!(ended, wanted.map(|code| (code, "refused")));
}
