//! The `lookup` capability: small reference tables that the host has read. `table` reads one, `files` keeps those of a
//! process; here is what a component asks of them.

mod files;
mod table;

pub use files::Lookups;
pub(crate) use table::LookupTable;
pub use table::{LookupFault, LookupFileError};

use super::bindings::v0_3::sluice::transform::lookup::{Column, Host, LookupError};
use super::cells::{Cells, TextColumn};
use super::hostcall::HostCall;
use super::sandbox::HostState;

impl Host for HostState {
    fn columns(&mut self, table: String) -> wasmtime::Result<Result<Vec<String>, LookupError>> {
        let mut call = HostCall {
            deadline: self.deadline,
            limiter: &mut self.limiter,
        };
        call.look()?;
        let Some(table) = self.grants.lookup(&table) else {
            return Ok(Err(LookupError::NotGranted));
        };
        let columns = table.columns();
        call.room_for(columns.iter().map(String::len).sum())?;
        Ok(Ok(columns.to_vec()))
    }

    fn find(
        &mut self,
        table: String,
        column: String,
        rows: u32,
        keys: Column,
    ) -> wasmtime::Result<Result<Column, LookupError>> {
        let mut call = HostCall {
            deadline: self.deadline,
            limiter: &mut self.limiter,
        };
        // What a component says in `open` is shown, and a cell may be as secret as a row.
        let Some(table) = self.grants.lookup(&table).filter(|_| !self.opening || rows == 0) else {
            return Ok(Err(LookupError::NotGranted));
        };
        let Some(column) = table.columns().iter().position(|name| *name == column) else {
            return Ok(Err(LookupError::UnknownColumn));
        };
        let Some(cells) = Cells::new(rows, &keys) else {
            return Ok(Err(LookupError::Malformed));
        };
        Ok(found(table, column, &cells, &mut call)?.ok_or(LookupError::Malformed))
    }
}

/// The text of `column` for each key; `None` when a key is no UTF-8.
fn found(
    table: &LookupTable,
    column: usize,
    keys: &Cells<'_>,
    call: &mut HostCall<'_>,
) -> wasmtime::Result<Option<Column>> {
    let fixed = TextColumn::fixed_bytes(keys.rows);
    call.room_for(fixed)?;
    let mut made = TextColumn::with_rows(keys.rows);
    for row in 0..keys.rows {
        call.look_at_row(row)?;
        let text = match keys.get(row).map(str::from_utf8) {
            Some(Ok(key)) => table.find(key, column),
            Some(Err(_)) => return Ok(None),
            None => None,
        };
        if let Some(text) = text {
            // One large cell for many keys is more than went in.
            call.room_for(fixed.saturating_add(made.values.len()).saturating_add(text.len()))?;
            made.values.push_str(text);
        }
        made.end_row(text.is_some())?;
    }
    Ok(Some(made.finish()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::transform::cells::testing::{column, rows_of, texts};
    use crate::transform::hostcall::testing::{bounded, within};
    use crate::transform::sandbox::DeadlinePassed;

    fn countries() -> LookupTable {
        let csv = b"code,name,continent\nHU,Hungary,Europe\nSE,Sverige,\nJP,\xE6\x97\xA5\xE6\x9C\xAC,Asia\n";
        LookupTable::parse(Path::new("countries.csv"), csv).unwrap()
    }

    #[test]
    fn keys_are_found_and_what_is_not_there_is_null() {
        let table = countries();
        let keys = texts(&[
            Some("JP"),
            None,
            Some("XX"),
            Some("SE"),
            Some("jp"),
            Some(""),
            Some("HU"),
        ]);
        let keys = Cells::new(7, &keys).unwrap();
        let of = |column| bounded(|call| found(&table, column, &keys, call)).unwrap().unwrap();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            rows_of(&of(1)),
            [some("日本"), None, None, some("Sverige"), None, None, some("Hungary")]
        );
        assert_eq!(
            rows_of(&of(2)),
            [some("Asia"), None, None, None, None, None, some("Europe")]
        );
        assert_eq!(rows_of(&of(0))[0], some("JP"));
    }

    #[test]
    fn no_keys_and_no_nulls_have_their_layout() {
        let table = countries();
        let none = column(None, &[0], b"");
        let made = bounded(|call| found(&table, 1, &Cells::new(0, &none).unwrap(), call));
        assert_eq!(made.unwrap().unwrap().offsets, [0]);
        let one = column(None, &[0, 2], b"HU");
        let made = bounded(|call| found(&table, 1, &Cells::new(1, &one).unwrap(), call));
        assert_eq!(made.unwrap().unwrap().validity, None);
    }

    #[test]
    fn keys_that_are_no_text_are_malformed_unless_they_are_null() {
        let table = countries();
        let of = |validity: u8| {
            let keys = column(Some(vec![validity]), &[0, 1], b"\xFF");
            let keys = Cells::new(1, &keys).unwrap();
            bounded(|call| found(&table, 1, &keys, call)).unwrap()
        };
        assert!(of(1).is_none());
        assert!(of(0).is_some());
    }

    #[test]
    fn the_deadline_and_the_memory_limit_hold() {
        let csv = format!("key,text\na,{}\n", "x".repeat(100));
        let table = LookupTable::parse(Path::new("t.csv"), csv.as_bytes()).unwrap();
        let keys = texts(&[Some("a"); 10]);
        let keys = Cells::new(10, &keys).unwrap();
        let late = within(Duration::ZERO, 1 << 20, |call| found(&table, 1, &keys, call));
        assert!(late.unwrap_err().is::<DeadlinePassed>());
        // 11 offsets, 2 bytes of validity, ten times the text.
        for (bytes, fits) in [(45, false), (1045, false), (1046, true)] {
            within(Duration::from_secs(60), bytes, |call| {
                assert_eq!(found(&table, 1, &keys, call).is_ok(), fits, "{bytes}");
                assert_eq!(call.limiter.memory_refused(), !fits);
            });
        }
    }
}
