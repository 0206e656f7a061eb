//! What a component may ask of the host, and gets only where its table has granted it.

use arrow::datatypes::Int64Type;

use super::*;
use crate::error::{Classify, ErrorKind};

const COUNTRIES: &str = "code,name,note\nHU,Magyarország,\nSE,Sverige,north\n";

fn ask(column: &str, ask: serde_json::Value) -> TransformSpec {
    TransformSpec {
        keys: vec!["pii".into()],
        ..with_config("asker", serde_json::json!({ "column": column, "ask": ask }))
    }
}

fn ff1(key: &str, alphabet: &str) -> TransformSpec {
    ask(
        "name",
        serde_json::json!({ "ff1": { "key": key, "tweak": "customer", "alphabet": alphabet } }),
    )
}

fn pick(key: &str, count: u32) -> TransformSpec {
    ask(
        "name",
        serde_json::json!({ "pick": { "key": key, "context": "names", "count": count } }),
    )
}

fn look(table: &str, column: &str) -> TransformSpec {
    TransformSpec {
        lookups: vec!["countries".into()],
        ..ask(
            "name",
            serde_json::json!({ "lookup": { "table": table, "column": column } }),
        )
    }
}

/// A bench with a reference table `countries`, and another that no transform is granted.
fn with_countries(csv: &str) -> (Bench, PathBuf) {
    let bench = Bench::own(&["asker"]);
    let file = bench.path().join("countries.csv");
    std::fs::write(&file, csv).unwrap();
    let lookups = Lookups::new(["countries", "secret"].map(|name| (name.to_owned(), file.clone())));
    let engine = Engine::with(Some(bench.path().to_owned()), &[], lookups, CacheSettings::Off).unwrap();
    (Bench { engine, ..bench }, file)
}

/// The code with which the guest fails when the host refuses it.
fn refusal(error: &TransformError) -> String {
    let text = error.to_string();
    let code = text.split("refused the batch with code `").nth(1).unwrap_or(&text);
    code.split('`').next().unwrap_or(code).to_owned()
}

/// The values are those of the unit tests of `keyed`.
#[test]
fn text_is_encrypted_and_keeps_its_alphabet() {
    let bench = Bench::new(&["asker"]);
    let rows = people_batch(&[2, 2], vec![Some("4111111111111111"), None]);
    let chain = bench.open(&[ff1("pii", "0123456789")], &["name"]).unwrap();
    let applied = chain.apply(&rows).unwrap().batch;
    assert_eq!(texts(&applied, "name"), [Some("9060178568351714".into()), None]);
    for (value, code) in [("12345", "too-short"), ("123456a", "foreign-character")] {
        let error = chain
            .apply(&people_batch(&[2], vec![Some(value)]))
            .unwrap_err()
            .to_string();
        assert!(error.ends_with(&format!("rejected with code `{code}`")), "{error}");
    }
    let long = "1".repeat(1025);
    let error = chain
        .apply(&people_batch(&[2], vec![Some(&long)]))
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("rejected with code `too-long`"), "{error}");
}

#[test]
fn numbers_are_picked() {
    let bench = Bench::new(&["asker"]);
    let applied = bench
        .open(&[pick("pii", 1000)], &["name"])
        .unwrap()
        .apply(&four())
        .unwrap()
        .batch;
    let picks = applied.column_by_name("name").unwrap().as_primitive::<Int64Type>();
    assert_eq!(picks.iter().collect::<Vec<_>>(), [Some(956), None, Some(832), Some(97)]);
}

#[test]
fn keys_that_are_not_granted_and_arguments_that_are_none_are_refused() {
    let bench = Bench::new(&["asker"]);
    for (spec, code) in [
        (ff1("other", "0123456789"), "not-granted"),
        (pick("other", 10), "not-granted"),
        (ff1("pii", "0"), "argument"),
        (ff1("pii", "0120"), "argument"),
        (pick("pii", 0), "argument"),
    ] {
        assert_eq!(refusal(&bench.fails(spec)), code);
    }
    let long_tweak = serde_json::json!({ "ff1": { "key": "pii", "tweak": "x".repeat(257), "alphabet": "01" } });
    assert_eq!(refusal(&bench.fails(ask("name", long_tweak))), "argument");
    let ungranted = TransformSpec {
        keys: Vec::new(),
        ..pick("pii", 10)
    };
    assert_eq!(refusal(&bench.fails(ungranted)), "not-granted");
}

