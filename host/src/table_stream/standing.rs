//! Where a table stands by what earlier runs left, and whether it may go on from there. Nothing is written.

use crate::checkpoint::{CheckpointReader, CommitRecord, PlannedBatch};
use crate::config::{OnTransformChange, TableSettings};
use crate::identity::BatchId;
use crate::lake::BronzeTable;
use crate::lsn::Offset;
use crate::shape::TableShape;
use crate::transform::{Chain, Provenance};

use super::StreamError;
use super::open::{blocking, bronze_spec, identity};

/// What a run would go on from.
#[derive(Debug, PartialEq)]
pub(crate) struct Standing {
    /// The last batch that is done, and its end.
    pub(crate) last: Option<(BatchId, Offset)>,
    /// A batch that was begun and is not done.
    pub(crate) open: Option<BatchId>,
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
    database: &str,
    shape: &TableShape,
    chain: &Chain,
) -> Result<Standing, StreamError> {
    let wanted = identity(settings, database, shape);
    let location = settings.checkpoint.display().to_string();
    let (state, owner) = blocking(move || {
        let reader = CheckpointReader::new(&location)?;
        reader.expect(&wanted)?;
        let owner = match reader.is_running()? {
            true => reader.owner()?.map(|owner| owner.to_string()),
            false => None,
        };
        Ok((reader.latest()?, owner))
    })
    .await?;
    chain_may_go_on(settings, chain, state.open.as_ref(), state.last_committed.as_ref())?;
    let target = settings.target.display().to_string();
    let has_bronze = BronzeTable::fits(&target, &bronze_spec(settings, chain)).await?;
    Ok(Standing {
        last: state.last_committed.map(|record| (record.batch_id, record.end)),
        open: state.open.map(|planned| planned.batch_id),
        owner,
        has_bronze,
    })
}

/// The chain must be the one of the last batch, unless the user said otherwise; an open batch is only ever replayed with
/// the chain that it was planned with.
pub(super) fn chain_may_go_on(
    settings: &TableSettings,
    chain: &Chain,
    open: Option<&PlannedBatch>,
    last: Option<&CommitRecord>,
) -> Result<(), StreamError> {
    let is = describe(chain.provenance());
    if let Some(open) = open {
        return if open.chain == chain.digest() {
            Ok(())
        } else {
            Err(StreamError::ReplayChanged {
                batch: open.batch_id.0,
                was: describe_json(&open.provenance.to_string()),
                is,
            })
        };
    }
    match last {
        Some(record) if record.chain != chain.digest() && settings.on_transform_change == OnTransformChange::Fail => {
            Err(StreamError::TransformChanged {
                batch: record.batch_id.0,
                was: describe_json(record.facts.transform.as_deref().unwrap_or_default()),
                is,
            })
        }
        _ => Ok(()),
    }
}

/// `mask@0.1.0`.
pub(crate) fn plugin_name(provenance: &Provenance) -> String {
    format!("{}@{}", provenance.plugin, provenance.version)
}

/// A chain in one line, with what its digest depends on.
fn describe(provenance: &[Provenance]) -> String {
    if provenance.is_empty() {
        return "no transform".to_owned();
    }
    let steps: Vec<String> = provenance
        .iter()
        .map(|step| {
            let keys: Vec<String> = step
                .keys
                .iter()
                .map(|(name, version)| format!("{name}={version}"))
                .collect();
            format!(
                "{} (component {:.12}, configuration {:.12}{}{})",
                plugin_name(step),
                step.sha256,
                step.config_sha256,
                if keys.is_empty() { "" } else { ", keys " },
                keys.join(" ")
            )
        })
        .collect();
    steps.join(" → ")
}

fn describe_json(provenance: &str) -> String {
    serde_json::from_str::<Vec<Provenance>>(provenance)
        .map(|steps| describe(&steps))
        .unwrap_or_else(|_| "a chain that this version cannot read".to_owned())
}
