//! Rows that cannot be transformed, what is kept of them, and another try at them.

use std::collections::BTreeSet;

use super::scan::Which;
use super::sentinels::{ROW_VERSION, mask, protect};
use super::world::{Cache, World};
use crate::harness::rows_of;

/// No sentinel is listed, so each of their rows is rejected. The column keeps its type.
const LISTED: &str = "[[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\n\
                      config = { columns = { c_nvarchar = { steps = [{ values = { none = \"x\" } }] } } }\n";
const GO_ON: &str = "on_transform_change = \"continue\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_quarantine_and_a_retry_of_them_show_no_value_and_a_retry_without_the_mask_does() {
    let mut world = World::new(Cache::Shared).await;
    world.with_row_versions().await;
    let mut project = world.project(&format!("{GO_ON}{}{LISTED}{}", protect(), mask("fail")));
    // What was staged and what is in quarantine, of processes that went no further.
    for failpoint in ["before-quarantine", "after-quarantine"] {
        world.kill_at(&project, "run", &["--once", "--json"], failpoint);
        world.scan(&[&project]).expect_nothing(failpoint);
    }
    let run = world.once(&project).ok();
    assert_eq!(run.table("dbo_people")["quarantined"], 7);
    for arguments in [&["list"][..], &["list", "--rows"], &["list", "--json"]] {
        let listed = world.run(&project, "quarantine", arguments).ok();
        assert!(listed.stdout.contains("value-unlisted"), "{}", listed.stdout);
    }
    // Rejected again; then by a chain that takes them, at first by a process that does not live to the end.
    world.run(&project, "quarantine", &["retry", "--json"]).ok();
    project.edit(LISTED, "");
    world.kill_at(&project, "quarantine", &["retry", "--json"], "before-commit");
    world.scan(&[&project]).expect_nothing("a retry that was killed");
    // It closes the batch that was left open.
    world.once(&project).ok();
    world.run(&project, "quarantine", &["retry", "--json"]).ok();
    assert_eq!(rows_of(&project.bronze("dbo_people"), &["id"]).expect("rows").len(), 8);
    for command in ["status", "doctor"] {
        world.run(&project, command, &["--json"]).ok();
    }
    world.scan(&[&project]).expect_nothing("quarantine");

    // Quarantine has no values of its own; what a retry without a mask brings to bronze has them all.
    let mut plain = world.project(&format!("{GO_ON}{LISTED}"));
    world.once(&plain).ok();
    let without_retry: BTreeSet<Which> = world.scan(&[&plain]).places("cells");
    assert!(
        without_retry.iter().all(|(name, _)| name == ROW_VERSION),
        "{without_retry:?}"
    );
    plain.edit(LISTED, "");
    world.run(&plain, "quarantine", &["retry", "--json"]).ok();
    let found = world.scan(&[&plain]);
    let missed: Vec<Which> = world.all().difference(&found.places("cells")).cloned().collect();
    assert!(missed.is_empty(), "{missed:?}");
}
