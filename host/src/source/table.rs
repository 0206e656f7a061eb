//! A source table as CDC has it: its capture instances, in the order in which they take over, and their columns.
//!
//! A capture instance keeps its column list. After ALTER TABLE … ADD, a second instance is made, and from the LSN at which
//! it begins, S, every commit is in both: the older one is read below S, the newer one from S on. Both together are one
//! stream with the columns of both; a column that an instance does not capture is NULL in its rows.

use super::error::SourceError;
use crate::checkpoint::Begin;
use crate::identity::CaptureInstance;
use crate::lsn::Lsn;
use crate::shape::{ColumnShape, META_BEFORE, Recorded, TableShape};

/// A table that CDC captures.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceTable {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// Its instances that a stream reads, in the order in which they take over; at least one.
    pub instances: Vec<SourceInstance>,
    /// Where those begin that are there and that the stream has behind it.
    pub(super) behind: Vec<Begin>,
}

/// A capture instance.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceInstance {
    /// Its name, as the server spells it.
    pub name: CaptureInstance,
    /// The first LSN that it covers, or what cleanup has left of it: the server moves it along. `None`: capture has not reached
    /// it, so that it begins after every LSN that is known.
    pub start_lsn: Option<Lsn>,
    /// The columns that it captures, in its order.
    pub columns: Vec<CapturedColumn>,
    /// Whether its change table has `__$command_id`, which some builds of SQL Server 2016 lack.
    pub has_command_id: bool,
    /// When it was made, on the server's clock.
    pub(crate) created: i64,
    /// The names of the key's columns, in order.
    pub(super) key: Vec<String>,
    /// The gating role, if there is one.
    pub(super) role: Option<String>,
}

/// A captured column.
#[derive(Debug, Clone, PartialEq)]
pub struct CapturedColumn {
    /// The id that the source table has it under. A column that is dropped and added again under its name has another one.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// Its declared type, as in T-SQL.
    pub source_type: String,
    /// The type of its values here; `None`: it cannot be read.
    pub data_type: Option<arrow::datatypes::DataType>,
    /// In which of its change rows CDC records it.
    pub recorded: Recorded,
    /// What has become of it in the source table.
    pub(super) fate: Fate,
}

/// What has become of a captured column in the source table. One that was dropped stays captured, as NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is there.
    There,
    /// It was dropped.
    Dropped,
    /// It was dropped, and another one was added under its name.
    Replaced,
}

/// A part of a range, and the instance that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Which instance of the table.
    pub instance: usize,
    /// First LSN.
    pub from: Lsn,
    /// Last LSN.
    pub to: Lsn,
}

impl SourceTable {
    /// Which instance has the commits at an LSN: the last that begins at or before it, else the first.
    pub fn in_force(&self, lsn: Lsn) -> usize {
        let begun = |instance: &SourceInstance| instance.start_lsn.is_some_and(|start| start <= lsn);
        self.instances.iter().rposition(begun).unwrap_or(0)
    }

    /// Takes what is known of where instances begin.
    pub fn remember(&mut self, begins: &[Begin]) {
        self.instances.iter_mut().for_each(|instance| instance.remember(begins));
    }

    /// Where its instances begin, as far as that is known, in the order in which they take over.
    pub fn begins(&self) -> Vec<Begin> {
        let ahead = self.instances.iter().filter_map(SourceInstance::begin);
        self.behind.iter().cloned().chain(ahead).collect()
    }

