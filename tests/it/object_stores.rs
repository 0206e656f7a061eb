//! Tables, checkpoints and leases in buckets: of an S3, an Azure Blob Storage and a GCS that run on this machine.

use std::path::Path;

use sluice::config::Settings;

use crate::harness::{Gate, Kind, Project, Running, Server, Store, commits, insert, rows_of, sales};

const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];

/// The ids in bronze, in commit order.
fn ids(store: &Store) -> Vec<i64> {
    let mirror = store.mirror();
    rows_of(&mirror.bronze("dbo_t"), &ORDER).map_or_else(Vec::new, |rows| rows.numbers("id"))
}

fn up_to(last: i64) -> Vec<i64> {
    (1..=last).collect()
}

/// One facts row a batch, and a verdict.
fn expect_accounts(store: &Store, project: &Project) {
    let mirror = store.mirror();
    let facts = rows_of(&mirror.path().join("ops/ingestion_facts"), &["batch_id"]).expect("facts");
    let batches: Vec<i64> = facts
        .texts("event")
        .iter()
        .zip(facts.texts("batch_id"))
        .filter(|(event, _)| event.is_none())
        .map(|(_, batch)| batch.expect("a number").parse().expect("a number"))
        .collect();
    let each: Vec<i64> = (0..i64::try_from(batches.len()).expect("small")).collect();
    assert_eq!(batches, each);
    let control = rows_of(&mirror.path().join("ops/table_finalization"), &["table_name"]).expect("a verdict");
    assert_eq!(control.texts("status"), [Some("current".to_owned())]);
    let status = project.run("status", &[]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    let check = project.run("check", &[]);
    assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
    let doctor = project.run("doctor", &[]);
    assert_eq!(doctor.code, 0, "{}{}", doctor.stdout, doctor.stderr);
    assert!(doctor.stdout.contains("well"), "{}", doctor.stdout);
}

/// What every store has to do: a table begins, goes on, is killed at each step that matters and goes on again.
async fn a_table_lives_in(kind: Kind) {
    let (server, store) = (sales(&["t"]).await, Store::start(kind));
    let project = store.project(&server, "sales").table("dbo_t", "");
    insert(&server, 1..=3).await;
    let run = project.once();
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(run.table("dbo_t")["rows"], 3);
    assert_eq!(ids(&store), up_to(3));
    expect_accounts(&store, &project);
    let mut last = 3;
    for failpoint in sluice::failpoint::ALL {
        insert(&server, last + 1..=last + 2).await;
        last += 2;
        assert!(project.kill_at(failpoint), "{failpoint}");
        let run = project.once();
        assert_eq!(run.code, 0, "{failpoint}: {}{}", run.stdout, run.stderr);
        assert_eq!(ids(&store), up_to(last), "{failpoint}");
    }
    expect_accounts(&store, &project);
    // Nothing of the machine's own disk has a row, a plan or a lease.
    let here: Vec<String> = std::fs::read_dir(project.path())
        .expect("readable")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name == "lake" || name == "hosts" || name.contains(':'))
        .collect();
    assert_eq!(here, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_lives_in_s3() {
    a_table_lives_in(Kind::S3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_lives_in_azure() {
    a_table_lives_in(Kind::Azure).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_lives_in_gcs() {
    a_table_lives_in(Kind::Gcs).await;
}

/// Texts that do not compress, in one transaction: the file is sent in parts.
async fn a_large_file_is_sent_in_parts_to(kind: Kind) {
    let server = Server::start(&[]);
    server.database("sales").await;
    server
        .table("sales", "t", "id int NOT NULL PRIMARY KEY, v varbinary(max) NULL")
        .await;
    let store = Store::start(kind);
    let project = store.project(&server, "sales").table("dbo_t", "");
    let rows: Vec<String> = (1..=20)
        .map(|id| {
            let bytes: Vec<u8> = (0..1 << 20).map(|_| rand::random()).collect();
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("({id}, 0x{hex})")
        })
        .collect();
    server
        .exec("sales", &format!("INSERT INTO dbo.t VALUES {}", rows.join(", ")))
        .await;
    let run = project.once();
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(ids(&store), up_to(20));
    let size: i64 = commits(&store.mirror().bronze("dbo_t"))
        .iter()
        .flatten()
        .filter_map(|action| action["add"]["size"].as_i64())
        .sum();
    assert!(size > 20 << 20, "{size} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_is_sent_in_parts_to_s3() {
    a_large_file_is_sent_in_parts_to(Kind::S3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_is_sent_in_parts_to_azure() {
    a_large_file_is_sent_in_parts_to(Kind::Azure).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_is_sent_in_parts_to_gcs() {
    a_large_file_is_sent_in_parts_to(Kind::Gcs).await;
}

/// The store serves a request and its answer is lost, or it has no time: every change arrives once all the same.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_double_nothing() {
    for kind in [Kind::S3, Kind::Azure, Kind::Gcs] {
        let seed: u32 = rand::random();
        println!("{kind:?}, seed {seed}");
        let (server, store) = (sales(&["t"]).await, Store::start(kind));
        let gate = Gate::before(&store, &["--faults", &seed.to_string()]);
        let project = store
            .project_at(&server, "sales", &store.section(gate.port))
            .table("dbo_t", "");
        for batch in 0..6 {
            insert(&server, batch * 2 + 1..=batch * 2 + 2).await;
            let run = project.once();
            assert_eq!(run.code, 0, "{kind:?}: {}{}", run.stdout, run.stderr);
        }
        assert_eq!(ids(&store), up_to(12), "{kind:?}");
        expect_accounts(&store, &project);
        let said = gate.end();
        println!("{said:?}");
        assert!(!said[0].starts_with("0 answers"), "{kind:?}: {said:?}");
    }
}

/// Credentials that run out while the process runs are read again before.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_run_out_are_read_again() {
    let (server, store) = (sales(&["t"]).await, Store::start(Kind::S3));
    let dir = tempfile::tempdir().expect("a folder");
    let tokens = dir.path().join("tokens");
    let gate = Gate::before(&store, &["--tokens", tokens.to_str().expect("UTF-8")]);
    // What stands for the service that gives out credentials: each holds for four seconds, and the store takes it for eight.
    let script = dir.path().join("credentials.sh");
    std::fs::write(
        &script,
        format!(
            "set -e\ncd {}\nn=$(cat count 2>/dev/null || echo 0); n=$((n+1)); echo $n > count\n\
             echo token$n >> tokens; tail -n 2 tokens > tokens.new; mv tokens.new tokens\n\
             echo '{{\"Version\": 1, \"AccessKeyId\": \"a\", \"SecretAccessKey\": \"b\", \"SessionToken\": \"token'$n'\", \
             \"Expiration\": \"'$(date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ)'\"}}'\n",
            dir.path().display()
        ),
    )
    .expect("written");
    let section = format!(
        "[storage.s3]\nendpoint = \"http://127.0.0.1:{}\"\nregion = \"us-east-1\"\nallow_http = true\n\
         credentials = {{ command = [\"sh\", \"{}\"] }}\n",
        gate.port,
        script.display()
    );
    let project = store.project_at(&server, "sales", &section).table("dbo_t", "");
    let mut running = Running::start(&project, &[]);
    let mut last = 0;
    let given = || -> u32 {
        let count = std::fs::read_to_string(dir.path().join("count")).unwrap_or_default();
        count.trim().parse().unwrap_or(0)
    };
    while given() < 5 {
        last += 1;
        insert(&server, last..=last).await;
        running.until_type("batch");
    }
    running.terminate();
    assert_eq!(running.code(), Some(0));
    assert_eq!(ids(&store), up_to(last));
    let said = gate.end();
    assert!(!said.iter().any(|line| line == "refused"), "{said:?}");
}

/// A bucket that is not there, and a store that is away: what is said names the place, and the exit code the kind.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_store_refuses_is_told_with_its_place() {
    let (server, store) = (sales(&["t"]).await, Store::start(Kind::S3));
    let mut project = store.project(&server, "sales").table("dbo_t", "");
    project.edit("s3://lake/bronze", "s3://nowhere/bronze");
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(
        run.stderr
            .contains("the store has no bucket for s3://nowhere/bronze/dbo_t"),
        "{}",
        run.stderr
    );
    project.edit("s3://nowhere/bronze", "s3://lake/bronze");
    project.edit(
        "secret_access_key = { command = [\"printf\", \"test\"] }",
        "secret_access_key = { env = \"SLUICE_NOT_SET\" }",
    );
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(
        run.stderr.contains("storage.s3.secret_access_key") && run.stderr.contains("SLUICE_NOT_SET is not set"),
        "{}",
        run.stderr
    );
}

/// A store that takes conditions and ignores them would let two processes win one race: nothing is written there.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_ignores_conditions_is_refused() {
    let (server, store) = (sales(&["t"]).await, Store::start(Kind::Careless));
    let project = store.project(&server, "sales").table("dbo_t", "");
    for command in ["run", "check"] {
        let run = project.run(command, if command == "run" { &["--once"] } else { &[] });
        assert_eq!(run.code, 2, "{}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains("wrote over an object"), "{}", run.stderr);
    }
    assert!(
        std::fs::read_dir(store.mirror().path())
            .expect("readable")
            .next()
            .is_none(),
        "nothing is left there"
    );
}

/// Requests of a run of so many batches, by kind.
async fn requests(batches: i64) -> std::collections::BTreeMap<String, i64> {
    let (server, store) = (sales(&["t"]).await, Store::start(Kind::S3));
    let gate = Gate::before(&store, &[]);
    let project = store
        .project_at(&server, "sales", &store.section(gate.port))
        .table("dbo_t", "");
    let mut running = Running::start(&project, &[]);
    for batch in 1..=batches {
        insert(&server, batch..=batch).await;
        running.until_type("batch");
    }
    running.terminate();
    assert_eq!(running.code(), Some(0));
    let said = gate.end().pop().expect("a line");
    said.split(", ")
        .map(|part| {
            let (number, kind) = part.split_once(' ').expect("a number");
            (kind.to_owned(), number.parse().expect("a number"))
        })
        .collect()
}

/// A store is paid by the request, and each takes its time: what a batch costs is known, and does not grow unseen.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_costs_few_requests() {
    let (few, many) = (requests(2).await, requests(12).await);
    println!("2 batches: {few:?}; 12 batches: {many:?}");
    let all = |requests: &std::collections::BTreeMap<String, i64>| requests.values().sum::<i64>();
    let each = (all(&many) - all(&few)) as f64 / 10.0;
    assert!(each <= 12.0, "{each} requests a batch: {few:?}, {many:?}");
}

/// docs/guides/object-stores.md: its examples are valid, and mean what it says.
#[test]
fn every_configuration_of_the_page_is_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/object-stores.md");
    let page = std::fs::read_to_string(path).expect("readable");
    let blocks: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .map(|block| block.split_once("```").expect("an end").0)
        .collect();
    let [tables, storage @ ..] = blocks.as_slice() else {
        panic!("no example");
    };
    assert_eq!(storage.len(), 4);
    for storage in storage.iter().chain([&""]) {
        let text =
            format!("[source]\nserver = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = \"p\"\n{storage}\n{tables}");
        let settings = Settings::parse_without_secrets(&text, Path::new("/"), Path::new("sluice.toml"))
            .unwrap_or_else(|error| panic!("{error} in {storage}"));
        assert_eq!(settings.tables[0].target.to_string(), "s3://lake/bronze/dbo_orders");
        assert_eq!(
            settings.tables[0].checkpoint.to_string(),
            "s3://lake/sluice/checkpoints/dbo_orders"
        );
    }
}

/// Old records go, as from a folder: what is listed and read when a table opens does not grow for ever.
#[tokio::test(flavor = "multi_thread")]
async fn old_records_are_removed() {
    let (server, store) = (sales(&["t"]).await, Store::start(Kind::Gcs));
    let project = store.project(&server, "sales").table("dbo_t", "");
    let mut running = Running::start(&project, &[]);
    let mut batches = 0;
    let mut last = 0;
    while batches < 152 {
        last += 1;
        insert(&server, last..=last).await;
        batches = running.until_type("batch")["batch_id"].as_i64().expect("a number");
    }
    running.terminate();
    assert_eq!(running.code(), Some(0));
    assert_eq!(ids(&store), up_to(last));
    let mirror = store.mirror();
    let kept = |folder: &str| {
        let folder = mirror.path().join("checkpoints/dbo_t").join(folder);
        std::fs::read_dir(folder).expect("readable").count() as i64
    };
    assert!(kept("commits") < batches && kept("offsets") < batches, "{batches}");
    expect_accounts(&store, &project);
}
