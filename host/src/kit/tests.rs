//! The kit over the test guests.

mod told;

use std::path::{Path, PathBuf};

use arrow::array::{Array as _, AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::fixture::Expect;
use super::*;
use crate::error::{Classify, ErrorKind};

const TABLE: &str = r#"
[table]
name = "people"
columns = [
    { name = "id", type = "int", key = 1 },
    { name = "name", type = "nvarchar(100)" },
    { name = "born", type = "date" },
    { name = "card", type = "bigint" },
    { name = "photo", type = "varbinary(max)" },
]
"#;
const ROWS: &str = "rows = '''\n_operation,id,name,born\ninsert,1,anna,2024-02-29\nbefore,2,,\nafter,2,\"\",\n'''\n";

/// A folder with fixtures.
struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        Desk {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    }

    fn fixture(&self, text: &str) -> Result<Fixture, KitError> {
        Fixture::read(&self.write("people.toml", text))
    }
}

fn bench(guest: &str) -> Workbench {
    Workbench::new(Component::read(&sluice_test_guests::component(guest)).unwrap()).unwrap()
}

fn fixture(head: &str, config: &str) -> Fixture {
    let desk = Desk::new();
    desk.fixture(&format!("{head}{TABLE}[config]\n{config}\n")).unwrap()
}

fn verdict<'a>(checks: &'a [Check], what: &str) -> &'a Verdict {
    let found = checks.iter().find(|check| check.what == what);
    &found.unwrap_or_else(|| panic!("no check {what} in {checks:?}")).verdict
}

fn failure<'a>(checks: &'a [Check], what: &str) -> &'a str {
    match verdict(checks, what) {
        Verdict::Failed(message) => message,
        other => panic!("{what}: {other:?}"),
    }
}

/// What is said where nothing was found in any row.
fn searched_for(columns: &str) -> Verdict {
    Verdict::Ok(Some(format!("of {columns}, searched for in 48 rows")))
}

fn failed(checks: &[Check]) -> Vec<&str> {
    let failed = checks.iter().filter(|check| check.failed());
    failed.map(|check| check.what.as_str()).collect()
}

#[test]
fn a_fixture_is_read_with_types_keys_and_rows() {
    let desk = Desk::new();
    let text = format!(
        "shows = [\"name\"]\nkeys = {{ pii = \"a secret of the tests\" }}\nrejects = [{{ row = 2, column = \"name\", code = \"x\" }}]\n\
         {ROWS}{TABLE}[config]\nsince = 2024-01-02\n"
    );
    let fixture = desk.fixture(&text).unwrap();
    let shape = &fixture.setup.shape;
    assert_eq!(shape.capture_instance.0, "dbo_people");
    assert_eq!(
        (shape.columns[0].key, shape.columns[1].source_type.as_str()),
        (Some(1), "nvarchar(100)")
    );
    assert_eq!(fixture.setup.config, serde_json::json!({"since": "2024-01-02"}));
    assert_eq!(fixture.setup.shows.to_string(), "shows = [\"name\"]");
    assert!(!fixture.from_file);
    assert_eq!(fixture.golden, desk.dir.path().join("people.expected.csv"));
    assert!(matches!(&fixture.expect, Expect::Rows(rejects) if rejects[0].row == 2));
    let rows = fixture.rows.unwrap();
    assert_eq!(rows.column(3).as_primitive::<Int32Type>().values().to_vec(), [2, 3, 4]);
    let names = rows.column_by_name("name").unwrap().as_string::<i32>();
    assert_eq!((names.is_null(1), names.value(2)), (true, ""));
    // The two rows of an update are one change.
    let changes = rows.column(2).as_string::<i32>();
    assert!(changes.value(0) != changes.value(1) && changes.value(1) == changes.value(2));
    assert_eq!(rows.column_by_name("photo").unwrap().null_count(), 3);
}

