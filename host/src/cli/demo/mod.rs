//! `sluice demo`: the main job on one machine, with a stand-in for SQL Server. It goes the way that a user's own set-up
//! goes: a configuration file on disk, the same streams as `sluice run`, the same tables.

mod files;
mod server;

use std::path::PathBuf;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use clap::Args;

use super::Failure;
use super::out::say;
use super::run::stream;
use super::show::{Show, grouped};
use crate::config::Settings;
use crate::error::ErrorKind;
use crate::fanout::StartOptions;
use crate::lake::preview;
use crate::process;
use crate::report::{Event, TableSummary};
use files::DemoFiles;
use server::StandIn;

#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Where everything goes: the lake under DIR/lake, the stand-in's data under DIR/mssql.
    #[arg(long, value_name = "DIR", default_value = "sluice-demo")]
    dir: PathBuf,
    /// Change rows to make, over the three tables of the shop.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    rows: u64,
    /// Small tables to add.
    #[arg(long, value_name = "N", default_value_t = 0)]
    tables: u32,
    /// Seed of the shop's data.
    #[arg(long, value_name = "S", default_value_t = 7)]
    seed: u64,
    /// Print one JSON object a line (docs/reference/json.md).
    #[arg(long)]
    pub(super) json: bool,
}

/// The table whose rows are masked, and the columns of it that are shown.
const MASKED: &str = "dbo_customers";
const SHOWN: [&str; 6] = ["_operation", "id", "last_name", "email", "phone", "birth_date"];
const SHOWN_ROWS: usize = 5;

pub(super) async fn run(args: DemoArgs) -> Result<(), Failure> {
    let tell = |line: &str| {
        if !args.json {
            say!("{line}");
        }
    };
    let files = DemoFiles::prepare(&args.dir)?;
    tell(&format!(
        "Starting a stand-in for SQL Server with a shop in it ({} changes, seed {}) …",
        grouped(args.rows),
        args.seed
    ));
    let server = StandIn::start(&files, args.rows, args.seed, args.tables).await?;
    files.write_config(server.port(), args.tables)?;
    let settings = Settings::load(&files.config)?;
    tell(&format!(
        "It listens on 127.0.0.1,{}. Reading its changes into {} …\n",
        server.port(),
        files.lake.display()
    ));
    let port = server.port();
    let options = StartOptions {
        once: true,
        ..StartOptions::default()
    };
    let started = Instant::now();
    let ended = stream(&settings, options, None, Show::new(args.json)).await?;
    let took = started.elapsed();
    server.stop().await;
    let summaries: Vec<&TableSummary> = ended
        .iter()
        .filter_map(|event| match event {
            Event::Table(summary) => Some(summary),
            _ => None,
        })
        .collect();
    if args.json {
        say!(
            "{}",
            serde_json::json!({
                "type": "demo",
                "config": files.config,
                "lake": files.lake,
                "tables": summaries.len(),
                "rows": summaries.iter().map(|summary| summary.rows).sum::<u64>(),
                "seconds": took.as_secs_f64(),
                "cpu_seconds": process::cpu_seconds(),
                "peak_resident_bytes": process::peak_resident_bytes(),
            })
        );
        return Ok(());
    }
    print_tables(&summaries);
    let customer = print_sample(&summaries).await?;
    print_next(&files, port, customer.unwrap_or(1));
    if let Some(peak) = process::peak_resident_bytes() {
        say!(
            "\n{} tables in one process: {:.1} s, and {} MiB of resident memory at most",
            grouped(summaries.len() as u64),
            took.as_secs_f64(),
            grouped(peak >> 20)
        );
    }
    Ok(())
}

fn print_tables(summaries: &[&TableSummary]) {
    say!(
        "\n\n{:<16} {:>9} {:>9} {:>9} {:>9}   {:<24}  through",
        "table",
        "rows",
        "inserts",
        "updates",
        "deletes",
        "complete until"
    );
    for summary in summaries.iter().take(12) {
        say!(
            "{:<16} {:>9} {:>9} {:>9} {:>9}   {:<24}  {}",
            summary.capture_instance.0,
            grouped(summary.rows),
            grouped(summary.inserts),
            grouped(summary.updates),
            grouped(summary.deletes),
            summary
                .finalized_until
                .map_or_else(|| "-".to_owned(), |until| until.to_string()),
            if summary.transform.is_empty() {
                "-".to_owned()
            } else {
                summary.transform.join(", ")
            }
        );
    }
    if summaries.len() > 12 {
        say!("… and {} more tables", summaries.len() - 12);
    }
}

/// Shows masked rows. The id of a customer among them that was not deleted.
async fn print_sample(summaries: &[&TableSummary]) -> Result<Option<i64>, Failure> {
    let Some(masked) = summaries.iter().find(|summary| summary.capture_instance.0 == MASKED) else {
        return Ok(None);
    };
    let rows = preview(&masked.target, &SHOWN, SHOWN_ROWS).await?;
    if rows.num_rows() == 0 {
        return Ok(None);
    }
    let customer = present(&rows);
    let table = arrow::util::pretty::pretty_format_batches(&[rows])
        .map_err(|error| Failure::new(ErrorKind::Internal, format!("cannot show the sample: {error}")))?;
    say!(
        "\nThe newest changes of {MASKED} as they stand in Delta (1 delete, 2 insert, 3 before an update, 4 after it). \
         No unmasked copy is in the lake:\n{table}"
    );
    Ok(customer)
}

/// The newest customer among the rows whose last change is no delete.
fn present(rows: &RecordBatch) -> Option<i64> {
    let ids = cast(rows.column_by_name("id")?, &DataType::Int64).ok()?;
    let ids = ids.as_primitive_opt::<Int64Type>()?;
    let operations = cast(rows.column_by_name("_operation")?, &DataType::Int64).ok()?;
    let operations = operations.as_primitive_opt::<Int64Type>()?;
    let deleted = |id: i64| (0..rows.num_rows()).any(|row| ids.value(row) == id && operations.value(row) == 1);
    ids.values().iter().rev().copied().find(|id| !deleted(*id))
}

fn print_next(files: &DemoFiles, port: u16, customer: i64) {
    let dir = server::quoted(&files.dir);
    let config = server::quoted(&files.config);
    let sluice = server::program("sluice");
    let lake = files.lake.display();
    say!("\nDelta tables: {lake}/bronze/*, {lake}/ops/ingestion_facts, {lake}/ops/table_finalization");
    say!("\nMore changes (only those are read), and how far each table is:");
    say!("  {sluice} demo --dir {dir}");
    say!("  {sluice} status -c {config}");
    say!("\nStart the server again; Ctrl-C ends it:");
    say!("  {}", server::command_line(files, port));
    say!("In a second terminal, watch the tables:");
    say!("  {sluice} run -c {config}");
    say!("In a third, change a row with any SQL client, here FreeTDS, and see an update arrive as two rows:");
    say!(
        "  printf \"UPDATE dbo.customers SET email = N'new@example.org' WHERE id = {customer}\\nGO\\n\" | tsql -H 127.0.0.1 -p {port} -U sa -P $(cat {}) -D shop",
        server::quoted(&files.password)
    );
}
