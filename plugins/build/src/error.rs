use std::io;
use std::path::PathBuf;

/// Why a component could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Nothing here compiles for WebAssembly.
    #[error(
        "no compiler for {target} was found ({looked}); run `cargo xtask setup`, which installs one",
        target = crate::TARGET
    )]
    NoToolchain {
        /// Where it was looked for.
        looked: String,
    },
    /// A program that a language needs is not on this machine.
    #[error("{program} was not found, and {purpose} needs it; {hint}")]
    NoProgram {
        /// The program.
        program: String,
        /// What needs it.
        purpose: String,
        /// How to get it.
        hint: String,
    },
    /// A package registry could not be reached.
    #[error("{program} could not reach {registry}: {output}")]
    Unreachable {
        /// The program and what it was doing.
        program: String,
        /// The registry, and how another one is set.
        registry: String,
        /// The end of what it printed.
        output: String,
    },
    /// The folder has no project that can be built.
    #[error("{} is no plugin's project: it has no Cargo.toml, pyproject.toml or package.json", dir.display())]
    NoProject {
        /// The folder.
        dir: PathBuf,
    },
    /// A program could not be started.
    #[error("cannot run {program}")]
    Run {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A program ended with an error.
    #[error("{program} failed: {output}")]
    Failed {
        /// The program and what it was doing.
        program: String,
        /// The end of what it printed.
        output: String,
    },
    /// A file could not be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The manifest does not describe a plugin.
    #[error("{} cannot be built as a plugin: {reason}", manifest.display())]
    Manifest {
        /// The manifest.
        manifest: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The core module could not be made a component.
    #[error("the module cannot be made a component: {reason}")]
    Encode {
        /// The encoder's chain of reasons.
        reason: String,
    },
}
