//! What gets the bytes.

pub mod driver;
mod requests;
mod sink;
mod text;

/// A function of bytes that may fail in any way but one: it must not panic.
pub struct Target {
    /// Its name, which is that of its corpus.
    pub name: &'static str,
    /// Runs it on an input.
    pub run: fn(&[u8]),
    /// The longest input that is made for it.
    pub longest: usize,
}

/// All targets.
pub const TARGETS: [Target; 4] = [
    Target {
        name: "sink",
        run: sink::run,
        longest: 4096,
    },
    Target {
        name: "text",
        run: text::run,
        longest: 512,
    },
    Target {
        name: "requests",
        run: requests::run,
        longest: 4096,
    },
    Target {
        name: "driver",
        run: driver::run,
        longest: 256,
    },
];

/// A target by name.
pub fn find(name: &str) -> Option<&'static Target> {
    static ALL: [Target; 4] = TARGETS;
    ALL.iter().find(|target| target.name == name)
}
