//! Why a command of the kit cannot do what it was asked for.

use std::path::{Path, PathBuf};

use sluice_component_build::BuildError;

use crate::error::{Classify, ErrorKind};

/// Why a command of the kit cannot go on. A component that fails a test is no error: it is what the command found out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KitError {
    /// The command line asks for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// A file is not what it should be.
    #[error("{}: {reason}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The system refused to read or write.
    #[error("cannot {what} {}: {reason}", file.display())]
    System {
        /// `read`, `write`, `create` …
        what: &'static str,
        /// The file or folder.
        file: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The component, or the sandbox around it, refused.
    #[error("{message}")]
    Refused {
        /// The account.
        message: String,
        /// Whose business it is.
        kind: ErrorKind,
    },
    /// No component came out of the build.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// There is no compiler.
    #[error(
        "no compiler for {target} was found ({looked}); run `rustup target add {target}`, or, where rustup cannot reach \
         its server, `apt-get install rustc-web rust-web-src lld` (Debian), and build again",
        target = sluice_component_build::TARGET
    )]
    NoCompiler {
        /// Where it was looked for.
        looked: String,
    },
}

impl KitError {
    /// A file that is not what it should be.
    pub(crate) fn file(file: impl Into<PathBuf>, reason: impl Into<String>) -> KitError {
        KitError::File {
            file: file.into(),
            reason: reason.into(),
        }
    }

    /// For `map_err` on a call to the system.
    pub(crate) fn system(what: &'static str, file: &Path) -> impl FnOnce(std::io::Error) -> KitError {
        let file = file.to_owned();
        move |error| KitError::System {
            what,
            file,
            reason: error.to_string(),
        }
    }
}

impl Classify for KitError {
    fn kind(&self) -> ErrorKind {
        match self {
            KitError::Usage(_) | KitError::File { .. } | KitError::NoCompiler { .. } => ErrorKind::Config,
            KitError::System { .. } => ErrorKind::State,
            KitError::Refused { kind, .. } => *kind,
            // The author's code does not compile: their business, as a wrong configuration is.
            KitError::Build(_) => ErrorKind::Config,
        }
    }
}
