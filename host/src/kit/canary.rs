//! Values that are in no table, planted in every column, and the search for them in what comes out.
//!
//! A value that comes through whole is found in any row, as text, in another case, without its punctuation, in hexadecimal,
//! in base64, as UTF-16 and as a number. A part of a value (four letters of a text, a date of a moment) may be there by
//! chance, so it counts only where a quarter of the rows shows a part of its own value.

use std::collections::BTreeSet;

use arrow::array::{Array as _, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use base64::Engine as _;
use memchr::memmem;
use rand::Rng;
use rand::rngs::StdRng;

use super::csv::Cell;
use super::fixture::Setup;
use super::generate;
use super::rows::{self, Ran};
use super::sql_type::SqlType;
use super::values;

/// Rows with canaries.
const ROWS: usize = 48;
/// A shorter value may be there by chance.
const MIN_WHOLE: usize = 8;
/// Letters of a text that are a part of it.
const PART: usize = 4;
/// No hexadecimal digits and few words.
const ALPHABET: &[u8] = b"ghjkmnpqrstvwxz";

/// What to look for after one value was planted.
#[derive(Debug, Default)]
struct Canary {
    /// Any of them, anywhere, is the whole value.
    whole: Vec<Vec<u8>>,
    /// Any of them, in the value's own row, is a part of it.
    parts: Vec<Vec<u8>>,
}

/// A chunk with canaries.
pub(crate) struct Canaries {
    pub(crate) chunk: RecordBatch,
    /// One a row; absent for a column whose type has too few values.
    columns: Vec<Option<Vec<Canary>>>,
}

/// A column whose values came out in another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Escape {
    /// Position among the table's columns.
    pub(crate) source: usize,
    /// Position among the output's.
    pub(crate) output: usize,
    /// Whole values, and not only parts of them.
    pub(crate) whole: bool,
    /// Rows that show one.
    pub(crate) rows: usize,
}

impl Canaries {
    /// Plants canaries in every column that can have them; the others have ordinary values.
    ///
    /// # Errors
    /// A sentence; a fault of the kit.
    pub(crate) fn plant(setup: &Setup, random: &mut StdRng) -> Result<Canaries, String> {
        let mut columns = Vec::new();
        let mut arrays = Vec::new();
        for sql_type in &setup.types {
            let mut canaries = Vec::new();
            let mut cells: Vec<Cell> = Vec::new();
            for row in 0..ROWS {
                match plant(sql_type, row, random) {
                    Some((value, canary)) => {
                        canaries.push(canary);
                        cells.push(Some(value));
                    }
                    None => cells.push(Some(generate::value(sql_type, random))),
                }
            }
            arrays.push(generate::column(sql_type, &cells)?);
            columns.push((canaries.len() == ROWS).then_some(canaries));
        }
        Ok(Canaries {
            chunk: rows::chunk(&setup.shape, &[2; ROWS], arrays)?,
            columns,
        })
    }

    /// Whether a column has canaries.
    pub(crate) fn has(&self, column: usize) -> bool {
        self.columns.get(column).is_some_and(Option::is_some)
    }

    /// Where values of these source columns are in what came out.
    pub(crate) fn escaped(&self, ran: &Ran, sources: &[usize]) -> Vec<Escape> {
        let outputs: Vec<Haystack> = ran.columns().iter().map(Haystack::new).collect();
        let mut escapes = Vec::new();
        for source in sources {
            let Some(Some(canaries)) = self.columns.get(*source) else {
                continue;
            };
            for (output, hay) in outputs.iter().enumerate() {
                let whole: BTreeSet<usize> = canaries
                    .iter()
                    .flat_map(|canary| &canary.whole)
                    .flat_map(|needle| hay.rows_with(needle))
                    .collect();
                let parts = ran
                    .origin
                    .iter()
                    .enumerate()
                    .filter(|(row, origin)| {
                        canaries
                            .get(**origin as usize)
                            .is_some_and(|canary| canary.parts.iter().any(|part| hay.row_has(*row, part)))
                    })
                    .count();
                let enough = (ran.origin.len() / 4).max(3);
                if !whole.is_empty() || parts >= enough {
                    escapes.push(Escape {
                        source: *source,
                        output,
                        whole: !whole.is_empty(),
                        rows: whole.len().max(parts),
                    });
                }
            }
        }
        escapes
    }
}

