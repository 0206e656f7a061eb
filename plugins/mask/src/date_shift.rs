//! `date_shift`: dates and time stamps moved by a keyed number of days, the same for all rows with the same value of
//! another column, so that order and distances among them are kept.

use serde::Deserialize;
use sluice_plugin::text::DAY_US;
use sluice_plugin::{ApplyError, Batch, Column, DataType, FixedBuilder, FixedView, Keyed, Native, OpenError};

use crate::canonical::Normalize;
use crate::keyed::{By, is_valid, picks, secret_context, step};
use crate::rejects::Rejects;

pub(crate) const BY_IS_NULL: &str = "by-is-null";
const OUT_OF_RANGE: &str = "date-out-of-range";
const MOST_DAYS: u32 = 36_525;
/// 0001-01-01 and 9999-12-31, as days since 1970-01-01.
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    pub key: String,
    #[serde(default)]
    pub context: String,
    pub days: u32,
    pub by: String,
    #[serde(default)]
    pub normalize: Vec<Normalize>,
}

impl Options {
    pub(crate) fn check(&self, path: &str) -> Result<(), OpenError> {
        if (1..=MOST_DAYS).contains(&self.days) {
            return Ok(());
        }
        let reason = format!("expected 1 to {MOST_DAYS} days");
        Err(OpenError::config(format!("{path}.days"), reason))
    }
}

#[derive(Debug)]
pub(crate) struct DateShift {
    key: String,
    context: String,
    days: u32,
    by: By,
}

impl DateShift {
    pub(crate) fn new(options: &Options, by: By) -> Self {
        Self {
            key: options.key.clone(),
            // With the width: by one number a date would be moved in proportion to it.
            context: secret_context("date_shift", &format!("{}:{}", options.days, options.context)),
            days: options.days,
            by,
        }
    }

    pub(crate) fn how(&self) -> String {
        format!("moved by 1 to {} days by {}", self.days, self.by.column)
    }

    pub(crate) fn column(
        &self,
        keys: &impl Keyed,
        batch: &Batch,
        read: usize,
        data_type: DataType,
        rejects: &mut Rejects<'_>,
    ) -> Result<Column, ApplyError> {
        let texts = self.by.texts(batch)?;
        let validity = texts.validity.clone();
        let count = self.days * 2;
        let picks = picks(keys, &self.key, &self.context, count, batch.rows, texts)?;
        let days = |row: usize| {
            let pick = picks.get(row).filter(|_| is_valid(validity.as_deref(), row))?;
            i64::try_from(step(u128::from(*pick), u128::from(self.days))).ok()
        };
        match data_type {
            DataType::Date => {
                let moved = |date: i32, days| {
                    let moved = i64::from(date).checked_add(days)?;
                    let fits = (FIRST_DAY..=LAST_DAY).contains(&moved);
                    i32::try_from(moved).ok().filter(|_| fits)
                };
                Ok(self.moved(batch.fixed(read)?, days, moved, rejects))
            }
            _ => {
                let moved = |micros: i64, days: i64| {
                    let moved = micros.checked_add(days * DAY_US)?;
                    let fits = (FIRST_DAY * DAY_US..(LAST_DAY + 1) * DAY_US).contains(&moved);
                    fits.then_some(moved)
                };
                Ok(self.moved(batch.fixed(read)?, days, moved, rejects))
            }
        }
    }

    fn moved<T: Native + Default>(
        &self,
        values: FixedView<'_, T>,
        days: impl Fn(usize) -> Option<i64>,
        moved: impl Fn(T, i64) -> Option<T>,
        rejects: &mut Rejects<'_>,
    ) -> Column {
        let mut column = FixedBuilder::with_capacity(values.len());
        for (row, value) in values.iter().enumerate() {
            let Some(value) = value else {
                column.push_option(None);
                continue;
            };
            let result = match days(row) {
                Some(days) => {
                    let result = moved(value, days);
                    if result.is_none() {
                        rejects.push(row, OUT_OF_RANGE);
                    }
                    result
                }
                None => {
                    rejects.push_for(row, self.by.column.clone(), BY_IS_NULL);
                    None
                }
            };
            // A zero stands in a row that is rejected.
            column.push_option(Some(result.unwrap_or_default()));
        }
        column.finish()
    }
}
