//! What holds for every transform, whatever it does, tried on made-up rows.

use arrow::array::{Array as _, ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::canary::Canaries;
use super::component::{Workbench, about_code};
use super::fixture::Setup;
use super::generate;
use super::golden::shown;
use super::heard::hear;
use super::rows::{Ran, counted, run};
use super::sql_type::{ALL, SqlType};
use super::trial::{Check, OPENS, Verdict};
use super::values;
use crate::shape::{ColumnShape, Recorded};
use crate::transform::{Chain, ConfigFault, TransformError};

/// Made-up rows of a chunk. Enough to cross bytes of a bitmap, few enough for a language runtime that starts slowly.
const ROWS: usize = 40;
/// Cells that are written out in a message at most.
const TOLD: usize = 3;

/// A property: holds, with something to say of it; or not, with what to do.
type Finding = Result<Verdict, String>;

/// What finds out about one.
type Try = fn(&Trial<'_>, &mut StdRng) -> Finding;

const PROPERTIES: [(&str, Try); 8] = [
    ("deterministic", deterministic),
    ("split differently", split),
    ("NULLs", nulls),
    ("empty batch", empty),
    ("rows accounted for", accounted),
    ("ends of types", ends),
    ("all types", all_types),
    ("canaries", canaries),
];

/// All properties, untried.
pub(crate) fn skipped(why: &str) -> Vec<Check> {
    let skipped = |(name, _): &(&str, Try)| Check::new(*name, Verdict::Skipped(why.to_owned()));
    PROPERTIES.iter().map(skipped).collect()
}

/// Tries all properties on the table of a fixture. The same seed gives the same rows.
pub(crate) fn check(bench: &Workbench, setup: &Setup, seed: u64) -> Vec<Check> {
    let (opened, said) = hear(|| bench.open(setup));
    let trial = match opened {
        Ok(chain) => Trial { bench, setup, chain },
        Err(error) => return vec![Check::new(OPENS, Verdict::Failed(bench.say(&error))).saying(said)],
    };
    PROPERTIES
        .iter()
        .zip(0_u64..)
        .map(|((name, property), number)| {
            // Each has a sequence of its own, so that one more property changes none of the others.
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(number));
            let (finding, said) = hear(|| property(&trial, &mut random));
            Check::new(*name, finding.unwrap_or_else(Verdict::Failed))
                .saying(said)
                .on_made_up_rows()
        })
        .collect()
}

struct Trial<'a> {
    bench: &'a Workbench,
    setup: &'a Setup,
    chain: Chain,
}

impl Trial<'_> {
    fn run(&self, chunk: &RecordBatch) -> Result<Ran, String> {
        run(&self.chain, chunk).map_err(|error| self.say(&error))
    }

    fn say(&self, error: &TransformError) -> String {
        self.bench.say(error)
    }
}

fn holds() -> Finding {
    Ok(Verdict::Ok(None))
}

fn rejected(ran: &Ran) -> Option<String> {
    let first = ran.rejects.first()?;
    let about = about_code(&first.code).map(|about| format!(" ({about})"));
    Some(format!(
        "{} {} rejected, the first with `{}`{} in column `{}`",
        counted(ran.rejects.len(), "made-up row"),
        was(ran.rejects.len()),
        first.code,
        about.unwrap_or_default(),
        first.column
    ))
}

fn was(count: usize) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// Twice the same rows give the same bytes, in the same instance's successor and in a chain that is opened anew.
fn deterministic(trial: &Trial<'_>, random: &mut StdRng) -> Finding {
    let chunk = generate::chunk(trial.setup, ROWS, random)?;
    let first = trial.run(&chunk)?;
    let again = trial.bench.open(trial.setup).map_err(|error| trial.say(&error))?;
    if again.output() != trial.chain.output() {
        return Err(
            "a second `open` for the same table and configuration gave another plan; \
                    leave nothing in it to chance or to the order of a hash map"
                .to_owned(),
        );
    }
    let second = run(&again, &chunk).map_err(|error| trial.say(&error))?;
    match difference(&first, &second) {
        None => Ok(Verdict::Ok(rejected(&first))),
        Some(difference) => Err(format!(
            "the same rows gave something else the second time: {difference}; leave nothing to chance, to an address or \
             to the order of a hash map"
        )),
    }
}

