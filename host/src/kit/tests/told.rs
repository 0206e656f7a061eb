//! What the checks tell, and what they keep to themselves.

use super::*;
use crate::transform::{Fault, Place, RowAt, TransformError};

const ROW: &str = "rows = '''id,name\n1,Anna Kiss'''\n";

/// The checks of a fixture over the guest that behaves as it is told.
fn behaving(desk: &Desk, head: &str, behave: &str, bless: bool) -> Vec<Check> {
    let text = format!("{head}{TABLE}[config]\nbehave = \"{behave}\"\n");
    run_fixture(&bench("badguest"), &desk.fixture(&text).unwrap(), 1, bless).unwrap()
}

fn said(checks: &[Check], what: &str) -> String {
    let check = checks.iter().find(|check| check.what == what).unwrap();
    check.said.join("\n")
}

#[test]
fn a_column_that_shows_under_its_own_name_does_not_under_another() {
    // It computes every column as it is.
    let run = |shows: &str| behaving(&Desk::new(), shows, "identity", false);
    let all = ["id", "name", "born", "card", "photo"]
        .map(|name| format!("\"{name}\""))
        .join(", ");
    let checks = run(&format!("shows = [{all}]\n"));
    assert_eq!(failed(&checks), Vec::<&str>::new(), "{checks:?}");
    assert_eq!(verdict(&checks, "canaries"), &searched_for("5 columns"));

    let elsewhere = all.replace("\"name\"", "{ column = \"name\", in = [\"photo\"] }");
    let checks = run(&format!("shows = [{elsewhere}]\n"));
    let message = failure(&checks, "canaries");
    assert!(
        message.starts_with("values of column `name` come out in `name`"),
        "{message}"
    );
    // The line has what to write, and with it nothing is left to find.
    let (_, suggested) = message.split_once("say `").unwrap();
    let (suggested, _) = suggested.split_once("` in the fixture").unwrap();
    assert!(
        suggested.contains("{ column = \"name\", in = [\"photo\", \"name\"] }"),
        "{suggested}"
    );
    assert_eq!(
        failed(&run(&format!("{suggested}\n"))),
        Vec::<&str>::new(),
        "{suggested}"
    );

    let unknown = run("shows = [{ column = \"name\", in = [\"phot\"] }]\n");
    assert!(
        failure(&unknown, "canaries").contains("did you mean `{ column = \"name\", in = [\"photo\"] }`?"),
        "{unknown:?}"
    );
}

#[test]
fn where_a_panic_was_and_what_it_said_stands_under_the_check() {
    let desk = Desk::new();
    let own = behaving(&desk, ROW, "panic", false);
    // Once, although the chunk is tried twice.
    let words = said(&own, "rows");
    assert!(words.starts_with("error: panicked at "), "{words}");
    assert!(
        words.contains("acts.rs:") && words.ends_with(": cannot work with Anna Kiss"),
        "{words}"
    );
    assert_eq!(words.lines().count(), 1, "{words}");
    let made_up = behaving(&desk, "", "panic", false);
    assert!(
        said(&made_up, "deterministic").contains(": cannot work with"),
        "{made_up:?}"
    );
    // Rows in a file may be somebody's.
    desk.write("rows.csv", "id,name\n1,Anna Kiss\n");
    for behave in ["panic", "error-with-secret"] {
        let from_file = behaving(&desk, "rows_file = 'rows.csv'\n", behave, false);
        let words = said(&from_file, "rows");
        assert!(words.contains("not shown") && !words.contains("Anna"), "{words}");
    }
}

#[test]
fn where_rows_stand_in_a_file_the_difference_from_the_golden_one_shows_no_value() {
    let desk = Desk::new();
    desk.write("rows.csv", "id,name\n1,Anna Kiss\n");
    let head = "properties = false\nrows_file = 'rows.csv'\n";
    behaving(&desk, head, "identity", true);
    desk.write("rows.csv", "id,name\n1,Ede Nagy\n");
    let checks = behaving(&desk, head, "identity", false);
    let message = failure(&checks, "golden");
    assert!(message.contains("row 1, name:string: another value"), "{message}");
    assert!(!message.contains("Anna") && !message.contains("Ede"), "{message}");
}

