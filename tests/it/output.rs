//! What the commands print: each JSON object has the fields that `docs/reference/json.md` lists for its type, and a reader
//! that goes away is no failure.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use sluice_test_guests::component;

use crate::harness::{Project, finish, sales_of, sluice_binary, wait_for};

/// Fields of each type, as the page lists them.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/json.md");
    let text = std::fs::read_to_string(page).expect("the page");
    let is_name = |word: &str| {
        let of_a_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        word.starts_with(|first: char| first.is_ascii_lowercase()) && word.bytes().all(of_a_name)
    };
    let mut types = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let fields = cells[2]
            .split('`')
            .skip(1)
            .step_by(2)
            .flat_map(|names| names.split(','))
            .map(|name| name.trim().to_owned())
            .filter(|name| is_name(name))
            .chain(["type".to_owned()])
            .collect();
        types.insert(cells[0].trim_matches('`').to_owned(), fields);
    }
    types
}

fn as_documented(objects: &[Value], types: &BTreeMap<String, BTreeSet<String>>, seen: &mut BTreeSet<String>) {
    for object in objects {
        let kind = object["type"].as_str().expect("a type");
        let documented = types.get(kind).unwrap_or_else(|| panic!("{kind} is not in json.md"));
        let mut fields: BTreeSet<String> = object.as_object().expect("an object").keys().cloned().collect();
        if kind == "warning" {
            // Of a table, or of the configuration.
            fields.insert("capture_instance".to_owned());
        }
        assert_eq!(&fields, documented, "{object}");
        seen.insert(kind.to_owned());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_json_object_has_the_fields_that_the_page_lists() {
    let types = documented();
    let mut seen = BTreeSet::new();
    let dir = crate::harness::scratch();
    let demo = Command::new(sluice_binary())
        .args(["demo", "--rows", "200", "--json", "--dir"])
        .arg(dir.path())
        .output()
        .expect("sluice starts");
    as_documented(&finish(demo).ok().events(), &types, &mut seen);

    let server = sales_of("id int NOT NULL PRIMARY KEY").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1)").await;
    let mut project = Project::new(&server, "sales")
        .table("dbo_t", "")
        .table("dbo_missing", "");
    // A literal secret is a warning; the first read of the changes fails once.
    let password = std::fs::read_to_string(project.path().join("password")).expect("the password");
    project.edit(
        "password = { file = \"password\" }",
        &format!("password = \"{password}\""),
    );
    server
        .exec(
            "master",
            "EXEC sim.fault @kind = N'error', @number = 1205, @match = N'[cdc].[dbo_t_CT]'",
        )
        .await;
    let with_page = project.run("run", &["--json", "--once", "--http", "127.0.0.1:0"]);
    as_documented(&with_page.events(), &types, &mut seen);
    as_documented(&project.run("status", &["--json"]).ok().events(), &types, &mut seen);
    as_documented(&project.run("check", &["--json"]).events(), &types, &mut seen);
    let drill = project.run("drill", &["--json", "--only", "control-missing"]);
    as_documented(&drill.events(), &types, &mut seen);
    let owner = project.lake().join("checkpoints/dbo_t/owner.json");
    std::fs::write(owner, "{").expect("damaged");
    let doctor = project.run("doctor", &["--json", "--repair"]);
    as_documented(&doctor.events(), &types, &mut seen);
    // A row in quarantine, and a lock file with a plugin and a built-in component.
    server
        .table("sales", "u", "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL")
        .await;
    server.exec("sales", "INSERT INTO dbo.u VALUES (1, N'one')").await;
    let other = Project::new(&server, "sales").table(
        "dbo_u",
        "[[table.transform]]\nplugin = \"upper\"\nconfig = { columns = [\"v\"] }\n\
         [[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\nconfig = { columns = { v = { cast = \"int\" } } }\n",
    );
    other.plugin("upper", &component("upper"));
    as_documented(&other.once().ok().events(), &types, &mut seen);
    for (command, arguments) in [
        ("quarantine", &["list", "--json"][..]),
        ("quarantine", &["retry", "--json"]),
        ("lock", &["--json"]),
    ] {
        as_documented(&other.run(command, arguments).ok().events(), &types, &mut seen);
    }
    project.edit("granularity", "granularty");
    as_documented(&project.once().events(), &types, &mut seen);
    as_documented(&project.run("status", &["--json"]).events(), &types, &mut seen);
    let all: BTreeSet<String> = types.into_keys().collect();
    assert_eq!(seen, all, "every type was seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_is_no_failure() {
    let server = sales_of("id int NOT NULL PRIMARY KEY").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1)").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    for (command, arguments) in [("run", &["--json"][..]), ("check", &[]), ("status", &[])] {
        let mut child = project
            .command(command, arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sluice starts");
        let mut first = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut first).expect("a line");
        drop(out);
        if command == "run" {
            // It goes on until it has something to say.
            server.exec("sales", "UPDATE dbo.t SET id = id + 1").await;
        }
        assert!(wait_for(|| matches!(child.try_wait(), Ok(Some(_)))), "{command} ends");
        let mut errors = String::new();
        child
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut errors)
            .expect("text");
        assert_eq!(child.wait().expect("ended").code(), Some(0), "{command}: {errors}");
        assert!(!errors.contains("panicked"), "{command}: {errors}");
    }
}

#[test]
fn a_syntax_error_has_its_place_and_not_its_line() {
    let dir = crate::harness::scratch();
    let file = dir.path().join("sluice.toml");
    std::fs::write(&file, "[source]\nuser = \"sa\"\npassword = hunter2\n").expect("written");
    let run = finish(
        Command::new(sluice_binary())
            .args(["check", "-c"])
            .arg(&file)
            .output()
            .expect("sluice starts"),
    );
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("sluice.toml") && run.stderr.contains("at line 3, column 12"),
        "{}",
        run.stderr
    );
    assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
}
