//! What is read from the source, and through which capture instance: where a stream begins and a run ends, how batches are
//! cut, the switch from one instance to the next, DDL, what becomes of changes that were cleaned up, and what copies and
//! versions of the server change.

mod commits;
mod lagging;
mod loss;
mod once;
mod parts;
mod schema;
mod stall;
mod start;
mod switch;
mod time;
mod versions;

use serde_json::Value;

use crate::harness::{Project, Rows, Server, rows_of};

/// Bronze's order of changes.
const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];

fn bronze(project: &Project) -> Rows {
    rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows")
}

/// The facts rows of an event of all tables, oldest first: detail, min_lsn, max_lsn.
fn events(project: &Project, event: &str) -> Vec<(String, Option<String>, Option<String>)> {
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["written_at", "end_lsn"]).expect("facts");
    let (events, details) = (facts.texts("event"), facts.texts("detail"));
    let (from, to) = (facts.texts("min_lsn"), facts.texts("max_lsn"));
    (0..facts.len())
        .filter(|row| events[*row].as_deref() == Some(event))
        .map(|row| {
            (
                details[row].clone().unwrap_or_default(),
                from[row].clone(),
                to[row].clone(),
            )
        })
        .collect()
}

/// The plan of a batch's first attempt.
fn plan(project: &Project, batch: u32) -> Value {
    let path = project
        .lake()
        .join(format!("checkpoints/dbo_t/offsets/{batch}.a0.json"));
    serde_json::from_slice(&std::fs::read(&path).expect("a plan")).expect("JSON")
}

/// The ranges of a plan: instance, first and last LSN.
fn ranges(plan: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let ranges = plan["ranges"].as_array().expect("ranges");
    ranges
        .iter()
        .map(|range| {
            (
                text(&range["capture_instance"]),
                text(&range["from"]),
                text(&range["to"]),
            )
        })
        .collect()
}

/// An LSN that a query answers, in its text form.
async fn lsn(server: &Server, sql: &str) -> String {
    let rows = server.query("sales", sql).await;
    let bytes: &[u8] = rows[0].try_get(0).expect("binary").expect("an LSN");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("0x{hex}")
}

/// Stops the server's clock at an instant.
async fn set_clock(server: &Server, utc: &str) {
    server
        .exec("master", &format!("EXEC sim.clock @utc = N'{utc}', @frozen = 1"))
        .await;
}

/// Makes the second instance of `dbo.t`, which `reader` may read.
async fn second_instance(server: &Server, name: &str) {
    server
        .exec(
            "sales",
            &format!(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL, \
                 @capture_instance = N'{name}'; GRANT SELECT ON [cdc].[{name}_CT] TO [reader]"
            ),
        )
        .await;
}
