//! One transform of an open chain: its plan, and how a chunk gets through it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, new_empty_array};

use super::bindings::v0_3::exports::sluice::transform::transform as wit;
use super::bindings::v0_3::sluice::transform::types;
use super::check::{self, Invalid, Kept, Reject, What};
use super::chunk::Chunk;
use super::columns::{self, WireColumn};
use super::engine::{Engine, Plugin};
use super::error::{ConfigFault, Fault, Place, TableFault, TransformError};
use super::grants::Grants;
use super::keys::KeyRing;
use super::limits::Limits;
use super::log::guest_text;
use super::made::Made;
use super::open_fault::{misplaced, open_fault};
use super::plan::{self, Input, Plan, Read};
use super::provenance::{Provenance, canonical_json};
use super::sandbox::Instance;
use super::spec::{OnError, TransformSpec};
use super::spent::Spent;
use crate::sha256;
use crate::shape::{META_BEFORE, TableShape};

/// Different codes of one answer that are shown.
const MAX_CODES: usize = 100;
/// Values of a chunk that are looked through before a code of it is shown, a second or two of work.
const MAX_VALUES: usize = 1 << 24;
/// A chunk is tried on so many instances before it is given up.
const INSTANCES: usize = 2;

/// A transform that was opened for a table.
pub(crate) struct Step {
    place: Place,
    plugin: Plugin,
    pub(super) limits: Limits,
    grants: Arc<Grants>,
    label: Arc<str>,
    config: String,
    on_error: OnError,
    table: OwnedTable,
    pub(crate) inputs: Vec<Input>,
    pub(crate) plan: Plan,
    /// As the first instance gave it; every later one must give the same.
    wire_plan: wit::Plan,
}

/// What a component makes of a chunk, checked.
pub(super) struct Answer {
    /// The output columns, of all rows of the chunk; what stands in a rejected row means nothing.
    pub(super) columns: Vec<ArrayRef>,
    pub(super) kept: Option<Kept>,
    /// In their order.
    pub(super) rejects: Vec<Reject>,
    pub(super) spent: Spent,
}

/// Why there is no answer: the component's fault, or a chunk that is not what it should be.
pub(super) enum Failure {
    Fault(Fault),
    Chunk(String),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        Failure::Fault(fault)
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Failure {
        Failure::Fault(Fault::Invalid(invalid))
    }
}

/// A row that goes into quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RejectedAt {
    /// Position in the chunk as it was read.
    pub(crate) row: u32,
    pub(crate) column: Option<String>,
    pub(crate) code: String,
}

/// The parts of a table that a component is told, kept for every later `open`.
struct OwnedTable {
    schema: String,
    name: String,
    capture_instance: String,
}

impl Step {
    /// Finds the plugin, opens it for the table and checks its plan. `number` counts from 1; `last` says that the output
    /// of this step is what the lake gets.
    pub(crate) fn open(
        engine: &Engine,
        shape: &TableShape,
        inputs: Vec<Input>,
        spec: &TransformSpec,
        ring: &KeyRing,
        number: usize,
        last: bool,
    ) -> Result<Step, TransformError> {
        let place = Place {
            table: shape.capture_instance.to_string(),
            step: number,
            plugin: spec.plugin.clone(),
        };
        let config_fault = |fault| TransformError::Config {
            place: place.clone(),
            fault,
        };
        let refused = |fault| TransformError::Refused {
            place: place.clone(),
            fault,
        };
        let opening = |fault| refused(Fault::Opening(Box::new(fault)));
        let grants = Grants::new(spec, ring, engine.lookups()).map_err(&config_fault)?;
        let plugin = engine
            .plugin(&spec.plugin, spec.sha256.as_deref())
            .map_err(|error| config_fault(error.into()))?;
        if let (false, Some(import)) = (spec.wasi, &plugin.compiled.wasi) {
            return Err(config_fault(ConfigFault::Wasi { import: import.clone() }));
        }
        if let Some(unsupported) = inputs
            .iter()
            .find(|input| columns::wire_type(&input.data_type).is_none())
        {
            return Err(TransformError::Table {
                table: place.table.clone(),
                fault: TableFault::Unsupported {
                    column: unsupported.name.clone(),
                    data_type: unsupported.data_type.to_string(),
                },
            });
        }
        let label: Arc<str> = format!("{} {number} {}", place.table, spec.plugin).into();
        let grants = Arc::new(grants);
        let config = canonical_json(&spec.config);
        let table = OwnedTable {
            schema: shape.schema.clone(),
            name: shape.table.clone(),
            capture_instance: shape.capture_instance.to_string(),
        };
        let limits = spec.limits();
        let mut instance =
            Instance::start(&plugin.compiled, limits, Arc::clone(&grants), Arc::clone(&label)).map_err(&opening)?;
        let wire_plan = instance
            .open(table.lend(&fields(&inputs)), &config)
            .map_err(&opening)?
            .map_err(|error| open_fault(error, &inputs, &grants.versions()))
            .map_err(|fault| config_fault(misplaced(fault, &inputs, &spec.config)))?;
        drop(instance);
        let plan = Plan::new(&wire_plan, &inputs, &grants.versions())
            .and_then(|plan| {
                if last {
                    plan.check_names().map(|()| plan)
                } else {
                    Ok(plan)
                }
            })
            .map_err(|fault| refused(Fault::Plan(fault)))?;
        Ok(Step {
            place,
            plugin,
            limits,
            grants,
            label,
            config,
            on_error: spec.on_error,
            table,
            inputs,
            plan,
            wire_plan,
        })
    }

