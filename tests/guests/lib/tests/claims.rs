//! A guest that no test asks for has no business here, and neither has a behaviour of the misbehaving one: the lists of what
//! there is are compared with the tests that claim it, word by word.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sluice_guest_badguest::Behave;
use sluice_test_guests::{GUESTS, TEXT_GUESTS, text_guest, text_guests};
use wit_component::ComponentEncoder;

/// Where tests of guests are.
const FOLDERS: [&str; 2] = ["host/src/transform/tests", "tests/it"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The function of that name with what stands over it, if it is a test: as far as the first brace at the line's start.
fn test_of<'a>(source: &'a str, name: &str) -> Option<&'a str> {
    let at = source.find(&format!("fn {name}("))?;
    let (before, from) = source.split_at(at);
    let attributes = before.rsplit("\n\n").next()?;
    let is_test = ["#[test]", "#[tokio::test"]
        .iter()
        .any(|mark| attributes.contains(mark));
    let end = from.find("\n}\n")?;
    is_test.then_some(&from[..end])
}

/// What is wrong with a claim, if anything.
fn fault(what: &str, file: &str, test: &str) -> Option<String> {
    if !FOLDERS.iter().any(|folder| Path::new(file).starts_with(folder)) {
        return Some(format!("`{what}`: {file} is not where tests of guests are"));
    }
    let source = read(&root().join(file));
    match test_of(&source, test) {
        None => Some(format!("`{what}`: {file} has no test `{test}`")),
        Some(body) if !body.contains(&format!("\"{what}\"")) => {
            Some(format!("`{what}`: the test `{test}` of {file} does not use it"))
        }
        Some(_) => None,
    }
}

/// All sources with tests of guests.
fn sources() -> Vec<String> {
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| root().join(folder)).collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(read(&path));
            }
        }
    }
    sources
}

/// Names of the entries of a folder, of those that `of` wants.
fn entries(folder: &Path, of: impl Fn(&Path) -> Option<String>) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.filter_map(|entry| of(&entry.unwrap().path())).collect()
}

fn stem(path: &Path) -> Option<String> {
    Some(path.file_stem()?.to_str()?.to_owned())
}

#[test]
fn every_behaviour_of_the_bad_guest_is_claimed_by_a_test() {
    let claims = Behave::claims();
    let faults: Vec<String> = claims
        .iter()
        .filter_map(|(name, claim)| fault(name, claim.file, claim.test))
        .collect();
    assert!(claims.len() > 60, "{}", claims.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_guest_in_text_is_a_module_and_claimed_by_a_test() {
    let faults: Vec<String> = TEXT_GUESTS
        .iter()
        .filter_map(|(name, file, test)| fault(name, file, test))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let wat = |path: &Path| path.extension().is_some_and(|end| end == "wat").then(|| stem(path))?;
    let named: BTreeSet<String> = TEXT_GUESTS.iter().map(|(name, _, _)| (*name).to_owned()).collect();
    assert_eq!(entries(&text_guests(), wat), named, "files and TEXT_GUESTS");
    // The host makes a component of it, so it has to be one in all but its behaviour.
    for name in named {
        let mut encoder = ComponentEncoder::default()
            .validate(true)
            .module(&text_guest(&name))
            .unwrap_or_else(|error| panic!("{name}: {error:#}"));
        encoder.encode().unwrap_or_else(|error| panic!("{name}: {error:#}"));
    }
}

/// A guest is asked for by its name in quotation marks; `GUESTS` has nothing else.
#[test]
fn every_guest_is_listed_and_asked_for_by_a_test() {
    let crates = |path: &Path| {
        let is_guest = path.join("Cargo.toml").is_file() && !path.ends_with("lib");
        is_guest.then(|| stem(path))?
    };
    let listed = |name: &str| GUESTS.iter().any(|(guest, _)| *guest == name);
    for name in entries(&root().join("tests/guests"), crates) {
        assert!(listed(&name), "tests/guests/{name} is not in GUESTS");
    }
    let sources = sources();
    for (guest, folder) in GUESTS {
        assert!(root().join(folder).join("Cargo.toml").is_file(), "{folder}");
        let asked = [
            format!("component(\"{guest}\")"),
            format!("\"{guest}\"]"),
            format!("\"{guest}\","),
        ];
        let is_asked_for = |source: &String| asked.iter().any(|asked| source.contains(asked));
        assert!(sources.iter().any(is_asked_for), "no test asks for {guest}");
    }
}

#[test]
fn every_field_case_of_components_and_masks_is_named_by_a_test() {
    let sources = sources();
    for case in 20..=25 {
        let name = format!("Field case {case}");
        assert!(sources.iter().any(|source| source.contains(&name)), "{name}");
    }
}

#[test]
fn a_claim_that_nobody_keeps_is_found() {
    let file = "host/src/transform/tests/refusals.rs";
    let test = "traps_and_limits_have_names";
    assert_eq!(fault("trap", file, test), None);
    assert!(fault("no-such-behaviour", file, test).is_some(), "not used");
    assert!(fault("trap", file, "no_such_test").is_some(), "not there");
    assert!(fault("trap", file, "says").is_some(), "no test");
    assert!(fault("trap", "plugins/mask/src/lib.rs", test).is_some(), "elsewhere");
}
