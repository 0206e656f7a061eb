//! Guests in WebAssembly's text format: what Rust's compiler would not make, and guests of a version of the contract that
//! the SDK has left behind.
//!
//! `tests/guests/text/NAME.wat` is a core module, in which `@memory`, `@open` and `@apply` stand for the files
//! `memory.part` and so on. It gets the metadata of world `plugin` of `wit/0.1.0`, or of `NAME.wit` beside it.

use std::fs;
use std::path::PathBuf;

use wit_component::StringEncoding;
use wit_parser::Resolve;

use crate::repository;

/// Every guest in text, each with the test that claims it: its file from the root of the repository, and its function.
pub const TEXT_GUESTS: [(&str, &str, &str); 10] = [
    (
        "aliased-lists",
        MISBEHAVIOUR,
        "what_is_handed_over_twice_is_counted_twice",
    ),
    (
        "aliased-plan",
        MISBEHAVIOUR,
        "what_is_handed_over_twice_is_counted_twice",
    ),
    ("grow-table", MISBEHAVIOUR, "tables_memories_and_instances_are_counted"),
    (
        "loop-in-start",
        MISBEHAVIOUR,
        "a_guest_that_never_comes_to_its_call_is_ended",
    ),
    (
        "many-memories",
        MISBEHAVIOUR,
        "tables_memories_and_instances_are_counted",
    ),
    ("name-not-text", MISBEHAVIOUR, "answers_that_cannot_be_read_are_refused"),
    ("out-of-bounds", MISBEHAVIOUR, "answers_that_cannot_be_read_are_refused"),
    (
        "split-update",
        MISBEHAVIOUR,
        "a_guest_of_0_1_0_drops_both_rows_of_an_update_or_none",
    ),
    (
        "trap-in-start",
        MISBEHAVIOUR,
        "a_guest_that_never_comes_to_its_call_is_ended",
    ),
    (
        "wrong-signature",
        MISBEHAVIOUR,
        "functions_of_other_types_are_refused_by_name",
    ),
];

const MISBEHAVIOUR: &str = "host/src/transform/tests/misbehaviour.rs";

/// A guest in text as a core module with metadata, which the host makes a component of.
///
/// # Panics
/// When there is no such guest, or it is no module.
#[allow(clippy::panic)]
pub fn text_guest(name: &str) -> Vec<u8> {
    match module(name) {
        Ok(module) => module,
        Err(error) => panic!("text guest {name}: {error}"),
    }
}

/// The folder of the guests in text.
pub fn text_guests() -> PathBuf {
    repository().join("tests/guests/text")
}

fn module(name: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let folder = text_guests();
    let mut text = fs::read_to_string(folder.join(format!("{name}.wat")))?;
    for part in ["memory", "open", "apply"] {
        let filling = fs::read_to_string(folder.join(format!("{part}.part")))?;
        text = text.replace(&format!("  @{part}"), filling.trim_end());
    }
    let mut module = wat::parse_str(text)?;
    let mut resolve = Resolve::default();
    let world = folder.join(format!("{name}.wit"));
    let package = match fs::read_to_string(&world) {
        Ok(own) => resolve.push_str(&world, &own)?,
        Err(_) => resolve.push_dir(repository().join("wit/0.1.0"))?.0,
    };
    let world = resolve.select_world(&[package], Some("plugin"))?;
    wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    Ok(module)
}
