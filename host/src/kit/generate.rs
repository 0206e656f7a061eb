//! Made-up rows for the properties: by a seed, of every type, with NULLs and with the ends of each type's range.

use arrow::array::{ArrayRef, RecordBatch};
use rand::Rng;
use rand::rngs::StdRng;

use super::csv::Cell;
use super::fixture::Setup;
use super::rows;
use super::sql_type::SqlType;
use super::values;

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
/// Words that make text look like a person's.
const WORDS: [&str; 8] = ["anna", "Béla", "O'Neill", "Budapest", "12/A", "köz", "李", "x"];

/// `rows` rows or one more: inserts, deletes and updates, a tenth of the values NULL.
///
/// # Errors
/// A sentence; a fault of the kit.
pub(crate) fn chunk(setup: &Setup, rows: usize, random: &mut StdRng) -> Result<RecordBatch, String> {
    let mut operations = Vec::with_capacity(rows + 1);
    while operations.len() < rows {
        match random.random_range(0..4) {
            0 => operations.push(1),
            1 => operations.extend([3, 4]),
            _ => operations.push(2),
        }
    }
    let columns = setup.types.iter().map(|sql_type| {
        let cells: Vec<Cell> = (0..operations.len())
            .map(|_| (!random.random_bool(0.1)).then(|| value(sql_type, random)))
            .collect();
        column(sql_type, &cells)
    });
    let columns = columns.collect::<Result<_, String>>()?;
    rows::chunk(&setup.shape, &operations, columns)
}

/// Rows with the ends of each type's range, beside one another.
///
/// # Errors
/// A sentence; a fault of the kit.
pub(crate) fn extremes(setup: &Setup) -> Result<RecordBatch, String> {
    let ends: Vec<Vec<String>> = setup.types.iter().map(ends).collect();
    let rows = ends.iter().map(Vec::len).max().unwrap_or(1);
    let columns = setup.types.iter().zip(&ends).map(|(sql_type, ends)| {
        let cells: Vec<Cell> = ends.iter().cycle().take(rows).cloned().map(Some).collect();
        column(sql_type, &cells)
    });
    let columns = columns.collect::<Result<_, String>>()?;
    rows::chunk(&setup.shape, &vec![2; rows], columns)
}

/// Rows in which every column is NULL, or the columns of `only` are and the others have values.
///
/// # Errors
/// A sentence; a fault of the kit.
pub(crate) fn nulls(setup: &Setup, only: Option<usize>, random: &mut StdRng) -> Result<RecordBatch, String> {
    let operations = [2, 3, 4, 1];
    let columns = setup.types.iter().enumerate().map(|(at, sql_type)| {
        let null = only.is_none_or(|only| only == at);
        let cells: Vec<Cell> = operations
            .iter()
            .map(|_| (!null).then(|| value(sql_type, random)))
            .collect();
        column(sql_type, &cells)
    });
    let columns = columns.collect::<Result<_, String>>()?;
    rows::chunk(&setup.shape, &operations, columns)
}

/// An array of generated cells.
pub(crate) fn column(sql_type: &SqlType, cells: &[Cell]) -> Result<ArrayRef, String> {
    values::parse(&sql_type.arrow(), cells).map_err(|(_, reason)| format!("type {}: {reason}", sql_type.text()))
}

/// A value of a type.
pub(crate) fn value(sql_type: &SqlType, random: &mut StdRng) -> String {
    match sql_type.name.as_str() {
        "bit" => random.random_bool(0.5).to_string(),
        "tinyint" => random.random_range(0..=255_u8).to_string(),
        "smallint" => random.random::<i16>().to_string(),
        "int" => random.random_range(-1000..1_000_000_i32).to_string(),
        "bigint" => random.random::<i64>().to_string(),
        "real" => format!("{:?}", random.random_range(-1000.0..1000.0_f32)),
        "float" => format!("{:?}", random.random_range(-1e6..1e6_f64)),
        "decimal" | "numeric" => decimal(
            usize::from(sql_type.precision.unwrap_or(18)),
            usize::from(sql_type.scale.unwrap_or(0)),
            random,
        ),
        "money" => decimal(10, 4, random),
        "smallmoney" => decimal(9, 4, random),
        "date" => date(random),
        "datetime" | "smalldatetime" | "datetime2" => moment(random),
        "datetimeoffset" => moment(random) + "Z",
        "time" => moment(random)[11..19].to_owned(),
        "uniqueidentifier" => uuid(random),
        "binary" | "varbinary" | "image" | "timestamp" | "rowversion" => {
            let length = sql_type.longest().min(16);
            let length = if sql_type.name == "binary" {
                length
            } else {
                random.random_range(0..=length)
            };
            (0..length).fold("0x".to_owned(), |text, _| {
                text + &format!("{:02x}", random.random::<u8>())
            })
        }
        "xml" => format!("<a><b>{}</b></a>", letters(6, random)),
        "json" => format!(
            "{{\"a\":\"{}\",\"n\":{}}}",
            letters(6, random),
            random.random_range(0..100)
        ),
        "vector" => format!("[{:?},{:?}]", random.random::<f32>(), random.random::<f32>()),
        _ => text(sql_type.longest(), random),
    }
}

fn text(longest: usize, random: &mut StdRng) -> String {
    let value = match random.random_range(0..4) {
        0 => format!("{}@{}.example", letters(6, random), letters(5, random)),
        1 => format!("+36 {}", random.random_range(1_000_000..9_999_999_u32)),
        2 => String::new(),
        _ => {
            let words = (0..random.random_range(1..5)).map(|_| WORDS[random.random_range(0..WORDS.len())]);
            words.collect::<Vec<&str>>().join(" ")
        }
    };
    cut(&value, longest)
}

