//! Opening a table: its columns, its chain, its checkpoint and its bronze table, and where the last run ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::checkpoint::{Checkpoint, CheckpointError, CommitRecord, PlannedBatch, Resume, StreamIdentity, reconcile};
use crate::config::{OnTransformChange, TableSettings};
use crate::facts::{FactsEntry, FactsKey};
use crate::identity::{BatchId, CaptureInstance};
use crate::lake::{BronzeSpec, BronzeTable, Column};
use crate::lsn::{Lsn, Offset, UtcMicros};
use crate::report::{Event, TableSummary};
use crate::shape::TableShape;
use crate::source::{ChangeReader, Poll};
use crate::transform::{Chain, OnError, OutputColumn, Provenance, Route, TransformSpec};
use crate::verdict::{TableStatus, VerdictUpdate};

use super::position::{self, Next};
use super::publish::{Committed, Publisher};
use super::{Shared, StreamError, millis};

/// A table that is ready to stream.
pub(super) struct OpenTable {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: TableSettings,
    pub(super) shape: Arc<TableShape>,
    pub(super) start_lsn: Option<Lsn>,
    pub(super) chain: Arc<Chain>,
    pub(super) reader: Arc<ChangeReader>,
    pub(super) bronze: BronzeTable,
    pub(super) checkpoint: Checkpoint,
    pub(super) publisher: Publisher,
    /// The last commit that is accounted for, in bronze or as idle.
    pub(super) position: Option<Offset>,
    /// The last commit that the checkpoint knows of.
    pub(super) recorded: Option<Offset>,
    pub(super) next_batch: BatchId,
    pub(super) next_event: i64,
    /// An earlier run planned this batch and did not end it.
    pub(super) open_batch: Option<PlannedBatch>,
    /// The chain that the last batch ran with.
    pub(super) last_chain: Option<String>,
    pub(super) idle_since: Instant,
    /// The chain's components are in the checkpoint.
    pub(super) components_saved: bool,
    pub(super) summary: TableSummary,
}

impl OpenTable {
    /// Opens everything, in an order in which nothing is written before this process owns the stream.
    pub(super) async fn open(shared: &Arc<Shared>, settings: &TableSettings) -> Result<OpenTable, StreamError> {
        let source = {
            let mut asker = shared.asks.get().await?;
            shared
                .catalog
                .open_table(&mut asker, &settings.capture_instance)
                .await?
        };
        let shape = Arc::new(source.shape);
        let chain = {
            let (shared, shape, settings) = (Arc::clone(shared), Arc::clone(&shape), settings.clone());
            // Compiling a component is CPU work of up to a second.
            tokio::task::spawn_blocking(move || {
                Chain::open(
                    &shared.engine,
                    &shape,
                    &specs(&settings),
                    &shared.keys,
                    &settings.protect,
                )
            })
            .await
            .map_err(|_| StreamError::Task {
                doing: "opening its components",
            })??
        };
        let identity = StreamIdentity::new(
            settings.app_id.clone(),
            &shared.catalog.database,
            &shape.schema,
            &shape.table,
        );
        let location = settings.checkpoint.display().to_string();
        let mut checkpoint = blocking(move || Checkpoint::open(&location, &identity)).await?;
        let bronze = BronzeTable::open(
            &settings.target.display().to_string(),
            BronzeSpec {
                capture_instance: settings.capture_instance.clone(),
                app_id: settings.app_id.clone(),
                columns: chain.output().iter().map(bronze_column).collect(),
                omitted: false,
            },
        )
        .await?;
        let facts = shared.facts_of(settings)?;
        let verdicts = shared.verdicts_of(settings)?;
        let recorded_facts = facts.table.recorded(&settings.app_id).await?;
        let finalized = verdicts.finalized_until(&settings.target.display().to_string()).await?;
        let fenced = bronze.owner().await?;
        let (checkpoint, state) = blocking(move || {
            checkpoint.fence_above(fenced)?;
            let state = checkpoint.latest()?;
            Ok((checkpoint, state))
        })
        .await?;
        let resume = reconcile(&state, bronze.last_batch().await?, recorded_facts.facts.map(BatchId))?;
        let last = state.last_committed.as_ref();
        let recorded = last.map(|record| record.end);
        let (next_batch, open_batch) = match resume {
            Resume::Fresh => (BatchId(0), None),
            Resume::Continue { next, .. } => (next, None),
            Resume::Replay { planned, .. } => (planned.batch_id, Some(*planned)),
        };
        let mut table = OpenTable {
            publisher: Publisher::start(
                Arc::clone(shared),
                settings.capture_instance.clone(),
                facts.writer.clone(),
                verdicts.clone(),
                finalized,
            ),
            reader: Arc::new(ChangeReader::new(shared.pool.clone(), Arc::clone(&shape))),
            summary: TableSummary::new(
                settings.capture_instance.clone(),
                settings.target.clone(),
                chain.provenance().iter().map(plugin_name).collect(),
            ),
            position: recorded,
            recorded,
            next_batch,
            next_event: last.and_then(|record| record.last_event).map_or(0, |newest| newest + 1),
            last_chain: last.map(|record| record.chain.clone()),
            open_batch,
            idle_since: Instant::now(),
            components_saved: false,
            shared: Arc::clone(shared),
            settings: settings.clone(),
            shape,
            start_lsn: source.start_lsn,
            chain: Arc::new(chain),
            bronze,
            checkpoint,
        };
        table.check_chain(last)?;
        table.publish_what_is_missing(recorded_facts.facts).await?;
        table.shared.tell(Event::Opened {
            capture_instance: table.settings.capture_instance.clone(),
            target: table.settings.target.clone(),
            app_id: table.settings.app_id.clone(),
            position: table.position.map(|offset| offset.lsn),
            next_batch: table.next_batch,
            transform: table.summary.transform.clone(),
        });
        Ok(table)
    }

