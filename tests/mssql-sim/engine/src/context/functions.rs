//! Functions that answer from the statement's context.

use super::{
    StatementContext, current,
    properties::{identity, server_property},
};
use crate::{
    catalog::{Action, DBO, Table, same_name, system_view},
    cdc::Lsn,
    error::{SqlResult, invalid_object, sql_error, storage_fault},
    functions::Argument,
    types::{TICKS_PER_SECOND, convert, round_to_datetime},
    value::{Length, SqlType, Value},
    version::ServerVersion,
};

/// A function of the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub enum ContextFunc {
    GetDate = 1,
    GetUtcDate,
    SysDateTime,
    SysUtcDateTime,
    SysDateTimeOffset,
    CurrentTimezone,
    CurrentTimezoneId,
    DbName,
    DbId,
    ObjectId,
    ObjectName,
    ObjectSchemaName,
    SchemaName,
    SchemaId,
    Login,
    UserName,
    LoginId,
    UserId,
    HasPermsByName,
    HasDbAccess,
    IsMember,
    IsSrvRoleMember,
    ServerProperty,
    DatabasePropertyEx,
    ScopeIdentity,
    IdentCurrent,
    HostName,
    AppName,
    XactState,
    ColLength,
    ColName,
    TypeName,
    MaxLsn,
    MinLsn,
    LsnToTime,
    TimeToLsn,
    ColumnOrdinal,
    SessionProperty,
}

const SYSNAME: SqlType = SqlType::NVarChar(Length::Limited(128));
const DATETIME2: SqlType = SqlType::DateTime2(7);

