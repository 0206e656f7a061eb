//! Keeps the rows of some tenants and drops all others, so that a table that many share becomes the table of one.
//!
//! ```json
//! { "column": "tenant_id", "keep": ["acme", "globex"] }
//! ```
//!
//! Each row is decided by itself, also the two rows of an update. Where only one of them is kept, the tenant changed, and
//! the host makes of it what readers of the kept rows have to see: a delete where the row left, an insert where it came.

use serde::Deserialize;
use serde_json::{Number, Value};
use sluice_plugin::config::nearest;
use sluice_plugin::{
    AnyView, ApplyError, Batch, DataType, OpenError, Outcome, OutputColumn, Plan, Reject, SourceField, Table,
    Transform, Value as Cell,
};

/// What stands under `config` in `sluice.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    column: String,
    keep: Option<Vec<Value>>,
    drop: Option<Vec<Value>>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    nulls: Nulls,
}

/// What becomes of a row whose tenant is NULL.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Nulls {
    #[default]
    Drop,
    Keep,
    Reject,
}

/// The tenants that are listed, in the form in which a row's tenant is compared.
#[derive(Debug)]
enum Listed {
    Numbers(Vec<i64>),
    Texts { texts: Vec<String>, ignore_case: bool },
}

/// The transform. sluice makes a fresh one for every chunk of rows.
#[derive(Debug)]
pub struct TenantFilter {
    column: String,
    data_type: DataType,
    listed: Listed,
    /// Whether the listed ones are kept, or the others.
    keep: bool,
    nulls: Nulls,
}

impl Transform for TenantFilter {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        let config: Config = sluice_plugin::config::parse(config)?;
        let field = find(table, &config.column)?;
        let (key, values, keep) = match (&config.keep, &config.drop) {
            (Some(values), None) => ("keep", values, true),
            (None, Some(values)) => ("drop", values, false),
            _ => return Err(OpenError::config("", "give either `keep` or `drop`, a list of tenants")),
        };
        if values.is_empty() {
            let what = if keep {
                "no row would be kept"
            } else {
                "every row would be kept"
            };
            return Err(OpenError::config(key, format!("it lists no tenant, and {what}")));
        }
        let filter = TenantFilter {
            column: field.name.clone(),
            data_type: field.data_type,
            listed: Listed::read(key, values, field, config.ignore_case)?,
            keep,
            nulls: config.nulls,
        };
        let outputs = table
            .fields
            .iter()
            .map(|field| OutputColumn::pass(&field.name, &field.name));
        let plan = Plan {
            outputs: outputs.collect(),
            reads: vec![field.name.clone()],
        };
        Ok((filter, plan))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let tenants = batch.any(0, self.data_type)?;
        let mut outcome = Outcome::default();
        for row in 0..batch.rows {
            match self.decide(&tenants, row as usize) {
                Decision::Keep => {}
                Decision::Drop => drop_row(&mut outcome, batch.rows, row as usize),
                Decision::Reject => outcome.rejects.push(Reject {
                    row,
                    column: self.column.clone(),
                    code: "tenant-null".to_owned(),
                }),
            }
        }
        Ok(outcome)
    }
}

sluice_plugin::export_transform!(TenantFilter);

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Keep,
    Drop,
    Reject,
}

impl TenantFilter {
    fn decide(&self, tenants: &AnyView<'_>, row: usize) -> Decision {
        let listed = match (tenants.get(row), &self.listed) {
            (Some(Cell::Int(number)), Listed::Numbers(numbers)) => numbers.contains(&number),
            (Some(Cell::Utf8(text)), Listed::Texts { texts, ignore_case }) => {
                let text = comparable(text, *ignore_case);
                texts.iter().any(|listed| *listed == *text)
            }
            _ => {
                return match self.nulls {
                    Nulls::Drop => Decision::Drop,
                    Nulls::Keep => Decision::Keep,
                    Nulls::Reject => Decision::Reject,
                };
            }
        };
        if listed == self.keep {
            Decision::Keep
        } else {
            Decision::Drop
        }
    }
}

impl Listed {
    fn read(key: &str, values: &[Value], field: &SourceField, ignore_case: bool) -> Result<Self, OpenError> {
        let wrong = |at: usize, expected: &str| {
            let reason = format!(
                "{expected} is expected: column `{}` is {}",
                field.name, field.source_type
            );
            OpenError::config(format!("{key}[{at}]"), reason)
        };
        match field.data_type {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                let number = |(at, value): (usize, &Value)| {
                    let number = value.as_number().and_then(Number::as_i64);
                    number.ok_or_else(|| wrong(at, "a whole number"))
                };
                let numbers = values.iter().enumerate().map(number);
                Ok(Listed::Numbers(numbers.collect::<Result<_, _>>()?))
            }
            DataType::Utf8 => {
                // Its digits are the same in either case, however somebody wrote them down.
                let ignore_case = ignore_case || field.source_type.eq_ignore_ascii_case("uniqueidentifier");
                let text = |(at, value): (usize, &Value)| {
                    let text = value.as_str().ok_or_else(|| wrong(at, "a text"))?;
                    Ok(comparable(text, ignore_case).into_owned())
                };
                let texts = values.iter().enumerate().map(text);
                Ok(Listed::Texts {
                    texts: texts.collect::<Result<_, _>>()?,
                    ignore_case,
                })
            }
            other => Err(OpenError::unsupported(
                &field.name,
                format!("a tenant is a text or a whole number, and this is {other}"),
            )),
        }
    }
}

/// A text as tenants are compared: without blanks at the end, which SQL Server does not mind either, and with which
/// `char(10)` fills up.
fn comparable(text: &str, ignore_case: bool) -> std::borrow::Cow<'_, str> {
    let text = text.trim_end_matches(' ');
    if ignore_case {
        text.to_lowercase().into()
    } else {
        text.into()
    }
}

fn drop_row(outcome: &mut Outcome, rows: u32, row: usize) {
    let bits = outcome
        .dropped
        .get_or_insert_with(|| vec![0; (rows as usize).div_ceil(8)]);
    bits[row / 8] |= 1 << (row % 8);
}

fn find<'a>(table: &'a Table, name: &str) -> Result<&'a SourceField, OpenError> {
    match table.find(name).as_slice() {
        [index] => Ok(&table.fields[*index]),
        [] => {
            let known = table.fields.iter().map(|field| field.name.as_str());
            let hint = nearest(name, known).map(|meant| format!(", did you mean `{meant}`?"));
            let reason = format!("the table has no column `{name}`{}", hint.unwrap_or_default());
            Err(OpenError::config("column", reason))
        }
        _ => Err(OpenError::config(
            "column",
            format!("the table has more than one column `{name}`, ignoring case"),
        )),
    }
}

#[cfg(test)]
mod tests;
