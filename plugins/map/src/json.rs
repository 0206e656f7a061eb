//! `json`: one field of a JSON text. The text is read once in full, so that an invalid one is always found, and nothing
//! but the field is kept.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use sluice_plugin::{ApplyError, Column, Utf8Builder, Utf8View};

use crate::rejects::{Rejects, malformed};

/// The code of a text that is not JSON.
const INVALID: &str = "json-invalid";

/// The way to a field: `$.address.lines[0]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Name(String),
    Index(usize),
}

impl JsonPath {
    /// Reads a path as SQL Server's JSON functions have it: `$`, then `.name`, `."any name"` or `[index]`, from 0.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected a path such as `$.address.city`, `$.lines[0]` or `$.\"first name\"`".to_owned();
        let mut rest = text.strip_prefix('$').ok_or_else(expected)?;
        let mut segments = Vec::new();
        while !rest.is_empty() {
            let (segment, after) = segment(rest).ok_or_else(expected)?;
            segments.push(segment);
            rest = after;
        }
        Ok(Self(segments))
    }

    /// The field of each text as text: a string without its quotes, anything else as it is written. NULL where there is
    /// no such field, or it is `null`. A text that is not JSON rejects its row and is NULL.
    pub(crate) fn apply(&self, column: &Column, rows: usize, rejects: &mut Rejects<'_>) -> Result<Column, ApplyError> {
        let view = Utf8View::new(column, rows).ok_or_else(malformed)?;
        let mut to = Utf8Builder::with_capacity(rows, 0);
        for (row, text) in view.iter().enumerate() {
            let found = text.map_or(Ok(None), |text| self.find(text));
            let pushed = found.and_then(|found| match found {
                Some(field) => push(field, &mut to),
                None => {
                    to.push_null();
                    Ok(())
                }
            });
            if pushed.is_err() {
                rejects.push(row, INVALID);
                to.push_null();
            }
        }
        to.finish()
    }

    /// The field as it is written.
    fn find<'a>(&self, text: &'a str) -> Result<Option<&'a str>, serde_json::Error> {
        let Some((first, others)) = self.0.split_first() else {
            return serde_json::from_str::<&RawValue>(text).map(|whole| Some(whole.get()));
        };
        let mut found = first.find(text)?;
        for segment in others {
            match found {
                Some(text) => found = segment.find(text)?,
                None => break,
            }
        }
        Ok(found)
    }
}

/// One segment, and what follows it.
fn segment(text: &str) -> Option<(Segment, &str)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (digits, rest) = rest.split_once(']')?;
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        return plain.then_some((Segment::Index(digits.parse().ok()?), rest));
    }
    let rest = text.strip_prefix('.')?;
    if rest.starts_with('"') {
        let mut names = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let name = names.next()?.ok()?;
        let end = names.byte_offset();
        return Some((Segment::Name(name), rest.get(end..)?));
    }
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let odd = |c: char| c.is_whitespace() || c.is_control() || "\"]$*?@".contains(c);
    (!name.is_empty() && !name.contains(odd)).then(|| (Segment::Name(name.to_owned()), rest))
}

/// Adds a row with a field: the text of a string, or what is written.
fn push(field: &str, to: &mut Utf8Builder) -> Result<(), serde_json::Error> {
    if field == "null" {
        to.push_null();
    } else if field.starts_with('"') {
        let mut reader = serde_json::Deserializer::from_str(field);
        reader.deserialize_str(PushText(to))?;
    } else {
        to.push(field);
    }
    Ok(())
}

impl Segment {
    /// The part of this JSON text; an error where the text, or any part of it, is not JSON.
    fn find<'a>(&self, text: &'a str) -> Result<Option<&'a str>, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let found = match (self, text.trim_start().as_bytes().first()) {
            (Self::Name(name), Some(b'{')) => reader.deserialize_map(FindName(name))?,
            (Self::Index(index), Some(b'[')) => reader.deserialize_seq(FindIndex(*index))?,
            _ => {
                reader.deserialize_ignored_any(IgnoredAny)?;
                None
            }
        };
        reader.end()?;
        Ok(found.map(RawValue::get))
    }
}

/// The first value of this name; the others are read and left.
struct FindName<'n>(&'n str);

