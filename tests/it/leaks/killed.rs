//! Processes that are killed between any two steps: what they leave behind, in the table and beside it.

use super::scan::Which;
use super::sentinels::{mask, protect};
use super::world::{Cache, World};
use crate::harness::{commits, files_under};

const RUN: [&str; 2] = ["--once", "--json"];

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_leaves_has_no_value_and_without_the_mask_has_each() {
    let mut world = World::new(Cache::Shared).await;
    world.with_row_versions().await;
    let project = world.project(&format!("{}{}", protect(), mask("fail")));
    let failpoints = [
        "after-offset",
        "chunk-read",
        "chunk-transformed",
        "before-files-staged",
        "files-staged",
        "before-commit",
        "after-commit",
        "before-commit-file",
        "after-commit-file",
        "before-facts",
        "after-verdict",
    ];
    for (next, failpoint) in (10..).zip(failpoints) {
        world.kill_at(&project, "run", &RUN, failpoint);
        world.scan(&[&project]).expect_nothing(failpoint);
        world.insert(next, usize::from(next % 2 == 0)).await;
    }
    world.once(&project).ok();
    world.scan(&[&project]).expect_nothing("after all");

    // Rows that were staged, and that nothing refers to.
    let plain = world.project("");
    world.kill_at(&plain, "run", &RUN, "files-staged");
    let bronze = plain.bronze("dbo_people");
    let staged = files_under(&bronze)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "parquet"));
    assert_eq!(staged.count(), 1);
    let log = commits(&bronze);
    assert!(log.iter().flatten().all(|action| action["add"].is_null()), "{log:?}");
    let found = world.scan(&[&plain]);
    let missed: Vec<Which> = world.all().difference(&found.places("cells")).cloned().collect();
    assert!(missed.is_empty(), "{missed:?}");
}
