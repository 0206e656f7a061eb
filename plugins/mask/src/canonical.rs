//! The one canonical text of a value, over which keyed hashes are made: equal numbers have the same text whether they are
//! bits, integers or decimals, and so have a day and its midnight. Text is taken as it is, after the declared
//! normalisation; SQL Server's collations, under which more texts are equal, are not followed.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::Deserialize;
use sluice_plugin::text::{DAY_US, write_date, write_decimal_short, write_timestamp};
use sluice_plugin::{ApplyError, Batch, Column, DataType, Utf8Builder, Utf8View, Value};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// A step of the declared normalisation of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Normalize {
    /// Without outer white space (the Unicode property).
    Trim,
    /// Lower case (Unicode's full mapping, of no language).
    Lower,
    /// Unicode normalisation form C.
    Nfc,
}

/// Applies the steps in their order. Text that they do not change is not copied.
pub(crate) fn normalize<'a>(text: &'a str, steps: &[Normalize]) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for step in steps {
        match step {
            Normalize::Trim => {
                if let Cow::Borrowed(borrowed) = text {
                    text = Cow::Borrowed(borrowed.trim());
                } else if text.trim().len() < text.len() {
                    text = Cow::Owned(text.trim().to_owned());
                }
            }
            Normalize::Lower => {
                if !text.is_ascii() {
                    text = Cow::Owned(text.to_lowercase());
                } else if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
                    text = Cow::Owned(text.to_ascii_lowercase());
                }
            }
            Normalize::Nfc => {
                if !text.is_ascii() && is_nfc_quick(text.chars()) != IsNormalized::Yes {
                    text = Cow::Owned(text.nfc().collect());
                }
            }
        }
    }
    text
}

/// The canonical texts of a column, NULL where it is NULL.
pub(crate) fn column(
    batch: &Batch,
    read: usize,
    data_type: DataType,
    steps: &[Normalize],
) -> Result<Column, ApplyError> {
    let rows = batch.rows as usize;
    if data_type == DataType::Utf8 {
        let texts = batch.utf8(read)?;
        if steps.is_empty() {
            return Ok(batch.columns[read].clone());
        }
        if texts.is_ascii() {
            return ascii(&batch.columns[read], &texts, steps);
        }
    }
    let view = batch.any(read, data_type)?;
    let mut texts = Utf8Builder::with_capacity(rows, batch.columns[read].values.len());
    for row in 0..rows {
        let Some(value) = view.get(row) else {
            texts.push_null();
            continue;
        };
        match write(&mut texts, value, steps) {
            Ok(()) => texts.end_row(),
            Err(fmt::Error) => {
                return Err(ApplyError::new("internal", "a text could not be written"));
            }
        }
    }
    texts.finish()
}

/// The normalised texts of a column of ASCII. Of ASCII, no step changes what another one sees, and its form C is itself: so all
/// texts are brought to lower case at once, and only those are moved that have white space around them.
fn ascii(column: &Column, texts: &Utf8View<'_>, steps: &[Normalize]) -> Result<Column, ApplyError> {
    let mut lowered = column.clone();
    if steps.contains(&Normalize::Lower) {
        lowered.values.make_ascii_lowercase();
    }
    let is_blank = |byte: Option<&u8>| byte.is_some_and(|byte| char::from(*byte).is_whitespace());
    let has_blanks = |text: &str| is_blank(text.as_bytes().first()) || is_blank(text.as_bytes().last());
    if !steps.contains(&Normalize::Trim) || !texts.iter().flatten().any(has_blanks) {
        return Ok(lowered);
    }
    let texts = Utf8View::new(&lowered, texts.len())
        .ok_or_else(|| ApplyError::new("internal", "ASCII in lower case is no text"))?;
    let mut trimmed = Utf8Builder::with_capacity(texts.len(), texts.text().len());
    for text in texts.iter() {
        trimmed.push_option(text.map(str::trim));
    }
    trimmed.finish()
}

