//! What batches put into quarantine has to be there for good: the rows are changes that bronze lacks, and the table is all that
//! says which. Records of batches and commits of bronze say how far it has to go, and a table that ends before is missed.

use crate::checkpoint::{Checkpoint, CheckpointReader, Resume};
use crate::config::TableSettings;
use crate::identity::AppId;
use crate::lake::BronzeTable;
use crate::quarantine::AttemptAt;
use crate::storage::Place;

use super::StreamError;
use super::committed;
use super::open::blocking;

/// The newest attempt that had rows in quarantine, by the checkpoint alone.
pub(crate) async fn recorded_in_quarantine(settings: &TableSettings) -> Result<Option<AttemptAt>, StreamError> {
    let place = settings.checkpoint.clone();
    let recorded = blocking(move || {
        let reader = CheckpointReader::new(&place);
        // A checkpoint that a run would stop at says nothing.
        reader.latest()?;
        reader.quarantined()
    })
    .await?;
    Ok(recorded.map(AttemptAt::of_version))
}

/// The same by the records, or by bronze where it has a batch that is not recorded yet.
pub(super) async fn by_record_or_bronze(
    bronze: &BronzeTable,
    checkpoint: &Checkpoint,
    resume: &Resume,
) -> Result<Option<AttemptAt>, StreamError> {
    let reader = checkpoint.reader().clone();
    let recorded = blocking(move || reader.quarantined()).await?;
    let told = match resume {
        Resume::Replay {
            planned,
            already_in_bronze: true,
        } => committed::told_of_quarantine(bronze, planned.batch_id).await?,
        _ => None,
    };
    Ok(told.max(recorded.map(AttemptAt::of_version)))
}

/// Fails when the quarantine table lacks what is recorded. `there` is the newest attempt that it has, in a `Some` of its own
/// where there is a table.
pub(crate) fn expect_kept(
    location: &Place,
    app_id: &AppId,
    recorded: Option<AttemptAt>,
    there: Option<Option<AttemptAt>>,
) -> Result<(), StreamError> {
    let Some(recorded) = recorded.filter(|recorded| there.flatten() < Some(*recorded)) else {
        return Ok(());
    };
    Err(StreamError::QuarantineBehind {
        table: location.to_string(),
        app_id: app_id.clone(),
        recorded,
        there: match there {
            None => "is not there".to_owned(),
            Some(None) => "has nothing of it".to_owned(),
            Some(Some(there)) => format!("ends with {there}"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Classify as _, ErrorKind};
    use crate::identity::BatchId;

    fn at(batch: i64, attempt: u32) -> AttemptAt {
        AttemptAt {
            batch: BatchId(batch),
            attempt,
        }
    }

    #[test]
    fn a_table_that_ends_before_what_is_recorded_is_missed() {
        let kept = |recorded, there| {
            expect_kept(
                &Place::local("/b__quarantine"),
                &AppId("orders".into()),
                recorded,
                there,
            )
        };
        for (recorded, there, words) in [
            (None, None, None),
            (None, Some(None), None),
            (None, Some(Some(at(7, 0))), None),
            (Some(at(7, 1)), Some(Some(at(7, 1))), None),
            // A batch that is open has rows there, too.
            (Some(at(7, 1)), Some(Some(at(8, 0))), None),
            (Some(at(7, 1)), None, Some("is not there")),
            (Some(at(7, 1)), Some(None), Some("has nothing of it")),
            (
                Some(at(7, 1)),
                Some(Some(at(7, 0))),
                Some("ends with attempt 0 at batch 7"),
            ),
        ] {
            match (kept(recorded, there), words) {
                (Ok(()), None) => {}
                (Err(error), Some(words)) => {
                    let said = error.to_string();
                    assert!(said.contains(words) && said.contains("attempt 1 at batch 7"), "{said}");
                    assert_eq!(error.kind(), ErrorKind::State);
                }
                (kept, words) => panic!("{recorded:?} {there:?}: {kept:?}, and not {words:?}"),
            }
        }
    }
}
