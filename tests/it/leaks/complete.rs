//! Whether these tests look at all that there is. A new command, a new way for rows to come in, a new place for values to show:
//! each fails here until the search goes through it.

use super::world::{Cache, World};
use crate::harness::{Server, sluice_binary};

/// The commands whose output and files the tests beside this one look through.
const LOOKED_THROUGH: [&str; 9] = [
    "check",
    "demo",
    "doctor",
    "drill",
    "init",
    "lock",
    "quarantine",
    "run",
    "status",
];
/// The commands that know no row of a server: `plugin` reads fixtures that its user wrote.
const WITHOUT_ROWS: [&str; 2] = ["help", "plugin"];

#[test]
fn every_command_is_looked_through() {
    let help = std::process::Command::new(sluice_binary())
        .arg("--help")
        .output()
        .expect("sluice starts");
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let (_, commands) = help.split_once("Commands:\n").expect("commands");
    let (commands, _) = commands.split_once("\n\n").expect("an end");
    // What a command does may go on in lines that are indented more.
    let name = |line: &str| {
        line.strip_prefix("  ")
            .filter(|rest| !rest.starts_with(' '))?
            .split(' ')
            .next()
            .map(str::to_owned)
    };
    let mut there: Vec<String> = commands.lines().filter_map(name).collect();
    there.sort();
    let mut known: Vec<&str> = LOOKED_THROUGH.into_iter().chain(WITHOUT_ROWS).collect();
    known.sort_unstable();
    assert_eq!(there, known);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_and_silver_are_not_there_to_be_looked_through() {
    let server = Server::start(&[]);
    server.database("sales").await;
    server.table("sales", "people", "id int NOT NULL PRIMARY KEY").await;
    let world = World::of(server, serde_json::json!([]), Cache::Shared);
    for (rest, key) in [("snapshot = \"initial\"", "snapshot"), ("[silver]", "silver")] {
        let run = world.run(&world.project(rest), "check", &[]);
        assert_eq!(run.code, 2, "{key}: {}", run.stdout);
        assert!(run.stderr.contains(key), "{}", run.stderr);
        assert!(
            run.stderr.contains("is not supported by this version"),
            "{}",
            run.stderr
        );
    }
}
