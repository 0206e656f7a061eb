//! Columns of a table: their Delta types, comments and names, and how a table that exists compares with a stream.

use std::collections::HashMap;

use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use delta_kernel::schema::{ArrayType, DataType, DecimalType, MetadataValue, PrimitiveType, StructField, StructType};

use super::LakeError;

/// A column of a table that sluice writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type in memory; see [`delta_type`] for the type in the table.
    pub data_type: ArrowType,
    /// What it holds, for the people who read the table's schema.
    pub comment: String,
    /// Whether files record its smallest and largest value. Ignored for types where that is not useful or not safe.
    pub statistics: bool,
}

impl Column {
    /// A column without statistics.
    pub fn new(name: impl Into<String>, data_type: ArrowType, comment: impl Into<String>) -> Column {
        Column {
            name: name.into(),
            data_type,
            comment: comment.into(),
            statistics: false,
        }
    }

    /// The same column with its smallest and largest value recorded for every file.
    pub fn with_statistics(mut self) -> Column {
        self.statistics = true;
        self
    }
}

/// Timestamps as the tables hold them: no zone, UTC by contract, microseconds.
pub const TIMESTAMP_NTZ: ArrowType = ArrowType::Timestamp(TimeUnit::Microsecond, None);

/// Characters that Delta refuses in a column name.
const REFUSED: [char; 10] = [' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];

/// Whether Delta takes a column of that name, else why not.
pub fn refused_name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("has no name".to_owned());
    }
    let bad = name.chars().find(|c| REFUSED.contains(c) || c.is_control())?;
    Some(format!("has {bad:?} in its name, which Delta refuses"))
}

/// The Delta type of an Arrow type; `None` where Delta has no counterpart. Dictionaries count as their values.
pub fn delta_type(data_type: &ArrowType) -> Option<DataType> {
    let primitive = match data_type {
        ArrowType::Boolean => PrimitiveType::Boolean,
        ArrowType::Int8 => PrimitiveType::Byte,
        ArrowType::Int16 => PrimitiveType::Short,
        ArrowType::Int32 => PrimitiveType::Integer,
        ArrowType::Int64 => PrimitiveType::Long,
        ArrowType::Float32 => PrimitiveType::Float,
        ArrowType::Float64 => PrimitiveType::Double,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => PrimitiveType::String,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => {
            PrimitiveType::Binary
        }
        ArrowType::Date32 => PrimitiveType::Date,
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => PrimitiveType::TimestampNtz,
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(zone)) if matches!(&**zone, "UTC" | "+00:00" | "Z") => {
            PrimitiveType::Timestamp
        }
        ArrowType::Decimal128(precision, scale) => DecimalType::try_new(*precision, u8::try_from(*scale).ok()?)
            .ok()?
            .into(),
        ArrowType::Dictionary(_, values) => return delta_type(values),
        ArrowType::List(item) => {
            return Some(ArrayType::new(delta_type(item.data_type())?, item.is_nullable()).into());
        }
        _ => return None,
    };
    Some(DataType::Primitive(primitive))
}

/// The Delta schema of columns, in order, each nullable and with its comment.
pub fn delta_schema(table: &str, columns: &[Column]) -> Result<StructType, LakeError> {
    let fields: Vec<StructField> = columns
        .iter()
        .map(|c| delta_field(table, c))
        .collect::<Result<_, _>>()?;
    StructType::try_new(fields).map_err(|source| LakeError::delta("build the schema of", table, source))
}

fn delta_field(table: &str, column: &Column) -> Result<StructField, LakeError> {
    let data_type = delta_type(&column.data_type).ok_or_else(|| LakeError::ColumnType {
        table: table.to_owned(),
        column: column.name.clone(),
        found: column.data_type.to_string(),
    })?;
    let comment = MetadataValue::String(column.comment.clone());
    Ok(StructField::nullable(&column.name, data_type).with_metadata([("comment", comment)]))
}

/// How the schema of a table compares with the columns that are to be written.
#[derive(Debug, PartialEq)]
pub enum Fit {
    /// Every column is there with its type. Columns that only the table has read as NULL in new rows.
    Fits,
    /// This schema has to be committed with the first rows: columns are new.
    Evolves(StructType),
}

