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
use crate::server::{DATABASE, Server, Table, connect};

/// Twelve columns of mixed types.
const COLUMNS: &str = "id bigint NOT NULL PRIMARY KEY, customer int NOT NULL, amount money NULL, rate float NULL, \
                       price decimal(18,4) NULL, day date NULL, at datetime2(3) NULL, name nvarchar(40) NULL, \
                       code varchar(20) NULL, payload varbinary(16) NULL, active bit NULL, ref uniqueidentifier NULL";

fn wide(n: u64) -> String {
    let name = if n.is_multiple_of(17) {
        "NULL".to_owned()
    } else {
        format!("N'Customer number {}'", n % 50_000)
    };
    format!(
        "{n},{},{}.{:02},{}.5,{}.{:04},'20{:02}-{:02}-{:02}','2024-03-01T{:02}:{:02}:{:02}.{:03}',{name},'C{:08}',0x{n:016X},{},'{:08X}-1111-2222-3333-{n:012X}'",
        n % 100_000,
        n % 10_000,
        n % 100,
        n % 1000,
        n % 100_000,
        n % 10_000,
        n % 30,
        n % 12 + 1,
        n % 28 + 1,
        n % 24,
        n % 60,
        n / 60 % 60,
        n % 1000,
        n % 1_000_000,
        n % 2,
        n % 0xFFFF_FFFF,
    )
}

pub(crate) async fn run(rows: u64, pairs: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let server = Server::start(dir.path())?;
    say(&format!("writing {rows} rows …"));
    let table = Table {
        name: "wide".to_owned(),
        columns: COLUMNS.to_owned(),
        row: wide,
    };
    server.fill(&table, rows).await?;
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
        let streamed = measure(&mut sluice(project.path(), &server, &table, Variant::Plain)?, rows)?;
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
    let mut client = connect(port, certificate, DATABASE).await?;
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
