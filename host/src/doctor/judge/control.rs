//! The verdict against what is there.

use super::found;
use crate::doctor::finding::{Code, Finding, Severity};
use crate::doctor::ledger::Ledger;

pub(super) fn judge(ledger: &Ledger<'_>) -> Option<Finding> {
    let place = &ledger.subject.control_table;
    let row = ledger.evidence.verdict.as_ref()?;
    let end = ledger.done.and_then(|done| ledger.end_of(done));
    let Some(row) = row else {
        // Before the first facts there is no verdict.
        ledger.by_facts?;
        let what = match ledger.evidence.control.exists {
            false => "the control table is gone",
            true => "the control table has no row of this table",
        };
        return Some(found(
            Code::ControlMissing,
            Severity::RunMends,
            place,
            what,
            "consumers see no verdict until the next run, which writes it again from the checkpoint; nothing is lost",
            "nothing; consumers that take a missing row for \"not complete\" wait that long",
        ));
    };
    // Where bronze was set back, it is what consumers read.
    let behind = ledger.by_bronze < ledger.last_with_rows() && ledger.evidence.bronze.unreadable.is_none();
    let reach = match (behind, ledger.by_bronze) {
        (true, newest) => newest.and_then(|newest| ledger.end_of(newest)),
        (false, _) => end,
    };
    if row.end_lsn > reach.map(|end| end.lsn) || row.finalized_until > reach.map(|end| end.commit_ts) {
        let until = |at: Option<String>| at.unwrap_or_else(|| "the beginning".to_owned());
        let to = until(reach.map(|end| format!("{} ({})", end.commit_ts, end.lsn)));
        return Some(found(
            Code::VerdictAhead,
            Severity::NeedsPerson,
            place,
            format!(
                "the verdict is {} (up to {}), and what is left goes to {to}",
                until(row.finalized_until.map(|at| at.to_string())),
                until(row.end_lsn.map(|lsn| lsn.to_string())),
            ),
            "consumers may have taken periods for complete that are not so in bronze as it is now. run never takes a verdict \
             back",
            format!(
                "first settle what is wrong with bronze and checkpoint, which may put it right; otherwise tell the consumers \
                 of {} that nothing after that instant is sure",
                ledger.subject.table_name
            ),
        ));
    }
    // A stream whose first batch was closed without being read has no position yet.
    let end = end.filter(|end| !end.lsn.is_zero())?;
    let could = end.commit_ts.truncated(ledger.subject.granularity.period_us());
    if row.finalized_until < Some(could) && Some(ledger.done) == Some(ledger.by_facts) {
        return Some(found(
            Code::VerdictBehind,
            Severity::RunMends,
            place,
            format!("the verdict can move on to {could}"),
            "the process ended before it wrote it. the next run does",
            "nothing",
        ));
    }
    None
}
