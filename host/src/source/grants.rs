//! What the login may read, what it lacks, and the T-SQL that gives it. Least of all, it needs: to be a user of the
//! database; SELECT on the captured columns of each source table, which shows it the capture instance; membership in the
//! gating role, where the instance has one; and SELECT on the change table.
//!
//! Source: `sys.sp_cdc_help_change_data_capture` and `sys.sp_cdc_enable_table`, sections "Permissions"; the change table is
//! read directly, so it needs a grant of its own.

use std::fmt::Write as _;

use super::ask::{self, Asker};
use super::catalog::Catalog;
use super::error::SourceError;
use super::listing::Listed;
use super::quote;
use crate::config::{Authentication, SourceSettings};
use crate::identity::CaptureInstance;

const DOING: &str = "looking at grants";
/// The user of whoever owns the database, and of members of sysadmin. It may do everything, and nothing can be granted to it.
const OWNER: &str = "dbo";

/// The grants that the configured tables need.
#[derive(Debug, Clone)]
pub struct GrantScript {
    database: String,
    user: String,
    create_user: String,
    tables: Vec<Grants>,
}

/// The grants of one table.
#[derive(Debug, Clone)]
pub struct Grants {
    /// The table.
    pub capture_instance: CaptureInstance,
    /// Whether the login sees the capture instance. If not, its source table is guessed from its name.
    pub seen: bool,
    /// The statements, without a semicolon.
    pub statements: Vec<String>,
}

impl GrantScript {
    /// The grants for these tables. `catalog` is what the login sees; `None` when it may not open the database.
    pub fn new<'i>(
        settings: &SourceSettings,
        catalog: Option<&Catalog>,
        tables: impl IntoIterator<Item = &'i CaptureInstance>,
    ) -> GrantScript {
        let user = settings.database_user();
        let tables = tables
            .into_iter()
            .map(|wanted| {
                let seen = catalog.map_or_else(Vec::new, |catalog| catalog.seen(wanted));
                Grants {
                    capture_instance: wanted.clone(),
                    seen: !seen.is_empty(),
                    statements: match seen.is_empty() {
                        _ if user == OWNER => Vec::new(),
                        true => guessed(wanted, &user),
                        false => known(&seen, &user),
                    },
                }
            })
            .collect();
        GrantScript {
            database: catalog.map_or_else(|| settings.database.clone(), |catalog| catalog.database.clone()),
            create_user: create_user(settings, &user),
            user,
            tables,
        }
    }

    /// The grants, table by table.
    pub fn tables(&self) -> &[Grants] {
        &self.tables
    }

    /// The user of the database that they are for.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// A script that can be run as it is, and again.
    pub fn text(&self) -> String {
        if self.user == OWNER {
            return "-- The login is dbo in this database, and needs no grant. One that may only read is safer: create a login, \
                    name it in source.user, and run this again.\n"
                .to_owned();
        }
        let mut text = format!(
            "-- What sluice reads with, and nothing more. To be run by a member of db_owner.\n\
             USE {};\n\
             IF DATABASE_PRINCIPAL_ID({}) IS NULL {};\n",
            quote::name(&self.database),
            quote::literal(&self.user),
            self.create_user
        );
        for table in &self.tables {
            let name = comment(&table.capture_instance.0);
            let _ = if table.seen {
                writeln!(text, "-- {name}")
            } else {
                writeln!(
                    text,
                    "-- {name}: the login does not see this capture instance, so its table is guessed from its name, and a \
                     gating role is not known.\n\
                     -- What they are: SELECT OBJECT_SCHEMA_NAME(source_object_id), OBJECT_NAME(source_object_id), role_name \
                     FROM cdc.change_tables WHERE capture_instance = {}\n\
                     -- With a gating role, also: ALTER ROLE [that role] ADD MEMBER {}",
                    comment(&quote::literal(&table.capture_instance.0)),
                    comment(&quote::name(&self.user))
                )
            };
            for statement in &table.statements {
                let _ = writeln!(text, "{statement};");
            }
        }
        text
    }
}