    pub(crate) fn provenance(&self) -> Provenance {
        Provenance {
            plugin: self.plugin.name.clone(),
            version: self.plugin.version.clone(),
            sha256: self.plugin.compiled.sha256.clone(),
            wit: self.plugin.compiled.wit.to_owned(),
            config_sha256: sha256::hex(self.config.as_bytes()),
            keys: self.grants.versions(),
            lookups: self.grants.lookup_digests(),
        }
    }

    /// Digest and bytes of the component's file.
    pub(crate) fn component(&self) -> (String, Arc<[u8]>) {
        let compiled = &self.plugin.compiled;
        (compiled.sha256.clone(), Arc::clone(&compiled.bytes))
    }

    /// Takes a chunk through this step. On an error the chunk is not to be used any more. What comes back are the rows that
    /// go into quarantine, as they were read; the chunk no longer has them. They are at most `most`. `again` says that they
    /// are rows of a retry.
    pub(crate) fn run(&self, chunk: &mut Chunk, most: u64, again: bool) -> Result<Vec<RejectedAt>, TransformError> {
        let answer = if chunk.rows == 0 || !self.plan.needs_call() {
            Ok(Answer {
                columns: self.arrange(chunk, self.empty_columns()),
                kept: None,
                rejects: Vec::new(),
                spent: Spent::default(),
            })
        } else {
            match self.call_with_retry(chunk) {
                Err(Failure::Fault(fault)) if self.quarantines() && fault.row_code().is_some() => {
                    self.bisect(chunk, fault, most, again)
                }
                answer => answer,
            }
        };
        let taken = answer.and_then(|answer| self.take(chunk, answer, most));
        taken.map_err(|failure| match failure {
            Failure::Fault(fault) => TransformError::Refused {
                place: self.place.clone(),
                fault,
            },
            Failure::Chunk(reason) => TransformError::Chunk {
                table: self.place.table.clone(),
                reason,
            },
        })
    }

    /// Replaces the chunk by the answer, without the rejected rows.
    fn take(&self, chunk: &mut Chunk, answer: Answer, most: u64) -> Result<Vec<RejectedAt>, Failure> {
        let Answer {
            columns,
            kept,
            rejects,
            spent,
        } = answer;
        chunk.spent += spent;
        if rejects.len() as u64 > most {
            let first = rejects
                .first()
                .map(|reject| Box::new(self.rejected(chunk, reject, rejects.len())));
            return Err(Fault::TooMany {
                rows: rejects.len() as u64,
                most,
                first,
            }
            .into());
        }
        let rejected = rejects
            .iter()
            .map(|reject| RejectedAt {
                row: chunk.read_as(reject.row),
                column: reject.column.clone(),
                code: reject.code.clone(),
            })
            .collect();
        let kept = match rejects.is_empty() {
            true => kept,
            false => {
                let mut kept = kept.unwrap_or_else(|| Kept::all(chunk.rows));
                kept.take_out(rejects.iter().map(|reject| reject.row));
                Some(kept)
            }
        };
        chunk.advance(columns, kept).map_err(Failure::Chunk)?;
        Ok(rejected)
    }

    /// Whether what it computes may be taken for masked.
    pub(crate) fn masks(&self) -> bool {
        self.plugin.masks()
    }

    pub(super) fn deadline(&self) -> Duration {
        self.limits.deadline
    }

    pub(super) fn quarantines(&self) -> bool {
        self.on_error == OnError::Quarantine
    }