#[test]
fn texts_are_looked_up_where_the_table_is_granted() {
    let (bench, _) = with_countries(COUNTRIES);
    let rows = people_batch(&[2, 2, 2, 2], vec![Some("SE"), None, Some("XX"), Some("HU")]);
    let of = |column: &str| {
        let chain = bench.open(&[look("countries", column)], &[]).unwrap();
        texts(&chain.apply(&rows).unwrap().batch, "name")
    };
    assert_eq!(
        of("name"),
        [Some("Sverige".into()), None, None, Some("Magyarország".into())]
    );
    assert_eq!(of("note"), [Some("north".into()), None, None, None]);

    assert_eq!(refusal(&bench.fails(look("countries", "Name"))), "unknown-column");
    assert_eq!(refusal(&bench.fails(look("secret", "name"))), "not-granted");
    let ungranted = TransformSpec {
        lookups: Vec::new(),
        ..look("countries", "name")
    };
    assert_eq!(refusal(&bench.fails(ungranted)), "not-granted");
}

#[test]
fn a_component_learns_the_columns_of_what_it_is_granted() {
    let (bench, _) = with_countries(COUNTRIES);
    let with_columns = |columns: &[&str]| {
        let wanted = serde_json::json!({ "table": "countries", "column": "name", "columns": columns });
        TransformSpec {
            lookups: vec!["countries".into()],
            ..ask("name", serde_json::json!({ "lookup": wanted }))
        }
    };
    assert!(bench.open(&[with_columns(&["code", "name", "note"])], &[]).is_ok());
    let error = bench.fails(with_columns(&["name"])).to_string();
    assert!(error.contains(r#"they are ["code", "name", "note"]"#), "{error}");
    let ungranted = TransformSpec {
        lookups: Vec::new(),
        ..with_columns(&["name"])
    };
    let error = bench.fails(ungranted).to_string();
    assert!(error.ends_with("config at `ask.lookup.table`: not-granted"), "{error}");
}

#[test]
fn a_chain_depends_on_the_files_that_it_looks_things_up_in() {
    let (bench, file) = with_countries(COUNTRIES);
    let chain = bench.open(&[look("countries", "name")], &[]).unwrap();
    let digest = crate::sha256::hex(COUNTRIES.as_bytes());
    assert_eq!(chain.provenance()[0].lookups, [("countries".to_owned(), digest)].into());
    // A process has one, whatever becomes of the file; the next process has another chain.
    std::fs::write(&file, COUNTRIES.replace("north", "south")).unwrap();
    assert_eq!(
        bench.open(&[look("countries", "name")], &[]).unwrap().digest(),
        chain.digest()
    );
    let (later, _) = with_countries(&COUNTRIES.replace("north", "south"));
    assert_ne!(
        later.open(&[look("countries", "name")], &[]).unwrap().digest(),
        chain.digest()
    );
}

#[test]
fn a_lookup_that_is_not_there_or_broken_stops_the_table_that_is_granted_it() {
    let (bench, file) = with_countries("code,name\nHU,Hungary,x\n");
    let error = bench.fails(look("countries", "name"));
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_eq!(
        error.to_string(),
        format!(
            "table dbo_people, transform 1 (`asker`): the lookup file {}, line 2: the row has 3 fields and the header has 2; \
             quote a field that has a comma or a line break",
            file.display()
        )
    );
    assert!(bench.open(&[pick("pii", 10)], &[]).is_ok());
    let absent = TransformSpec {
        lookups: vec!["contries".into()],
        ..look("countries", "name")
    };
    let error = bench.fails(absent);
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(
        error
            .to_string()
            .ends_with("there is no lookup `contries`; lookups are `countries`, `secret`; did you mean `countries`?"),
        "{error}"
    );
}

#[test]
fn answers_of_the_host_are_held_to_the_components_memory() {
    let csv = format!("code,text\nHU,{}\n", "x".repeat(4 << 20));
    let (bench, _) = with_countries(&csv);
    let small = TransformSpec {
        memory_bytes: 16 << 20,
        ..look("countries", "text")
    };
    let chain = bench.open(&[small], &[]).unwrap();
    let error = chain.apply(&people_batch(&[2; 8], vec![Some("HU"); 8])).unwrap_err();
    assert!(
        error.to_string().contains("overran its memory limit of 16777216 bytes"),
        "{error}"
    );
    assert!(chain.apply(&people_batch(&[2], vec![None])).is_ok());
}
