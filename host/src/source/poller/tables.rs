//! What a poll asks about tables, in few requests.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use super::{DOING, Poll, TablePoll};
use crate::clock::Clock;
use crate::error::{Classify, ErrorKind};
use crate::identity::CaptureInstance;
use crate::lsn::Lsn;
use crate::source::ask::{self, Asker};
use crate::source::catalog;
use crate::source::error::SourceError;
use crate::source::quote;

/// Tables whose newest change is asked for in one request, and tables of which the low end is asked for as well.
const TABLES_PER_REQUEST: usize = 250;
const LOW_ENDS_PER_REQUEST: usize = 100;
/// What a poll is to find out.
pub(super) struct Asked<'a> {
    pub(super) tables: &'a [CaptureInstance],
    /// Of which the low end is wanted.
    pub(super) low_ends: BTreeSet<CaptureInstance>,
    /// It is wanted of all.
    pub(super) everything: bool,
    /// The poll before.
    pub(super) before: Option<&'a Poll>,
}

impl Asked<'_> {
    /// What was seen of a table before.
    fn known(&self, table: &CaptureInstance) -> Option<&TablePoll> {
        self.before?.table(table)
    }

    /// Whether the low end of a table has to be asked for: it is wanted, or not known.
    fn wants_low_end(&self, table: &CaptureInstance) -> bool {
        self.everything
            || self.low_ends.contains(table)
            || !matches!(self.known(table), Some(TablePoll::Ready { min_lsn: Some(_), .. }))
    }
}

/// What there is to know of the tables now: asked again where it may have changed.
pub(super) async fn tables(
    asker: &mut Asker,
    wanted: &Asked<'_>,
    max_lsn: Lsn,
    clock: Clock,
) -> Result<Arc<HashMap<CaptureInstance, TablePoll>>, SourceError> {
    let (low_ends, others): (Vec<_>, Vec<_>) = wanted
        .tables
        .iter()
        .cloned()
        .partition(|table| wanted.wants_low_end(table));
    // Without a commit, there is no change.
    let others = match wanted.before.filter(|before| before.max.lsn == max_lsn) {
        Some(before) if low_ends.is_empty() && before.tables.len() == others.len() => {
            return Ok(Arc::clone(&before.tables));
        }
        Some(_) => Vec::new(),
        None => others,
    };
    let mut seen = HashMap::with_capacity(wanted.tables.len());
    for table in wanted.tables {
        if let Some(known) = wanted.known(table) {
            seen.insert(table.clone(), known.clone());
        }
    }
    for group in others.chunks(TABLES_PER_REQUEST) {
        for (table, answer) in each(asker, group, Question::Newest, max_lsn, clock).await? {
            let answer = match (answer, wanted.known(&table)) {
                // The low end is the one that was seen before.
                (
                    TablePoll::Ready { last_lsn, .. },
                    Some(TablePoll::Ready {
                        min_lsn, min_commit_ts, ..
                    }),
                ) => TablePoll::Ready {
                    min_lsn: *min_lsn,
                    min_commit_ts: *min_commit_ts,
                    last_lsn,
                    confirmed: false,
                },
                (answer, _) => answer,
            };
            seen.insert(table, answer);
        }
    }
    for group in low_ends.chunks(LOW_ENDS_PER_REQUEST) {
        seen.extend(each(asker, group, Question::NewestAndLowEnd, max_lsn, clock).await?);
    }
    Ok(Arc::new(seen))
}

