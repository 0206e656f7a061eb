//! Doctor and drill of tables that are owned by leases.

use sluice::failpoint;

use super::*;

async fn under_leases(lease: &str, batches: usize) -> Patient {
    let mut patient = Patient::new(UPPER).await;
    patient.project.edit(
        "\n[defaults]",
        &format!("\n[ownership]\nmode = \"lease\"\nlease = \"{lease}\"\nhosts = \"hosts\"\n\n[defaults]"),
    );
    for _ in 0..batches {
        patient.batch().await;
    }
    patient
}

fn hosts(patient: &Patient) -> Vec<PathBuf> {
    let files = files_under(&patient.project.path().join("hosts")).into_iter();
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "json"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drill_passes_and_the_processes_of_the_leases_are_left_alone() {
    let patient = under_leases("10m", 3).await;
    let mut running = Running::start(&patient.project, &[]);
    running.until_type("opened");
    let run = patient.project.run("drill", &["--json"]);
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    running.terminate();
    assert_eq!(running.code(), Some(0));
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_of_this_machine_left_is_repaired_at_once() {
    let mut patient = under_leases("10m", 3).await;
    patient.insert().await;
    assert!(patient.project.kill_at(failpoint::AFTER_COMMIT));
    assert_eq!(hosts(&patient).len(), 1);
    cut(&records(&patient.checkpoint())[1]);
    patient.finds(7, &["commit-file-damaged", "open-batch"]);
    patient.doctor(&["--repair"]).ok();
    patient.batch().await;
    patient.expect_whole();
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_repaired_before_what_may_wake_up_is_settled() {
    let mut patient = under_leases("6s", 3).await;
    patient.insert().await;
    let slept = Held::at(&patient.project, failpoint::FILES_STAGED);
    slept.pause();
    cut(&records(&patient.checkpoint())[1]);
    // It may run: nobody has seen its lease run out.
    refused(&patient, "is in use by process");
    // Whoever takes the table over dies before the open batch is closed.
    assert!(patient.project.kill_at(failpoint::OWNER_WRITTEN));
    patient.finds(7, &["commit-file-damaged", "lease-left-over", "open-batch"]);
    refused(&patient, "a run does it");
    patient.insert().await;
    patient.project.once().ok();
    patient.doctor(&["--repair"]).ok();
    slept.wake();
    let late = slept.release();
    assert_eq!(late.code, 7, "{}", late.stdout);
    patient.batch().await;
    patient.expect_whole();
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_damage_keeps_a_run_from_settling_the_end_of_the_sleeper_frees_the_repair() {
    let mut patient = under_leases("6s", 3).await;
    patient.insert().await;
    let slept = Held::at(&patient.project, failpoint::FILES_STAGED);
    slept.pause();
    cut(records(&patient.checkpoint()).last().expect("a record"));
    for _ in 0..2 {
        let run = patient.project.once();
        assert_eq!(run.code, 7, "{}", run.stdout);
        assert!(run.stdout.contains("sluice doctor --repair"), "{}", run.stdout);
    }
    let findings = patient.finds(7, &["commit-file-damaged", "lease-left-over", "open-batch"]);
    let left = findings
        .iter()
        .find(|finding| finding["code"] == "lease-left-over")
        .expect("found");
    let name = format!("process {} on host", slept.pid());
    assert!(text(left, "what").contains(&name), "{left}");
    refused(&patient, "where something keeps run from it, end that process");
    drop(slept);
    patient.doctor(&["--repair"]).ok();
    patient.batch().await;
    patient.expect_whole();
    patient.finds(0, &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_leases_that_is_not_seen_is_no_running_process() {
    let mut patient = under_leases("6s", 2).await;
    fs::remove_dir_all(patient.project.path().join("hosts")).expect("removed");
    let findings = patient.finds(7, &["hosts-unseen"]);
    assert!(
        text(&findings[0], "what").contains("not seen from here"),
        "{findings:?}"
    );
    for (command, arguments) in [("check", &[][..]), ("run", &["--once"])] {
        let run = patient.project.run(command, arguments);
        assert_eq!(run.code, 7, "{command}: {}\n{}", run.stdout, run.stderr);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains("remove owner.json"), "{command}: {said}");
    }
    // As it says.
    fs::remove_dir_all(patient.project.path().join("hosts")).expect("removed");
    fs::remove_file(patient.checkpoint().join("owner.json")).expect("removed");
    patient.batch().await;
    patient.expect_whole();
    patient.finds(0, &[]);
}

/// A repair is refused in these words, and changes nothing.
fn refused(patient: &Patient, words: &str) {
    let before = snapshot(&patient.checkpoint());
    let run = patient.doctor(&["--repair"]);
    assert_eq!(run.code, 7, "{}", run.stdout);
    let said = run.of_type("repaired")[0]["error"].to_string();
    assert!(said.contains("nothing was repaired") && said.contains(words), "{said}");
    assert!(before == snapshot(&patient.checkpoint()));
}
