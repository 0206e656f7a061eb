//! A fixture: a table, a configuration, rows, and what is to come out. `docs/reference/plugin-kit.md` has the format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use serde::Deserialize;
use serde_json::Value;

use super::csv::{self, Cell};
use super::error::KitError;
use super::rows::{self, OPERATIONS};
use super::shows::{RawShow, Shows};
use super::sql_type::SqlType;
use super::values;
use crate::config::{json_of, nearest};
use crate::identity::CaptureInstance;
use crate::shape::{ColumnShape, Recorded, TableShape};
use crate::transform::MIN_SECRET_BYTES;

/// What a component is opened for.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) shape: TableShape,
    /// The declared type of each column.
    pub(crate) types: Vec<SqlType>,
    pub(crate) config: Value,
    /// Names and test secrets.
    pub(crate) keys: Vec<(String, String)>,
    /// Names and files of reference tables.
    pub(crate) lookups: Vec<(String, PathBuf)>,
    pub(crate) protect: Vec<String>,
    /// Where values may come out, or parts of them.
    pub(crate) shows: Shows,
}

/// A fixture of `plugin test`.
#[derive(Clone, Debug)]
pub(crate) struct Fixture {
    /// Its file's name without `.toml`.
    pub(crate) name: String,
    pub(crate) setup: Setup,
    /// Its rows, where it has any.
    pub(crate) rows: Option<RecordBatch>,
    /// Whether they stand in a file of their own, and so may be somebody's.
    pub(crate) from_file: bool,
    pub(crate) expect: Expect,
    /// Whether its table is tried on made-up rows, too.
    pub(crate) properties: bool,
    /// `NAME.expected.csv` beside it.
    pub(crate) golden: PathBuf,
}

/// What is to come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// The component does not open, and the message has these words in it.
    OpenError(String),
    /// The component fails the batch, and the message has these words in it.
    BatchError(String),
    /// These rejects, and the rows of the golden file.
    Rows(Vec<ExpectedReject>),
}

/// A reject that a fixture expects.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedReject {
    /// The row, from 1, as the fixture has them.
    pub(crate) row: u32,
    pub(crate) column: String,
    pub(crate) code: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    table: RawTable,
    config: Option<toml::Value>,
    #[serde(default)]
    keys: toml::Table,
    #[serde(default)]
    lookups: BTreeMap<String, PathBuf>,
    #[serde(default)]
    protect: Vec<String>,
    #[serde(default)]
    shows: Vec<RawShow>,
    rows: Option<String>,
    rows_file: Option<PathBuf>,
    open_error: Option<String>,
    batch_error: Option<String>,
    #[serde(default)]
    rejects: Vec<ExpectedReject>,
    properties: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    schema: Option<String>,
    name: Option<String>,
    capture_instance: Option<String>,
    columns: Vec<RawColumn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawColumn {
    name: String,
    #[serde(rename = "type")]
    sql_type: String,
    key: Option<u32>,
}

/// The fixtures of a folder, by name: its `*.toml`.
///
/// # Errors
/// When the folder or one of them cannot be read.
pub(crate) fn fixtures_in(dir: &Path) -> Result<Vec<Fixture>, KitError> {
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(KitError::system("read", dir))? {
        let path = entry.map_err(KitError::system("read", dir))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|file| Fixture::read(file)).collect()
}

