use sluice_plugin::testing::column;

use super::*;

fn table(data_type: DataType, source_type: &str) -> Table {
    let field = |name: &str, data_type, source_type: &str| SourceField {
        name: name.to_owned(),
        data_type,
        nullable: true,
        source_type: source_type.to_owned(),
        key: None,
    };
    Table {
        schema: "dbo".to_owned(),
        name: "orders".to_owned(),
        capture_instance: "dbo_orders".to_owned(),
        fields: vec![
            field("id", DataType::Int32, "int"),
            field("Tenant", data_type, source_type),
        ],
    }
}

/// For each row whether it is kept; rejected rows are `None`.
fn kept(table: &Table, config: &str, tenants: &[Option<Cell<'_>>]) -> Vec<Option<bool>> {
    let (mut filter, _) = TenantFilter::open(table, config).unwrap();
    let batch = Batch {
        rows: tenants.len() as u32,
        operations: vec![2; tenants.len()],
        columns: vec![column(table.fields[1].data_type, tenants)],
    };
    let outcome = filter.apply(&batch).unwrap();
    assert!(outcome.columns.is_empty());
    (0..tenants.len())
        .map(|row| {
            let dropped = outcome.dropped.as_ref();
            let dropped = dropped.is_some_and(|bits| bits[row / 8] & (1 << (row % 8)) != 0);
            let rejected = outcome.rejects.iter().any(|reject| reject.row as usize == row);
            (!rejected).then_some(!dropped)
        })
        .collect()
}

fn texts<'a>(texts: &[&'a str]) -> Vec<Option<Cell<'a>>> {
    texts.iter().map(|text| Some(Cell::Utf8(text))).collect()
}

fn refused(table: &Table, config: &str) -> String {
    TenantFilter::open(table, config).unwrap_err().to_string()
}

#[test]
fn every_column_passes_and_the_tenant_alone_is_read() {
    let (_, plan) = TenantFilter::open(
        &table(DataType::Utf8, "varchar(10)"),
        r#"{"column":"tenant","keep":["a"]}"#,
    )
    .unwrap();
    assert_eq!(plan.reads, ["Tenant"]);
    assert_eq!(
        plan.outputs,
        [OutputColumn::pass("id", "id"), OutputColumn::pass("Tenant", "Tenant")]
    );
}