#[test]
fn the_message_of_an_error_is_told_and_what_a_code_has_to_be() {
    let refused = behaving(&Desk::new(), ROW, "error-with-secret", false);
    assert_eq!(said(&refused, "rows"), "apply-error: Anna Kiss");
    let message = failure(&refused, "rows");
    assert!(
        message.contains("`invalid-code`") && message.contains("1 to 64 lower-case letters, digits and hyphens"),
        "{message}"
    );
    let rejected = behaving(&Desk::new(), ROW, "reject-with-value", false);
    let message = failure(&rejected, "rejects");
    assert!(message.contains("1 to 64 lower-case letters"), "{message}");
}

#[test]
fn nothing_stands_under_a_check_that_holds() {
    let desk = Desk::new();
    let head = format!("properties = false\n{ROW}");
    let differs = behaving(&desk, &head, "log-flood", false);
    assert!(!said(&differs, "golden").is_empty(), "{differs:?}");
    let holds = behaving(&desk, &head, "log-flood", true);
    assert_eq!(failed(&holds), Vec::<&str>::new(), "{holds:?}");
    assert_eq!(said(&holds, "golden"), "");
}

#[test]
fn a_fixture_whose_own_rows_fail_is_not_tried_further() {
    let checks = behaving(&Desk::new(), ROW, "trap", false);
    assert_eq!(failed(&checks), ["rows"]);
    assert_eq!(checks.len(), 9);
    let why = Verdict::Skipped("the fixture's own rows already fail".to_owned());
    assert!(checks[1..].iter().all(|check| check.verdict == why), "{checks:?}");
    // A golden file that differs is no reason: the call itself is well.
    let checks = behaving(&Desk::new(), ROW, "well", false);
    assert_eq!(failed(&checks), ["golden"]);
    assert!(matches!(verdict(&checks, "deterministic"), Verdict::Ok(_)));
}

#[test]
fn rows_that_went_in_are_accounted_for_to_the_last() {
    // Every change is rejected, and the other rows of updates go along.
    let checks = behaving(&Desk::new(), "", "reject", false);
    let Verdict::Ok(Some(note)) = verdict(&checks, "rows accounted for") else {
        panic!("{checks:?}");
    };
    let number = |part: &str, at: usize| part.trim().split(' ').nth(at).unwrap().parse::<usize>().unwrap();
    let parts: Vec<&str> = note.split(';').collect();
    assert_eq!(parts.len(), 3, "{note}");
    let told: usize = parts.iter().map(|part| number(part, 0)).sum();
    assert_eq!(told, number(parts[0], 2), "{note}");
    assert!(parts[0].starts_with("0 of "), "{note}");
    assert!(
        parts[2].ends_with(" went along as the other row of an update"),
        "{note}"
    );
    let dropped = behaving(&Desk::new(), "", "drop-updates", false);
    let Verdict::Ok(Some(note)) = verdict(&dropped, "rows accounted for") else {
        panic!("{dropped:?}");
    };
    let parts: Vec<&str> = note.split(';').collect();
    assert_eq!(number(parts[0], 0) + number(parts[1], 0), number(parts[0], 2), "{note}");
    assert!(note.ends_with(" dropped"), "{note}");
}

#[test]
fn rows_in_messages_count_from_1() {
    let error = TransformError::Refused {
        place: Place {
            table: "t".to_owned(),
            step: 1,
            plugin: "p".to_owned(),
        },
        fault: Fault::Failed {
            code: "a".to_owned(),
            column: None,
            at: Some(RowAt {
                row: 0,
                lsn: Some("0x01".to_owned()),
            }),
        },
    };
    let said = bench("upper").say(&error);
    assert!(said.ends_with("with code `a`, row 1"), "{said}");
}
