//! What a component made of a fixture's rows as CSV text, and how it differs from the file that says what it should.

use super::csv::{self, Cell};
use super::rows::{Ran, counted};
use super::values;
use crate::lake::delta_type;
use crate::transform::OutputColumn;

/// Differences that are told.
const TOLD: usize = 8;

/// The text of a golden file: a header of `name:type`, then a line a row. Types are those of the lake.
pub(crate) fn render(ran: &Ran, output: &[OutputColumn]) -> String {
    let mut header = vec![Some("_operation".to_owned())];
    header.extend(
        output
            .iter()
            .map(|column| Some(format!("{}:{}", column.name, type_name(&column.data_type)))),
    );
    let mut text = String::new();
    csv::write(&mut text, &header);
    let mut columns = vec![ran.operations()];
    columns.extend(ran.columns().iter().map(values::format));
    for row in 0..ran.batch.num_rows() {
        let record: Vec<Cell> = columns.iter().map(|column| column[row].clone()).collect();
        csv::write(&mut text, &record);
    }
    text
}

/// The name of a type in the lake.
pub(crate) fn type_name(data_type: &arrow::datatypes::DataType) -> String {
    delta_type(data_type).map_or_else(|| data_type.to_string(), |delta| delta.to_string())
}

/// The differences between what is expected and what came, as lines for people; empty where there are none. Values stand in
/// them where they may be shown.
///
/// # Errors
/// A sentence: why the expected text cannot be read.
pub(crate) fn differences(expected: &str, actual: &str, shows_values: bool) -> Result<Vec<String>, String> {
    let (expected, actual) = (csv::parse(expected)?, csv::parse(actual)?);
    let header = |records: &[(usize, Vec<Cell>)]| -> Vec<String> {
        records
            .first()
            .map(|(_, cells)| cells.iter().map(|cell| cell.clone().unwrap_or_default()).collect())
            .unwrap_or_default()
    };
    let (wanted, got) = (header(&expected), header(&actual));
    if wanted != got {
        return Ok(vec![format!(
            "the columns are {} instead of {}",
            got.join(", "),
            wanted.join(", ")
        )]);
    }
    let mut found = Vec::new();
    if expected.len() != actual.len() {
        found.push(format!(
            "{} came out instead of {}",
            counted(actual.len().saturating_sub(1), "row"),
            expected.len().saturating_sub(1)
        ));
    }
    let mut more = 0_usize;
    for (row, ((line, wanted), (_, came))) in expected.iter().zip(&actual).enumerate().skip(1) {
        if wanted.len() != got.len() {
            return Err(format!(
                "line {line} has {} fields, and the header has {}",
                wanted.len(),
                got.len()
            ));
        }
        for ((wanted, came), column) in wanted.iter().zip(came).zip(&got) {
            if wanted == came {
                continue;
            }
            if found.len() < TOLD {
                found.push(match shows_values {
                    true => format!("row {row}, {column}: {} instead of {}", shown(came), shown(wanted)),
                    false => format!("row {row}, {column}: another value"),
                });
            } else {
                more += 1;
            }
        }
    }
    if more > 0 {
        found.push(format!("and {more} more values"));
    }
    Ok(found)
}

/// A cell for people.
pub(crate) fn shown(cell: &Cell) -> String {
    match cell {
        None => "NULL".to_owned(),
        Some(text) => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = "_operation,id:integer,note:string\ninsert,1,a\ndelete,2,\n";

    #[test]
    fn equal_texts_have_no_differences() {
        assert!(differences(GOLDEN, GOLDEN, true).unwrap().is_empty());
        // Line ends are none.
        assert!(
            differences(&GOLDEN.replace('\n', "\r\n"), GOLDEN, true)
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn null_and_empty_text_differ() {
        let found = differences(GOLDEN, &GOLDEN.replace("2,\n", "2,\"\"\n"), true).unwrap();
        assert_eq!(found, ["row 2, note:string: \"\" instead of NULL"]);
    }

    #[test]
    fn another_type_differs_even_where_the_values_look_the_same() {
        let found = differences(GOLDEN, &GOLDEN.replace("id:integer", "id:long"), true).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("id:long"), "{found:?}");
    }

    #[test]
    fn missing_rows_and_many_differences_are_counted() {
        let found = differences(GOLDEN, "_operation,id:integer,note:string\ninsert,1,a\n", true).unwrap();
        assert_eq!(found, ["1 row came out instead of 2"]);
        let many = |value: &str| format!("a:string\n{}", format!("{value}\n").repeat(20));
        let found = differences(&many("x"), &many("y"), true).unwrap();
        assert_eq!((found.len(), found[TOLD].as_str()), (TOLD + 1, "and 12 more values"));
    }

    #[test]
    fn a_damaged_golden_file_is_an_error() {
        assert!(differences("a:string,b:string\nx\n", "a:string,b:string\nx,y\n", true).is_err());
        assert!(differences("a:string\n\"x\n", GOLDEN, true).is_err());
    }
}
