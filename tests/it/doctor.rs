//! The doctor finds what is damaged, says what it means, and puts right what can be; the drill proves it on copies.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use sluice_test_guests::component;

use crate::harness::{Project, Run, Running, Server, commits, files_under, rows_of};

/// A table with a component, a small one: to compile it is most of what each of these many runs costs.
const UPPER: &str = "[[table.transform]]\nplugin = \"upper\"\nconfig = { columns = [\"v\"] }\n";

/// A table that is changed, run, damaged and repaired.
struct Patient {
    server: Server,
    project: Project,
    next: i64,
}

impl Patient {
    async fn new(rest: &str) -> Patient {
        let server = Server::start(&[]);
        server.database("sales").await;
        server
            .table("sales", "t", "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL")
            .await;
        let project = Project::new(&server, "sales").table("dbo_t", rest);
        project.plugin("upper", &component("upper"));
        Patient {
            server,
            project,
            next: 1,
        }
    }

    async fn with_batches(rest: &str, batches: usize) -> Patient {
        let mut patient = Patient::new(rest).await;
        for _ in 0..batches {
            patient.batch().await;
        }
        patient
    }

    async fn insert(&mut self) {
        let id = self.next;
        self.server
            .exec("sales", &format!("INSERT INTO dbo.t VALUES ({id}, N'v{id}')"))
            .await;
        self.next += 1;
    }

    /// One more row, brought to bronze.
    async fn batch(&mut self) {
        self.insert().await;
        self.project.once().ok();
    }

    /// Each change is in bronze once, in order, and each batch has one facts row that counts it.
    fn expect_whole(&self) {
        let rows = rows_of(&self.project.bronze("dbo_t"), &["_start_lsn"]).expect("rows");
        assert_eq!(rows.numbers("id"), (1..self.next).collect::<Vec<i64>>());
        let facts = rows_of(&self.facts(), &["batch_id"]).expect("facts");
        let batches: Vec<i64> = facts
            .texts("batch_id")
            .iter()
            .flatten()
            .map(|text| text.parse().expect("a number"))
            .collect();
        assert_eq!(
            batches,
            (0..batches.len() as i64).collect::<Vec<i64>>(),
            "one facts row a batch"
        );
        let counted: i64 = facts
            .texts("rows")
            .iter()
            .flatten()
            .map(|n| n.parse::<i64>().expect("a number"))
            .sum();
        assert_eq!(counted, self.next - 1);
    }

    fn doctor(&self, arguments: &[&str]) -> Run {
        self.project.run("doctor", &[&["--json"], arguments].concat())
    }

    /// The doctor has to find exactly these codes, and to change nothing.
    fn finds(&self, code: i32, wanted: &[&str]) -> Vec<Value> {
        let before = snapshot(&self.project.lake());
        let run = self.doctor(&[]);
        assert_eq!(run.code, code, "{}\n{}", run.stdout, run.stderr);
        let findings = run.of_type("finding");
        assert_eq!(codes(&findings), wanted, "{}", run.stdout);
        assert!(
            before == snapshot(&self.project.lake()),
            "an examination changed something"
        );
        findings
    }

    fn checkpoint(&self) -> PathBuf {
        self.project.lake().join("checkpoints/dbo_t")
    }

    fn facts(&self) -> PathBuf {
        self.project.lake().join("ops/ingestion_facts")
    }

    fn log(&self, version: usize) -> PathBuf {
        self.project
            .bronze("dbo_t")
            .join(format!("_delta_log/{version:020}.json"))
    }
}

fn codes(findings: &[Value]) -> Vec<&str> {
    let mut codes: Vec<&str> = findings
        .iter()
        .map(|finding| finding["code"].as_str().expect("a code"))
        .collect();
    codes.sort_unstable();
    codes
}

/// Every file with its content and the time of its last change.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    if !folder.exists() {
        return BTreeMap::new();
    }
    files_under(folder)
        .into_iter()
        .map(|path| {
            let changed = fs::metadata(&path).expect("metadata").modified().expect("a time");
            let content = fs::read(&path).expect("readable");
            (path, (content, changed))
        })
        .collect()
}

fn cut(file: &Path) {
    let content = fs::read(file).expect("readable");
    fs::write(file, &content[..content.len() / 2]).expect("written");
}

