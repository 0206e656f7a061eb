//! `plugin test`: a component held against its fixtures and the properties.

use serde_json::Value;

use super::component::{Workbench, about_code};
use super::error::KitError;
use super::fixture::{Expect, ExpectedReject, Fixture, Setup};
use super::golden;
use super::heard::hear;
use super::properties;
use super::rows::{Ran, Rejected, counted, run};
use super::shows::Shows;
use super::sql_type::{ALL, SqlType};
use crate::identity::CaptureInstance;
use crate::shape::{ColumnShape, Recorded, TableShape};

/// The check that stands where a component does not open.
pub(crate) const OPENS: &str = "opens";
/// The check that stands where the call with a fixture's own rows fails.
const ROWS: &str = "rows";

/// One thing that was tried.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) what: String,
    pub(crate) verdict: Verdict,
    /// Where it failed: the last lines of what the component said in it.
    pub(crate) said: Vec<String>,
    /// Whether it was tried on made-up rows, which the seed makes again.
    pub(crate) made_up: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds; perhaps with something to know.
    Ok(Option<String>),
    /// It could not be tried, and why.
    Skipped(String),
    /// It does not hold: what was seen, and what to do.
    Failed(String),
}

impl Check {
    pub(crate) fn new(what: impl Into<String>, verdict: Verdict) -> Check {
        Check {
            what: what.into(),
            verdict,
            said: Vec::new(),
            made_up: false,
        }
    }

    /// The same, tried on made-up rows.
    pub(crate) fn on_made_up_rows(mut self) -> Check {
        self.made_up = true;
        self
    }

    /// The same, with what the component said in it.
    pub(crate) fn saying(mut self, said: Vec<String>) -> Check {
        if self.failed() {
            self.said = said;
        }
        self
    }

    pub(crate) fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }
}

/// Tries a fixture, and the properties on its table. With `bless`, what comes out is written as what is expected.
///
/// # Errors
/// When a golden file can be neither read nor written.
pub(crate) fn run_fixture(
    bench: &Workbench,
    fixture: &Fixture,
    seed: u64,
    bless: bool,
) -> Result<Vec<Check>, KitError> {
    match &fixture.expect {
        Expect::OpenError(words) => {
            let (verdict, said) = hear(|| open_error(bench, &fixture.setup, words));
            Ok(vec![Check::new("open error", verdict).saying(said)])
        }
        // What fails this batch on purpose may fail made-up rows as well: there are no properties to try.
        Expect::BatchError(words) => {
            let (verdict, said) = hear(|| batch_error(bench, fixture, words));
            Ok(vec![Check::new("batch error", verdict).saying(of_rows(fixture, said))])
        }
        Expect::Rows(rejects) => {
            let mut checks = match &fixture.rows {
                Some(_) => expected_rows(bench, fixture, rejects, bless)?,
                None => Vec::new(),
            };
            // What does not open is told once, and so is a call that fails: with made-up rows it fails again, in its own time.
            let fails = |what: &str| checks.iter().any(|check| check.what == what && check.failed());
            if fixture.properties && !fails(OPENS) {
                let untried = fails(ROWS);
                checks.extend(match untried {
                    true => properties::skipped("the fixture's own rows already fail"),
                    false => properties::check(bench, &fixture.setup, seed),
                });
            }
            Ok(checks)
        }
    }
}

/// What the component said of the fixture's own rows. Of rows that may be somebody's, it is not shown.
fn of_rows(fixture: &Fixture, said: Vec<String>) -> Vec<String> {
    match fixture.from_file && !said.is_empty() {
        true => vec!["(not shown: the rows stand in a file, and may have been captured)".to_owned()],
        false => said,
    }
}

/// The properties on a table with a column of each type, for a component that has no fixtures.
///
/// # Errors
/// A fault of the kit.
pub(crate) fn without_fixtures(bench: &Workbench, config: Value, seed: u64) -> Result<Vec<Check>, KitError> {
    let setup = Setup::of_all_types(config).map_err(KitError::Usage)?;
    Ok(properties::check(bench, &setup, seed))
}

impl Setup {
    /// A table with a column of each type, called after it.
    pub(crate) fn of_all_types(config: Value) -> Result<Setup, String> {
        let types = ALL
            .iter()
            .map(|declared| SqlType::parse(declared))
            .collect::<Result<Vec<SqlType>, String>>()?;
        let id = SqlType::parse("int")?;
        let columns = std::iter::once(("id".to_owned(), &id, Some(1)))
            .chain(types.iter().enumerate().map(|(at, sql_type)| {
                let twice = types.iter().filter(|other| other.name == sql_type.name).count() > 1;
                let name = match twice {
                    true => format!("{}_{}", sql_type.name, at + 1),
                    false => sql_type.name.clone(),
                };
                (name, sql_type, None)
            }))
            .map(|(name, sql_type, key)| ColumnShape {
                name,
                source_type: sql_type.text(),
                data_type: sql_type.arrow(),
                key,
                recorded: Recorded::Always,
            })
            .collect();
        Ok(Setup {
            shape: TableShape {
                schema: "dbo".to_owned(),
                table: "every_type".to_owned(),
                capture_instance: CaptureInstance("dbo_every_type".to_owned()),
                has_command_id: true,
                columns,
            },
            types: std::iter::once(id).chain(types).collect(),
            config,
            keys: Vec::new(),
            lookups: Vec::new(),
            protect: Vec::new(),
            shows: Shows::default(),
        })
    }
}

