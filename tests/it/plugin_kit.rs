//! `sluice plugin` as an author uses it: a new project builds, its tests hold, and a change that shows a value is caught.
//! The first build compiles the SDK and its dependencies, and where there is no target of rustup the standard library
//! too, so this takes its minutes.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Run, finish, scratch, sluice_binary};

/// `sluice plugin …` in a folder.
fn plugin(dir: &Path, arguments: &[&str]) -> Run {
    let mut process = Command::new(sluice_binary());
    process.current_dir(dir).arg("plugin").args(arguments);
    finish(process.output().expect("sluice starts"))
}

fn ok(dir: &Path, arguments: &[&str]) -> Run {
    let run = plugin(dir, arguments);
    assert_eq!(run.code, 0, "{arguments:?}: {}{}", run.stdout, run.stderr);
    run
}

fn lines(run: &Run) -> Vec<Value> {
    let lines = run.stdout.lines();
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_new_rust_project_builds_and_holds_its_tests_and_a_change_that_shows_a_value_does_not() {
    let dir = scratch();
    let project = dir.path().join("my-mask");
    let written = ok(dir.path(), &["new", "my-mask", "--lang", "rust"]).stdout;
    assert!(
        written.contains("  vendor/sluice-plugin/ (") && written.contains("  cargo test\n"),
        "{written}"
    );
    let lock = || std::fs::read_to_string(project.join("Cargo.lock")).expect("read");
    let new_lock = lock();
    let again = plugin(dir.path(), &["new", "my-mask"]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);

    let unbuilt = plugin(&project, &["test"]);
    assert_eq!(unbuilt.code, 2);
    assert!(unbuilt.stderr.contains("sluice plugin build"), "{}", unbuilt.stderr);
    let built = lines(&ok(&project, &["build", "--json"])).remove(0);
    assert_eq!(
        (built["name"].as_str(), built["version"].as_str()),
        (Some("my-mask"), Some("0.1.0"))
    );
    assert_eq!(lock(), new_lock, "cargo wrote another lock file");

    let tested = ok(&project, &["test", "--json", "--seed", "7"]);
    let tested = lines(&tested);
    let total = tested.last().expect("a summary");
    assert_eq!((&total["failed"], &total["seed"]), (&0.into(), &7.into()));
    let result = |fixture: &str, check: &str| {
        let found = tested
            .iter()
            .find(|line| line["fixture"] == fixture && line["check"] == check);
        found.map(|line| line["result"].clone())
    };
    for check in [
        "golden",
        "deterministic",
        "split differently",
        "NULLs",
        "all types",
        "canaries",
    ] {
        assert_eq!(result("customers", check), Some("ok".into()), "{check}: {tested:?}");
    }
    assert_eq!(result("wrong-column", "open error"), Some("ok".into()));

    let inspected = lines(&ok(&project, &["inspect", "my-mask.wasm", "--json"])).remove(0);
    assert_eq!(inspected["sha256"], built["sha256"]);
    assert_eq!(
        (&inspected["version"], &inspected["refused"]),
        (&"0.1.0".into(), &Value::Null)
    );
    // What a panic says goes there.
    let grants = inspected["grants"].as_array().expect("a list");
    assert_eq!(grants.len(), 1, "{grants:?}");
    assert_eq!(grants[0]["capability"], "log");
    let bench = ok(
        &project,
        &[
            "bench",
            "my-mask.wasm",
            "--fixture",
            "tests/customers.toml",
            "--rows",
            "2000",
            "--chunk-rows",
            "500",
            "--json",
        ],
    );
    assert!(lines(&bench)[0]["rows_per_second"].as_f64().expect("a number") > 0.0);

    // The author makes a mistake: what was hidden comes out with a word before it.
    let source = project.join("src/lib.rs");
    let text = std::fs::read_to_string(&source).expect("read");
    let hidden = "Method::Hide => HIDDEN.to_owned()";
    assert!(text.contains(hidden));
    std::fs::write(&source, text.replace(hidden, "Method::Hide => format!(\"x{value}\")")).expect("written");
    std::fs::create_dir(project.join("plugins")).expect("created");
    for old in ["old.wasm", "plugins/old.wasm"] {
        std::fs::copy(project.join("my-mask.wasm"), project.join(old)).expect("copied");
    }
    ok(&project, &["build"]);
    // Of the two components in the folder, the project's own is meant.
    let own = ok(&project, &["inspect"]).stdout;
    assert!(own.contains("  file      ./my-mask.wasm, "), "{own}");
    let leaking = plugin(&project, &["test", "--seed", "7"]);
    assert_eq!(leaking.code, 6, "{}", leaking.stdout);
    for line in [
        "FAILED   golden: row 1, email:string: \"xanna@example.org\" instead of \"***\"",
        "FAILED   canaries: values of column `email` come out in `email`",
        "say `shows = [\"country\", \"email\"]` in the fixture",
    ] {
        assert!(leaking.stdout.contains(line), "{line}: {}", leaking.stdout);
    }
    assert!(leaking.stderr.contains("--seed 7"), "{}", leaking.stderr);

    let changed = ok(&project, &["diff", "old", "my-mask.wasm"]);
    assert!(
        changed.stdout.contains("`email` changes in 3 rows"),
        "{}",
        changed.stdout
    );
    assert!(!changed.stdout.contains("anna"), "{}", changed.stdout);
    let shown = ok(&project, &["diff", "old", "my-mask.wasm", "--show-values"]);
    assert!(
        shown.stdout.contains("row 1: \"***\" becomes \"xanna@example.org\""),
        "{}",
        shown.stdout
    );

    // What is meant is written as what is expected; the value that comes through is still told.
    let blessed = plugin(&project, &["test", "--bless", "--seed", "7"]);
    assert_eq!(blessed.code, 6);
    assert!(!blessed.stdout.contains("FAILED   golden"), "{}", blessed.stdout);
    let golden = std::fs::read_to_string(project.join("tests/customers.expected.csv")).expect("read");
    assert!(golden.contains("xanna@example.org"), "{golden}");

    // Another mistake: a panic. It is told once, and where it is.
    std::fs::write(
        &source,
        text.replace(hidden, "Method::Hide => panic!(\"cannot hide {value}\")"),
    )
    .expect("written");
    ok(&project, &["build"]);
    let panics = plugin(&project, &["test", "--only", "customers"]);
    assert_eq!(panics.code, 6, "{}", panics.stdout);
    for line in [
        "FAILED   rows: ",
        "the component said:\n             error: panicked at src/lib.rs:",
        ": cannot hide anna@example.org\n",
        "skipped  canaries: the fixture's own rows already fail",
        "9 checks, 1 failed, 8 skipped",
    ] {
        assert!(panics.stdout.contains(line), "{line}: {}", panics.stdout);
    }
}

#[test]
fn the_standard_components_are_inspected_and_a_file_that_is_none_is_refused() {
    let dir = scratch();
    let mask = ok(dir.path(), &["inspect", "mask"]);
    for words in ["the built-in component `mask`", "sha256", "granted   keyed:"] {
        assert!(mask.stdout.contains(words), "{words}: {}", mask.stdout);
    }
    std::fs::write(dir.path().join("junk.wasm"), "junk").expect("written");
    let junk = plugin(dir.path(), &["inspect", "junk.wasm"]);
    assert_eq!(junk.code, 6);
    assert!(
        junk.stderr.contains("refused: junk.wasm: the file is no WebAssembly"),
        "{}",
        junk.stderr
    );
    let absent = plugin(dir.path(), &["inspect", "maks"]);
    assert_eq!(absent.code, 2);
}