    /// The parts of a closed range, by instance, in order.
    pub fn pieces(&self, from: Lsn, to: Lsn) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = from;
        for instance in self.in_force(from)..self.instances.len() {
            let next = self.instances[instance + 1..]
                .iter()
                .filter_map(|later| later.start_lsn)
                .min()
                .unwrap_or(Lsn::MAX);
            let end = if next == Lsn::MAX { to } else { to.min(next.previous()) };
            if at <= end {
                pieces.push(Piece {
                    instance,
                    from: at,
                    to: end,
                });
                at = end.next();
            }
            if at > to {
                break;
            }
        }
        pieces
    }

    /// Whether another look at the table found what this one did, as far as a stream depends on it.
    pub fn is_same(&self, other: &SourceTable) -> bool {
        let instance = |instance: &SourceInstance| (instance.name.clone(), instance.created);
        let names = |table: &SourceTable| table.instances.iter().map(instance).collect::<Vec<_>>();
        let columns = |table: &SourceTable| {
            // What is recorded of a column follows from its type.
            let of =
                |column: &CapturedColumn| (column.id, column.name.clone(), column.source_type.clone(), column.fate);
            let columns = table.instances.iter().flat_map(|instance| &instance.columns);
            columns.map(of).collect::<Vec<_>>()
        };
        names(self) == names(other) && columns(self) == columns(other)
    }

    /// The instances that a stream at this position needs: the configured one and those that take over from it; those before
    /// it only where the position lies before it.
    pub(super) fn in_reach(&mut self, configured: &str, position: Option<Lsn>) {
        let Some(configured) = self.instances.iter().position(|one| one.name.0 == configured) else {
            return;
        };
        let first = match position {
            Some(position) => configured.min(self.in_force(position.next())),
            None => configured,
        };
        let behind = self.instances.drain(..first);
        self.behind = behind.filter_map(|instance| instance.begin()).collect();
    }

    /// The shape of the stream: the columns of all instances, `only` those where it is given.
    ///
    /// # Errors
    /// A column that cannot be read, a name that clashes, or one that `only` has and the table has not.
    pub fn shape(&self, named: &CaptureInstance, only: Option<&[String]>) -> Result<TableShape, SourceError> {
        let mut columns: Vec<ColumnShape> = Vec::new();
        let mut through: Vec<&CaptureInstance> = Vec::new();
        let wanted = |name: &str| only.is_none_or(|only| only.iter().any(|one| one == name));
        for instance in &self.instances {
            for column in instance.columns.iter().filter(|column| wanted(&column.name)) {
                let shape = instance.shape_of(column)?;
                match columns.iter().position(|known| known.name == column.name) {
                    None => {
                        columns.push(shape);
                        through.push(&instance.name);
                    }
                    Some(at) if columns[at].data_type == shape.data_type => {
                        let before = columns[at].recorded;
                        columns[at] = shape;
                        if columns[at].recorded == Recorded::Always {
                            columns[at].recorded = before;
                        }
                    }
                    Some(at) => {
                        return Err(SourceError::ColumnOfTwoTypes {
                            column: column.name.clone(),
                            earlier: through[at].clone(),
                            was: columns[at].source_type.clone(),
                            later: instance.name.clone(),
                            is: shape.source_type,
                        });
                    }
                }
            }
        }
        for column in &mut columns {
            if (0..self.instances.len()).any(|instance| self.lacks(instance, &column.name)) {
                column.recorded = Recorded::Never;
            }
        }
        // A column that newer instances have dropped is in their key no more.
        if let Some(newest) = self.instances.last() {
            for column in &mut columns {
                column.key = newest.key_position(&column.name);
            }
        }
        if let Some(missing) = only.into_iter().flatten().find(|name| {
            let captured = |instance: &SourceInstance| instance.columns.iter().any(|column| column.name == **name);
            !self.instances.iter().any(captured)
        }) {
            let known = self.instances.iter().flat_map(|instance| &instance.columns);
            return Err(SourceError::UnknownColumn {
                column: missing.clone(),
                capture_instance: named.clone(),
                nearest: known
                    .map(|column| (strsim::jaro_winkler(&column.name, missing), &column.name))
                    .filter(|(score, _)| *score > 0.8)
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .map(|(_, name)| name.clone()),
            });
        }
        Ok(TableShape {
            schema: self.schema.clone(),
            table: self.table.clone(),
            capture_instance: named.clone(),
            has_command_id: self.instances.iter().all(|instance| instance.has_command_id),
            columns,
        })
    }

    /// Whether an instance does not capture a column of which the source may have had a value. One after it captures it, or
    /// one before it did and the source still has it. Where the instance has one of this name that was dropped, the one
    /// that came back has another id.
    fn lacks(&self, instance: usize, column: &str) -> bool {
        let of = |instance: &SourceInstance| instance.columns.iter().find(|one| one.name == column).cloned();
        let own = of(&self.instances[instance]);
        let (before, after) = (&self.instances[..instance], &self.instances[instance + 1..]);
        let mut later = after.iter().filter_map(of);
        match own {
            Some(own) => own.fate == Fate::Replaced || later.any(|later| later.id != own.id),
            None => {
                let mut earlier = before.iter().filter_map(of);
                later.next().is_some() || earlier.any(|earlier| earlier.fate != Fate::Dropped)
            }
        }
    }

    /// The shape of the rows of one instance, for a stream of this shape.
    pub fn shape_of(&self, instance: usize, stream: &TableShape) -> TableShape {
        let own = &self.instances[instance];
        let columns = stream.columns.iter().map(|column| ColumnShape {
            recorded: match own.columns.iter().find(|captured| captured.name == column.name) {
                _ if self.lacks(instance, &column.name) => Recorded::Never,
                Some(captured) => captured.recorded,
                // It was dropped: there is no value.
                None => Recorded::Always,
            },
            ..column.clone()
        });
        TableShape {
            capture_instance: own.name.clone(),
            has_command_id: own.has_command_id,
            columns: columns.collect(),
            ..stream.clone()
        }
    }
}

