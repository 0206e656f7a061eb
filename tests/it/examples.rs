//! The examples under `plugins/examples`, as somebody who takes one would use it: `sluice plugin build`, then `sluice plugin
//! test` over the example's own fixtures. The one in Python needs the registry of its language, and a line says so where that
//! is out of reach; what it needs of it is kept under `target` from run to run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Run, finish, scratch, sluice_binary};

/// Each has a test of its own below.
const EXAMPLES: [&str; 5] = ["country-mask", "json-flatten", "person-key", "scrub", "tenant-filter"];
/// What `plugin build` says where a language's tools are missing and cannot be fetched.
const OUT_OF_REACH: [&str; 2] = ["could not reach", "was not found, and a plugin in Python needs it"];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/examples")
}

/// Where compilers work: with the components of the other tests, whose dependencies are the same.
fn target_dir() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
        PathBuf::from,
    );
    // The commands run in another folder than this test.
    std::path::absolute(target.join("guests")).expect("a path")
}

fn plugin(arguments: &[&str], paths: &[(&str, &Path)]) -> Run {
    let mut process = Command::new(sluice_binary());
    process.current_dir(examples()).arg("plugin").args(arguments);
    for (option, path) in paths {
        process.arg(option).arg(path);
    }
    finish(process.output().expect("sluice starts"))
}

/// Builds an example; `false` where its language's tools cannot be had, which is printed.
fn build(name: &str, component: &Path) -> bool {
    let run = plugin(&["build", name], &[("-o", component), ("--target-dir", &target_dir())]);
    if run.code != 0 && OUT_OF_REACH.iter().any(|words| run.stderr.contains(words)) {
        eprintln!("not tested: {}", run.stderr);
        return false;
    }
    assert_eq!(run.code, 0, "{name}: {}{}", run.stdout, run.stderr);
    true
}

/// The names of the example's fixtures, and whether each has rows that are to come out.
fn fixtures(name: &str) -> Vec<(String, bool)> {
    let entries = std::fs::read_dir(examples().join(name).join("tests")).expect("a folder of fixtures");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths
        .map(|path| {
            let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (
                stem.clone(),
                path.with_file_name(format!("{stem}.expected.csv")).is_file(),
            )
        })
        .collect()
}

/// Builds an example and holds it against its fixtures; what each check came to, or `None` as [`build`] says `false`.
fn tested(name: &str) -> Option<Vec<Value>> {
    let dir = scratch();
    let component = dir.path().join(format!("{name}.wasm"));
    if !build(name, &component) {
        return None;
    }
    let of = component.to_string_lossy().into_owned();
    let folder = Path::new(name).join("tests");
    let run = plugin(&["test", &of, "--json", "--seed", "7"], &[("--fixtures", &folder)]);
    assert_eq!(run.code, 0, "{name}: {}{}", run.stdout, run.stderr);
    let checks: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();

    let fixtures = fixtures(name);
    assert!(fixtures.iter().any(|(_, golden)| *golden), "{name} has no rows to try");
    for (fixture, golden) in fixtures {
        let check = if golden { "golden" } else { "open error" };
        assert_eq!(result(&checks, &fixture, check), "ok", "{name}: {fixture}: {checks:?}");
    }
    Some(checks)
}

fn result<'a>(checks: &'a [Value], fixture: &str, check: &str) -> &'a str {
    let found = checks
        .iter()
        .find(|line| line["fixture"] == fixture && line["check"] == check);
    found.and_then(|line| line["result"].as_str()).unwrap_or("not there")
}

/// The columns that an example masks are searched for canaries, and none of them comes out.
fn holds_its_canaries(name: &str, fixture: &str) {
    if let Some(checks) = tested(name) {
        assert_eq!(result(&checks, fixture, "canaries"), "ok", "{name}: {checks:?}");
    }
}

#[test]
fn every_example_is_tested_and_listed() {
    let entries = std::fs::read_dir(examples()).expect("the folder of the examples");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let there: BTreeSet<String> = paths
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(there, BTreeSet::from(EXAMPLES.map(str::to_owned)));
    let list = std::fs::read_to_string(examples().join("README.md")).expect("the list");
    for name in EXAMPLES {
        assert!(list.contains(&format!("[{name}]({name}/README.md)")), "{name}");
        assert!(examples().join(name).join("README.md").is_file(), "{name}");
    }
}

#[test]
fn tenant_filter_turns_updates_that_cross_into_deletes_and_inserts() {
    let checks = tested("tenant-filter").expect("Rust is there");
    // The golden file has them; that each row is there, dropped or rejected is the kit's check.
    assert_eq!(result(&checks, "orders", "rows accounted for"), "ok");
    assert_eq!(result(&checks, "numbers", "rejects"), "ok");
}

#[test]
fn scrub_drops_the_names_that_it_takes_out_of_texts() {
    holds_its_canaries("scrub", "customers");
}

#[test]
fn country_mask_shows_nothing_of_a_country_without_a_rule() {
    holds_its_canaries("country-mask", "customers");
}

#[test]
fn json_flatten_rejects_what_is_no_json() {
    let checks = tested("json-flatten").expect("Rust is there");
    assert_eq!(result(&checks, "events", "rejects"), "ok");
}

#[test]
fn person_key_passes_its_tests_in_an_ordinary_python() {
    let mut python = Command::new("python3");
    python
        .args(["-m", "unittest"])
        .current_dir(examples().join("person-key"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    match python.output() {
        Ok(output) => {
            let run = finish(output);
            assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
            assert!(run.stderr.contains("Ran 7 tests"), "{}", run.stderr);
        }
        Err(error) => eprintln!("not tested: python3 cannot be run: {error}"),
    }
}

#[test]
fn person_key_in_python_shows_no_name() {
    holds_its_canaries("person-key", "people");
}
