//! Whole recipes: how keys work together, what the plan says, and what mistakes are answered.

use super::*;

/// What a configuration makes of one batch.
pub(super) struct Made {
    pub plan: Plan,
    columns: Vec<sluice_plugin::Column>,
    rows: usize,
    /// Row, column and code.
    pub rejects: Vec<(u32, String, String)>,
}

impl Made {
    pub(super) fn field(&self, name: &str) -> &sluice_plugin::ComputedField {
        let output = self.plan.outputs.iter().find(|output| output.name == name);
        match &output.unwrap().source {
            OutputSource::Computed(field) => field,
            OutputSource::Pass(_) => panic!("{name} is passed"),
        }
    }

    /// Type, nullability and values of a computed column; NULL only where the plan allows it.
    pub(super) fn values(&self, name: &str) -> Vec<Option<Value<'_>>> {
        let computed = |output: &&OutputColumn| matches!(output.source, OutputSource::Computed(_));
        let mut computed = self.plan.outputs.iter().filter(computed);
        let at = computed.position(|output| output.name == name).unwrap();
        let field = self.field(name);
        let view = AnyView::new(&self.columns[at], self.rows, field.data_type).unwrap();
        let values: Vec<_> = (0..self.rows).map(|row| view.get(row)).collect();
        assert!(field.nullable || !values.contains(&None), "{name}: {values:?}");
        if let Some(validity) = &self.columns[at].validity {
            assert_eq!(validity.len(), self.rows.div_ceil(8), "{name}");
        }
        values
    }
}

/// Columns of a table: name, type, whether it can be NULL, values.
pub(super) type Given<'a> = (&'a str, DataType, bool, &'a [Option<Value<'a>>]);

fn nullable(given: &[Given<'_>]) -> Table {
    let columns: Vec<_> = given.iter().map(|&(name, data_type, ..)| (name, data_type)).collect();
    let mut table = table(&columns);
    for (field, &(_, _, nullable, _)) in table.fields.iter_mut().zip(given) {
        field.nullable = nullable;
    }
    table
}

/// Runs the configuration over the values, and once more over no row at all.
pub(super) fn made(given: &[Given<'_>], config: &str) -> Made {
    let rows = given.first().map_or(0, |(.., values)| values.len());
    let run = |rows: usize| {
        let (mut map, plan) = MapColumns::open(&nullable(given), config).unwrap_or_else(|error| panic!("{error}"));
        let columns = plan.reads.iter().map(|read| {
            let (_, data_type, _, values) = given.iter().find(|(name, ..)| name == read).unwrap();
            column(*data_type, &values[..rows])
        });
        let batch = Batch {
            rows: rows as u32,
            operations: vec![0; rows],
            columns: columns.collect(),
        };
        let outcome = map.apply(&batch).unwrap();
        let rejects = outcome.rejects.into_iter();
        Made {
            plan,
            columns: outcome.columns,
            rows,
            rejects: rejects.map(|reject| (reject.row, reject.column, reject.code)).collect(),
        }
    };
    let empty = run(0);
    assert!(empty.rejects.is_empty());
    for output in &empty.plan.outputs {
        if let OutputSource::Computed(_) = output.source {
            assert!(empty.values(&output.name).is_empty());
        }
    }
    run(rows)
}

pub(super) fn refused(given: &[Given<'_>], config: &str) -> String {
    match MapColumns::open(&nullable(given), config) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{config} was taken"),
    }
}

pub(super) fn utf8<'a>(values: &[Option<&'a str>]) -> Vec<Option<Value<'a>>> {
    values.iter().map(|value| value.map(Value::Utf8)).collect()
}

pub(super) fn rejects(expected: &[(u32, &str, &str)]) -> Vec<(u32, String, String)> {
    let owned = |&(row, column, code): &(u32, &str, &str)| (row, column.to_owned(), code.to_owned());
    expected.iter().map(owned).collect()
}