#[test]
fn mistakes_in_a_fixture_say_where_and_what_was_meant() {
    let desk = Desk::new();
    for (head, words) in [
        ("rows = '''nmae\nx'''\n", "no column `nmae`; did you mean `name`"),
        ("rows = '''id\nx'''\n", "line 2, column `id`: the value is no number"),
        ("rows = '''id,name\n1'''\n", "line 2 has 1 fields"),
        (
            "rows = '''_operation,id\nafter,1'''\n",
            "row 1 is `after`, and no `before`",
        ),
        (
            "rows = '''_operation,id\nbefore,1'''\n",
            "row 1 is `before`, and no `after`",
        ),
        ("rows = '''_operation,id\nupdate,1'''\n", "`update` is no operation"),
        ("rows = '''id,id\n1,1'''\n", "has `id` twice"),
        ("shows = [\"mail\"]\n", "`shows`: the table has no column `mail`"),
        (
            "shows = [{ column = \"nmae\", in = [\"name\"] }]\n",
            "`shows`: the table has no column `nmae`; did you mean `name`",
        ),
        (
            "shows = [{ column = \"name\" }]\n",
            "`{ column = \"NAME\", in = [\"OUTPUT\"] }`",
        ),
        (
            "keys = { pii = \"short\" }\n",
            "key `pii` is to be a text of at least 16 bytes",
        ),
        ("open_eror = \"x\"\n", "unknown field `open_eror`"),
        (
            "rejects = [{ row = 9, column = \"id\", code = \"x\" }]\n",
            "names row 9, and there are 0 rows",
        ),
        ("batch_error = \"x\"\n", "has no rows"),
        ("open_error = \"x\"\nbatch_error = \"x\"\n", "more than one"),
        (
            "rows = '''id\n1'''\nrows_file = 'x.csv'\n",
            "both `rows` and `rows_file`",
        ),
    ] {
        let error = desk.fixture(&format!("{head}{TABLE}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{head}");
        let error = error.to_string();
        assert!(
            error.contains(words) && error.contains("people.toml"),
            "{head}: {error}"
        );
    }
    // The rows of a file may be somebody's.
    for text in [
        "secret,x\n1,2\n",
        "id\nsecret\n",
        "_operation,id\nsecret,1\n",
        "id,born\n1,secret\n",
    ] {
        desk.write("rows.csv", text);
        let error = desk
            .fixture(&format!("rows_file = 'rows.csv'\n{TABLE}"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("rows.csv") && !error.contains("secret"), "{error}");
    }
    let error = desk
        .fixture("[table]\ncolumns = [{ name = \"a\", type = \"strig\" }]\n")
        .unwrap_err()
        .to_string();
    assert!(error.contains("column `a`: `strig` is no type"), "{error}");
}

#[test]
fn a_good_component_holds_all_properties() {
    let fixture = fixture("shows = [\"name\"]\n", "columns = [\"name\"]");
    let checks = run_fixture(&bench("upper"), &fixture, 1, false).unwrap();
    assert_eq!(failed(&checks), Vec::<&str>::new(), "{checks:?}");
    assert_eq!(checks.len(), 8);
    assert_eq!(verdict(&checks, "all types"), &Verdict::Ok(None));
}

#[test]
fn values_that_come_out_under_another_name_or_case_are_found() {
    let upper = fixture("", "columns = [\"name\"]");
    let checks = run_fixture(&bench("upper"), &upper, 2, false).unwrap();
    assert_eq!(failed(&checks), ["canaries"]);
    let message = failure(&checks, "canaries");
    assert!(
        message.starts_with("values of column `name` come out in `name`"),
        "{message}"
    );
    assert!(message.contains("shows = [\"name\"]"), "{message}");
}

#[test]
fn a_part_that_is_kept_is_found_unless_the_fixture_shows_it() {
    let config = "unlisted = \"pass\"\ncolumns = { name = { method = \"keep\", last = 4 } }";
    let mask = bench("mask");
    for seed in 0..3 {
        let checks = run_fixture(&mask, &fixture("", config), seed, false).unwrap();
        assert_eq!(failed(&checks), ["canaries"], "{checks:?}");
        assert!(failure(&checks, "canaries").starts_with("parts of values of column `name`"));
    }
    let checks = run_fixture(&mask, &fixture("shows = [\"name\"]\n", config), 0, false).unwrap();
    assert_eq!(verdict(&checks, "canaries"), &searched_for("1 column"));
}

#[test]
fn a_hash_and_a_dropped_column_show_nothing() {
    let config = "unlisted = \"drop\"\ncolumns = { name = { method = \"hash\", key = \"pii\" } }";
    let head = "keys = { pii = \"a secret of the tests\" }\n";
    let mask = bench("mask");
    for seed in 0..3 {
        let checks = run_fixture(&mask, &fixture(head, config), seed, false).unwrap();
        assert_eq!(failed(&checks), Vec::<&str>::new(), "{checks:?}");
        assert_eq!(verdict(&checks, "canaries"), &searched_for("5 columns"));
    }
}

#[test]
fn what_a_bad_guest_does_fails_the_property_that_it_breaks() {
    let guest = bench("badguest");
    let checks = |behave: &str| {
        let fixture = fixture("", &format!("behave = \"{behave}\""));
        run_fixture(&guest, &fixture, 3, false).unwrap()
    };
    let trap = checks("trap");
    assert!(failed(&trap).contains(&"NULLs") && failed(&trap).contains(&"deterministic"));
    assert!(failure(&trap, "deterministic").contains("trapped"));
    let short = checks("short-column");
    assert!(failure(&short, "ends of types").contains("offsets"), "{short:?}");
    let refused = checks("config-error");
    assert_eq!(failed(&refused), ["opens"]);
    let dropped = checks("drop-updates");
    assert_eq!(failed(&dropped), Vec::<&str>::new(), "{dropped:?}");
    assert!(
        matches!(verdict(&dropped, "rows accounted for"), Verdict::Ok(Some(note)) if note.contains("rows came out"))
    );
    // It rejects the first row of every chunk, and so all of them.
    let rejected = checks("reject");
    assert!(matches!(verdict(&rejected, "deterministic"), Verdict::Ok(Some(note)) if note.contains("were rejected")));
}

#[test]
fn rows_are_compared_with_a_golden_file_that_is_written_when_told() {
    let desk = Desk::new();
    let text = format!("shows = [\"name\"]\n{ROWS}{TABLE}[config]\ncolumns = [\"name\"]\n");
    let fixture = desk.fixture(&text).unwrap();
    let upper = bench("upper");
    let checks = run_fixture(&upper, &fixture, 1, false).unwrap();
    assert!(failure(&checks, "golden").contains("--bless"));
    run_fixture(&upper, &fixture, 1, true).unwrap();
    let golden = std::fs::read_to_string(&fixture.golden).unwrap();
    assert_eq!(
        golden,
        "_operation,id:integer,name:string,born:date,card:long,photo:binary\n\
         insert,1,ANNA,2024-02-29,,\nbefore,2,,,,\nafter,2,\"\",,,\n"
    );
    let checks = run_fixture(&upper, &fixture, 1, false).unwrap();
    assert_eq!(verdict(&checks, "golden"), &Verdict::Ok(Some("3 rows".to_owned())));
    std::fs::write(&fixture.golden, golden.replace("ANNA", "BELA")).unwrap();
    let checks = run_fixture(&upper, &fixture, 1, false).unwrap();
    let message = failure(&checks, "golden");
    assert!(
        message.contains("row 1, name:string: \"ANNA\" instead of \"BELA\""),
        "{message}"
    );
}

#[test]
fn expected_rejects_and_errors_are_compared_too() {
    let desk = Desk::new();
    let guest = bench("badguest");
    let run = |head: &str, behave: &str| {
        let text = format!("{head}rows = '''id,name\n1,anna'''\n{TABLE}[config]\nbehave = \"{behave}\"\n");
        run_fixture(&guest, &desk.fixture(&text).unwrap(), 1, true).unwrap()
    };
    let unexpected = run("", "reject");
    let message = failure(&unexpected, "rejects");
    assert!(
        message.contains("a reject of row 1") && message.contains("was not"),
        "{message}"
    );
    let missing = run(
        "rejects = [{ row = 1, column = \"name\", code = \"nothing\" }]\n",
        "well",
    );
    assert!(failure(&missing, "rejects").contains("was expected"));
    assert_eq!(
        failed(&run("open_error = \"behave\"\n", "config-error")),
        Vec::<&str>::new()
    );
    assert_eq!(failed(&run("open_error = \"behave\"\n", "well")), ["open error"]);
    assert_eq!(
        failed(&run("batch_error = \"withheld-code\"\n", "error-with-secret")),
        Vec::<&str>::new()
    );
    assert_eq!(
        failed(&run("batch_error = \"other words\"\n", "error-with-secret")),
        ["batch error"]
    );
}

#[test]
fn made_up_rows_follow_the_seed_and_fit_every_type() {
    let setup = Setup::of_all_types(serde_json::json!({})).unwrap();
    let rows = |seed: u64| -> RecordBatch { generate::chunk(&setup, 200, &mut StdRng::seed_from_u64(seed)).unwrap() };
    assert_eq!(rows(1), rows(1));
    assert_ne!(rows(1), rows(2));
    let ends = generate::extremes(&setup).unwrap();
    for (column, declared) in ends.columns()[6..].iter().zip(&setup.types) {
        assert_eq!(column.null_count(), 0, "{}", declared.text());
    }
    let nulls = generate::nulls(&setup, Some(0), &mut StdRng::seed_from_u64(1)).unwrap();
    assert_eq!((nulls.column(6).null_count(), nulls.column(7).null_count()), (4, 0));
    let planted = canary::Canaries::plant(&setup, &mut StdRng::seed_from_u64(1)).unwrap();
    let without: Vec<String> = (0..setup.types.len())
        .filter(|at| !planted.has(*at))
        .map(|at| setup.types[at].text())
        .collect();
    assert_eq!(without, ["bit", "tinyint", "vector"]);
}

#[test]
fn a_difference_between_two_runs_is_named() {
    let guest = bench("badguest");
    let fixture = fixture("", "behave = \"identity\"");
    let chain = guest.open(&fixture.setup).unwrap();
    let run = |rows: &str| rows::run(&chain, &fixture.setup.rows(rows).unwrap()).unwrap();
    let first = run("id,card\n1,5\n2,\n");
    assert_eq!(properties::difference(&first, &run("id,card\n1,5\n2,\n")), None);
    assert_eq!(
        properties::difference(&first, &run("id,card\n1,5\n2,7\n")).unwrap(),
        "column `card`, row 2: NULL and then \"7\""
    );
    assert!(
        properties::difference(&first, &run("id\n1\n"))
            .unwrap()
            .contains("rows came out")
    );
    assert!(properties::difference(&first, &run("_operation,id,card\ndelete,1,5\ninsert,2,\n")).is_some());
}

#[test]
fn a_component_is_inspected_even_when_it_is_refused() {
    let find = |guest: &str| inspect(Component::read(&sluice_test_guests::component(guest)).unwrap()).unwrap();
    let mask = find("mask");
    assert_eq!(
        (mask.name.as_str(), mask.kind, mask.refused.as_deref()),
        ("sluice-mask", "component", None)
    );
    assert_eq!(mask.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    let wit = mask.wit.unwrap();
    assert!(
        mask.exports.contains(&format!("sluice:transform/transform@{wit}")),
        "{:?}",
        mask.exports
    );
    let capabilities: Vec<&str> = mask.grants.iter().map(|grant| grant.capability).collect();
    assert!(capabilities.contains(&"keyed"), "{capabilities:?}");
    let built = sluice_test_guests::built("mask");
    assert_eq!((mask.sha256, mask.bytes), (built.sha256, built.bytes));
    let upper: Vec<&str> = find("upper").grants.iter().map(|grant| grant.capability).collect();
    // For what a panic says.
    assert_eq!(upper, ["log"]);
    let unknown = find("unknown-import");
    assert!(unknown.refused.unwrap().contains("which sluice does not offer"));
    assert_eq!(unknown.refused_kind, Some(ErrorKind::ComponentRefused));
    assert!(!unknown.imports.is_empty());
    assert!(find("not-a-plugin").refused.unwrap().contains("no sluice transform"));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("junk.wasm");
    std::fs::write(&file, "junk").unwrap();
    let junk = inspect(Component::read(&file).unwrap()).unwrap();
    assert_eq!(junk.kind, "no WebAssembly");
    // The file that was given is named, and not the bench's copy.
    let reason = junk.refused.unwrap();
    assert!(reason.starts_with(&file.display().to_string()), "{reason}");
}

#[test]
fn a_core_module_shows_its_interfaces() {
    let built = sluice_test_guests::built("upper");
    let found = inspect(Component::read(&built.module).unwrap()).unwrap();
    assert_eq!((found.kind, found.refused), ("core module", None));
    let export = format!("sluice:transform/transform@{}", found.wit.unwrap());
    assert_eq!(found.exports, [export]);
}

#[test]
fn components_are_found_by_path_and_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let upper = sluice_test_guests::component("upper");
    std::fs::copy(&upper, dir.path().join("upper@1.0.wasm")).unwrap();
    let by_name = Component::find("upper", dir.path()).unwrap();
    assert_eq!(by_name.name, "upper");
    let by_path = Component::find(&upper.display().to_string(), Path::new("nowhere")).unwrap();
    assert_eq!(by_name.sha256, by_path.sha256);
    assert!(
        Component::find("mask", Path::new("nowhere"))
            .unwrap()
            .shown
            .contains("built-in")
    );
    let error = Component::find("uper", dir.path()).err().unwrap().to_string();
    assert!(
        error.contains("no plugin `uper`") && error.contains("upper@1.0"),
        "{error}"
    );
    assert!(Component::find("no/such.wasm", dir.path()).is_err());
}

#[test]
fn what_changes_between_two_components_is_told_and_values_only_when_asked() {
    let desk = Desk::new();
    let of = |guest: &str, config: &str| {
        let fixture = desk.fixture(&format!("{ROWS}{TABLE}[config]\n{config}\n")).unwrap();
        let chain = bench(guest).open(&fixture.setup).unwrap();
        let ran = rows::run(&chain, fixture.rows.as_ref().unwrap()).unwrap();
        (chain, ran)
    };
    let (upper, identity) = (
        of("upper", "columns = [\"name\"]"),
        of("badguest", "behave = \"identity\""),
    );
    let told = |with_values| difference::of_runs((&identity.0, &identity.1), (&upper.0, &upper.1), with_values);
    let quiet = told(false);
    assert!(!quiet.is_none());
    assert!(
        quiet
            .plan
            .iter()
            .any(|line| line.starts_with("column `name` is \"upper case\"")),
        "{:?}",
        quiet.plan
    );
    assert_eq!(quiet.columns.len(), 1);
    assert_eq!((quiet.columns[0].column.as_str(), quiet.columns[0].rows), ("name", 1));
    assert!(quiet.columns[0].values.is_empty());
    assert!(!serde_json::to_string(&quiet).unwrap().contains("anna"));
    let values = &told(true).columns[0].values;
    assert_eq!(values[..], [(1, Some("anna".to_owned()), Some("ANNA".to_owned()))]);

    let (well, dropping) = (
        of("badguest", "behave = \"well\""),
        of("badguest", "behave = \"drop-updates\""),
    );
    let dropped = difference::of_runs((&well.0, &well.1), (&dropping.0, &dropping.1), false);
    assert_eq!(
        (dropped.only_before.as_slice(), dropped.only_after.as_slice()),
        (&[2, 3][..], &[][..])
    );
    let added = difference::of_runs((&identity.0, &identity.1), (&well.0, &well.1), false);
    assert!(
        added.plan.iter().any(|line| line.starts_with("column `made` comes")),
        "{:?}",
        added.plan
    );
}

#[test]
fn a_component_does_not_differ_from_itself() {
    let desk = Desk::new();
    let fixture = desk
        .fixture(&format!("{ROWS}{TABLE}[config]\ncolumns = [\"name\"]\n"))
        .unwrap();
    let found = compare(
        &bench("upper"),
        &bench("upper"),
        &fixture.setup,
        &fixture.rows.unwrap(),
        true,
    )
    .unwrap();
    assert!(found.is_none(), "{found:?}");
    assert_eq!(found.rows, 3);
}

#[test]
fn speed_is_measured_on_made_up_rows_or_on_the_fixtures() {
    let fixture = fixture("rows = '''id,name\n1,anna'''\n", "columns = [\"name\"]");
    let speed = measure(&bench("upper"), &fixture.setup, fixture.rows.as_ref(), 1000, 300, 7).unwrap();
    assert!(speed.rows >= 1000 && speed.rows_per_second > 0.0 && speed.megabytes_per_second > 0.0);
    assert!(!speed.fixture_rows && !speed.no_calls && speed.call_seconds > 0.0);
    let mut rejecting = fixture.clone();
    rejecting.setup.config = serde_json::json!({ "behave": "reject" });
    let error = measure(&bench("badguest"), &rejecting.setup, None, 1000, 300, 7).unwrap_err();
    assert!(error.to_string().contains("rejects made-up rows"), "{error}");
}
