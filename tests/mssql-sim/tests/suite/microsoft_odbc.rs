//! Microsoft's ODBC driver 18, as `mssql-python` brings it. Its script is `microsoft_odbc.py` beside this file.

use crate::every_type::{self, Column};
use crate::harness::{Sim, peer};

/// What mssql-python makes of values.
fn adjust(column: &Column, expected: String) -> String {
    match column.ty {
        "float" => expected.replace("e308", "e+308"),
        _ => every_type::to_the_microsecond(column, expected),
    }
}

#[test]
fn it_reads_every_type() {
    let sim = Sim::with_probe();
    sim.script(&format!("USE probe\nGO\n{}", every_type::create_script()));
    for (table, nullable) in [("every_type", true), ("every_type_nn", false)] {
        let out = peer(&sim, "microsoft_odbc.py", "select", &every_type::select(table));
        every_type::check(&every_type::rows(&out), nullable, adjust);
    }
    let out = peer(&sim, "microsoft_odbc.py", "select", every_type::SELECT_VERSIONS);
    every_type::check_versions(&every_type::rows(&out));
}

#[test]
fn it_creates_rows_with_parameters_of_every_kind() {
    let sim = Sim::with_probe();
    peer(&sim, "microsoft_odbc.py", "parameters", "");
}

#[test]
fn its_transactions_hold() {
    let sim = Sim::with_probe();
    peer(&sim, "microsoft_odbc.py", "transactions", "");
}

#[test]
fn it_speaks_tds_8_and_knows_the_certificate() {
    let sim = Sim::with_probe();
    peer(&sim, "microsoft_odbc.py", "strict", "");
}

#[test]
fn its_logins_fail_as_they_should() {
    let sim = Sim::with_probe();
    peer(&sim, "microsoft_odbc.py", "logins", "");
}
