//! What can go wrong between a chunk and its transformed form. No message holds a value of the table or text that a
//! component wrote after it had seen one.

use std::fmt;

use super::check::Invalid;
use super::component::PluginError;
use super::limits::STACK_BYTES;
use super::lookup::LookupFileError;
use super::plan::PlanFault;
use crate::error::{Classify, ErrorKind};

const MOSTLY_A_PANIC: &str = "a trap is mostly a panic of the component";
/// With `on_error = "quarantine"` the rows would have been put aside already.
const ON_A_ROW: &str = "nothing of the batch was written. `sluice plugin test` looks for such rows among made-up ones, and \
                        `SLUICE_LOG=sluice::guest=debug sluice run --once` logs the component's own words (which may hold \
                        values); with `on_error = \"quarantine\"` beside `plugin`, a row is put aside on which it fails also when it \
                        gets no other";
const OF_A_ROW: &str = "nothing of the batch was written; with `on_error = \"quarantine\"` beside `plugin`, rejected rows are put \
                        aside and the others written";
const BEFORE_ROWS: &str = "`SLUICE_LOG=sluice::guest=debug sluice check` logs the component's own words";

/// A chain that could not be opened, or a chunk that it did not accept. Nothing of such a chunk comes out.
#[derive(Debug, thiserror::Error)]
pub enum TransformError {
    /// The WebAssembly engine did not start.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(String),
    /// A transform is set up wrongly.
    #[error("{place}: {fault}")]
    Config {
        /// Which transform.
        place: Place,
        /// What is wrong.
        fault: ConfigFault,
    },
    /// The component failed, overran a limit, or gave an answer that is not valid.
    #[error("{place}: {fault}")]
    Refused {
        /// Which transform.
        place: Place,
        /// What it did.
        fault: Fault,
    },
    /// The table and its chain do not go together.
    #[error("table {table}: {fault}")]
    Table {
        /// Capture instance.
        table: String,
        /// Why.
        fault: TableFault,
    },
    /// A raw value of a protected column stands in the output of its row.
    #[error(
        "table {table}: the value of protected column `{protected}` appears in output column `{output}`, {at}; mask \
         `{output}`, drop it, take `{protected}` out of `protect`, or, where values are equal by chance in a few rows, have \
         `on_error = \"quarantine\"` take such rows out"
    )]
    Leak {
        /// Capture instance.
        table: String,
        /// The protected source column.
        protected: String,
        /// The output column that shows its value.
        output: String,
        /// The row.
        at: RowAt,
    },
    /// More rows of a batch than may.
    #[error(
        "table {table}: {} of batch {batch} cannot be transformed, and `max_quarantined` is {most}; the first is \
         rejected with code `{code}`{}, LSN {lsn}. mend the component or its configuration, or raise `max_quarantined`",
        match rows { 1 => "1 row".to_owned(), rows => format!("{rows} rows") },
        column.as_ref().map(|column| format!(", column `{column}`")).unwrap_or_default()
    )]
    TooManyQuarantined {
        /// Capture instance.
        table: String,
        /// The batch.
        batch: i64,
        /// How many rows it would be, as far as it was read.
        rows: u64,
        /// The limit, as the configuration has it.
        most: String,
        /// Why the first of them cannot be transformed.
        code: String,
        /// The column at fault.
        column: Option<String>,
        /// Its commit LSN.
        lsn: String,
    },
    /// The chunk is not what the chain was opened for. A fault of sluice.
    #[error("table {table}: the chunk does not fit its transforms: {reason}")]
    Chunk {
        /// Capture instance.
        table: String,
        /// What does not fit.
        reason: String,
    },
}

/// One transform of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Capture instance.
    pub table: String,
    /// Position in the table's list, from 1.
    pub step: usize,
    /// The plugin as the configuration names it.
    pub plugin: String,
}

