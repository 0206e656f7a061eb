//! One reference table: a CSV file with a header, in UTF-8, whose first column is the key.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::sha256;

/// The largest file that is taken, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The most rows that are taken.
const MAX_ROWS: usize = 1_000_000;

/// Why a file is no reference table. No text of a cell is shown: it may be as secret as the rows that it explains.
#[derive(Debug, thiserror::Error)]
#[error("the lookup file {}{}: {fault}", file.display(), line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct LookupFileError {
    /// The file.
    pub file: PathBuf,
    /// Where in it, from 1.
    pub line: Option<u64>,
    /// What is wrong.
    pub fault: LookupFault,
}

/// What is wrong with the file of a reference table.
#[derive(Debug, thiserror::Error)]
pub enum LookupFault {
    /// The system does not give it.
    #[error("it cannot be read: {0}")]
    Unreadable(std::io::Error),
    /// It is too large.
    #[error("it is larger than {} MiB, and all of it is kept in memory; leave out rows or columns", MAX_FILE_BYTES >> 20)]
    TooLarge,
    /// It has too many rows.
    #[error("it has more than {MAX_ROWS} rows; leave out those that are not needed")]
    TooManyRows,
    /// It is in another encoding.
    #[error("it is not UTF-8; save it as UTF-8")]
    NotUtf8,
    /// Nothing stands in its first line.
    #[error("it has no header; its first line must name the columns")]
    NoHeader,
    /// A column has no name.
    #[error("column {0} of the header has no name")]
    Unnamed(usize),
    /// Two columns have one name.
    #[error("columns {0} and {1} of the header have the same name")]
    SameName(usize, usize),
    /// A row has more or fewer fields than the header.
    #[error("the row has {got} fields and the header has {expected}; quote a field that has a comma or a line break")]
    Ragged {
        /// Fields of the header.
        expected: u64,
        /// Fields of the row.
        got: u64,
    },
    /// A quote that nothing closes.
    #[error("the row has a quoted field that does not end; close the quote, and write a quote inside of a field twice")]
    OpenQuote,
    /// A row without a key.
    #[error("the row has no key: its first field is empty")]
    NoKey,
    /// A key that is there already.
    #[error("the row has the key of line {0}; a key may stand once")]
    SameKey(u64),
    /// The CSV cannot be read.
    #[error("it is no CSV that can be read")]
    Csv,
}

/// A reference table, indexed by its key.
pub(crate) struct LookupTable {
    columns: Vec<String>,
    /// The rows of the keys.
    rows: HashMap<Box<str>, usize>,
    /// All cells back to back, row by row.
    text: String,
    /// Where each cell ends.
    ends: Vec<u32>,
    sha256: String,
}

