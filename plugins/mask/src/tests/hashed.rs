//! `hash` and `email`.

use super::*;

const ONE: &str = "69b5658531ddb7fa8c36d00c067b57af3eaec8698ca192da5154102a4c55b639";
const ONE_IN_CRM: &str = "0d5976071b6eb75d0663871dc1e8a56bb6baf9e01ff0c4f443a24adbb6b6f407";

#[test]
fn equal_values_of_different_types_have_one_hash() {
    for (data_type, one) in [
        (DataType::Boolean, Value::Boolean(true)),
        (DataType::Int16, Value::Int(1)),
        (DataType::Int32, Value::Int(1)),
        (DataType::Int64, Value::Int(1)),
        (DataType::Float32, Value::Float32(1.0)),
        (DataType::Float64, Value::Float64(1.0)),
        (DataType::Decimal { precision: 5, scale: 1 }, Value::Decimal(10, 1)),
        (DataType::Utf8, Value::Utf8("1")),
    ] {
        let hash = r#"{"method":"hash","key":"pii"}"#;
        let (shown, _) = masked(hash, data_type, &[Some(one), None]);
        assert_eq!(shown, [Some(ONE.to_owned()), None], "{data_type}");
    }
}

#[test]
fn hash_vectors() {
    let hash = |options: &str| format!(r#"{{"method":"hash","key":"pii"{options}}}"#);
    assert_eq!(
        text(&hash(""), &["anna@example.com", "", "Zo\u{eb}"]),
        [
            "536aa80207d41ca640fa8a7b73314b1ba40fb7b9e5cbb6a131c0436ac116fb86",
            "7d58fb5466991e3b9dd16fc15ce181adac98a98af458737289365f11914d3bb3",
            "9bb3ff5bd02cc64bda285bc0b95c88a331560eb6d7349d1a0b904285176065d4",
        ]
    );
    assert_eq!(text(&hash(r#","context":"crm""#), &["1"]), [ONE_IN_CRM]);
    assert_eq!(text(&hash(r#","length":17"#), &["1"]), [&ONE[..17]]);
    for (data_type, value, expected) in [
        (
            DataType::Date,
            Value::Date(19_782),
            "aa7e1dc5b6a455e568a2a021d72866ca54ecd6516c582c27c2c2004926103a1f",
        ),
        (
            DataType::Timestamp,
            Value::Timestamp(0),
            "1d01ec669c67537d572d58761c0ca1067516435efc33e7f3819c2a0b91dcad31",
        ),
        (
            DataType::Binary,
            Value::Binary(&[0, 0xab]),
            "ea27305193007a075ee39abb2ad8f397800acef9206e463986b9e2775375e037",
        ),
        (
            DataType::Decimal {
                precision: 19,
                scale: 4,
            },
            Value::Decimal(-5_000, 4),
            "7c15607d349940f552cb5af39866c87596b0dec1bc51b672522923723544b988",
        ),
    ] {
        let (shown, _) = masked(&hash(""), data_type, &[Some(value)]);
        assert_eq!(shown, [Some(expected.to_owned())], "{data_type}");
    }
}

/// Field case 26, seen from outside: what a declared normalisation makes equal is equal, all else is not.
#[test]
fn a_declared_normalisation_decides_what_is_equal() {
    let all = r#"{"method":"hash","key":"pii","normalize":["trim","lower","nfc"]}"#;
    let zoe = "964d0abf3c5f1be00327b5254f2771b01641d9c2b5d858311236c30aa571c652";
    assert_eq!(
        text(all, &["zo\u{eb}", "Zoe\u{308}", " ZO\u{cb}\u{a0}", "ZOE\u{308}\r\n"]),
        [zoe; 4]
    );
    let i_dot = "9bf95ae60f65f7117e39a0c3393cb7666356ad21d7c3afc67d02e8f7dd056f15";
    assert_eq!(text(all, &["\u{130}", "I\u{307}", "i\u{307}"]), [i_dot; 3]);
    let strasse = "0a3e03439b41fa41b0d4fc309945a81c8c91f18d55042cb23f32d2b70a799007";
    let answers = text(all, &["Stra\u{df}e", "STRA\u{1e9e}E", "STRASSE"]);
    assert_eq!(answers[..2], [strasse; 2]);
    assert_ne!(answers[2], strasse);
    let none = r#"{"method":"hash","key":"pii"}"#;
    let raw = text(none, &["zo\u{eb}", "zoe\u{308}", "Zo\u{eb}", " zo\u{eb}"]);
    assert_eq!(raw[0], zoe);
    assert!(raw[1..].iter().all(|other| other != zoe));
}

#[test]
fn email_vectors() {
    let email = r#"{"method":"email","key":"pii"}"#;
    assert_eq!(
        text(
            email,
            &[
                "anna@example.com",
                " ANNA@Example.COM\t",
                "Zoe\u{308}@example.com",
                "Not An Address ",
                "1@example.com",
                "1",
            ]
        ),
        [
            "a3f6d1eefa6b7236@example.com",
            "a3f6d1eefa6b7236@example.com",
            "964d0abf3c5f1be0@example.com",
            "dd35a4a8a6aafd3e",
            "69b5658531ddb7fa@example.com",
            "69b5658531ddb7fa",
        ]
    );
    let (shown, _) = masked(email, DataType::Utf8, &[None, Some(Value::Utf8(""))]);
    assert_eq!(shown, [None, Some("7d58fb5466991e3b".to_owned())]);
}
