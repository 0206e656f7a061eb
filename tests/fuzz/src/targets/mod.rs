//! What gets the bytes.

pub mod answer;
pub mod driver;
pub mod requests;
pub mod sink;
pub mod text;

/// A function of bytes that may fail in any way but one: it must not panic.
pub struct Target {
    /// Its name, which is that of its corpus and of its file under `fuzz_targets/`.
    pub name: &'static str,
    /// Runs it on an input.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 5] = [
    Target {
        name: "answer",
        run: answer::run,
    },
    Target {
        name: "sink",
        run: sink::run,
    },
    Target {
        name: "text",
        run: text::run,
    },
    Target {
        name: "requests",
        run: requests::run,
    },
    Target {
        name: "driver",
        run: driver::run,
    },
];