/// Name, function, result type, least and greatest number of arguments.
const TABLE: &[(&str, ContextFunc, SqlType, usize, usize)] = &[
    ("GETDATE", ContextFunc::GetDate, SqlType::DateTime, 0, 0),
    ("CURRENT_TIMESTAMP", ContextFunc::GetDate, SqlType::DateTime, 0, 0),
    ("GETUTCDATE", ContextFunc::GetUtcDate, SqlType::DateTime, 0, 0),
    ("SYSDATETIME", ContextFunc::SysDateTime, DATETIME2, 0, 0),
    ("SYSUTCDATETIME", ContextFunc::SysUtcDateTime, DATETIME2, 0, 0),
    (
        "SYSDATETIMEOFFSET",
        ContextFunc::SysDateTimeOffset,
        SqlType::DateTimeOffset(7),
        0,
        0,
    ),
    (
        "CURRENT_TIMEZONE",
        ContextFunc::CurrentTimezone,
        SqlType::VarChar(Length::Limited(128)),
        0,
        0,
    ),
    (
        "CURRENT_TIMEZONE_ID",
        ContextFunc::CurrentTimezoneId,
        SqlType::VarChar(Length::Limited(128)),
        0,
        0,
    ),
    ("DB_NAME", ContextFunc::DbName, SYSNAME, 0, 1),
    ("DB_ID", ContextFunc::DbId, SqlType::SmallInt, 0, 1),
    ("OBJECT_ID", ContextFunc::ObjectId, SqlType::Int, 1, 2),
    ("OBJECT_NAME", ContextFunc::ObjectName, SYSNAME, 1, 2),
    ("OBJECT_SCHEMA_NAME", ContextFunc::ObjectSchemaName, SYSNAME, 1, 2),
    ("SCHEMA_NAME", ContextFunc::SchemaName, SYSNAME, 0, 1),
    ("SCHEMA_ID", ContextFunc::SchemaId, SqlType::Int, 0, 1),
    ("SUSER_SNAME", ContextFunc::Login, SYSNAME, 0, 1),
    ("SUSER_NAME", ContextFunc::Login, SYSNAME, 0, 1),
    ("SUSER_ID", ContextFunc::LoginId, SqlType::Int, 0, 1),
    ("ORIGINAL_LOGIN", ContextFunc::Login, SYSNAME, 0, 0),
    ("SYSTEM_USER", ContextFunc::Login, SYSNAME, 0, 0),
    ("USER_NAME", ContextFunc::UserName, SYSNAME, 0, 1),
    ("CURRENT_USER", ContextFunc::UserName, SYSNAME, 0, 0),
    ("SESSION_USER", ContextFunc::UserName, SYSNAME, 0, 0),
    ("USER", ContextFunc::UserName, SYSNAME, 0, 0),
    ("USER_ID", ContextFunc::UserId, SqlType::Int, 0, 1),
    ("DATABASE_PRINCIPAL_ID", ContextFunc::UserId, SqlType::Int, 0, 1),
    ("HAS_PERMS_BY_NAME", ContextFunc::HasPermsByName, SqlType::Int, 3, 5),
    ("HAS_DBACCESS", ContextFunc::HasDbAccess, SqlType::Int, 1, 1),
    ("IS_MEMBER", ContextFunc::IsMember, SqlType::Int, 1, 1),
    ("IS_ROLEMEMBER", ContextFunc::IsMember, SqlType::Int, 1, 2),
    ("IS_SRVROLEMEMBER", ContextFunc::IsSrvRoleMember, SqlType::Int, 1, 2),
    ("SERVERPROPERTY", ContextFunc::ServerProperty, SYSNAME, 1, 1),
    ("DATABASEPROPERTYEX", ContextFunc::DatabasePropertyEx, SYSNAME, 2, 2),
    ("SESSIONPROPERTY", ContextFunc::SessionProperty, SqlType::Int, 1, 1),
    (
        "SCOPE_IDENTITY",
        ContextFunc::ScopeIdentity,
        SqlType::Decimal {
            precision: 38,
            scale: 0,
        },
        0,
        0,
    ),
    (
        "IDENT_CURRENT",
        ContextFunc::IdentCurrent,
        SqlType::Decimal {
            precision: 38,
            scale: 0,
        },
        1,
        1,
    ),
    ("HOST_NAME", ContextFunc::HostName, SYSNAME, 0, 0),
    ("APP_NAME", ContextFunc::AppName, SYSNAME, 0, 0),
    ("XACT_STATE", ContextFunc::XactState, SqlType::SmallInt, 0, 0),
    ("COL_LENGTH", ContextFunc::ColLength, SqlType::SmallInt, 2, 2),
    ("COL_NAME", ContextFunc::ColName, SYSNAME, 2, 2),
    ("TYPE_NAME", ContextFunc::TypeName, SYSNAME, 1, 1),
    ("FN_CDC_GET_MAX_LSN", ContextFunc::MaxLsn, SqlType::Binary(10), 0, 0),
    ("FN_CDC_GET_MIN_LSN", ContextFunc::MinLsn, SqlType::Binary(10), 1, 1),
    (
        "FN_CDC_MAP_LSN_TO_TIME",
        ContextFunc::LsnToTime,
        SqlType::DateTime,
        1,
        1,
    ),
    (
        "FN_CDC_MAP_TIME_TO_LSN",
        ContextFunc::TimeToLsn,
        SqlType::Binary(10),
        2,
        2,
    ),
    (
        "FN_CDC_GET_COLUMN_ORDINAL",
        ContextFunc::ColumnOrdinal,
        SqlType::Int,
        2,
        2,
    ),
];

impl ContextFunc {
    /// The function of a name. `CURRENT_TIMEZONE_ID` is there from 2022 on, `CURRENT_TIMEZONE` from 2019 on.
    ///
    /// # Errors
    /// 174 for a wrong number of arguments.
    pub fn by_name(name: &str, arguments: usize, version: ServerVersion) -> SqlResult<Option<(ContextFunc, SqlType)>> {
        let upper = name.to_ascii_uppercase();
        let Some((_, func, ty, low, high)) = TABLE.iter().find(|row| row.0 == upper) else {
            return Ok(None);
        };
        if *func == ContextFunc::CurrentTimezoneId && version < ServerVersion::V2022
            || *func == ContextFunc::CurrentTimezone && version < ServerVersion::V2019
        {
            return Ok(None);
        }
        if arguments < *low || arguments > *high {
            return Err(crate::error::argument_count(&name.to_lowercase(), *low));
        }
        Ok(Some((*func, *ty)))
    }

