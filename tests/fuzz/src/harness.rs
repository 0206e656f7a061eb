//! Makes inputs from a corpus by mutation, runs a target on them, and keeps what makes it panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::targets::Target;

/// Bytes that decide more often than others: lengths, signs, markers of NULL and of the end.
const TELLING: [u8; 10] = [0, 1, 2, 7, 8, 16, 0x7F, 0x80, 0xFE, 0xFF];

/// What a run did.
#[derive(Debug, Clone, Copy)]
pub struct Ran {
    /// Inputs that were tried.
    pub inputs: u64,
}

/// Where a target's corpus lies.
pub fn corpus_folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// The inputs of a target's corpus, by file, in the order of their names.
pub fn corpus(target: &Target) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = corpus_folder(target);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("{} is missing", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let bytes = std::fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            Ok((path, bytes))
        })
        .collect()
}

/// Runs a target on one input. The panic's message, if it panicked.
pub fn try_input(target: &Target, input: &[u8]) -> std::result::Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

/// Runs a target on inputs of a seed for a while.
///
/// # Errors
/// The first input that makes it panic, with the file that it was written to.
pub fn run(target: &Target, seed: u64, time: Duration) -> Result<Ran> {
    let seeds: Vec<Vec<u8>> = corpus(target)?.into_iter().map(|(_, bytes)| bytes).collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let until = Instant::now() + time;
    let mut inputs = 0;
    while Instant::now() < until {
        let input = mutated(&seeds, &mut random, target.longest);
        inputs += 1;
        if let Err(message) = try_input(target, &input) {
            let path = corpus_folder(target).join(format!("crash-{:016x}", hash(&input)));
            std::fs::write(&path, &input).with_context(|| format!("{} cannot be written", path.display()))?;
            anyhow::bail!(
                "target {} panicked on input {inputs} of seed {seed}: {message}; the input is {}",
                target.name,
                path.display()
            );
        }
    }
    Ok(Ran { inputs })
}

/// An input of the corpus with a few changes, or one that is made up.
fn mutated(seeds: &[Vec<u8>], random: &mut ChaCha8Rng, longest: usize) -> Vec<u8> {
    let mut input = match seeds.choose(random) {
        Some(seed) if random.random_ratio(7, 8) => seed.clone(),
        _ => (0..random.random_range(0..longest)).map(|_| random.random()).collect(),
    };
    for _ in 0..random.random_range(1..=8) {
        mutate(&mut input, seeds, random);
    }
    input.truncate(longest);
    input
}

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut ChaCha8Rng) {
    if input.is_empty() {
        input.push(random.random());
        return;
    }
    let at = random.random_range(0..input.len());
    match random.random_range(0..8) {
        0 => input[at] ^= 1 << random.random_range(0..8),
        1 => input[at] = random.random(),
        2 => input[at] = TELLING.choose(random).copied().unwrap_or_default(),
        3 => input.insert(at, random.random()),
        4 => {
            let end = (at + random.random_range(1..=16)).min(input.len());
            input.drain(at..end);
        }
        5 => {
            let end = (at + random.random_range(1..=16)).min(input.len());
            let piece = input[at..end].to_vec();
            let to = random.random_range(0..=input.len());
            input.splice(to..to, piece);
        }
        6 => input.truncate(at),
        _ => {
            // The tail of another one.
            if let Some(other) = seeds.choose(random).filter(|other| !other.is_empty()) {
                let from = random.random_range(0..other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
}

/// FNV-1a, for a name.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    })
}
