//! What the database says about itself and about a capture instance, asked once when a stream opens.

use std::sync::Arc;

use tiberius::Row;

use super::ask::{self, Asker};
use super::error::{SourceError, UnknownInstance};
use super::grants;
use super::listing::{self, Listed};
use super::recorded;
use super::server_clock;
use super::table::SourceTable;
use crate::checkpoint::Begin;
use crate::clock::Zone;
use crate::identity::CaptureInstance;
use crate::lsn::Lsn;
use crate::shape::TableShape;

/// A capture instance, and the table that it captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceName {
    /// Its name.
    pub name: CaptureInstance,
    /// The table's schema.
    pub schema: String,
    /// The table's name.
    pub table: String,
}

impl InstanceName {
    /// What the server calls the first instance of the table when nobody says how.
    pub fn default_name(&self) -> String {
        format!("{}_{}", self.schema, self.table)
    }
}

/// The database and the capture instances that this login can see.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// The database's name, as the server spells it.
    pub database: String,
    /// The server's version, such as `16.0.4135.4`.
    pub version: String,
    /// What is known of the zone of its clock.
    pub zone: Zone,
    /// What the operator should know of the source as a whole.
    pub warnings: Vec<String>,
    instances: Vec<Listed>,
}

/// A table that can be read.
#[derive(Debug, Clone)]
pub struct TableSource {
    /// Its capture instances, as far as the stream reads them.
    pub table: Arc<SourceTable>,
    /// The columns of the stream.
    pub shape: TableShape,
}

const DOING: &str = "reading the CDC catalog";

impl Catalog {
    /// Asks the database. CDC must be on.
    pub async fn read(asker: &mut Asker) -> Result<Catalog, SourceError> {
        let (database, version) = expect_cdc(asker).await?;
        let instances = listing::list(asker).await?;
        let mut warnings = Vec::new();
        let zone = server_clock::zone(asker, &version, &mut warnings).await?;
        Ok(Catalog {
            database,
            version,
            zone,
            warnings,
            instances,
        })
    }

