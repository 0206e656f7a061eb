//! python-tds, with TLS by pyOpenSSL. Its script is `python_tds.py` beside this file.

use crate::every_type::{self, Column};
use crate::harness::{Sim, peer};

fn python_tds(sim: &Sim, test: &str, input: &str) -> String {
    peer(sim, "python_tds.py", test, input)
}

/// What python-tds makes of values.
fn adjust(column: &Column, expected: String) -> String {
    match column.ty {
        // It gives a decimal zero without its scale.
        _ if expected == "0.0000" => "0".to_owned(),
        "float" => expected.replace("e308", "e+308"),
        "json" => every_type::in_code_page_1252(&expected),
        _ => every_type::to_the_microsecond(column, expected),
    }
}

#[test]
fn it_reads_every_type() {
    let sim = Sim::with_probe();
    sim.script(&format!("USE probe\nGO\n{}", every_type::create_script()));
    for (table, nullable) in [("every_type", true), ("every_type_nn", false)] {
        let out = python_tds(&sim, "select", &every_type::select(table));
        every_type::check(&every_type::rows(&out), nullable, adjust);
    }
    let out = python_tds(&sim, "select", every_type::SELECT_VERSIONS);
    every_type::check_versions(&every_type::rows(&out));
}

#[test]
fn it_sends_parameters_of_every_kind() {
    let sim = Sim::with_probe();
    python_tds(&sim, "parameters", "");
}

#[test]
fn logins_fail_as_they_should() {
    let sim = Sim::start();
    python_tds(&sim, "logins", "");
}

#[test]
fn transactions_procedures_and_several_result_sets() {
    let sim = Sim::with_probe();
    python_tds(&sim, "session", "");
}
