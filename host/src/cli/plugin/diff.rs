//! `sluice plugin diff`.

use std::path::PathBuf;

use clap::Args;

use super::Lookup;
use crate::cli::Failure;
use crate::cli::out::say;
use crate::error::ErrorKind;
use crate::kit::{ColumnDifference, Component, Difference, Fixture, Workbench, compare, counted, fixtures_in, rows_of};

/// Row numbers that are written out.
const TOLD_ROWS: usize = 8;

#[derive(Debug, Args)]
pub(super) struct DiffArgs {
    /// The component as it is: a file, a name, or a project's folder.
    #[arg(value_name = "A")]
    before: String,
    /// The component as it will be.
    #[arg(value_name = "B")]
    after: String,
    /// A fixture with a table, a configuration and rows; all of the folder `tests` by default.
    #[arg(long, value_name = "FILE")]
    fixture: Vec<PathBuf>,
    /// Rows in place of the fixture's: CSV in the form of fixtures, or Parquet.
    #[arg(long, value_name = "FILE", requires = "fixture")]
    rows: Option<PathBuf>,
    /// How many rows of that file, at most.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    limit: usize,
    /// Show values that change. They stand in the terminal then, and wherever its output goes.
    #[arg(long)]
    show_values: bool,
    #[command(flatten)]
    lookup: Lookup,
    /// Print one JSON object for each fixture (docs/reference/plugin-kit.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: DiffArgs) -> Result<(), Failure> {
    let before = Component::find(&args.before, &args.lookup.plugins)?;
    let after = Component::find(&args.after, &args.lookup.plugins)?;
    let mut fixtures = match args.fixture.is_empty() {
        true => fixtures_in(&PathBuf::from("tests"))?,
        false => args
            .fixture
            .iter()
            .map(|file| Fixture::read(file))
            .collect::<Result<_, _>>()?,
    };
    if args.rows.is_none() {
        fixtures.retain(|fixture| fixture.rows.is_some());
    }
    if fixtures.is_empty() {
        return Err(Failure::new(
            ErrorKind::Config,
            "there are no rows to compare over; give --fixture tests/NAME.toml, with --rows FILE for other rows than its own",
        ));
    }
    if !args.json {
        for (which, component) in [("A", &before), ("B", &after)] {
            say!("{which}  {}  sha256 {}…", component.shown, &component.sha256[..16]);
        }
    }
    let (before, after) = (Workbench::new(before)?, Workbench::new(after)?);
    for fixture in &fixtures {
        let rows = match (&args.rows, &fixture.rows) {
            (Some(file), _) => rows_of(&fixture.setup, file, args.limit)?,
            (None, Some(rows)) => rows.clone(),
            (None, None) => continue,
        };
        let found = compare(&before, &after, &fixture.setup, &rows, args.show_values)?;
        if args.json {
            let mut object = serde_json::to_value(&found).unwrap_or_default();
            if let Some(object) = object.as_object_mut() {
                object.insert("type".to_owned(), "difference".into());
                object.insert("fixture".to_owned(), fixture.name.clone().into());
                object.insert("same".to_owned(), found.is_none().into());
            }
            say!("{object}");
        } else {
            print(&fixture.name, &found);
        }
    }
    Ok(())
}

fn print(fixture: &str, found: &Difference) {
    say!("\n{fixture}: {}", counted(found.rows, "row"));
    if found.is_none() {
        say!("  nothing changes");
        return;
    }
    for line in &found.plan {
        say!("  plan     {line}");
    }
    for (rows, what) in [
        (&found.only_before, "no longer come out"),
        (&found.only_after, "come out that did not"),
    ] {
        if !rows.is_empty() {
            say!("  rows     {} {what}: {}", rows.len(), numbers(rows));
        }
    }
    if found.operations > 0 {
        say!("  rows     {} come out under another operation", found.operations);
    }
    if found.rejects.0 != found.rejects.1 {
        say!("  rejects  {} instead of {}", found.rejects.1, found.rejects.0);
    }
    for column in &found.columns {
        print_column(column);
    }
}

fn print_column(column: &ColumnDifference) {
    say!(
        "  values   `{}` changes in {}",
        column.column,
        counted(column.rows, "row")
    );
    let shown = |cell: &Option<String>| cell.as_ref().map_or("NULL".to_owned(), |text| format!("{text:?}"));
    for (row, was, will) in &column.values {
        say!("             row {row}: {} becomes {}", shown(was), shown(will));
    }
}

fn numbers(rows: &[u32]) -> String {
    let mut told: Vec<String> = rows.iter().take(TOLD_ROWS).map(u32::to_string).collect();
    if rows.len() > TOLD_ROWS {
        told.push("…".to_owned());
    }
    told.join(", ")
}