/// One row of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowAt {
    /// Position in the chunk as it was read, from 0.
    pub row: usize,
    /// Its commit LSN, in text form.
    pub lsn: Option<String>,
}

/// What is wrong with the configuration of a transform.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFault {
    /// The plugin is not there, or not usable.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The transform asks for a key that nobody has.
    #[error("there is no key `{key}`; {}{}", listing("keys are", .known), meant_of(.key, .known))]
    UnknownKey {
        /// The name that was asked for.
        key: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The transform asks for a reference table that nobody has.
    #[error("there is no lookup `{lookup}`; {}{}", listing("lookups are", .known), meant_of(.lookup, .known))]
    UnknownLookup {
        /// The name that was asked for.
        lookup: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The file of a reference table cannot be used.
    #[error(transparent)]
    Lookup(#[from] LookupFileError),
    /// The component does not take its configuration.
    #[error("config{}: {reason}", at_path(.path))]
    Option {
        /// Where, as the component writes paths; empty for the whole.
        path: String,
        /// Why, in the component's words (it has seen no data yet).
        reason: String,
    },
    /// The configuration says nothing about these columns, and that is an error.
    #[error(
        "the configuration does not say what to do with {}; name each, or say in it what shall happen to all others (for `mask` and \
         `map` that is `unlisted`)",
        columns(.0)
    )]
    Unlisted(Vec<String>),
    /// The configuration names columns that are not there.
    #[error("the configuration names {}, which the table does not have{}", columns(.names), meant(.nearest.as_deref()))]
    Missing {
        /// What is named.
        names: Vec<String>,
        /// The column that is nearest to the first.
        nearest: Option<String>,
    },
    /// The method does not work on a column of this type.
    #[error("column `{column}`: {reason}")]
    Unsupported {
        /// The column.
        column: String,
        /// Why, in the component's words (it has seen no data yet).
        reason: String,
    },
    /// The component refuses its configuration for a setting of the table that stands in it: TOML takes a key for one of the
    /// section before it.
    #[error("{fault}; `{setting}` is a setting of [[table]]: it has to stand above the first [[table.transform]]")]
    Misplaced {
        /// The setting.
        setting: String,
        /// What the component says of it.
        fault: Box<ConfigFault>,
    },
    /// The component asks for WASI, and the table does not allow it.
    #[error(
        "the component imports `{import}`, as those of language runtimes do; set `wasi = true` to give it an empty system"
    )]
    Wasi {
        /// The first such import.
        import: String,
    },
}

