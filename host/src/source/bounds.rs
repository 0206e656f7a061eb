//! What a server must have for a read to be whole, and the question about it.
//!
//! A direct read of a change table returns too little, without an error, in two cases: cleanup took the beginning of the
//! range away, or the server is an older copy (a replica that lags, a restored backup) that does not have its end yet.
//! Cleanup moves `min_lsn` before it deletes, and the `max_lsn` of one server never goes back. So what one connection
//! read was whole if `max_lsn` had reached the end of the range, and `min_lsn`, asked *afterwards on that connection*,
//! is still at most its beginning. The same holds for the answer "there is no row".

use super::ask::{self, Asker};
use super::error::SourceError;
use super::mapping::is_nothing_between;
use super::quote;
use super::table::SourceTable;
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset};

pub(super) const DOING: &str = "asking what is left of the changes";

/// What a server has of a capture instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The first LSN that is left. `None`: the server answers zeros.
    pub min_lsn: Option<Lsn>,
    /// The last commit that capture has processed.
    pub max_lsn: Option<Lsn>,
}

/// A closed range of LSNs that is to be read, or to be known as empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The first LSN.
    pub from: Lsn,
    /// The last.
    pub to: Lsn,
    /// The position before it; `None` at the very beginning.
    pub after: Option<Offset>,
}

impl Wanted {
    /// Whether a server with these bounds has all of the range.
    pub fn check(&self, instance: &CaptureInstance, bounds: Bounds) -> Result<(), SourceError> {
        if bounds.max_lsn < Some(self.to) {
            return Err(SourceError::WentBack {
                capture_instance: instance.clone(),
                max_lsn: bounds.max_lsn.unwrap_or(Lsn::ZERO),
                position: self.to,
            });
        }
        match bounds.min_lsn {
            None => Err(SourceError::NotReached {
                capture_instance: instance.clone(),
            }),
            Some(min_lsn) if min_lsn > self.from => Err(self.purged(instance, min_lsn)),
            Some(_) => Ok(()),
        }
    }

    /// The error of a range that begins before what is left.
    pub fn purged(&self, instance: &CaptureInstance, min_lsn: Lsn) -> SourceError {
        SourceError::Purged {
            capture_instance: instance.clone(),
            from: self.from,
            up_to: match self.after {
                Some(after) => format!("{} ({})", after.lsn, after.commit_ts),
                None => "its beginning".to_owned(),
            },
            min_lsn,
        }
    }
}

/// The question, for either driver.
pub(super) fn statement(instance: &CaptureInstance) -> String {
    format!(
        "SELECT sys.fn_cdc_get_min_lsn({}), sys.fn_cdc_get_max_lsn()",
        quote::literal(&instance.0)
    )
}

/// Asks.
pub(super) async fn bounds(asker: &mut Asker, instance: &CaptureInstance) -> Result<Bounds, SourceError> {
    of_rows(&asker.query(&statement(instance), &[], DOING).await?)
}

/// Whether a server still has what comes after a position, without reading it: what a run would find lost.
pub async fn expect_left(asker: &mut Asker, table: &SourceTable, position: Offset) -> Result<(), SourceError> {
    let from = position.lsn.next();
    let instance = &table.instances[table.in_force(from)].name;
    let wanted = Wanted {
        from,
        to: position.lsn,
        after: Some(position),
    };
    match wanted.check(instance, bounds(asker, instance).await?) {
        Err(SourceError::Purged { min_lsn, .. }) if is_nothing_between(asker, position.lsn, min_lsn).await? => Ok(()),
        // Capture may come to it.
        Err(SourceError::NotReached { .. }) => Ok(()),
        checked => checked,
    }
}

/// The answer in rows of tiberius.
pub(super) fn of_rows(rows: &[tiberius::Row]) -> Result<Bounds, SourceError> {
    let row = rows.first().ok_or_else(|| SourceError::Unexpected {
        doing: DOING.to_owned(),
        reason: "no row".to_owned(),
    })?;
    Ok(Bounds {
        min_lsn: ask::lsn(row, 0, DOING)?.filter(|lsn| !lsn.is_zero()),
        max_lsn: ask::lsn(row, 1, DOING)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Classify, ErrorKind};
    use crate::lsn::UtcMicros;

    fn lsn(n: u8) -> Lsn {
        Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, n])
    }

    fn kind(min: Option<u8>, max: Option<u8>) -> Option<ErrorKind> {
        let wanted = Wanted {
            from: lsn(5),
            to: lsn(9),
            after: Some(Offset {
                lsn: lsn(4),
                commit_ts: UtcMicros(0),
            }),
        };
        let bounds = Bounds {
            min_lsn: min.map(lsn),
            max_lsn: max.map(lsn),
        };
        let result = wanted.check(&CaptureInstance("dbo_t".to_owned()), bounds);
        result.err().map(|error| error.kind())
    }

    #[test]
    fn a_range_is_whole_only_between_min_and_max() {
        assert_eq!(kind(Some(5), Some(9)), None);
        assert_eq!(kind(Some(6), Some(9)), Some(ErrorKind::DataLoss));
        assert_eq!(kind(Some(5), Some(8)), Some(ErrorKind::State));
        assert_eq!(kind(Some(5), None), Some(ErrorKind::State));
        // An older copy is no proof of loss.
        assert_eq!(kind(Some(6), Some(8)), Some(ErrorKind::State));
        // Zeros say nothing by themselves.
        assert_eq!(kind(None, Some(9)), Some(ErrorKind::Retryable));
    }
}
