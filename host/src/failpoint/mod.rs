//! What tests do to the real process: hold it at a named place ([`pass`]), make a store fail ([`faults`]), and plant a
//! bug ([`planted`]) to see that the tests find it.
//!
//! Only builds with debug assertions have any of it. `SLUICE_FAILPOINT=name` or `name:n` (the n-th passage) holds the
//! thread that passes; `SLUICE_FAILPOINT_FILE` is created first, so that the test knows. The process can be killed
//! there, or goes on when a file of that name with `.go` at its end appears.

pub mod faults;
pub mod planted;

/// `owner.json` names this process; bronze does not know it.
pub const OWNER_WRITTEN: &str = "owner-written";
/// The batch is planned; its offset is not written. So is a position without rows.
pub const BEFORE_OFFSET: &str = "before-offset";
/// `offsets/<n>` is written; nothing is read.
pub const AFTER_OFFSET: &str = "after-offset";
/// The fencing number was compared with bronze, and its commit is the next thing that is written.
pub const BEFORE_CLAIM: &str = "before-claim";
/// Bronze has the fencing number.
pub const AFTER_CLAIM: &str = "after-claim";
/// The stream is this process's, and the batch is planned; nothing of it is read.
pub const BEFORE_READ: &str = "before-read";
/// A chunk was read; it is not transformed.
pub const CHUNK_READ: &str = "chunk-read";
/// A chunk was transformed; it is not staged.
pub const CHUNK_TRANSFORMED: &str = "chunk-transformed";
/// All chunks are written; the last file is not closed.
pub const BEFORE_FILES_STAGED: &str = "before-files-staged";
/// All files are staged; nothing refers to them.
pub const FILES_STAGED: &str = "files-staged";
/// Transaction id and fence were compared with bronze, and the batch's Delta entry is the next thing that is written.
pub const BEFORE_COMMIT: &str = "before-commit";
/// The Delta commit is done; the checkpoint does not know.
pub const AFTER_COMMIT: &str = "after-commit";
/// The batch is in bronze or without rows, and the fence was compared; `commits/<n>` is the next thing that is written.
pub const BEFORE_COMMIT_FILE: &str = "before-commit-file";
/// `commits/<n>` is written; facts are not.
pub const AFTER_COMMIT_FILE: &str = "after-commit-file";
/// A group of facts was compared with the facts table, and its Delta entry is the next thing that is written.
pub const BEFORE_FACTS: &str = "before-facts";
/// Facts are written; the verdict is not.
pub const AFTER_FACTS: &str = "after-facts";
/// Verdicts are merged with the control table, and the Delta entry is the next thing that is written.
pub const BEFORE_VERDICT: &str = "before-verdict";
/// The verdict is written.
pub const AFTER_VERDICT: &str = "after-verdict";

/// Rows for quarantine are in a file, and the Delta entry that names it is the next thing that is written.
pub const BEFORE_QUARANTINE: &str = "before-quarantine";
/// The rows are in quarantine; bronze does not have the batch.
pub const AFTER_QUARANTINE: &str = "after-quarantine";

/// Those of a batch with rows for quarantine, between [`FILES_STAGED`] and [`BEFORE_COMMIT`].
pub const QUARANTINE: [&str; 2] = [BEFORE_QUARANTINE, AFTER_QUARANTINE];

/// Every failpoint of any batch, in the order in which a batch passes them. The first batch of a process, for [`ONCE`].
pub const ALL: [&str; 18] = [
    OWNER_WRITTEN,
    BEFORE_OFFSET,
    AFTER_OFFSET,
    BEFORE_CLAIM,
    AFTER_CLAIM,
    BEFORE_READ,
    CHUNK_READ,
    CHUNK_TRANSFORMED,
    BEFORE_FILES_STAGED,
    FILES_STAGED,
    BEFORE_COMMIT,
    AFTER_COMMIT,
    BEFORE_COMMIT_FILE,
    AFTER_COMMIT_FILE,
    BEFORE_FACTS,
    AFTER_FACTS,
    BEFORE_VERDICT,
    AFTER_VERDICT,
];

/// Those that a table passes once a process, not once a batch.
pub const ONCE: [&str; 3] = [OWNER_WRITTEN, BEFORE_CLAIM, AFTER_CLAIM];

/// Those of groups: batches that wait for their facts or verdict pass them together.
pub const GROUPED: [&str; 4] = [BEFORE_FACTS, AFTER_FACTS, BEFORE_VERDICT, AFTER_VERDICT];

/// A commit, as tests get hold of it.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// The failpoint between its last comparison and the write of its entry.
    pub before: Option<&'static str>,
    /// The site of faults that the write is. See [`faults`].
    pub site: Option<&'static str>,
}

impl Put {
    /// A commit that tests leave alone.
    pub const UNNAMED: Put = Put {
        before: None,
        site: None,
    };
    /// The claim of a fencing number in bronze.
    pub const CLAIM: Put = Put::named(BEFORE_CLAIM, faults::BRONZE_PUT);
    /// A batch.
    pub const BATCH: Put = Put::named(BEFORE_COMMIT, faults::BRONZE_PUT);
    /// Rows for quarantine.
    pub const QUARANTINE: Put = Put::named(BEFORE_QUARANTINE, faults::QUARANTINE_PUT);
    /// A group of facts.
    pub const FACTS: Put = Put::named(BEFORE_FACTS, faults::FACTS_PUT);
    /// A group of verdicts.
    pub const VERDICT: Put = Put::named(BEFORE_VERDICT, faults::CONTROL_PUT);

    const fn named(before: &'static str, site: &'static str) -> Put {
        Put {
            before: Some(before),
            site: Some(site),
        }
    }
}

/// Passes a failpoint.
#[cfg(debug_assertions)]
pub fn pass(name: &str) {
    use std::ffi::OsString;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// From one look for the file that lets the thread go on to the next.
    const LOOK: Duration = Duration::from_millis(3);

    struct Armed {
        name: String,
        passage: u64,
        passed: AtomicU64,
        file: Option<OsString>,
    }
    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    let armed = ARMED.get_or_init(|| {
        let text = std::env::var("SLUICE_FAILPOINT").ok()?;
        let (name, passage) = match text.split_once(':') {
            Some((name, passage)) => (name, passage.parse().ok()),
            None => (text.as_str(), Some(1)),
        };
        let Some(passage) = passage.filter(|_| ALL.contains(&name) || QUARANTINE.contains(&name)) else {
            refuse("SLUICE_FAILPOINT", &text);
        };
        Some(Armed {
            name: name.to_owned(),
            passage,
            passed: AtomicU64::new(0),
            file: std::env::var_os("SLUICE_FAILPOINT_FILE"),
        })
    });
    let Some(armed) = armed else { return };
    if armed.name != name || armed.passed.fetch_add(1, Ordering::SeqCst) + 1 != armed.passage {
        return;
    }
    let Some(file) = &armed.file else {
        loop {
            std::thread::park();
        }
    };
    let mut go = file.clone();
    go.push(".go");
    // The test waits for this file; without it the test fails by itself.
    let _ = std::fs::write(file, name);
    while !std::path::Path::new(&go).exists() {
        std::thread::sleep(LOOK);
    }
}

/// Passes a failpoint: nothing in this build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn pass(_name: &str) {}

/// A test that asks for something that there is not would pass for nothing, so the process ends.
#[cfg(debug_assertions)]
fn refuse(variable: &str, text: &str) -> ! {
    tracing::error!(variable, text, "no such failpoint, fault or planted bug");
    std::process::exit(70)
}