/// However a batch is cut, each row comes out the same.
fn split(trial: &Trial<'_>, random: &mut StdRng) -> Finding {
    let chunk = generate::chunk(trial.setup, ROWS, random)?;
    let whole = trial.run(&chunk)?;
    let changes = values::format(chunk.column(2));
    // The two rows of an update stay together, as they do in a stream.
    let possible: Vec<usize> = (1..chunk.num_rows())
        .filter(|row| changes[*row] != changes[row - 1])
        .collect();
    let some: Vec<usize> = possible.iter().copied().filter(|_| random.random_bool(0.1)).collect();
    for cuts in [possible, some] {
        let mut parts: Vec<Ran> = Vec::new();
        let mut from = 0;
        for to in cuts.into_iter().chain([chunk.num_rows()]) {
            let mut part = trial.run(&chunk.slice(from, to - from))?;
            let offset = u32::try_from(from).unwrap_or(u32::MAX);
            part.origin.iter_mut().for_each(|row| *row += offset);
            part.rejects.iter_mut().for_each(|rejected| rejected.row += offset);
            parts.push(part);
            from = to;
        }
        let batch = concat_batches(&whole.batch.schema(), parts.iter().map(|part| &part.batch))
            .map_err(|error| error.to_string())?;
        let joined = Ran {
            batch,
            origin: parts.iter().flat_map(|part| part.origin.clone()).collect(),
            rejects: parts.iter().flat_map(|part| part.rejects.clone()).collect(),
            along: parts.iter().map(|part| part.along).sum(),
        };
        if let Some(difference) = difference(&whole, &joined) {
            return Err(format!(
                "the same rows in {} parts gave something else: {difference}; a row's result may depend on that row alone",
                parts.len()
            ));
        }
    }
    holds()
}

/// NULL in every column, and in each column alone, ends no call.
fn nulls(trial: &Trial<'_>, random: &mut StdRng) -> Finding {
    let all = generate::nulls(trial.setup, None, random)?;
    let ran = trial
        .run(&all)
        .map_err(|message| format!("rows that are NULL in every column: {message}"))?;
    for (at, column) in trial.setup.shape.columns.iter().enumerate() {
        let chunk = generate::nulls(trial.setup, Some(at), random)?;
        trial
            .run(&chunk)
            .map_err(|message| format!("rows that are NULL in column `{}`: {message}", column.name))?;
    }
    Ok(Verdict::Ok(rejected(&ran)))
}

/// No rows in, no rows out, with the same columns.
fn empty(trial: &Trial<'_>, random: &mut StdRng) -> Finding {
    let chunk = generate::chunk(trial.setup, 4, random)?;
    let schema = trial.run(&chunk)?.batch.schema();
    let ran = trial.run(&chunk.slice(0, 0))?;
    // The host makes the batch of no rows itself: what is tried here is that both agree on the columns.
    if ran.batch.num_rows() == 0 && columns_of(&ran.batch) == columns_of(&RecordBatch::new_empty(schema)) {
        return holds();
    }
    Err("a batch without rows came out with rows, or with other columns".to_owned())
}

fn columns_of(batch: &RecordBatch) -> Vec<(String, arrow::datatypes::DataType)> {
    let fields = batch.schema_ref().fields().iter();
    fields
        .map(|field| (field.name().clone(), field.data_type().clone()))
        .collect()
}

