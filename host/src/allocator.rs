//! The allocator of the binaries; part of `main.rs`, and of the benchmarks'.
//!
//! A chunk's columns are buffers of megabytes that live for a tenth of a second. The system's allocator maps and unmaps each of
//! them, and every page of it is a fault. jemalloc keeps pages that were freed for the next chunk, and gives back what
//! nobody wanted for some seconds.

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// jemalloc's options; the environment variable `_RJEM_MALLOC_CONF` adds to them. A thread of its own gives pages back, so that an
/// idle process does not keep those of its last burst; large buffers are kept as others are, where by default they
/// would go back at once.
#[unsafe(export_name = "_rjem_malloc_conf")]
static OPTIONS: &[u8; 64] = b"background_thread:true,oversize_threshold:0,dirty_decay_ms:5000\0";