/// What a component did that its batch is refused for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It trapped.
    #[error("the component trapped: {0}")]
    Trap(String),
    /// It failed before it was given a row: when it was started, or opened.
    #[error("{0}")]
    Opening(Box<Fault>),
    /// It asked for more linear memory than it may have.
    #[error("the component overran its memory limit of {bytes} bytes; raise `memory`, or read smaller chunks")]
    Memory {
        /// The limit.
        bytes: u64,
    },
    /// It asked for more table elements, instances, tables or memories than any component may have.
    #[error("the component overran a fixed limit on tables, memories or instances")]
    Structure,
    /// It ran for too long.
    #[error("the component overran its deadline of {ms} ms; raise `deadline`, or mend the component")]
    Deadline {
        /// The limit.
        ms: u128,
    },
    /// To find the rows that it fails on took too long.
    #[error(
        "the component fails on rows of the chunk, and to find them took longer than {ms} ms (ten deadlines); mend the \
         component, raise `deadline`, or read smaller chunks"
    )]
    Search {
        /// The limit.
        ms: u128,
    },
    /// It handed over too much.
    #[error("the component handed over more than its limit of {bytes} bytes; raise `output`, or read smaller chunks")]
    Output {
        /// The limit.
        bytes: u64,
    },
    /// It recursed too deeply.
    #[error("the component overran its stack of {STACK_BYTES} bytes")]
    Stack,
    /// It used something of WASI that there is nothing behind.
    #[error("the component used {0}; with `wasi = true` it has no files, no network and no process to end")]
    Wasi(String),
    /// Its answer does not follow the canonical ABI (a pointer out of bounds, text that is not UTF-8 …).
    #[error("the component gave an answer that cannot be read")]
    Unreadable,
    /// Its exports have other types than the contract's.
    #[error("the component exports the contract's functions with other types; build it against `wit/` of this sluice")]
    Signature,
    /// Its plan does not hold together.
    #[error("the component gave an invalid plan: {0}")]
    Plan(PlanFault),
    /// A later instance did not give the plan that the first one gave.
    #[error("the component opened differently than before for the same table and configuration")]
    PlanChanged,
    /// Its columns, drops or rejects are not valid.
    #[error("the component gave an invalid answer: {0}")]
    Invalid(Invalid),
    /// It rejected rows, and the table says that this is a failure.
    #[error("column `{column}`, {at}: rejected with code `{code}`{}", others(*count))]
    Rejected {
        /// The column at fault.
        column: String,
        /// The component's code.
        code: String,
        /// The first rejected row.
        at: RowAt,
        /// How many rejects there were.
        count: usize,
    },
    /// It cannot transform more rows than may go into quarantine.
    #[error(
        "rows that cannot be transformed: {rows} of one chunk, and `max_quarantined` leaves room for {most}; {}. mend the \
         component or its configuration, or raise `max_quarantined`",
        first_of(first.as_deref())
    )]
    TooMany {
        /// How many, as far as the chunk was gone through.
        rows: u64,
        /// How many more might be.
        most: u64,
        /// Why the first of them cannot.
        first: Option<Box<Fault>>,
    },
    /// It has no answer for any part of a chunk.
    #[error(
        "the component fails on each of the {changes} changes of the chunk, so the fault is its own and none of them goes into \
         quarantine: {first}. nothing of the batch was written; mend the component or its configuration (`sluice plugin test` \
         runs it on made-up rows, `SLUICE_LOG=sluice::guest=debug` shows its own words). a row that it cannot transform is for \
         it to reject: rejected rows go into quarantine"
    )]
    Everything {
        /// How many changes the chunk has.
        changes: usize,
        /// What happened on the first of them.
        first: Box<Fault>,
    },
    /// It refused the whole batch.
    #[error("the component refused the batch with code `{code}`{}", place_of(column.as_deref(), at.as_ref()))]
    Failed {
        /// The component's code.
        code: String,
        /// The column that it blames.
        column: Option<String>,
        /// The row that it blames.
        at: Option<RowAt>,
    },
}

/// Why a table and its chain do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableFault {
    /// `protect` names a column that is not captured.
    #[error("`protect` names {}, which the capture instance does not have{}", columns(.names), meant(.nearest.as_deref()))]
    UnknownProtected {
        /// What is named.
        names: Vec<String>,
        /// The captured column that is nearest to the first.
        nearest: Option<String>,
    },
    /// A protected column would reach the lake as it is.
    #[error(
        "protected column `{column}` passes the transforms unchanged, as `{output}`; mask it, drop it, or take it out of \
         `protect`"
    )]
    Unmasked {
        /// The source column.
        column: String,
        /// Its name in the output.
        output: String,
    },
    /// A protected column would reach the lake converted, by a component that masks nothing.
    #[error(
        "protected column `{column}` comes out as `{output}`, and only `map` changed it, which masks nothing; mask it with \
         `mask`, drop it, or take it out of `protect`"
    )]
    OnlyMapped {
        /// The source column.
        column: String,
        /// The output column that is made of it.
        output: String,
    },
    /// No component can be given a column of this type.
    #[error("column `{column}` has type {data_type}, which transforms cannot take; leave the column out")]
    Unsupported {
        /// The source column.
        column: String,
        /// Its Arrow type.
        data_type: String,
    },
}

impl TransformError {
    /// For a person whose table stops at it: where to look, and what to do. The message says what happened.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            TransformError::Refused { fault, .. } => fault.hint(),
            _ => None,
        }
    }
}

