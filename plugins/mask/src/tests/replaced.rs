//! `token`, `pseudonym` and `fpe`. The expected texts were made in Python: tokens and pseudonyms with `hmac`, FF1 with an
//! implementation that gives the samples of NIST SP 800-38G.

use super::*;

const ALL_STEPS: &str = r#","normalize":["trim","lower","nfc"]"#;

fn token(options: &str) -> String {
    format!(r#"{{"method":"token","key":"pii"{options}}}"#)
}

fn pseudonym(options: &str) -> String {
    format!(r#"{{"method":"pseudonym","key":"pii","values":["Ada","Ben","Cleo","Dan","Eve"]{options}}}"#)
}

fn fpe(options: &str) -> String {
    format!(r#"{{"method":"fpe","key":"pii",{options}}}"#)
}

#[test]
fn token_vectors() {
    assert_eq!(
        text(&token(""), &["1", "anna@example.com", "Anna"]),
        ["d6tpb19hvpvzn31p", "adnag0g7tgeacg7t", "cg8d0pj28d95marx"]
    );
    assert_eq!(
        text(&token(r#","length":13,"prefix":"c_""#), &["1"]),
        ["c_d6tpb19hvpvzn"]
    );
    assert_eq!(
        text(&token(r#","length":51"#), &["1"]),
        ["d6tpb19hvpvzn31pt060cytqnwzaxj39hjgs5pjhag82mk2nprw"]
    );
    assert_eq!(text(&token(r#","context":"crm""#), &["1"]), ["1ncqc1rvdtvnt1k3"]);
}

#[test]
fn equal_values_of_different_types_have_one_token_and_one_pseudonym() {
    for (data_type, one) in [
        (DataType::Boolean, Value::Boolean(true)),
        (DataType::Int16, Value::Int(1)),
        (DataType::Int64, Value::Int(1)),
        (DataType::Float64, Value::Float64(1.0)),
        (DataType::Decimal { precision: 5, scale: 1 }, Value::Decimal(10, 1)),
        (DataType::Utf8, Value::Utf8("1")),
    ] {
        let (shown, _) = masked(&token(""), data_type, &[Some(one), None]);
        assert_eq!(shown, [Some("d6tpb19hvpvzn31p".to_owned()), None], "{data_type}");
        let (shown, _) = masked(&pseudonym(""), data_type, &[Some(one), None]);
        assert_eq!(shown, [Some("Cleo".to_owned()), None], "{data_type}");
    }
}

/// Field case 26.
#[test]
fn tokens_and_pseudonyms_after_normalisation() {
    let zoe = ["zo\u{eb}", "Zoe\u{308}", " ZO\u{cb}\u{a0}", "ZOE\u{308}\r\n"];
    assert_eq!(text(&token(ALL_STEPS), &zoe), ["js6gnfswbwdy00s7"; 4]);
    assert_eq!(text(&pseudonym(ALL_STEPS), &zoe), ["Cleo"; 4]);
    let i_dot = ["\u{130}", "I\u{307}", "i\u{307}"];
    assert_eq!(text(&token(ALL_STEPS), &i_dot), ["kfwnnsgfcqvh2zhs"; 3]);
    assert_eq!(text(&pseudonym(ALL_STEPS), &i_dot), ["Dan"; 3]);
    let strasse = ["Stra\u{df}e", "STRA\u{1e9e}E", "STRASSE"];
    assert_eq!(text(&token(ALL_STEPS), &strasse[..2]), ["18z06gwv87x43c6m"; 2]);
    assert_eq!(text(&pseudonym(ALL_STEPS), &strasse), ["Ada", "Ada", "Ben"]);
    let raw = text(&token(""), &zoe);
    assert_eq!(raw[0], "js6gnfswbwdy00s7");
    assert!(raw[1..].iter().all(|other| *other != raw[0]));
}

#[test]
fn pseudonym_vectors() {
    assert_eq!(text(&pseudonym(""), &["1", "Anna", ""]), ["Cleo", "Ben", "Cleo"]);
    assert_eq!(
        text(&pseudonym(r#","context":"crm""#), &["1", "Anna", "anna"]),
        ["Ada", "Dan", "Cleo"]
    );
}

/// The pick of Cleo is Cleo; under the context `a` the first three are picked for themselves.
#[test]
fn nobody_becomes_their_own_pseudonym() {
    let names = ["Ada", "Ben", "Cleo", "Dan", "Eve"];
    assert_eq!(text(&pseudonym(""), &names), ["Eve", "Cleo", "Dan", "Ben", "Dan"]);
    assert_eq!(
        text(&pseudonym(r#","context":"a""#), &names),
        ["Ben", "Cleo", "Dan", "Cleo", "Ben"]
    );
    // The last one's next is the first.
    assert_eq!(text(&pseudonym(r#","context":"b""#), &["Eve"]), ["Ada"]);
    let lower = r#","context":"c","normalize":["trim","lower"]"#;
    assert_eq!(text(&pseudonym(lower), &[" DAN", "dan", "Dan"]), ["Eve"; 3]);
    let equal = r#"{"columns":{"c":{"method":"pseudonym","key":"pii","values":["Ada","ada"],"normalize":["lower"]}}}"#;
    let error = open(&[("c", DataType::Utf8, true)], equal).unwrap_err().to_string();
    assert!(
        error.starts_with("columns.c.values[1]: it stands there twice"),
        "{error}"
    );
}

#[test]
fn fpe_keeps_the_alphabet_and_the_length() {
    for (alphabet, value, encrypted) in [
        ("digits", "4111111111111111", "1060073615251443"),
        ("digits", "004917112345", "537848325489"),
        ("lower", "hello", "kqlch"),
        ("upper", "HELLO", "KQLCH"),
        ("letters", "HelloWorld", "hiuZQaWLMC"),
        ("alphanumeric", "A1b2C3d4", "mrZv3XuR"),
    ] {
        let options = format!(r#""alphabet":"{alphabet}""#);
        assert_eq!(text(&fpe(&options), &[value]), [encrypted], "{alphabet}");
    }
    let own = fpe(r#""characters":"zo\u00ebabcdefgh","normalize":["trim","lower","nfc"]"#);
    let values = ["zo\u{eb}zo\u{eb}", " ZOE\u{308}zoe\u{308}"];
    assert_eq!(text(&own, &values), ["czg\u{eb}df"; 2]);
    let context = fpe(r#""alphabet":"digits","context":"crm""#);
    assert_eq!(text(&context, &["4111111111111111"]), ["0856136112875326"]);
}

#[test]
fn fpe_keeps_other_characters_where_they_are() {
    let keep = fpe(r#""alphabet":"digits","others":"keep""#);
    assert_eq!(
        text(&keep, &["4111 1111-1111 1111", "078-05-1120 (\u{e4})"]),
        ["1060 0736-1525 1443", "300-91-1638 (\u{e4})"]
    );
}

#[test]
fn fpe_rejects_what_it_cannot_hide() {
    let values = [
        Some(Value::Utf8("123456")),
        Some(Value::Utf8("12345")),
        None,
        Some(Value::Utf8("1234 5678")),
        Some(Value::Utf8("")),
    ];
    let digits = r#""alphabet":"digits""#;
    let (shown, rejects) = masked(&fpe(digits), DataType::Utf8, &values);
    let empty = Some(String::new());
    assert_eq!(
        shown,
        [
            Some("846690".to_owned()),
            empty.clone(),
            None,
            empty.clone(),
            empty.clone()
        ]
    );
    let code = |row, code: &str| (row, code.to_owned());
    let mut rejects = rejects;
    rejects.sort();
    assert_eq!(
        rejects,
        [
            code(1, "fpe-too-short"),
            code(3, "fpe-foreign-character"),
            code(4, "fpe-too-short")
        ]
    );
    let keep = format!(r#"{digits},"others":"keep""#);
    let long = "7".repeat(1_025);
    let values = [Some(Value::Utf8("no digits")), Some(Value::Utf8(&long))];
    let (shown, rejects) = masked(&fpe(&keep), DataType::Utf8, &values);
    assert_eq!(shown, [empty.clone(), empty]);
    assert_eq!(rejects, [code(0, "fpe-too-short"), code(1, "fpe-too-long")]);
}
