//! P1: change rows of 12 mixed columns, from the source to committed Delta, against a bare loop that only drains the same
//! rows through tiberius.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use futures::TryStreamExt;
use serde_json::json;
use tiberius::QueryItem;

use crate::measure::{Spread, measure, report};
use crate::project::{Variant, sluice};
use crate::say;
use crate::server::{Server, connect};

pub(crate) async fn run(rows: u64, pairs: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let server = Server::start(dir.path())?;
    say(&format!("writing {rows} rows …"));
    server.fill(rows).await?;
    let mut ratios = Vec::new();
    let mut runs = Vec::new();
    for pair in 1..=pairs {
        let drained = measure(
            Command::new(std::env::current_exe()?)
                .args(["drain", &server.port.to_string()])
                .arg(&server.certificate),
            rows,
        )?;
        let project = tempfile::tempdir()?;
        let streamed = measure(&mut sluice(project.path(), &server, Variant::Plain)?, rows)?;
        let ratio = streamed.cpu / drained.cpu;
        say(&format!(
            "pair {pair}: sluice {:.2} CPU s ({:.2} s wall), tiberius loop {:.2} CPU s ({:.2} s wall), ratio {ratio:.2}",
            streamed.cpu, streamed.wall, drained.cpu, drained.wall
        ));
        runs.push(json!({
            "sluice_cpu_s": streamed.cpu, "sluice_wall_s": streamed.wall,
            "tiberius_cpu_s": drained.cpu, "tiberius_wall_s": drained.wall, "ratio": ratio,
        }));
        ratios.push(ratio);
    }
    let median = Spread::of(ratios)?.median;
    say(&format!(
        "P1: median ratio {median:.2} over {pairs} pairs of {rows} rows"
    ));
    report("P1", json!({ "rows": rows, "median_ratio": median, "runs": runs }))
}

/// The bare loop: every row is read and dropped.
pub(crate) async fn drain(port: u16, certificate: &Path) -> Result<()> {
    let mut client = connect(port, certificate, "bench").await?;
    let mut stream = client
        .simple_query(
            "SELECT * FROM cdc.dbo_wide_CT ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]",
        )
        .await?;
    let mut rows = 0_u64;
    while let Some(item) = stream.try_next().await? {
        if let QueryItem::Row(row) = item {
            std::hint::black_box(&row);
            rows += 1;
        }
    }
    say(&json!({ "rows": rows }).to_string());
    Ok(())
}
