//! A bad component stops its table before anything is written; the others finish; the error names table, component and
//! reason, and shows no value.

use sluice_test_guests::component;

use crate::harness::{Project, Server, commits, files_under, rows_of};

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
            &format!("[[table.transform]]\nplugin = \"{plugin}\"\ndeadline = \"1s\"\n{more}\nconfig = {config}\n"),
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

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_component_does_wrong_nothing_of_its_batch_is_written() {
    let server = server().await;
    let guest = component("badguest");
    // Behaviour, and a part of the reason that a person reads.
    let cases = [
        ("trap", "trap"),
        ("panic", "trap"),
        ("loop", "deadline"),
        ("eat-memory", "memory"),
        ("recurse", "stack"),
        ("error-with-secret", ""),
        ("short-column", ""),
        ("long-column", ""),
        ("odd-values", ""),
        ("short-booleans", ""),
        ("offset-beyond", ""),
        ("offsets-falling", ""),
        ("offset-negative", ""),
        ("offsets-not-from-zero", ""),
        ("values-uncovered", ""),
        ("no-offsets", ""),
        ("invalid-utf8", "UTF-8"),
        ("split-character", "UTF-8"),
        ("short-validity", ""),
        ("null-in-non-null", "NULL"),
        ("decimal-too-large", ""),
        ("too-many-columns", ""),
        ("too-few-columns", ""),
        ("huge-output", ""),
        ("reject-beyond", ""),
        ("reject-with-value", ""),
        ("reject", ""),
        ("split-update", "update"),
        ("short-dropped", ""),
    ];
    for (behave, reason) in cases {
        let bytes = if behave == "huge-output" {
            ", bytes = 1000000000"
        } else {
            ""
        };
        let project = project(
            &server,
            "badguest",
            &format!("{{ behave = \"{behave}\"{bytes} }}"),
            "memory = \"64MiB\"",
        );
        project.plugin("badguest", &guest);
        let (code, error) = refused(&project, "badguest", behave);
        assert_eq!(code, 6, "{behave}: {error}");
        assert!(
            error.to_lowercase().contains(&reason.to_lowercase()),
            "{behave}: {error}"
        );
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
        let (code, error) = refused(&project, "v", behave);
        assert_eq!(code, 6, "{error}");
    }
    let passes = Project::new(&server, "sales")
        .table(
            "dbo_guarded",
            "protect = [\"V\"]\n[[table.transform]]\nplugin = \"mask\"\nconfig = { unlisted = \"pass\" }\n",
        )
        .table("dbo_beside", "");
    let (code, error) = refused(&passes, "v", "passes");
    assert_eq!(code, 2, "{error}");
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
    assert_eq!(metadata["transform"][0]["wit"], "0.1.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_a_component_drops_leaves_both_its_rows() {
    let server = server().await;
    let project = project(&server, "badguest", "{ behave = \"drop-updates\" }", "");
    project.plugin("badguest", &component("badguest"));
    let run = project.once().ok();
    assert_eq!(run.table("dbo_guarded")["rows"], 3);
    let rows = rows_of(
        &project.bronze("dbo_guarded"),
        &["_start_lsn", "_command_id", "_seqval"],
    )
    .expect("rows");
    assert_eq!(rows.numbers("_operation"), [2, 2, 2]);
}
