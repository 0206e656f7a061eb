//! Functions of text. Positions and lengths count UTF-16 units as SQL Server does, but a pair is never cut in two.

use super::Func;
use crate::{
    error::{SqlResult, sql_error},
    types::{Like, as_lone_unit, convert, fold, lone_unit, units_of},
    value::{Length, SqlType, Value},
};

const NVARCHAR: SqlType = SqlType::NVarChar(Length::Max);

pub(super) fn call(func: Func, args: &[(Value, SqlType)], result: SqlType) -> SqlResult<Value> {
    let text = |i: usize| -> SqlResult<String> {
        let Some((value, ty)) = args.get(i) else {
            return Ok(String::new());
        };
        match convert(
            value,
            *ty,
            if ty.is_bytes() {
                SqlType::VarChar(Length::Max)
            } else {
                NVARCHAR
            },
        )? {
            Value::Text(t) => Ok(t),
            _ => Ok(String::new()),
        }
    };
    let int = |i: usize| -> SqlResult<i64> {
        match args.get(i) {
            Some((value, ty)) => match convert(value, *ty, SqlType::BigInt)? {
                Value::Int(n) => Ok(n),
                _ => Ok(0),
            },
            None => Ok(0),
        }
    };
    let made = |t: String| convert(&Value::Text(t), NVARCHAR, result);
    Ok(match func {
        Func::Len => match &args[0].0 {
            Value::Bytes(bytes) => Value::Int(bytes.len() as i64),
            _ => Value::Int(units(text(0)?.trim_end_matches(' '))),
        },
        Func::DataLength => Value::Int(data_length(&args[0].0, args[0].1)),
        Func::Upper => made(text(0)?.chars().map(upper).collect())?,
        Func::Lower => made(text(0)?.chars().map(fold).collect())?,
        Func::Substring => {
            let (start, length) = (int(1)?, int(2)?);
            if length < 0 {
                return Err(bad_length("substring"));
            }
            let end = start.saturating_add(length).max(1);
            let start = start.max(1);
            if let Value::Bytes(bytes) = &args[0].0 {
                let at = (start - 1).min(bytes.len() as i64) as usize;
                let to = (end - 1).min(bytes.len() as i64) as usize;
                return Ok(Value::Bytes(bytes[at..to.max(at)].to_vec()));
            }
            made(slice(&text(0)?, start - 1, end - start))?
        }
        Func::Left | Func::Right => {
            let (t, n) = (text(0)?, int(1)?);
            if n < 0 {
                return Err(bad_length(if func == Func::Left { "left" } else { "right" }));
            }
            let from = if func == Func::Left { 0 } else { (units(&t) - n).max(0) };
            made(slice(&t, from, n))?
        }
        Func::LTrim => made(text(0)?.trim_start_matches(' ').to_owned())?,
        Func::RTrim => made(text(0)?.trim_end_matches(' ').to_owned())?,
        Func::Trim => made(text(0)?.trim_matches(' ').to_owned())?,
        Func::Reverse => made(text(0)?.chars().rev().collect())?,
        Func::Replace => made(replace(&text(0)?, &text(1)?, &text(2)?))?,
        Func::Replicate => match int(1)? {
            n if n < 0 => Value::Null,
            n => made(text(0)?.repeat(n.min(1 << 24) as usize))?,
        },
        Func::Space => match int(0)? {
            n if n < 0 => Value::Null,
            n => made(" ".repeat(n.min(8000) as usize))?,
        },
        Func::CharIndex => {
            let (needle, hay) = (folded(&text(0)?), folded(&text(1)?));
            let from = if args.len() > 2 {
                (int(2)? - 1).max(0) as usize
            } else {
                0
            };
            Value::Int(find(&hay, &needle, from).map_or(0, |at| at as i64 + 1))
        }
        Func::Concat => {
            let mut all = String::new();
            for i in 0..args.len() {
                all.push_str(&text(i)?);
            }
            made(all)?
        }
        Func::ConcatWs => {
            let mut parts = Vec::new();
            for (i, (value, _)) in args.iter().enumerate().skip(1) {
                if *value != Value::Null {
                    parts.push(text(i)?);
                }
            }
            made(parts.join(&text(0)?))?
        }
        Func::Char => match int(0)? {
            n @ 0..=255 => Value::Text(char::from(n as u8).to_string()),
            _ => Value::Null,
        },
        Func::NChar => match u32::try_from(int(0)?).ok() {
            Some(unit @ 0xD800..=0xDFFF) => Value::Text(lone_unit(unit as u16).to_string()),
            code => code
                .and_then(char::from_u32)
                .map_or(Value::Null, |c| Value::Text(c.to_string())),
        },
        Func::Ascii => text(0)?
            .chars()
            .next()
            .map_or(Value::Null, |c| Value::Int(i64::from((c as u32).min(255)))),
        Func::Unicode => text(0)?.chars().next().map_or(Value::Null, |c| {
            let unit = as_lone_unit(c).unwrap_or_else(|| c.encode_utf16(&mut [0; 2])[0]);
            Value::Int(i64::from(unit))
        }),
        Func::Stuff => {
            let (t, start, length) = (text(0)?, int(1)?, int(2)?);
            if start < 1 || length < 0 || start > units(&t) {
                return Ok(Value::Null);
            }
            let tail = slice(&t, start - 1 + length, i64::MAX);
            made(slice(&t, 0, start - 1) + &text(3)? + &tail)?
        }
        Func::Str => {
            let Value::Float(v) = convert(&args[0].0, args[0].1, SqlType::Float)? else {
                return Ok(Value::Null);
            };
            let width = if args.len() > 1 { int(1)? } else { 10 }.clamp(1, 8000) as usize;
            let decimals = int(2)?.clamp(0, 16) as usize;
            let shown = format!("{v:.decimals$}");
            made(if shown.len() > width {
                "*".repeat(width)
            } else {
                format!("{shown:>width$}")
            })?
        }
        Func::PatIndex => {
            let pattern = text(0)?;
            let t = text(1)?;
            let inner = pattern.strip_prefix('%');
            let like = Like::new(inner.unwrap_or(&pattern), None);
            let starts: Vec<usize> = t.char_indices().map(|(i, _)| i).collect();
            let hit = if inner.is_some() {
                starts.iter().position(|i| like.matches(&t[*i..]))
            } else {
                like.matches(&t).then_some(0)
            };
            Value::Int(hit.map_or(0, |i| i as i64 + 1))
        }
        Func::QuoteName => {
            let t = text(0)?;
            match if args.len() > 1 { text(1)? } else { "[".into() }.chars().next() {
                Some('[' | ']') => made(format!("[{}]", t.replace(']', "]]")))?,
                Some('\'') => made(format!("'{}'", t.replace('\'', "''")))?,
                Some('"') => made(format!("\"{}\"", t.replace('"', "\"\"")))?,
                _ => Value::Null,
            }
        }
        Func::IsNumeric => {
            let ok = args[0].0 != Value::Null
                && (convert(&args[0].0, args[0].1, SqlType::Float).is_ok() && !text(0)?.trim().is_empty());
            Value::Int(i64::from(ok))
        }
        Func::IsDate => {
            let ok = args[0].0 != Value::Null && convert(&args[0].0, args[0].1, SqlType::DateTime).is_ok();
            Value::Int(i64::from(ok))
        }
        _ => Value::Null,
    })
}