    /// Whether the answer is known before the statement runs, given constant arguments.
    pub fn foldable(self, args: &[Argument]) -> bool {
        args.iter().all(|a| a.constant.is_some())
    }

    /// The function's answer in a context.
    ///
    /// # Errors
    /// Conversion errors of arguments, and SQLite's.
    pub fn answer(self, ctx: &StatementContext, args: &[(Value, SqlType)]) -> SqlResult<Value> {
        let text = |i: usize| -> SqlResult<Option<String>> {
            match args.get(i) {
                Some((value, ty)) => match convert(value, *ty, SqlType::NVarChar(Length::Max))? {
                    Value::Text(t) => Ok(Some(t)),
                    _ => Ok(None),
                },
                None => Ok(None),
            }
        };
        let int = |i: usize| -> SqlResult<Option<i64>> {
            match args.get(i) {
                Some((value, ty)) => match convert(value, *ty, SqlType::BigInt)? {
                    Value::Int(n) => Ok(Some(n)),
                    _ => Ok(None),
                },
                None => Ok(None),
            }
        };
        let name = |t: Option<String>| t.map_or(Value::Null, Value::Text);
        let number = |n: Option<i64>| n.map_or(Value::Null, Value::Int);
        let catalog = &ctx.catalog;
        Ok(match self {
            ContextFunc::GetDate => Value::DateTime(round_to_datetime(ctx.now.local)),
            ContextFunc::GetUtcDate => Value::DateTime(round_to_datetime(ctx.now.utc)),
            ContextFunc::SysDateTime => Value::DateTime(ctx.now.local),
            ContextFunc::SysUtcDateTime => Value::DateTime(ctx.now.utc),
            ContextFunc::SysDateTimeOffset => {
                let minutes = (ctx.now.local - ctx.now.utc) / (60 * TICKS_PER_SECOND);
                Value::DateTimeOffset(ctx.now.utc, minutes as i16)
            }
            ContextFunc::CurrentTimezone => Value::Text(ctx.engine.clock.zone().display_name()),
            ContextFunc::CurrentTimezoneId => Value::Text(ctx.engine.clock.zone().id().to_owned()),
            ContextFunc::DbName => match int(0)? {
                None if args.is_empty() => Value::Text(ctx.database.name.clone()),
                None => Value::Null,
                Some(id) => name(ctx.engine.databases.read().get(&id).map(|d| d.name.clone())),
            },
            ContextFunc::DbId => match text(0)? {
                None if args.is_empty() => Value::Int(ctx.database.id),
                None => Value::Null,
                Some(t) => number(ctx.engine.database(&t).map(|d| d.id)),
            },
            ContextFunc::ObjectId => match text(0)? {
                Some(t) => number(object_id(ctx, &t)),
                None => Value::Null,
            },
            ContextFunc::ObjectName => name(int(0)?.and_then(|id| catalog.tables.get(&id)).map(|t| t.name.clone())),
            ContextFunc::ObjectSchemaName => name(
                int(0)?
                    .and_then(|id| catalog.tables.get(&id))
                    .map(|t| catalog.schema_name(t.schema_id).to_owned()),
            ),
            ContextFunc::SchemaName => match int(0)? {
                None if args.is_empty() => Value::Text("dbo".into()),
                None => Value::Null,
                Some(id) => name(Some(catalog.schema_name(id).to_owned()).filter(|n| !n.is_empty())),
            },
            ContextFunc::SchemaId => match text(0)? {
                None => number(args.is_empty().then_some(DBO)),
                Some(t) if same_name(&t, "sys") => Value::Int(4),
                Some(t) => number(catalog.schema(&t).map(|s| s.id)),
            },
            ContextFunc::LoginId => number(ctx.engine.login_id(text(0)?.as_deref().unwrap_or(&ctx.login))?),
            ContextFunc::Login => Value::Text(ctx.login.clone()),
            ContextFunc::UserName => match int(0)? {
                Some(1) => Value::Text("dbo".into()),
                Some(id) => name(catalog.users.get(&id).map(|u| u.name.clone())),
                None => name(Some(user_name(ctx))),
            },
            ContextFunc::UserId => match text(0)? {
                None => number(Some(ctx.user().map_or(1, |u| u.id))),
                Some(t) if same_name(&t, "dbo") => Value::Int(1),
                Some(t) if same_name(&t, crate::catalog::GUEST) => Value::Int(crate::catalog::GUEST_ID),
                Some(t) => number(catalog.user(&t).map(|u| u.id)),
            },
            ContextFunc::HasPermsByName => permissions(ctx, text(0)?, text(1)?, text(2)?, text(3)?),
            ContextFunc::HasDbAccess => match text(0)? {
                Some(t) => match ctx.engine.database(&t) {
                    Some(d) if ctx.admin || d.id == ctx.database.id || d.id <= 2 => Value::Int(1),
                    Some(d) => {
                        let conn = d.agent.lock();
                        let other = crate::catalog::load(&conn, &Default::default()).map_err(|e| storage_fault(&e))?;
                        Value::Int(i64::from(other.admitted(&ctx.login).is_some()))
                    }
                    None => Value::Null,
                },
                None => Value::Null,
            },
            ContextFunc::IsMember => match text(0)? {
                Some(role) => member(ctx, &role),
                None => Value::Null,
            },
            ContextFunc::IsSrvRoleMember => Value::Int(i64::from(
                ctx.admin || text(0)?.is_some_and(|t| same_name(&t, "public")),
            )),
            ContextFunc::ServerProperty => text(0)?.map_or(Value::Null, |t| server_property(ctx, &t)),
            ContextFunc::DatabasePropertyEx => match (text(0)?, text(1)?) {
                (Some(db), Some(property)) if ctx.engine.database(&db).is_some() => {
                    match property.to_ascii_lowercase().as_str() {
                        "updateability" => Value::Text("READ_WRITE".into()),
                        "status" => Value::Text("ONLINE".into()),
                        "recovery" => Value::Text("FULL".into()),
                        "collation" => Value::Text("SQL_Latin1_General_CP1_CI_AS".into()),
                        "edition" | "serviceobjective" => Value::Null,
                        _ => Value::Null,
                    }
                }
                _ => Value::Null,
            },
            ContextFunc::SessionProperty => Value::Int(1),
            ContextFunc::ScopeIdentity => identity(ctx),
            ContextFunc::IdentCurrent => match text(0)?.and_then(|t| object_id(ctx, &t)) {
                Some(id) => ctx
                    .database
                    .identities
                    .lock()
                    .get(&id)
                    .map_or(Value::Null, |v| Value::Decimal(i128::from(*v))),
                None => Value::Null,
            },
            ContextFunc::HostName | ContextFunc::AppName => Value::Null,
            ContextFunc::XactState => Value::Int(i64::from(ctx.transactions > 0)),
            ContextFunc::ColLength => match (text(0)?.and_then(|t| object_id(ctx, &t)), text(1)?) {
                (Some(id), Some(column)) => number(
                    catalog
                        .tables
                        .get(&id)
                        .and_then(|t| t.column(&column))
                        .map(|c| crate::catalog::CatalogView::max_length(c.ty)),
                ),
                _ => Value::Null,
            },
            ContextFunc::ColName => match (int(0)?, int(1)?) {
                (Some(id), Some(position)) => name(
                    catalog
                        .tables
                        .get(&id)
                        .and_then(|t| t.column_by_id(position))
                        .map(|c| c.name.clone()),
                ),
                _ => Value::Null,
            },
            ContextFunc::TypeName => name(int(0)?.and_then(crate::catalog::CatalogView::type_name)),
            // It selects from a table that CDC brings.
            ContextFunc::MaxLsn if !catalog.settings.cdc => return Err(invalid_object("cdc.lsn_time_mapping")),
            ContextFunc::MaxLsn => ctx.max_lsn().map_or(Value::Null, |l| Value::Bytes(l.0.to_vec())),
            ContextFunc::MinLsn => match text(0)? {
                Some(instance) => Value::Bytes(min_lsn(ctx, &instance).0.to_vec()),
                None => Value::Bytes(Lsn::ZERO.0.to_vec()),
            },
            ContextFunc::LsnToTime => match convert(&args[0].0, args[0].1, SqlType::Binary(10))? {
                Value::Bytes(lsn) if ctx.as_of.is_some_and(|newest| Lsn::of(&lsn) > newest) => Value::Null,
                Value::Bytes(lsn) => ctx
                    .database
                    .entry_time(Lsn::of(&lsn))
                    .map_err(|e| storage_fault(&e))?
                    .map_or(Value::Null, Value::DateTime),
                _ => Value::Null,
            },
            ContextFunc::TimeToLsn => {
                let (Some(relation), Value::DateTime(at)) =
                    (text(0)?, convert(&args[1].0, args[1].1, SqlType::DateTime)?)
                else {
                    return Ok(Value::Null);
                };
                ctx.database
                    .lsn_at(&relation, at, ctx.as_of)
                    .map_err(|e| storage_fault(&e))?
                    .map_or(Value::Null, |l| Value::Bytes(l.0.to_vec()))
            }
            ContextFunc::ColumnOrdinal => match (text(0)?, text(1)?) {
                (Some(instance), Some(column)) => number(catalog.instance(&instance).and_then(|i| {
                    i.columns
                        .iter()
                        .find(|c| same_name(&c.name, &column))
                        .map(|c| c.ordinal)
                })),
                _ => Value::Null,
            },
        })
    }
}