impl LookupTable {
    /// Reads a file.
    ///
    /// # Errors
    /// Where and why it is no reference table.
    pub(crate) fn read(path: &Path) -> Result<LookupTable, LookupFileError> {
        let fault = |fault| LookupFileError {
            file: path.to_owned(),
            line: None,
            fault,
        };
        let mut bytes = Vec::new();
        let unreadable = |error| fault(LookupFault::Unreadable(error));
        // Anything else may make whoever opens it wait.
        if !fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(unreadable(std::io::Error::other("it is no regular file")));
        }
        File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        LookupTable::parse(path, &bytes)
    }

    /// Takes the bytes of a file; `path` is for messages.
    ///
    /// # Errors
    /// Where and why they are no reference table.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<LookupTable, LookupFileError> {
        Self::of_bytes(bytes).map_err(|(line, fault)| LookupFileError {
            file: path.to_owned(),
            line,
            fault,
        })
    }

    fn of_bytes(bytes: &[u8]) -> Result<LookupTable, (Option<u64>, LookupFault)> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err((None, LookupFault::TooLarge));
        }
        let text = str::from_utf8(bytes).map_err(|error| {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            (Some(line), LookupFault::NotUtf8)
        })?;
        // Spreadsheets write a mark at the beginning.
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err((Some(1), LookupFault::NoHeader));
        }
        // A quoted field without an end goes on to the end of the file, and swallows every row until then. A line of our
        // own tells: it is read as one, or was swallowed too.
        let mut reader = csv::ReaderBuilder::new().from_reader(text.as_bytes().chain(&b"\nx"[..]));
        let is_end = |position: Option<&csv::Position>| position.is_some_and(|at| at.byte() > text.len() as u64);
        let header = reader.headers().map_err(csv_fault)?;
        let columns: Vec<String> = header.iter().map(str::to_owned).collect();
        check_header(&columns).map_err(|fault| (Some(1), fault))?;

        let mut table = LookupTable {
            columns,
            rows: HashMap::new(),
            text: String::with_capacity(text.len()),
            ends: Vec::new(),
            sha256: sha256::hex(bytes),
        };
        let mut lines = Vec::new();
        let mut record = csv::StringRecord::new();
        loop {
            match reader.read_record(&mut record) {
                Ok(true) if is_end(record.position()) => break,
                Ok(true) => {}
                Ok(false) => return Err((Some(lines.last().copied().unwrap_or(1)), LookupFault::OpenQuote)),
                Err(error) if is_end(error.position()) => break,
                Err(error) => return Err(csv_fault(error)),
            }
            let line = record.position().map(csv::Position::line);
            if lines.len() == MAX_ROWS {
                return Err((line, LookupFault::TooManyRows));
            }
            let key = record.get(0).unwrap_or_default();
            if key.is_empty() {
                return Err((line, LookupFault::NoKey));
            }
            if let Some(earlier) = table.rows.insert(key.into(), lines.len()) {
                return Err((line, LookupFault::SameKey(lines[earlier])));
            }
            lines.push(line.unwrap_or_default());
            for cell in &record {
                table.text.push_str(cell);
                // No longer than the file, which 32 bits can count.
                table.ends.push(table.text.len() as u32);
            }
        }
        Ok(table)
    }

    /// The names of the columns; the first is the key.
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// SHA-256 of the file, lower-case hex.
    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The text of a column, by its position, in the row of a key; `None` when no row has the key, and when the cell is
    /// empty.
    pub(crate) fn find(&self, key: &str, column: usize) -> Option<&str> {
        let cell = self.rows.get(key)? * self.columns.len() + column;
        let start = match cell.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        let text = &self.text[start as usize..self.ends[cell] as usize];
        (!text.is_empty()).then_some(text)
    }
}

impl fmt::Debug for LookupTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LookupTable")
            .field("sha256", &self.sha256)
            .field("rows", &self.rows.len())
            .finish_non_exhaustive()
    }
}

fn check_header(columns: &[String]) -> Result<(), LookupFault> {
    if columns.iter().all(String::is_empty) {
        return Err(LookupFault::NoHeader);
    }
    let mut seen = HashMap::new();
    for (index, column) in columns.iter().enumerate() {
        if column.is_empty() {
            return Err(LookupFault::Unnamed(index + 1));
        }
        if let Some(earlier) = seen.insert(column, index) {
            return Err(LookupFault::SameName(earlier + 1, index + 1));
        }
    }
    Ok(())
}

