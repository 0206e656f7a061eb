//! `plugin bench`: rows through a component, and what a call costs before its first row.

use std::time::{Duration, Instant};

use arrow::array::{Array as _, RecordBatch};
use arrow::compute::concat_batches;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::component::Workbench;
use super::error::KitError;
use super::fixture::Setup;
use super::generate;
use super::rows::run;
use crate::shape::META_BEFORE;
use crate::transform::{Fault, TransformError};

/// Calls of one row that are timed; their median is told.
const CALLS: usize = 21;

/// What was measured.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Speed {
    /// Refusing, compiling and opening, the first time.
    pub(crate) compile_seconds: f64,
    /// A whole call (a fresh instance, `open`, `apply`) on one row: the median.
    pub(crate) call_seconds: f64,
    /// Rows that went through.
    pub(crate) rows: usize,
    pub(crate) chunk_rows: usize,
    pub(crate) seconds: f64,
    pub(crate) rows_per_second: f64,
    /// Captured columns that went in, in 10⁶ bytes a second.
    pub(crate) megabytes_per_second: f64,
    /// Whether the rows are the fixture's, over and over, and not made up.
    pub(crate) fixture_rows: bool,
    /// The component is never called for a batch: its plan passes columns alone.
    pub(crate) no_calls: bool,
}

/// Sends `rows` rows through, `chunk_rows` at a time. Made-up rows that the component rejects are replaced by `own` rows.
///
/// # Errors
/// When the component is refused or fails a chunk.
pub(crate) fn measure(
    bench: &Workbench,
    setup: &Setup,
    own: Option<&RecordBatch>,
    rows: usize,
    chunk_rows: usize,
    seed: u64,
) -> Result<Speed, KitError> {
    let chunk_rows = chunk_rows.min(rows).max(1);
    let started = Instant::now();
    let chain = bench.open(setup).map_err(|error| bench.refused(&error))?;
    let compile = started.elapsed();
    let mut random = StdRng::seed_from_u64(seed);
    let made_up = generate::chunk(setup, chunk_rows, &mut random).map_err(KitError::Usage)?;
    let mut fixture_rows = false;
    let chunk = match chain.apply(&made_up) {
        Ok(_) => made_up,
        Err(TransformError::Refused {
            fault: Fault::Rejected { column, code, .. },
            ..
        }) => {
            let repeated = own
                .map(|own| {
                    let ran = run(&chain, own).map_err(|error| bench.refused(&error))?;
                    repeat(
                        own,
                        &ran.rejects.iter().map(|rejected| rejected.row).collect::<Vec<u32>>(),
                        chunk_rows,
                    )
                })
                .transpose()?
                .flatten();
            fixture_rows = true;
            repeated.ok_or_else(|| {
                KitError::Usage(format!(
                    "the component rejects made-up rows (`{code}` in column `{column}`); give `--fixture` a file with rows \
                     that it takes"
                ))
            })?
        }
        Err(error) => return Err(bench.refused(&error)),
    };
    let mut calls = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let started = Instant::now();
        chain.apply(&chunk.slice(0, 1)).map_err(|error| bench.refused(&error))?;
        calls.push(started.elapsed());
    }
    calls.sort_unstable();
    let bytes = bytes_of(&chunk);
    let (mut done, mut went_in, mut spent) = (0, 0, Duration::ZERO);
    while done < rows {
        let started = Instant::now();
        chain.apply(&chunk).map_err(|error| bench.refused(&error))?;
        spent += started.elapsed();
        done += chunk.num_rows();
        went_in += bytes;
    }
    let seconds = spent.as_secs_f64().max(f64::MIN_POSITIVE);
    Ok(Speed {
        compile_seconds: compile.as_secs_f64(),
        call_seconds: calls[CALLS / 2].as_secs_f64(),
        rows: done,
        chunk_rows: chunk.num_rows(),
        seconds,
        rows_per_second: done as f64 / seconds,
        megabytes_per_second: went_in as f64 / 1e6 / seconds,
        fixture_rows,
        no_calls: chain
            .output()
            .iter()
            .all(|column| matches!(column.from, crate::transform::Route::Passed { .. })),
    })
}

/// The rows of a fixture without those that are rejected, over and over. `None` where none is left.
fn repeat(own: &RecordBatch, rejected: &[u32], rows: usize) -> Result<Option<RecordBatch>, KitError> {
    let misfit = |error: arrow::error::ArrowError| KitError::Usage(error.to_string());
    let changes = super::values::format(own.column(2));
    let gone: Vec<_> = rejected.iter().map(|row| &changes[*row as usize]).collect();
    let kept: arrow::array::UInt32Array = (0_u32..)
        .zip(&changes)
        .filter(|(_, change)| !gone.contains(change))
        .map(|(row, _)| row)
        .collect();
    if kept.is_empty() {
        return Ok(None);
    }
    let kept = arrow::compute::take_record_batch(own, &kept).map_err(misfit)?;
    let times = rows.div_ceil(kept.num_rows());
    concat_batches(&kept.schema(), std::iter::repeat_n(&kept, times))
        .map(Some)
        .map_err(misfit)
}

fn bytes_of(chunk: &RecordBatch) -> usize {
    chunk.columns()[META_BEFORE.len()..]
        .iter()
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
        .sum()
}
