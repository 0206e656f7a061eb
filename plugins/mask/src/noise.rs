//! `noise`: numbers moved up or down by a keyed amount.

use serde::Deserialize;
use serde_json::Value;
use sluice_plugin::text::write_decimal_short;
use sluice_plugin::{
    ApplyError, Batch, Column, DataType, FixedBuilder, FixedView, Keyed, Native, OpenError, Utf8Builder, Utf8View,
};

use crate::canonical::{self, Normalize};
use crate::date_shift::BY_IS_NULL;
use crate::keyed::{By, digests, number, rows, secret_context, step};
use crate::numbers::{exact, fits, scale};
use crate::rejects::Rejects;

const OUT_OF_RANGE: &str = "noise-out-of-range";
const TOO_SMALL: &str = "noise-too-small";
/// Digits after the point of a percentage.
const PERCENT_SCALE: u8 = 6;
const HUNDRED_PERCENT: i128 = 100_000_000;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    pub key: String,
    #[serde(default)]
    pub context: String,
    pub within: Option<Value>,
    pub percent: Option<Value>,
    pub by: Option<String>,
    #[serde(default)]
    pub normalize: Vec<Normalize>,
}

impl Options {
    pub(crate) fn check(&self, path: &str) -> Result<(), OpenError> {
        if self.by.is_none() && !self.normalize.is_empty() {
            return Err(OpenError::config(
                format!("{path}.normalize"),
                "it goes with `by`, which is missing",
            ));
        }
        match (&self.within, &self.percent) {
            (Some(_), None) => Ok(()),
            (None, Some(percent)) => match exact(percent, PERCENT_SCALE) {
                Some(1..=HUNDRED_PERCENT) => Ok(()),
                _ => Err(OpenError::config(
                    format!("{path}.percent"),
                    format!(
                        "expected a number above 0 and up to 100, with at most {PERCENT_SCALE} digits after the point"
                    ),
                )),
            },
            _ => Err(OpenError::config(path, "`noise` needs either `within` or `percent`")),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Noise {
    key: String,
    context: String,
    by: Option<By>,
    most: Most,
    how: String,
}

/// How far a number is moved at most.
#[derive(Clone, Copy, Debug)]
enum Most {
    /// In units of the column's last digit.
    Units(u128),
    /// As it is: for floating point.
    Float(f64),
    /// Of the number, in millionths of a percent.
    Share(u128),
}

impl Noise {
    /// The error says what would fit the column.
    pub(crate) fn new(
        options: &Options,
        column: &str,
        data_type: DataType,
        by: Option<By>,
    ) -> Result<Self, &'static str> {
        let scale = scale(data_type).ok_or("works on columns of numbers only")?;
        let is_float = matches!(data_type, DataType::Float32 | DataType::Float64);
        let most = match (&options.within, &options.percent) {
            (Some(Value::Number(within)), _) if is_float => {
                let within = within.as_f64().filter(|within| *within > 0.0);
                Most::Float(within.ok_or("needs `within` to be a number above 0")?)
            }
            (Some(within), _) => {
                let units = exact(within, scale).and_then(|units| u128::try_from(units).ok());
                let units = units.filter(|&units| units > 0 && !is_float);
                Most::Units(units.ok_or("needs `within` to be a number above 0 that the column can hold exactly")?)
            }
            (None, Some(percent)) => {
                let share = exact(percent, PERCENT_SCALE).and_then(|share| u128::try_from(share).ok());
                Most::Share(share.ok_or("needs `percent` to be a number")?)
            }
            (None, None) => return Err("needs either `within` or `percent`"),
        };
        let width = most.shown(scale);
        let by_what = by.as_ref().map(|by| format!(" by {}", by.column)).unwrap_or_default();
        Ok(Self {
            key: options.key.clone(),
            // With the column's name: by one key, two columns must not be moved alike. With the width: of two numbers that
            // are moved by the same draw in different widths, the difference shows the draw.
            context: secret_context("noise", &format!("{width}:{}:{column}", options.context)),
            how: format!("noise within {width}{by_what}"),
            by,
            most,
        })
    }

    pub(crate) fn how(&self) -> String {
        self.how.clone()
    }

    pub(crate) fn column(
        &self,
        keys: &impl Keyed,
        batch: &Batch,
        read: usize,
        data_type: DataType,
        rejects: &mut Rejects<'_>,
    ) -> Result<Column, ApplyError> {
        let texts = canonical::column(batch, read, data_type, &[])?;
        let texts = match &self.by {
            Some(by) => beside(&by.texts(batch)?, &texts, batch.rows as usize)?,
            None => texts,
        };
        let validity = texts.validity.clone();
        let digests = digests(keys, &self.key, &self.context, batch.rows, texts)?;
        let draws = Draws {
            digests: &digests,
            validity: validity.as_deref(),
        };
        let whole = |value: i128, draw| {
            let moved = self.whole(value, draw).filter(|&moved| fits(moved, data_type));
            moved.ok_or(OUT_OF_RANGE)
        };
        Ok(match data_type {
            DataType::Int16 => {
                let moved = |value: i16, draw| whole(value.into(), draw)?.try_into().map_err(|_| OUT_OF_RANGE);
                self.moved(batch.fixed(read)?, &draws, moved, rejects)
            }
            DataType::Int32 => {
                let moved = |value: i32, draw| whole(value.into(), draw)?.try_into().map_err(|_| OUT_OF_RANGE);
                self.moved(batch.fixed(read)?, &draws, moved, rejects)
            }
            DataType::Int64 => {
                let moved = |value: i64, draw| whole(value.into(), draw)?.try_into().map_err(|_| OUT_OF_RANGE);
                self.moved(batch.fixed(read)?, &draws, moved, rejects)
            }
            DataType::Float32 => {
                let moved = |value: f32, draw| self.float(value, draw);
                self.moved(batch.fixed(read)?, &draws, moved, rejects)
            }
            DataType::Float64 => {
                let moved = |value: f64, draw| self.float(value, draw);
                self.moved(batch.fixed(read)?, &draws, moved, rejects)
            }
            _ => self.moved(batch.fixed(read)?, &draws, whole, rejects),
        })
    }

    fn moved<T: Native + Default>(
        &self,
        values: FixedView<'_, T>,
        draws: &Draws<'_>,
        moved: impl Fn(T, u64) -> Result<T, &'static str>,
        rejects: &mut Rejects<'_>,
    ) -> Column {
        let mut column = FixedBuilder::with_capacity(values.len());
        for (row, (value, draw)) in values.iter().zip(draws.iter()).enumerate() {
            let result = match (value, draw) {
                (None, _) => None,
                (Some(value), Some(draw)) => {
                    let result = moved(value, draw).inspect_err(|code| rejects.push(row, code));
                    Some(result.unwrap_or_default())
                }
                (Some(_), None) => {
                    let by = self.by.as_ref().map(|by| by.column.as_str());
                    rejects.push_for(row, by.unwrap_or(rejects.column).to_owned(), BY_IS_NULL);
                    Some(T::default())
                }
            };
            column.push_option(result);
        }
        column.finish()
    }

    /// An integer or a decimal in units of its last digit.
    fn whole(&self, value: i128, draw: u64) -> Option<i128> {
        let most = match self.most {
            Most::Units(units) => units,
            // A small number is moved by one all the same; only 0 has no share.
            Most::Share(share) => share_of(value.unsigned_abs(), share).max(u128::from(value != 0)),
            Most::Float(_) => return None,
        };
        if most == 0 {
            return Some(value);
        }
        value.checked_add(step(scaled(draw, most.checked_mul(2)?), most))
    }

    /// A floating-point number, never as it was: where the amount is lost in rounding, its neighbour.
    fn float<F: Float>(&self, value: F, draw: u64) -> Result<F, &'static str> {
        let wide = value.wide();
        if !wide.is_finite() {
            return Err(OUT_OF_RANGE);
        }
        let most = match self.most {
            Most::Float(within) => within,
            Most::Units(units) => units as f64,
            // 0 has no share.
            Most::Share(_) if wide == 0.0 => return Ok(value),
            Most::Share(share) => wide.abs() * (share as f64 / HUNDRED_PERCENT as f64),
        };
        if value.spacing() > most {
            return Err(TOO_SMALL);
        }
        // 53 bits, as a double has them: from 0 to below 1.
        let unit = (draw >> 11) as f64 / (1_u64 << 53) as f64;
        let moved = F::nearest(wide + (unit * 2.0 - 1.0) * most);
        let moved = match moved == value {
            true => value.neighbour(draw >> 63 == 1),
            false => moved,
        };
        moved.wide().is_finite().then_some(moved).ok_or(OUT_OF_RANGE)
    }
}

impl Most {
    /// As digits, the same however it was written.
    fn shown(self, scale: u8) -> String {
        let decimal = |unscaled: u128, scale| {
            let mut shown = String::new();
            // No number of the configuration has more than 38 digits, and writing to a text cannot fail.
            write_decimal_short(&mut shown, unscaled as i128, scale).ok();
            shown
        };
        match self {
            Self::Units(units) => decimal(units, scale),
            Self::Float(within) => within.to_string(),
            Self::Share(share) => format!("{} percent", decimal(share, PERCENT_SCALE)),
        }
    }
}

/// What both floating-point types can do.
trait Float: Copy + PartialEq {
    fn wide(self) -> f64;
    fn nearest(wide: f64) -> Self;
    fn neighbour(self, above: bool) -> Self;