impl Fixture {
    /// Reads a fixture, and its rows where they stand in a file of their own.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn read(file: &Path) -> Result<Fixture, KitError> {
        let text = std::fs::read_to_string(file).map_err(KitError::system("read", file))?;
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("fixture");
        let wrong = |reason: String| KitError::file(file, reason);
        let raw: Raw = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let types = raw
            .table
            .columns
            .iter()
            .map(|column| {
                SqlType::parse(&column.sql_type).map_err(|reason| format!("column `{}`: {reason}", column.name))
            })
            .collect::<Result<Vec<SqlType>, String>>()
            .map_err(wrong)?;
        let shape = shape(&raw.table, &types, name).map_err(wrong)?;
        let config = match &raw.config {
            Some(config) => json_of(config).map_err(|path| wrong(format!("config{path} must be finite")))?,
            None => Value::Object(serde_json::Map::new()),
        };
        let setup = Setup {
            keys: keys(&raw.keys).map_err(wrong)?,
            lookups: raw
                .lookups
                .iter()
                .map(|(name, path)| (name.clone(), file.with_file_name(path)))
                .collect(),
            shows: shows(&shape, &raw.shows).map_err(wrong)?,
            protect: columns_of(&shape, "protect", &raw.protect).map_err(wrong)?,
            shape,
            types,
            config,
        };
        let rows = match (&raw.rows, &raw.rows_file) {
            (Some(_), Some(_)) => return Err(wrong("has both `rows` and `rows_file`; keep one".to_owned())),
            (Some(text), None) => Some(setup.rows(text).map_err(|reason| wrong(format!("rows: {reason}")))?),
            (None, Some(path)) => Some(setup.rows_of_file(&file.with_file_name(path))?),
            (None, None) => None,
        };
        let expect = expect(&raw, rows.as_ref()).map_err(wrong)?;
        Ok(Fixture {
            name: name.to_owned(),
            golden: file.with_file_name(format!("{name}.expected.csv")),
            setup,
            rows,
            from_file: raw.rows_file.is_some(),
            properties: raw.properties.unwrap_or(true),
            expect,
        })
    }
}

impl Setup {
    /// The chunk of a CSV text whose first record names columns of the table, in any order, and may name `_operation`. A
    /// column that it does not name is NULL.
    ///
    /// # Errors
    /// A sentence: the line, the column, and what is wrong.
    pub(crate) fn rows(&self, text: &str) -> Result<RecordBatch, String> {
        self.rows_of_text(text, true)
    }

    /// `made_up` says that no cell is somebody's, so that one may stand in a message.
    fn rows_of_text(&self, text: &str, made_up: bool) -> Result<RecordBatch, String> {
        let mut records = csv::parse(text)?.into_iter();
        let (_, header) = records.next().ok_or("there is no header")?;
        let mut places: Vec<Option<usize>> = vec![None; self.shape.columns.len()];
        let mut operation = None;
        for (at, name) in header.iter().enumerate() {
            let name = name.as_deref().unwrap_or_default();
            let place = match self.shape.columns.iter().position(|column| column.name == name) {
                Some(column) => &mut places[column],
                None if name == "_operation" => &mut operation,
                None if made_up => return Err(self.no_column(name)),
                // Where the header was forgotten, this is a value.
                None => {
                    return Err(format!(
                        "field {} of the first line names no column of the table; the first line is the header",
                        at + 1
                    ));
                }
            };
            if place.replace(at).is_some() {
                return Err(format!("the header has `{name}` twice"));
            }
        }
        let mut lines = Vec::new();
        let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); header.len()];
        for (line, record) in records {
            if record.len() != header.len() {
                return Err(format!(
                    "line {line} has {} fields, and the header has {}",
                    record.len(),
                    header.len()
                ));
            }
            lines.push(line);
            for (column, cell) in cells.iter_mut().zip(record) {
                column.push(cell);
            }
        }
        let operations = match operation {
            Some(at) => operations(&cells[at], &lines, made_up)?,
            None => vec![2; lines.len()],
        };
        let nulls = vec![None; lines.len()];
        let columns = self
            .shape
            .columns
            .iter()
            .zip(places)
            .map(|(column, place)| {
                let cells = place.map_or(&nulls, |at| &cells[at]);
                values::parse(&column.data_type, cells).map_err(|(row, reason)| {
                    let line = lines.get(row).copied().unwrap_or_default();
                    format!("line {line}, column `{}`: {reason}", column.name)
                })
            })
            .collect::<Result<_, String>>()?;
        rows::chunk(&self.shape, &operations, columns)
    }

    /// The same of a file, whose rows may have been captured: no message has a cell of it.
    ///
    /// # Errors
    /// As [`Setup::rows`], with the file.
    pub(crate) fn rows_of_file(&self, file: &Path) -> Result<RecordBatch, KitError> {
        let text = std::fs::read_to_string(file).map_err(KitError::system("read", file))?;
        self.rows_of_text(&text, false)
            .map_err(|reason| KitError::file(file, reason))
    }

    /// That the table has no such column, with the nearest.
    fn no_column(&self, name: &str) -> String {
        no_column(&self.shape, name)
    }
}

fn no_column(shape: &TableShape, name: &str) -> String {
    let known = shape.columns.iter().map(|column| column.name.as_str());
    let meant = nearest(name, known)
        .map(|meant| format!("; did you mean `{meant}`?"))
        .unwrap_or_default();
    format!("the table has no column `{name}`{meant}")
}

