//! Named places in a batch where a test can hold the process, to kill it there with SIGKILL.
//!
//! Only builds with debug assertions have them. `SLUICE_FAILPOINT=name` or `name:n` (the n-th passage) holds the thread
//! that passes; `SLUICE_FAILPOINT_FILE` is created first, so that the test knows when to kill.

/// The batch is planned; its offset is not written.
pub const BEFORE_OFFSET: &str = "before-offset";
/// `offsets/<n>` is written; nothing is read.
pub const AFTER_OFFSET: &str = "after-offset";
/// A chunk was read.
pub const CHUNK_READ: &str = "chunk-read";
/// A chunk was transformed; it is not staged.
pub const CHUNK_TRANSFORMED: &str = "chunk-transformed";
/// All files are staged; nothing refers to them.
pub const FILES_STAGED: &str = "files-staged";
/// The Delta commit is done; the checkpoint does not know.
pub const AFTER_COMMIT: &str = "after-commit";
/// `commits/<n>` is written; facts are not.
pub const AFTER_COMMIT_FILE: &str = "after-commit-file";
/// Facts are written; the verdict is not.
pub const AFTER_FACTS: &str = "after-facts";
/// The verdict is written.
pub const AFTER_VERDICT: &str = "after-verdict";

/// Every failpoint, in the order in which a batch passes them.
pub const ALL: [&str; 9] = [
    BEFORE_OFFSET,
    AFTER_OFFSET,
    CHUNK_READ,
    CHUNK_TRANSFORMED,
    FILES_STAGED,
    AFTER_COMMIT,
    AFTER_COMMIT_FILE,
    AFTER_FACTS,
    AFTER_VERDICT,
];

/// Passes a failpoint.
#[cfg(debug_assertions)]
pub fn pass(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Armed {
        name: String,
        passage: u64,
        passed: AtomicU64,
    }
    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    let armed = ARMED.get_or_init(|| {
        let text = std::env::var("SLUICE_FAILPOINT").ok()?;
        let (name, passage) = match text.split_once(':') {
            Some((name, passage)) => (name.to_owned(), passage.parse().ok()?),
            None => (text, 1),
        };
        Some(Armed {
            name,
            passage,
            passed: AtomicU64::new(0),
        })
    });
    let Some(armed) = armed else { return };
    if armed.name != name || armed.passed.fetch_add(1, Ordering::SeqCst) + 1 != armed.passage {
        return;
    }
    if let Ok(file) = std::env::var("SLUICE_FAILPOINT_FILE") {
        // The test waits for this file; without it the test fails by itself.
        let _ = std::fs::write(file, name);
    }
    loop {
        std::thread::park();
    }
}

/// Passes a failpoint: nothing in this build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn pass(_name: &str) {}
