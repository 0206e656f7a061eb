//! SQL Server's types as fixtures write them: `nvarchar(100)`, `decimal(12,2)`, `datetime2`.

use arrow::datatypes::DataType;

use crate::config::nearest;
use crate::source::DeclaredType;

/// A declared type, with what T-SQL fills in where nothing is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SqlType {
    /// In lower case.
    pub(crate) name: String,
    /// Characters (or bytes); −1 for `max`.
    pub(crate) length: Option<i32>,
    pub(crate) precision: Option<u8>,
    /// Digits behind the point, or of a second.
    pub(crate) scale: Option<u8>,
}

/// Every type that a table can have, one of each kind of declaration. The names are those of SQL Server.
pub(crate) const ALL: [&str; 32] = [
    "bit",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "real",
    "float",
    "decimal(38,10)",
    "numeric(18,0)",
    "money",
    "smallmoney",
    "date",
    "datetime",
    "smalldatetime",
    "datetime2(7)",
    "datetimeoffset(7)",
    "time(7)",
    "uniqueidentifier",
    "char(10)",
    "varchar(100)",
    "nchar(10)",
    "nvarchar(100)",
    "nvarchar(max)",
    "text",
    "ntext",
    "xml",
    "json",
    "vector",
    "binary(16)",
    "varbinary(max)",
    "image",
    "rowversion",
];

impl SqlType {
    /// Reads a declaration.
    ///
    /// # Errors
    /// A sentence: what is wrong with it, and what was probably meant.
    pub(crate) fn parse(text: &str) -> Result<SqlType, String> {
        let text = text.trim().to_lowercase();
        let (name, arguments) = match text.split_once('(') {
            Some((name, rest)) => {
                let inner = rest
                    .strip_suffix(')')
                    .ok_or_else(|| format!("type `{text}` lacks its closing parenthesis"))?;
                (name.trim(), inner.split(',').map(str::trim).collect())
            }
            None => (text.as_str(), Vec::new()),
        };
        let number = |at: usize| -> Result<Option<u8>, String> {
            arguments
                .get(at)
                .map(|argument: &&str| {
                    argument
                        .parse()
                        .map_err(|_| format!("type `{text}`: `{argument}` is no number of digits"))
                })
                .transpose()
        };
        let most = match name {
            "decimal" | "numeric" => 2,
            "datetime2" | "datetimeoffset" | "time" | "char" | "varchar" | "nchar" | "nvarchar" | "binary"
            | "varbinary" | "float" | "vector" => 1,
            _ => 0,
        };
        let mut parsed = SqlType {
            name: name.to_owned(),
            length: None,
            precision: None,
            scale: None,
        };
        match name {
            "decimal" | "numeric" => {
                let (precision, scale) = (number(0)?.unwrap_or(18), number(1)?.unwrap_or(0));
                if !(1..=38).contains(&precision) || scale > precision {
                    return Err(format!(
                        "type `{text}`: 1 to 38 digits, and no more of them behind the point"
                    ));
                }
                (parsed.precision, parsed.scale) = (Some(precision), Some(scale));
            }
            "datetime2" | "datetimeoffset" | "time" => {
                let scale = number(0)?.unwrap_or(7);
                if scale > 7 {
                    return Err(format!("type `{text}`: a second has at most 7 digits"));
                }
                parsed.scale = Some(scale);
            }
            "char" | "varchar" | "nchar" | "nvarchar" | "binary" | "varbinary" => {
                parsed.length = Some(match arguments.first().copied() {
                    None => 1,
                    Some("max") if name.contains("var") => -1,
                    Some(argument) => argument
                        .parse()
                        .ok()
                        .filter(|length| (1..=8000).contains(length))
                        .ok_or_else(|| format!("type `{text}`: the length is 1 to 8000, or `max`"))?,
                });
            }
            _ => {}
        }
        match parsed.declared().arrow() {
            Some(_) if arguments.len() > most => {
                Err(format!("type `{text}` has more in its parentheses than `{name}` takes"))
            }
            Some(_) => Ok(parsed),
            None => {
                let names = ALL.iter().filter_map(|declared| declared.split('(').next());
                let meant = nearest(name, names)
                    .map(|meant| format!("; did you mean `{meant}`?"))
                    .unwrap_or_default();
                Err(format!(
                    "`{text}` is no type that a captured column can have here{meant}"
                ))
            }
        }
    }

    /// The Arrow type that its values have.
    pub(crate) fn arrow(&self) -> DataType {
        // `parse` lets no type by that has none.
        self.declared().arrow().unwrap_or(DataType::Utf8)
    }

    /// As it is written in T-SQL.
    pub(crate) fn text(&self) -> String {
        self.declared().text()
    }

    /// Characters or bytes that a value may have; a number for `max`, too.
    pub(crate) fn longest(&self) -> usize {
        match self.length {
            Some(length) => usize::try_from(length).unwrap_or(4000),
            None => 4000,
        }
    }

    fn declared(&self) -> DeclaredType<'_> {
        DeclaredType {
            name: &self.name,
            length: self.length,
            precision: self.precision,
            scale: self.scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn every_listed_type_is_read_and_written_as_it_was() {
        for text in ALL {
            assert_eq!(SqlType::parse(text).unwrap().text(), text);
        }
    }

    #[test]
    fn what_t_sql_fills_in_is_filled_in() {
        for (written, meant) in [
            ("decimal", "decimal(18,0)"),
            ("NUMERIC(5)", "numeric(5,0)"),
            ("datetime2", "datetime2(7)"),
            ("nvarchar", "nvarchar(1)"),
            ("varbinary( MAX )", "varbinary(max)"),
        ] {
            assert_eq!(SqlType::parse(written).unwrap().text(), meant);
        }
        assert_eq!(SqlType::parse("money").unwrap().arrow(), DataType::Decimal128(19, 4));
        assert_eq!(
            SqlType::parse("datetime").unwrap().arrow(),
            DataType::Timestamp(TimeUnit::Microsecond, None)
        );
    }

    #[test]
    fn what_is_no_type_is_answered_with_the_nearest() {
        let error = SqlType::parse("nvarchr(10)").unwrap_err();
        assert!(error.contains("did you mean `nvarchar`"), "{error}");
        for wrong in [
            "decimal(39,2)",
            "decimal(5,6)",
            "char(max)",
            "nvarchar(0)",
            "int(4)",
            "time(8)",
            "nvarchar(5",
        ] {
            assert!(SqlType::parse(wrong).is_err(), "{wrong}");
        }
        assert!(SqlType::parse("geography").is_err());
    }
}
