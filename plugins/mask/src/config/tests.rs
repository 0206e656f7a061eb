use super::*;

fn method(json: &str) -> Result<Method, String> {
    let config = format!(r#"{{"columns":{{"c":{json}}}}}"#);
    match Config::read(&config) {
        Ok(config) => Ok(config.columns[0].1.clone()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_method_can_be_a_word_or_an_object() {
    assert_eq!(method(r#""null""#), Ok(Method::Null));
    assert_eq!(method(r#"{"method":"null"}"#), Ok(Method::Null));
    let keep = Method::Keep {
        first: 2,
        last: 0,
        mask: '*',
    };
    assert_eq!(method(r#"{"method":"keep","first":2}"#), Ok(keep));
    let hash = method(r#"{"method":"hash","key":"pii","normalize":["trim","nfc"]}"#);
    let expected = HashOptions {
        key: "pii".to_owned(),
        context: String::new(),
        length: 64,
        normalize: vec![Normalize::Trim, Normalize::Nfc],
    };
    assert_eq!(hash, Ok(Method::Hash(expected)));
}

#[test]
fn mistakes_are_answered_with_what_was_meant() {
    for (json, said) in [
        (r#""nul""#, "columns.c: unknown method `nul`, did you mean `null`?"),
        (r#""zzz""#, "methods are pass, drop"),
        (r#"{"metod":"null"}"#, "unknown key `metod`, did you mean `method`?"),
        (r#"{"first":1}"#, "`method` is missing"),
        (r#"{"method":1}"#, "columns.c.method: expected"),
        ("1", "columns.c: expected the name"),
        (r#"{"method":"null","first":1}"#, "columns.c: unknown key `first`"),
        (r#"{"method":"keep","frist":1}"#, "did you mean `first`?"),
        (r#""keep""#, "needs `first` or `last`"),
        (r#"{"method":"keep","first":-1}"#, "columns.c.first: "),
        (r#"{"method":"keep","first":1,"mask":"ab"}"#, "columns.c.mask: "),
        (r#"{"method":"keep","first":1,"mask":"\n"}"#, "columns.c.mask: "),
        (r#""constant""#, "missing field `value`"),
        (r#""hash""#, "missing field `key`"),
        (
            r#"{"method":"hash","key":"k","length":8}"#,
            "columns.c.length: expected 16 to 64",
        ),
        (r#"{"method":"hash","key":"k","length":65}"#, "expected 16 to 64"),
        (
            r#"{"method":"hash","key":"k","normalize":["trim","trim"]}"#,
            "normalize[1]: it stands",
        ),
        (
            r#"{"method":"hash","key":"k","normalize":["lowr"]}"#,
            "did you mean `lower`?",
        ),
        (r#""email""#, "missing field `key`"),
        (r#"{"method":"date","truncate":"yaer"}"#, "did you mean `year`?"),
        (r#""tokn""#, "did you mean `token`?"),
        (
            r#"{"method":"token","key":"k","length":12}"#,
            "columns.c.length: expected 13 to 51",
        ),
        (
            r#"{"method":"token","key":"k","length":52}"#,
            "columns.c.length: expected 13 to 51",
        ),
        (
            r#"{"method":"token","key":"k","prefix":"\n"}"#,
            "columns.c.prefix: expected",
        ),
        (
            r#"{"method":"token","key":"k","context":"sluice mask noise:"}"#,
            "columns.c.context: contexts",
        ),
        (
            r#"{"method":"token","key":"k","normalize":["nfc","nfc"]}"#,
            "columns.c.normalize[1]: it stands",
        ),
        (r#"{"method":"date_shift","key":"k","days":7}"#, "missing field `by`"),
        (
            r#"{"method":"date_shift","key":"k","days":0,"by":"id"}"#,
            "columns.c.days: expected 1 to 36525",
        ),
        (r#"{"method":"bucket"}"#, "needs either `width` or `edges`"),
        (r#"{"method":"bucket","widht":1}"#, "did you mean `width`?"),
        (r#"{"method":"bucket","width":1,"edges":[1]}"#, "needs either"),
        (
            r#"{"method":"bucket","start":1,"edges":[1]}"#,
            "columns.c.start: it goes with `width`",
        ),
        (r#"{"method":"bucket","edges":[]}"#, "columns.c.edges: expected"),
        (
            r#"{"method":"bucket","width":1,"result":"lowr"}"#,
            "did you mean `lower`?",
        ),
        (r#"{"method":"noise","key":"k"}"#, "needs either `within` or `percent`"),
        (
            r#"{"method":"noise","key":"k","within":1,"percent":1}"#,
            "needs either `within` or `percent`",
        ),
        (
            r#"{"method":"noise","key":"k","percent":1,"normalize":["trim"]}"#,
            "columns.c.normalize: it goes with `by`",
        ),
        (
            r#"{"method":"noise","key":"k","percent":0}"#,
            "columns.c.percent: expected",
        ),
        (
            r#"{"method":"noise","key":"k","percent":100.5}"#,
            "columns.c.percent: expected",
        ),
        (
            r#"{"method":"fpe","key":"k"}"#,
            "needs either `alphabet` or `characters`",
        ),
        (
            r#"{"method":"fpe","key":"k","alphabet":"digit"}"#,
            "did you mean `digits`?",
        ),
        (
            r#"{"method":"fpe","key":"k","alphabet":"digits","others":"kep"}"#,
            "did you mean `keep`?",
        ),
        (
            r#"{"method":"fpe","key":"k","alphabet":"digits","characters":"01"}"#,
            "needs either",
        ),
        (
            r#"{"method":"fpe","key":"k","characters":"010"}"#,
            "columns.c.characters: expected 2 to 65536",
        ),
        (
            r#"{"method":"fpe","key":"k","characters":"0"}"#,
            "columns.c.characters: expected 2 to 65536",
        ),
        (
            r#"{"method":"pseudonym","key":"k","values":["a"]}"#,
            "columns.c.values: expected two",
        ),
        (
            r#"{"method":"pseudonym","key":"k","values":["a","b","a"]}"#,
            "columns.c.values[2]: it stands",
        ),
        (r#"{"method":"redact"}"#, "needs `patterns` or `expressions`"),
        (r#"{"method":"redact","patterns":["emial"]}"#, "did you mean `email`?"),
        (
            r#"{"method":"redact","patterns":["ip","ip"]}"#,
            "columns.c.patterns[1]: it stands",
        ),
        (
            r#"{"method":"redact","expressions":["a","("]}"#,
            "columns.c.expressions[1]: ",
        ),
        (
            r#"{"method":"redact","expressions":["a*"]}"#,
            "columns.c.expressions[0]: it matches the empty",
        ),
        (
            r#"{"method":"redact","patterns":["ip"],"prefix":"p"}"#,
            "columns.c.prefix: it goes with `key`",
        ),
        (
            r#"{"method":"redact","patterns":["ip"],"key":"k","replacement":"x"}"#,
            "columns.c.replacement: ",
        ),
        (
            r#"{"method":"redact","patterns":["ip"],"key":"k","length":1}"#,
            "columns.c.length: expected 13",
        ),
    ] {
        let answer = method(json).unwrap_err();
        assert!(answer.contains(said), "{json}: {answer}");
    }
    let error = Config::read(r#"{"unlist":"drop"}"#).unwrap_err().to_string();
    assert_eq!(error, "unknown key `unlist`, did you mean `unlisted`?");
}

#[test]
fn a_constant_can_be_null_but_not_forgotten() {
    let null = Method::Constant { value: Value::Null };
    assert_eq!(method(r#"{"method":"constant","value":null}"#), Ok(null));
    assert!(method(r#"{"method":"constant"}"#).is_err());
}

#[test]
fn fail_is_the_default() {
    let config = Config::read("{}").unwrap();
    assert_eq!(config.unlisted, Unlisted::Fail);
    assert!(config.columns.is_empty());
}