/// The example at the top of the README, as a user would paste it.
#[test]
fn the_example_of_the_readme() {
    let readme = include_str!("../../README.md");
    let example = readme.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let table: serde_json::Value = toml::from_str(example).unwrap();
    let config = table["table"]["transform"][0]["config"].to_string();
    let ids = [Some(Value::Int(7)), Some(Value::Int(8))];
    let prices = [None, Some(Value::Decimal(150, 2))];
    let decimal = |precision, scale| DataType::Decimal { precision, scale };
    let texts = [
        ("Status", [Some(" a"), Some("x")]),
        ("Phone", [None, Some("1")]),
        ("Mobile", [Some("2"), Some("3")]),
        ("rowguid", [None, None]),
        ("FirstName", [Some("Ada"), Some("Alan")]),
        ("MiddleName", [None, Some("M.")]),
        ("LastName", [Some("Lovelace"), Some("Turing")]),
        ("ZipCode", [Some("98101-4412"), None]),
        ("Details", [Some(r#"{"address":{"city":"Bath"}}"#), Some("{}")]),
    ]
    .map(|(name, values)| (name, utf8(&values)));
    let mut given = vec![
        ("CustID", DataType::Int32, false, &ids[..]),
        ("Price", decimal(9, 2), true, &prices[..]),
    ];
    given.extend(
        texts
            .iter()
            .map(|(name, values)| (*name, DataType::Utf8, true, &values[..])),
    );
    let made = made(&given, &config);
    let names: Vec<_> = made.plan.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "customer_id",
            "full_name",
            "Price",
            "Status",
            "Phone",
            "Mobile",
            "FirstName",
            "MiddleName",
            "LastName",
            "ZipCode",
            "Details",
            "area",
            "city",
            "source"
        ]
    );
    assert_eq!(made.values("customer_id"), ids);
    assert_eq!(made.field("Price").data_type, decimal(18, 4));
    let prices = [0, 15_000].map(|unscaled| Some(Value::Decimal(unscaled, 4)));
    assert_eq!(made.values("Price"), prices);
    for (name, expected) in [
        ("full_name", [Some("Ada Lovelace"), Some("Alan M. Turing")]),
        ("Status", [Some("active"), Some("other")]),
        ("Phone", [Some("2"), Some("1")]),
        ("area", [Some("98101"), None]),
        ("city", [Some("Bath"), Some("unknown")]),
        ("source", [Some("crm"), Some("crm")]),
    ] {
        assert_eq!(made.values(name), utf8(&expected), "{name}");
    }
    assert!(made.rejects.is_empty());
}

#[test]
fn steps_then_cast_then_default() {
    let given = utf8(&[
        Some(r#"{"id":" 7 "}"#),
        None,
        Some("{}"),
        Some("oops"),
        Some(r#"{"id":"seven"}"#),
        Some(r#"{"id":99999}"#),
    ]);
    let config = r#"{"columns":{"c":{
        "default":-1, "cast":"smallint", "rename":"id", "steps":[{"json":"$.id"},"trim"]}}}"#;
    let made = made(&[("c", DataType::Utf8, true, &given)], config);
    let field = made.field("id");
    assert_eq!((field.data_type, field.nullable), (DataType::Int16, false));
    assert_eq!(field.how, "json, trim, cast from string to smallint, default for NULL");
    assert_eq!(field.sources, ["c"]);
    let values = made.values("id");
    assert_eq!(values[..3], [7, -1, -1].map(|value| Some(Value::Int(value))));
    // One reject a row, of the step that failed; a default is for NULL, not for a failure.
    let expected = [
        (3, "c", "json-invalid"),
        (4, "c", "cast-invalid"),
        (5, "c", "cast-overflow"),
    ];
    assert_eq!(made.rejects, rejects(&expected));
}

#[test]
fn a_rejected_row_breaks_no_promise_of_the_plan() {
    let texts: Vec<String> = (0..20)
        .map(|row| if row % 9 == 0 { "x".to_owned() } else { row.to_string() })
        .collect();
    let given: Vec<_> = texts.iter().map(|text| Some(Value::Utf8(text))).collect();
    let made = made(
        &[("c", DataType::Utf8, false, &given)],
        r#"{"columns":{"c":{"cast":"int"}}}"#,
    );
    assert!(!made.field("c").nullable);
    let expected = (0..20).map(|row| Some(Value::Int(if row % 9 == 0 { 0 } else { row })));
    assert_eq!(made.values("c"), expected.collect::<Vec<_>>());
    let rows: Vec<_> = made.rejects.iter().map(|(row, ..)| *row).collect();
    assert_eq!(rows, [0, 9, 18]);
}

#[test]
fn each_column_is_read_once_however_often_it_is_used() {
    let (a, b) = (utf8(&[Some("a1"), None]), utf8(&[Some("b1"), Some("b2")]));
    let given = [("a", DataType::Utf8, true, &a[..]), ("b", DataType::Utf8, true, &b[..])];
    let config = r#"{"columns":{"a":{"steps":["upper"]},"b":{}},
        "add":{"both":{"concat":["B","a"],"nulls":"skip"},"first":{"coalesce":["a","b"]},"part":{"from":"a","steps":["trim"]}},
        "order":["first","b"]}"#;
    let made = made(&given, config);
    let names: Vec<_> = made.plan.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(names, ["first", "b", "a", "both", "part"]);
    assert_eq!(made.plan.reads, ["a", "b"]);
    assert_eq!(made.field("both").sources, ["b", "a"]);
    assert_eq!(made.values("first"), utf8(&[Some("a1"), Some("b2")]));
    assert_eq!(made.values("a"), utf8(&[Some("A1"), None]));
    assert_eq!(made.values("both"), utf8(&[Some("b1a1"), Some("b2")]));
    assert_eq!(made.values("part"), utf8(&[Some("a1"), None]));
}