fn copy(from: &Path, to: &Path) {
    for path in files_under(from) {
        let target = to.join(path.strip_prefix(from).expect("inside"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("created");
        fs::copy(&path, &target).expect("copied");
    }
}

/// Commits of the checkpoint, newest last.
fn records(checkpoint: &Path) -> Vec<PathBuf> {
    let mut records = files_under(&checkpoint.join("commits"));
    records.sort_by_key(|path| {
        path.file_stem()
            .expect("a name")
            .to_string_lossy()
            .parse::<i64>()
            .expect("a number")
    });
    records
}

fn text<'a>(finding: &'a Value, field: &str) -> &'a str {
    finding[field].as_str().expect("a text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_table_has_no_findings() {
    let mut patient = Patient::new(UPPER).await;
    patient.finds(0, &[]);
    assert!(!patient.project.lake().exists(), "a look makes no folders");
    for _ in 0..3 {
        patient.batch().await;
    }
    patient.finds(0, &[]);
    let seen = patient.doctor(&["--repair"]).ok();
    let seen = &seen.of_type("examination")[0];
    assert_eq!((&seen["batch_id"], &seen["running"]), (&2.into(), &false.into()));
    assert_eq!(seen["worst"], Value::Null);
    let people = patient.project.run("doctor", &[]).ok();
    assert!(
        people.stdout.contains("dbo_t (dbo_t-v1): well; batch 2"),
        "{}",
        people.stdout
    );
    assert!(
        fs::read_dir(patient.project.lake().join("checkpoints"))
            .expect("readable")
            .count()
            == 1,
        "no backup of nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_ran_beside_a_busy_one_is_healthy() {
    let mut patient = Patient::new("").await;
    patient
        .server
        .table("sales", "busy", "id int NOT NULL PRIMARY KEY")
        .await;
    let mut run = Running::start(&patient.project, &[]);
    // The stream moves over commits of the other table in memory, so a batch begins after the one before it ended.
    let moved = |patient: &Patient| {
        let read = |file: PathBuf| -> Option<Value> { serde_json::from_slice(&fs::read(file).ok()?).ok() };
        (1..patient.next).any(|batch| {
            let planned = read(patient.checkpoint().join(format!("offsets/{batch}.a0.json")));
            let before = read(patient.checkpoint().join(format!("commits/{}.json", batch - 1)));
            let lsns = planned.zip(before).map(|(planned, before)| {
                let lsn = |offset: &Value| offset["lsn"].as_str().map(str::to_owned);
                (lsn(&planned["start"]), lsn(&before["end"]))
            });
            lsns.is_some_and(|(start, end)| start > end)
        })
    };
    for number in 0..100 {
        patient
            .server
            .exec("sales", &format!("INSERT INTO dbo.busy VALUES ({number})"))
            .await;
        // Nothing tells that a poll saw this; sooner or later one comes before the table's own change.
        tokio::time::sleep(std::time::Duration::from_millis(20 * number)).await;
        patient.insert().await;
        run.until_type("batch");
        if number > 2 && moved(&patient) {
            break;
        }
    }
    assert!(moved(&patient), "no batch began after the one before it ended");
    run.terminate();
    assert_eq!(run.code(), Some(0));
    patient.finds(0, &[]);
    // And it is mended like any other.
    let newest = records(&patient.checkpoint()).pop().expect("a record");
    cut(&newest);
    patient.finds(7, &["commit-file-damaged"]);
    patient.doctor(&["--repair"]).ok();
    patient.finds(0, &[]);
    patient.batch().await;
    patient.expect_whole();
}

type Harm = fn(&Patient);
/// With what it knows of the table.
type KnowingHarm = Box<dyn Fn(&Patient)>;

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_repaired_is_and_the_next_run_goes_on_from_it() {
    let mut patient = Patient::with_batches(UPPER, 4).await;
    let harms: [(&str, &[&str], &str, Harm); 12] = [
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
    assert!(patient.project.kill_at("files-staged"));
    cut(&newest_plan(&patient));
    assert_eq!(patient.project.once().code, 7);
    let findings = patient.finds(7, &["plan-file-damaged"]);
    assert!(text(&findings[0], "means").contains("nothing of it is in bronze"));
    patient.doctor(&["--repair"]).ok();
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

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_is_refused_and_left_as_it_is() {
    let patient = Patient::with_batches("", 3).await;
    let saved = crate::harness::scratch();
    copy(&patient.project.lake(), saved.path());
    let newest = commits(&patient.project.bronze("dbo_t")).len() - 1;
    let harms: [(&[&str], &str, KnowingHarm); 9] = [
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

#[tokio::test(flavor = "multi_thread")]
async fn a_drill_passes_and_leaves_the_table_untouched() {
    let patient = Patient::with_batches(UPPER, 4).await;
    let before = snapshot(patient.project.path());
    let run = patient.project.run("drill", &["--json"]);
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    assert!(
        before == snapshot(patient.project.path()),
        "the drill changed the table"
    );
    let trials = run.of_type("drill");
    assert!(trials.len() >= 20, "{}", run.stdout);
    let ended = |outcome: &str| trials.iter().filter(|trial| trial["outcome"] == outcome).count();
    assert_eq!(ended("not_applicable"), 0, "{}", run.stdout);
    assert!(ended("repaired") >= 12 && ended("refused") >= 6, "{}", run.stdout);
    for trial in trials.iter().filter(|trial| trial["outcome"] == "refused") {
        assert!(!text(trial, "why").is_empty(), "{trial}");
    }
    let people = patient.project.run("drill", &["--only", "bronze-behind"]).ok();
    assert!(
        people.stdout.contains("bronze set back to an older version"),
        "{}",
        people.stdout
    );
    assert!(
        people.stdout.lines().all(|line| line.chars().count() <= 100),
        "{}",
        people.stdout
    );
    let wrong = patient.project.run("drill", &["--only", "bronze-behnd"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("did you mean bronze-behind"), "{}", wrong.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drill_on_a_damaged_table_is_refused() {
    let patient = Patient::with_batches("", 3).await;
    cut(&patient.checkpoint().join("commits/2.json"));
    let run = patient.project.run("drill", &[]);
    assert_eq!(run.code, 7, "{}", run.stdout);
    assert!(
        run.stderr.contains("commit-file-damaged") && run.stderr.contains("sluice doctor"),
        "{}",
        run.stderr
    );
}
