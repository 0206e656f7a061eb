//! A stream, from its first plan to its log's checkpoint, and every command that tells of it.

use super::scan::Which;
use super::sentinels::{mask, protect};
use super::world::{Cache, World};
use crate::harness::{commits, files_under, python};

/// With so many columns. One that held values of them would be larger.
const SMALL_COMMIT_BYTES: usize = 6_000;

/// Field case 24: nothing of a masked or dropped column is in the log, its checkpoints, footers or paths, of values that
/// sort first and last, and of a megabyte of binary; without a mask no column has bounds either.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_stream_has_a_value_and_without_the_mask_each_is_found() {
    let mut world = World::new(Cache::Own).await;
    let project = world.project(&format!("max_commits_per_batch = 1\n{}{}", protect(), mask("fail")));
    world.run(&project, "check", &["--json"]).ok();
    assert_eq!(world.once(&project).ok().table("dbo_people")["rows"], 8);
    // Checkpoints of the log come sooner than they would.
    let bronze = project.bronze("dbo_people");
    let sooner = "import sys, deltalake; deltalake.DeltaTable(sys.argv[1]).alter.set_table_properties({'delta.checkpointInterval': '3'})";
    let set = python(["-c", sooner, &bronze.display().to_string()]);
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    for id in 4..8 {
        world.insert(id, usize::from(id % 2 == 0)).await;
    }
    assert_eq!(world.once(&project).ok().table("dbo_people")["rows"], 4);
    let is_checkpoint = |name: &str| name.contains(".checkpoint") && name.ends_with(".parquet");
    let checkpoints = files_under(&bronze)
        .into_iter()
        .filter(|file| file.to_str().is_some_and(is_checkpoint));
    assert!(checkpoints.count() > 0, "the log has a checkpoint");
    for commit in commits(&bronze) {
        if commit.iter().any(|action| action["add"].is_object())
            && !commit.iter().any(|action| action["metaData"].is_object())
        {
            let bytes: usize = commit.iter().map(|action| action.to_string().len()).sum();
            assert!(bytes < SMALL_COMMIT_BYTES, "a commit of {bytes} bytes");
        }
    }
    for (command, argument) in [
        ("check", "--json"),
        ("status", "--json"),
        ("doctor", "--json"),
        ("drill", "--json"),
        ("init", "--from-server"),
    ] {
        let run = world.run(&project, command, &[argument]).ok();
        assert!(!run.stdout.is_empty(), "{command} says something");
    }
    for command in ["check", "status", "doctor", "lock"] {
        world.run(&project, command, &[]).ok();
    }
    world.page(&project);
    assert!(project.path().join("sluice.lock").exists());
    world.with_row_versions().await;
    let found = world.scan(&[&project]);
    found.expect_nothing("the stream");
    assert!(found.rows >= 12, "{} rows", found.rows);

    // The same without a mask.
    let plain = world.project("");
    world.once(&plain).ok();
    let found = world.scan(&[&plain]);
    let missed: Vec<Which> = world.all().difference(&found.places("cells")).cloned().collect();
    assert!(missed.is_empty(), "{missed:?}");
    found.expect_no_bounds("without a mask");
}
