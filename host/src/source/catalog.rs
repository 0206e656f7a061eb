//! What the database says about itself and about a capture instance, asked once when a stream opens.

use tiberius::Row;

use super::ask::{self, Asker};
use super::error::{SourceError, UnknownInstance};
use super::grants;
use super::quote;
use super::types::DeclaredType;
use crate::identity::CaptureInstance;
use crate::lsn::Lsn;
use crate::shape::{ColumnShape, META_BEFORE, TableShape};

/// The database and the capture instances that this login can see.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// The database's name, as the server spells it.
    pub database: String,
    /// The server's version, such as `16.0.4135.4`.
    pub version: String,
    instances: Vec<Instance>,
}

#[derive(Debug, Clone)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) schema: String,
    pub(super) table: String,
    start_lsn: Option<Lsn>,
    key: Vec<String>,
    /// The captured columns.
    pub(super) columns: Vec<String>,
    /// The gating role, if there is one.
    pub(super) role: Option<String>,
}

/// A table that can be read.
#[derive(Debug, Clone)]
pub struct TableSource {
    /// Its columns.
    pub shape: TableShape,
    /// The first LSN that the capture instance covers.
    pub start_lsn: Option<Lsn>,
}

const DOING: &str = "reading the CDC catalog";

impl Catalog {
    /// Asks the database. CDC must be on.
    pub async fn read(asker: &mut Asker) -> Result<Catalog, SourceError> {
        let rows = asker
            .query(
                "SELECT DB_NAME(), CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)), \
                 (SELECT is_cdc_enabled FROM sys.databases WHERE database_id = DB_ID())",
                &[],
                DOING,
            )
            .await?;
        let row = rows.first().ok_or_else(|| SourceError::Unexpected {
            doing: DOING.to_owned(),
            reason: "no row about the database".to_owned(),
        })?;
        let database = text(row, 0)?.unwrap_or_default();
        let version = text(row, 1)?.unwrap_or_default();
        let enabled: Option<bool> = row.try_get(2).map_err(|e| ask::unexpected(e, DOING))?;
        if enabled != Some(true) {
            return Err(SourceError::CdcNotEnabled { database });
        }
        let instances = asker
            .batch("EXEC sys.sp_cdc_help_change_data_capture", DOING)
            .await?
            .iter()
            .flatten()
            .map(instance)
            .collect::<Result<Vec<Instance>, SourceError>>()?;
        Ok(Catalog {
            database,
            version,
            instances,
        })
    }

    /// Opens a table: its instance, its columns, and whether this login may read it.
    pub async fn open_table(
        &self,
        asker: &mut Asker,
        capture_instance: &CaptureInstance,
    ) -> Result<TableSource, SourceError> {
        let instance = self.find(asker, capture_instance)?;
        grants::check_change_table(asker, instance).await?;
        let sql = format!(
            "EXEC sys.sp_cdc_get_captured_columns @capture_instance = {}",
            quote::literal(&instance.name)
        );
        let rows = asker.batch(&sql, DOING).await?;
        let columns = rows
            .iter()
            .flatten()
            .map(|row| column(row, &instance.key))
            .collect::<Result<Vec<ColumnShape>, SourceError>>()?;
        if columns.is_empty() {
            return Err(grants::columns_hidden(instance, &asker.user()));
        }
        Ok(TableSource {
            shape: TableShape {
                schema: instance.schema.clone(),
                table: instance.table.clone(),
                capture_instance: CaptureInstance(instance.name.clone()),
                columns,
            },
            start_lsn: instance.start_lsn,
        })
    }

    /// Why the server answers zeros for the low end of an instance that this catalog has: capture has not reached it, a
    /// grant was taken away, or it is no longer there. Asked anew; an `Err` is a failure to ask.
    pub async fn explain_zeros(
        &self,
        asker: &mut Asker,
        capture_instance: &CaptureInstance,
    ) -> Result<SourceError, SourceError> {
        let now = Catalog::read(asker).await?;
        if now.instances.iter().any(|instance| instance.name == capture_instance.0) {
            return Ok(SourceError::NotReached {
                capture_instance: capture_instance.clone(),
            });
        }
        let was = self
            .instances
            .iter()
            .find(|instance| instance.name == capture_instance.0);
        match was {
            Some(was) => Ok(grants::why_hidden(asker, was)
                .await?
                .unwrap_or_else(|| now.unknown(asker, capture_instance))),
            None => Ok(now.unknown(asker, capture_instance)),
        }
    }

    /// The instance that a name means, if this login sees it.
    pub(super) fn seen(&self, wanted: &CaptureInstance) -> Option<&Instance> {
        let exact = self.instances.iter().find(|instance| instance.name == wanted.0);
        let lower = wanted.0.to_lowercase();
        exact.or_else(|| {
            self.instances
                .iter()
                .find(|instance| instance.name.to_lowercase() == lower)
        })
    }

