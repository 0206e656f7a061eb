//! What a statement knows besides its arguments: the session, the clock, the catalogue and the CDC positions; and the
//! functions that answer from it.

mod functions;
mod properties;

use std::{cell::RefCell, sync::Arc};

pub use functions::{ContextFunc, call};
pub(crate) use functions::{may_read_instance, split_name};
pub use properties::global;

use crate::{
    catalog::{Action, Catalog, Table, User},
    cdc::Lsn,
    clock::Moment,
    database::Database,
    engine::Engine,
    interrupt::Interrupt,
};

/// The surroundings of one statement.
#[derive(Clone)]
pub struct StatementContext {
    pub engine: Arc<Engine>,
    pub database: Arc<Database>,
    pub catalog: Arc<Catalog>,
    /// The login.
    pub login: String,
    /// Whether it is the sysadmin.
    pub admin: bool,
    pub spid: i64,
    pub transactions: i64,
    /// Rows of the last statement.
    pub row_count: i64,
    /// Number of the last statement's error, or 0.
    pub last_error: i64,
    /// The last identity value of the session.
    pub identity: Option<i64>,
    /// When the statement began: every clock function of it answers the same.
    pub now: Moment,
    pub lock_timeout_ms: i64,
    /// The newest LSN that the user is shown, when it is not the newest that there is: an older copy of the database.
    pub as_of: Option<Lsn>,
    /// Under SNAPSHOT isolation in a database that does not allow it.
    pub snapshot_refused: bool,
    pub(crate) interrupt: Interrupt,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<StatementContext>>> = const { RefCell::new(None) };
}

/// Makes the context that of the statements run on this thread until it is dropped.
pub struct Entered(Option<Arc<StatementContext>>);

impl StatementContext {
    /// Enters the context on this thread.
    pub fn enter(self: &Arc<Self>) -> Entered {
        Entered(CURRENT.with(|slot| slot.borrow_mut().replace(Arc::clone(self))))
    }

    /// The last entry of `cdc.lsn_time_mapping` that the user is shown.
    pub fn max_lsn(&self) -> Option<Lsn> {
        let newest = self.database.cdc.lock().max_lsn;
        match self.as_of {
            // An older copy from before the first entry has none.
            Some(as_of) => newest.map(|l| l.min(as_of)).filter(|l| *l > Lsn::ZERO),
            None => newest,
        }
    }

    /// The database user of the login, `guest` included; none for the sysadmin, who is `dbo`.
    pub fn user(&self) -> Option<&Arc<User>> {
        if self.admin {
            None
        } else {
            self.catalog.admitted(&self.login)
        }
    }

    /// Whether the session's user is `dbo` or a member of `db_owner`.
    pub fn is_owner(&self) -> bool {
        self.admin || self.user().is_some_and(|u| self.catalog.is_member(u, "db_owner"))
    }

    /// Whether the user may act on (columns of) a table.
    pub fn allows(&self, action: Action, table: &Table, columns: Option<&[i64]>) -> bool {
        self.admin
            || self
                .user()
                .is_some_and(|u| self.catalog.allows(u, action, table, columns))
    }

    /// Whether the user sees a table in the catalogue views and metadata functions: any grant on it will do.
    pub fn sees(&self, table: &Table) -> bool {
        if self.is_owner() {
            return true;
        }
        let Some(user) = self.user() else {
            return false;
        };
        self.catalog.schema_name(table.schema_id) == "cdc"
            || self.allows(Action::Select, table, Some(&[]))
            || table
                .grants
                .iter()
                .any(|g| !g.deny && self.catalog.is_member(user, &g.grantee))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.0.take();
        CURRENT.with(|slot| *slot.borrow_mut() = before);
    }
}

fn current() -> Option<Arc<StatementContext>> {
    CURRENT.with(|slot| slot.borrow().clone())
}