#[cfg(test)]
impl SourceTable {
    /// A table with these instances, and no columns.
    pub(crate) fn for_test(instances: &[(&str, Option<Lsn>)]) -> SourceTable {
        let instance = |(name, start_lsn): &(&str, Option<Lsn>)| SourceInstance {
            name: CaptureInstance((*name).to_owned()),
            start_lsn: *start_lsn,
            columns: Vec::new(),
            has_command_id: true,
            created: 0,
            key: Vec::new(),
            role: None,
        };
        SourceTable {
            schema: "dbo".to_owned(),
            table: "t".to_owned(),
            instances: instances.iter().map(instance).collect(),
            behind: Vec::new(),
        }
    }
}

impl SourceInstance {
    /// Where it begins, if that is known.
    fn begin(&self) -> Option<Begin> {
        Some(Begin {
            capture_instance: self.name.clone(),
            created: self.created,
            lsn: self.start_lsn?,
        })
    }

    /// Takes what is known of where it begins: cleanup moves `start_lsn`, but it has every commit from where it began, or has
    /// lost it.
    pub(super) fn remember(&mut self, begins: &[Begin]) {
        if let (Some(begin), Some(start)) = (begins.iter().find(|begin| self.is(begin)), self.start_lsn) {
            self.start_lsn = Some(start.min(begin.lsn));
        }
    }

    /// One that was disabled and made again under its name is another.
    pub(super) fn is(&self, begin: &Begin) -> bool {
        begin.capture_instance == self.name && begin.created == self.created
    }

    fn shape_of(&self, column: &CapturedColumn) -> Result<ColumnShape, SourceError> {
        if META_BEFORE.iter().any(|meta| meta.eq_ignore_ascii_case(&column.name)) {
            return Err(SourceError::ColumnName {
                column: column.name.clone(),
                reason: "has the name of one of the metadata columns that sluice adds".to_owned(),
            });
        }
        Ok(ColumnShape {
            source_type: column.source_type.clone(),
            data_type: column.data_type.clone().ok_or_else(|| SourceError::UnsupportedType {
                column: column.name.clone(),
                source_type: column.source_type.clone(),
            })?,
            key: self.key_position(&column.name),
            recorded: column.recorded,
            name: column.name.clone(),
        })
    }

    fn key_position(&self, column: &str) -> Option<u32> {
        self.key
            .iter()
            .position(|part| part == column)
            .and_then(|position| u32::try_from(position + 1).ok())
    }