/// Every row that went in comes out once, is dropped, or is rejected; what comes out keeps its order and its metadata.
fn accounted(trial: &Trial<'_>, random: &mut StdRng) -> Finding {
    let chunk = generate::chunk(trial.setup, ROWS, random)?;
    let ran = trial.run(&chunk)?;
    if ran.origin.len() != ran.batch.num_rows() || !ran.origin.is_sorted_by(|a, b| a < b) {
        return Err("rows came out twice or in another order".to_owned());
    }
    let before = values::format(chunk.column(2));
    let moved = ran
        .changes()
        .iter()
        .zip(&ran.origin)
        .position(|(change, origin)| before.get(*origin as usize) != Some(change));
    if let Some(row) = moved {
        return Err(format!("row {} came out with the metadata of another row", row + 1));
    }
    let (rows, came) = (chunk.num_rows(), ran.batch.num_rows());
    Ok(Verdict::Ok((rows != came).then(|| account(rows, &ran))))
}

/// Where the rows are that went in; the numbers add up.
fn account(rows: usize, ran: &Ran) -> String {
    let came = ran.batch.num_rows();
    let mut note = vec![format!("{came} of {rows} rows came out")];
    note.extend(rejected(ran));
    if ran.along > 0 {
        note.push(format!("{} went along as the other row of an update", ran.along));
    }
    let dropped = rows.saturating_sub(came + ran.rejects.len() + ran.along);
    if dropped > 0 {
        note.push(format!("{dropped} {} dropped", was(dropped)));
    }
    note.join("; ")
}

/// The ends of each column's type end no call.
fn ends(trial: &Trial<'_>, _: &mut StdRng) -> Finding {
    let ran = trial.run(&generate::extremes(trial.setup)?)?;
    Ok(Verdict::Ok(rejected(&ran)))
}

/// The same for columns of all types beside those of the table, if the configuration lets them in.
fn all_types(trial: &Trial<'_>, random: &mut StdRng) -> Finding {
    let setup = with_all_types(trial.setup)?;
    let chain = match trial.bench.open(&setup) {
        Ok(chain) => chain,
        // Which of the many made-up columns they are is of no use.
        Err(TransformError::Config {
            fault: ConfigFault::Unlisted(_),
            ..
        }) => {
            return Ok(Verdict::Skipped(
                "the component takes no column that the configuration does not name".to_owned(),
            ));
        }
        Err(TransformError::Config { fault, .. }) => {
            return Ok(Verdict::Skipped(format!(
                "the component does not take columns of all types with this configuration: {fault}"
            )));
        }
        Err(error) => return Err(trial.say(&error)),
    };
    for chunk in [
        generate::extremes(&setup)?,
        generate::nulls(&setup, None, random)?,
        generate::chunk(&setup, ROWS, random)?,
    ] {
        run(&chain, &chunk).map_err(|error| trial.say(&error))?;
    }
    holds()
}

/// The table with a column of each type behind its own.
fn with_all_types(setup: &Setup) -> Result<Setup, String> {
    let mut setup = setup.clone();
    for (at, declared) in ALL.iter().enumerate() {
        let sql_type = SqlType::parse(declared)?;
        setup.shape.columns.push(ColumnShape {
            name: format!("sluice_type_{at}_{}", sql_type.name),
            source_type: sql_type.text(),
            data_type: sql_type.arrow(),
            key: None,
            recorded: Recorded::Always,
        });
        setup.types.push(sql_type);
    }
    Ok(setup)
}