/// Asks about the tables of a group in one request or, as one table's change table can fail the request for all, about each
/// alone.
async fn each(
    asker: &mut Asker,
    group: &[CaptureInstance],
    question: Question,
    max_lsn: Lsn,
    clock: Clock,
) -> Result<Vec<(CaptureInstance, TablePoll)>, SourceError> {
    match ask_group(asker, group, question, max_lsn, clock).await {
        Err(error) if is_final(&error) => {}
        answered => return answered,
    }
    catalog::expect_cdc(asker).await?;
    let mut seen = Vec::with_capacity(group.len());
    for table in group {
        match ask_group(asker, std::slice::from_ref(table), question, max_lsn, clock).await {
            Ok(answers) => seen.extend(answers),
            Err(error) if is_final(&error) => {
                let error = error.with_grant(table, asker.user());
                seen.push((table.clone(), TablePoll::Failed(Arc::new(error))));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}

/// A final error of the request itself, not of the way to the server.
pub(super) fn is_final(error: &SourceError) -> bool {
    match error {
        SourceError::Server { doing, .. } | SourceError::Unexpected { doing, .. } => {
            doing == DOING && error.kind() != ErrorKind::Retryable
        }
        _ => false,
    }
}

/// What is asked about a group of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Newest,
    NewestAndLowEnd,
}

/// One request about a group. `min_lsn` comes after the newest changes: then "no change since" and "nothing was lost
/// since" together mean that there was none, as cleanup moves `min_lsn` before it deletes.
fn question(tables: &[CaptureInstance], question: Question) -> String {
    let mut newest = String::new();
    let mut left = String::new();
    for (i, table) in tables.iter().enumerate() {
        let name = quote::literal(&table.0);
        let change_table = quote::change_table(&table.0);
        let separator = if i == 0 { "" } else { " UNION ALL " };
        // Writing to a String cannot fail.
        let _ = write!(
            newest,
            "{separator}SELECT {i}, (SELECT MAX([__$start_lsn]) FROM {change_table})"
        );
        let _ = write!(
            left,
            "{separator}SELECT {i}, sys.fn_cdc_get_min_lsn({name}), \
             sys.fn_cdc_map_lsn_to_time(sys.fn_cdc_get_min_lsn({name}))"
        );
    }
    match question {
        Question::Newest => format!("SELECT sys.fn_cdc_get_max_lsn(); {newest}"),
        Question::NewestAndLowEnd => format!("SELECT sys.fn_cdc_get_max_lsn(); {newest}; {left}"),
    }
}

async fn ask_group(
    asker: &mut Asker,
    tables: &[CaptureInstance],
    asked: Question,
    max_lsn: Lsn,
    clock: Clock,
) -> Result<Vec<(CaptureInstance, TablePoll)>, SourceError> {
    let sets = asker.batch(&question(tables, asked), DOING).await?;
    let (max, newest, left) = match (asked, sets.as_slice()) {
        (Question::Newest, [max, newest]) => (max, newest, None),
        (Question::NewestAndLowEnd, [max, newest, left]) => (max, newest, Some(left)),
        _ => return Err(malformed(format!("{} result sets", sets.len()))),
    };
    let max_now = match max.first() {
        Some(row) => ask::lsn(row, 0, DOING)?,
        None => None,
    };
    if max_now < Some(max_lsn) {
        // A new connection in the middle of a poll led to a copy that lags; what it lacks is not "no change".
        return Err(SourceError::Broken {
            doing: DOING.to_owned(),
            reason: "another server answers, whose max_lsn is lower".to_owned(),
        });
    }
    let mut answers: Vec<TablePoll> = tables
        .iter()
        .map(|_| TablePoll::Ready {
            min_lsn: None,
            min_commit_ts: None,
            last_lsn: None,
            confirmed: false,
        })
        .collect();
    for row in newest {
        if let Some(TablePoll::Ready { last_lsn, .. }) = answers.get_mut(index(row)?) {
            *last_lsn = ask::lsn(row, 1, DOING)?;
        }
    }
    for row in left.into_iter().flatten() {
        if let Some(TablePoll::Ready {
            min_lsn,
            min_commit_ts,
            confirmed,
            ..
        }) = answers.get_mut(index(row)?)
        {
            *min_lsn = ask::lsn(row, 1, DOING)?.filter(|lsn| !lsn.is_zero());
            *min_commit_ts = ask::local_micros(row, 2, DOING)?.map(|local| clock.earliest(local));
            *confirmed = true;
        }
    }
    Ok(tables.iter().cloned().zip(answers).collect())
}

/// Which table a row is about.
fn index(row: &tiberius::Row) -> Result<usize, SourceError> {
    let index: Option<i32> = row.try_get(0).map_err(|e| ask::unexpected(e, DOING))?;
    index
        .and_then(|i| usize::try_from(i).ok())
        .ok_or_else(|| malformed("a row about no table".to_owned()))
}

fn malformed(reason: String) -> SourceError {
    SourceError::Unexpected {
        doing: DOING.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_asked_after_what_is_newest() {
        let tables = [CaptureInstance("dbo_a".to_owned()), CaptureInstance("dbo_b".to_owned())];
        let question = question(&tables, Question::NewestAndLowEnd);
        let statements: Vec<&str> = question.split("; ").collect();
        assert_eq!(statements.len(), 3);
        assert!(statements[1].contains("MAX([__$start_lsn])") && !statements[1].contains("fn_cdc_get_min_lsn"));
        assert!(statements[2].contains("fn_cdc_get_min_lsn") && !statements[2].contains("MAX("));
    }

    #[test]
    fn only_final_errors_of_the_question_are_a_tables_own() {
        let server = |number, doing: &str| SourceError::Server {
            number,
            message: String::new(),
            doing: doing.to_owned(),
        };
        assert!(is_final(&server(229, DOING)));
        assert!(is_final(&server(824, DOING)));
        assert!(!is_final(&server(1205, DOING)));
        assert!(!is_final(&server(18470, "logging in")));
        assert!(!is_final(&SourceError::Login {
            server: String::new(),
            user: String::new(),
        }));
    }
}
