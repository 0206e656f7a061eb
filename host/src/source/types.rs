//! SQL Server's types as Arrow types. `docs/reference/types.md` has the table.

use arrow::datatypes::{DataType, TimeUnit};

use crate::shape::Recorded;

/// A column of the source as `sys.sp_cdc_get_captured_columns` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeclaredType<'a> {
    /// The type's name, such as `nvarchar`.
    pub(crate) name: &'a str,
    /// Characters (or bytes); −1 for `max`.
    pub(crate) length: Option<i32>,
    /// Digits in all.
    pub(crate) precision: Option<u8>,
    /// Digits behind the point, or of a second.
    pub(crate) scale: Option<u8>,
}

impl DeclaredType<'_> {
    /// As it is written in T-SQL.
    pub(crate) fn text(&self) -> String {
        match (self.name, self.length, self.precision, self.scale) {
            ("decimal" | "numeric", _, Some(precision), scale) => {
                format!("{}({precision},{})", self.name, scale.unwrap_or(0))
            }
            ("datetime2" | "datetimeoffset" | "time", _, _, Some(scale)) => format!("{}({scale})", self.name),
            ("varchar" | "nvarchar" | "varbinary" | "char" | "nchar" | "binary", Some(-1), _, _) => {
                format!("{}(max)", self.name)
            }
            ("varchar" | "nvarchar" | "varbinary" | "char" | "nchar" | "binary", Some(length), _, _) => {
                format!("{}({length})", self.name)
            }
            _ => self.name.to_owned(),
        }
    }

    /// The Arrow type that its values get. `None`: there is none yet.
    pub(crate) fn arrow(&self) -> Option<DataType> {
        Some(match self.name {
            "bit" => DataType::Boolean,
            "tinyint" | "smallint" => DataType::Int16,
            "int" => DataType::Int32,
            "bigint" => DataType::Int64,
            "real" => DataType::Float32,
            "float" => DataType::Float64,
            "decimal" | "numeric" => DataType::Decimal128(
                self.precision.filter(|p| (1..=38).contains(p))?,
                i8::try_from(self.scale.unwrap_or(0)).ok()?,
            ),
            "money" => DataType::Decimal128(19, 4),
            "smallmoney" => DataType::Decimal128(10, 4),
            "date" => DataType::Date32,
            "datetime" | "smalldatetime" | "datetime2" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "datetimeoffset" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            "time" | "uniqueidentifier" | "char" | "varchar" | "nchar" | "nvarchar" | "sysname" | "text" | "ntext"
            | "xml" | "json" | "vector" => DataType::Utf8,
            "binary" | "varbinary" | "image" | "timestamp" | "rowversion" => DataType::Binary,
            _ => return None,
        })
    }

    /// In which change rows CDC records a column of the type. `position`: the column's, among the captured ones, from 1.
    pub(super) fn recorded(&self, position: u32) -> Recorded {
        match (self.name, self.length) {
            ("text" | "ntext" | "image", _) => Recorded::After,
            ("varchar" | "nvarchar" | "varbinary", Some(-1)) => Recorded::Changed { ordinal: position },
            _ => Recorded::Always,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(name: &str, length: Option<i32>, precision: Option<u8>, scale: Option<u8>) -> DeclaredType<'_> {
        DeclaredType {
            name,
            length,
            precision,
            scale,
        }
    }

    #[test]
    fn types_are_those_of_the_reference() {
        assert_eq!(
            declared("money", None, Some(19), Some(4)).arrow(),
            Some(DataType::Decimal128(19, 4))
        );
        assert_eq!(
            declared("decimal", None, Some(38), Some(10)).arrow(),
            Some(DataType::Decimal128(38, 10))
        );
        assert_eq!(declared("sql_variant", None, None, None).arrow(), None);
        assert_eq!(declared("geography", Some(-1), None, None).arrow(), None);
    }

    #[test]
    fn long_types_are_not_recorded_everywhere() {
        let recorded = |name, length| declared(name, length, None, None).recorded(3);
        assert_eq!(recorded("ntext", Some(1_073_741_823)), Recorded::After);
        assert_eq!(recorded("nvarchar", Some(-1)), Recorded::Changed { ordinal: 3 });
        for (name, length) in [("nvarchar", Some(4000)), ("xml", Some(-1)), ("int", None)] {
            assert_eq!(recorded(name, length), Recorded::Always, "{name}");
        }
    }

    #[test]
    fn text_is_t_sql() {
        assert_eq!(declared("nvarchar", Some(100), None, None).text(), "nvarchar(100)");
        assert_eq!(declared("varbinary", Some(-1), None, None).text(), "varbinary(max)");
        assert_eq!(declared("decimal", None, Some(12), Some(2)).text(), "decimal(12,2)");
        assert_eq!(declared("datetime2", None, None, Some(7)).text(), "datetime2(7)");
        assert_eq!(declared("int", None, Some(10), Some(0)).text(), "int");
    }
}
