//! A process that is killed between any two steps of a batch loses nothing and doubles nothing.

use sluice::failpoint;
use sluice_test_guests::component;

use crate::harness::{Project, Server, rows_of, sales_of};

const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_in_bronze_once_after_sigkill_at_every_step() {
    let server = sales_of("id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL").await;
    // A small component: to compile it is most of what each of these many runs costs.
    let project = Project::new(&server, "sales").table(
        "dbo_t",
        "max_commits_per_batch = 3\n[[table.transform]]\nplugin = \"upper\"\nconfig = { columns = [\"v\"] }\n",
    );
    project.plugin("upper", &component("upper"));
    let mut next = 1;
    let mut last = Verdict::default();
    for name in failpoint::ALL {
        // What a process passes once is passed first by two processes.
        let second = if failpoint::ONCE.contains(&name) { 1 } else { 2 };
        for passage in [1, second] {
            // Five commits are two batches: the second passage is in the second.
            for _ in 0..5 {
                server
                    .exec("sales", &format!("INSERT INTO dbo.t VALUES ({next}, N'v{next}')"))
                    .await;
                next += 1;
            }
            let reached = project.kill_at(&format!("{name}:{passage}"));
            // Facts and verdicts of batches that wait go together, so their second passage may not come.
            assert!(
                reached || (passage == 2 && failpoint::GROUPED.contains(&name)),
                "{name}:{passage} was not passed"
            );
            last = check_verdict(&server, &project, &last).await;
        }
    }
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(
        rows.numbers("id"),
        (1..next).map(i64::from).collect::<Vec<i64>>(),
        "each change once, in order"
    );

    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["app_id", "written_at"]).expect("facts");
    let batches: Vec<Option<String>> = facts.texts("batch_id");
    let mut numbers: Vec<i64> = batches
        .iter()
        .flatten()
        .map(|text| text.parse().expect("a number"))
        .collect();
    let all = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all, "one facts row a batch");
    assert_eq!(
        numbers,
        (0..all as i64).collect::<Vec<i64>>(),
        "no batch without its facts"
    );
    let counted: i64 = facts
        .texts("rows")
        .iter()
        .flatten()
        .map(|text| text.parse::<i64>().expect("a number"))
        .sum();
    assert_eq!(counted, i64::from(next - 1), "the facts count each row once");

    let done = check_verdict(&server, &project, &last).await;
    assert!(done.finalized_until.is_some());
    assert!(
        done.end_lsn.as_deref() >= rows.texts("_start_lsn").last().and_then(|lsn| lsn.as_deref()),
        "all that is in bronze is final"
    );
}

/// What the control table says; texts, whose order is that of the instants and LSNs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    finalized_until: Option<String>,
    end_lsn: Option<String>,
}

/// The verdict did not go back, and everything that the source has up to it is in bronze and counted in the facts.
async fn check_verdict(server: &Server, project: &Project, before: &Verdict) -> Verdict {
    let Some(control) = rows_of(&project.lake().join("ops/table_finalization"), &["table_name"]) else {
        assert_eq!(*before, Verdict::default(), "the verdict is gone");
        return Verdict::default();
    };
    assert_eq!(control.len(), 1);
    let only = |column: &str| control.texts(column).pop().flatten();
    let verdict = Verdict {
        finalized_until: only("finalized_until"),
        end_lsn: only("end_lsn"),
    };
    assert!(
        verdict.finalized_until >= before.finalized_until && verdict.end_lsn >= before.end_lsn,
        "{verdict:?} after {before:?}"
    );
    let Some(end) = &verdict.end_lsn else {
        return verdict;
    };
    let committed: Vec<i64> = server
        .query(
            "sales",
            &format!("SELECT id FROM cdc.dbo_t_CT WHERE [__$start_lsn] <= {end} ORDER BY id"),
        )
        .await
        .iter()
        .map(|row| i64::from(row.get::<i32, _>(0).expect("an id")))
        .collect();
    let bronze = rows_of(&project.bronze("dbo_t"), &ORDER).map_or_else(Vec::new, |rows| rows.numbers("id"));
    assert!(
        committed.len() <= bronze.len() && bronze[..committed.len()] == committed,
        "final up to {end}, where the source has {committed:?} and bronze {bronze:?}"
    );
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["written_at"]).expect("facts");
    assert!(
        facts.texts("end_lsn").iter().flatten().max() >= Some(end),
        "the facts go as far as the verdict {end}"
    );
    verdict
}