/// The library's own text would do, but for the errors that quote what they found.
fn csv_fault(error: csv::Error) -> (Option<u64>, LookupFault) {
    let line = error.position().map(csv::Position::line);
    let fault = match error.into_kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => LookupFault::Ragged {
            expected: expected_len,
            got: len,
        },
        csv::ErrorKind::Utf8 { .. } => LookupFault::NotUtf8,
        csv::ErrorKind::Io(error) => LookupFault::Unreadable(error),
        _ => LookupFault::Csv,
    };
    (line, fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(csv: &str) -> LookupTable {
        LookupTable::parse(Path::new("t.csv"), csv.as_bytes()).unwrap()
    }

    fn error(csv: impl AsRef<[u8]>) -> String {
        let error = LookupTable::parse(Path::new("t.csv"), csv.as_ref())
            .unwrap_err()
            .to_string();
        assert!(!error.contains("hidden"), "{error}");
        error
    }

    #[test]
    fn cells_are_found_by_key_and_column() {
        let table = table("\u{FEFF}key,a,\"b, c\"\r\n1,one,\r\n\"2\"\"\",\"two\nlines\",ä\r\n\r\n3,,三\r\n");
        assert_eq!(table.columns(), ["key", "a", "b, c"]);
        assert_eq!(table.find("1", 0), Some("1"));
        assert_eq!(table.find("1", 1), Some("one"));
        assert_eq!(table.find("1", 2), None);
        assert_eq!(table.find("2\"", 1), Some("two\nlines"));
        assert_eq!(table.find("2\"", 2), Some("ä"));
        assert_eq!((table.find("3", 1), table.find("3", 2)), (None, Some("三")));
        assert_eq!((table.find("4", 1), table.find("", 1)), (None, None));
    }

    #[test]
    fn a_table_of_keys_alone_and_one_without_rows_are_tables() {
        assert_eq!(table("key\na\n").find("a", 0), Some("a"));
        assert_eq!(table("key,name\n").find("a", 1), None);
        for end in ["", "\n", "\r\n", "\n\n\r\n"] {
            let table = table(&format!("key,name\r\na,b{end}"));
            assert_eq!((table.find("a", 1), table.find("x", 0)), (Some("b"), None));
        }
    }

    /// `printf 'key\na\n' | sha256sum`
    #[test]
    fn the_digest_is_of_the_file() {
        let digest = "b4c33c54fb9e29e1931cbaec092c541b0e3e60a1ae5a1b3ab6730e8dae1e7f5d";
        assert_eq!(table("key\na\n").sha256(), digest);
    }

    #[test]
    fn what_is_no_table_is_named_with_file_and_line_and_without_a_cell() {
        assert_eq!(
            error(""),
            "the lookup file t.csv, line 1: it has no header; its first line must name the columns"
        );
        assert_eq!(
            error("key,\n"),
            "the lookup file t.csv, line 1: column 2 of the header has no name"
        );
        assert_eq!(
            error("hidden,b,hidden\n"),
            "the lookup file t.csv, line 1: columns 1 and 3 of the header have the same name"
        );
        assert_eq!(
            error("key,name\na,b\nhidden,b,c\n"),
            "the lookup file t.csv, line 3: the row has 3 fields and the header has 2; quote a field that has a comma or a \
             line break"
        );
        for (open, line) in [
            ("key,\"hidden\na,b\n", 1),
            ("key,name\na,b\nc,\"hidden\nd,e\n", 3),
            ("key,name\na,b\nc,\"hidden", 3),
            ("key\n\"hidden\n\n", 2),
        ] {
            assert_eq!(
                error(open),
                format!(
                    "the lookup file t.csv, line {line}: the row has a quoted field that does not end; close the quote, and \
                     write a quote inside of a field twice"
                )
            );
        }
        assert_eq!(
            error("key,name\nhidden,b\n\"x\ny\",c\nhidden,d\n"),
            "the lookup file t.csv, line 5: the row has the key of line 2; a key may stand once"
        );
        assert_eq!(
            error("key,name\n,hidden\n"),
            "the lookup file t.csv, line 2: the row has no key: its first field is empty"
        );
        assert_eq!(
            error(b"key,name\na,b\nhidden,\xE4\n"),
            "the lookup file t.csv, line 3: it is not UTF-8; save it as UTF-8"
        );
    }

    #[test]
    fn a_file_and_its_rows_have_a_limit() {
        let row_limit = "k\n".to_owned() + &(0..=MAX_ROWS).map(|row| format!("{row}\n")).collect::<String>();
        let said = error(&row_limit);
        assert!(said.contains("line 1000002: it has more than 1000000 rows"), "{said}");
        let said = error(vec![b'x'; (16 << 20) + 1]);
        assert!(said.contains("it is larger than 16 MiB"), "{said}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = LookupTable::read(Path::new("/nowhere/a.csv")).unwrap_err().to_string();
        assert!(
            error.starts_with("the lookup file /nowhere/a.csv: it cannot be read: "),
            "{error}"
        );
    }
}