/// `tctx(function, result, …)` in generated SQL: answers from the context that the thread has entered.
///
/// # Errors
/// As [`ContextFunc::answer`].
pub fn call(code: i64, args: &[(Value, SqlType)]) -> SqlResult<Value> {
    let Some(ctx) = current() else {
        return Err(sql_error(
            50000,
            16,
            "mssql-sim: a function of the session ran outside a statement.",
        ));
    };
    match TABLE.iter().find(|row| row.1 as i64 == code) {
        Some(row) => row.1.answer(&ctx, args),
        None => Ok(Value::Null),
    }
}

/// The low endpoint of an instance; zero for one that is unknown, not reached by capture yet, or whose captured source
/// columns the user may not read.
fn min_lsn(ctx: &StatementContext, instance: &str) -> Lsn {
    let Some(instance) = ctx.catalog.instance(instance) else {
        return Lsn::ZERO;
    };
    if !may_read_instance(ctx, instance) {
        return Lsn::ZERO;
    }
    ctx.database
        .cdc
        .lock()
        .starts
        .get(&instance.id)
        .copied()
        .unwrap_or(Lsn::ZERO)
}

/// Whether the user may ask about an instance: SELECT on every captured source column, and membership in the gating
/// role if there is one.
pub(crate) fn may_read_instance(ctx: &StatementContext, instance: &crate::catalog::Instance) -> bool {
    if ctx.is_owner() {
        return true;
    }
    let Some(user) = ctx.user() else {
        return false;
    };
    let gated = instance
        .role
        .as_deref()
        .is_none_or(|role| ctx.catalog.is_member(user, role));
    let columns: Vec<i64> = instance.columns.iter().map(|c| c.source_id).collect();
    gated
        && ctx.catalog.tables.get(&instance.source_id).is_none_or(|source| {
            let alive: Vec<i64> = columns
                .iter()
                .copied()
                .filter(|id| source.column_by_id(*id).is_some())
                .collect();
            ctx.allows(Action::Select, source, Some(&alive))
        })
}

