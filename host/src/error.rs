//! What an error asks of the person who reads it. Every module's error type answers [`Classify`]; the rest of the
//! program decides by the kind alone.

/// What kind of failure this is: whether to try again, and who has to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The configuration, a name, a password or a grant is wrong: a person mends it.
    Config,
    /// The other side was away, busy or slow: the same call may work later.
    Retryable,
    /// Changes are gone before they were read: a person decides how to go on.
    DataLoss,
    /// The source's schema no longer fits the target.
    SchemaChanged,
    /// A component refused, trapped, overran a limit or gave an invalid answer.
    ComponentRefused,
    /// State on disk is damaged, foreign or owned by somebody else.
    State,
    /// Anything else, a fault of sluice included.
    Internal,
}

impl ErrorKind {
    /// The exit code of a process whose worst failure is of this kind. `docs/reference/exit-codes.md` lists them.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Internal => 1,
            ErrorKind::Config => 2,
            ErrorKind::Retryable => 3,
            ErrorKind::DataLoss => 4,
            ErrorKind::SchemaChanged => 5,
            ErrorKind::ComponentRefused => 6,
            ErrorKind::State => 7,
        }
    }
}

/// An error that knows its kind.
pub trait Classify {
    /// The kind of this error.
    fn kind(&self) -> ErrorKind;
}

/// The error and its causes, each once, from the outside in: `cannot plan: the connection broke: reset by peer`.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}