    fn rejected(&self, chunk: &Chunk, reject: &Reject, count: usize) -> Fault {
        Fault::Rejected {
            column: reject
                .column
                .clone()
                .unwrap_or_else(|| check::UNKNOWN_COLUMN.to_owned()),
            code: reject.code.clone(),
            at: chunk.row_at(reject.row),
            count,
        }
    }

    pub(super) fn call_with_retry(&self, chunk: &Chunk) -> Result<Answer, Failure> {
        let mut attempt = 1;
        loop {
            match self.call(chunk) {
                Err(Failure::Fault(fault)) if attempt < INSTANCES && fault.condemns_instance() => {
                    tracing::warn!(place = %self.place, %fault, "trying the chunk again on a fresh instance");
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    /// One fresh instance, from instantiation to a checked answer.
    pub(super) fn call(&self, chunk: &Chunk) -> Result<Answer, Failure> {
        let rows = u32::try_from(chunk.rows).map_err(|_| Failure::Chunk("it has more than 2^32 rows".to_owned()))?;
        let operations = chunk.operations().map_err(Failure::Chunk)?;
        let read = self
            .plan
            .reads
            .iter()
            .map(|read| match read {
                Read::Input(position) => Ok(Arc::clone(&chunk.columns[*position])),
                Read::Meta(position) => chunk.meta_column(*position),
            })
            .collect::<Result<Vec<ArrayRef>, String>>()
            .map_err(Failure::Chunk)?;
        let lent = read
            .iter()
            .map(|array| WireColumn::new(array.as_ref()))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Failure::Chunk("a column has a type that components cannot be given".to_owned()))?;
        let columns: Vec<_> = lent.iter().map(WireColumn::lend).collect();

        let opening = |fault| Fault::Opening(Box::new(fault));
        let mut spent = Spent::default();
        let started = Instant::now();
        let mut instance = Instance::start(
            &self.plugin.compiled,
            self.limits,
            Arc::clone(&self.grants),
            Arc::clone(&self.label),
        )
        .map_err(opening)?;
        let plan = instance
            .open(self.table.lend(&fields(&self.inputs)), &self.config)
            .map_err(opening)?;
        if plan.ok().as_ref() != Some(&self.wire_plan) {
            return Err(Fault::PlanChanged.into());
        }
        spent.instances = started.elapsed();
        let batch = wit::Batch {
            rows,
            operations: &operations,
            columns: &columns,
        };
        let called = Instant::now();
        let answer = instance.apply(batch, self.plan.computed)?;
        spent.calls = called.elapsed();
        spent.keyed = instance.keyed();
        let made = instance.made();
        let ended = Instant::now();
        drop(instance);
        spent.instances += ended.elapsed();
        match answer {
            Ok(outcome) => {
                let came_back = Instant::now();
                let answer = self.check(chunk, &operations, outcome, made)?;
                spent.checks = came_back.elapsed();
                Ok(Answer { spent, ..answer })
            }
            Err(error) => Err(self.batch_refused(chunk, error).into()),
        }
    }

    fn check(
        &self,
        chunk: &Chunk,
        operations: &[u8],
        outcome: wit::Outcome,
        mut made: Made,
    ) -> Result<Answer, Failure> {
        let mut rejects = check::rejects(&outcome.rejects, chunk.rows, &self.input_names())?;
        withhold(chunk, &mut rejects);
        if let Some(first) = rejects.first()
            && !self.quarantines()
        {
            return Err(self.rejected(chunk, first, rejects.len()).into());
        }
        if outcome.columns.len() != self.plan.computed {
            let invalid = Invalid::from(What::ColumnCount {
                expected: self.plan.computed,
                got: outcome.columns.len(),
            });
            return Err(invalid.into());
        }
        if made.beyond {
            let invalid = Invalid::from(What::MadeBeyond {
                computed: self.plan.computed,
            });
            return Err(invalid.into());
        }
        // What came back was counted by itself; together with what the host made it may be too much.
        let came: u64 = outcome.columns.iter().map(columns::bytes).sum();
        if came > made.left {
            return Err(Fault::Output {
                bytes: self.limits.output_bytes,
            }
            .into());
        }
        let computed = self
            .computed()
            .zip(outcome.columns)
            .zip(0..)
            .map(|((output, column), place)| {
                let nullable = output.nullable || !rejects.is_empty();
                match made.take(place) {
                    Some(array) => columns::made(&output.name, &column, array, &output.data_type, nullable, chunk.rows),
                    None => columns::array(&output.name, column, &output.data_type, nullable, chunk.rows),
                }
            })
            .collect::<Result<Vec<_>, Invalid>>()?;
        let kept = match outcome.dropped {
            Some(dropped) => {
                let ids = chunk.change_ids().map_err(Failure::Chunk)?;
                let may_split = self.plugin.compiled.splits_updates();
                check::kept_rows(Some(dropped), operations, |row| ids.same(row), may_split)?
            }
            None => None,
        };
        if !rejects.is_empty() {
            // In a rejected row, and in one that is dropped, the promise did not have to hold.
            let mut counts: Vec<bool> = match &kept {
                Some(kept) => kept.rows.iter().collect(),
                None => vec![true; chunk.rows],
            };
            for reject in &rejects {
                counts[reject.row] = false;
            }
            for (output, column) in self.computed().zip(&computed) {
                let broken = || (0..chunk.rows).any(|row| counts[row] && column.is_null(row));
                if !output.nullable && column.null_count() > 0 && broken() {
                    return Err(Invalid::new(&output.name, What::NullInNonNull).into());
                }
            }
        }
        Ok(Answer {
            columns: self.arrange(chunk, computed),
            kept,
            rejects,
            spent: Spent::default(),
        })
    }

    fn batch_refused(&self, chunk: &Chunk, error: wit::ApplyError) -> Fault {
        guest_text(&self.label, "apply-error", &error.message);
        // The names of what it computes were said before it saw a row.
        let mut names = self.input_names();
        names.extend(self.computed().map(|output| output.name.as_str()));
        let row = error
            .row
            .and_then(|row| usize::try_from(row).ok())
            .filter(|row| *row < chunk.rows);
        Fault::Failed {
            code: shown_code(chunk, &error.code),
            column: error.column.map(|column| check::column(&column, &names).to_owned()),
            at: row.map(|row| chunk.row_at(row)),
        }
    }

    /// The output columns in order: those that pass from the chunk, the others from `computed`.
    pub(super) fn arrange(&self, chunk: &Chunk, computed: Vec<ArrayRef>) -> Vec<ArrayRef> {
        let mut computed = computed.into_iter();
        self.plan
            .outputs
            .iter()
            .filter_map(|output| match &output.from {
                plan::From::Pass(source) => Some(Arc::clone(&chunk.columns[*source])),
                plan::From::Computed { .. } => computed.next(),
            })
            .collect()
    }

    pub(super) fn computed(&self) -> impl Iterator<Item = &plan::Output> {
        self.plan
            .outputs
            .iter()
            .filter(|output| matches!(output.from, plan::From::Computed { .. }))
    }

    fn empty_columns(&self) -> Vec<ArrayRef> {
        self.computed()
            .map(|output| new_empty_array(&output.data_type))
            .collect()
    }

    fn input_names(&self) -> Vec<&str> {
        let inputs = self.inputs.iter().map(|input| input.name.as_str());
        inputs.chain(META_BEFORE).collect()
    }
}

impl OwnedTable {
    fn lend<'a>(&'a self, fields: &'a [types::SourceField<'a>]) -> wit::Table<'a> {
        wit::Table {
            schema: &self.schema,
            name: &self.name,
            capture_instance: &self.capture_instance,
            fields,
        }
    }
}