/// The first characters, counted as `nvarchar` does.
pub(crate) fn cut(value: &str, longest: usize) -> String {
    let mut units = 0;
    value
        .chars()
        .take_while(|char| {
            units += char.len_utf16();
            units <= longest
        })
        .collect()
}

/// Random letters.
pub(crate) fn letters(count: usize, random: &mut StdRng) -> String {
    (0..count)
        .map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())]))
        .collect()
}

/// A decimal with all its digits, the first of which is not 0.
pub(crate) fn decimal(precision: usize, scale: usize, random: &mut StdRng) -> String {
    let mut digits: String = (0..precision)
        .map(|at| char::from(b'0' + random.random_range(u8::from(at == 0)..=9)))
        .collect();
    if scale > 0 {
        digits.insert(precision - scale, '.');
        if digits.starts_with('.') {
            digits.insert(0, '0');
        }
    }
    digits
}

pub(crate) fn date(random: &mut StdRng) -> String {
    format!(
        "{:04}-{:02}-{:02}",
        random.random_range(1920..2025),
        random.random_range(1..=12),
        random.random_range(1..=28)
    )
}

pub(crate) fn moment(random: &mut StdRng) -> String {
    format!(
        "{} {:02}:{:02}:{:02}.{:06}",
        date(random),
        random.random_range(0..24),
        random.random_range(0..60),
        random.random_range(0..60),
        random.random_range(1..1_000_000)
    )
}

pub(crate) fn uuid(random: &mut StdRng) -> String {
    let bits: u128 = random.random();
    uuid::Uuid::from_u128(bits).to_string().to_uppercase()
}

/// The ends of a type's range, and what is easily forgotten between them.
fn ends(sql_type: &SqlType) -> Vec<String> {
    let all = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<String>>();
    match sql_type.name.as_str() {
        "bit" => all(&["true", "false"]),
        "tinyint" => all(&["0", "255"]),
        "smallint" => all(&["-32768", "32767", "0", "-1"]),
        "int" => all(&["-2147483648", "2147483647", "0", "-1"]),
        "bigint" => all(&["-9223372036854775808", "9223372036854775807", "0", "-1"]),
        "real" => vec![
            format!("{:?}", f32::MIN),
            format!("{:?}", f32::MAX),
            format!("{:?}", f32::MIN_POSITIVE),
            "-0.0".to_owned(),
        ],
        "float" => vec![
            format!("{:?}", f64::MIN),
            format!("{:?}", f64::MAX),
            format!("{:?}", f64::MIN_POSITIVE),
            "-0.0".to_owned(),
        ],
        "decimal" | "numeric" | "money" | "smallmoney" => {
            let (precision, scale) = match sql_type.name.as_str() {
                "money" => (19, 4),
                "smallmoney" => (10, 4),
                _ => (
                    usize::from(sql_type.precision.unwrap_or(18)),
                    usize::from(sql_type.scale.unwrap_or(0)),
                ),
            };
            // What `money` itself ends at is a little less; every decimal of that width is in the column's type.
            let mut nines = "9".repeat(precision);
            if scale > 0 {
                nines.insert(precision - scale, '.');
                if nines.starts_with('.') {
                    nines.insert(0, '0');
                }
            }
            vec![nines.clone(), format!("-{nines}"), "0".to_owned()]
        }
        "date" => all(&["0001-01-01", "9999-12-31", "1970-01-01", "2024-02-29"]),
        "datetime" => all(&["1753-01-01 00:00:00", "9999-12-31 23:59:59.997"]),
        "smalldatetime" => all(&["1900-01-01 00:00:00", "2079-06-06 23:59:00"]),
        "datetime2" => all(&[
            "0001-01-01 00:00:00",
            "9999-12-31 23:59:59.999999",
            "1969-12-31 23:59:59.999999",
        ]),
        "datetimeoffset" => all(&["0001-01-01 00:00:00Z", "9999-12-31 23:59:59.999999Z"]),
        "time" => all(&["00:00:00", "23:59:59"]),
        "uniqueidentifier" => all(&[
            "00000000-0000-0000-0000-000000000000",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
        ]),
        "binary" | "varbinary" | "image" | "timestamp" | "rowversion" => {
            let longest = sql_type.longest().min(64);
            let mut ends = vec![
                format!("0x{}", "00".repeat(longest)),
                format!("0x{}", "ff".repeat(longest)),
            ];
            if sql_type.name != "binary" {
                ends.push("0x".to_owned());
            }
            ends
        }
        "xml" => all(&["", "<a/>", "<a b=\"&lt;\">&amp;</a>"]),
        "json" => all(&["{}", "[]", "null", "{\"a\":{\"b\":[1,null,\"\\u0000\"]}}"]),
        "vector" => all(&["[1.0,-0.1]", "[]"]),
        _ => {
            let longest = sql_type.longest();
            let hard = [
                String::new(),
                " ".to_owned(),
                "a".repeat(longest),
                "\u{1F600}".repeat(longest / 2),
                // A letter and its accent as two characters; a letter that grows when it is upper-cased; a NUL.
                "e\u{301}".to_owned(),
                "ß\u{130}\u{FB03}".to_owned(),
                "\0".to_owned(),
                "\u{FFFD}\r\n\t\"',;\\".to_owned(),
                "\u{202E}\u{200B}".to_owned(),
                "NULL".to_owned(),
                "-0".to_owned(),
                "1e400".to_owned(),
            ];
            hard.iter().map(|value| cut(value, longest)).collect()
        }
    }
}
