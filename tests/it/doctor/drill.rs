//! The drill.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_drill_passes_and_leaves_the_table_untouched() {
    let patient = Patient::with_batches(UPPER, 4).await;
    let before = snapshot(patient.project.path());
    let run = patient.project.run("drill", &["--json"]);
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    assert!(
        before == snapshot(patient.project.path()),
        "the drill changed the table"
    );
    let trials = run.of_type("drill");
    assert!(trials.len() >= 20, "{}", run.stdout);
    let ended = |outcome: &str| trials.iter().filter(|trial| trial["outcome"] == outcome).count();
    assert_eq!(ended("not_applicable"), 0, "{}", run.stdout);
    assert!(ended("repaired") >= 12 && ended("refused") >= 6, "{}", run.stdout);
    for trial in trials.iter().filter(|trial| trial["outcome"] == "refused") {
        assert!(!text(trial, "why").is_empty(), "{trial}");
    }
    let people = patient.project.run("drill", &["--only", "bronze-behind"]).ok();
    assert!(
        people.stdout.contains("bronze set back to an older version"),
        "{}",
        people.stdout
    );
    assert!(
        people.stdout.lines().all(|line| line.chars().count() <= 100),
        "{}",
        people.stdout
    );
    let wrong = patient.project.run("drill", &["--only", "bronze-behnd"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("did you mean bronze-behind"), "{}", wrong.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drill_on_a_damaged_table_is_refused() {
    let patient = Patient::with_batches("", 3).await;
    cut(&patient.checkpoint().join("commits/2.json"));
    let run = patient.project.run("drill", &[]);
    assert_eq!(run.code, 7, "{}", run.stdout);
    assert!(
        run.stderr.contains("commit-file-damaged") && run.stderr.contains("sluice doctor"),
        "{}",
        run.stderr
    );
}
