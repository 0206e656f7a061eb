//! P3, first half: chunks of 100,000 rows through `mask` (two keyed hashes and a date cut to its year) in the sandbox, and
//! through the same crate natively. Both sides turn one Arrow chunk into another on this thread, take turns, and are held
//! against each other by CPU time; `native` says what is the same and what a native mask spares itself. Then, where the time
//! of the sandbox goes, with the three columns under `protect`.

mod copies;
mod native;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use arrow::array::RecordBatch;
use serde_json::{Map, Value, json};
use sluice::BUILT_IN_COMPONENTS;
use sluice::transform::{Chain, Engine, KeyRing, Spent, TransformSpec};

use crate::customers;
use crate::measure::{Spread, report, thread_cpu};
use crate::say;
use native::Native;

/// Rows of a chunk.
const CHUNK_ROWS: usize = 100_000;
/// Chunks that a side takes in a row, so that its CPU time is long against the precision of the clock.
const CHUNKS: usize = 10;

/// What is measured, each against the first.
const SIDES: [&str; 3] = ["native", "sandbox", "sandbox, protected"];

pub(crate) fn run(rounds: usize) -> Result<()> {
    let chunk = customers::chunk(CHUNK_ROWS)?;
    let bench = Bench::new()?;
    let masked = bench.open(vec![mask()], &[])?;
    let protected = bench.open(vec![mask()], &customers::MASKED)?;
    let mut native = Native::open(&customers::shape(), &customers::mask_config("hash"))?;
    // The first chunk of each is not counted, and shows that all do the same.
    let expected = native.apply(&chunk)?;
    for chain in [&masked, &protected] {
        same(&expected, &chain.apply(&chunk)?.batch)?;
    }
    native.laid_out = Duration::ZERO;
    let mut runs: [Vec<Run>; 3] = Default::default();
    let mut parts = Parts::default();
    for round in 0..rounds {
        for turn in 0..SIDES.len() {
            // The first of a round is another one each time.
            let side = (turn + round) % SIDES.len();
            runs[side].push(match side {
                0 => timed(|| {
                    native.apply(&chunk)?;
                    Ok(())
                })?,
                1 => timed(|| {
                    masked.apply(&chunk)?;
                    Ok(())
                })?,
                _ => timed(|| {
                    let applied = protected.apply(&chunk)?;
                    parts.add(applied.elapsed, applied.spent);
                    Ok(())
                })?,
            });
        }
    }
    say(&format!(
        "mask, {rounds} rounds of {CHUNKS} chunks of {CHUNK_ROWS} rows: CPU seconds per 1,000,000 rows, median (least to most)"
    ));
    let [natively, ..] = &runs;
    let mut figures = Map::new();
    for (name, runs) in SIDES.iter().zip(&runs) {
        let cpu = Spread::of(runs.iter().map(|run| per_million(run.cpu)))?;
        let wall = Spread::of(runs.iter().map(|run| per_million(run.wall)))?;
        let ratio = Spread::of(natively.iter().zip(runs).map(|(native, run)| native.cpu / run.cpu))?;
        say(&format!(
            "  {name:<20} {} CPU, {} wall; throughput against native {}",
            cpu.text(3),
            wall.text(3),
            ratio.text(2)
        ));
        figures.insert(
            (*name).to_owned(),
            json!({ "cpu_s_per_million": cpu.json(), "wall_s_per_million": wall.json(), "ratio": ratio.json() }),
        );
    }
    let laid_out = per_million(native.laid_out.as_secs_f64() / rounds as f64);
    say(&format!(
        "  of the native wall time {laid_out:.3} lays columns out for its batch, which is a copy of those that it reads"
    ));
    let parts = parts.told(&bench.copies(&chunk, rounds)?);
    say("where the time of a protected chunk goes, in milliseconds of wall time (means):");
    for (name, ms) in &parts {
        say(&format!("  {ms:>8.2}  {name}"));
    }
    let passes = bench.passes(&chunk)?;
    say(&format!(
        "map that renames and drops: no instance and no call; {:.3} ms a chunk",
        passes.as_secs_f64() * 1e3
    ));
    let parts: Map<String, Value> = parts
        .into_iter()
        .map(|(name, ms)| (name.to_owned(), ms.into()))
        .collect();
    report(
        "P3_transforms",
        json!({
            "chunk_rows": CHUNK_ROWS, "chunks": CHUNKS, "rounds": rounds,
            "sides": figures, "native_laid_out_s_per_million": laid_out,
            "protected_chunk_ms": parts, "rename_and_drop_chunk_ms": passes.as_secs_f64() * 1e3,
        }),
    )
}

/// One side's turn, in seconds.
struct Run {
    cpu: f64,
    wall: f64,
}

/// Takes a side's chunks through.
fn timed(mut chunk: impl FnMut() -> Result<()>) -> Result<Run> {
    let (cpu, wall) = (thread_cpu()?, Instant::now());
    for _ in 0..CHUNKS {
        chunk()?;
    }
    Ok(Run {
        wall: wall.elapsed().as_secs_f64(),
        cpu: thread_cpu()? - cpu,
    })
}

