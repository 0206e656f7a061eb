//! Who may do what: grants on objects, schemas and the database, through roles.

use serde::{Deserialize, Serialize};

use super::{Catalog, Table, User, same_name};

/// What a grant allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    Select,
    Insert,
    Update,
    Delete,
    Alter,
    Execute,
    Control,
    ViewDatabaseState,
    Connect,
}

impl Action {
    /// An action by its T-SQL name.
    pub fn by_name(name: &str) -> Option<Action> {
        Some(match name.to_ascii_uppercase().as_str() {
            "SELECT" => Action::Select,
            "INSERT" => Action::Insert,
            "UPDATE" => Action::Update,
            "DELETE" => Action::Delete,
            "ALTER" => Action::Alter,
            "EXECUTE" | "EXEC" => Action::Execute,
            "CONTROL" => Action::Control,
            "VIEW DATABASE STATE" | "VIEW DEFINITION" => Action::ViewDatabaseState,
            "CONNECT" => Action::Connect,
            _ => return None,
        })
    }

    /// The name in error texts.
    pub fn name(self) -> &'static str {
        match self {
            Action::Select => "SELECT",
            Action::Insert => "INSERT",
            Action::Update => "UPDATE",
            Action::Delete => "DELETE",
            Action::Alter => "ALTER",
            Action::Execute => "EXECUTE",
            Action::Control => "CONTROL",
            Action::ViewDatabaseState => "VIEW DATABASE STATE",
            Action::Connect => "CONNECT",
        }
    }
}

/// A grant or a denial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// User or role.
    pub grantee: String,
    pub action: Action,
    /// Column ids; empty for all of them.
    pub columns: Vec<i64>,
    /// For a grant on a schema: its id.
    pub schema: Option<i64>,
    pub deny: bool,
}

impl Catalog {
    /// Whether a user is a member of a role, itself or through other roles.
    pub fn is_member(&self, user: &User, role: &str) -> bool {
        same_name(&user.name, role)
            || same_name(role, "public")
            || user.roles.iter().any(|r| {
                same_name(r, role)
                    || self
                        .user(r)
                        .is_some_and(|u| u.is_role && u.id != user.id && self.is_member(u, role))
            })
    }

    /// Whether a user may act on a table, or on some columns of it. `None` asks about all columns.
    pub fn allows(&self, user: &User, action: Action, table: &Table, columns: Option<&[i64]>) -> bool {
        if self.is_member(user, "db_owner") {
            return true;
        }
        let bears = |grant: &Grant| grant.action == action || grant.action == Action::Control;
        let on_object = || {
            table
                .grants
                .iter()
                .filter(|g| bears(g) && self.is_member(user, &g.grantee))
        };
        let covers = |grant: &Grant, id: i64| grant.columns.is_empty() || grant.columns.contains(&id);
        let wanted: Vec<i64> = match columns {
            Some(ids) => ids.to_vec(),
            None => table.columns.iter().map(|c| c.id).collect(),
        };
        if on_object().any(|g| g.deny && (g.columns.is_empty() || wanted.iter().any(|id| covers(g, *id)))) {
            return false;
        }
        let change_schema = self.schema_name(table.schema_id) == "cdc";
        let reads = self.is_member(user, "db_datareader") && action == Action::Select;
        let writes =
            self.is_member(user, "db_datawriter") && matches!(action, Action::Insert | Action::Update | Action::Delete);
        let wide = self.users.values().any(|holder| {
            self.is_member(user, &holder.name)
                && holder
                    .grants
                    .iter()
                    .any(|g| bears(g) && !g.deny && g.schema.is_none_or(|s| s == table.schema_id))
        });
        if reads || writes || wide {
            return true;
        }
        if change_schema && same_name(&table.name, "lsn_time_mapping") && action == Action::Select {
            return true;
        }
        if wanted.is_empty() {
            return on_object().any(|g| !g.deny);
        }
        wanted.iter().all(|id| on_object().any(|g| !g.deny && covers(g, *id)))
    }
}
