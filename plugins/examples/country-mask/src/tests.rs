use sluice_plugin::testing::{TestKeys, TestLookups, column};
use sluice_plugin::{DataType, OutputSource, SourceField, Value};

use super::*;

type Mask = CountryMask<TestKeys, TestLookups>;

const CONFIG: &str =
    r#"{ "country": "country", "table": "masking", "key": "pii", "columns": { "EMAIL": "contact", "name": "name" } }"#;

fn offer() {
    TestLookups::none()
        .with_table(
            "masking",
            &["country", "contact", "name"],
            &[
                &["CH", "keep", "keep"],
                &["HU", "hash", "keep"],
                &["DE", "hash", "hash"],
                &["CN", "null", "null"],
                &["XX", "sha", "keep"],
                &["YY", "", "keep"],
            ],
        )
        .offer();
}

fn customers() -> Table {
    let field = |name: &str, data_type, source_type: &str| SourceField {
        name: name.to_owned(),
        data_type,
        nullable: false,
        source_type: source_type.to_owned(),
        key: None,
    };
    Table {
        schema: "dbo".to_owned(),
        name: "customers".to_owned(),
        capture_instance: "dbo_customers".to_owned(),
        fields: vec![
            field("id", DataType::Int32, "int"),
            field("name", DataType::Utf8, "nvarchar(50)"),
            field("country", DataType::Utf8, "char(3)"),
            field("email", DataType::Utf8, "nvarchar(100)"),
        ],
    }
}

fn texts(values: &[Option<&str>]) -> Column {
    let values: Vec<_> = values.iter().map(|value| value.map(Value::Utf8)).collect();
    column(DataType::Utf8, &values)
}

type Texts = Vec<Option<String>>;

/// The columns `name` and `email`, and the rejects, of rows that are the same but for their country.
fn masked(config: &str, countries: &[Option<&str>]) -> ([Texts; 2], Vec<(u32, String)>) {
    offer();
    let (mut mask, plan) = Mask::open(&customers(), config).unwrap();
    assert_eq!(plan.reads, ["country", "name", "email"]);
    let rows = countries.len();
    let batch = Batch {
        rows: rows as u32,
        operations: vec![2; rows],
        columns: vec![
            texts(countries),
            texts(&vec![Some("Kiss"); rows]),
            texts(&vec![Some("anna@example.org"); rows]),
        ],
    };
    let outcome = mask.apply(&batch).unwrap();
    let of = |index: usize| {
        let view = Utf8View::new(&outcome.columns[index], rows).unwrap();
        view.iter().map(|value| value.map(str::to_owned)).collect()
    };
    let rejects = outcome.rejects.iter().map(|reject| {
        assert_eq!(reject.column, "country");
        (reject.row, reject.code.clone())
    });
    ([of(0), of(1)], rejects.collect())
}

fn some(texts: &[&str]) -> Texts {
    let null = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
    texts.iter().map(null).collect()
}

// printf '\0anna@example.org' | openssl dgst -sha256 -hmac 'secret of pii'
const ANNA: &str = "5d661bb7eb6c6b5186150759166b5500";
// printf '\0Kiss' | openssl dgst -sha256 -hmac 'secret of pii'
const KISS: &str = "197543948d27b5f21c3b59eb095b113d";

#[test]
fn each_column_gets_what_its_rule_says_of_the_country() {
    let countries = ["CH", "HU", "DE", "CN", "DE "].map(Some);
    let ([name, email], rejects) = masked(CONFIG, &countries);
    assert_eq!(name, some(&["Kiss", "Kiss", KISS, "", KISS]));
    assert_eq!(email, some(&["anna@example.org", ANNA, ANNA, "", ANNA]));
    assert!(rejects.is_empty());
}

