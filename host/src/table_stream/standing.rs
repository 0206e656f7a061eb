//! Where a table stands by what earlier runs left, and whether it may go on from there. Nothing is written.

use std::path::Path;

use crate::checkpoint::{CheckpointReader, Running};
use crate::config::{OwnershipSettings, TableSettings};
use crate::identity::BatchId;
use crate::lake::BronzeTable;
use crate::lsn::Offset;
use crate::shape::TableShape;
use crate::transform::Chain;

use super::StreamError;
use super::course::{Course, Left, course};
use super::open::{blocking, bronze_spec, identity};

/// What a run would go on from.
#[derive(Debug, PartialEq)]
pub(crate) struct Standing {
    /// The last batch that is done, and its end; `None` when the stream is still where it begins.
    pub(crate) last: Option<(BatchId, Option<Offset>)>,
    /// A batch that was begun and is not done.
    pub(crate) open: Option<BatchId>,
    /// How that batch goes on.
    pub(crate) course: Course,
    /// The process that runs the table now.
    pub(crate) owner: Option<String>,
    /// Whether the bronze table is there.
    pub(crate) has_bronze: bool,
}

/// Reads a table's checkpoint and the schema of its bronze table.
///
/// # Errors
/// What a run would stop at: a checkpoint of another stream, one that is damaged, a changed chain, a bronze table that
/// does not fit.
pub(crate) async fn standing(
    settings: &TableSettings,
    ownership: &OwnershipSettings,
    database: &str,
    shape: &TableShape,
    chain: &Chain,
) -> Result<Standing, StreamError> {
    let wanted = identity(settings, database, shape);
    let location = settings.checkpoint.display().to_string();
    let hosts = ownership.hosts().map(Path::to_path_buf);
    let (state, owner) = blocking(move || {
        let reader = CheckpointReader::new(&location)?.with_hosts(hosts.as_deref());
        reader.expect(&wanted)?;
        let owner = match reader.running()? {
            Running::By(owner) => Some(owner),
            Running::Nobody | Running::RanOut(_) => None,
        };
        Ok((reader.latest()?, owner))
    })
    .await?;
    let left = Left {
        open: state.open.as_ref(),
        last: state.last_committed.as_ref(),
        last_with_rows: state.last_with_rows,
        // A look at the facts is the run's.
        facts: None,
    };
    let course = course(settings, &shape.capture_instance, chain, left)?;
    let target = settings.target.display().to_string();
    let has_bronze = BronzeTable::fits(&target, &bronze_spec(settings, chain)).await?;
    Ok(Standing {
        last: state.last_committed.map(|record| (record.batch_id, record.position())),
        open: state.open.map(|planned| planned.batch_id),
        course,
        owner,
        has_bronze,
    })
}