/// A code as it may be shown. The alphabet of codes still spells many values, so one that the batch holds is withheld.
fn shown_code(chunk: &Chunk, code: &str) -> String {
    let code = check::code(code);
    let showable = chunk.showable(&BTreeSet::from([code]), MAX_VALUES);
    match showable.contains(code) {
        true => code.to_owned(),
        false => check::WITHHELD_CODE.to_owned(),
    }
}

/// The same for each code of many rejects.
fn withhold(chunk: &Chunk, rejects: &mut [Reject]) {
    if rejects.is_empty() {
        return;
    }
    // A component that has thousands of codes has put something else into them.
    let mut codes = BTreeSet::new();
    for reject in rejects.iter() {
        if codes.len() < MAX_CODES {
            codes.insert(reject.code.as_str());
        }
    }
    let showable: BTreeSet<String> = chunk
        .showable(&codes, MAX_VALUES)
        .into_iter()
        .map(str::to_owned)
        .collect();
    for reject in rejects {
        if !showable.contains(&reject.code) {
            check::WITHHELD_CODE.clone_into(&mut reject.code);
        }
    }
}

/// The input columns as a component is told of them. Types without a place in the contract were refused before.
fn fields(inputs: &[Input]) -> Vec<types::SourceField<'_>> {
    inputs
        .iter()
        .filter_map(|input| {
            Some(types::SourceField {
                name: &input.name,
                data_type: columns::wire_type(&input.data_type)?,
                nullable: input.nullable,
                source_type: &input.source_type,
                key: input.key,
            })
        })
        .collect()
}
