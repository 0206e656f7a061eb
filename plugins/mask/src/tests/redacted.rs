//! `redact`. The expected tokens were made with Python's `hmac`.

use super::*;

#[test]
fn finds_are_replaced_and_the_rest_stays() {
    let redact =
        r#"{"method":"redact","patterns":["email","phone","iban","card","ip","ssn"],"expressions":["KD-[0-9]{6}"]}"#;
    assert_eq!(
        text(
            redact,
            &[
                "Anna (anna@example.com, +49 171 1234567) paid with 4111 1111 1111 1111.",
                "KD-123456: DE89 3704 0044 0532 0130 00, from 10.0.0.1, ssn 078-05-1120",
                "nothing of the kind, \u{e4}\u{f6}\u{fc} 12345",
                "",
                "\u{fc}a@b.example\u{a0}\u{2026}",
            ]
        ),
        [
            "Anna ([email], [phone]) paid with [card].",
            "[redacted]: [iban], from [ip], ssn [ssn]",
            "nothing of the kind, \u{e4}\u{f6}\u{fc} 12345",
            "",
            "[email]\u{a0}\u{2026}",
        ]
    );
    let constant = r#"{"method":"redact","patterns":["email"],"replacement":"***"}"#;
    assert_eq!(text(constant, &["a@b.example,c@d.example"]), ["***,***"]);
    let values = [None, Some(Value::Utf8("a@b.example")), None];
    assert_eq!(
        masked(constant, DataType::Utf8, &values).0,
        [None, Some("***".to_owned()), None]
    );
}

/// No digit of one number stays because it stands beside another.
#[test]
fn neighbours_are_redacted_too() {
    let redact = r#"{"method":"redact","patterns":["phone","card","email","ip"]}"#;
    assert_eq!(
        text(
            redact,
            &[
                "0171 1234567 / 0172 7654321",
                "06 30 1234567 / 06 20 7654321, or 020 7946 0018 / 020 7946 0999",
                "415-555-2671 / 415-555-9999",
                "Called 03.05.2024 0171/1234567",
                "+49 30 12345678 - 123456",
                "x@anna.smith@example.com and \"john smith\"@example.com",
                "at fe80::1.The rest",
                "0171\u{a0}1234567 or 4111\u{202f}1111\u{2011}1111\u{2013}1111",
            ]
        ),
        [
            "[phone]",
            "[phone], or [phone]",
            "[phone]",
            "Called 03.05.2024 [phone]",
            "[phone]",
            "[email] and [email]",
            "at [ip].The rest",
            "[phone] or [card]",
        ]
    );
}

/// What `token` makes of a column of addresses with the same normalisation.
#[test]
fn finds_become_the_tokens_of_what_stood_there() {
    let redact = r#"{"method":"redact","patterns":["email","phone"],"expressions":["KD-[0-9]+"],
        "key":"pii","prefix":"t_","normalize":["trim","lower","nfc"]}"#;
    let values = [
        Some(Value::Utf8("Anna@Example.com or anna@example.com: KD-123456")),
        None,
        Some(Value::Utf8("nothing")),
        Some(Value::Utf8("0171/1234567")),
    ];
    let (shown, rejects) = masked(redact, DataType::Utf8, &values);
    assert!(rejects.is_empty());
    let anna = "t_adnag0g7tgeacg7t";
    assert_eq!(
        shown,
        [
            Some(format!("{anna} or {anna}: t_cphryfhb1sn3cm8n")),
            None,
            Some("nothing".to_owned()),
            Some("t_3kja9xyamgz50n7w".to_owned()),
        ]
    );
    let raw = r#"{"method":"redact","patterns":["email"],"key":"pii"}"#;
    assert_eq!(text(raw, &["Anna@Example.com"]), ["jddhyhy0aqb1zyg7"]);
    assert_eq!(text(raw, &["nothing"]), ["nothing"]);
}

/// What backtracking would never finish.
#[test]
fn an_expression_does_not_run_away() {
    let redact = r#"{"method":"redact","expressions":["(a+)+$"]}"#;
    let long = format!("{}b", "a".repeat(300));
    let started = std::time::Instant::now();
    assert_eq!(text(redact, &[&long]), [&*long]);
    assert!(started.elapsed().as_secs() < 10);
}
