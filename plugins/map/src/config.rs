//! The configuration as it is written.

use serde::Deserialize;
use sluice_plugin::config::{Entries, nearest, parse};
use sluice_plugin::{DataType, OpenError};

/// What happens to the columns that the configuration does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unlisted {
    #[default]
    Pass,
    Drop,
    /// The table does not start.
    Fail,
}

#[derive(Debug)]
pub(crate) struct Config {
    pub unlisted: Unlisted,
    /// Column names as they are written, and what to do with them.
    pub columns: Vec<(String, Mapping)>,
    /// Names of output columns that come first, in this order.
    pub order: Vec<String>,
}

/// What to do with one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    Drop,
    Keep {
        rename: Option<String>,
        cast: Option<DataType>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    unlisted: Unlisted,
    #[serde(default)]
    columns: Entries<RawMapping>,
    #[serde(default)]
    order: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMapping {
    rename: Option<String>,
    cast: Option<String>,
    #[serde(default)]
    drop: bool,
}

const TYPES: [(&str, DataType); 10] = [
    ("boolean", DataType::Boolean),
    ("smallint", DataType::Int16),
    ("int", DataType::Int32),
    ("bigint", DataType::Int64),
    ("float", DataType::Float32),
    ("double", DataType::Float64),
    ("date", DataType::Date),
    ("timestamp_ntz", DataType::TimestampNtz),
    ("string", DataType::Utf8),
    ("binary", DataType::Binary),
];

impl Config {
    pub(crate) fn read(text: &str) -> Result<Self, OpenError> {
        let raw: Raw = parse(text)?;
        let columns = raw
            .columns
            .0
            .into_iter()
            .map(|(name, mapping)| {
                let mapping = mapping.read(&format!("columns.{name}"))?;
                Ok((name, mapping))
            })
            .collect::<Result<_, OpenError>>()?;
        Ok(Self {
            unlisted: raw.unlisted,
            columns,
            order: raw.order,
        })
    }
}

impl RawMapping {
    fn read(self, path: &str) -> Result<Mapping, OpenError> {
        if self.drop {
            return if self.rename.is_some() || self.cast.is_some() {
                Err(OpenError::config(path, "a dropped column cannot be renamed or cast"))
            } else {
                Ok(Mapping::Drop)
            };
        }
        if self.rename.as_ref().is_some_and(String::is_empty) {
            return Err(OpenError::config(format!("{path}.rename"), "a column needs a name"));
        }
        let cast = self
            .cast
            .map(|name| data_type(&name).map_err(|reason| OpenError::config(format!("{path}.cast"), reason)))
            .transpose()?;
        Ok(Mapping::Keep {
            rename: self.rename,
            cast,
        })
    }
}

fn data_type(name: &str) -> Result<DataType, String> {
    let name = name.trim().to_lowercase();
    if let Some((_, data_type)) = TYPES.iter().find(|(known, _)| *known == name) {
        return Ok(*data_type);
    }
    if let Some(arguments) = name.strip_prefix("decimal") {
        return decimal(arguments).ok_or_else(|| {
            "expected `decimal(p,s)` with 1 to 38 digits, at most as many of them after the point".to_owned()
        });
    }
    let names = TYPES.iter().map(|(known, _)| *known);
    Err(match nearest(&name, names.clone().chain(["decimal"])) {
        Some(meant) => format!("unknown type `{name}`, did you mean `{meant}`?"),
        None => format!(
            "unknown type `{name}`; types are {}, decimal(p,s)",
            names.collect::<Vec<_>>().join(", ")
        ),
    })
}

fn decimal(arguments: &str) -> Option<DataType> {
    let arguments = arguments.trim().strip_prefix('(')?.strip_suffix(')')?;
    let (precision, scale) = arguments.split_once(',')?;
    let precision: u8 = precision.trim().parse().ok()?;
    let scale: u8 = scale.trim().parse().ok()?;
    ((1..=38).contains(&precision) && scale <= precision).then_some(DataType::Decimal { precision, scale })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_name() {
        assert_eq!(data_type("BigInt"), Ok(DataType::Int64));
        let decimal = DataType::Decimal {
            precision: 18,
            scale: 4,
        };
        assert_eq!(data_type("decimal(18, 4)"), Ok(decimal));
        for (name, said) in [
            ("bigit", "did you mean `bigint`?"),
            ("timestamp", "unknown type `timestamp`"),
            ("decimal", "expected `decimal(p,s)`"),
            ("decimal(39,0)", "expected `decimal(p,s)`"),
            ("decimal(0,0)", "expected `decimal(p,s)`"),
            ("decimal(3,4)", "expected `decimal(p,s)`"),
            ("decimal(3,-1)", "expected `decimal(p,s)`"),
            ("geography", "types are boolean"),
        ] {
            let reason = data_type(name).unwrap_err();
            assert!(reason.contains(said), "{name}: {reason}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for (config, path) in [
            (r#"{"columns":{"a":{"drop":true,"rename":"b"}}}"#, "columns.a"),
            (r#"{"columns":{"a":{"rename":""}}}"#, "columns.a.rename"),
            (r#"{"columns":{"a":{"cast":"x"}}}"#, "columns.a.cast"),
            (r#"{"columns":{"a":{"castt":"int"}}}"#, "columns.a"),
            (r#"{"columns":{"a":"drop"}}"#, "columns.a"),
        ] {
            match Config::read(config) {
                Err(OpenError::Config { path: at, .. }) => assert_eq!(at, path, "{config}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
