//! A bad component stops its table before anything is written; the others finish; the error names table, component and
//! reason, and shows no value.

use sluice_test_guests::component;

use crate::harness::{Project, Server, commits, files_under, finish, ids, insert, rows_of, sales, sluice_binary};

const SECRET: &str = "very-secret-value";

/// A database with a table for the component, and one beside it.
async fn server() -> Server {
    let server = Server::start(&[]);
    server.database("sales").await;
    for table in ["guarded", "beside"] {
        server
            .table("sales", table, "id int NOT NULL PRIMARY KEY, v nvarchar(40) NULL")
            .await;
        server
            .exec(
                "sales",
                &format!("INSERT INTO dbo.{table} VALUES (1, N'{SECRET}'), (2, NULL), (3, N'é')"),
            )
            .await;
        server
            .exec("sales", &format!("UPDATE dbo.{table} SET v = N'x' WHERE id = 3"))
            .await;
    }
    server
}

fn project(server: &Server, plugin: &str, config: &str, more: &str) -> Project {
    Project::new(server, "sales")
        .table(
            "dbo_guarded",
            &format!("[[table.transform]]\nplugin = \"{plugin}\"\n{more}\nconfig = {config}\n"),
        )
        .table("dbo_beside", "")
}

/// Runs, and checks everything that holds for every bad component. The error of the table.
fn refused(project: &Project, plugin: &str, case: &str) -> (i32, String) {
    let run = project.once();
    assert_ne!(run.code, 0, "{case}: {}", run.stdout);
    let failure = run.failure("dbo_guarded");
    let error = failure["error"].as_str().expect("text").to_owned();
    assert!(
        error.contains("dbo_guarded") && error.contains(plugin),
        "{case}: {error}"
    );
    assert_eq!(run.table("dbo_beside")["rows"], 5, "{case}: the other table finishes");
    assert!(
        rows_of(&project.bronze("dbo_guarded"), &["_start_lsn"]).is_none(),
        "{case}: no row"
    );
    let versions = commits(&project.bronze("dbo_guarded"));
    assert!(
        versions.iter().flatten().all(|action| action["add"].is_null()),
        "{case}: no file in the log"
    );
    if project.bronze("dbo_guarded").exists() {
        let left: Vec<_> = files_under(&project.bronze("dbo_guarded"))
            .into_iter()
            .filter(|file| file.extension().is_some_and(|extension| extension == "parquet"))
            .collect();
        assert!(left.is_empty(), "{case}: staged files are removed: {left:?}");
    }
    for text in [&run.stdout, &run.stderr] {
        assert!(!text.contains(SECRET), "{case}: a value is shown: {text}");
    }
    (run.code, error)
}

