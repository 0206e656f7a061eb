//! Two hosts on the same list of tables, killed and paused at random: every change arrives once, and nobody writes after his
//! successor.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::harness::{Kind, Mirror, Project, Server, Store, commits, rows_of, sales, wait_for};

const TABLES: [&str; 4] = ["a", "b", "c", "d"];
const LEASE: Duration = Duration::from_secs(2);

/// One of the hosts.
struct Host {
    child: Option<Child>,
    is_paused: bool,
}

impl Host {
    fn new() -> Host {
        Host {
            child: None,
            is_paused: false,
        }
    }

    /// Whether its process is there. One that lost its lease while it was paused has ended by itself.
    fn is_there(&mut self) -> bool {
        if let Some(child) = &mut self.child
            && !matches!(child.try_wait(), Ok(None))
        {
            self.child = None;
        }
        self.child.is_some()
    }

    fn start(&mut self, project: &Project) {
        if !self.is_there() {
            let mut command = project.command("run", &["--json"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            self.child = Some(command.spawn().expect("sluice starts"));
            self.is_paused = false;
        }
    }

    fn signal(&self, name: &str) {
        if let Some(child) = &self.child {
            let pid = child.id().to_string();
            let _ = std::process::Command::new("kill")
                .args([&format!("-{name}"), &pid])
                .status();
        }
    }

    fn pause(&mut self) {
        self.is_paused = true;
        self.signal("STOP");
    }

    fn wake(&mut self) {
        self.is_paused = false;
        self.signal("CONT");
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn insert(server: &Server, table: &str, last: &mut i64, rows: i64) {
    for _ in 0..rows {
        *last += 1;
        server
            .exec("sales", &format!("INSERT INTO dbo.{table} VALUES ({last}, N'v')"))
            .await;
    }
}

fn ids(lake: &Path, table: &str) -> Vec<i64> {
    const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];
    rows_of(&lake.join(format!("bronze/dbo_{table}")), &ORDER).map_or_else(Vec::new, |rows| rows.numbers("id"))
}

/// The lake, as files: where it is, or a copy of a bucket as it is now.
enum Lake {
    There(std::path::PathBuf),
    Copied(Mirror),
}

impl Lake {
    fn path(&self) -> &Path {
        match self {
            Lake::There(path) => path,
            Lake::Copied(mirror) => mirror.path(),
        }
    }
}

/// A number in the environment.
fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// Where `cargo xtask hosts` wants it to be played; `None`: in each place.
fn wanted(place: &str) -> bool {
    std::env::var("SLUICE_HOSTS_ON").map_or(true, |wanted| wanted == place)
}

/// `cargo xtask hosts [--minutes M] [--on folder|s3|azure|gcs]` plays them for longer.
#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_that_are_killed_and_paused_at_random_write_every_change_once() {
    if !wanted("folder") {
        return;
    }
    let server = sales(&TABLES).await;
    let mut project = Project::new(&server, "sales").table("dbo_*", "");
    project.edit(
        "\n[defaults]",
        "\n[ownership]\nmode = \"lease\"\nlease = \"2s\"\nstandby = true\nhosts = \"hosts\"\n\n[defaults]",
    );
    let lake = project.lake();
    play(&server, &project, || Lake::There(lake.clone())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_on_s3_that_are_killed_and_paused_at_random_write_every_change_once() {
    if wanted("s3") {
        in_a_bucket(Kind::S3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_on_azure_that_are_killed_and_paused_at_random_write_every_change_once() {
    if wanted("azure") {
        in_a_bucket(Kind::Azure).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_on_gcs_that_are_killed_and_paused_at_random_write_every_change_once() {
    if wanted("gcs") {
        in_a_bucket(Kind::Gcs).await;
    }
}

async fn in_a_bucket(kind: Kind) {
    let (server, store) = (sales(&TABLES).await, Store::start(kind));
    let mut project = store.project(&server, "sales").table("dbo_*", "");
    project.edit("lease = \"2s\"", "lease = \"2s\"\nstandby = true");
    play(&server, &project, || Lake::Copied(store.mirror())).await;
}

async fn play(server: &Server, project: &Project, lake: impl Fn() -> Lake) {
    let seed = setting("SLUICE_SEED", rand::random());
    let seconds = setting("SLUICE_HOSTS_SECONDS", 20);
    println!("SLUICE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut last = [0i64; TABLES.len()];
    let mut hosts = [Host::new(), Host::new()];
    let mut done = [0u32; 4];
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        let host = &mut hosts[random.random_range(0..2)];
        match random.random_range(0..10) {
            0 | 1 if host.is_there() => {
                host.kill();
                done[0] += 1;
            }
            2 | 3 if host.is_there() && !host.is_paused => {
                host.pause();
                done[1] += 1;
            }
            4..=6 if host.is_paused => {
                host.wake();
                done[2] += 1;
            }
            _ => {
                host.start(project);
                done[3] += 1;
            }
        }
        for _ in 0..random.random_range(0..4) {
            let table = random.random_range(0..TABLES.len());
            let rows = *[1, 1, 1, 5].choose(&mut random).expect("some");
            insert(server, TABLES[table], &mut last[table], rows).await;
        }
        // Some pauses are longer than a lease, and some shorter.
        let pause = random.random_range(20..LEASE.as_millis() as u64);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    println!(
        "{} kills, {} pauses, {} wake-ups, {} starts; rows {last:?}",
        done[0], done[1], done[2], done[3]
    );
    for (table, last) in TABLES.iter().zip(&mut last) {
        insert(server, table, last, 1).await;
    }
    for host in &mut hosts {
        host.wake();
    }
    let has_all = |hosts: &mut [Host; 2]| {
        // One that lost its lease ends, and an orchestrator starts it again.
        for host in hosts.iter_mut() {
            host.start(project);
        }
        let lake = lake();
        TABLES
            .iter()
            .zip(&last)
            .all(|(table, last)| ids(lake.path(), table).len() as i64 >= *last)
    };
    assert!(wait_for(|| has_all(&mut hosts)), "rows do not arrive, seed {seed}");
    for host in &mut hosts {
        host.signal("TERM");
    }
    assert!(
        wait_for(|| hosts.iter_mut().all(|host| !host.is_there())),
        "they do not end, seed {seed}"
    );
    let lake = lake();
    let lake = lake.path();
    let facts = rows_of(&lake.join("ops/ingestion_facts"), &["batch_id"]).expect("facts");
    let (app_ids, batches) = (facts.texts("app_id"), facts.texts("batch_id"));
    for (table, last) in TABLES.iter().zip(&last) {
        let wanted: Vec<i64> = (1..=*last).collect();
        assert_eq!(ids(lake, table), wanted, "dbo_{table}, seed {seed}");
        let owners: Vec<i64> = commits(&lake.join(format!("bronze/dbo_{table}")))
            .iter()
            .flatten()
            .filter(|action| action["txn"]["appId"].as_str().is_some_and(|id| id.ends_with("#owner")))
            .map(|action| action["txn"]["version"].as_i64().expect("a number"))
            .collect();
        assert!(owners.is_sorted(), "dbo_{table}: {owners:?}, seed {seed}");
        let app_id = format!("dbo_{table}-v1");
        let mut numbers: Vec<i64> = app_ids
            .iter()
            .zip(&batches)
            .filter(|(id, _)| id.as_deref() == Some(&app_id))
            .filter_map(|(_, batch)| batch.as_deref().map(|batch| batch.parse().expect("a number")))
            .collect();
        numbers.sort_unstable();
        let each: Vec<i64> = (0..i64::try_from(numbers.len()).expect("small")).collect();
        assert_eq!(numbers, each, "one facts row a batch of dbo_{table}, seed {seed}");
    }
}
