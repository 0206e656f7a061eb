//! What a repair puts right, and what the next run does.

use std::fs;
use std::path::PathBuf;

use super::*;

type Harm = fn(&Patient);

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_repaired_is_and_the_next_run_goes_on_from_it() {
    let mut patient = Patient::with_batches(UPPER, 4).await;
    let harms: [(&str, &[&str], &str, Harm); 15] = [
        (
            "newest record gone, and its plan",
            &["commit-file-missing"],
            "nothing is lost",
            |patient| {
                let newest = records(&patient.checkpoint()).pop().expect("a record");
                let batch = newest.file_stem().expect("a name").to_string_lossy().into_owned();
                fs::remove_file(newest).expect("removed");
                fs::remove_file(patient.checkpoint().join(format!("offsets/{batch}.a0.json"))).expect("removed");
            },
        ),
        (
            "newest record cut",
            &["commit-file-damaged"],
            "nothing is lost",
            |patient| {
                cut(&records(&patient.checkpoint()).pop().expect("a record"));
            },
        ),
        (
            "newest record is another's",
            &["commit-file-damaged"],
            "nothing is lost",
            |patient| {
                let records = records(&patient.checkpoint());
                let [.., before, newest] = records.as_slice() else {
                    panic!("two records")
                };
                fs::copy(before, newest).expect("copied");
            },
        ),
        (
            "newest record of another chain",
            &["commit-file-damaged"],
            "nothing is lost",
            |patient| {
                let newest = records(&patient.checkpoint()).pop().expect("a record");
                edit(&newest, |record| record["chain"] = "0".repeat(64).into());
                let run = patient.project.once();
                assert_eq!(run.code, 7, "{}", run.stdout);
                assert!(run.stdout.contains("the file was changed by hand"), "{}", run.stdout);
            },
        ),
        (
            "newest record with the end of another",
            &["commit-file-damaged"],
            "nothing is lost",
            |patient| {
                let records = records(&patient.checkpoint());
                let [before, .., newest] = records.as_slice() else {
                    panic!("two records")
                };
                let mut end = Value::Null;
                edit(before, |record| end = record["end"].clone());
                edit(newest, |record| record["end"] = end);
                let run = patient.project.once();
                assert_eq!(run.code, 7, "{}", run.stdout);
                assert!(run.stdout.contains("another end than its own facts"), "{}", run.stdout);
            },
        ),
        (
            "newest record without an end",
            &["commit-file-damaged"],
            "nothing is lost",
            |patient| {
                let newest = records(&patient.checkpoint()).pop().expect("a record");
                edit(&newest, |record| record["end"]["lsn"] = "0x00000000000000000000".into());
                assert_eq!(patient.project.once().code, 7);
            },
        ),
        (
            "record in the middle gone",
            &["commit-file-missing"],
            "run works without it",
            |patient| {
                fs::remove_file(patient.checkpoint().join("commits/1.json")).expect("removed");
            },
        ),
        (
            "plan of a done batch cut",
            &["plan-file-damaged"],
            "needs its plan no more",
            |patient| {
                cut(&patient.checkpoint().join("offsets/2.a0.json"));
            },
        ),
        (
            "stream.json of another table",
            &["stream-file-foreign"],
            "another table",
            |patient| {
                let other = r#"{"format":1,"app_id":"other","database":"x","schema":"dbo","table":"y"}"#;
                fs::write(patient.checkpoint().join("stream.json"), other).expect("written");
            },
        ),
        (
            "stream.json emptied",
            &["stream-file-damaged"],
            "nothing is lost",
            |patient| {
                fs::write(patient.checkpoint().join("stream.json"), "").expect("written");
            },
        ),
        (
            "owner.json cut",
            &["owner-file-damaged"],
            "nothing is lost",
            |patient| {
                cut(&patient.checkpoint().join("owner.json"));
            },
        ),
        ("component cut", &["component-damaged"], "nothing is lost", |patient| {
            cut(&files_under(&patient.checkpoint().join("components"))[0]);
        }),
        (
            "set back to an older copy",
            &["checkpoint-rewound"],
            "no row is lost",
            |patient| {
                for record in records(&patient.checkpoint()).iter().skip(2) {
                    let batch = record.file_stem().expect("a name").to_string_lossy().into_owned();
                    fs::remove_file(record).expect("removed");
                    // An earlier harm took some of the plans.
                    let _ = fs::remove_file(patient.checkpoint().join(format!("offsets/{batch}.a0.json")));
                }
            },
        ),
        (
            "checkpoint deleted",
            &["checkpoint-deleted"],
            "no row is lost",
            |patient| {
                fs::remove_dir_all(patient.checkpoint()).expect("removed");
            },
        ),
        (
            "facts deleted, and old records",
            &["facts-missing"],
            "repair before you run",
            |patient| {
                fs::remove_dir_all(patient.facts()).expect("removed");
                for batch in 0..3 {
                    fs::remove_file(patient.checkpoint().join(format!("commits/{batch}.json"))).expect("removed");
                    let _ = fs::remove_file(patient.checkpoint().join(format!("offsets/{batch}.a0.json")));
                }
            },
        ),
    ];
    for (name, wanted, words, harm) in harms {
        harm(&patient);
        let findings = patient.finds(7, wanted);
        let said = format!("{} {}", text(&findings[0], "means"), text(&findings[0], "what"));
        assert!(said.contains(words), "{name}: {said}");
        assert_eq!(findings[0]["severity"], "repairable", "{name}");
        let run = patient.doctor(&["--repair"]);
        assert_eq!(run.code, 0, "{name}: {}\n{}", run.stdout, run.stderr);
        let repaired = &run.of_type("repaired")[0];
        let backup = PathBuf::from(repaired["backup"].as_str().expect("a backup"));
        assert!(backup.join("repair.json").is_file(), "{name}");
        assert!(!repaired["done"].as_array().expect("a list").is_empty(), "{name}");
        patient.batch().await;
        patient.expect_whole();
        patient.finds(0, &[]);
    }
    let events = rows_of(&patient.facts(), &["written_at"])
        .expect("facts")
        .texts("event");
    assert_eq!(events.into_iter().flatten().collect::<Vec<_>>(), ["transform_set"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_mends_is_no_reason_to_wake_somebody() {
    let mut patient = Patient::with_batches("", 2).await;
    let mends: [(&str, Harm); 5] = [
        ("control-missing", |patient| {
            fs::remove_dir_all(patient.project.lake().join("ops/table_finalization")).expect("removed");
        }),
        ("stream-file-missing", |patient| {
            fs::remove_file(patient.checkpoint().join("stream.json")).expect("removed");
        }),
        ("temporary-file", |patient| {
            fs::write(patient.checkpoint().join("commits/.9.json.0.sluice-tmp"), "{").expect("written");
        }),
        ("commit-file-missing", |patient| {
            fs::remove_file(records(&patient.checkpoint()).pop().expect("a record")).expect("removed");
        }),
        ("facts-missing", |patient| {
            fs::remove_dir_all(patient.facts()).expect("removed");
        }),
    ];
    for (code, harm) in mends {
        harm(&patient);
        let findings = patient.finds(0, &[code]);
        assert_eq!(findings[0]["severity"], "run_mends");
        patient.batch().await;
        patient.expect_whole();
        patient.finds(0, &[]);
    }
    for (failpoint, code) in [
        ("after-offset", "open-batch"),
        ("after-commit", "open-batch"),
        ("after-commit-file", "facts-behind"),
    ] {
        patient.insert().await;
        assert!(patient.project.kill_at(failpoint), "{failpoint}");
        patient.finds(0, &[code]);
        patient.batch().await;
        patient.expect_whole();
        patient.finds(0, &[]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_plan_of_an_open_batch_loses_and_doubles_nothing() {
    let mut patient = Patient::with_batches("", 2).await;
    let newest_plan = |patient: &Patient| {
        let mut plans = files_under(&patient.checkpoint().join("offsets"));
        plans.sort();
        plans.pop().expect("a plan")
    };
    patient.insert().await;
    let harms: [fn(&Path); 4] = [
        cut,
        |plan| edit(plan, |plan| plan["start"] = Value::Null),
        |plan| edit(plan, |plan| plan["end"]["lsn"] = "0xFFFFFFFFFFFFFFFFFFFF".into()),
        |plan| edit(plan, |plan| plan["ranges"][0]["to"] = plan["start"]["lsn"].clone()),
    ];
    for harm in harms {
        assert!(patient.project.kill_at("files-staged"));
        harm(&newest_plan(&patient));
        assert_eq!(patient.project.once().code, 7);
        let findings = patient.finds(7, &["plan-file-damaged"]);
        assert!(text(&findings[0], "means").contains("nothing of it is in bronze"));
        patient.doctor(&["--repair"]).ok();
    }
    patient.batch().await;
    patient.expect_whole();

    // The batch is in bronze: its record comes from there, and nothing is read again.
    patient.insert().await;
    assert!(patient.project.kill_at("after-commit"));
    cut(&newest_plan(&patient));
    assert_eq!(patient.project.once().code, 7);
    patient.finds(7, &["commit-file-missing", "facts-behind", "plan-file-damaged"]);
    patient.doctor(&["--repair"]).ok();
    let versions = commits(&patient.project.bronze("dbo_t")).len();
    patient.project.once().ok();
    assert_eq!(
        commits(&patient.project.bronze("dbo_t")).len(),
        versions,
        "nothing was written to bronze"
    );
    patient.expect_whole();
    patient.finds(0, &[]);
}

/// What the facts table says of batches, in order.
fn of_batches(patient: &Patient) -> Vec<[Option<String>; 6]> {
    let facts = rows_of(&patient.facts(), &["batch_id"]).expect("facts");
    let columns = ["batch_id", "rows", "inserts", "min_lsn", "end_lsn", "delta_version"];
    let columns = columns.map(|column| facts.texts(column));
    let rows = (0..facts.len()).map(|row| std::array::from_fn(|column| columns[column][row].clone()));
    rows.filter(|row: &[Option<String>; 6]| row[0].is_some()).collect()
}

/// More batches than a checkpoint keeps records of, and removes them now and then.
const MANY: i64 = 150;
const ONE_COMMIT_EACH: &str = "max_commits_per_batch = 1\n";

#[tokio::test(flavor = "multi_thread")]
async fn facts_that_are_older_than_the_records_are_written_again_from_bronze() {
    let mut patient = Patient::new(ONE_COMMIT_EACH).await;
    patient.insert_many(MANY).await;
    patient.project.once().ok();
    patient.expect_whole();
    let before = of_batches(&patient);
    fs::remove_dir_all(patient.facts()).expect("removed");
    patient.insert().await;
    // A run does not begin a table that could never be completed.
    let run = patient.project.once();
    assert_eq!(run.code, 7, "{}", run.stdout);
    let error = run.failure("dbo_t")["error"].to_string();
    assert!(
        error.contains("the facts table has nothing of this app_id") && error.contains("sluice doctor --repair"),
        "{error}"
    );
    patient.finds(7, &["facts-missing"]);
    patient.doctor(&["--repair"]).ok();
    assert_eq!(of_batches(&patient), before);
    patient.project.once().ok();
    patient.expect_whole();
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_that_were_set_back_behind_the_records_get_them_from_bronze() {
    let mut patient = Patient::with_batches(ONE_COMMIT_EACH, 2).await;
    // Two, and on a server that is there those in which nothing but the harness' own commits is.
    let next = of_batches(&patient).len();
    assert!(next == 2 || !patient.server.is_stand_in(), "{next}");
    let saved = crate::harness::scratch();
    copy(&patient.facts(), saved.path());
    patient.insert_many(MANY).await;
    patient.project.once().ok();
    fs::remove_dir_all(patient.facts()).expect("removed");
    copy(saved.path(), &patient.facts());
    patient.insert().await;
    let run = patient.project.once();
    assert_eq!(run.code, 7, "{}", run.stdout);
    let error = run.failure("dbo_t")["error"].to_string();
    assert!(error.contains(&format!("has lost commits/{next}.json")), "{error}");
    // One finding for all records that are gone, and one for what the facts lack.
    let findings = patient.finds(7, &["commit-file-missing", "facts-behind"]);
    let gone = findings
        .iter()
        .find(|finding| finding["code"] == "commit-file-missing")
        .expect("found");
    assert!(text(gone, "what").contains(&format!("batches {next} to")), "{gone}");
    patient.doctor(&["--repair"]).ok();
    patient.project.once().ok();
    patient.expect_whole();
    patient.finds(0, &[]);
}
