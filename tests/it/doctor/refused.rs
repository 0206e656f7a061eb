//! What needs a person, and is left as it is.

use super::*;

/// With what it knows of the table.
type KnowingHarm = Box<dyn Fn(&Patient)>;

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_is_refused_and_left_as_it_is() {
    let patient = Patient::with_batches("", 3).await;
    let saved = crate::harness::scratch();
    copy(&patient.project.lake(), saved.path());
    let newest = commits(&patient.project.bronze("dbo_t")).len() - 1;
    let harms: [(&[&str], &str, KnowingHarm); 12] = [
        (
            &["bronze-behind", "verdict-ahead"],
            "consumers were told",
            Box::new(move |patient| fs::remove_file(patient.log(newest)).expect("removed")),
        ),
        (
            &["bronze-missing", "verdict-ahead"],
            "consumers were told",
            Box::new(|patient| fs::remove_dir_all(patient.project.bronze("dbo_t")).expect("removed")),
        ),
        (
            &["log-entry-damaged"],
            "data files are untouched",
            Box::new(|patient| fs::write(patient.log(2), "").expect("written")),
        ),
        (
            &["log-entry-missing"],
            "data files are untouched",
            Box::new(|patient| fs::remove_file(patient.log(2)).expect("removed")),
        ),
        (
            &["data-file-missing"],
            "those rows are lost",
            Box::new(|patient| {
                let files = files_under(&patient.project.bronze("dbo_t"));
                let data = files
                    .iter()
                    .find(|path| path.extension().is_some_and(|e| e == "parquet"));
                fs::remove_file(data.expect("a data file")).expect("removed");
            }),
        ),
        (
            &["bronze-row-count", "foreign-commit"],
            "after they were counted",
            Box::new(move |patient| {
                let of_newest = &commits(&patient.project.bronze("dbo_t"))[newest];
                let add = of_newest
                    .iter()
                    .find(|action| action["add"].is_object())
                    .expect("a file");
                let remove = serde_json::json!({"remove": {
                    "path": add["add"]["path"], "dataChange": true, "deletionTimestamp": 1, "size": add["add"]["size"],
                    "extendedFileMetadata": true, "partitionValues": {},
                }});
                let info = serde_json::json!({"commitInfo": {"operation": "DELETE", "timestamp": 1}});
                fs::write(patient.log(newest + 1), format!("{info}\n{remove}\n")).expect("written");
            }),
        ),
        (
            &["facts-unnumbered"],
            "a second time",
            Box::new(|patient| {
                for version in 0.. {
                    let file = patient.facts().join(format!("_delta_log/{version:020}.json"));
                    let Ok(text) = fs::read_to_string(&file) else { break };
                    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("{\"txn\"")).collect();
                    fs::write(&file, kept.join("\n") + "\n").expect("written");
                }
                let run = patient.project.once();
                assert_eq!(run.code, 7, "{}", run.stderr);
                assert!(run.stdout.contains("no transaction id of it"), "{}", run.stdout);
                let rows = rows_of(&patient.facts(), &["batch_id"]).expect("facts");
                assert_eq!(
                    rows.texts("batch_id").iter().flatten().count(),
                    3,
                    "nothing is there twice"
                );
            }),
        ),
        (
            &["lock-damaged"],
            "keeps two processes apart",
            Box::new(|patient| {
                let lock = patient.checkpoint().join("lock");
                fs::remove_file(&lock).expect("removed");
                fs::create_dir(&lock).expect("created");
                let run = patient.project.once();
                assert_eq!(run.code, 7, "{}", run.stdout);
                assert!(run.stdout.contains("keeps two processes apart"), "{}", run.stdout);
            }),
        ),
        (
            &["unreadable"],
            "not known",
            Box::new(|patient| {
                let records = patient.checkpoint().join("commits");
                fs::remove_dir_all(&records).expect("removed");
                fs::write(&records, "").expect("written");
                let run = patient.project.once();
                assert_eq!(run.code, 7, "{}", run.stdout);
                assert!(run.stdout.contains("it is no folder"), "{}", run.stdout);
            }),
        ),
        (
            &["unreadable"],
            "not known",
            Box::new(|patient| {
                // A disk that is not mounted.
                let plans = patient.checkpoint().join("offsets");
                fs::remove_dir_all(&plans).expect("removed");
                std::os::unix::fs::symlink("/nowhere/at/all", &plans).expect("a link");
                for command in ["check", "status"] {
                    let run = patient.project.run(command, &[]);
                    assert_eq!(run.code, 7, "{command}: {}\n{}", run.stdout, run.stderr);
                }
                assert_eq!(patient.project.once().code, 7);
            }),
        ),
        (
            &["checkpoint-foreign"],
            "numbers",
            Box::new(|patient| {
                let file = patient.checkpoint().join("stream.json");
                let text = fs::read_to_string(&file).expect("readable");
                fs::write(&file, text.replace("\"sales\"", "\"stock\"")).expect("written");
            }),
        ),
        (
            &["newer-format"],
            "a newer sluice",
            Box::new(|patient| {
                let file = records(&patient.checkpoint()).pop().expect("a record");
                fs::write(&file, "{\"format\": 99}").expect("written");
            }),
        ),
    ];
    for (wanted, words, harm) in harms {
        harm(&patient);
        let findings = patient.finds(7, wanted);
        let said: String = findings.iter().map(|finding| text(finding, "means")).collect();
        assert!(said.contains(words), "{wanted:?}: {said}");
        for finding in &findings {
            assert_eq!(
                (&finding["severity"], &finding["repair"]),
                (&"needs_person".into(), &Value::Null),
                "{finding}"
            );
        }
        let before = snapshot(&patient.project.lake());
        let run = patient.doctor(&["--repair"]);
        assert_eq!(run.code, 7, "{wanted:?}: {}", run.stdout);
        assert!(
            before == snapshot(&patient.project.lake()),
            "{wanted:?}: a repair changed something"
        );
        fs::remove_dir_all(patient.project.lake()).expect("removed");
        copy(saved.path(), &patient.project.lake());
    }
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_checkpoints_on_one_lake_the_doctor_names_the_one_that_cannot_go_on() {
    let mut patient = Patient::new("").await;
    let (one, two) = ("lake/checkpoints/{ci}", "lake/other/{ci}");
    patient.insert().await;
    assert!(patient.project.kill_at("files-staged"));
    patient.project.edit(one, two);
    patient.batch().await;
    patient.finds(0, &[]);
    patient.project.edit(two, one);
    let findings = patient.finds(7, &["other-batch", "owner-behind-bronze"]);
    let other = findings
        .iter()
        .find(|finding| finding["code"] == "other-batch")
        .expect("found");
    assert!(
        text(other, "what").contains("batch 0") && text(other, "advice").contains("host"),
        "{other}"
    );
    let before = snapshot(&patient.project.lake());
    assert_eq!(patient.doctor(&["--repair"]).code, 7);
    assert!(before == snapshot(&patient.project.lake()));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_repaired_under_a_running_process() {
    let patient = Patient::with_batches("", 3).await;
    let mut running = Running::start(&patient.project, &[]);
    running.until_type("opened");
    fs::remove_file(patient.checkpoint().join("commits/1.json")).expect("removed");
    let run = patient.doctor(&["--repair"]);
    assert_eq!(run.code, 7, "{}", run.stdout);
    assert_eq!(codes(&run.of_type("finding")), ["running"], "{}", run.stdout);
    let said = run.of_type("repaired")[0]["error"]
        .as_str()
        .expect("an error")
        .to_owned();
    assert!(
        said.contains("is in use by process") && said.contains("nothing was repaired"),
        "{said}"
    );
    assert!(!patient.checkpoint().join("commits/1.json").exists());
    running.terminate();
    assert_eq!(running.code(), Some(0));
    patient.finds(7, &["commit-file-missing"]);
    patient.doctor(&["--repair"]).ok();
    patient.finds(0, &[]);
    patient.expect_whole();
}