impl<'de> Visitor<'de> for FindName<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(IsName(self.0))? {
            if is_it && found.is_none() {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

struct FindIndex(usize);

impl<'de> Visitor<'de> for FindIndex {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        for _ in 0..self.0 {
            if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let found = seq.next_element()?;
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// Whether a key is this name.
struct IsName<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for IsName<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// Adds a row with this text.
struct PushText<'b>(&'b mut Utf8Builder);

impl Visitor<'_> for PushText<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.push(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sluice_plugin::testing::column;
    use sluice_plugin::{DataType, Value};

    use super::*;

    /// The field of one text; `Err` where it is rejected.
    fn field(path: &str, text: &str) -> Result<Option<String>, String> {
        let mut list = Vec::new();
        let input = column(DataType::Utf8, &[Some(Value::Utf8(text)), None]);
        let path = JsonPath::parse(path).unwrap();
        let output = path.apply(&input, 2, &mut Rejects::new("c", &mut list)).unwrap();
        let view = Utf8View::new(&output, 2).unwrap();
        assert_eq!(view.get(1), None);
        match list.as_slice() {
            [] => Ok(view.get(0).map(str::to_owned)),
            [reject] => {
                assert_eq!((reject.row, view.get(0)), (0, None));
                Err(reject.code.clone())
            }
            _ => panic!("{list:?}"),
        }
    }

    #[test]
    fn paths() {
        let name = |name: &str| Segment::Name(name.to_owned());
        for (text, segments) in [
            ("$", vec![]),
            ("$.a", vec![name("a")]),
            (
                "$.a_1.ä-b[10][0].c",
                vec![
                    name("a_1"),
                    name("ä-b"),
                    Segment::Index(10),
                    Segment::Index(0),
                    name("c"),
                ],
            ),
            (
                r#"$[1]."a.b \"c\" ]".d"#,
                vec![Segment::Index(1), name(r#"a.b "c" ]"#), name("d")],
            ),
            (r#"$."""#, vec![name("")]),
        ] {
            assert_eq!(JsonPath::parse(text), Ok(JsonPath(segments)), "{text}");
        }
        for text in [
            "",
            "a",
            "$a",
            "$.",
            "$..a",
            "$.a.",
            "$[",
            "$[]",
            "$[a]",
            "$[-1]",
            "$[+1]",
            "$[1",
            "$.a b",
            "$.*",
            "$[99999999999999999999999]",
            "$.\"a",
            "$.\"a\"b",
            "lax $.a",
            "$.a]",
        ] {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fields_as_text() {
        let ok = |text: &str| Ok(Some(text.to_owned()));
        let text = r#" { "s": "a\u00e4\n\"", "n" : -1.50e2, "t":true, "z":null, "o": {"x": [1, {"y":"z"}]}, "big":12345678901234567890123456789.10 } "#;
        for (path, expected) in [
            ("$.s", ok("aä\n\"")),
            ("$.n", ok("-1.50e2")),
            ("$.t", ok("true")),
            ("$.z", Ok(None)),
            ("$.z.y", Ok(None)),
            ("$.o", ok(r#"{"x": [1, {"y":"z"}]}"#)),
            ("$.o.x[0]", ok("1")),
            ("$.o.x[1].y", ok("z")),
            ("$.o.x[2]", Ok(None)),
            ("$.o.x.y", Ok(None)),
            ("$.o[0]", Ok(None)),
            ("$.s.a", Ok(None)),
            ("$.S", Ok(None)),
            ("$.big", ok("12345678901234567890123456789.10")),
        ] {
            assert_eq!(field(path, text), expected, "{path}");
        }
        assert_eq!(field("$", " [1, 2] "), ok("[1, 2]"));
        assert_eq!(field("$", "null"), Ok(None));
        assert_eq!(field("$", "\"x\""), ok("x"));
        assert_eq!(field("$.a", "1e999"), Ok(None));
        // SQL Server's JSON_VALUE takes the first, too.
        assert_eq!(field("$.a", r#"{"a":1,"a":2}"#), ok("1"));
        assert_eq!(field("$.a", r#"{"\u0061":1}"#), ok("1"));
        assert_eq!(field("$.a", r#"{"a":""}"#), ok(""));
    }

    #[test]
    fn what_is_not_json_is_rejected_wherever_the_mistake_is() {
        for text in [
            "",
            " ",
            "x",
            "{",
            r#"{"a":1"#,
            r#"{"a":1}}"#,
            r#"{"a":1,}"#,
            r#"{"a":1,"b":tru}"#,
            r#"{'a':1}"#,
            r#"{"a":01}"#,
            r#"{"a":1} x"#,
            r#"{"a":"\ud800"}"#,
            "{\"a\":\"\n\"}",
            "\u{feff}{}",
            "NaN",
            "[1 2]",
        ] {
            assert_eq!(field("$.a", text), Err("json-invalid".to_owned()), "{text}");
            if !text.contains("ud800") {
                assert_eq!(field("$[0]", text), Err("json-invalid".to_owned()), "{text}");
                assert_eq!(field("$", text), Err("json-invalid".to_owned()), "{text}");
            }
        }
        let deep = format!("{{\"b\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(field("$.a", &deep), Ok(None));
    }
}
