//! The transforms of one table, in order.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, FieldRef, Schema};

use super::chunk::Chunk;
use super::engine::Engine;
use super::error::{TableFault, TransformError};
use super::keys::KeyRing;
use super::leaks::{self, LeakAt, LeakCheck, Sample};
use super::plan::{self, Input};
use super::provenance::{self, Provenance};
use super::route::{Lineage, OutputColumn, SourceRoute, source_routes};
use super::spec::{OnError, TransformSpec};
use super::spent::Spent;
use super::step::{RejectedAt, Step};
use super::together::{Ties, Together};
use super::watch::Watch;
use crate::shape::TableShape;

/// A table's transforms, opened. Chunks can be applied from several threads at once; each gets its own instances.
pub struct Chain {
    table: String,
    source_names: Vec<String>,
    inputs: Vec<Input>,
    steps: Vec<Step>,
    output: Vec<OutputColumn>,
    output_fields: Vec<FieldRef>,
    /// Positions of protected columns among the source's.
    protected: Vec<usize>,
    /// Positions of the columns of the table's key, in its order.
    key: Vec<usize>,
    quarantines: bool,
    watch: Watch,
    leak_check: LeakCheck,
    provenance: Vec<Provenance>,
    digest: String,
}

/// A chunk after the chain.
#[derive(Debug)]
pub struct Applied {
    /// The six metadata columns of the chunk, then the columns of [`Chain::output`].
    pub batch: RecordBatch,
    /// Rows that the transforms dropped.
    pub filtered: u64,
    /// Rows that go into quarantine and are not in `batch`, in their order.
    pub quarantined: Vec<Quarantined>,
    /// What ties them to rows of other chunks.
    pub tied: Together,
    /// Wall time of the transforms, leak check included.
    pub elapsed: Duration,
    /// What the time was spent on.
    pub spent: Spent,
    /// Which row of the chunk as it was read each row is; absent where none was dropped.
    pub origin: Option<Vec<u32>>,
}

/// A row that goes into quarantine. Nothing in it is a value of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The instance that it was read from.
    pub capture_instance: String,
    /// Its commit LSN, in text form.
    pub start_lsn: String,
    /// Its order in the transaction; absent on rows of a snapshot.
    pub seqval: Option<String>,
    /// Its operation, as it was read.
    pub operation: i32,
    /// The column at fault, where there is one.
    pub column: Option<String>,
    /// Why, in the component's code, in one of sluice's, or [`WITH_ANOTHER`].
    pub code: String,
    /// Which of the chain's transforms could not transform it, from 0; absent where none of them is at fault: a column that
    /// passes them all shows the value of another, or the row goes along with one of another chunk, or with several.
    pub step: Option<usize>,
}

/// The code of a row that could be transformed, but goes along with one that could not.
pub const WITH_ANOTHER: &str = "with-another-row";
/// The code of a row in whose output the value of a protected column stood.
pub const PROTECTED_VALUE: &str = "protected-value";

