//! Who is next: what streams share — processor, connections, memory — is handed out in turns, fairly and by weight, so that
//! a table with a backlog takes what the others leave and no more.
//!
//! A turn is a chunk that is transformed, a chunk that is encoded, a range that is read over one connection, the memory of a
//! chunk. They are asked for in one order: a connection, then memory for a chunk that is to be read over it, then processor time
//! for that chunk. Nobody who holds one asks for one that comes before it, so turns cannot block each other for ever.

mod turns;

use std::num::NonZeroU32;

pub use turns::{Turn, Turns};

use crate::config::Limits;

/// Share of `limits.memory` that chunks may take. The rest is for what is not counted: the process itself, files that are
/// being encoded, the memory of components.
const FOR_CHUNKS: u64 = 3;
const OF: u64 = 4;

/// One connection in so many is never lent to a read that is known to be long, so that tables with large transactions do not
/// take all of them.
const KEPT_FOR_SHORT: u64 = 4;

/// Whose turn it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The stream, by a number of its own in this process.
    pub stream: u32,
    /// How much it gets of what all want, as against others: twice the weight, twice as much.
    pub weight: NonZeroU32,
}

impl Share {
    /// A share of weight 1.
    pub fn of(stream: u32) -> Share {
        Share {
            stream,
            weight: NonZeroU32::MIN,
        }
    }
}

/// What the streams of a process share.
#[derive(Clone)]
pub struct Scheduler {
    /// One unit a core: chunks that are transformed or encoded at the same time.
    pub cpu: Turns,
    /// One unit a connection that streams rows.
    pub connections: Turns,
    /// Bytes of chunks that were begun and are not in files yet.
    pub memory: Turns,
}

impl Scheduler {
    /// For a process with these bounds.
    pub fn new(limits: &Limits) -> Scheduler {
        let connections = limits.connections as u64;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Scheduler {
            cpu: Turns::new(cores as u64),
            connections: Turns::keeping(connections, connections / KEPT_FOR_SHORT),
            memory: Turns::new(Scheduler::memory_of_chunks(limits)),
        }
    }

    /// Bytes that chunks may take together.
    pub fn memory_of_chunks(limits: &Limits) -> u64 {
        limits.memory / OF * FOR_CHUNKS
    }

    /// Bytes that one chunk may take: its rows as they are read, and what the transforms make of them.
    pub fn memory_of_chunk(chunk_bytes: u64) -> u64 {
        2 * chunk_bytes
    }
}