/// The value for a row, and what to look for.
fn plant(sql_type: &SqlType, row: usize, random: &mut StdRng) -> Option<(String, Canary)> {
    let longest = sql_type.longest();
    match sql_type.name.as_str() {
        "bit" | "tinyint" | "vector" => None,
        "smallint" => Some(short(random.random_range(10_000..32_000_u32).to_string())),
        "int" => Some(number(random.random_range(100_000_000..2_000_000_000_u32).to_string())),
        "bigint" => Some(number(
            random.random_range(10_u64.pow(17)..9 * 10_u64.pow(18)).to_string(),
        )),
        "real" => Some(short(format!(
            "{:?}",
            random.random_range(1_000_000..9_000_000_u32) as f32
        ))),
        "float" => Some(number(format!(
            "{:?}",
            random.random_range(10_u64.pow(11)..9 * 10_u64.pow(11)) as f64 + 0.5
        ))),
        "decimal" | "numeric" | "money" | "smallmoney" => {
            let (precision, scale) = match sql_type.name.as_str() {
                "money" => (14, 4),
                "smallmoney" => (9, 4),
                _ => (
                    usize::from(sql_type.precision.unwrap_or(18)).min(30),
                    usize::from(sql_type.scale.unwrap_or(0)),
                ),
            };
            if precision < PART || precision < scale {
                return None;
            }
            let value = generate::decimal(precision, scale, random);
            Some(if precision > MIN_WHOLE {
                number(value)
            } else {
                short(value)
            })
        }
        "date" => Some(short(generate::date(random))),
        "datetime" | "smalldatetime" | "datetime2" | "datetimeoffset" => {
            let value = generate::moment(random);
            let canary = Canary {
                // To the second: the rest may be cut off.
                whole: vec![value.as_bytes()[..19].to_vec(), squeezed(&value[..19])],
                parts: vec![value.as_bytes()[..10].to_vec()],
            };
            let zone = if sql_type.name == "datetimeoffset" { "Z" } else { "" };
            Some((value + zone, canary))
        }
        "time" => Some(short(generate::moment(random)[11..19].to_owned())),
        "uniqueidentifier" => {
            let value = generate::uuid(random);
            let canary = Canary {
                whole: forms(&value),
                parts: Vec::new(),
            };
            Some((value, canary))
        }
        "binary" | "varbinary" | "image" | "timestamp" | "rowversion" => {
            // `rowversion` has eight bytes.
            let length = if sql_type.name.ends_with("version") || sql_type.name == "timestamp" {
                8
            } else {
                16.min(longest)
            };
            if length < MIN_WHOLE {
                return None;
            }
            let bytes: Vec<u8> = (0..length).map(|_| random.random()).collect();
            let hex = hex(&bytes);
            let canary = Canary {
                whole: vec![bytes.to_ascii_lowercase(), hex.clone().into_bytes(), base64(&bytes)],
                parts: Vec::new(),
            };
            Some((format!("0x{hex}"), canary))
        }
        "json" | "xml" => {
            let token = token(12, random);
            let value = match sql_type.name.as_str() {
                "json" => format!("{{\"a\":\"{token}\"}}"),
                _ => format!("<a><b>{token}</b></a>"),
            };
            Some((value, text(&[&token])))
        }
        _ if longest < PART => None,
        _ if longest < 30 => {
            let token = token(longest.min(12), random);
            let canary = text(&[&token]);
            Some((token, canary))
        }
        // Methods look at what a text is: a mail address, a number, words.
        _ => Some(match row % 3 {
            0 => {
                let (first, last) = (token(8, random), token(9, random));
                let canary = text(&[&first, &last]);
                (format!("{first} {last}"), canary)
            }
            1 => {
                let (local, domain) = (token(9, random), token(8, random));
                let canary = text(&[&local, &domain]);
                (format!("{local}@{domain}.example"), canary)
            }
            _ => number(random.random_range(10_u64.pow(11)..10_u64.pow(12)).to_string()),
        }),
    }
}

