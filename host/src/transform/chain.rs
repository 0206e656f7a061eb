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
use super::leaks;
use super::plan::Input;
use super::provenance::{self, Provenance};
use super::route::{Lineage, OutputColumn, SourceRoute, source_routes};
use super::spec::TransformSpec;
use super::step::Step;
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
    watch: Watch,
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
    /// Wall time of the transforms, leak check included.
    pub elapsed: Duration,
    /// Which row of the chunk as it was read each row is; absent where none was dropped.
    pub origin: Option<Vec<u32>>,
}

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
            lineage = Lineage::follow(&lineage, &step.plan);
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
            output,
            protected,
            digest: provenance::digest(&provenance),
            provenance,
        })
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

    /// Takes one chunk through all transforms. CPU bound; call it where blocking is allowed.
    ///
    /// # Errors
    /// On any error nothing of the chunk comes out.
    pub fn apply(&self, chunk: &RecordBatch) -> Result<Applied, TransformError> {
        let started = Instant::now();
        if self.steps.is_empty() {
            return Ok(Applied {
                batch: chunk.clone(),
                filtered: 0,
                elapsed: started.elapsed(),
                origin: None,
            });
        }
        let mut live = Chunk::new(chunk, &self.inputs).map_err(|reason| self.misfit(reason))?;
        let raw: Vec<ArrayRef> = self
            .protected
            .iter()
            .map(|position| Arc::clone(&live.columns[*position]))
            .collect();
        for step in &self.steps {
            step.run(&mut live)?;
        }
        let origin = live.origin.as_deref();
        let leak = leaks::find(&raw, &live.columns, origin).or_else(|| self.watch.find(&raw, &live.columns, origin));
        if let Some(leak) = leak {
            return Err(TransformError::Leak {
                table: self.table.clone(),
                protected: self.source_names[self.protected[leak.protected]].clone(),
                output: self.output[leak.output].name.clone(),
                at: live.row_at(leak.row),
            });
        }
        let filtered = (chunk.num_rows() - live.rows) as u64;
        let origin = live.origin.take();
        Ok(Applied {
            batch: self.assemble(live)?,
            filtered,
            elapsed: started.elapsed(),
            origin,
        })
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

/// The first protected column that comes out as it went in.
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
        _ => None,
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
    fn protection_ignores_case_and_names_what_is_not_there() {
        let sources = ["Email".to_owned(), "id".to_owned(), "EMAIL".to_owned()];
        assert_eq!(protected(&sources, &["email".to_owned()]).unwrap(), [0, 2]);
        assert_eq!(
            protected(&sources, &["mail".to_owned()]).unwrap_err().to_string(),
            "`protect` names column `mail`, which the capture instance does not have; did you mean `Email`?"
        );
    }
}
