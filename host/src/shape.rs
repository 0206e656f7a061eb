//! The shape of a table as it flows through sluice: its columns on the source and their Arrow types.

use arrow::datatypes::DataType;

use crate::identity::CaptureInstance;

/// The names of the metadata columns that come before the captured ones in every chunk, in order.
pub const META_BEFORE: [&str; 6] = [
    "_capture_instance",
    "_start_lsn",
    "_seqval",
    "_operation",
    "_command_id",
    "_commit_ts",
];

/// The names of the metadata columns that bronze has after the captured ones, in order.
pub const META_AFTER: [&str; 3] = ["_batch_id", "_snapshot", "_chunk"];

/// A table's captured columns, in the order of its capture instance.
#[derive(Clone, Debug, PartialEq)]
pub struct TableShape {
    /// Source schema, such as `dbo`.
    pub schema: String,
    /// Source table.
    pub table: String,
    /// The capture instance that it is read through.
    pub capture_instance: CaptureInstance,
    /// Whether its change table has `__$command_id`, which some builds of SQL Server 2016 lack.
    pub has_command_id: bool,
    /// Captured columns.
    pub columns: Vec<ColumnShape>,
}

/// One captured column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnShape {
    /// Its name on the source.
    pub name: String,
    /// The declared type, such as `nvarchar(100)`.
    pub source_type: String,
    /// The type that it has from the reader on.
    pub data_type: DataType,
    /// Its position in the table's key, from 1.
    pub key: Option<u32>,
    /// In which of its change rows CDC records it.
    pub recorded: Recorded,
}

/// In which change rows CDC records a column. In the others it is NULL, whatever the source has. Source: the page of
/// `cdc.<capture_instance>_CT`, "Large object data types".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// In all of them.
    Always,
    /// In the row after an insert or an update (2, 4), and not in a delete or the row before an update (1, 3): `text`,
    /// `ntext`, `image`.
    After,
    /// In all but the row before an update (3) that left the column alone: `varchar(max)`, `nvarchar(max)`,
    /// `varbinary(max)`.
    Changed {
        /// The column's bit in `__$update_mask`, from 1.
        ordinal: u32,
    },
    /// In none: computed columns.
    Never,
}

impl TableShape {
    /// Whether rows can lack a value that the source had.
    pub fn omits(&self) -> bool {
        self.columns.iter().any(|column| column.recorded != Recorded::Always)
    }

    /// Whether it takes `__$update_mask` to tell what was not recorded from NULL.
    pub fn needs_update_mask(&self) -> bool {
        self.columns
            .iter()
            .any(|column| matches!(column.recorded, Recorded::Changed { .. }))
    }
}

impl Recorded {
    /// Whether a row of this operation lacks the column. `mask` is the row's `__$update_mask`: the bit of column n is bit
    /// (n − 1) mod 8 of the byte (n − 1) / 8 from its end.
    pub fn is_omitted(self, operation: i32, mask: &[u8]) -> bool {
        match self {
            Recorded::Always => false,
            Recorded::After => matches!(operation, 1 | 3),
            Recorded::Changed { ordinal } => {
                let bit = ordinal.saturating_sub(1) as usize;
                let byte = mask.len().checked_sub(bit / 8 + 1).and_then(|at| mask.get(at));
                operation == 3 && byte.is_none_or(|byte| byte >> (bit % 8) & 1 == 0)
            }
            Recorded::Never => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_follows_operation_and_mask() {
        let omitted = |recorded: Recorded, mask: &[u8]| -> Vec<i32> {
            (1..=4)
                .filter(|operation| recorded.is_omitted(*operation, mask))
                .collect()
        };
        assert_eq!(omitted(Recorded::Always, &[0]), Vec::<i32>::new());
        assert_eq!(omitted(Recorded::After, &[0xFF]), [1, 3]);
        assert_eq!(omitted(Recorded::Never, &[0xFF]), [1, 2, 3, 4]);
        let tenth = Recorded::Changed { ordinal: 10 };
        assert_eq!(omitted(tenth, &[0b0000_0010, 0]), Vec::<i32>::new());
        assert_eq!(omitted(tenth, &[0b1111_1101, 0xFF]), [3]);
        assert_eq!(omitted(tenth, &[0xFF]), [3]);
    }
}