/// Seconds of a turn as seconds per million rows.
fn per_million(seconds: f64) -> f64 {
    seconds * 1e6 / (CHUNKS * CHUNK_ROWS) as f64
}

/// Both sides have to have done the same, or there is no figure.
fn same(native: &RecordBatch, sandbox: &RecordBatch) -> Result<()> {
    let names = |batch: &RecordBatch| -> Vec<String> {
        let fields = batch.schema();
        fields.fields().iter().map(|field| field.name().clone()).collect()
    };
    if names(native) != names(sandbox) {
        bail!("the two masks answer other columns");
    }
    for (name, (a, b)) in names(native).iter().zip(native.columns().iter().zip(sandbox.columns())) {
        if a != b {
            bail!("the two masks answer other values in column {name}");
        }
    }
    Ok(())
}

/// Wall time of the parts of a chunk, summed up.
#[derive(Debug, Default)]
struct Parts {
    chunks: u32,
    elapsed: Duration,
    spent: Spent,
}

impl Parts {
    fn add(&mut self, elapsed: Duration, spent: Spent) {
        self.chunks += 1;
        self.elapsed += elapsed;
        self.spent += spent;
    }

    /// The parts of one chunk in milliseconds, in the order in which they come. What a call spends neither on copies of the
    /// batch nor on keyed hashing is the component's own code, and the columns that it hands to the host to be hashed.
    fn told(&self, copies: &Copies) -> Vec<(&'static str, f64)> {
        let Spent {
            instances,
            calls,
            keyed,
            checks,
            leak_check,
        } = self.spent;
        let ms = |time: Duration| time.as_secs_f64() * 1e3 / f64::from(self.chunks.max(1));
        let (whole, call) = (ms(self.elapsed), ms(calls));
        let own = call - ms(keyed) - copies.into_ms - copies.out_ms;
        vec![
            ("instance: made, opened, thrown away", ms(instances)),
            ("call: columns copied in (measured apart)", copies.into_ms),
            ("call: keyed hashing in the host", ms(keyed)),
            (
                "call: the component's own code, and its columns to the host and back",
                own,
            ),
            ("call: columns copied out (measured apart)", copies.out_ms),
            ("checks of what came back", ms(checks)),
            ("leak check", ms(leak_check)),
            ("the rest", whole - ms(instances) - call - ms(checks) - ms(leak_check)),
            ("all", whole),
        ]
    }
}

/// Milliseconds of calls of components that do nothing but have their columns copied: medians.
struct Copies {
    into_ms: f64,
    out_ms: f64,
}

/// The engine that all chains share.
struct Bench {
    engine: Arc<Engine>,
    keys: KeyRing,
    /// Removes the plugins.
    _plugins: tempfile::TempDir,
}

impl Bench {
    fn new() -> Result<Bench> {
        let plugins = tempfile::tempdir()?;
        copies::write(plugins.path())?;
        let dir: Option<PathBuf> = Some(plugins.path().to_owned());
        let mut keys = KeyRing::new();
        keys.insert(customers::KEY, "v1", native::secret())?;
        Ok(Bench {
            engine: Engine::new(dir, BUILT_IN_COMPONENTS)?,
            keys,
            _plugins: plugins,
        })
    }

    fn open(&self, specs: Vec<TransformSpec>, protect: &[&str]) -> Result<Chain> {
        let protect: Vec<String> = protect.iter().map(|name| (*name).to_owned()).collect();
        Ok(Chain::open(
            &self.engine,
            &customers::shape(),
            &specs,
            &self.keys,
            &protect,
        )?)
    }

    fn copies(&self, chunk: &RecordBatch, rounds: usize) -> Result<Copies> {
        let call = |plugin| -> Result<f64> {
            let chain = self.open(vec![TransformSpec::new(plugin)], &[])?;
            let mut calls = Vec::new();
            for _ in 0..rounds * CHUNKS {
                calls.push(chain.apply(chunk)?.spent.calls.as_secs_f64() * 1e3);
            }
            Ok(Spread::of(calls)?.median)
        };
        Ok(Copies {
            into_ms: call("copy-in")?,
            out_ms: call("copy-out")?,
        })
    }

    /// Wall time of a chunk through a map that makes nothing new: the least of many, since there is little to it.
    fn passes(&self, chunk: &RecordBatch) -> Result<Duration> {
        let config = json!({ "columns": { "name": { "rename": "full_name" }, "street": { "drop": true } } });
        let map = TransformSpec {
            config,
            ..TransformSpec::new("map")
        };
        let chain = self.open(vec![map], &[])?;
        let mut least = Duration::MAX;
        for _ in 0..CHUNKS {
            let applied = chain.apply(chunk)?;
            if !applied.spent.instances.is_zero() || !applied.spent.calls.is_zero() {
                bail!("a map that only renames and drops was called");
            }
            least = least.min(applied.elapsed);
        }
        Ok(least)
    }
}

fn mask() -> TransformSpec {
    TransformSpec {
        config: customers::mask_config("hash"),
        keys: vec![customers::KEY.to_owned()],
        ..TransformSpec::new("mask")
    }
}
