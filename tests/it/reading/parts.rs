//! Large batches are read in parts: between commits, over several connections.

use super::{bronze, lsn, plan, ranges};
use crate::harness::{Project, READ, Running, Server, clear_faults, fault, logins, sales, until_blocked};

/// 128,000 rows in nine commits of `dbo.t`, which double from 500.
async fn grown(server: &Server) {
    let values: Vec<String> = (1..=500).map(|id| format!("({id}, N'v')")).collect();
    server
        .exec("sales", &format!("INSERT INTO dbo.t VALUES {}", values.join(", ")))
        .await;
    let mut rows = 500;
    while rows < 128_000 {
        server
            .exec("sales", &format!("INSERT INTO dbo.t SELECT id + {rows}, v FROM dbo.t"))
            .await;
        rows *= 2;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_read_in_parts_that_end_on_commits_and_follow_each_other() {
    let server = sales(&["t"]).await;
    grown(&server).await;
    let newest = lsn(&server, "SELECT sys.fn_cdc_get_max_lsn()").await;
    let project = Project::new(&server, "sales").table("dbo_t", "num_partitions = 2");
    let run = project.once().ok();
    let parts = ranges(&plan(&project, 0));
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert!(parts[0].2 < parts[1].1, "{parts:?}");
    let rows = bronze(&project);
    assert_eq!(rows.len(), 128_000);
    let mut ids = rows.numbers("id");
    ids.sort_unstable();
    assert!(ids.iter().zip(1..).all(|(id, n)| *id == n), "each row once");
    let commits: Vec<Option<String>> = rows.texts("_start_lsn");
    let last_of_first = commits.iter().rfind(|lsn| lsn.as_deref() <= Some(parts[0].2.as_str()));
    assert_eq!(
        last_of_first,
        Some(&Some(parts[0].2.clone())),
        "a part ends on a commit"
    );
    let batch = &run.of_type("batch")[0];
    assert_eq!(batch["inserts"], 128_000);
    // On a server that is there, a commit of the harness follows.
    let end = match server.is_stand_in() {
        true => commits.last().cloned().flatten(),
        false => Some(newest),
    };
    assert_eq!(batch["end_lsn"].as_str(), end.as_deref());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_reads_the_parts_of_the_plan() {
    let server = sales(&["t"]).await;
    grown(&server).await;
    let mut project = Project::new(&server, "sales").table("dbo_t", "num_partitions = 2");
    assert!(project.kill_at("chunk-read"));
    let planned = plan(&project, 0);
    project.edit("num_partitions = 2", "num_partitions = 1");
    project.once().ok();
    assert_eq!(bronze(&project).len(), 128_000);
    assert_eq!(plan(&project, 0), planned);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_in_one_part_voids_all_of_them() {
    let server = sales(&["t"]).await;
    grown(&server).await;
    let project = Project::new(&server, "sales").table("dbo_t", "num_partitions = 2");
    server
        .exec(
            "master",
            "EXEC sim.fault @kind = N'drop_after_rows', @rows = 20000, @match = N'dbo_t_CT'",
        )
        .await;
    let run = project.once().ok();
    assert_eq!(run.of_type("retrying").len(), 1, "{}", run.stdout);
    assert_eq!(bronze(&project).len(), 128_000);
}

/// Reads a backlog of two parts where so many connections are allowed. How many reads there are at once, while each waits as
/// behind a lock.
async fn reads_at_once(server: &Server, connections: i32) -> i32 {
    grown(server).await;
    let mut project = Project::new(server, "sales").table("dbo_t", "num_partitions = 2");
    project.edit("[limits]\n", &format!("[limits]\nconnections = {connections}\n"));
    fault(server, "lock_wait", &format!(", @match = N'{READ}', @times = 2")).await;
    let mut run = Running::start(&project, &["--once"]);
    let reads = until_blocked(server, connections).await;
    clear_faults(server).await;
    run.until_type("table");
    assert_eq!(run.code(), Some(0));
    assert_eq!(ranges(&plan(&project, 0)).len(), 2);
    assert_eq!(bronze(&project).len(), 128_000);
    reads
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_read_at_once_each_over_its_own_connection() {
    let server = sales(&["t"]).await;
    assert_eq!(reads_at_once(&server, 2).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_one_connection_is_allowed_the_second_part_waits_for_it() {
    let server = sales(&["t"]).await;
    assert_eq!(reads_at_once(&server, 1).await, 1);
    // The one that asks, the poller's, and the one that reads: a second read at once would have needed another.
    assert_eq!(logins(&server).await.len(), 3);
}
