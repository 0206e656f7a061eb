//! Options of a database.

use std::sync::Arc;

use super::super::Session;
use crate::{
    catalog::{Object, SETTINGS_ID, same_name},
    error::{SqlResult, sql_error},
};

impl Session {
    /// `ALTER DATABASE … SET` of the row-versioning options, of this database or another.
    pub(super) fn alter_database(&mut self, name: &str, option: &str, on: bool) -> SqlResult<()> {
        let database = if same_name(name, "CURRENT") {
            Arc::clone(&self.database)
        } else {
            self.engine.database(name).ok_or_else(|| {
                sql_error(
                    5011,
                    14,
                    format!("User does not have permission to alter database '{name}', the database does not exist, or the database is not in a state that allows access checks."),
                )
            })?
        };
        let change = |session: &mut Session| {
            session.context()?;
            let mut settings = session.catalog.settings.clone();
            if option == "ALLOW_SNAPSHOT_ISOLATION" {
                settings.allow_snapshot = Some(on);
            } else {
                settings.read_committed_snapshot = Some(on);
            }
            session.put_object(SETTINGS_ID, &Object::Settings(settings))
        };
        if database.id == self.database.id {
            return self.write(change);
        }
        let mut there = Session::open(Arc::clone(&self.engine), database, &self.login, self.spid)?;
        there.write(change)
    }
}
