//! `sluice quarantine`: the rows that could not be transformed, and another try at them.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};

use super::out::say;
use super::run::{stream, worst};
use super::show::Show;
use super::{ConfigArgs, Failure};
use crate::config::{Settings, TableSettings, WebSettings};
use crate::error::{Classify as _, ErrorKind, chain};
use crate::fanout::StartOptions;
use crate::fanout::expand_from_disk;
use crate::identity::BatchId;
use crate::lsn::Lsn;
use crate::quarantine::{QuarantineRow, QuarantineTable, location_of, open_rows};
use crate::source::change_table;
use crate::table_stream::{Purpose, StreamError, expect_kept, recorded_in_quarantine};

/// Commits that a statement names, at most.
const MOST_COMMITS: usize = 20;

/// Rows of one kind, of one batch.
type Kinds<'a> = BTreeMap<(i64, &'a str, &'a str, &'a str), Vec<&'a QuarantineRow>>;

#[derive(Debug, Args)]
pub(super) struct QuarantineArgs {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the rows that are in quarantine: their LSNs, columns and codes, and never a value. Needs no connection.
    List(ListArgs),
    /// Read the rows again by their LSNs, pass them through the transforms of now, and append to bronze what comes out. No
    /// other process may run these tables meanwhile.
    Retry(RetryArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Every row instead of a line for all of a kind.
    #[arg(long)]
    rows: bool,
    /// Print one JSON object a row (docs/reference/json.md).
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RetryArgs {
    /// Only what these batches put into quarantine; repeat it for several. Needs one --table.
    #[arg(long = "batch", value_name = "BATCH")]
    batches: Vec<i64>,
    /// Print one JSON object a line (docs/reference/json.md).
    #[arg(long)]
    json: bool,
}

impl QuarantineArgs {
    pub(super) fn json(&self) -> bool {
        match &self.what {
            What::List(args) => args.json,
            What::Retry(args) => args.json,
        }
    }
}

pub(super) async fn run(args: QuarantineArgs) -> Result<(), Failure> {
    match args.what {
        What::List(list_args) => list(&args.config, list_args).await,
        What::Retry(retry_args) => retry(&args.config, retry_args).await,
    }
}

async fn list(config: &ConfigArgs, args: ListArgs) -> Result<(), Failure> {
    let mut settings = Settings::load_without_secrets(&config.config)?;
    settings.select(&config.tables)?;
    let settings = expand_from_disk(&settings)?;
    let mut failed: Vec<(ErrorKind, String)> = Vec::new();
    for table in &settings.tables {
        let Err(error) = list_table(table, &args).await else {
            continue;
        };
        match args.json {
            true => say!(
                "{}",
                serde_json::json!({
                    "type": "failed",
                    "capture_instance": table.capture_instance,
                    "kind": error.kind(),
                    "error": chain(&error),
                })
            ),
            false => say!("{}: error: {}", table.capture_instance, chain(&error)),
        }
        failed.push((error.kind(), table.capture_instance.0.clone()));
    }
    match worst(failed.iter().map(|(kind, _)| *kind)) {
        None => Ok(()),
        Some(kind) => {
            let names: Vec<&str> = failed.iter().map(|(_, name)| name.as_str()).collect();
            Err(Failure {
                kind,
                message: format!(
                    "nobody can say what is in quarantine of {} of {} tables: {}",
                    failed.len(),
                    settings.tables.len(),
                    names.join(", ")
                ),
                shown: true,
            })
        }
    }
}

/// Shows what is there, also where more should be.
async fn list_table(table: &TableSettings, args: &ListArgs) -> Result<(), StreamError> {
    // Before the table is looked at, which had the rows first.
    let recorded = recorded_in_quarantine(table).await;
    let location = location_of(&table.target);
    let quarantine = QuarantineTable::open(&location, &table.app_id).await?;
    let open = match &quarantine {
        Some(quarantine) => open_rows(&quarantine.rows().await?),
        None => Vec::new(),
    };
    let there = quarantine.as_ref().map(QuarantineTable::known);
    let kept = recorded.and_then(|recorded| expect_kept(&location, &table.app_id, recorded, there));
    if args.json {
        for row in &open {
            say!("{}", of_row(&table.capture_instance.0, row));
        }
        return kept;
    }
    match open.len() {
        0 if kept.is_err() => {}
        0 => say!("{}: no rows in quarantine", table.capture_instance),
        1 => say!("{}: 1 row in quarantine ({location})", table.capture_instance),
        rows => say!("{}: {rows} rows in quarantine ({location})", table.capture_instance),
    }
    match args.rows {
        true => print_rows(&open),
        false => print_kinds(&open),
    }
    if open.iter().any(|row| !row.is_lost()) {
        say!(
            "  `sluice quarantine retry` reads again what the source still has, through the transforms as they are now"
        );
    }
    for (where_it_is, statement) in statements(&open) {
        say!("  {where_it_is}: {statement}");
    }
    kept
}

/// How the rows can be looked at on the source, for each capture instance that they were read from. Nothing of them stands in
/// it but their LSNs.
fn statements(open: &[QuarantineRow]) -> Vec<(String, String)> {
    let mut by_instance: BTreeMap<&str, BTreeSet<Lsn>> = BTreeMap::new();
    for row in open {
        let lsn = row.start_lsn.as_deref().and_then(|lsn| lsn.parse::<Lsn>().ok());
        if let (Some(instance), Some(lsn)) = (&row.capture_instance, lsn) {
            by_instance.entry(instance).or_default().insert(lsn);
        }
    }
    let statement = |(instance, commits): (&str, BTreeSet<Lsn>)| {
        let named: Vec<String> = commits.iter().take(MOST_COMMITS).map(Lsn::to_string).collect();
        let where_it_is = match commits.len() > MOST_COMMITS {
            true => format!("on the source, the first {MOST_COMMITS} of {} commits", commits.len()),
            false => "on the source".to_owned(),
        };
        let statement = format!(
            "SELECT * FROM {} WHERE [__$start_lsn] IN ({})",
            change_table(instance),
            named.join(", ")
        );
        (where_it_is, statement)
    };
    by_instance.into_iter().map(statement).collect()
}

fn of_row(capture_instance: &str, row: &QuarantineRow) -> serde_json::Value {
    let mut object = serde_json::to_value(row).unwrap_or_default();
    object["type"] = "quarantined".into();
    object["read_from"] = object["capture_instance"].take();
    object["capture_instance"] = capture_instance.into();
    object
}

fn print_rows(open: &[QuarantineRow]) {
    let or_dash = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
    for row in open {
        say!(
            "  {} {}  operation {}  batch {}  {}  column {}  {}",
            or_dash(&row.start_lsn),
            or_dash(&row.seqval),
            row.operation
                .map_or_else(|| "-".to_owned(), |operation| operation.to_string()),
            row.batch_id,
            or_dash(&row.code),
            or_dash(&row.column),
            or_dash(&row.plugin),
        );
    }
}

fn print_kinds(open: &[QuarantineRow]) {
    let mut kinds: Kinds<'_> = BTreeMap::new();
    for row in open {
        let kind = (
            row.batch_id,
            row.code.as_deref().unwrap_or("-"),
            row.column.as_deref().unwrap_or("-"),
            row.plugin.as_deref().unwrap_or("-"),
        );
        kinds.entry(kind).or_default().push(row);
    }
    for ((batch, code, column, plugin), rows) in kinds {
        let lsns = || rows.iter().filter_map(|row| row.start_lsn.as_deref());
        let range = match (lsns().min(), lsns().max()) {
            (Some(first), Some(last)) if first != last => format!("LSN {first} to {last}"),
            (Some(first), _) => format!("LSN {first}"),
            (None, _) => "no LSN".to_owned(),
        };
        say!(
            "  batch {batch:<6} {:>8} rows  {code}  column {column}  {plugin}  {range}",
            rows.len()
        );
    }
}

async fn retry(config: &ConfigArgs, args: RetryArgs) -> Result<(), Failure> {
    let mut settings = Settings::load(&config.config)?;
    settings.select(&config.tables)?;
    if !args.batches.is_empty() && settings.tables.len() != 1 {
        return Err(Failure::new(
            ErrorKind::Config,
            "--batch needs one --table: batches are numbered by table",
        ));
    }
    // The page is for the process that runs the tables.
    settings.web = WebSettings::default();
    let options = StartOptions {
        once: true,
        purpose: Purpose::RetryQuarantined(args.batches.into_iter().map(BatchId).collect()),
        ..StartOptions::default()
    };
    stream(&settings, options, None, Show::new(args.json)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quarantine::RowState;

    fn row(instance: &str, lsn: u8) -> QuarantineRow {
        QuarantineRow {
            app_id: "a".to_owned(),
            batch_id: 0,
            attempt: 0,
            start_lsn: Some(Lsn([0, 0, 0, 0, 0, 0, 0, 0, 0, lsn]).to_string()),
            seqval: None,
            operation: Some(2),
            column: None,
            code: Some("trap".to_owned()),
            plugin: None,
            sha256: None,
            quarantined_at: None,
            state: RowState::Open,
            capture_instance: Some(instance.to_owned()),
        }
    }

    #[test]
    fn rows_are_looked_at_by_one_statement_a_capture_instance() {
        let told = statements(&[row("dbo_a]b", 2), row("dbo_t", 1), row("dbo_a]b", 1), row("dbo_a]b", 2)]);
        let on_source = "on the source".to_owned();
        assert_eq!(
            told,
            [
                (
                    on_source.clone(),
                    "SELECT * FROM [cdc].[dbo_a]]b_CT] WHERE [__$start_lsn] IN (0x00000000000000000001, \
                     0x00000000000000000002)"
                        .to_owned()
                ),
                (
                    on_source,
                    "SELECT * FROM [cdc].[dbo_t_CT] WHERE [__$start_lsn] IN (0x00000000000000000001)".to_owned()
                ),
            ]
        );
        // What is no LSN is no text for a statement.
        let strange = QuarantineRow {
            start_lsn: Some("0x0); DROP TABLE t --".to_owned()),
            ..row("dbo_t", 1)
        };
        assert!(statements(&[strange]).is_empty());
    }

    #[test]
    fn a_statement_names_twenty_commits_and_says_of_how_many() {
        let many: Vec<QuarantineRow> = (1..=35).map(|lsn| row("dbo_t", lsn)).collect();
        let told = statements(&many);
        assert_eq!(told[0].0, "on the source, the first 20 of 35 commits");
        assert_eq!(told[0].1.matches("0x").count(), 20);
        assert!(told[0].1.ends_with("0x00000000000000000014)"), "{}", told[0].1);
    }
}