/// No value of a column that the plan does not pass comes out, but where `shows` has it.
fn canaries(trial: &Trial<'_>, random: &mut StdRng) -> Finding {
    let (columns, shows) = (&trial.setup.shape.columns, &trial.setup.shows);
    let outputs: Vec<&str> = trial.chain.output().iter().map(|output| output.name.as_str()).collect();
    if let Some(unknown) = shows.unknown(&outputs) {
        return Err(unknown);
    }
    let planted = Canaries::plant(trial.setup, random)?;
    let ran = trial.run(&planted.chunk)?;
    let routes = trial.chain.routes();
    let unpassed = routes
        .iter()
        .enumerate()
        .filter(|(_, route)| route.passed_as.is_empty());
    // Of these, some may come out everywhere.
    let hidden: Vec<usize> = unpassed
        .filter(|(_, route)| outputs.iter().any(|output| !shows.allows(&route.column, output)))
        .map(|(at, _)| at)
        .collect();
    let mut escapes = planted.escaped(&ran, &hidden);
    escapes.retain(|escape| !shows.allows(&columns[escape.source].name, outputs[escape.output]));
    if !escapes.is_empty() {
        let mut lines: Vec<String> = Vec::new();
        for escape in escapes.iter().take(TOLD) {
            let what = if escape.whole { "values" } else { "parts of values" };
            let source = &columns[escape.source].name;
            lines.push(format!(
                "{what} of column `{source}` come out in `{}`, in {} of {} rows",
                outputs[escape.output],
                escape.rows,
                ran.batch.num_rows()
            ));
        }
        let mut meant = shows.clone();
        for escape in &escapes {
            meant.add(&columns[escape.source].name, outputs[escape.output]);
        }
        return Err(format!(
            "{}; mask them, or, where this is meant, say `{meant}` in the fixture",
            lines.join("; ")
        ));
    }
    if hidden.is_empty() {
        return Ok(Verdict::Skipped(
            "every column passes, or may come out everywhere by `shows`".to_owned(),
        ));
    }
    if ran.batch.num_rows() == 0 {
        return Ok(Verdict::Skipped(format!(
            "no row came out{}",
            rejected(&ran)
                .map(|rejected| format!(": {rejected}"))
                .unwrap_or_default()
        )));
    }
    let unseen: Vec<&str> = hidden
        .iter()
        .filter(|at| !planted.has(**at))
        .map(|at| columns[*at].name.as_str())
        .collect();
    let without = || format!("not of {}, whose type has too few values to tell", unseen.join(", "));
    if unseen.len() == hidden.len() {
        return Ok(Verdict::Skipped(without()));
    }
    // What it was that held: with few rows, or few columns, it says less.
    let mut note = format!(
        "of {}, searched for in {}",
        counted(hidden.len() - unseen.len(), "column"),
        counted(ran.batch.num_rows(), "row")
    );
    if !unseen.is_empty() {
        note = format!("{note}; {}", without());
    }
    Ok(Verdict::Ok(Some(note)))
}

/// The first difference, in words.
pub(crate) fn difference(a: &Ran, b: &Ran) -> Option<String> {
    if a.rejects != b.rejects {
        return Some(format!(
            "{} rows were rejected, and then {}",
            a.rejects.len(),
            b.rejects.len()
        ));
    }
    if a.origin != b.origin {
        return Some(format!("{} rows came out, and then {}", a.origin.len(), b.origin.len()));
    }
    if a.operations() != b.operations() {
        return Some("the operations differ".to_owned());
    }
    let names = a
        .batch
        .schema_ref()
        .fields()
        .iter()
        .skip(crate::shape::META_BEFORE.len());
    for ((a, b), field) in a.columns().iter().zip(b.columns()).zip(names) {
        if let Some(row) = first_difference(a, b) {
            let (a, b) = (values::format(&a.slice(row, 1)), values::format(&b.slice(row, 1)));
            let both: Vec<String> = a.iter().chain(&b).map(shown).collect();
            return Some(format!(
                "column `{}`, row {}: {}",
                field.name(),
                row + 1,
                both.join(" and then ")
            ));
        }
    }
    None
}

/// The first row in which two columns of the same length differ, to the bit.
fn first_difference(a: &ArrayRef, b: &ArrayRef) -> Option<usize> {
    if a == b {
        return None;
    }
    (0..a.len()).find(|row| a.slice(*row, 1) != b.slice(*row, 1))
}