    /// The capture instance, as the server spells it.
    pub(super) fn instance(&self) -> &CaptureInstance {
        &self.shape.capture_instance
    }

    pub(super) fn position(&self) -> Option<Offset> {
        self.position
    }

    /// What comes next.
    pub(super) fn next(&self, poll: &Poll, max: Offset) -> Result<Next, StreamError> {
        position::next(self.instance(), self.position, self.start_lsn, poll, max)
    }

    pub(super) fn tell_retrying(&self, error: &str, failures: u32, pause: Duration) {
        self.shared.tell(Event::Retrying {
            capture_instance: self.settings.capture_instance.clone(),
            error: error.to_owned(),
            failures,
            pause_ms: millis(pause),
        });
    }

    /// Ends the stream: everything committed gets its facts and its verdict.
    pub(super) async fn close(mut self) -> Result<TableSummary, StreamError> {
        self.summary.finalized_until = self.publisher.close().await?;
        self.summary.at(self.recorded);
        Ok(self.summary)
    }

    /// The chain must be the one of the last batch, unless the user said otherwise; an open batch is only ever replayed
    /// with the chain that it was planned with.
    fn check_chain(&self, last: Option<&CommitRecord>) -> Result<(), StreamError> {
        let is = describe(self.chain.provenance());
        if let Some(open) = &self.open_batch
            && open.chain != self.chain.digest()
        {
            return Err(StreamError::ReplayChanged {
                batch: open.batch_id.0,
                was: describe_json(&open.provenance.to_string()),
                is,
            });
        }
        match last {
            Some(record)
                if record.chain != self.chain.digest()
                    && self.open_batch.is_none()
                    && self.settings.on_transform_change == OnTransformChange::Fail =>
            {
                Err(StreamError::TransformChanged {
                    batch: record.batch_id.0,
                    was: describe_json(record.facts.transform.as_deref().unwrap_or_default()),
                    is,
                })
            }
            _ => Ok(()),
        }
    }

    /// Facts that a crash kept from the facts table are written again from the checkpoint, and the verdict after them.
    async fn publish_what_is_missing(&mut self, recorded: Option<i64>) -> Result<(), StreamError> {
        let checkpoint = self.checkpoint.clone();
        let missing = blocking(move || checkpoint.reader().commits_after(recorded.map(BatchId))).await?;
        for record in missing {
            let entries = self.entries(&record);
            self.publisher
                .publish(Committed {
                    entries,
                    verdict: self.verdict(record.end, TableStatus::Current),
                })
                .await?;
        }
        if recorded.is_some()
            && let Some(end) = self.recorded
        {
            // The verdict may be missing though the facts are there.
            let verdict = self.verdict(end, TableStatus::Current);
            self.publisher
                .publish(Committed {
                    entries: Vec::new(),
                    verdict,
                })
                .await?;
        }
        Ok(())
    }

    /// The facts entries of a committed batch: its own, and those of its events.
    pub(super) fn entries(&self, record: &CommitRecord) -> Vec<FactsEntry> {
        let app_id = &self.settings.app_id;
        let batch = FactsEntry {
            app_id: app_id.clone(),
            key: FactsKey::Batch(record.batch_id),
            row: record.facts.clone(),
        };
        let newest = record.last_event.unwrap_or(-1);
        let first_event = newest + 1 - i64::try_from(record.events.len()).unwrap_or(0);
        let events = record.events.iter().zip(first_event..).map(|(row, number)| FactsEntry {
            app_id: app_id.clone(),
            key: FactsKey::Event(number),
            row: row.clone(),
        });
        events.chain(std::iter::once(batch)).collect()
    }

    pub(super) fn verdict(&self, end: Offset, status: TableStatus) -> VerdictUpdate {
        VerdictUpdate {
            table_name: self.settings.target.display().to_string(),
            end: Some(end),
            status,
            granularity: self.settings.granularity,
            open_quarantined: None,
        }
    }
}

/// The chain's configuration, for the engine.
pub(crate) fn specs(settings: &TableSettings) -> Vec<TransformSpec> {
    settings
        .transforms
        .iter()
        .map(|transform| TransformSpec {
            plugin: transform.plugin.clone(),
            sha256: transform.sha256.clone(),
            config: transform.config.clone(),
            keys: transform.keys.clone(),
            memory_bytes: transform.memory_bytes,
            deadline: transform.deadline,
            on_error: OnError::Fail,
            ..TransformSpec::new(transform.plugin.clone())
        })
        .collect()
}

fn bronze_column(column: &OutputColumn) -> Column {
    let comment = match &column.from {
        Route::Passed { source } => format!("column {source} of the source, unchanged"),
        Route::Computed { how, .. } => format!("computed: {how}"),
    };
    Column::new(&column.name, column.data_type.clone(), comment)
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

/// Runs what blocks on local files off the runtime's threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> Result<T, StreamError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StreamError::Task {
            doing: "writing its checkpoint",
        })?
        .map_err(StreamError::from)
}

/// Hours from one instant to another.
pub(super) fn hours_between(from: UtcMicros, to: UtcMicros) -> f64 {
    (to.0 - from.0) as f64 / 3.6e9
}