impl Chain {
    /// Opens the transforms of a table, each for what the one before it puts out. Columns that `protect` names (ignoring
    /// case) may not reach the output untouched.
    ///
    /// # Errors
    /// Anything that would make the table unsafe or impossible to run; nothing has been read or written then.
    pub fn open(
        engine: &Arc<Engine>,
        shape: &TableShape,
        specs: &[TransformSpec],
        keys: &KeyRing,
        protect: &[String],
    ) -> Result<Chain, TransformError> {
        let table = shape.capture_instance.to_string();
        let source_names: Vec<String> = shape.columns.iter().map(|column| column.name.clone()).collect();
        let protected = protected(&source_names, protect).map_err(|fault| TransformError::Table {
            table: table.clone(),
            fault,
        })?;
        let inputs = source_inputs(shape);
        let mut lineage = Lineage::of_sources(inputs.len());
        let mut next = inputs.clone();
        let mut steps: Vec<Step> = Vec::with_capacity(specs.len());
        for (index, spec) in specs.iter().enumerate() {
            let last = index + 1 == specs.len();
            let step = Step::open(engine, shape, next, spec, keys, index + 1, last)?;
            lineage = Lineage::follow(&lineage, &step.plan, step.masks());
            next = step.plan.next_inputs(&step.inputs);
            steps.push(step);
        }
        let output: Vec<OutputColumn> = next
            .iter()
            .zip(&lineage)
            .map(|(column, lineage)| OutputColumn {
                name: column.name.clone(),
                data_type: column.data_type.clone(),
                nullable: column.nullable,
                from: lineage.route(&source_names),
            })
            .collect();
        if let Some(fault) = unmasked(&protected, &lineage, &source_names, &output) {
            return Err(TransformError::Table { table, fault });
        }
        let types_of_protected: Vec<_> = protected.iter().map(|at| inputs[*at].data_type.clone()).collect();
        let types_of_output: Vec<_> = output.iter().map(|column| column.data_type.clone()).collect();
        let watch = Watch::new(&types_of_protected, &types_of_output);
        let provenance: Vec<Provenance> = steps.iter().map(Step::provenance).collect();
        let mut key: Vec<usize> = (0..inputs.len()).filter(|at| inputs[*at].key.is_some()).collect();
        key.sort_by_key(|at| inputs[*at].key);
        Ok(Chain {
            table,
            source_names,
            inputs,
            steps,
            output_fields: output
                .iter()
                .map(|column| Arc::new(Field::new(&column.name, column.data_type.clone(), column.nullable)))
                .collect(),
            watch,
            leak_check: LeakCheck::Full,
            output,
            protected,
            key,
            quarantines: specs.iter().any(|spec| spec.on_error == OnError::Quarantine),
            digest: provenance::digest(&provenance),
            provenance,
        })
    }

    /// The same chain with another leak check than the full one. It changes no output, so it is no part of the provenance.
    pub fn with_leak_check(self, leak_check: LeakCheck) -> Chain {
        Chain { leak_check, ..self }
    }

    /// The captured columns after the chain, in order, without metadata columns.
    pub fn output(&self) -> &[OutputColumn] {
        &self.output
    }

    /// What happens to each source column, in the source's order.
    pub fn routes(&self) -> Vec<SourceRoute> {
        source_routes(&self.source_names, &self.output)
    }

    /// What makes a batch, one entry a transform.
    pub fn provenance(&self) -> &[Provenance] {
        &self.provenance
    }

    /// SHA-256 over the provenance, lower-case hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Digest and bytes of each component of the chain, each once.
    pub fn component_bytes(&self) -> Vec<(String, Arc<[u8]>)> {
        let components: BTreeMap<_, _> = self.steps.iter().map(Step::component).collect();
        components.into_iter().collect()
    }

    /// Whether rows can go into quarantine.
    pub fn quarantines(&self) -> bool {
        self.quarantines
    }

    /// Takes one chunk through all transforms, by itself. CPU bound; call it where blocking is allowed.
    ///
    /// # Errors
    /// On any error nothing of the chunk comes out.
    pub fn apply(&self, chunk: &RecordBatch) -> Result<Applied, TransformError> {
        self.apply_among(chunk, &Together::default(), u64::MAX)
    }

    /// Takes one chunk of many through all transforms. Rows that `known` ties to a row of another chunk go into quarantine
    /// with it. A component that fails on more than `most` rows stops the chunk, and so do leaks in more.
    ///
    /// # Errors
    /// On any error nothing of the chunk comes out.
    pub fn apply_among(&self, chunk: &RecordBatch, known: &Together, most: u64) -> Result<Applied, TransformError> {
        self.apply_rows(chunk, known, most, false)
    }