fn user_name(ctx: &StatementContext) -> String {
    if ctx.admin {
        return "dbo".into();
    }
    ctx.user().map_or_else(|| "guest".into(), |u| u.name.clone())
}

fn member(ctx: &StatementContext, role: &str) -> Value {
    if same_name(role, "public") {
        return Value::Int(1);
    }
    let known = ctx.catalog.user(role).is_some_and(|u| u.is_role);
    if !known {
        return Value::Null;
    }
    let is = ctx.admin || ctx.user().is_some_and(|u| ctx.catalog.is_member(u, role));
    Value::Int(i64::from(is))
}

/// The id of a table or view from a name with up to three parts.
fn object_id(ctx: &StatementContext, name: &str) -> Option<i64> {
    let parts = split_name(name);
    let (schema, object) = match parts.as_slice() {
        [object] => (None, object.as_str()),
        [schema, object] => (Some(schema.as_str()), object.as_str()),
        [db, schema, object] if same_name(db, &ctx.database.name) => {
            (Some(schema.as_str()).filter(|s| !s.is_empty()), object.as_str())
        }
        _ => return None,
    };
    if let Some(table) = ctx.catalog.table(schema, object) {
        return ctx.sees(table).then_some(table.id);
    }
    system_view(schema, object).map(|v| v.object_id())
}