impl Fault {
    /// Where a component did not say itself, in words that may be shown, what is wrong.
    fn hint(&self) -> Option<String> {
        match self {
            Fault::Trap(_) => Some(format!("{MOSTLY_A_PANIC}. {ON_A_ROW}")),
            Fault::Failed { .. } => Some(ON_A_ROW.to_owned()),
            Fault::Rejected { .. } => Some(OF_A_ROW.to_owned()),
            Fault::Opening(fault) if matches!(**fault, Fault::Trap(_)) => {
                Some(format!("{MOSTLY_A_PANIC}, here before a row was read. {BEFORE_ROWS}"))
            }
            _ => None,
        }
    }

    /// Whether the same chunk may fare better on another instance. A deadline depends on the machine's mood and is never
    /// tried again; a reject or a refusal is an answer, not a failure.
    pub(crate) fn condemns_instance(&self) -> bool {
        if let Fault::Opening(fault) = self {
            return fault.condemns_instance();
        }
        !matches!(
            self,
            Fault::Deadline { .. }
                | Fault::Search { .. }
                | Fault::Rejected { .. }
                | Fault::Failed { .. }
                | Fault::TooMany { .. }
                | Fault::Everything { .. }
        )
    }

    /// The code under which the rows that cause it go into quarantine; `None` where it is not for a row to cause it.
    pub(crate) fn row_code(&self) -> Option<&str> {
        match self {
            Fault::Trap(_) => Some("trap"),
            Fault::Memory { .. } => Some("memory-limit"),
            Fault::Structure => Some("structure-limit"),
            Fault::Output { .. } => Some("output-limit"),
            Fault::Stack => Some("stack-limit"),
            Fault::Unreadable | Fault::Invalid(_) => Some("invalid-answer"),
            Fault::Wasi(_) => Some("wasi-refused"),
            Fault::Failed { code, .. } | Fault::Rejected { code, .. } => Some(code),
            // No row was there yet: the machine may have been short of memory.
            Fault::Opening(_) => None,
            // How long a call takes depends on the machine as well.
            Fault::Deadline { .. } | Fault::Search { .. } => None,
            Fault::Signature
            | Fault::Plan(_)
            | Fault::PlanChanged
            | Fault::TooMany { .. }
            | Fault::Everything { .. } => None,
        }
    }
}

impl Classify for TransformError {
    fn kind(&self) -> ErrorKind {
        match self {
            TransformError::Engine(_) | TransformError::Chunk { .. } => ErrorKind::Internal,
            TransformError::Config {
                fault: ConfigFault::Plugin(fault),
                ..
            } => fault.kind(),
            TransformError::Config { .. } | TransformError::Table { .. } => ErrorKind::Config,
            TransformError::Refused { .. }
            | TransformError::Leak { .. }
            | TransformError::TooManyQuarantined { .. } => ErrorKind::ComponentRefused,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {}, transform {} (`{}`)", self.table, self.step, self.plugin)
    }
}

impl fmt::Display for RowAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of the chunk", self.row)?;
        match &self.lsn {
            Some(lsn) => write!(f, " (LSN {lsn})"),
            None => Ok(()),
        }
    }
}

/// `` `a`, `b` `` with the word before it.
pub(crate) fn meant(nearest: Option<&str>) -> String {
    nearest
        .map(|nearest| format!("; did you mean `{nearest}`?"))
        .unwrap_or_default()
}

/// The known name that is nearest to one that is not.
fn meant_of(name: &str, known: &[String]) -> String {
    meant(crate::config::nearest(name, known.iter().map(String::as_str)).as_deref())
}

fn columns(names: &[String]) -> String {
    let word = if names.len() == 1 { "column" } else { "columns" };
    format!("{word} {}", quoted(names))
}

