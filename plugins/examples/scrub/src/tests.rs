use sluice_plugin::testing::column;
use sluice_plugin::{OutputSource, Value};

use super::*;

fn customers() -> Table {
    let field = |name: &str, data_type, source_type: &str| SourceField {
        name: name.to_owned(),
        data_type,
        nullable: true,
        source_type: source_type.to_owned(),
        key: None,
    };
    let text = |name: &str| field(name, DataType::Utf8, "nvarchar(100)");
    Table {
        schema: "dbo".to_owned(),
        name: "customers".to_owned(),
        capture_instance: "dbo_customers".to_owned(),
        fields: vec![
            field("id", DataType::Int32, "int"),
            text("subject"),
            text("last_name"),
            text("first_name"),
            text("note"),
        ],
    }
}

fn texts(values: &[Option<&str>]) -> Column {
    let values: Vec<_> = values.iter().map(|value| value.map(Value::Utf8)).collect();
    column(DataType::Utf8, &values)
}

#[test]
fn each_row_is_scrubbed_of_its_own_names() {
    let config = r#"{ "columns": ["note", "Subject"], "names": ["first_name", "last_name"] }"#;
    let (mut scrub, plan) = Scrub::open(&customers(), config).unwrap();
    assert_eq!(plan.reads, ["subject", "note", "last_name", "first_name"]);
    let note = r"Anna and Béla";
    let batch = Batch {
        rows: 4,
        operations: vec![2; 4],
        columns: vec![
            texts(&[Some("Kiss"), Some("Kiss"), None, Some("")]),
            texts(&[Some(note), Some(note), Some(note), None]),
            texts(&[Some("Kiss"), Some("Nagy"), None, Some("Kiss")]),
            texts(&[Some("Anna"), Some("Bela"), None, Some("Anna")]),
        ],
    };
    let outcome = scrub.apply(&batch).unwrap();
    let of = |index: usize| -> Vec<Option<String>> {
        let view = Utf8View::new(&outcome.columns[index], 4).unwrap();
        view.iter().map(|value| value.map(str::to_owned)).collect()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(0), [some("[name]"), some("Kiss"), None, some("")]);
    assert_eq!(
        of(1),
        [some("[name] and Béla"), some("Anna and [name]"), some(note), None]
    );
}

#[test]
fn the_columns_with_names_pass_or_are_dropped() {
    let outputs = |more: &str| -> Vec<String> {
        let config = format!(r#"{{ "columns": ["note"], "names": ["last_name"]{more} }}"#);
        let (_, plan) = Scrub::open(&customers(), &config).unwrap();
        plan.outputs.into_iter().map(|output| output.name).collect()
    };
    assert_eq!(outputs(""), ["id", "subject", "last_name", "first_name", "note"]);
    assert_eq!(
        outputs(r#", "drop_names": true"#),
        ["id", "subject", "first_name", "note"]
    );
    let (_, plan) = Scrub::open(&customers(), r#"{ "columns": ["note"], "names": ["last_name"] }"#).unwrap();
    let OutputSource::Computed(note) = &plan.outputs[4].source else {
        panic!("{plan:?}");
    };
    assert_eq!(note.sources, ["note", "last_name"]);
}

#[test]
fn mistakes_in_the_configuration_are_named() {
    for (config, words) in [
        (r#"{}"#, "missing field `columns`"),
        (r#"{ "columns": [] }"#, "columns: it lists no column to scrub"),
        (
            r#"{ "columns": ["note", "notes"] }"#,
            "columns[1]: the table has no column `notes`, did you mean `note`?",
        ),
        (
            r#"{ "columns": ["id"] }"#,
            "column id: only texts are scrubbed, and this is int",
        ),
        (
            r#"{ "columns": ["note", "NOTE"] }"#,
            "columns[1]: `note` stands here twice",
        ),
        (
            r#"{ "columns": ["note"], "names": ["note"] }"#,
            "names: `note` is scrubbed itself",
        ),
        (
            r#"{ "columns": ["note"], "words": ["a", "--"] }"#,
            "words[1]: it has neither letters nor digits",
        ),
        (
            r#"{ "columns": ["note"], "digits": 2 }"#,
            "digits: 0 (numbers stay) or 3 and more",
        ),
        (
            r#"{ "columns": ["note"], "email": false }"#,
            "unknown key `email`, did you mean `emails`?",
        ),
    ] {
        let message = Scrub::open(&customers(), config).unwrap_err().to_string();
        assert!(message.contains(words), "{config}: {message}");
    }
}