/// Field cases 20 to 23 from outside: the fault is named, no row of the batch is written, and the table beside goes on.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_component_does_wrong_nothing_of_its_batch_is_written() {
    let server = server().await;
    let guest = component("badguest");
    // Behaviour, what else its configuration has, settings of the transform, and the reason that a person reads.
    let plain = "memory = \"64MiB\"";
    let cases = [
        (
            "trap",
            "",
            plain,
            "the component trapped: wasm trap: wasm `unreachable` instruction executed",
        ),
        ("panic", "", plain, "the component trapped"),
        ("loop", "", "deadline = \"1s\"", "overran its deadline of 1000 ms"),
        ("eat-memory", "", plain, "overran its memory limit of 67108864 bytes"),
        ("recurse", "", plain, "overran its stack"),
        (
            "keyed-flood",
            "",
            "memory = \"64MiB\"\nkeys = [\"pii\"]",
            "overran its memory limit of 67108864 bytes",
        ),
        (
            "error-with-secret",
            "",
            plain,
            "refused the batch with code `withheld-code`",
        ),
        (
            "short-column",
            "",
            plain,
            "column `made`: it has 4 values instead of 5, one a row (offsets: 5)",
        ),
        (
            "long-column",
            "",
            plain,
            "column `made`: it has 6 values instead of 5, one a row (offsets: 7)",
        ),
        (
            "odd-values",
            "",
            plain,
            "column `made`: its values have 21 bytes instead of 20",
        ),
        (
            "short-booleans",
            "",
            plain,
            "column `made`: its values have 0 bytes instead of 1",
        ),
        ("offset-beyond", "", plain, "its offsets do not rise"),
        ("offsets-falling", "", plain, "its offsets do not rise"),
        ("offset-negative", "", plain, "its offsets do not rise"),
        ("offsets-not-from-zero", "", plain, "its offsets do not rise"),
        ("values-uncovered", "", plain, "its offsets do not rise"),
        ("no-offsets", "", plain, "it has no offsets instead of 6"),
        ("invalid-utf8", "", plain, "column `made`: its text is not valid UTF-8"),
        (
            "split-character",
            "",
            plain,
            "column `made`: its text is not valid UTF-8",
        ),
        (
            "short-validity",
            "",
            plain,
            "its validity bitmap has 0 bytes instead of 1",
        ),
        ("null-in-non-null", "", plain, "column `made`: it has a NULL"),
        (
            "decimal-too-large",
            "",
            plain,
            "column `made`: its value in row 0 is beyond what its type can hold",
        ),
        (
            "too-many-columns",
            "",
            plain,
            "1 computed columns are expected and 2 came",
        ),
        (
            "too-few-columns",
            "",
            plain,
            "1 computed columns are expected and 0 came",
        ),
        (
            "huge-output",
            ", bytes = 40000000",
            "output = \"16MiB\"",
            "handed over more than its limit of 16777216 bytes",
        ),
        ("reject-beyond", "", plain, "it rejects a row beyond the batch's 5"),
        ("reject-with-value", "", plain, "rejected with code `invalid-code`"),
        ("reject", "", plain, "column `v`, row 0 of the chunk (LSN 0x"),
        (
            "short-dropped",
            "",
            plain,
            "the bitmap of dropped rows has 0 bytes instead of 1",
        ),
    ];
    for (behave, config, settings, reason) in cases {
        let project = project(
            &server,
            "badguest",
            &format!("{{ behave = \"{behave}\"{config} }}"),
            settings,
        );
        project.plugin("badguest", &guest);
        let (code, error) = refused(&project, "badguest", behave);
        assert_eq!(code, 6, "{behave}: {error}");
        assert!(error.contains(reason), "{behave}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_component_says_is_logged_only_when_it_is_asked_for_by_name() {
    let server = server().await;
    let guest = component("badguest");
    for (behave, filter, shown) in [
        ("log-flood", "sluice=debug", false),
        ("error-with-secret", "debug", false),
        ("error-with-secret", "sluice::guest=debug", true),
    ] {
        let project = project(&server, "badguest", &format!("{{ behave = \"{behave}\" }}"), "");
        project.plugin("badguest", &guest);
        let run = project.once_with(&[("SLUICE_LOG", filter)]);
        assert_eq!(run.stderr.contains(SECRET), shown, "{behave} with {filter}");
        assert!(!run.stdout.contains(SECRET), "{behave} with {filter}");
    }
}

/// A chunk is tried twice. Nobody sees colours in a pipe.
#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_logged_once_and_a_log_in_a_pipe_has_no_colours() {
    let server = server().await;
    let project = project(&server, "badguest", "{ behave = \"trap\" }", "");
    project.plugin("badguest", &component("badguest"));
    let run = project.once_with(&[("SLUICE_LOG", "sluice::guest=debug")]);
    assert_eq!(run.code, 6, "{}", run.stdout);
    assert_eq!(run.stderr.matches("sluice::guest").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("wasm trap"), "{}", run.stderr);
    assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
}