/// `` `a`, `b` ``.
pub(crate) fn quoted(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// `what `` `a`, `b` ``, or that there are none.
pub(crate) fn listing(what: &str, names: &[String]) -> String {
    if names.is_empty() {
        "there are none".to_owned()
    } else {
        format!("{what} {}", quoted(names))
    }
}

fn at_path(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!(" at `{path}`")
    }
}

fn others(count: usize) -> String {
    match count {
        0 | 1 => String::new(),
        2 => " (and one more row)".to_owned(),
        _ => format!(" (and {} more rows)", count - 1),
    }
}

fn first_of(fault: Option<&Fault>) -> String {
    match fault {
        Some(fault) => format!("of one of them, {fault}"),
        None => "each for a reason of its own".to_owned(),
    }
}

fn place_of(column: Option<&str>, at: Option<&RowAt>) -> String {
    let column = column.map(|column| format!(", column `{column}`"));
    let at = at.map(|at| format!(", {at}"));
    column.unwrap_or_default() + &at.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(fault: Fault) -> Option<String> {
        let place = Place {
            table: "dbo_t".into(),
            step: 1,
            plugin: "mine".into(),
        };
        TransformError::Refused { place, fault }.hint()
    }

    #[test]
    fn a_table_that_stops_says_where_to_look() {
        let trap = || Fault::Trap("unreachable".into());
        let failed = |code: &str| Fault::Failed {
            code: code.into(),
            column: None,
            at: None,
        };
        for fault in [trap(), failed("exception-key-error"), failed("apply-error")] {
            let panics = matches!(fault, Fault::Trap(_));
            let hint = hint(fault).unwrap();
            for words in [
                "sluice plugin test",
                "SLUICE_LOG=sluice::guest=debug sluice run --once",
                "on_error = \"quarantine\"",
            ] {
                assert!(hint.contains(words), "{hint}");
            }
            assert_eq!(hint.contains("panic"), panics, "{hint}");
        }
        // No row is to be put aside.
        let opening = hint(Fault::Opening(Box::new(trap()))).unwrap();
        assert!(
            opening.contains("panic") && opening.contains("sluice check"),
            "{opening}"
        );
        assert!(!opening.contains("on_error"), "{opening}");
        assert_eq!(hint(Fault::Stack), None);
        let rejected = hint(Fault::Rejected {
            at: RowAt { row: 0, lsn: None },
            column: "email".into(),
            code: "no-address".into(),
            count: 1,
        });
        assert!(rejected.unwrap().contains("on_error = \"quarantine\""));
    }

    #[test]
    fn only_failures_that_another_instance_could_be_spared_are_tried_again() {
        let at = RowAt { row: 0, lsn: None };
        assert!(Fault::Trap("unreachable".into()).condemns_instance());
        assert!(Fault::Memory { bytes: 1 }.condemns_instance());
        assert!(!Fault::Deadline { ms: 1 }.condemns_instance());
        let rejected = Fault::Rejected {
            column: "a".into(),
            code: "b".into(),
            at: at.clone(),
            count: 3,
        };
        assert!(!rejected.condemns_instance());
        assert_eq!(
            rejected.to_string(),
            "column `a`, row 0 of the chunk: rejected with code `b` (and 2 more rows)"
        );
        let failed = Fault::Failed {
            code: "b".into(),
            column: Some("a".into()),
            at: Some(at),
        };
        assert!(!failed.condemns_instance());
        assert_eq!(
            failed.to_string(),
            "the component refused the batch with code `b`, column `a`, row 0 of the chunk"
        );
        let everything = Fault::Everything {
            changes: 42,
            first: Box::new(Fault::Trap("unreachable".into())),
        };
        assert!(!everything.condemns_instance() && everything.row_code().is_none());
        let text = everything.to_string();
        assert!(
            text.starts_with("the component fails on each of the 42 changes of the chunk, so the fault is its own")
                && text.contains(": the component trapped: unreachable. "),
            "{text}"
        );
    }
}