/// One line of a comment: a name may have line ends in it.
fn comment(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

/// The statement that makes the login a user of the database.
pub(super) fn create_user(settings: &SourceSettings, user: &str) -> String {
    match &settings.authentication {
        Authentication::Sql { user: login, .. } => {
            format!("CREATE USER {} FOR LOGIN {}", quote::name(user), quote::name(login))
        }
        Authentication::Token(_) => format!("CREATE USER {} FROM EXTERNAL PROVIDER", quote::name(user)),
    }
}

/// What the instances of one table need: a stream goes on from one to the next.
fn known(instances: &[&Listed], user: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    for listed in instances {
        statements.push(on_source(listed, user));
        if let Some(role) = &listed.instance.role {
            statements.push(join(role, user));
        }
        statements.push(select(&quote::change_table(&listed.instance.name.0), user));
    }
    let mut kept = std::collections::BTreeSet::new();
    statements.retain(|statement| kept.insert(statement.clone()));
    statements
}

fn guessed(wanted: &CaptureInstance, user: &str) -> Vec<String> {
    let source = by_default_name(&wanted.0).map(|table| select(&table, user));
    source
        .into_iter()
        .chain([select(&quote::change_table(&wanted.0), user)])
        .collect()
}

fn select(object: &str, user: &str) -> String {
    format!("GRANT SELECT ON {object} TO {}", quote::name(user))
}

fn join(role: &str, user: &str) -> String {
    format!("ALTER ROLE {} ADD MEMBER {}", quote::name(role), quote::name(user))
}

/// SELECT on the captured columns, and on no other.
fn on_source(listed: &Listed, user: &str) -> String {
    let table = format!("{}.{}", quote::name(&listed.schema), quote::name(&listed.table));
    if listed.columns.is_empty() {
        return select(&table, user);
    }
    let columns: Vec<String> = listed.columns.iter().map(|column| quote::name(column)).collect();
    select(&format!("{table} ({})", columns.join(", ")), user)
}

/// The source table of an instance with the default name `<schema>_<table>`. A schema with an underscore is not seen.
fn by_default_name(capture_instance: &str) -> Option<String> {
    match capture_instance.split_once('_') {
        Some((schema, table)) if !schema.is_empty() && !table.is_empty() => {
            Some(format!("{}.{}", quote::name(schema), quote::name(table)))
        }
        _ => None,
    }
}

/// The grant that shows an instance of the default name to a login.
pub(super) fn source_by_name(capture_instance: &str, user: &str) -> String {
    select(
        by_default_name(capture_instance)
            .as_deref()
            .unwrap_or("the captured columns of its source table"),
        user,
    )
}

/// The change table cannot be read.
pub(super) fn change_table_denied(instance: &CaptureInstance, user: &str) -> SourceError {
    let object = quote::change_table(&instance.0);
    SourceError::Permission {
        grant: select(&object, user),
        object,
        user: user.to_owned(),
    }
}

/// The instance is seen, but not its columns.
pub(super) fn columns_hidden(instance: &CaptureInstance, (schema, table): (&str, &str), user: &str) -> SourceError {
    SourceError::Permission {
        object: format!("the captured columns of {instance}"),
        grant: select(&format!("{}.{}", quote::name(schema), quote::name(table)), user),
        user: user.to_owned(),
    }
}

/// Asks whether the change table can be read.
pub(super) async fn check_change_table(asker: &mut Asker, instance: &CaptureInstance) -> Result<(), SourceError> {
    let table = quote::change_table(&instance.0);
    let rows = asker
        .query("SELECT HAS_PERMS_BY_NAME(@P1, N'OBJECT', N'SELECT')", &[&table], DOING)
        .await?;
    match number(&rows, 0)? {
        Some(1) => Ok(()),
        _ => Err(change_table_denied(instance, &asker.user())),
    }
}

/// Why the login does not see an instance any more that it saw before; `None` when its change table is gone.
pub(super) async fn why_hidden(asker: &mut Asker, was: &Listed) -> Result<Option<SourceError>, SourceError> {
    let change_table = quote::change_table(&was.instance.name.0);
    let source = format!("{}.{}", quote::name(&was.schema), quote::name(&was.table));
    let rows = asker
        .query(
            "SELECT OBJECT_ID(@P1), HAS_PERMS_BY_NAME(@P2, N'OBJECT', N'SELECT')",
            &[&change_table, &source],
            DOING,
        )
        .await?;
    if number(&rows, 0)?.is_none() {
        return Ok(None);
    }
    // SELECT on each captured column is what counts; a grant on the table is one on its columns.
    let mut columns = true;
    if number(&rows, 1)? != Some(1) {
        for column in &was.columns {
            let rows = asker
                .query(
                    "SELECT HAS_PERMS_BY_NAME(@P1, N'OBJECT', N'SELECT', @P2, N'COLUMN')",
                    &[&source, column],
                    DOING,
                )
                .await?;
            // NULL is a column that is gone, which needs no grant.
            columns &= number(&rows, 0)? != Some(0);
        }
    }
    let user = asker.user();
    Ok(Some(SourceError::Permission {
        object: format!("the capture instance {}", was.instance.name),
        grant: match &was.instance.role {
            Some(role) if columns => join(role, &user),
            _ => on_source(was, &user),
        },
        user,
    }))
}

fn number(rows: &[tiberius::Row], column: usize) -> Result<Option<i32>, SourceError> {
    match rows.first() {
        Some(row) => row.try_get(column).map_err(|e| ask::unexpected(e, DOING)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Secret, TokenSource};

    const SOURCE: &str = "server = \"h\"\ndatabase = \"d\"\nuser = \"reader\"\npassword = \"p\"\n";

    fn script_for(settings: &SourceSettings) -> String {
        GrantScript::new(settings, None, [&CaptureInstance("dbo_t".to_owned())]).text()
    }

    #[test]
    fn the_grant_is_guessed_from_the_default_name() {
        assert_eq!(
            source_by_name("dbo_order_items", "cdc_reader"),
            "GRANT SELECT ON [dbo].[order_items] TO [cdc_reader]"
        );
        assert_eq!(by_default_name("orders"), None);
    }

    #[test]
    fn a_login_that_comes_in_as_guest_is_made_a_user_and_guest_gets_nothing() {
        let settings = SourceSettings::for_test(SOURCE);
        settings.learned.is_principal("etl");
        assert!(script_for(&settings).contains("GRANT SELECT ON [dbo].[t] TO [etl];"));
        settings.learned.is_principal("guest");
        let script = script_for(&settings);
        assert!(!script.contains("guest"), "{script}");
        assert!(
            script.contains("IF DATABASE_PRINCIPAL_ID(N'reader') IS NULL CREATE USER [reader] FOR LOGIN [reader];"),
            "{script}"
        );
        assert!(script.contains("GRANT SELECT ON [dbo].[t] TO [reader];"), "{script}");
    }

    #[test]
    fn the_user_of_a_token_has_one_name_throughout_before_it_is_known() {
        let mut settings = SourceSettings::for_test(SOURCE);
        settings.user = String::new();
        settings.authentication = Authentication::Token(TokenSource::ClientCredentials {
            endpoint: "https://h/token".to_owned(),
            client_id: "app".to_owned(),
            client_secret: Secret::new("s"),
            scope: "scope".to_owned(),
        });
        let script = script_for(&settings);
        assert!(
            script.contains("CREATE USER [name of the token's user] FROM EXTERNAL PROVIDER;"),
            "{script}"
        );
        assert!(
            script.contains("GRANT SELECT ON [dbo].[t] TO [name of the token's user];"),
            "{script}"
        );
    }

    #[test]
    fn a_script_quotes_every_name() {
        let settings =
            SourceSettings::for_test("server = \"h\"\ndatabase = \"a]b\"\nuser = \"x'y]\"\npassword = \"p\"\n");
        let table = CaptureInstance("dbo_t\nDROP TABLE x".to_owned());
        let script = GrantScript::new(&settings, None, [&table]).text();
        assert!(script.contains("USE [a]]b];\n"), "{script}");
        assert!(
            script.contains("IF DATABASE_PRINCIPAL_ID(N'x''y]') IS NULL CREATE USER [x'y]]] FOR LOGIN [x'y]]];"),
            "{script}"
        );
        assert!(
            script.contains("GRANT SELECT ON [dbo].[t\nDROP TABLE x] TO [x'y]]];"),
            "{script}"
        );
        // A line end of a name does not end a comment.
        assert!(!script.lines().any(|line| line == "DROP TABLE x"), "{script}");
    }
}