/// Who looks later has not seen what the run said.
#[tokio::test(flavor = "multi_thread")]
async fn why_a_table_stopped_is_kept_until_a_batch_is_done() {
    let server = server().await;
    let mut project = project(&server, "map", "{ columns = { v = { cast = \"int\" } } }", "");
    let run = project.once();
    assert_eq!(run.code, 6, "{}", run.stdout);
    let said = run.failure("dbo_guarded")["error"]
        .as_str()
        .expect("a message")
        .to_owned();
    let status = project.run("status", &[]);
    assert_eq!(status.code, 6, "it ends as the run did: {status:?}");
    assert!(status.stdout.contains(" failed "), "{}", status.stdout);
    assert!(status.stdout.contains("stopped at "), "{}", status.stdout);
    assert!(status.stdout.contains(&said), "{}", status.stdout);
    let check = project.run("check", &[]).ok();
    let told = "and the next one stops there too unless this is over";
    assert!(
        check.stdout.contains(told) && check.stdout.contains(&said),
        "{}",
        check.stdout
    );
    // A run that stops again keeps the newer one.
    assert_eq!(project.once().code, 6);
    project.edit("plugin = \"map\"", "plugin = \"map\"\non_error = \"quarantine\"");
    project.once().ok();
    let status = project.run("status", &["--json"]).ok().events();
    assert!(
        status[0]["stopped"].is_null() && status[0]["stopped_at"].is_null(),
        "{status:?}"
    );
    assert!(!project.run("check", &[]).ok().stdout.contains(told));
}

