//! Types by the names that the configuration has for them.

use sluice_plugin::DataType;
use sluice_plugin::config::nearest;

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

/// The type of this name; else a sentence that says what there is.
pub(crate) fn data_type(name: &str) -> Result<DataType, String> {
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
}