#[test]
fn a_copy_is_passed_unless_it_would_make_a_second_key() {
    let config = r#"{"add":{"twin":{"from":"B","cast":"string"},"id2":{"from":"a"}},"columns":{"a":{"default":0}}}"#;
    let mut table = table(&ABC);
    table.fields[0].nullable = false;
    table.fields[0].key = Some(1);
    let (mut map, plan) = MapColumns::open(&table, config).unwrap();
    assert_eq!(plan.outputs[0], OutputColumn::pass("a", "a"));
    assert_eq!(plan.outputs[4], OutputColumn::pass("twin", "b"));
    assert_eq!(plan.reads, ["a"]);
    let batch = Batch {
        rows: 1,
        operations: vec![2],
        columns: vec![column(DataType::Int32, &[Some(Value::Int(5))])],
    };
    assert_eq!(map.apply(&batch).unwrap().columns, batch.columns);
    let only_passes = open(&ABC, r#"{"add":{"twin":{"from":"b"}},"columns":{"c":{"drop":true}}}"#).unwrap();
    assert!(only_passes.reads.is_empty());
    let pass = |output: &OutputColumn| matches!(output.source, OutputSource::Pass(_));
    assert!(only_passes.outputs.iter().all(pass));
}

#[test]
fn mistakes_say_where_and_what_was_meant() {
    let given = [
        ("name", DataType::Utf8, true, &[][..]),
        ("amount", DataType::Int32, true, &[]),
        ("_operation", DataType::Utf8, true, &[]),
    ];
    for (config, said) in [
        (
            r#"{"add":{"x":{"from":"nam"}}}"#,
            "add.x.from: the table has no column `nam`, did you mean `name`?",
        ),
        (
            r#"{"add":{"x":{"concat":["name",{"text":"-"},"amout"]}}}"#,
            "add.x.concat[2]: the table has no column `amout`, did you mean `amount`?",
        ),
        (
            r#"{"add":{"x":{"coalesce":["name","zzzzz"]}}}"#,
            "add.x.coalesce[1]: the table has no column `zzzzz`",
        ),
        (
            r#"{"add":{"x":{"coalesce":["name","amount"]}}}"#,
            "add.x.coalesce[1]: `name` is string and `amount` is int; columns of one type are needed",
        ),
        (
            r#"{"add":{"NAME":{"value":1}}}"#,
            "add.NAME: the column `name` and this new one would both be named `NAME`",
        ),
        (
            r#"{"columns":{"name":{"rename":"x"}},"add":{"X":{"value":1}}}"#,
            "add.X: the column `name` and this new one would both be named `X`",
        ),
        (
            r#"{"columns":{"amount":{"steps":["trim"]}}}"#,
            "columns.amount.steps[0]: trim works on text, and the column is int here; put `{ cast = \"string\" }` before",
        ),
        (
            r#"{"columns":{"name":{"steps":["trim",{"cast":"date"}],"cast":"int"}}}"#,
            "columns.name.cast: the column is date here, which cannot be cast to int",
        ),
        (
            r#"{"columns":{"amount":{"default":"none"}}}"#,
            "columns.amount.default: the column is int here; expected a whole number in its range",
        ),
        (
            r#"{"columns":{"_operation":{"steps":["trim"]}}}"#,
            "column _operation: it has the name of one of sluice's own columns",
        ),
        (
            r#"{"add":{"x":{"from":"_commit_ts"}}}"#,
            "add.x.from: the table has no column `_commit_ts`",
        ),
        (r#"{"ad":{}}"#, "unknown key `ad`, did you mean `add`?"),
        (
            r#"{"add":{"x":{"concat":["name"],"seperator":","}}}"#,
            "add.x: unknown key `seperator`, did you mean `separator`?",
        ),
    ] {
        let answer = refused(&given, config);
        assert!(answer.starts_with(said), "{config}: {answer}");
    }
    let renamed = r#"{"columns":{"_operation":{"rename":"op"},"name":{"drop":true}},"add":{"name":{"value":1}}}"#;
    let outputs = made(&given, renamed).plan.outputs;
    assert_eq!(outputs[1], OutputColumn::pass("op", "_operation"));
    assert_eq!(outputs[2].name, "name");
}

#[test]
fn names_that_differ_in_case_alone_are_told_apart_where_they_are_sources() {
    let twins = [("a", DataType::Utf8, true, &[][..]), ("A", DataType::Utf8, true, &[])];
    let config = |name: &str| format!(r#"{{"unlisted":"drop","add":{{"x":{{"from":"{name}","steps":["trim"]}}}}}}"#);
    assert_eq!(made(&twins, &config("A")).plan.reads, ["A"]);
    assert_eq!(made(&twins, &config("a")).plan.reads, ["a"]);
    let sharp = [("ä", DataType::Utf8, true, &[][..]), ("Ä", DataType::Utf8, true, &[])];
    assert_eq!(made(&sharp, &config("Ä")).plan.reads, ["Ä"]);
}