/// Also before the first batch, when there is no position yet.
#[tokio::test(flavor = "multi_thread")]
async fn why_a_table_stopped_is_gone_when_a_run_finds_nothing_to_do() {
    let server = server().await;
    server.table("sales", "empty", "id int NOT NULL PRIMARY KEY").await;
    let project = Project::new(&server, "sales")
        .table("dbo_beside", "")
        .table("dbo_empty", "");
    project.once().ok();
    let later = r#"{ "format": 1, "at": "9999-12-31T00:00:00.000Z", "error": "of a run before" }"#;
    let file = |table: &str| project.lake().join("checkpoints").join(table).join("stopped.json");
    for table in ["dbo_beside", "dbo_empty"] {
        assert!(!file(table).exists(), "{table}");
        std::fs::write(file(table), later).expect("written");
    }
    // An older sluice kept no kind of it.
    let status = project.run("status", &[]);
    assert_eq!(status.code, 7, "{status:?}");
    assert_eq!(status.stdout.matches("of a run before").count(), 2, "{}", status.stdout);
    project.once().ok();
    for table in ["dbo_beside", "dbo_empty"] {
        assert!(!file(table).exists(), "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_plan_is_refused_before_anything_is_read() {
    let server = server().await;
    let guest = component("badguest");
    for behave in [
        "loop-in-open",
        "trap-in-open",
        "config-error",
        "unknown-column",
        "unknown-read",
        "duplicate-outputs",
        "fake-start-lsn",
        "renamed-to-start-lsn",
        "forbidden-name",
        "decimal-too-wide",
    ] {
        let project = project(&server, "badguest", &format!("{{ behave = \"{behave}\" }}"), "");
        project.plugin("badguest", &guest);
        refused(&project, "badguest", behave);
        assert!(
            !project.bronze("dbo_guarded").exists(),
            "{behave}: not even the table is made"
        );
    }
}

/// Field case 23 from outside: an unknown import, a cut file.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_no_plugin_are_refused_by_name() {
    let server = server().await;
    let guest = std::fs::read(component("badguest")).expect("readable");
    let scratch = crate::harness::scratch();
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    // A type section (7) with one component type in another, a million times: 3 MB that no stack would hold.
    let levels = [1, 1, 0x41].repeat(1_000_000);
    let deep = [&guest[..], b"\x07\xc3\x8d\xb7\x01\x01\x41", &levels, &[0]].concat();
    let cases = [
        ("deep", file("deep.wasm", &deep), "more than 1000 component types"),
        ("unknown-import", component("unknown-import"), "import"),
        ("not-a-plugin", component("not-a-plugin"), "sluice:transform"),
        ("cut", file("cut.wasm", &guest[..guest.len() / 2]), "cut.wasm"),
        ("garbage", file("garbage.wasm", b"\0asm nonsense"), "garbage.wasm"),
        ("empty", file("empty.wasm", b""), "empty.wasm"),
    ];
    // Nobody writes into it: whoever opens it would wait.
    let pipe = project(&server, "pipe", "{}", "");
    let made = std::process::Command::new("mkfifo")
        .arg(pipe.path().join("plugins/pipe.wasm"))
        .status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    let (_, error) = refused(&pipe, "pipe", "pipe");
    assert!(error.contains("it is no regular file"), "{error}");
    for (name, path, reason) in cases {
        let project = project(&server, name, "{}", "");
        project.plugin(name, &path);
        let (code, error) = refused(&project, name, name);
        assert!(code == 2 || code == 6, "{name}: {code} {error}");
        assert!(error.contains(reason), "{name}: {error}");
    }
    let missing = project(&server, "nosuch", "{}", "");
    let (code, error) = refused(&missing, "nosuch", "missing");
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("mask") && error.contains("map"),
        "what there is, is listed: {error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_column_may_not_pass_and_its_values_may_not_come_out_elsewhere() {
    let server = server().await;
    let guest = component("badguest");
    for behave in ["leak", "leak-whole"] {
        let project = Project::new(&server, "sales")
            .table(
                "dbo_guarded",
                &format!(
                    "protect = [\"v\"]\n[[table.transform]]\nplugin = \"badguest\"\nconfig = {{ behave = \"{behave}\" }}\n\
                     [[table.transform]]\nplugin = \"map\"\nconfig = {{ columns = {{ v = {{ drop = true }} }} }}\n"
                ),
            )
            .table("dbo_beside", "");
        project.plugin("badguest", &guest);
        let (code, error) = refused(&project, "protected column `v` appears in output column `made`", behave);
        assert_eq!(code, 6, "{error}");
    }
    let passes = Project::new(&server, "sales")
        .table(
            "dbo_guarded",
            "protect = [\"V\"]\n[[table.transform]]\nplugin = \"mask\"\nconfig = { unlisted = \"pass\" }\n",
        )
        .table("dbo_beside", "");
    let (code, error) = refused(
        &passes,
        "protected column `v` passes the transforms unchanged",
        "passes",
    );
    assert_eq!(code, 2, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_value_that_changed_its_type_is_found() {
    let server = Server::start(&[]);
    server.database("sales").await;
    server
        .table(
            "sales",
            "people",
            "id int NOT NULL PRIMARY KEY, national_id char(9) NULL, born date NULL",
        )
        .await;
    server
        .exec(
            "sales",
            "INSERT INTO dbo.people VALUES (1, '012345678', '1990-05-17'), (2, NULL, '1991-06-18'), \
             (3, '112345678', '1992-07-19'), (4, '212345678', '1993-08-20')",
        )
        .await;
    for (column, cast) in [("national_id", "bigint"), ("born", "string"), ("born", "timestamp_ntz")] {
        let with = |plugin: &str| {
            let transform = format!(
                "protect = [\"{column}\"]\n[[table.transform]]\nplugin = \"{plugin}\"\n\
                 config = {{ columns = {{ {column} = {{ cast = \"{cast}\" }} }} }}\n"
            );
            Project::new(&server, "sales").table("dbo_people", &transform)
        };
        // Of the built-in `map` it is known before anything is read that it masks nothing.
        let run = with("map").once();
        assert_eq!(run.code, 2, "{column}: {}", run.stdout);
        let failure = run.failure("dbo_people");
        let error = failure["error"].as_str().expect("text");
        assert!(
            error.contains(&format!(
                "protected column `{column}` comes out as `{column}`, and only `map` changed it"
            )),
            "{error}"
        );
        // Of the same component as somebody else's file it is not, and the values tell.
        let project = with("caster");
        project.plugin("caster", &component("map"));
        let run = project.once();
        assert_eq!(run.code, 6, "{column}: {}", run.stdout);
        let failure = run.failure("dbo_people");
        let error = failure["error"].as_str().expect("text");
        assert!(
            error.contains(&format!(
                "protected column `{column}` appears in output column `{column}`"
            )),
            "{error}"
        );
        assert!(!error.contains("12345678") && !error.contains("199"), "{error}");
        assert!(
            rows_of(&project.bronze("dbo_people"), &["_start_lsn"]).is_none(),
            "no row"
        );
    }
    // A mask that says something else of the same columns is none.
    let masked = Project::new(&server, "sales").table(
        "dbo_people",
        "protect = [\"national_id\", \"born\"]\n[[table.transform]]\nplugin = \"mask\"\n\
         config = { unlisted = \"pass\", columns = { national_id = { method = \"keep\", last = 2 }, \
         born = { method = \"date\", truncate = \"year\" } } }\n",
    );
    assert_eq!(masked.once().ok().table("dbo_people")["rows"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlisted_column_stops_the_table_and_is_named() {
    let server = server().await;
    let project = project(&server, "mask", "{ columns = { id = \"pass\" } }", "");
    let (code, error) = refused(&project, "mask", "unlisted");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("`v`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn well_behaved_components_work_and_are_in_the_provenance() {
    let server = server().await;
    let project = project(&server, "upper", "{ columns = [\"v\"] }", "");
    project.plugin("upper", &component("upper"));
    project.once().ok();
    let rows = rows_of(
        &project.bronze("dbo_guarded"),
        &["_start_lsn", "_command_id", "_seqval", "_operation"],
    )
    .expect("rows");
    let upper = |text: &str| Some(text.to_owned());
    assert_eq!(
        rows.texts("v"),
        [upper("VERY-SECRET-VALUE"), None, upper("é"), upper("é"), upper("X")]
    );
    let log = commits(&project.bronze("dbo_guarded"));
    let metadata = log
        .iter()
        .flatten()
        .filter_map(|action| action["commitInfo"]["userMetadata"].as_str())
        .next_back()
        .expect("user metadata");
    let metadata: serde_json::Value = serde_json::from_str(metadata).expect("JSON");
    let bytes = std::fs::read(component("upper")).expect("readable");
    let digest: String = <sha2::Sha256 as sha2::Digest>::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(metadata["transform"][0]["sha256"], digest.as_str());
    assert_eq!(metadata["transform"][0]["wit"], "0.3.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_which_the_row_before_is_dropped_is_an_insert_in_bronze() {
    let server = server().await;
    let project = project(&server, "badguest", "{ behave = \"split-update\" }", "");
    project.plugin("badguest", &component("badguest"));
    let run = project.once().ok();
    let table = run.table("dbo_guarded");
    let counts = ["rows", "inserts", "updates", "deletes"];
    assert_eq!(counts.map(|name| table[name].as_i64()), [4, 4, 0, 0].map(Some));
    let order = ["_start_lsn", "_command_id", "_seqval"];
    let rows = rows_of(&project.bronze("dbo_guarded"), &order).expect("rows");
    assert_eq!(rows.numbers("_operation"), [2, 2, 2, 2]);
    assert_eq!(rows.texts("v").last(), Some(&Some("x".to_owned())));
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["app_id", "batch_id"]).expect("facts");
    assert!(facts.texts("rows_filtered").contains(&Some("1".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_a_component_drops_leaves_both_its_rows() {
    let server = server().await;
    let project = project(&server, "badguest", "{ behave = \"drop-updates\" }", "");
    project.plugin("badguest", &component("badguest"));
    let run = project.once().ok();
    // What is counted is what is in bronze.
    let counts = ["rows", "inserts", "updates", "deletes"];
    let table = run.table("dbo_guarded");
    assert_eq!(counts.map(|name| table[name].as_i64()), [3, 3, 0, 0].map(Some));
    let rows = rows_of(
        &project.bronze("dbo_guarded"),
        &["_start_lsn", "_command_id", "_seqval"],
    )
    .expect("rows");
    assert_eq!(rows.numbers("_operation"), [2, 2, 2]);
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["app_id", "batch_id"]).expect("facts");
    let batch = facts
        .texts("rows_filtered")
        .iter()
        .position(|filtered| *filtered == Some("2".to_owned()));
    let batch = batch.expect("the facts say what was left out");
    assert_eq!(
        counts.map(|name| facts.texts(name)[batch].clone()),
        ["3", "3", "0", "0"].map(|n| Some(n.to_owned()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_little_address_space_maps_memory_for_each_instance() {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table(
        "dbo_t",
        "[[table.transform]]\nplugin = \"upper\"\nconfig = { columns = [\"v\"] }\n",
    );
    project.plugin("upper", &component("upper"));
    insert(&server, 1..=2).await;
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 67108864 && exec \"$0\" \"$@\""])
        .arg(sluice_binary())
        .args(["run", "--once", "--json", "-c"])
        .arg(project.config())
        .output()
        .expect("sluice starts");
    let run = finish(output).ok();
    assert_eq!(run.table("dbo_t")["rows"], 2);
    assert_eq!(ids(&project), [1, 2]);
}
