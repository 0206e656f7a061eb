//! `plugin diff`: two components over the same rows, and what would change.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use serde::Serialize;

use super::component::Workbench;
use super::csv::Cell;
use super::error::KitError;
use super::fixture::Setup;
use super::golden::type_name;
use super::rows::{Ran, run};
use super::values;
use crate::transform::{Chain, OutputColumn, Route};

/// Values of a column that are shown at most.
const SHOWN: usize = 5;

/// What changes from one component to the other.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    /// What changes in the plan, in words.
    pub(crate) plan: Vec<String>,
    /// Rows that went in.
    pub(crate) rows: usize,
    /// Rows that come out of the one alone, by position from 1.
    pub(crate) only_before: Vec<u32>,
    pub(crate) only_after: Vec<u32>,
    /// Rows that come out of both under another operation.
    pub(crate) operations: usize,
    /// Rejects of the one and of the other.
    pub(crate) rejects: (usize, usize),
    /// Columns that both have, with other values.
    pub(crate) columns: Vec<ColumnDifference>,
}

/// A column whose values change.
#[derive(Debug, Serialize)]
pub(crate) struct ColumnDifference {
    pub(crate) column: String,
    /// Rows in which it changes, of those that come out of both.
    pub(crate) rows: usize,
    /// The first of them with what was and what will be, where values are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) values: Vec<(u32, Cell, Cell)>,
}

impl Difference {
    /// Whether nothing changes.
    pub(crate) fn is_none(&self) -> bool {
        self.plan.is_empty()
            && self.only_before.is_empty()
            && self.only_after.is_empty()
            && self.operations == 0
            && self.rejects.0 == self.rejects.1
            && self.columns.is_empty()
    }
}

/// Runs both over the same rows.
///
/// # Errors
/// When one of them is refused, or fails the rows.
pub(crate) fn compare(
    before: &Workbench,
    after: &Workbench,
    setup: &Setup,
    rows: &RecordBatch,
    with_values: bool,
) -> Result<Difference, KitError> {
    let (old, old_ran) = through(before, setup, rows)?;
    let (new, new_ran) = through(after, setup, rows)?;
    let mut found = of_runs((&old, &old_ran), (&new, &new_ran), with_values);
    found.rows = rows.num_rows();
    Ok(found)
}

/// What changes between two runs over the same rows.
pub(crate) fn of_runs(before: (&Chain, &Ran), after: (&Chain, &Ran), with_values: bool) -> Difference {
    let ((old, old_ran), (new, new_ran)) = (before, after);
    let place = |ran: &Ran| -> HashMap<u32, usize> { ran.origin.iter().copied().zip(0..).collect() };
    let (old_places, new_places) = (place(old_ran), place(new_ran));
    let alone = |ran: &Ran, other: &HashMap<u32, usize>| -> Vec<u32> {
        let alone = ran.origin.iter().filter(|row| !other.contains_key(row));
        alone.map(|row| row + 1).collect()
    };
    // Rows of both: the source's row, and its places in the one and the other.
    let both: Vec<(u32, usize, usize)> = old_ran
        .origin
        .iter()
        .filter_map(|row| Some((*row, *old_places.get(row)?, *new_places.get(row)?)))
        .collect();
    let (old_operations, new_operations) = (old_ran.operations(), new_ran.operations());
    let mut columns = Vec::new();
    for (at, column) in old.output().iter().enumerate() {
        let same_name = |other: &OutputColumn| other.name == column.name;
        let Some(other) = new.output().iter().position(same_name) else {
            continue;
        };
        let (was, will) = (
            values::format(&old_ran.columns()[at]),
            values::format(&new_ran.columns()[other]),
        );
        let changed: Vec<&(u32, usize, usize)> = both.iter().filter(|(_, a, b)| was[*a] != will[*b]).collect();
        if changed.is_empty() {
            continue;
        }
        let told = changed.iter().take(if with_values { SHOWN } else { 0 });
        columns.push(ColumnDifference {
            column: column.name.clone(),
            rows: changed.len(),
            values: told
                .map(|(row, a, b)| (row + 1, was[*a].clone(), will[*b].clone()))
                .collect(),
        });
    }
    Difference {
        plan: plan(old, new),
        rows: old_ran.origin.len(),
        only_before: alone(old_ran, &new_places),
        only_after: alone(new_ran, &old_places),
        operations: both
            .iter()
            .filter(|(_, a, b)| old_operations[*a] != new_operations[*b])
            .count(),
        rejects: (old_ran.rejects.len(), new_ran.rejects.len()),
        columns,
    }
}

fn through(bench: &Workbench, setup: &Setup, rows: &RecordBatch) -> Result<(Chain, Ran), KitError> {
    let say = |error| bench.refused(&error);
    let chain = bench.open(setup).map_err(say)?;
    let ran = run(&chain, rows).map_err(say)?;
    Ok((chain, ran))
}

/// The plans' differences, in the order of the columns.
fn plan(old: &Chain, new: &Chain) -> Vec<String> {
    let named = |columns: &[OutputColumn], name: &str| columns.iter().find(|column| column.name == name).cloned();
    let mut told = Vec::new();
    for column in old.output() {
        let Some(now) = named(new.output(), &column.name) else {
            told.push(format!("column `{}` goes", column.name));
            continue;
        };
        let type_of = |column: &OutputColumn| {
            let null = if column.nullable { "" } else { " not NULL" };
            type_name(&column.data_type) + null
        };
        if type_of(column) != type_of(&now) {
            told.push(format!(
                "column `{}` is {} instead of {}",
                column.name,
                type_of(&now),
                type_of(column)
            ));
        }
        if column.from != now.from {
            told.push(format!(
                "column `{}` is {} instead of {}",
                column.name,
                made(&now.from),
                made(&column.from)
            ));
        }
    }
    for column in new.output() {
        if named(old.output(), &column.name).is_none() {
            told.push(format!("column `{}` comes: {}", column.name, made(&column.from)));
        }
    }
    let order = |chain: &Chain, other: &Chain| -> Vec<String> {
        let names = chain.output().iter().map(|column| column.name.clone());
        names.filter(|name| named(other.output(), name).is_some()).collect()
    };
    if order(old, new) != order(new, old) {
        told.push("the columns stand in another order".to_owned());
    }
    told
}

fn made(route: &Route) -> String {
    match route {
        Route::Passed { source } => format!("`{source}`, untouched"),
        Route::Computed { how, sources, .. } if sources.is_empty() => format!("{how:?}"),
        Route::Computed { how, sources, .. } => format!("{how:?} of {}", sources.join(", ")),
    }
}