/// The parts of a name with brackets or quotes.
pub(crate) fn split_name(name: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut chars = name.trim().chars().peekable();
    let mut closing = None;
    while let Some(c) = chars.next() {
        match (closing, c) {
            (Some(end), c) if c == end => {
                if chars.peek() == Some(&end) {
                    part.push(c);
                    chars.next();
                } else {
                    closing = None;
                }
            }
            (Some(_), c) => part.push(c),
            (None, '[') if part.is_empty() => closing = Some(']'),
            (None, '"') if part.is_empty() => closing = Some('"'),
            (None, '.') => parts.push(std::mem::take(&mut part)),
            (None, c) => part.push(c),
        }
    }
    parts.push(part);
    parts
}

/// HAS_PERMS_BY_NAME for objects, databases, schemas and the server; NULL for a securable that is not there.
fn permissions(
    ctx: &StatementContext,
    securable: Option<String>,
    class: Option<String>,
    permission: Option<String>,
    column: Option<String>,
) -> Value {
    let (class, permission) = (
        class.unwrap_or_default().to_ascii_uppercase(),
        permission.unwrap_or_default(),
    );
    let any = permission.eq_ignore_ascii_case("ANY");
    let action = Action::by_name(&permission);
    let yes = |b: bool| Value::Int(i64::from(b));
    match class.as_str() {
        "OBJECT" => {
            let Some(id) = securable.and_then(|name| named_table(ctx, &name)) else {
                return Value::Null;
            };
            let Some(table) = ctx.catalog.tables.get(&id) else {
                return Value::Null;
            };
            if any {
                return yes(ctx.sees(table));
            }
            let Some(action) = action else {
                return Value::Null;
            };
            let columns = match column {
                Some(name) => match table.column(&name) {
                    Some(c) => Some(vec![c.id]),
                    None => return Value::Null,
                },
                None => None,
            };
            yes(object_permission(ctx, action, table, columns.as_deref()))
        }
        "DATABASE" | "" => match securable {
            Some(name) if ctx.engine.database(&name).is_none() => Value::Null,
            _ => yes(ctx.is_owner() || any || action == Some(Action::Connect)),
        },
        "SCHEMA" => match securable.and_then(|s| ctx.catalog.schema(&s).cloned()) {
            Some(schema) => {
                let granted = ctx.user().is_some_and(|user| {
                    ctx.catalog.users.values().any(|holder| {
                        ctx.catalog.is_member(user, &holder.name)
                            && holder
                                .grants
                                .iter()
                                .any(|g| Some(g.action) == action && !g.deny && g.schema.is_none_or(|s| s == schema.id))
                    })
                });
                yes(ctx.is_owner() || granted)
            }
            None => Value::Null,
        },
        "SERVER" => yes(ctx.admin),
        _ => Value::Null,
    }
}

/// A permission on an object as a whole needs a grant on the whole of it, not on each of its columns.
fn object_permission(ctx: &StatementContext, action: Action, table: &Table, columns: Option<&[i64]>) -> bool {
    ctx.allows(action, table, columns)
}

/// The id of a table by name, whether the user sees it or not.
fn named_table(ctx: &StatementContext, name: &str) -> Option<i64> {
    let parts = split_name(name);
    let (schema, object) = match parts.as_slice() {
        [object] => (None, object.as_str()),
        [.., schema, object] => (Some(schema.as_str()).filter(|s| !s.is_empty()), object.as_str()),
        [] => return None,
    };
    ctx.catalog.table(schema, object).map(|t| t.id)
}
