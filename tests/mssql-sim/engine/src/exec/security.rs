//! Logins, users, roles and grants.

use super::{Session, storage};
use crate::{
    catalog::{Action, GUEST, Grant, Object, SETTINGS_ID, Table, User, put, remove, same_name},
    error::{SqlResult, invalid_column, not_supported, sql_error},
    parse::{GrantSpec, SecurityStatement},
    result::SqlError,
};

impl Session {
    pub(crate) fn security(&mut self, statement: &SecurityStatement) -> SqlResult<()> {
        let ctx = self.context()?;
        let allowed = match statement {
            SecurityStatement::CreateLogin { .. }
            | SecurityStatement::AlterLogin { .. }
            | SecurityStatement::DropLogin(_) => ctx.admin,
            _ => ctx.is_owner(),
        };
        if !allowed {
            let mut error = sql_error(15247, 16, "User does not have permission to perform this action.");
            error.state = 1;
            return Err(error);
        }
        let of_logins = matches!(
            statement,
            SecurityStatement::CreateLogin { .. }
                | SecurityStatement::AlterLogin { .. }
                | SecurityStatement::DropLogin(_)
        );
        if of_logins && self.engine.options.version.is_azure() && self.database.id != 1 {
            return Err(sql_error(5001, 16, "User must be in the master database."));
        }
        match statement {
            SecurityStatement::CreateLogin { name, password } => self.engine.put_login(name, password, false),
            SecurityStatement::AlterLogin { name, password } => match password {
                Some(password) => self.engine.put_login(name, password, true),
                None => Ok(()),
            },
            SecurityStatement::DropLogin(name) => self.engine.drop_login(name),
            SecurityStatement::CreateUser { name, login } => {
                if let Some(login) = login
                    && !self.engine.has_login(login)?
                {
                    return Err(sql_error(
                        15007,
                        16,
                        format!("'{login}' is not a valid login or you do not have permission."),
                    ));
                }
                self.create_principal(name, login.clone(), false)
            }
            SecurityStatement::CreateRole(name) => self.create_principal(name, None, true),
            SecurityStatement::DropUser { name, if_exists } => self.drop_principal(name, false, *if_exists),
            SecurityStatement::DropRole(name) => self.drop_principal(name, true, false),
            SecurityStatement::Membership { role, member, add } => self.membership(role, member, *add),
            SecurityStatement::Grant(grant) => self.grant(grant),
        }
    }

    fn create_principal(&mut self, name: &str, login: Option<String>, is_role: bool) -> SqlResult<()> {
        self.write(|session| {
            session.context()?;
            let built_in = ["dbo", GUEST, "public"];
            if session.catalog.user(name).is_some() || built_in.iter().any(|known| same_name(name, known)) {
                return Err(sql_error(
                    15023,
                    16,
                    format!("User, group, or role '{name}' already exists in the current database."),
                ));
            }
            if let Some(login) = &login
                && session.catalog.user_of_login(login).is_some()
            {
                return Err(sql_error(
                    15063,
                    16,
                    "The login already has an account under a different user name.",
                ));
            }
            let id = session.next_object_id()?;
            let user = User {
                id,
                name: name.to_owned(),
                login,
                is_role,
                roles: Vec::new(),
                grants: Vec::new(),
            };
            session.put_object(id, &Object::User(user))
        })
    }

    fn drop_principal(&mut self, name: &str, role: bool, if_exists: bool) -> SqlResult<()> {
        self.write(|session| {
            session.context()?;
            match session.catalog.user(name).cloned() {
                Some(user) if user.is_role == role => {
                    remove(&session.conn, session.database.next_version(), user.id).map_err(storage)
                }
                _ if if_exists => Ok(()),
                _ => Err(unknown_principal(if role { "role" } else { "user" }, name)),
            }
        })
    }

    /// Puts a user or role into a role, or takes it out.
    pub(crate) fn membership(&mut self, role: &str, member: &str, add: bool) -> SqlResult<()> {
        self.write(|session| {
            session.context()?;
            if !session.catalog.user(role).is_some_and(|u| u.is_role) {
                return Err(unknown_principal("role", role));
            }
            let Some(user) = session.catalog.user(member).cloned() else {
                return Err(unknown_principal("principal", member));
            };
            let mut user = (*user).clone();
            user.roles.retain(|r| !same_name(r, role));
            if add {
                user.roles.push(role.to_owned());
            }
            session.put_object(user.id, &Object::User(user))
        })
    }