    /// An exact match wins; else the only one that differs just in case.
    fn find(&self, asker: &Asker, wanted: &CaptureInstance) -> Result<&Instance, SourceError> {
        if let Some(exact) = self.instances.iter().find(|instance| instance.name == wanted.0) {
            return Ok(exact);
        }
        let alike: Vec<&Instance> = self
            .instances
            .iter()
            .filter(|instance| instance.name.to_lowercase() == wanted.0.to_lowercase())
            .collect();
        match alike.as_slice() {
            [one] => Ok(one),
            [] => Err(self.unknown(asker, wanted)),
            many => Err(SourceError::AmbiguousInstance {
                names: many
                    .iter()
                    .map(|instance| instance.name.as_str())
                    .collect::<Vec<_>>()
                    .join(" and "),
            }),
        }
    }

    fn unknown(&self, asker: &Asker, wanted: &CaptureInstance) -> SourceError {
        SourceError::UnknownInstance(Box::new(UnknownInstance {
            database: self.database.clone(),
            capture_instance: wanted.clone(),
            nearest: self
                .instances
                .iter()
                .map(|instance| (strsim::jaro_winkler(&instance.name, &wanted.0), &instance.name))
                .filter(|(score, _)| *score > 0.85)
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .map(|(_, name)| name.clone()),
            known: self
                .instances
                .iter()
                .take(8)
                .map(|instance| instance.name.clone())
                .collect(),
            user: asker.user(),
            grant: grants::source_by_name(&wanted.0, &asker.user()),
        }))
    }
}

fn instance(row: &Row) -> Result<Instance, SourceError> {
    let by_name = |column: &'static str| -> Result<Option<String>, SourceError> {
        let value: Option<&str> = row.try_get(column).map_err(|e| ask::unexpected(e, DOING))?;
        Ok(value.map(str::to_owned))
    };
    let start: Option<&[u8]> = row.try_get("start_lsn").map_err(|e| ask::unexpected(e, DOING))?;
    Ok(Instance {
        name: by_name("capture_instance")?.unwrap_or_default(),
        schema: by_name("source_schema")?.unwrap_or_default(),
        table: by_name("source_table")?.unwrap_or_default(),
        start_lsn: start.and_then(Lsn::from_bytes).filter(|lsn| !lsn.is_zero()),
        key: by_name("index_column_list")?
            .map(|list| bracketed(&list))
            .unwrap_or_default(),
        columns: by_name("captured_column_list")?
            .map(|list| bracketed(&list))
            .unwrap_or_default(),
        role: by_name("role_name")?.filter(|role| !role.is_empty()),
    })
}

fn column(row: &Row, key: &[String]) -> Result<ColumnShape, SourceError> {
    let name: Option<&str> = row.try_get("column_name").map_err(|e| ask::unexpected(e, DOING))?;
    let name = name.unwrap_or_default().to_owned();
    let data_type: Option<&str> = row.try_get("data_type").map_err(|e| ask::unexpected(e, DOING))?;
    let data_type = data_type.unwrap_or_default().to_ascii_lowercase();
    let precision = number(row, "numeric_precision")?;
    let scale = number(row, "numeric_scale")?;
    let fraction = number(row, "datetime_precision")?;
    let declared = DeclaredType {
        name: &data_type,
        length: number(row, "character_maximum_length")?,
        precision: precision.and_then(|n| u8::try_from(n).ok()),
        scale: scale.or(fraction).and_then(|n| u8::try_from(n).ok()),
    };
    if META_BEFORE.iter().any(|meta| meta.eq_ignore_ascii_case(&name)) {
        return Err(SourceError::ColumnName {
            column: name,
            reason: "has the name of one of the metadata columns that sluice adds".to_owned(),
        });
    }
    let arrow = declared.arrow().ok_or_else(|| SourceError::UnsupportedType {
        column: name.clone(),
        source_type: declared.text(),
    })?;
    Ok(ColumnShape {
        source_type: declared.text(),
        data_type: arrow,
        key: key
            .iter()
            .position(|part| *part == name)
            .and_then(|position| u32::try_from(position + 1).ok()),
        name,
    })
}

/// The procedure's columns are `int`, `smallint` or `tinyint`, by version.
fn number(row: &Row, column: &'static str) -> Result<Option<i32>, SourceError> {
    if let Ok(value) = row.try_get::<i32, _>(column) {
        return Ok(value);
    }
    if let Ok(value) = row.try_get::<i16, _>(column) {
        return Ok(value.map(i32::from));
    }
    let value: Option<u8> = row.try_get(column).map_err(|e| ask::unexpected(e, DOING))?;
    Ok(value.map(i32::from))
}

fn text(row: &Row, column: usize) -> Result<Option<String>, SourceError> {
    let value: Option<&str> = row.try_get(column).map_err(|e| ask::unexpected(e, DOING))?;
    Ok(value.map(str::to_owned))
}

/// The names in `[id], [line]]no]`, in order.
fn bracketed(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut characters = list.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '[' {
            continue;
        }
        let mut name = String::new();
        while let Some(character) = characters.next() {
            if character != ']' {
                name.push(character);
            } else if characters.peek() == Some(&']') {
                characters.next();
                name.push(']');
            } else {
                break;
            }
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_columns_are_read_with_their_brackets() {
        assert_eq!(bracketed("[id], [line]]no]"), ["id", "line]no"]);
        assert!(bracketed("").is_empty());
    }
}
