//! What a transform is opened for, and what it answers.

use std::fmt;

/// The table that a transform is opened for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Source schema, such as `dbo`.
    pub schema: String,
    /// Source table.
    pub name: String,
    /// The capture instance that it is read through.
    pub capture_instance: String,
    /// The columns in order, without the metadata columns (`_start_lsn`, `_seqval`, `_operation`, `_command_id`,
    /// `_commit_ts`), which can be read by name all the same.
    pub fields: Vec<SourceField>,
}

impl Table {
    /// The positions of the columns of this name, ignoring case (SQL Server's usual collations do). There is more
    /// than one only under a collation that minds case.
    pub fn find(&self, name: &str) -> Vec<usize> {
        let wanted = name.to_lowercase();
        let matches = |field: &SourceField| field.name.to_lowercase() == wanted;
        (0..self.fields.len())
            .filter(|&index| matches(&self.fields[index]))
            .collect()
    }
}

/// A column of the source table, as the transform's input has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceField {
    /// Its name.
    pub name: String,
    /// Its type on the boundary.
    pub data_type: DataType,
    /// Whether it can hold NULL.
    pub nullable: bool,
    /// The declared SQL Server type, such as `nvarchar(100)`; of an earlier step's output, the name of its type.
    pub source_type: String,
    /// Position in the table's key, from 1; `None` when the column is not part of it.
    pub key: Option<u32>,
}

/// The type of a column. Each is one Arrow type with one buffer layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Values are a bitmap, least significant bit first.
    Boolean,
    /// 2 bytes a value.
    Int16,
    /// 4 bytes a value.
    Int32,
    /// 8 bytes a value.
    Int64,
    /// 4 bytes a value, IEEE 754.
    Float32,
    /// 8 bytes a value, IEEE 754.
    Float64,
    /// 16 bytes a value, two's complement, the value times 10^scale.
    Decimal {
        /// Digits, 1 to 38.
        precision: u8,
        /// Digits after the point, at most `precision`.
        scale: u8,
    },
    /// 4 bytes a value: days since 1970-01-01.
    Date,
    /// 8 bytes a value: microseconds since 1970-01-01T00:00:00, UTC.
    Timestamp,
    /// 8 bytes a value: microseconds since 1970-01-01T00:00:00, no zone.
    TimestampNtz,
    /// UTF-8 text.
    Utf8,
    /// Bytes.
    Binary,
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Int16 => "smallint",
            Self::Int32 => "int",
            Self::Int64 => "bigint",
            Self::Float32 => "float",
            Self::Float64 => "double",
            Self::Decimal { precision, scale } => {
                return write!(f, "decimal({precision},{scale})");
            }
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::TimestampNtz => "timestamp_ntz",
            Self::Utf8 => "string",
            Self::Binary => "binary",
        })
    }
}

/// What will come out of a transform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The output columns, in order. An input column that no output names is dropped.
    pub outputs: Vec<OutputColumn>,
    /// The input or metadata columns that `apply` wants to see, in the order in which it gets them.
    pub reads: Vec<String>,
}

/// One output column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: OutputSource,
}

impl OutputColumn {
    /// An input column that the host moves across untouched, under this name.
    pub fn pass(name: &str, source: &str) -> Self {
        Self {
            name: name.to_owned(),
            source: OutputSource::Pass(source.to_owned()),
        }
    }

    /// A column that `apply` computes.
    pub fn computed(name: &str, field: ComputedField) -> Self {
        Self {
            name: name.to_owned(),
            source: OutputSource::Computed(field),
        }
    }
}

/// Where an output column comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputSource {
    /// The named input column, moved across untouched by the host.
    Pass(String),
    /// Computed by `apply`.
    Computed(ComputedField),
}

/// A column that a transform computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedField {
    /// Its type.
    pub data_type: DataType,
    /// Whether it can hold NULL.
    pub nullable: bool,
    /// The input columns that it is made from; shown by `sluice check`.
    pub sources: Vec<String>,
    /// How, in a few words for people: `keyed hash`. Never a value, and not the keys, which `sluice check` adds.
    pub how: String,
    /// The keys that it is made with, by name; shown by `sluice check` with their versions. Each must be granted.
    pub keys: Vec<String>,
}

impl ComputedField {
    /// A column made from these input columns without a key; `how` in a few words for people, never a value.
    pub fn new(data_type: DataType, nullable: bool, sources: Vec<String>, how: impl Into<String>) -> Self {
        Self {
            data_type,
            nullable,
            sources,
            how: how.into(),
            keys: Vec::new(),
        }
    }

    /// The same column, made with these keys.
    #[must_use]
    pub fn with_keys<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys = keys.into_iter().map(Into::into).collect();
        self
    }
}

/// Why a transform cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The configuration is wrong.
    Config {
        /// Where: a JSON path such as `columns.email.length`; empty for the whole.
        path: String,
        /// Why.
        reason: String,
    },
    /// Columns that the configuration says nothing about, while it says that this is an error.
    Unlisted(Vec<String>),
    /// Columns that the configuration names and the table does not have.
    Missing(Vec<String>),
    /// The method does not work on a column of this type.
    Unsupported {
        /// The column.
        column: String,
        /// Why.
        reason: String,
    },
}

impl OpenError {
    /// A mistake in the configuration at a JSON path.
    pub fn config(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Config {
            path: path.into(),
            reason: reason.into(),
        }
    }

    /// A method that does not work on a column.
    pub fn unsupported(column: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Unsupported {
            column: column.into(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config { path, reason } if path.is_empty() => f.write_str(reason),
            Self::Config { path, reason } => write!(f, "{path}: {reason}"),
            Self::Unlisted(columns) => write!(f, "the configuration says nothing about {}", columns.join(", ")),
            Self::Missing(columns) => write!(f, "the table has no column {}", columns.join(", ")),
            Self::Unsupported { column, reason } => write!(f, "column {column}: {reason}"),
        }
    }
}

impl std::error::Error for OpenError {}