fn token(length: usize, random: &mut StdRng) -> String {
    (0..length)
        .map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())]))
        .collect()
}

/// Words of a text. Four letters of one are a part of it.
fn text(tokens: &[&str]) -> Canary {
    let long = |token: &&&str| token.len() >= MIN_WHOLE;
    Canary {
        whole: tokens.iter().filter(long).flat_map(|token| forms(token)).collect(),
        parts: tokens
            .iter()
            .flat_map(|token| token.as_bytes().windows(PART))
            .map(<[u8]>::to_vec)
            .collect(),
    }
}

/// A value whose digits are looked for everywhere.
fn number(value: String) -> (String, Canary) {
    // Zeros behind the point may be left out.
    let digits = match value.contains('.') {
        true => value.trim_end_matches('0').trim_end_matches('.'),
        false => &value,
    };
    let canary = Canary {
        whole: forms(digits),
        parts: Vec::new(),
    };
    (value, canary)
}

/// A value that is too short to be looked for in other rows.
fn short(value: String) -> (String, Canary) {
    let canary = Canary {
        whole: Vec::new(),
        parts: vec![value.trim_end_matches(".0").as_bytes().to_vec()],
    };
    (value, canary)
}

/// A text as it may be written, in lower case.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let lower = text.to_lowercase();
    let utf16: Vec<u8> = lower.encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        squeezed(&lower),
        hex(text.as_bytes()).into_bytes(),
        base64(text.as_bytes()),
        utf16,
        lower.into_bytes(),
    ]
}

/// Letters and digits alone, in lower case.
fn squeezed(text: &str) -> Vec<u8> {
    let kept: String = text.chars().filter(|char| char.is_alphanumeric()).collect();
    kept.to_lowercase().into_bytes()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In lower case, without the end, which depends on what follows.
fn base64(bytes: &[u8]) -> Vec<u8> {
    let whole = bytes.len() / 3 * 3;
    let text = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&bytes[..whole]);
    text.to_lowercase().into_bytes()
}

/// The cells of an output column in the forms that are searched.
struct Haystack {
    /// For each row the text, the text without punctuation, and the bytes, with a byte between them that no needle has.
    cells: Vec<Vec<u8>>,
    /// All rows, and where each begins.
    all: Vec<u8>,
    starts: Vec<usize>,
}

/// Stands in no needle that is text, and in a binary one too rarely to matter.
const BETWEEN: u8 = b'\n';

impl Haystack {
    fn new(column: &ArrayRef) -> Haystack {
        let texts = values::format(column);
        let mut cells = Vec::with_capacity(texts.len());
        for (row, text) in texts.iter().enumerate() {
            let mut cell = Vec::new();
            if let Some(text) = text {
                cell.extend(text.to_lowercase().into_bytes());
                cell.push(BETWEEN);
                cell.extend(squeezed(text));
                if *column.data_type() == DataType::Binary {
                    cell.push(BETWEEN);
                    cell.extend(column.as_binary::<i32>().value(row).to_ascii_lowercase());
                }
            }
            cells.push(cell);
        }
        let (mut all, mut starts) = (Vec::new(), Vec::new());
        for cell in &cells {
            starts.push(all.len());
            all.extend_from_slice(cell);
            all.push(BETWEEN);
        }
        Haystack { cells, all, starts }
    }

    fn rows_with<'a>(&'a self, needle: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let long = needle.len() >= MIN_WHOLE;
        memmem::find_iter(if long { &self.all[..] } else { &[] }, needle)
            .map(|at| self.starts.partition_point(|start| *start <= at).saturating_sub(1))
    }

    fn row_has(&self, row: usize, needle: &[u8]) -> bool {
        self.cells
            .get(row)
            .is_some_and(|cell| memmem::find(cell, needle).is_some())
    }
}