    /// The same for rows of a chunk that was read before as a whole. Their positions are others now, so every row is looked
    /// through for leaks where only some were: a row that leaked stays out. They are picked out of many, so a component that
    /// fails on all of them may be right for the others.
    ///
    /// # Errors
    /// As [`Chain::apply_among`].
    pub fn apply_again(&self, chunk: &RecordBatch, known: &Together, most: u64) -> Result<Applied, TransformError> {
        self.apply_rows(chunk, known, most, true)
    }

    fn apply_rows(
        &self,
        chunk: &RecordBatch,
        known: &Together,
        most: u64,
        again: bool,
    ) -> Result<Applied, TransformError> {
        let leak_check = match self.leak_check {
            LeakCheck::Sampled if again => LeakCheck::Full,
            other => other,
        };
        let started = Instant::now();
        if self.steps.is_empty() {
            return Ok(Applied {
                batch: chunk.clone(),
                filtered: 0,
                quarantined: Vec::new(),
                tied: Together::default(),
                elapsed: started.elapsed(),
                spent: Spent::default(),
                origin: None,
            });
        }
        let mut live = Chunk::new(chunk, &self.inputs).map_err(|reason| self.misfit(reason))?;
        let raw: Vec<ArrayRef> = self
            .protected
            .iter()
            .map(|position| Arc::clone(&live.columns[*position]))
            .collect();
        let mut rejected = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let left = most.saturating_sub(rejected.len() as u64);
            let rows = step.run(&mut live, left, again)?;
            rejected.extend(rows.into_iter().map(|row| (Some(number), row)));
        }
        let left = match self.quarantines {
            true => usize::try_from(most.saturating_sub(rejected.len() as u64)).unwrap_or(usize::MAX),
            false => 0,
        };
        let looking = Instant::now();
        let leaks = self.leaks(&raw, &live, left.saturating_add(1), leak_check)?;
        live.spent.leak_check += looking.elapsed();
        if leaks.len() > left
            && let Some(first) = leaks.first()
        {
            return Err(self.leaked(&live, first));
        }
        rejected.extend(self.take_leaks(&mut live, &leaks)?);
        let (quarantined, tied) = match rejected.is_empty() && known.is_empty() {
            true => Default::default(),
            false => self.quarantine(chunk, &mut live, rejected, known)?,
        };
        // Columns that are the same all along are no matter of a row.
        let watched = |raw: &[ArrayRef], outputs: &[ArrayRef], origin: Option<&[u32]>| {
            self.watch.find(raw, outputs, origin).into_iter().collect()
        };
        let looking = Instant::now();
        let alike = self.look_through(&raw, &live, leak_check, watched)?;
        live.spent.leak_check += looking.elapsed();
        if let Some(leak) = alike.first() {
            return Err(self.leaked(&live, leak));
        }
        let filtered = (chunk.num_rows() - live.rows - quarantined.len()) as u64;
        let origin = live.origin.take();
        let spent = live.spent;
        Ok(Applied {
            batch: self.assemble(live)?,
            filtered,
            quarantined,
            tied,
            elapsed: started.elapsed(),
            spent,
            origin,
        })
    }

    /// Takes the rows out of `live` that go along with rejected ones. All that go into quarantine, and what ties them.
    fn quarantine(
        &self,
        chunk: &RecordBatch,
        live: &mut Chunk,
        rejected: Vec<(Option<usize>, RejectedAt)>,
        known: &Together,
    ) -> Result<(Vec<Quarantined>, Together), TransformError> {
        let quarantined = || -> Result<_, String> {
            let read = Chunk::new(chunk, &self.inputs)?;
            let ids = read.change_ids()?;
            let keys: Vec<ArrayRef> = self.key.iter().map(|at| Arc::clone(&read.columns[*at])).collect();
            let mut marked = vec![false; read.rows];
            for (_, row) in &rejected {
                marked[row.row as usize] = true;
            }
            let tied = Ties::new(&ids, &keys)?.close(&mut marked, known);
            let step = the_only(rejected.iter().map(|(step, _)| *step));
            let along = (0..live.rows)
                .map(|row| live.read_as(row))
                .filter(|row| marked[*row as usize])
                .map(|row| {
                    let reject = RejectedAt {
                        row,
                        column: None,
                        code: WITH_ANOTHER.to_owned(),
                    };
                    (step, reject)
                });
            let mut rows: Vec<(Option<usize>, RejectedAt)> = along.chain(rejected).collect();
            rows.sort_by_key(|(_, row)| row.row);
            live.keep((0..live.rows).map(|row| !marked[live.read_as(row) as usize]).collect())?;
            Ok((read.named(rows)?, tied))
        };
        quarantined().map_err(|reason| self.misfit(reason))
    }

    /// Raw values of protected columns in output columns, of one row each, up to `most`.
    fn leaks(
        &self,
        raw: &[ArrayRef],
        live: &Chunk,
        most: usize,
        leak_check: LeakCheck,
    ) -> Result<Vec<LeakAt>, TransformError> {
        self.look_through(raw, live, leak_check, |raw, outputs, origin| {
            leaks::search(raw, outputs, origin, most)
        })
    }

    /// What `find` says of the rows that are looked through: of protected columns, output columns, and which row of the
    /// former each row of the latter was.
    fn look_through(
        &self,
        raw: &[ArrayRef],
        live: &Chunk,
        leak_check: LeakCheck,
        find: impl Fn(&[ArrayRef], &[ArrayRef], Option<&[u32]>) -> Vec<LeakAt>,
    ) -> Result<Vec<LeakAt>, TransformError> {
        let origin = live.origin.as_deref();
        match leak_check {
            _ if raw.is_empty() => Ok(Vec::new()),
            LeakCheck::Off => Ok(Vec::new()),
            LeakCheck::Full => Ok(find(raw, &live.columns, origin)),
            LeakCheck::Sampled => {
                let sample = Sample::of(raw, &live.columns, origin, live.rows)
                    .map_err(|error| self.misfit(error.to_string()))?;
                let found = find(&sample.protected, &sample.outputs, None).into_iter();
                Ok(found
                    .map(|leak| LeakAt {
                        row: sample.rows[leak.row] as usize,
                        ..leak
                    })
                    .collect())
            }
        }
    }

    /// Takes the rows with leaks out of `live`, as rows that the transform rejected which made the column that leaks.
    fn take_leaks(
        &self,
        live: &mut Chunk,
        leaks: &[LeakAt],
    ) -> Result<Vec<(Option<usize>, RejectedAt)>, TransformError> {
        if leaks.is_empty() {
            return Ok(Vec::new());
        }
        let mut kept = vec![true; live.rows];
        let mut rejected = Vec::with_capacity(leaks.len());
        for leak in leaks {
            kept[leak.row] = false;
            let reject = RejectedAt {
                row: live.read_as(leak.row),
                column: Some(self.name_of(leak).to_owned()),
                code: PROTECTED_VALUE.to_owned(),
            };
            rejected.push((self.made_by(leak.output), reject));
        }
        live.keep(kept.into()).map_err(|reason| self.misfit(reason))?;
        Ok(rejected)
    }

    /// The transform that computed an output column; `None` of one that passed them all.
    fn made_by(&self, output: usize) -> Option<usize> {
        let mut at = output;
        for (number, step) in self.steps.iter().enumerate().rev() {
            match &step.plan.outputs.get(at)?.from {
                plan::From::Pass(input) => at = *input,
                plan::From::Computed { .. } => return Some(number),
            }
        }
        None
    }

    /// The protected column of a leak.
    fn name_of(&self, leak: &LeakAt) -> &str {
        &self.source_names[self.protected[leak.protected]]
    }

    fn leaked(&self, live: &Chunk, leak: &LeakAt) -> TransformError {
        TransformError::Leak {
            table: self.table.clone(),
            protected: self.name_of(leak).to_owned(),
            output: self.output[leak.output].name.clone(),
            at: live.row_at(leak.row),
        }
    }

    fn assemble(&self, chunk: Chunk) -> Result<RecordBatch, TransformError> {
        let fields: Vec<FieldRef> = chunk.meta_fields.iter().chain(&self.output_fields).cloned().collect();
        let columns: Vec<ArrayRef> = chunk.meta.into_iter().chain(chunk.columns).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .map_err(|error| self.misfit(error.to_string()))
    }

    fn misfit(&self, reason: String) -> TransformError {
        TransformError::Chunk {
            table: self.table.clone(),
            reason,
        }
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain")
            .field("table", &self.table)
            .field("provenance", &self.provenance)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// The transform that all of these name, if they are of one.
fn the_only(mut steps: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    let first = steps.next()?;
    first.filter(|_| steps.all(|step| step == first))
}

/// The source's columns as the first transform gets them. CDC tables take NULL everywhere, whatever the source says.
fn source_inputs(shape: &TableShape) -> Vec<Input> {
    shape
        .columns
        .iter()
        .map(|column| Input {
            name: column.name.clone(),
            data_type: column.data_type.clone(),
            nullable: true,
            source_type: column.source_type.clone(),
            key: column.key,
        })
        .collect()
}

/// Positions of the protected columns. In a case-sensitive database one name can mean several; it protects all of them.
fn protected(sources: &[String], protect: &[String]) -> Result<Vec<usize>, TableFault> {
    let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
    let unknown: Vec<String> = protect
        .iter()
        .filter(|name| !sources.iter().any(|source| same(source, name)))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        let nearest = unknown
            .first()
            .and_then(|name| crate::config::nearest(name, sources.iter().map(String::as_str)));
        return Err(TableFault::UnknownProtected {
            names: unknown,
            nearest,
        });
    }
    Ok((0..sources.len())
        .filter(|position| protect.iter().any(|name| same(&sources[*position], name)))
        .collect())
}