    /// From a finite number to the next one away from 0; for the last one, the way back.
    fn spacing(self) -> f64 {
        let away = self.neighbour(self.wide() >= 0.0).wide();
        let next = match away.is_finite() {
            true => away,
            false => self.neighbour(self.wide() < 0.0).wide(),
        };
        (next - self.wide()).abs()
    }
}

impl Float for f32 {
    fn wide(self) -> f64 {
        self.into()
    }

    fn nearest(wide: f64) -> Self {
        wide as Self
    }

    fn neighbour(self, above: bool) -> Self {
        if above { self.next_up() } else { self.next_down() }
    }
}

impl Float for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn nearest(wide: f64) -> Self {
        wide
    }

    fn neighbour(self, above: bool) -> Self {
        if above { self.next_up() } else { self.next_down() }
    }
}

/// The texts of two columns, row by row, with a zero byte between them; NULL where one of them is.
fn beside(by: &Column, values: &Column, rows: usize) -> Result<Column, ApplyError> {
    let malformed = || ApplyError::new("internal", "texts of another length");
    let by = Utf8View::new(by, rows).ok_or_else(malformed)?;
    let values = Utf8View::new(values, rows).ok_or_else(malformed)?;
    let mut texts = Utf8Builder::with_capacity(rows, by.text().len() + values.text().len() + rows);
    for pair in by.iter().zip(values.iter()) {
        let (Some(by), Some(value)) = pair else {
            texts.push_null();
            continue;
        };
        texts.append(by);
        texts.append("\0");
        texts.append(value);
        texts.end_row();
    }
    texts.finish()
}

