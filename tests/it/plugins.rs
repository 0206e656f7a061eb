//! Which plugin file runs: the one that was accepted, and, while a process runs, the one that was there when it began,
//! unless the configuration says that files may be exchanged.

use serde_json::Value;
use sluice_test_guests::component;

use crate::harness::{Project, Run, Running, Server, finish, ids, insert, rows_of, sales};

const UPPER: &str = "[[table.transform]]\nplugin = \"upper\"\nconfig = { columns = [\"v\"] }\n";

/// `dbo.t` through `upper`, from a file in the plugin directory.
async fn set_up(more: &str) -> (Server, Project) {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table("dbo_t", &format!("{more}{UPPER}"));
    project.plugin("upper", &component("upper"));
    (server, project)
}

/// The component with another digest: with a custom section more, which is called `note`.
fn another() -> Vec<u8> {
    let mut bytes = std::fs::read(component("upper")).expect("readable");
    bytes.extend_from_slice(&[0, 5, 4]);
    bytes.extend_from_slice(b"note");
    bytes
}

fn write(project: &Project, bytes: &[u8]) {
    std::fs::write(project.path().join("plugins/upper.wasm"), bytes).expect("written");
}

fn digest(bytes: &[u8]) -> String {
    <sha2::Sha256 as sha2::Digest>::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn first_digest() -> String {
    digest(&std::fs::read(component("upper")).expect("readable"))
}

fn lock_file(project: &Project) -> Option<String> {
    std::fs::read_to_string(project.path().join("sluice.lock")).ok()
}

/// The file's state by `sluice lock --check --json`, and the exit code.
fn checked(project: &Project) -> (i32, Option<String>) {
    let run = project.run("lock", &["--check", "--json"]);
    let state = run
        .of_type("pin")
        .first()
        .and_then(|pin| pin["state"].as_str().map(str::to_owned));
    (run.code, state)
}

fn error(run: &Run) -> String {
    run.failure("dbo_t")["error"].as_str().expect("text").to_owned()
}

/// The events of the facts: each with its `min_lsn` and the digest of its component.
fn events(project: &Project) -> Vec<(String, String, String)> {
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["min_lsn", "event"]).expect("facts");
    let (events, lsns, chains) = (facts.texts("event"), facts.texts("min_lsn"), facts.texts("transform"));
    events
        .into_iter()
        .zip(lsns.into_iter().zip(chains))
        .filter_map(|(event, (lsn, chain))| {
            let chain: Value = serde_json::from_str(&chain?).expect("JSON");
            Some((event?, lsn?, chain[0]["sha256"].as_str().expect("a digest").to_owned()))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_lock_file_only_accepted_plugin_files_run() {
    let (server, mut project) = set_up("on_transform_change = \"continue\"\n").await;
    insert(&server, 1..=1).await;
    // No source and no secret is needed.
    project.edit(
        "password = { file = \"password\" }",
        "password = { env = \"SLUICE_TEST_NOT_SET\" }",
    );
    assert_eq!(checked(&project), (2, Some("new".to_owned())));
    assert_eq!(lock_file(&project), None, "a check writes nothing");
    let locked = project.run("lock", &[]).ok();
    assert!(locked.stdout.contains("upper.wasm"), "{}", locked.stdout);
    let text = lock_file(&project).expect("a lock file");
    assert!(text.contains(&first_digest()), "{text}");
    assert_eq!(checked(&project), (0, Some("same".to_owned())));
    project.run("lock", &[]).ok();
    assert_eq!(lock_file(&project), Some(text.clone()), "nothing changed");
    project.edit(
        "password = { env = \"SLUICE_TEST_NOT_SET\" }",
        "password = { file = \"password\" }",
    );
    project.once().ok();

    write(&project, &another());
    insert(&server, 2..=2).await;
    for command in ["run", "check"] {
        let run = match command {
            "run" => project.once(),
            _ => project.run("check", &["--json"]),
        };
        assert_eq!(run.code, 2, "{}", run.stdout);
        for words in [
            "upper.wasm",
            &first_digest(),
            &digest(&another()),
            "sluice.lock",
            "`sluice lock`",
        ] {
            assert!(run.stdout.contains(words), "{words} in {}", run.stdout);
        }
    }
    assert_eq!(ids(&project), [1]);
    assert_eq!(checked(&project), (2, Some("changed".to_owned())));
    assert_eq!(lock_file(&project), Some(text), "a check writes nothing");
    let locked = project.run("lock", &[]).ok();
    assert!(
        locked.stdout.contains("\nwarning: both are upper "),
        "another file under the same version: {}",
        locked.stdout
    );
    project.once().ok();
    assert_eq!(ids(&project), [1, 2]);

    // Another plugin is refused until it is accepted too, and one that nobody uses any more is told.
    std::fs::copy(component("upper"), project.path().join("plugins/second.wasm")).expect("copied");
    project.edit("plugin = \"upper\"", "plugin = \"second\"");
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stdout);
    let text = error(&run);
    assert!(text.contains("second.wasm") && text.contains("`sluice lock`"), "{text}");
    let check = project.run("lock", &["--check"]);
    assert_eq!(check.code, 2, "{}", check.stdout);
    assert!(check.stderr.contains("second.wasm, upper.wasm"), "{}", check.stderr);
    let removes = "which no table uses: `sluice lock` removes it from the lock file";
    assert!(check.stdout.contains(removes), "{}", check.stdout);
    let locked = project.run("lock", &[]).ok();
    let removed = "which no table uses: removed from the lock file";
    assert!(locked.stdout.contains(removed), "{}", locked.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_file_has_to_agree_with_the_digest_in_the_configuration_and_to_be_one() {
    let (server, mut project) = set_up("").await;
    insert(&server, 1..=1).await;
    let pin = |digest: &str| format!("plugin = \"upper\"\nsha256 = \"{digest}\"\n");
    project.edit("plugin = \"upper\"\n", &pin(&digest(&another())));
    let run = project.run("lock", &[]);
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(
        run.stderr.contains("dbo_t") && run.stderr.contains("is pinned"),
        "{}",
        run.stderr
    );
    assert_eq!(lock_file(&project), None);
    project.edit(&pin(&digest(&another())), &pin(&first_digest()));
    project.run("lock", &[]).ok();
    project.once().ok();

    std::fs::write(project.path().join("sluice.lock"), "format = 1\n[[plugin").expect("written");
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert!(run.stdout.contains("sluice.lock is no lock file"), "{}", run.stdout);
    assert_eq!(project.run("lock", &["--check"]).code, 2);
    // Nothing of it is needed to say how far the tables are, and it can be written anew.
    project.run("status", &[]).ok();
    project.run("lock", &[]).ok();
    assert_eq!(checked(&project), (0, Some("same".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_components_are_not_pinned() {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table(
        "dbo_t",
        "[[table.transform]]\nplugin = \"mask\"\nconfig = { unlisted = \"pass\" }\n",
    );
    let run = project.run("lock", &["--json"]).ok();
    assert_eq!(run.of_type("pin"), Vec::<Value>::new());
    assert_eq!(run.of_type("built_in")[0]["name"], "mask");
    project.run("lock", &["--check"]).ok();
    project.once().ok();
}

fn reloading(project: &mut Project) {
    project.edit("dir = \"plugins\"", "dir = \"plugins\"\nreload = true");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_reload_another_file_takes_effect_at_the_next_batch_and_a_half_written_one_does_not() {
    let (server, mut project) = set_up("on_transform_change = \"continue\"\n").await;
    reloading(&mut project);
    insert(&server, 1..=1).await;
    let mut run = Running::start(&project, &[]);
    run.until_batches(&["dbo_t"]);

    let whole = another();
    write(&project, &whole[..whole.len() / 2]);
    insert(&server, 2..=2).await;
    run.until("a warning of the half", |event| {
        event["type"] == "warning"
            && event["message"]
                .as_str()
                .is_some_and(|text| text.contains("cannot be used"))
    });
    run.until_batches(&["dbo_t"]);

    write(&project, &whole);
    insert(&server, 3..=3).await;
    run.until("a warning of the change", |event| {
        event["type"] == "warning"
            && event["message"]
                .as_str()
                .is_some_and(|text| text.contains("the file of plugin upper has SHA-256"))
    });
    run.until_type("opened");
    run.until_batches(&["dbo_t"]);
    run.terminate();
    assert_eq!(run.code(), Some(0));

    assert_eq!(ids(&project), [1, 2, 3]);
    let events = events(&project);
    let [set, changed] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((set.0.as_str(), &set.2), ("transform_set", &first_digest()));
    assert_eq!((changed.0.as_str(), &changed.2), ("transform_changed", &digest(&whole)));
    let bronze = rows_of(&project.bronze("dbo_t"), &["_start_lsn"]).expect("rows");
    let lsns: Vec<String> = bronze.texts("_start_lsn").into_iter().flatten().collect();
    assert!(changed.1 > lsns[1] && changed.1 <= lsns[2], "{changed:?} of {lsns:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_reload_the_policy_for_changed_chains_and_the_lock_file_hold() {
    for locked in [false, true] {
        let (server, mut project) = set_up("").await;
        reloading(&mut project);
        if locked {
            project.run("lock", &[]).ok();
        }
        insert(&server, 1..=1).await;
        let mut run = Running::start(&project, &[]);
        run.until_batches(&["dbo_t"]);
        write(&project, &another());
        insert(&server, 2..=2).await;
        let failed = run.until_type("failed");
        let error = failed["error"].as_str().expect("text");
        match locked {
            true => assert!(
                error.contains("`sluice lock`") && error.contains(&digest(&another())),
                "{error}"
            ),
            false => assert!(
                error.contains("the transform chain changed since batch") && error.contains("the component of upper"),
                "{error}"
            ),
        }
        assert_eq!(run.code(), Some(2));
        assert_eq!(ids(&project), [1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_reload_another_file_takes_effect_at_the_next_start() {
    let (server, project) = set_up("on_transform_change = \"continue\"\n").await;
    insert(&server, 1..=1).await;
    let mut run = Running::start(&project, &[]);
    run.until_batches(&["dbo_t"]);
    write(&project, &another());
    insert(&server, 2..=2).await;
    run.until_batches(&["dbo_t"]);
    run.terminate();
    assert_eq!(run.code(), Some(0));
    let names = |events: Vec<(String, String, String)>| events.into_iter().map(|event| event.0).collect::<Vec<_>>();
    assert_eq!(names(events(&project)), ["transform_set"]);
    insert(&server, 3..=3).await;
    finish(
        project
            .command("run", &["--once", "--json"])
            .output()
            .expect("sluice starts"),
    )
    .ok();
    assert_eq!(names(events(&project)), ["transform_set", "transform_changed"]);
}