fn write(to: &mut Utf8Builder, value: Value<'_>, steps: &[Normalize]) -> fmt::Result {
    match value {
        // As SQL Server compares a bit with a number.
        Value::Boolean(value) => to.append(if value { "1" } else { "0" }),
        Value::Int(value) => write!(to, "{value}")?,
        // A negative zero equals zero.
        Value::Float32(value) => write!(to, "{}", if value == 0.0 { 0.0 } else { value })?,
        Value::Float64(value) => write!(to, "{}", if value == 0.0 { 0.0 } else { value })?,
        Value::Decimal(unscaled, scale) => write_decimal_short(to, unscaled, scale)?,
        Value::Date(days) => {
            if !write_date(to, days)? {
                write!(to, "day {days}")?;
            }
        }
        // Midnight without a zone equals the date.
        Value::TimestampNtz(micros) if micros.rem_euclid(DAY_US) == 0 => {
            let days = i32::try_from(micros / DAY_US);
            if !matches!(days, Ok(days) if write_date(to, days)?) {
                write!(to, "microsecond {micros}")?;
            }
        }
        Value::TimestampNtz(micros) => {
            if !write_timestamp(to, micros)? {
                write!(to, "microsecond {micros}")?;
            }
        }
        Value::Timestamp(micros) => {
            if !write_timestamp(to, micros)? {
                write!(to, "microsecond {micros}")?;
            }
            to.append("Z");
        }
        Value::Utf8(text) if text.is_ascii() => {
            // Of ASCII, no step changes what another one sees, and its form C is itself: it goes straight into the column.
            let text = match steps.contains(&Normalize::Trim) {
                true => text.trim(),
                false => text,
            };
            match steps.contains(&Normalize::Lower) {
                true => to.append_ascii_lowercase(text),
                false => to.append(text),
            }
        }
        Value::Utf8(text) => to.append(&normalize(text, steps)),
        Value::Binary(bytes) => {
            to.append("0x");
            to.append_hex(bytes, usize::MAX);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Normalize::{Lower, Nfc, Trim};
    use super::*;

    fn text(value: Value<'_>) -> String {
        normalized(value, &[])
    }

    fn normalized(value: Value<'_>, steps: &[Normalize]) -> String {
        let mut builder = Utf8Builder::with_capacity(1, 0);
        write(&mut builder, value, steps).unwrap();
        builder.end_row();
        String::from_utf8(builder.finish().unwrap().values).unwrap()
    }

    #[test]
    fn equal_values_of_different_types_have_one_text() {
        let ones = [
            Value::Boolean(true),
            Value::Int(1),
            Value::Decimal(1, 0),
            Value::Decimal(10_000, 4),
            Value::Float32(1.0),
            Value::Float64(1.0),
            Value::Utf8("1"),
        ];
        for one in ones {
            assert_eq!(text(one), "1", "{one:?}");
        }
        for zero in [
            Value::Boolean(false),
            Value::Int(0),
            Value::Decimal(0, 38),
            Value::Float32(-0.0),
            Value::Float64(-0.0),
        ] {
            assert_eq!(text(zero), "0", "{zero:?}");
        }
        for half in [Value::Decimal(-50, 2), Value::Float32(-0.5), Value::Float64(-0.5)] {
            assert_eq!(text(half), "-0.5", "{half:?}");
        }
        assert_eq!(text(Value::Date(19_782)), "2024-02-29");
        assert_eq!(text(Value::TimestampNtz(19_782 * DAY_US)), "2024-02-29");
    }

    #[test]
    fn texts_of_the_other_values() {
        for (value, expected) in [
            (Value::Int(i64::MIN), "-9223372036854775808"),
            (Value::Float64(1e21), "1000000000000000000000"),
            (Value::Float64(1e-7), "0.0000001"),
            (Value::Float64(0.1), "0.1"),
            (Value::Float32(0.1), "0.1"),
            (Value::Timestamp(0), "1970-01-01T00:00:00Z"),
            (Value::TimestampNtz(-1), "1969-12-31T23:59:59.999999"),
            (Value::TimestampNtz(1_500_000), "1970-01-01T00:00:01.5"),
            (Value::TimestampNtz(-DAY_US), "1969-12-31"),
            (Value::Date(i32::MAX), "day 2147483647"),
            (Value::Binary(&[0, 0xab]), "0x00ab"),
            (Value::Binary(&[]), "0x"),
            (Value::Utf8(" 1.0 "), " 1.0 "),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    /// Field case 26. The expected texts were made with Python's `unicodedata` and `str`.
    #[test]
    fn normalisation_vectors() {
        let vectors: [(&str, &[Normalize], &str); 16] = [
            ("Zoe\u{308}", &[], "Zoe\u{308}"),
            ("Zoe\u{308}", &[Nfc], "Zo\u{eb}"),
            ("Zo\u{eb}", &[Nfc], "Zo\u{eb}"),
            ("\u{130}", &[Lower], "i\u{307}"),
            ("\u{130}", &[Lower, Nfc], "i\u{307}"),
            ("I\u{307}", &[Nfc], "\u{130}"),
            ("I\u{307}", &[Nfc, Lower], "i\u{307}"),
            ("\u{131}", &[Lower], "\u{131}"),
            ("Stra\u{df}e", &[Lower], "stra\u{df}e"),
            ("STRA\u{1e9e}E", &[Lower], "stra\u{df}e"),
            ("STRASSE", &[Lower], "strasse"),
            ("\u{39f}\u{394}\u{39f}\u{3a3}", &[Lower], "\u{3bf}\u{3b4}\u{3bf}\u{3c2}"),
            (" \t\u{a0}\u{3000}Anna\r\n", &[Trim, Lower], "anna"),
            (" A\u{200b} ", &[Trim, Lower], "a\u{200b}"),
            ("\u{212b}", &[Nfc], "\u{c5}"),
            ("\u{fb01}", &[Nfc, Lower], "\u{fb01}"),
        ];
        for (text, steps, expected) in vectors {
            assert_eq!(normalize(text, steps), expected, "{text:?} {steps:?}");
        }
    }

    #[test]
    fn what_goes_into_a_column_is_the_normalised_text_whatever_its_characters() {
        let steps: [&[Normalize]; 9] = [
            &[],
            &[Trim],
            &[Lower],
            &[Nfc],
            &[Trim, Lower],
            &[Lower, Trim],
            &[Trim, Nfc],
            &[Nfc, Lower, Trim],
            &[Trim, Lower, Nfc],
        ];
        let each = (0..=u8::MAX).map(|byte| format!("{0} B{0}c {0}", char::from(byte)));
        let some = [
            "",
            " ",
            " Anna@Example.COM\r\n",
            "\u{a0}A\u{a0}",
            " \u{c4} ",
            "Zoe\u{308} ",
            "\u{3000}",
        ];
        for text in each.chain(some.map(str::to_owned)) {
            for steps in steps {
                let expected = normalize(&text, steps);
                assert_eq!(normalized(Value::Utf8(&text), steps), expected, "{text:?} {steps:?}");
            }
        }
    }

    #[test]
    fn a_column_has_the_texts_that_its_values_have_alone() {
        let columns: [&[Option<&str>]; 5] = [
            &[Some("Anna"), None, Some(""), Some("b c")],
            &[Some(" Anna"), None, Some(" "), Some("B\u{b}"), Some("\u{1f}x\r\n")],
            &[None, Some(" ")],
            &[Some(" Anna"), Some("Zoe\u{308} "), None],
            &[],
        ];
        let steps: [&[Normalize]; 5] = [&[], &[Trim], &[Lower], &[Trim, Lower, Nfc], &[Lower, Trim]];
        for texts in columns {
            let mut builder = Utf8Builder::with_capacity(texts.len(), 0);
            texts.iter().for_each(|text| builder.push_option(*text));
            let batch = Batch {
                rows: texts.len() as u32,
                operations: vec![2; texts.len()],
                columns: vec![builder.finish().unwrap()],
            };
            for steps in steps {
                let made = column(&batch, 0, DataType::Utf8, steps).unwrap();
                let made = Utf8View::new(&made, texts.len()).unwrap();
                let expected = texts.iter().map(|text| text.map(|text| normalize(text, steps)));
                assert_eq!(
                    made.iter().map(|text| text.map(Cow::Borrowed)).collect::<Vec<_>>(),
                    expected.collect::<Vec<_>>(),
                    "{texts:?} {steps:?}"
                );
            }
        }
    }

    #[test]
    fn text_that_does_not_change_is_not_copied() {
        let steps = [Trim, Lower, Nfc];
        assert!(matches!(normalize(" anna@example.com", &steps), Cow::Borrowed(_)));
        assert_eq!(normalize("", &steps), "");
        assert_eq!(normalize(" \n ", &steps), "");
    }
}