    /// Opens a table: the instances that a stream at `position` reads (`begins`: where it has seen them begin), the columns of
    /// the stream (`only` these, where it is given), and whether this login may read them.
    pub async fn open_table(
        &self,
        asker: &mut Asker,
        capture_instance: &CaptureInstance,
        position: Option<Lsn>,
        begins: &[Begin],
        only: Option<&[String]>,
    ) -> Result<TableSource, SourceError> {
        let listed = self.find(asker, capture_instance).await?;
        let known = listing::Known {
            clock: self.zone.named(),
            begins,
        };
        let instances = listing::instances(asker, &listed.schema, &listed.table, known).await?;
        let mut table = SourceTable {
            instances,
            schema: listed.schema,
            table: listed.table,
            behind: Vec::new(),
        };
        let named = listed.instance.name;
        table.in_reach(&named.0, position);
        if table.instances.is_empty() {
            return Err(self.explain_zeros(asker, &named).await?);
        }
        // One that was disabled gives its name to the stream all the same: those after it go on.
        let named = match table.instances.iter().any(|instance| instance.name == named) {
            true => named,
            false => table.instances[0].name.clone(),
        };
        for instance in &mut table.instances {
            grants::check_change_table(asker, &instance.name).await?;
            let sql = listing::captured_columns(&instance.name);
            let rows = asker.batch(&sql, DOING).await?;
            instance.columns = rows
                .iter()
                .flatten()
                .zip(1..)
                .map(|(row, position)| listing::column(row, position))
                .collect::<Result<_, _>>()?;
            if instance.columns.is_empty() {
                return Err(grants::columns_hidden(
                    &instance.name,
                    (&table.schema, &table.table),
                    &asker.user(),
                ));
            }
        }
        for instance in &mut table.instances {
            recorded::complete(asker, (&table.schema, &table.table), instance).await?;
        }
        Ok(TableSource {
            shape: table.shape(&named, only)?,
            table: Arc::new(table),
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
        if now
            .instances
            .iter()
            .any(|listed| listed.instance.name == *capture_instance)
        {
            return Ok(SourceError::NotReached {
                capture_instance: capture_instance.clone(),
            });
        }
        let was = self
            .instances
            .iter()
            .find(|listed| listed.instance.name == *capture_instance);
        match was {
            Some(was) => Ok(grants::why_hidden(asker, was)
                .await?
                .unwrap_or_else(|| now.unknown(asker, capture_instance))),
            None => Ok(now.unknown(asker, capture_instance)),
        }
    }

    /// All instances that this login sees.
    /// Every capture instance that this login sees, in the order in which they were made.
    pub fn instances(&self) -> Vec<InstanceName> {
        let mut listed: Vec<&Listed> = self.instances.iter().collect();
        listed.sort_by(|one, other| {
            let key = |listed: &Listed| (listed.instance.created, listed.instance.name.clone());
            key(one).cmp(&key(other))
        });
        let of = |listed: &Listed| InstanceName {
            name: listed.instance.name.clone(),
            schema: listed.schema.clone(),
            table: listed.table.clone(),
        };
        listed.into_iter().map(of).collect()
    }

    pub(super) fn listed(&self) -> &[Listed] {
        &self.instances
    }

    /// The instances of the table that a name means, as far as this login sees them.
    pub(super) fn seen(&self, wanted: &CaptureInstance) -> Vec<&Listed> {
        let Ok(Some(named)) = self.matching(wanted) else {
            return Vec::new();
        };
        let same = |listed: &&Listed| listed.schema == named.schema && listed.table == named.table;
        self.instances.iter().filter(same).collect()
    }

    /// The instance of a name, with its table: an exact match wins; else the only one that differs just in case. A default
    /// name (`<schema>_<table>`) still finds its table after that instance was disabled.
    async fn find(&self, asker: &mut Asker, wanted: &CaptureInstance) -> Result<Listed, SourceError> {
        if let Some(found) = self.matching(wanted)? {
            return Ok(found.clone());
        }
        // It may have been made, or another one in its place, since this catalog was read.
        let now = Catalog::read(asker).await?;
        if let Some(found) = now.matching(wanted)? {
            return Ok(found.clone());
        }
        let default =
            |listed: &&Listed| format!("{}_{}", listed.schema, listed.table).to_lowercase() == wanted.0.to_lowercase();
        match now.instances.iter().find(default) {
            Some(found) => Ok(found.clone()),
            None => Err(now.unknown(asker, wanted)),
        }
    }

    fn matching(&self, wanted: &CaptureInstance) -> Result<Option<&Listed>, SourceError> {
        let named = |listed: &&Listed| listed.instance.name == *wanted;
        if let Some(exact) = self.instances.iter().find(named) {
            return Ok(Some(exact));
        }
        let alike: Vec<&Listed> = self
            .instances
            .iter()
            .filter(|listed| listed.instance.name.0.to_lowercase() == wanted.0.to_lowercase())
            .collect();
        match alike.as_slice() {
            [one] => Ok(Some(one)),
            [] => Ok(None),
            many => Err(SourceError::AmbiguousInstance {
                names: many
                    .iter()
                    .map(|listed| listed.instance.name.0.as_str())
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
                .map(|listed| &listed.instance.name.0)
                .map(|name| (strsim::jaro_winkler(name, &wanted.0), name))
                .filter(|(score, _)| *score > 0.85)
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .map(|(_, name)| name.clone()),
            known: self
                .instances
                .iter()
                .take(8)
                .map(|listed| listed.instance.name.0.clone())
                .collect(),
            user: asker.user(),
            grant: grants::source_by_name(&wanted.0, &asker.user()),
        }))
    }
}

/// The database's name and the server's version. An error when CDC is off.
pub(super) async fn expect_cdc(asker: &mut Asker) -> Result<(String, String), SourceError> {
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
    match enabled {
        Some(true) => Ok((database, version)),
        _ => Err(SourceError::CdcNotEnabled { database }),
    }
}

fn text(row: &Row, column: usize) -> Result<Option<String>, SourceError> {
    let value: Option<&str> = row.try_get(column).map_err(|e| ask::unexpected(e, DOING))?;
    Ok(value.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Classify as _, ErrorKind};

    /// A catalog with instances of these names.
    fn catalog(names: &[&str]) -> Catalog {
        let named: Vec<(&str, Option<Lsn>)> = names.iter().map(|name| (*name, None)).collect();
        let instances = SourceTable::for_test(&named).instances.into_iter();
        Catalog {
            database: "sales".to_owned(),
            version: "16.0.4135.4".to_owned(),
            zone: Zone::Unknown,
            warnings: Vec::new(),
            instances: instances
                .map(|instance| Listed {
                    schema: "dbo".to_owned(),
                    table: "t".to_owned(),
                    columns: Vec::new(),
                    instance,
                })
                .collect(),
        }
    }

    /// The instance that a name means.
    fn found(catalog: &Catalog, wanted: &str) -> Option<String> {
        let found = catalog.matching(&CaptureInstance(wanted.to_owned())).unwrap();
        found.map(|listed| listed.instance.name.0.clone())
    }

    #[test]
    fn the_only_name_that_differs_just_in_case_is_found() {
        let catalog = catalog(&["dbo_other", "Dbo_Äpfel"]);
        assert_eq!(found(&catalog, "dbo_äpfel").as_deref(), Some("Dbo_Äpfel"));
        assert_eq!(found(&catalog, "dbo_apfel"), None);
    }

    #[test]
    fn an_exact_name_wins_over_those_that_differ_just_in_case() {
        let catalog = catalog(&["DBO_T", "dbo_t", "Dbo_T"]);
        for name in ["DBO_T", "dbo_t", "Dbo_T"] {
            assert_eq!(found(&catalog, name).as_deref(), Some(name));
        }
    }

    #[test]
    fn of_names_that_differ_just_in_case_one_has_to_be_written_exactly() {
        let error = catalog(&["DBO_T", "dbo_other", "dbo_t"])
            .matching(&CaptureInstance("Dbo_T".to_owned()))
            .unwrap_err();
        assert!(matches!(error, SourceError::AmbiguousInstance { .. }), "{error}");
        assert!(
            error.to_string().contains("DBO_T and dbo_t differ only in case"),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::Config);
    }
}