#[test]
fn listed_tenants_are_kept_or_dropped() {
    let table = table(DataType::Utf8, "varchar(10)");
    let tenants = texts(&["acme", "globex", "initech", "ACME", ""]);
    let some = |kept: [bool; 5]| kept.map(Some).to_vec();
    assert_eq!(
        kept(&table, r#"{"column":"Tenant","keep":["acme","globex"]}"#, &tenants),
        some([true, true, false, false, false])
    );
    assert_eq!(
        kept(&table, r#"{"column":"Tenant","drop":["acme","globex"]}"#, &tenants),
        some([false, false, true, true, true])
    );
    assert_eq!(
        kept(
            &table,
            r#"{"column":"Tenant","keep":["Acme"],"ignore_case":true}"#,
            &tenants
        ),
        some([true, false, false, true, false])
    );
}

#[test]
fn more_rows_than_a_byte_has_bits() {
    let numbers: Vec<Option<Cell<'_>>> = (0..20).map(|number| Some(Cell::Int(number))).collect();
    let expected: Vec<Option<bool>> = (0..20).map(|number| Some(number == 7 || number == 19)).collect();
    let config = r#"{"column":"tenant","keep":[7,19]}"#;
    for (data_type, name) in [
        (DataType::Int16, "smallint"),
        (DataType::Int32, "int"),
        (DataType::Int64, "bigint"),
    ] {
        assert_eq!(kept(&table(data_type, name), config, &numbers), expected, "{name}");
    }
}

#[test]
fn blanks_at_the_end_and_the_case_of_a_uniqueidentifier_do_not_matter() {
    let padded = table(DataType::Utf8, "char(10)");
    let tenants = texts(&["acme      ", " acme"]);
    assert_eq!(
        kept(&padded, r#"{"column":"tenant","keep":["acme"]}"#, &tenants),
        [Some(true), Some(false)]
    );
    let id = table(DataType::Utf8, "uniqueidentifier");
    let tenants = texts(&["6F9619FF-8B86-D011-B42D-00C04FC964FF"]);
    let config = r#"{"column":"tenant","keep":["6f9619ff-8b86-d011-b42d-00c04fc964ff"]}"#;
    assert_eq!(kept(&id, config, &tenants), [Some(true)]);
}

#[test]
fn a_row_without_a_tenant_is_dropped_unless_something_else_is_said() {
    let table = table(DataType::Utf8, "varchar(10)");
    let tenants = [None, Some(Cell::Utf8("a"))];
    let of = |list: &str, nulls: &str| kept(&table, &format!(r#"{{"column":"tenant",{list}{nulls}}}"#), &tenants);
    for list in [r#""keep":["a"]"#, r#""drop":["b"]"#] {
        assert_eq!(of(list, ""), [Some(false), Some(true)]);
        assert_eq!(of(list, r#","nulls":"drop""#), [Some(false), Some(true)]);
        assert_eq!(of(list, r#","nulls":"keep""#), [Some(true), Some(true)]);
        assert_eq!(of(list, r#","nulls":"reject""#), [None, Some(true)]);
    }
}

#[test]
fn an_empty_batch_and_one_that_is_kept_whole_say_nothing() {
    let (mut filter, _) =
        TenantFilter::open(&table(DataType::Int32, "int"), r#"{"column":"tenant","keep":[1]}"#).unwrap();
    for tenants in [vec![], vec![Some(Cell::Int(1)); 9]] {
        let batch = Batch {
            rows: tenants.len() as u32,
            operations: vec![2; tenants.len()],
            columns: vec![column(DataType::Int32, &tenants)],
        };
        assert_eq!(filter.apply(&batch).unwrap(), Outcome::default());
    }
}

#[test]
fn mistakes_in_the_configuration_are_named() {
    let text = table(DataType::Utf8, "varchar(10)");
    for (config, words) in [
        (
            r#"{"column":"tenat","keep":["a"]}"#,
            "column: the table has no column `tenat`, did you mean `Tenant`?",
        ),
        (r#"{"column":"tenant"}"#, "either `keep` or `drop`"),
        (
            r#"{"column":"tenant","keep":["a"],"drop":["b"]}"#,
            "either `keep` or `drop`",
        ),
        (
            r#"{"column":"tenant","keep":[]}"#,
            "keep: it lists no tenant, and no row would be kept",
        ),
        (
            r#"{"column":"tenant","keep":["a",7]}"#,
            "keep[1]: a text is expected: column `Tenant` is varchar(10)",
        ),
        (
            r#"{"column":"tenant","keep":["a"],"nulls":"dorp"}"#,
            "did you mean `drop`?",
        ),
        (
            r#"{"column":"tenant","keeps":["a"]}"#,
            "unknown key `keeps`, did you mean `keep`?",
        ),
    ] {
        let message = refused(&text, config);
        assert!(message.contains(words), "{config}: {message}");
    }
    let number = refused(&table(DataType::Int32, "int"), r#"{"column":"tenant","drop":["a"]}"#);
    assert_eq!(number, "drop[0]: a whole number is expected: column `Tenant` is int");
    let fraction = refused(&table(DataType::Int32, "int"), r#"{"column":"tenant","drop":[1.5]}"#);
    assert!(fraction.contains("a whole number is expected"), "{fraction}");
    let date = refused(&table(DataType::Date, "date"), r#"{"column":"tenant","keep":["a"]}"#);
    assert_eq!(
        date,
        "column Tenant: a tenant is a text or a whole number, and this is date"
    );
}