/// The first protected column that comes out as it went in, or that nothing masked on the way.
fn unmasked(
    protected: &[usize],
    lineage: &[Lineage],
    sources: &[String],
    output: &[OutputColumn],
) -> Option<TableFault> {
    lineage.iter().zip(output).find_map(|(lineage, output)| match lineage {
        Lineage::Source(source) if protected.contains(source) => Some(TableFault::Unmasked {
            column: sources[*source].clone(),
            output: output.name.clone(),
        }),
        Lineage::Source(_) => None,
        Lineage::Computed { unmasked, .. } => {
            let source = unmasked.iter().find(|source| protected.contains(source))?;
            Some(TableFault::OnlyMapped {
                column: sources[*source].clone(),
                output: output.name.clone(),
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Chain>();
        shared::<Arc<Engine>>();
    }

    #[test]
    fn what_goes_along_is_of_the_transform_that_all_rejected_rows_are_of() {
        let of = |steps: &[Option<usize>]| the_only(steps.iter().copied());
        assert_eq!(of(&[Some(1), Some(1)]), Some(1));
        for none in [
            vec![],
            vec![None],
            vec![Some(0), Some(1)],
            vec![Some(0), None],
            vec![None, Some(0)],
        ] {
            assert_eq!(of(&none), None, "{none:?}");
        }
    }

    #[test]
    fn protection_ignores_case_and_names_what_is_not_there() {
        let sources = ["Email".to_owned(), "id".to_owned(), "EMAIL".to_owned()];
        assert_eq!(protected(&sources, &["email".to_owned()]).unwrap(), [0, 2]);
        assert_eq!(
            protected(&sources, &["mail".to_owned()]).unwrap_err().to_string(),
            "`protect` names column `mail`, which the capture instance does not have; did you mean `Email`?"
        );
    }
}