/// Compares a table's schema with the columns of a stream, of which those from `tail` on come after the captured ones.
/// New columns go after the last captured column. Nothing is ever narrowed, renamed or retyped.
pub fn fit(table: &str, schema: &StructType, columns: &[Column], tail: usize) -> Result<Fit, LakeError> {
    let changed = |column: &str, found: String, wanted: String| LakeError::SchemaChanged {
        table: table.to_owned(),
        column: column.to_owned(),
        found,
        wanted,
    };
    let by_lower: HashMap<String, &StructField> = schema.fields().map(|f| (f.name().to_lowercase(), f)).collect();
    let mut new = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let wanted = delta_field(table, column)?;
        let Some(found) = by_lower.get(&column.name.to_lowercase()) else {
            new.push((index, wanted));
            continue;
        };
        if found.name() != wanted.name() {
            let (found, wanted) = (format!("called {}", found.name()), format!("called {}", wanted.name()));
            return Err(changed(&column.name, found, wanted));
        }
        if found.data_type() != wanted.data_type() {
            let (found, wanted) = (found.data_type().to_string(), wanted.data_type().to_string());
            return Err(changed(&column.name, found, wanted));
        }
        if !found.is_nullable() {
            return Err(changed(&column.name, "NOT NULL".to_owned(), "nullable".to_owned()));
        }
    }
    let wanted: HashMap<String, ()> = columns.iter().map(|c| (c.name.to_lowercase(), ())).collect();
    if let Some(extra) = schema
        .fields()
        .find(|f| !f.is_nullable() && !wanted.contains_key(&f.name().to_lowercase()))
    {
        return Err(changed(extra.name(), "NOT NULL".to_owned(), "absent".to_owned()));
    }
    if new.is_empty() {
        return Ok(Fit::Fits);
    }
    let tail_names: Vec<&str> = columns[tail..].iter().map(|c| c.name.as_str()).collect();
    let mut fields: Vec<StructField> = schema.fields().cloned().collect();
    let mut at = fields
        .iter()
        .position(|f| tail_names.contains(&f.name().as_str()))
        .unwrap_or(fields.len());
    for (index, field) in new {
        if index >= tail {
            fields.push(field);
        } else {
            fields.insert(at, field);
            at += 1;
        }
    }
    let schema =
        StructType::try_new(fields).map_err(|source| LakeError::delta("build the schema of", table, source))?;
    Ok(Fit::Evolves(schema))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        vec![
            Column::new("_start_lsn", ArrowType::Utf8, "c"),
            Column::new("id", ArrowType::Int32, "c"),
            Column::new("_batch_id", ArrowType::Int32, "c"),
        ]
    }

    #[test]
    fn names_that_delta_refuses_are_told_apart() {
        for bad in ["a b", "a,b", "a;b", "a{", "a}", "a(", "a)", "a\nb", "a\tb", "a=b", ""] {
            assert!(refused_name(bad).is_some(), "{bad:?}");
        }
        for good in ["a", "é", "a.b", "_x", "a-b", "a]b", "a$b"] {
            assert!(refused_name(good).is_none(), "{good:?}");
        }
    }

    #[test]
    fn a_new_column_goes_after_the_captured_ones() {
        let schema = delta_schema("t", &columns()).unwrap();
        assert_eq!(fit("t", &schema, &columns(), 2).unwrap(), Fit::Fits);
        let mut wider = columns();
        wider.insert(2, Column::new("note", ArrowType::Utf8, "c"));
        wider.push(Column::new("_omitted", ArrowType::Utf8, "c"));
        let Fit::Evolves(evolved) = fit("t", &schema, &wider, 3).unwrap() else {
            panic!("must evolve");
        };
        let names: Vec<_> = evolved.fields().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["_start_lsn", "id", "note", "_batch_id", "_omitted"]);
        // A stream that lost a column writes NULL there.
        assert_eq!(fit("t", &evolved, &columns(), 2).unwrap(), Fit::Fits);
    }

    #[test]
    fn another_type_or_case_is_refused_by_name() {
        let schema = delta_schema("t", &columns()).unwrap();
        let mut retyped = columns();
        retyped[1].data_type = ArrowType::Int64;
        let text = fit("t", &schema, &retyped, 2).unwrap_err().to_string();
        assert!(
            text.contains("column id of t is integer in the table and long in the stream"),
            "{text}"
        );
        let mut renamed = columns();
        renamed[1].name = "ID".into();
        let text = fit("t", &schema, &renamed, 2).unwrap_err().to_string();
        assert!(text.contains("called id") && text.contains("called ID"), "{text}");
    }
}