fn open_error(bench: &Workbench, setup: &Setup, words: &str) -> Verdict {
    match bench.open(setup) {
        Ok(_) => Verdict::Failed(format!(
            "the component opens, and was expected to refuse with {words:?}"
        )),
        Err(error) => has_words(&bench.say(&error), words),
    }
}

fn batch_error(bench: &Workbench, fixture: &Fixture, words: &str) -> Verdict {
    let Some(rows) = &fixture.rows else {
        return Verdict::Failed("there are no rows".to_owned());
    };
    match bench.open(&fixture.setup).and_then(|chain| run(&chain, rows)) {
        Ok(_) => Verdict::Failed(format!(
            "the batch comes through, and was expected to fail with {words:?}"
        )),
        Err(error) => has_words(&bench.say(&error), words),
    }
}

fn has_words(message: &str, words: &str) -> Verdict {
    if message.contains(words) {
        Verdict::Ok(None)
    } else {
        Verdict::Failed(format!(
            "the message is {message:?}, and was expected to have {words:?} in it"
        ))
    }
}

fn expected_rows(
    bench: &Workbench,
    fixture: &Fixture,
    rejects: &[ExpectedReject],
    bless: bool,
) -> Result<Vec<Check>, KitError> {
    let Some(rows) = &fixture.rows else {
        return Ok(Vec::new());
    };
    let (opened, said) = hear(|| bench.open(&fixture.setup));
    let chain = match opened {
        Ok(chain) => chain,
        Err(error) => return Ok(vec![Check::new(OPENS, Verdict::Failed(bench.say(&error))).saying(said)]),
    };
    let (ran, said) = hear(|| run(&chain, rows));
    let said = of_rows(fixture, said);
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => return Ok(vec![Check::new(ROWS, Verdict::Failed(bench.say(&error))).saying(said)]),
    };
    let mut checks = Vec::new();
    if !rejects.is_empty() || !ran.rejects.is_empty() {
        checks.push(Check::new("rejects", compare_rejects(rejects, &ran.rejects)));
    }
    let verdict = golden_file(fixture, &golden::render(&ran, chain.output()), &ran, bless)?;
    checks.push(Check::new("golden", verdict));
    // Both come of one call; what was said in it is told once.
    if let Some(check) = checks.iter_mut().find(|check| check.failed()) {
        check.said = said;
    }
    Ok(checks)
}

fn compare_rejects(expected: &[ExpectedReject], came: &[Rejected]) -> Verdict {
    let came: Vec<ExpectedReject> = came
        .iter()
        .map(|rejected| ExpectedReject {
            row: rejected.row + 1,
            column: rejected.column.clone(),
            code: rejected.code.clone(),
        })
        .collect();
    let missing = expected.iter().filter(|reject| !came.contains(reject));
    let unexpected = came.iter().filter(|reject| !expected.contains(reject));
    let about = came.iter().find_map(|reject| about_code(&reject.code));
    let about = about.map(|about| format!(" ({about})")).unwrap_or_default();
    let told: Vec<String> = missing
        .map(|reject| format!("{} was expected and did not come", say_reject(reject)))
        .chain(unexpected.map(|reject| format!("{} was not expected", say_reject(reject))))
        .collect();
    if told.is_empty() {
        Verdict::Ok(Some(counted(came.len(), "row")))
    } else {
        let told = told.join(", ");
        let place = match expected.is_empty() {
            true => "say above `[table]` in the fixture",
            false => "write in the fixture, in place of its `rejects`,",
        };
        Verdict::Failed(format!(
            "{told}{about}; mend the component, or, if that is right, {place} `rejects = [{}]`",
            line_of(&came)
        ))
    }
}

/// The rejects as a fixture has them, or how one is written where they are too many to read.
fn line_of(rejects: &[ExpectedReject]) -> String {
    const MOST: usize = 20;
    if rejects.len() > MOST {
        return "{ row = 1, column = \"…\", code = \"…\" }, …".to_owned();
    }
    let text = |text: &str| toml::Value::from(text).to_string();
    let of = |reject: &ExpectedReject| {
        let (column, code) = (text(&reject.column), text(&reject.code));
        format!("{{ row = {}, column = {column}, code = {code} }}", reject.row)
    };
    rejects.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn say_reject(reject: &ExpectedReject) -> String {
    format!(
        "a reject of row {} (`{}`, column `{}`)",
        reject.row, reject.code, reject.column
    )
}

fn golden_file(fixture: &Fixture, actual: &str, ran: &Ran, bless: bool) -> Result<Verdict, KitError> {
    let file = fixture.golden.as_path();
    let rows = ran.batch.num_rows();
    let expected = match std::fs::read_to_string(file) {
        Ok(expected) => Some(expected),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(KitError::system("read", file)(error)),
    };
    let differences = match &expected {
        None => vec![format!("there is no {}", file.display())],
        Some(expected) => match golden::differences(expected, actual, !fixture.from_file) {
            Ok(differences) => differences,
            Err(reason) => vec![format!("{} cannot be read: {reason}", file.display())],
        },
    };
    if differences.is_empty() {
        return Ok(Verdict::Ok(Some(counted(rows, "row"))));
    }
    if bless {
        std::fs::write(file, actual).map_err(KitError::system("write", file))?;
        return Ok(Verdict::Ok(Some(format!(
            "wrote {} with {}; read it before you commit it",
            file.display(),
            counted(rows, "row")
        ))));
    }
    Ok(Verdict::Failed(format!(
        "{}; if that is as it should be, run again with --bless",
        differences.join("; ")
    )))
}