fn shape(raw: &RawTable, types: &[SqlType], fixture: &str) -> Result<TableShape, String> {
    let schema = raw.schema.clone().unwrap_or_else(|| "dbo".to_owned());
    let table = raw.name.clone().unwrap_or_else(|| fixture.to_owned());
    if raw.columns.is_empty() {
        return Err("`table.columns` is empty; list the table's columns with their types".to_owned());
    }
    for (at, column) in raw.columns.iter().enumerate() {
        if column.name.is_empty() || column.name == "_operation" {
            return Err(format!("column {} cannot be called `{}`", at + 1, column.name));
        }
        if raw.columns[..at].iter().any(|other| other.name == column.name) {
            return Err(format!("column `{}` is listed twice", column.name));
        }
    }
    let columns = raw.columns.iter().zip(types).map(|(column, sql_type)| ColumnShape {
        name: column.name.clone(),
        source_type: sql_type.text(),
        data_type: sql_type.arrow(),
        key: column.key,
        recorded: Recorded::Always,
    });
    Ok(TableShape {
        capture_instance: CaptureInstance(
            raw.capture_instance
                .clone()
                .unwrap_or_else(|| format!("{schema}_{table}")),
        ),
        schema,
        table,
        has_command_id: true,
        columns: columns.collect(),
    })
}

fn keys(raw: &toml::Table) -> Result<Vec<(String, String)>, String> {
    raw.iter()
        .map(|(name, secret)| {
            let secret = secret
                .as_str()
                .filter(|secret| secret.len() >= MIN_SECRET_BYTES)
                .ok_or_else(|| {
                    format!("key `{name}` is to be a text of at least {MIN_SECRET_BYTES} bytes; make one up, for tests alone")
                })?;
            Ok((name.clone(), secret.to_owned()))
        })
        .collect()
}

fn columns_of(shape: &TableShape, what: &str, names: &[String]) -> Result<Vec<String>, String> {
    match names
        .iter()
        .find(|name| !shape.columns.iter().any(|column| column.name == **name))
    {
        Some(name) => Err(format!("`{what}`: {}", no_column(shape, name))),
        None => Ok(names.to_vec()),
    }
}

fn shows(shape: &TableShape, raw: &[RawShow]) -> Result<Shows, String> {
    let columns: Vec<String> = raw.iter().map(|show| show.column().to_owned()).collect();
    columns_of(shape, "shows", &columns)?;
    Shows::new(raw)
}

fn operations(cells: &[Cell], lines: &[usize], made_up: bool) -> Result<Vec<i32>, String> {
    cells
        .iter()
        .zip(lines)
        .map(|(cell, line)| {
            let word = cell.as_deref().unwrap_or("insert");
            OPERATIONS
                .iter()
                .position(|known| *known == word)
                .and_then(|at| i32::try_from(at).ok())
                .ok_or_else(|| {
                    let word = match made_up {
                        true => format!("`{word}`"),
                        false => "`_operation`".to_owned(),
                    };
                    format!(
                        "line {line}: {word} is no operation; they are {}",
                        OPERATIONS.join(", ")
                    )
                })
        })
        .collect()
}

fn expect(raw: &Raw, rows: Option<&RecordBatch>) -> Result<Expect, String> {
    let errors = [&raw.open_error, &raw.batch_error].into_iter().flatten().count();
    if errors > 1 || errors == 1 && !raw.rejects.is_empty() {
        return Err("expects more than one of `open_error`, `batch_error` and `rejects`; keep one".to_owned());
    }
    let count = rows.map_or(0, RecordBatch::num_rows);
    if let Some(reject) = raw
        .rejects
        .iter()
        .find(|reject| !(1..=count).contains(&(reject.row as usize)))
    {
        return Err(format!(
            "`rejects` names row {}, and there are {count} rows",
            reject.row
        ));
    }
    Ok(match (&raw.open_error, &raw.batch_error) {
        (Some(words), _) => Expect::OpenError(words.clone()),
        (None, Some(_)) if count == 0 => return Err("expects `batch_error` and has no rows".to_owned()),
        (None, Some(words)) => Expect::BatchError(words.clone()),
        (None, None) => Expect::Rows(raw.rejects.clone()),
    })
}
