//! Stores that fail, as a test asks for it.
//!
//! `SLUICE_FAULTS="site:n=fault,site:n-m=fault"`: the n-th passage of a site, counted from 1 over the whole process, or
//! each from n to m. A fault is an I/O error where the real one would come from, so what classifies and repeats it is the
//! code that does so in earnest. Only builds with debug assertions have it.

use std::io;

use crate::lake::durable::Published;

/// An entry of a bronze table's log: a claim or a batch.
pub const BRONZE_PUT: &str = "bronze-put";
/// An entry of a facts table's log.
pub const FACTS_PUT: &str = "facts-put";
/// An entry of a control table's log.
pub const CONTROL_PUT: &str = "control-put";
/// An entry of a quarantine table's log.
pub const QUARANTINE_PUT: &str = "quarantine-put";
/// A look at what is new in any Delta log.
pub const DELTA_READ: &str = "delta-read";
/// A file of the checkpoint.
pub const CHECKPOINT_WRITE: &str = "checkpoint-write";
/// A Parquet file of any table.
pub const DATA_FILE_WRITE: &str = "data-file-write";

/// Every site.
pub const SITES: [&str; 7] = [
    BRONZE_PUT,
    FACTS_PUT,
    CONTROL_PUT,
    QUARANTINE_PUT,
    DELTA_READ,
    CHECKPOINT_WRITE,
    DATA_FILE_WRITE,
];

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is written, and the answer is a timeout.
    ReplyLost,
    /// Nothing is written, and the answer is a timeout.
    NotWritten,
    /// Nothing is written, and the answer is that it is there already. Of puts only.
    Conflict,
    /// The answer is a timeout, and it is written 10 to 200 ms later unless something is there by then. Of puts only.
    WrittenLater,
    /// Nothing is written, because the disk is full.
    DiskFull,
    /// Nothing is written, because the disk cannot be written to.
    ReadOnly,
    /// Nothing is written, and nobody knows why.
    Io,
}

impl Fault {
    /// Every fault, by the name that a test gives it.
    pub const ALL: [(&'static str, Fault); 7] = [
        ("reply-lost", Fault::ReplyLost),
        ("not-written", Fault::NotWritten),
        ("conflict", Fault::Conflict),
        ("written-later", Fault::WrittenLater),
        ("disk-full", Fault::DiskFull),
        ("read-only", Fault::ReadOnly),
        ("io", Fault::Io),
    ];
}

/// Writes what must not be there yet, or fails.
#[cfg(debug_assertions)]
pub(crate) fn put(
    site: Option<&str>,
    write: impl FnOnce() -> io::Result<Published> + Send + 'static,
) -> io::Result<Published> {
    let Some((fault, passage)) = site.and_then(armed::next) else {
        return write();
    };
    match fault {
        Fault::ReplyLost => write().and_then(|_| Err(fault.error())),
        Fault::Conflict => Ok(Published::Exists),
        Fault::WrittenLater => {
            let pause_ms = 10 + passage * 37 % 190;
            std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(pause_ms));
                // Nobody waits for it any more.
                let _ = write();
            });
            Err(fault.error())
        }
        _ => Err(fault.error()),
    }
}

/// Writes something, or fails.
#[cfg(debug_assertions)]
pub(crate) fn write<T>(site: &str, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    match armed::next(site) {
        None => write(),
        Some((fault @ Fault::ReplyLost, _)) => write().and_then(|_| Err(fault.error())),
        Some((fault, _)) => Err(fault.error()),
    }
}

/// Writes what must not be there yet.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn put(
    _site: Option<&str>,
    write: impl FnOnce() -> io::Result<Published> + Send + 'static,
) -> io::Result<Published> {
    write()
}

/// Writes something.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn write<T>(_site: &str, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    write()
}

/// Passes a site where something is read, or fails.
pub(crate) fn read(site: &str) -> io::Result<()> {
    write(site, || Ok(()))
}

#[cfg(debug_assertions)]
impl Fault {
    fn error(self) -> io::Error {
        const EIO: i32 = 5;
        match self {
            Fault::ReplyLost | Fault::NotWritten | Fault::Conflict | Fault::WrittenLater => {
                io::ErrorKind::TimedOut.into()
            }
            Fault::DiskFull => io::ErrorKind::StorageFull.into(),
            Fault::ReadOnly => io::ErrorKind::ReadOnlyFilesystem.into(),
            Fault::Io => io::Error::from_raw_os_error(EIO),
        }
    }
}

/// What the environment asks for.
#[cfg(debug_assertions)]
mod armed {
    use std::ops::RangeInclusive;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Fault, SITES};

    /// One site, its passages so far, and what happens at some of them.
    struct Site {
        passed: AtomicU64,
        faults: Vec<(RangeInclusive<u64>, Fault)>,
    }

    /// The fault of this passage, and its number.
    pub(super) fn next(site: &str) -> Option<(Fault, u64)> {
        static ARMED: OnceLock<Option<[Site; SITES.len()]>> = OnceLock::new();
        let armed = ARMED.get_or_init(|| {
            let text = std::env::var("SLUICE_FAULTS").ok()?;
            match parse(&text) {
                Some(sites) => Some(sites),
                None => crate::failpoint::refuse("SLUICE_FAULTS", &text),
            }
        });
        let position = SITES.iter().position(|name| *name == site)?;
        let site = &armed.as_ref()?[position];
        let passage = site.passed.fetch_add(1, Ordering::SeqCst) + 1;
        let (_, fault) = site.faults.iter().find(|(passages, _)| passages.contains(&passage))?;
        Some((*fault, passage))
    }

    fn parse(text: &str) -> Option<[Site; SITES.len()]> {
        let mut sites = SITES.map(|_| Site {
            passed: AtomicU64::new(0),
            faults: Vec::new(),
        });
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (place, fault) = part.split_once('=')?;
            let (site, passages) = place.split_once(':')?;
            let (first, last) = passages.split_once('-').unwrap_or((passages, passages));
            let passages = first.parse().ok()?..=last.parse().ok()?;
            let (_, fault) = Fault::ALL.into_iter().find(|(name, _)| *name == fault)?;
            let position = SITES.iter().position(|name| *name == site)?;
            sites[position].faults.push((passages, fault));
        }
        Some(sites)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn faults_are_read_with_their_passages_and_mistakes_are_refused() {
            let sites = parse("bronze-put:2=reply-lost, facts-put:1-3=conflict,bronze-put:5=io").unwrap();
            assert_eq!(sites[0].faults, [(2..=2, Fault::ReplyLost), (5..=5, Fault::Io)]);
            assert_eq!(sites[1].faults, [(1..=3, Fault::Conflict)]);
            assert!(sites[2..].iter().all(|site| site.faults.is_empty()));
            for mistake in ["bronze-put=io", "bronze:1=io", "facts-put:x=io", "facts-put:1=fire"] {
                assert!(parse(mistake).is_none(), "{mistake}");
            }
        }
    }
}