#[test]
fn a_country_without_a_rule_gets_what_otherwise_says_and_is_never_kept() {
    let countries = [Some("ch"), None, Some(""), Some("ZZ"), Some("YY")];
    let of = |otherwise: &str| masked(&CONFIG.replace("\"key\"", &format!("{otherwise}\"key\"")), &countries);
    for otherwise in ["", r#""otherwise": "null", "#] {
        let ([name, email], rejects) = of(otherwise);
        assert_eq!(name, some(&["", "", "", "", "Kiss"]));
        assert_eq!((email, rejects.len()), (some(&[""; 5]), 0));
    }
    let ([name, email], rejects) = of(r#""otherwise": "hash", "#);
    assert_eq!(name, some(&[KISS, KISS, KISS, KISS, "Kiss"]));
    assert_eq!((email, rejects.len()), (some(&[ANNA; 5]), 0));
    let (_, mut rejects) = of(r#""otherwise": "reject", "#);
    rejects.sort();
    rejects.dedup();
    let expected = [0, 1, 2, 3, 4].map(|row| (row, "country-unlisted".to_owned()));
    assert_eq!(rejects, expected);
    let config = CONFIG.replace("\"key\"", r#""otherwise": "keep", "key""#);
    offer();
    let message = Mask::open(&customers(), &config).unwrap_err().to_string();
    assert!(message.contains("otherwise: unknown word `keep`"), "{message}");
}

#[test]
fn a_rule_that_is_none_rejects_its_rows_alone() {
    let ([name, email], rejects) = masked(CONFIG, &[Some("XX"), Some("CH")]);
    assert_eq!(rejects, [(0, "rule-unknown".to_owned())]);
    assert_eq!(name, some(&["Kiss", "Kiss"]));
    assert_eq!(email, some(&["", "anna@example.org"]));
}

#[test]
fn a_hash_has_its_context_and_null_stays_null() {
    offer();
    let config = CONFIG.replace("\"key\"", r#""context": "c", "key""#);
    let (mut mask, _) = Mask::open(&customers(), &config).unwrap();
    let batch = Batch {
        rows: 2,
        operations: vec![2, 2],
        columns: vec![
            texts(&[Some("DE"), Some("DE")]),
            texts(&[None, Some("Kiss")]),
            texts(&[Some("anna@example.org"), None]),
        ],
    };
    let outcome = mask.apply(&batch).unwrap();
    let email = Utf8View::new(&outcome.columns[1], 2).unwrap();
    // printf 'c\0anna@example.org' | openssl dgst -sha256 -hmac 'secret of pii'
    assert_eq!(
        email.iter().collect::<Vec<_>>(),
        [Some("3497dd9edb760baacc4873fa69741237"), None]
    );
    let name = Utf8View::new(&outcome.columns[0], 2).unwrap();
    assert!(name.get(0).is_none() && name.get(1).is_some());
}

#[test]
fn the_plan_names_the_key_and_what_a_column_is_made_of() {
    offer();
    let (_, plan) = Mask::open(&customers(), CONFIG).unwrap();
    assert!(matches!(&plan.outputs[0].source, OutputSource::Pass(name) if name == "id"));
    assert!(matches!(&plan.outputs[2].source, OutputSource::Pass(name) if name == "country"));
    let OutputSource::Computed(email) = &plan.outputs[3].source else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (&*email.keys, &*email.sources),
        (&["pii".to_owned()][..], &["email".to_owned(), "country".to_owned()][..])
    );
    // A country that has no rule becomes NULL in a column that has none.
    assert!(email.nullable);
}

#[test]
fn mistakes_in_the_configuration_are_named() {
    offer();
    let refused = |from: &str, to: &str| {
        let config = CONFIG.replace(from, to);
        assert_ne!(config, CONFIG);
        Mask::open(&customers(), &config).unwrap_err().to_string()
    };
    for (from, to, words) in [
        (
            "\"masking\"",
            "\"maskings\"",
            "table: `maskings`: no reference table of this name is granted",
        ),
        (
            "\"contact\"",
            "\"contacts\"",
            "columns.EMAIL: the reference table `masking` has no column `contacts`, did you mean `contact`?",
        ),
        ("\"contact\"", "\"country\"", "it has contact, name"),
        (
            "\"EMAIL\"",
            "\"mail\"",
            "columns.mail: the table has no column `mail`, did you mean `email`?",
        ),
        ("\"EMAIL\"", "\"id\"", "column id: a hash is a text, and this is int"),
        (
            "\"EMAIL\"",
            "\"country\"",
            "columns.country: it is the column with the country",
        ),
        (
            "\"pii\"",
            "\"pi\"",
            "key: the key `pi` is not granted to this transform",
        ),
        (
            "\"country\": \"country\"",
            "\"country\": \"land\"",
            "country: the table has no column `land`",
        ),
        (
            "\"key\": \"pii\"",
            "\"kee\": \"pii\"",
            "unknown key `kee`, did you mean `key`?",
        ),
    ] {
        let message = refused(from, to);
        assert!(message.contains(words), "{to}: {message}");
    }
}