    /// Whether it captures a column of this name.
    pub fn captures(&self, column: &str) -> bool {
        self.columns.iter().any(|captured| captured.name == column)
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;
    use crate::error::{Classify as _, ErrorKind};

    fn lsn(n: u8) -> Lsn {
        Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, n])
    }

    fn instance(name: &str, start: Option<u8>, columns: &[(i32, &str, DataType)]) -> SourceInstance {
        SourceInstance {
            name: CaptureInstance(name.to_owned()),
            start_lsn: start.map(lsn),
            columns: columns
                .iter()
                .map(|(id, name, data_type)| CapturedColumn {
                    id: *id,
                    name: (*name).to_owned(),
                    source_type: data_type.to_string(),
                    data_type: Some(data_type.clone()),
                    recorded: Recorded::Always,
                    fate: Fate::There,
                })
                .collect(),
            has_command_id: true,
            created: 0,
            key: vec!["id".to_owned()],
            role: None,
        }
    }

    fn table(instances: Vec<SourceInstance>) -> SourceTable {
        SourceTable {
            schema: "dbo".to_owned(),
            table: "t".to_owned(),
            instances,
            behind: Vec::new(),
        }
    }

    fn two() -> SourceTable {
        table(vec![
            instance("v1", Some(1), &[(1, "id", DataType::Int32), (2, "old", DataType::Utf8)]),
            instance("v2", Some(4), &[(1, "id", DataType::Int32), (3, "new", DataType::Utf8)]),
        ])
    }

    fn pieces(table: &SourceTable, from: u8, to: u8) -> Vec<(usize, Lsn, Lsn)> {
        let pieces = table.pieces(lsn(from), lsn(to));
        pieces
            .iter()
            .map(|piece| (piece.instance, piece.from, piece.to))
            .collect()
    }

    #[test]
    fn the_older_instance_is_read_below_the_start_of_the_newer_one() {
        let table = two();
        assert_eq!(
            pieces(&table, 2, 6),
            [(0, lsn(2), lsn(4).previous()), (1, lsn(4), lsn(6))]
        );
        assert_eq!(pieces(&table, 2, 3), [(0, lsn(2), lsn(3))]);
        assert_eq!(pieces(&table, 4, 9), [(1, lsn(4), lsn(9))]);
        // Before the first begins, it is still the first that is asked.
        let late = super::tests::table(vec![instance("v1", Some(5), &[]), instance("v2", None, &[])]);
        assert_eq!(pieces(&late, 2, 9), [(0, lsn(2), lsn(9))]);
    }

    #[test]
    fn of_two_that_begin_at_one_lsn_the_later_made_is_read() {
        let table = table(vec![instance("v1", Some(4), &[]), instance("v2", Some(4), &[])]);
        assert_eq!(pieces(&table, 4, 6), [(1, lsn(4), lsn(6))]);
        assert_eq!(
            pieces(&table, 2, 6),
            [(0, lsn(2), lsn(4).previous()), (1, lsn(4), lsn(6))]
        );
    }

    #[test]
    fn a_stream_has_the_columns_of_both_instances() {
        let mut table = two();
        table.instances[0].columns[1].fate = Fate::Dropped;
        let shape = table.shape(&CaptureInstance("v1".to_owned()), None).unwrap();
        let names: Vec<&str> = shape.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["id", "old", "new"]);
        assert_eq!(shape.columns[0].key, Some(1));
        // What the older one did not capture the source may have had; what was dropped it had not.
        let recorded = |instance: usize| {
            table
                .shape_of(instance, &shape)
                .columns
                .iter()
                .map(|c| c.recorded)
                .collect::<Vec<_>>()
        };
        assert_eq!(recorded(0), [Recorded::Always, Recorded::Always, Recorded::Never]);
        assert_eq!(recorded(1), [Recorded::Always; 3]);
        assert_eq!(shape.columns[2].recorded, Recorded::Never);
    }

    #[test]
    fn a_column_that_the_newer_instance_leaves_out_may_have_a_value_while_the_source_has_it() {
        let table = two();
        let shape = table.shape(&CaptureInstance("v1".to_owned()), None).unwrap();
        assert_eq!(table.shape_of(0, &shape).columns[1].recorded, Recorded::Always);
        assert_eq!(table.shape_of(1, &shape).columns[1].recorded, Recorded::Never);
        assert_eq!(shape.columns[1].recorded, Recorded::Never);
    }

    #[test]
    fn a_column_that_came_back_has_no_value_in_the_instance_of_the_one_that_was_dropped() {
        let mut table = table(vec![instance(
            "v1",
            Some(1),
            &[(1, "id", DataType::Int32), (2, "old", DataType::Utf8)],
        )]);
        let recorded = |table: &SourceTable| {
            let shape = table.shape(&CaptureInstance("v1".to_owned()), None).unwrap();
            table.shape_of(0, &shape).columns[1].recorded
        };
        assert_eq!(recorded(&table), Recorded::Always);
        let before = table.clone();
        table.instances[0].columns[1].fate = Fate::Replaced;
        assert_eq!(recorded(&table), Recorded::Never);
        assert!(!table.is_same(&before), "its stream is opened again");
    }

    #[test]
    fn a_column_that_came_back_with_another_type_is_a_changed_schema() {
        let mut table = two();
        table.instances[1] = instance(
            "v2",
            Some(4),
            &[(1, "id", DataType::Int32), (3, "old", DataType::Int64)],
        );
        let error = table.shape(&CaptureInstance("v1".to_owned()), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaChanged);
        assert!(
            error.to_string().contains("old") && error.to_string().contains("v2"),
            "{error}"
        );
        // One that came back with its type goes on.
        table.instances[1] = instance("v2", Some(4), &[(1, "id", DataType::Int32), (3, "old", DataType::Utf8)]);
        assert_eq!(
            table
                .shape(&CaptureInstance("v1".to_owned()), None)
                .unwrap()
                .columns
                .len(),
            2
        );
    }

    #[test]
    fn only_the_columns_that_are_wanted_are_read() {
        let mut table = two();
        table.instances[0].columns[1].data_type = None;
        let named = CaptureInstance("v1".to_owned());
        assert!(table.shape(&named, None).is_err());
        let only = ["id".to_owned(), "new".to_owned()];
        assert_eq!(table.shape(&named, Some(&only)).unwrap().columns.len(), 2);
        let error = table
            .shape(&named, Some(&["id".to_owned(), "nwe".to_owned()]))
            .unwrap_err();
        assert!(error.to_string().contains("nwe"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Config);
    }

    #[test]
    fn what_lies_before_the_configured_instance_is_read_only_by_a_stream_that_is_there() {
        let reach = |configured: &str, position: Option<u8>| {
            let mut table = two();
            table.in_reach(configured, position.map(lsn));
            table.instances.into_iter().map(|one| one.name.0).collect::<Vec<_>>()
        };
        assert_eq!(reach("v1", None), ["v1", "v2"]);
        assert_eq!(reach("v1", Some(9)), ["v1", "v2"]);
        assert_eq!(reach("v2", None), ["v2"]);
        assert_eq!(reach("v2", Some(1)), ["v1", "v2"]);
        // The next LSN is the one at which v2 begins.
        assert_eq!(reach("v2", Some(3)), ["v2"]);
    }
}