    fn grant(&mut self, spec: &GrantSpec) -> SqlResult<()> {
        self.write(|session| {
            session.context()?;
            if spec.grantees.iter().any(|grantee| same_name(grantee, GUEST)) {
                return session.admit_guest(spec);
            }
            for grantee in &spec.grantees {
                if session.catalog.user(grantee).is_none() && !same_name(grantee, "public") {
                    return Err(unknown_principal("user", grantee));
                }
            }
            match spec.class.as_str() {
                "OBJECT" => {
                    let table = session.table(&spec.securable).map_err(|_| {
                        sql_error(
                            15151,
                            16,
                            format!(
                                "Cannot find the object '{}', because it does not exist or you do not have permission.",
                                spec.securable.last().map_or("", String::as_str)
                            ),
                        )
                    })?;
                    let mut table: Table = (*table).clone();
                    for (permission, columns) in &spec.permissions {
                        let mut ids = Vec::new();
                        for name in columns {
                            ids.push(table.column(name).ok_or_else(|| invalid_column(name))?.id);
                        }
                        for action in actions(permission)? {
                            for grantee in &spec.grantees {
                                change(&mut table.grants, &spec.verb, grantee, action, &ids, None);
                            }
                        }
                    }
                    session.put_object(table.id, &Object::Table(table))
                }
                "SCHEMA" | "DATABASE" | "" => {
                    let schema = if spec.class == "SCHEMA" {
                        let name = spec.securable.last().map_or("", String::as_str);
                        let found = session.catalog.schema(name).map(|s| s.id);
                        Some(found.ok_or_else(|| unknown_principal("schema", name))?)
                    } else {
                        None
                    };
                    for grantee in &spec.grantees {
                        let Some(user) = session.catalog.user(grantee).cloned() else {
                            return Err(not_supported("public"));
                        };
                        let mut user = (*user).clone();
                        for (permission, _) in &spec.permissions {
                            for action in actions(permission)? {
                                change(&mut user.grants, &spec.verb, grantee, action, &[], schema);
                            }
                        }
                        session.put_object(user.id, &Object::User(user))?;
                        session.context()?;
                    }
                    Ok(())
                }
                other => Err(not_supported(other)),
            }
        })
    }

    /// CONNECT for `guest`, which lets every login in; nothing else is granted to it here.
    fn admit_guest(&mut self, spec: &GrantSpec) -> SqlResult<()> {
        match spec.permissions.as_slice() {
            [(permission, _)] if permission == "CONNECT" && spec.class.is_empty() && spec.grantees.len() == 1 => {
                let mut settings = self.catalog.settings.clone();
                settings.guest = spec.verb == "GRANT";
                self.put_object(SETTINGS_ID, &Object::Settings(settings))
            }
            _ => Err(not_supported(GUEST)),
        }
    }

    /// A new object id.
    pub(crate) fn next_object_id(&mut self) -> SqlResult<i64> {
        self.context()?;
        let mut settings = self.catalog.settings.clone();
        let id = settings.next_id;
        // Ids look random there; a fixed stride is as good.
        settings.next_id += 16_000_057;
        if settings.next_id > 2_147_000_000 {
            settings.next_id -= 2_000_000_000;
        }
        self.put_object(SETTINGS_ID, &Object::Settings(settings))?;
        Ok(id)
    }

    /// Writes a catalogue object and sees it at once.
    pub(crate) fn put_object(&mut self, id: i64, object: &Object) -> SqlResult<()> {
        put(&self.conn, self.database.next_version(), id, object).map_err(storage)?;
        self.catalog = crate::catalog::load(&self.conn, &self.catalog).map_err(storage)?;
        Ok(())
    }
}

fn actions(permission: &str) -> SqlResult<Vec<Action>> {
    if permission == "ALL" || permission == "ALL PRIVILEGES" {
        return Ok(vec![Action::Select, Action::Insert, Action::Update, Action::Delete]);
    }
    Action::by_name(permission)
        .map(|a| vec![a])
        .ok_or_else(|| crate::error::syntax_near(permission))
}

fn change(grants: &mut Vec<Grant>, verb: &str, grantee: &str, action: Action, columns: &[i64], schema: Option<i64>) {
    let same = |g: &Grant| same_name(&g.grantee, grantee) && g.action == action && g.schema == schema;
    if columns.is_empty() {
        grants.retain(|g| !same(g));
    } else {
        // A grant on columns that lost the last of them would mean all columns, so it goes.
        grants.retain_mut(|g| {
            if !same(g) || g.columns.is_empty() {
                return true;
            }
            g.columns.retain(|c| !columns.contains(c));
            !g.columns.is_empty()
        });
    }
    if verb != "REVOKE" {
        grants.push(Grant {
            grantee: grantee.to_owned(),
            action,
            columns: columns.to_vec(),
            schema,
            deny: verb == "DENY",
        });
    }
}

fn unknown_principal(kind: &str, name: &str) -> SqlError {
    sql_error(
        15151,
        16,
        format!("Cannot find the {kind} '{name}', because it does not exist or you do not have permission."),
    )
}
