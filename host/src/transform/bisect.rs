//! Which rows of a chunk does a component fail on? The chunk is halved, and halved again, until each part either gets an
//! answer or is a single change that does not. A component answers for each row by itself, so the parts make up the
//! answer of the whole.

use std::ops::Range;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::concat;

use super::check::{Kept, Reject};
use super::chunk::Chunk;
use super::error::Fault;
use super::plan;
use super::spent::Spent;
use super::step::{Answer, Failure, Step};

/// A chunk is searched for as many deadlines of a call as this, all calls together.
const MAX_DEADLINES: u32 = 10;

/// The answer for the parts so far.
struct Parts {
    /// The output columns of each part, in order.
    columns: Vec<Vec<ArrayRef>>,
    kept: Vec<bool>,
    turned: Vec<(usize, i32)>,
    rejects: Vec<Reject>,
    all_kept: bool,
    /// Bytes of the answers so far.
    bytes: u64,
    spent: Spent,
}

/// Changes of a chunk that a component may fail on, one by one, whatever may go into quarantine: what fails on more than these
/// fails on everything, and each costs calls.
const MOST_FAILURES: u64 = 1000;
/// From so many changes on, a chunk that the component has no answer for in any part says nothing of its rows.
const ENOUGH_CHANGES: usize = 10;

impl Step {
    /// The answer for a chunk as a whole of which the component fails with `fault`. Fails as soon as more than `most` rows
    /// would be rejected, with whatever is not for a row to cause, and when the search as a whole takes too long: each of
    /// thousands of calls may run until just before its deadline. Fails as well when no part has an answer, unless the rows
    /// come `again`: then they are those that it failed on before, picked out of many.
    pub(super) fn bisect(&self, chunk: &Chunk, fault: Fault, most: u64, again: bool) -> Result<Answer, Failure> {
        let started = Instant::now();
        let ids = chunk.change_ids().map_err(Failure::Chunk)?;
        let most_failures = most.min(MOST_FAILURES);
        let mut failures = 0;
        let mut first = None;
        let mut has_answer = false;
        let mut parts = Parts {
            columns: Vec::new(),
            kept: Vec::with_capacity(chunk.rows),
            turned: Vec::new(),
            rejects: Vec::new(),
            all_kept: true,
            bytes: 0,
            spent: Spent::default(),
        };
        // What is still to be done, the next part last, and why it is not to be tried as it is.
        let mut pending: Vec<(Range<usize>, Option<Fault>)> = vec![(0..chunk.rows, Some(fault))];
        while let Some((range, fault)) = pending.pop() {
            let part = chunk.part(range.clone()).map_err(Failure::Chunk)?;
            let middle = middle(&range, |row| ids.same(row));
            let fault = match (fault, middle) {
                (Some(fault), _) => fault,
                (None, middle) => {
                    expect_in_time(started.elapsed(), self.deadline())?;
                    let answer = match middle {
                        Some(_) => self.call(&part),
                        None => self.call_with_retry(&part),
                    };
                    match answer {
                        Ok(answer) => {
                            has_answer = true;
                            parts.bytes += self.computed_bytes(&answer.columns);
                            parts.add(&range, answer);
                            // Each part keeps to the limit by itself; what the host collects has to as well.
                            if parts.bytes > self.limits.output_bytes {
                                return Err(Fault::Opening(Box::new(Fault::Output {
                                    bytes: self.limits.output_bytes,
                                }))
                                .into());
                            }
                            continue;
                        }
                        Err(Failure::Fault(fault)) if fault.row_code().is_some() => fault,
                        Err(failure) => return Err(failure),
                    }
                }
            };
            match middle {
                Some(middle) => {
                    pending.push((middle..range.end, None));
                    pending.push((range.start..middle, None));
                }
                None => {
                    parts.reject(&range, &fault, self.nothing(&part));
                    failures += 1;
                    if parts.rejects.len() as u64 > most || failures > most_failures {
                        return Err(Fault::TooMany {
                            rows: parts.rejects.len() as u64,
                            most: most_failures,
                            first: Some(Box::new(fault)),
                        }
                        .into());
                    }
                    first.get_or_insert(fault);
                }
            }
        }
        let changes = count_changes(chunk.rows, |row| ids.same(row));
        if let Some(first) = first.filter(|_| !has_answer && !again && changes >= ENOUGH_CHANGES) {
            return Err(Fault::Everything {
                changes,
                first: Box::new(first),
            }
            .into());
        }
        parts.answer()
    }

