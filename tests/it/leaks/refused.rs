//! Errors: components that put values into whatever they can say, and values that cannot be transformed.

use sluice_test_guests::component;

use super::sentinels::{mask, protect};
use super::world::{Cache, World};
use crate::harness::Project;

const TO_NUMBER: &str = "plugin = \"map\"\nconfig = { columns = { c_nvarchar = { cast = \"int\" } } }\n";
const QUARANTINE: &str = "on_error = \"quarantine\"\n";

/// The component before the mask. It reads the first column of text, as it came from the source.
fn bad(behave: &str) -> String {
    format!("plugin = \"badguest\"\nconfig = {{ behave = \"{behave}\" }}\n")
}

/// The chain with a transform before the mask, which passes what that one made.
fn chain(settings: &str, transform: &str) -> String {
    format!(
        "{settings}{}[[table.transform]]\n{transform}{}",
        protect(),
        mask("pass")
    )
}

fn project(world: &World, rest: &str) -> Project {
    let project = world.project(rest);
    project.plugin("badguest", &component("badguest"));
    project
}

#[tokio::test(flavor = "multi_thread")]
async fn no_error_shows_a_value_whatever_a_component_says_and_one_that_is_asked_for_does() {
    let world = World::new(Cache::Shared).await;
    // What it does, and what the error has to have in it.
    let cases = [
        (bad("reject-with-plain-value"), "rejected with code `withheld-code`"),
        (bad("reject-with-value"), "rejected with code `invalid-code`"),
        (bad("reject-unknown-column"), "column `(unknown)`"),
        (bad("error-with-secret"), "refused the batch with code `withheld-code`"),
        (bad("panic"), "the component trapped"),
        (
            bad("leak"),
            "protected column `c_nvarchar` appears in output column `made`",
        ),
        (
            bad("leak-whole"),
            "protected column `c_nvarchar` appears in output column `made`",
        ),
        (TO_NUMBER.to_owned(), "rejected with code `cast-invalid`"),
    ];
    let mut projects = Vec::new();
    for (transform, words) in &cases {
        let project = project(&world, &chain("", transform));
        let run = world.once(&project);
        assert_eq!(run.code, 6, "{transform}: {}\n{}", run.stdout, run.stderr);
        let error = run.failure("dbo_people")["error"].to_string();
        assert!(error.contains(words), "{transform}: {error}");
        projects.push(project);
    }
    // The same where their rows may go into quarantine, those that leak too.
    for (transform, _) in &cases {
        let project = project(&world, &chain("", &format!("{QUARANTINE}{transform}")));
        let run = world.once(&project);
        assert_eq!(run.code, 0, "{transform}: {}\n{}", run.stdout, run.stderr);
        let listed = world.run(&project, "quarantine", &["list", "--rows"]).ok();
        assert!(!listed.stdout.contains("no rows"), "{transform}: {}", listed.stdout);
        let leaked = listed.stdout.contains("protected-value");
        assert_eq!(leaked, transform.contains("leak"), "{transform}: {}", listed.stdout);
        projects.push(project);
    }
    let room = "max_quarantined = 1\n";
    let few = project(&world, &chain(room, &format!("{QUARANTINE}{TO_NUMBER}")));
    let run = world.once(&few);
    assert_eq!(run.code, 6, "{}", run.stdout);
    assert!(run.stdout.contains("`max_quarantined`"), "{}", run.stdout);
    projects.push(few);
    // What stays of it all, told by the command that tells of it.
    for project in &projects {
        world.run(project, "status", &["--json"]);
    }
    let all: Vec<&Project> = projects.iter().collect();
    world.scan(&all).expect_nothing("errors");

    // A component's own words are shown where they are asked for by name, and what leaks is in bronze where nobody looks.
    let first = ("c_nvarchar".to_owned(), 0);
    let loud = project(&world, &chain("", &bad("error-with-secret")));
    let run = world.run_with(&loud, "run", &["--once", "--json"], "sluice::guest=debug");
    assert_eq!(run.code, 6, "{}", run.stdout);
    assert!(world.scan(&[&loud]).files_like("said").contains(&first));
    let unguarded = project(&world, &chain("leak_check = \"off\"\n", &bad("leak")));
    world.once(&unguarded).ok();
    assert!(world.scan(&[&unguarded]).places("cells").contains(&first));
}