/// The number that each row's digest begins with.
struct Draws<'a> {
    digests: &'a [u8],
    validity: Option<&'a [u8]>,
}

impl Draws<'_> {
    fn iter(&self) -> impl Iterator<Item = Option<u64>> {
        rows(self.digests, self.validity).map(|digest| digest.map(number))
    }
}

fn share_of(number: u128, share: u128) -> u128 {
    const WHOLE: u128 = HUNDRED_PERCENT as u128;
    match number.checked_mul(share) {
        Some(product) => product / WHOLE,
        None => (number / WHOLE).saturating_mul(share),
    }
}

/// `draw * count / 2^64`: evenly below `count`, without the product's overflow.
fn scaled(draw: u64, count: u128) -> u128 {
    let draw = u128::from(draw);
    draw * (count >> 64) + ((draw * (count & u128::from(u64::MAX))) >> 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_cover_every_number_below_the_count() {
        assert_eq!(scaled(0, 6), 0);
        assert_eq!(scaled(u64::MAX, 6), 5);
        assert_eq!(scaled(1 << 63, 6), 3);
        let most = 2 * 10_u128.pow(38);
        assert_eq!(scaled(1 << 63, most), most / 2);
        assert!(scaled(u64::MAX, most) < most);
    }

    #[test]
    fn shares_of_the_largest_numbers() {
        assert_eq!(share_of(1_000, 5_000_000), 50);
        assert_eq!(share_of(10_u128.pow(38), HUNDRED_PERCENT as u128), 10_u128.pow(38));
        assert_eq!(share_of(0, 1), 0);
    }
}