    /// What an answer's computed columns take in memory.
    fn computed_bytes(&self, columns: &[ArrayRef]) -> u64 {
        let outputs = self.plan.outputs.iter().zip(columns);
        let computed = outputs.filter(|(output, _)| matches!(output.from, plan::From::Computed { .. }));
        computed.map(|(_, column)| column.get_array_memory_size() as u64).sum()
    }

    /// Output columns for rows that have none.
    fn nothing(&self, part: &Chunk) -> Vec<ArrayRef> {
        let computed = self
            .computed()
            .map(|output| new_null_array(&output.data_type, part.rows));
        self.arrange(part, computed.collect())
    }
}

/// # Errors
/// A search that has taken too long.
fn expect_in_time(elapsed: Duration, deadline: Duration) -> Result<(), Fault> {
    let limit = deadline.saturating_mul(MAX_DEADLINES);
    if elapsed <= limit {
        return Ok(());
    }
    Err(Fault::Search { ms: limit.as_millis() })
}

/// How many changes so many rows are: the two rows of an update are one.
fn count_changes(rows: usize, same: impl Fn(usize) -> bool) -> usize {
    (0..rows).filter(|row| *row == 0 || !same(row - 1)).count()
}

/// Where to cut; `None` where it is one change. The two rows of an update stay together.
fn middle(range: &Range<usize>, same: impl Fn(usize) -> bool) -> Option<usize> {
    let middle = range.start + range.len() / 2;
    let before = (range.start + 1..=middle).rev().find(|cut| !same(cut - 1));
    before.or_else(|| (middle + 1..range.end).find(|cut| !same(cut - 1)))
}

impl Parts {
    fn add(&mut self, range: &Range<usize>, answer: Answer) {
        let Answer {
            columns,
            kept,
            rejects,
            spent,
        } = answer;
        self.spent += spent;
        self.columns.push(columns);
        match kept {
            Some(Kept { rows, turned }) => {
                self.all_kept = false;
                self.kept.extend(rows.iter());
                self.turned.extend(
                    turned
                        .into_iter()
                        .map(|(row, operation)| (range.start + row, operation)),
                );
            }
            None => self.kept.resize(range.end, true),
        }
        self.rejects.extend(rejects.into_iter().map(|reject| Reject {
            row: range.start + reject.row,
            ..reject
        }));
    }

    fn reject(&mut self, range: &Range<usize>, fault: &Fault, columns: Vec<ArrayRef>) {
        self.columns.push(columns);
        self.kept.resize(range.end, true);
        let column = match fault {
            Fault::Failed { column, .. } => column.clone(),
            _ => None,
        };
        let code = fault.row_code().unwrap_or_default();
        self.rejects.extend(range.clone().map(|row| Reject {
            row,
            column: column.clone(),
            code: code.to_owned(),
        }));
    }

    fn answer(self) -> Result<Answer, Failure> {
        let width = self.columns.first().map_or(0, Vec::len);
        let columns = (0..width)
            .map(|at| {
                let pieces: Vec<_> = self.columns.iter().map(|part| part[at].as_ref()).collect();
                concat(&pieces).map_err(|error| Failure::Chunk(error.to_string()))
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Answer {
            columns,
            kept: (!self.all_kept).then(|| Kept {
                rows: self.kept.into(),
                turned: self.turned,
            }),
            rejects: self.rejects,
            spent: self.spent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_after_ten_deadlines_and_is_no_rows_fault() {
        let deadline = Duration::from_millis(200);
        assert_eq!(expect_in_time(Duration::from_millis(2000), deadline), Ok(()));
        let fault = expect_in_time(Duration::from_millis(2001), deadline).unwrap_err();
        assert_eq!(fault, Fault::Search { ms: 2000 });
        assert!(fault.row_code().is_none() && !fault.condemns_instance());
    }

    #[test]
    fn the_two_rows_of_an_update_are_one_change() {
        assert_eq!(count_changes(0, |_| false), 0);
        assert_eq!(count_changes(4, |_| false), 4);
        // Rows 1 and 2 are one change.
        assert_eq!(count_changes(4, |row| row == 1), 3);
    }

    #[test]
    fn a_cut_never_parts_the_rows_of_one_change() {
        let apart = |_| false;
        assert_eq!(middle(&(0..10), apart), Some(5));
        assert_eq!(middle(&(4..5), apart), None);
        assert_eq!(middle(&(4..6), apart), Some(5));
        // Rows 4 and 5 are one change.
        let pair = |row| row == 4;
        assert_eq!(middle(&(0..10), pair), Some(4));
        assert_eq!(middle(&(4..6), pair), None);
        assert_eq!(middle(&(4..7), pair), Some(6));
        // All are.
        assert_eq!(middle(&(0..9), |_| true), None);
    }
}