fn bad_length(name: &str) -> crate::result::SqlError {
    sql_error(
        537,
        16,
        format!("Invalid length parameter passed to the {name} function."),
    )
}

fn upper(c: char) -> char {
    let mut up = c.to_uppercase();
    match (up.next(), up.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

fn folded(text: &str) -> Vec<char> {
    text.chars().map(fold).collect()
}

fn find(hay: &[char], needle: &[char], from: usize) -> Option<usize> {
    if needle.is_empty() || from >= hay.len() {
        return None;
    }
    (from..=hay.len().checked_sub(needle.len())?).find(|i| hay[*i..].starts_with(needle))
}

/// Replaces without case, as the collation has it.
fn replace(text: &str, old: &str, new: &str) -> String {
    let (chars, hay, needle) = (text.chars().collect::<Vec<_>>(), folded(text), folded(old));
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(hit) = find(&hay, &needle, at) {
        out.extend(&chars[at..hit]);
        out.push_str(new);
        at = hit + needle.len();
    }
    out.extend(&chars[at..]);
    out
}

fn units(text: &str) -> i64 {
    if text.is_ascii() {
        text.len() as i64
    } else {
        text.chars().map(units_of).sum::<usize>() as i64
    }
}

fn slice(text: &str, from: i64, length: i64) -> String {
    let to = from.saturating_add(length);
    let mut at = 0_i64;
    text.chars()
        .filter(|c| {
            let here = at;
            at += units_of(*c) as i64;
            here >= from && here < to
        })
        .collect()
}

fn data_length(value: &Value, ty: SqlType) -> i64 {
    match (value, ty) {
        (Value::Text(t), ty) if ty.is_national() => 2 * units(t),
        (Value::Text(t), _) => t.chars().count() as i64,
        (Value::Bytes(b), _) => b.len() as i64,
        (_, SqlType::Bit | SqlType::TinyInt) => 1,
        (_, SqlType::SmallInt) => 2,
        (_, SqlType::Int | SqlType::Real | SqlType::SmallMoney | SqlType::SmallDateTime) => 4,
        (_, SqlType::Date) => 3,
        (_, SqlType::UniqueIdentifier) => 16,
        (_, SqlType::Decimal { precision, .. }) => match precision {
            0..=9 => 5,
            10..=19 => 9,
            20..=28 => 13,
            _ => 17,
        },
        (_, SqlType::Time(n)) => 3 + i64::from(n > 2) + i64::from(n > 4),
        (_, SqlType::DateTime2(n)) => 6 + i64::from(n > 2) + i64::from(n > 4),
        (_, SqlType::DateTimeOffset(n)) => 8 + i64::from(n > 2) + i64::from(n > 4),
        _ => 8,
    }
}
