//! The doctor finds what is damaged, says what it means, and puts right what can be; the drill proves it on copies.

mod drill;
mod leases;
mod mended;
mod quarantined;
mod refused;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use sluice_test_guests::component;

use crate::harness::{Held, Project, Run, Running, Server, commits, files_under, ids, insert, rows_of, sales};

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
        let server = sales(&["t"]).await;
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
        self.insert_many(1).await;
    }

    /// So many changes, each in a commit of its own.
    async fn insert_many(&mut self, number: i64) {
        let next = self.next + number;
        insert(&self.server, self.next..=next - 1).await;
        self.next = next;
    }

    /// One more row, brought to bronze.
    async fn batch(&mut self) {
        self.insert().await;
        self.project.once().ok();
    }

    /// Each change is in bronze once, in order, and each batch has one facts row that counts it.
    fn expect_whole(&self) {
        assert_eq!(ids(&self.project), (1..self.next).collect::<Vec<i64>>());
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
            let there = fs::symlink_metadata(&path).expect("metadata");
            let changed = there.modified().expect("a time");
            let content = match there.is_symlink() {
                true => fs::read_link(&path)
                    .expect("a link")
                    .into_os_string()
                    .into_encoded_bytes(),
                false => fs::read(&path).expect("readable"),
            };
            (path, (content, changed))
        })
        .collect()
}

/// Changes a file by hand.
fn edit(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut content: Value = serde_json::from_slice(&fs::read(file).expect("readable")).expect("JSON");
    change(&mut content);
    fs::write(file, content.to_string()).expect("written");
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
