//! The rows of each view.

use std::sync::Arc;

use super::super::{Catalog, Column, Table, load};
use crate::{
    context::StatementContext,
    types::round_to_datetime,
    value::{Length, SqlType, Value},
};

fn text(t: impl Into<String>) -> Value {
    Value::Text(t.into())
}

fn int(n: i64) -> Value {
    Value::Int(n)
}

fn bit(b: bool) -> Value {
    Value::Int(i64::from(b))
}

fn when(ticks: i64) -> Value {
    Value::DateTime(round_to_datetime(ticks))
}

/// Where `sys.columns` has `is_computed`.
const COMPUTED_AT: usize = 13;

const COLLATION: &str = "SQL_Latin1_General_CP1_CI_AS";

/// The tables that the user sees.
fn visible(ctx: &StatementContext) -> impl Iterator<Item = &Arc<Table>> {
    ctx.catalog.tables.values().filter(|t| ctx.sees(t))
}

pub(super) fn none(_: &StatementContext) -> Vec<Vec<Value>> {
    Vec::new()
}

pub(super) fn databases(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let version = ctx.engine.options.version;
    let level = version.compatibility_level();
    // A database of Azure SQL shows itself and master.
    let shown = |id: i64| !version.is_azure() || ctx.database.id == 1 || id == 1 || id == ctx.database.id;
    let all = ctx.engine.databases.read();
    let databases: Vec<_> = all.values().filter(|d| shown(d.id)).cloned().collect();
    drop(all);
    databases
        .into_iter()
        .map(|db| {
            let settings = if db.id == ctx.database.id {
                ctx.catalog.settings.clone()
            } else {
                let conn = db.agent.lock();
                load(&conn, &Arc::new(Catalog::default())).map_or_else(|_| Default::default(), |c| c.settings.clone())
            };
            let cdc = settings.cdc;
            // The system databases that keep row versions anyway are master and msdb.
            let default = version.is_azure() || matches!(db.id, 1 | 4);
            let snapshot = settings.allow_snapshot.unwrap_or(default);
            let versions = settings.read_committed_snapshot.unwrap_or(version.is_azure());
            vec![
                text(&db.name),
                int(db.id),
                when(db.created),
                int(level),
                text(COLLATION),
                text("MULTI_USER"),
                bit(false),
                int(0),
                text("ONLINE"),
                int(i64::from(snapshot)),
                text(if snapshot { "ON" } else { "OFF" }),
                bit(versions),
                int(1),
                text("FULL"),
                bit(cdc),
                bit(false),
            ]
        })
        .collect()
}

pub(super) fn schemas(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows: Vec<_> = ctx
        .catalog
        .schemas
        .values()
        .map(|s| vec![text(&s.name), int(s.id), int(1)])
        .collect();
    rows.push(vec![text("INFORMATION_SCHEMA"), int(3), int(3)]);
    rows.push(vec![text("sys"), int(4), int(4)]);
    rows
}

fn object_row(ctx: &StatementContext, t: &Table) -> Vec<Value> {
    vec![
        text(&t.name),
        int(t.id),
        Value::Null,
        int(t.schema_id),
        int(0),
        text("U "),
        text("USER_TABLE"),
        when(t.created),
        when(t.created),
        bit(ctx.catalog.schema_name(t.schema_id) == "cdc"),
        bit(false),
        bit(false),
    ]
}

pub(super) fn tables(ctx: &StatementContext) -> Vec<Vec<Value>> {
    visible(ctx)
        .map(|t| {
            let mut row = object_row(ctx, t);
            row.extend([
                int(t.next_column_id - 1),
                bit(false),
                bit(!ctx.catalog.instances_of(t.id).is_empty()),
                bit(false),
                int(0),
                text("NON_TEMPORAL_TABLE"),
                bit(false),
            ]);
            row
        })
        .collect()
}

pub(super) fn objects(ctx: &StatementContext) -> Vec<Vec<Value>> {
    visible(ctx).map(|t| object_row(ctx, t)).collect()
}

pub(super) fn columns(ctx: &StatementContext) -> Vec<Vec<Value>> {
    visible(ctx)
        .flat_map(|t| {
            t.columns.iter().map(move |c| {
                let (system, user, length, precision, scale) = shape(c.ty);
                vec![
                    int(t.id),
                    text(&c.name),
                    int(c.id),
                    int(system),
                    int(user),
                    int(length),
                    int(precision),
                    int(scale),
                    c.collation_name().map_or(Value::Null, text),
                    bit(c.nullable),
                    bit(c.ty.is_text() || c.ty.is_bytes()),
                    bit(false),
                    bit(t.identity.as_ref().is_some_and(|i| i.column == c.id)),
                    bit(c.computed.is_some()),
                    bit(false),
                    bit(false),
                    bit(false),
                    int(0),
                    bit(false),
                    bit(false),
                    int(0),
                ]
            })
        })
        .collect()
}

pub(super) fn identity_columns(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let last = ctx.database.identities.lock().clone();
    visible(ctx)
        .filter_map(|t| {
            let identity = t.identity.as_ref()?;
            let column = t.column_by_id(identity.column)?;
            Some(vec![
                int(t.id),
                text(&column.name),
                int(column.id),
                int(identity.seed),
                int(identity.step),
                last.get(&t.id).map_or(Value::Null, |v| int(*v)),
            ])
        })
        .collect()
}

/// Name, type id (also the user type id, but for sysname) and a type of that name.
pub(super) fn type_rows() -> Vec<(&'static str, i64, SqlType)> {
    let max = Length::Limited(8000);
    vec![
        ("uniqueidentifier", 36, SqlType::UniqueIdentifier),
        ("date", 40, SqlType::Date),
        ("time", 41, SqlType::Time(7)),
        ("datetime2", 42, SqlType::DateTime2(7)),
        ("datetimeoffset", 43, SqlType::DateTimeOffset(7)),
        ("tinyint", 48, SqlType::TinyInt),
        ("smallint", 52, SqlType::SmallInt),
        ("int", 56, SqlType::Int),
        ("smalldatetime", 58, SqlType::SmallDateTime),
        ("real", 59, SqlType::Real),
        ("money", 60, SqlType::Money),
        ("datetime", 61, SqlType::DateTime),
        ("float", 62, SqlType::Float),
        ("bit", 104, SqlType::Bit),
        (
            "decimal",
            106,
            SqlType::Decimal {
                precision: 38,
                scale: 38,
            },
        ),
        (
            "numeric",
            108,
            SqlType::Decimal {
                precision: 38,
                scale: 38,
            },
        ),
        ("smallmoney", 122, SqlType::SmallMoney),
        ("bigint", 127, SqlType::BigInt),
        ("varbinary", 165, SqlType::VarBinary(max)),
        ("varchar", 167, SqlType::VarChar(max)),
        ("binary", 173, SqlType::Binary(8000)),
        ("char", 175, SqlType::Char(8000)),
        ("nvarchar", 231, SqlType::NVarChar(Length::Limited(4000))),
        ("nchar", 239, SqlType::NChar(4000)),
        ("image", 34, SqlType::Image),
        ("text", 35, SqlType::Text),
        ("sql_variant", 98, SqlType::Variant),
        ("ntext", 99, SqlType::NText),
        ("timestamp", 189, SqlType::RowVersion),
        ("xml", 241, SqlType::Xml),
        ("json", 244, SqlType::Json),
    ]
}

/// System type id, user type id, length in bytes, precision and scale as the views give them.
pub(super) fn shape(ty: SqlType) -> (i64, i64, i64, i64, i64) {
    let length = |l: Length, unit: i64| match l {
        Length::Max => -1,
        Length::Limited(n) => i64::from(n) * unit,
    };
    let fraction = |base: i64, n: u8| base + i64::from(n > 2) + i64::from(n > 4);
    let (id, bytes, precision, scale) = match ty {
        SqlType::UniqueIdentifier => (36, 16, 0, 0),
        SqlType::Date => (40, 3, 10, 0),
        SqlType::Time(n) => (
            41,
            fraction(3, n),
            if n == 0 { 8 } else { 9 + i64::from(n) },
            i64::from(n),
        ),
        SqlType::DateTime2(n) => (
            42,
            fraction(6, n),
            if n == 0 { 19 } else { 20 + i64::from(n) },
            i64::from(n),
        ),
        SqlType::DateTimeOffset(n) => (
            43,
            fraction(8, n),
            if n == 0 { 26 } else { 27 + i64::from(n) },
            i64::from(n),
        ),
        SqlType::TinyInt => (48, 1, 3, 0),
        SqlType::SmallInt => (52, 2, 5, 0),
        SqlType::Int => (56, 4, 10, 0),
        SqlType::SmallDateTime => (58, 4, 16, 0),
        SqlType::Real => (59, 4, 24, 0),
        SqlType::Money => (60, 8, 19, 4),
        SqlType::DateTime => (61, 8, 23, 3),
        SqlType::Float => (62, 8, 53, 0),
        SqlType::Bit => (104, 1, 1, 0),
        SqlType::Decimal { precision, scale } => {
            let bytes = match precision {
                0..=9 => 5,
                10..=19 => 9,
                20..=28 => 13,
                _ => 17,
            };
            (106, bytes, i64::from(precision), i64::from(scale))
        }
        SqlType::SmallMoney => (122, 4, 10, 4),
        SqlType::BigInt => (127, 8, 19, 0),
        SqlType::VarBinary(l) => (165, length(l, 1), 0, 0),
        SqlType::VarChar(l) => (167, length(l, 1), 0, 0),
        SqlType::Binary(n) => (173, i64::from(n), 0, 0),
        SqlType::Char(n) => (175, i64::from(n), 0, 0),
        SqlType::NVarChar(l) => (231, length(l, 2), 0, 0),
        SqlType::NChar(n) => (239, i64::from(n) * 2, 0, 0),
        SqlType::Image => (34, 16, 0, 0),
        SqlType::Text => (35, 16, 0, 0),
        SqlType::NText => (99, 16, 0, 0),
        SqlType::Variant => (98, 8016, 0, 0),
        SqlType::RowVersion => (189, 8, 0, 0),
        SqlType::Xml => (241, -1, 0, 0),
        SqlType::Json => (244, -1, 0, 0),
        SqlType::Vector(n) => (255, 8 + 4 * i64::from(n), 0, 0),
        SqlType::HierarchyId => return (240, 128, 892, 0, 0),
        SqlType::Geometry => return (240, 129, -1, 0, 0),
        SqlType::Geography => return (240, 130, -1, 0, 0),
    };
    (id, id, bytes, precision, scale)
}

pub(super) fn types(_: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows: Vec<Vec<Value>> = type_rows()
        .into_iter()
        .map(|(name, id, ty)| {
            let (_, _, length, precision, scale) = shape(ty);
            let collation = if ty.has_collation() {
                text(COLLATION)
            } else {
                Value::Null
            };
            vec![
                text(name),
                int(id),
                int(id),
                int(4),
                int(length),
                int(precision),
                int(scale),
                collation,
                bit(true),
                bit(false),
                bit(false),
                bit(false),
            ]
        })
        .collect();
    rows.push(vec![
        text("sysname"),
        int(231),
        int(256),
        int(4),
        int(256),
        int(0),
        int(0),
        text(COLLATION),
        bit(false),
        bit(false),
        bit(false),
        bit(false),
    ]);
    rows
}

pub(super) fn indexes(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for t in visible(ctx) {
        if !t.keys.iter().any(|k| k.clustered) {
            rows.push(vec![
                int(t.id),
                Value::Null,
                int(0),
                int(0),
                text("HEAP"),
                bit(false),
                bit(false),
                bit(false),
                bit(false),
                bit(false),
            ]);
        }
        for k in &t.keys {
            rows.push(vec![
                int(t.id),
                text(&k.name),
                int(k.id),
                int(if k.clustered { 1 } else { 2 }),
                text(if k.clustered { "CLUSTERED" } else { "NONCLUSTERED" }),
                bit(k.unique),
                bit(k.primary),
                bit(k.constraint && !k.primary),
                bit(false),
                bit(false),
            ]);
        }
    }
    rows
}

pub(super) fn index_columns(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for t in visible(ctx) {
        for k in &t.keys {
            for (i, column) in k.columns.iter().enumerate() {
                let at = i as i64 + 1;
                rows.push(vec![
                    int(t.id),
                    int(k.id),
                    int(at),
                    int(*column),
                    int(at),
                    int(0),
                    bit(false),
                    bit(false),
                ]);
            }
        }
    }
    rows
}

pub(super) fn key_constraints(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for t in visible(ctx) {
        for k in t.keys.iter().filter(|k| k.constraint) {
            rows.push(vec![
                text(&k.name),
                int(t.id * 100 + k.id),
                int(t.schema_id),
                int(t.id),
                text(if k.primary { "PK" } else { "UQ" }),
                text(if k.primary {
                    "PRIMARY_KEY_CONSTRAINT"
                } else {
                    "UNIQUE_CONSTRAINT"
                }),
                int(k.id),
            ]);
        }
    }
    rows
}

pub(super) fn principals(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows = vec![
        vec![text("public"), int(0), text("R"), text("DATABASE_ROLE")],
        vec![text("dbo"), int(1), text("S"), text("SQL_USER")],
        vec![text("guest"), int(2), text("S"), text("SQL_USER")],
    ];
    rows.extend(ctx.catalog.users.values().map(|u| {
        let (kind, name) = if u.is_role {
            ("R", "DATABASE_ROLE")
        } else {
            ("S", "SQL_USER")
        };
        vec![text(&u.name), int(u.id), text(kind), text(name)]
    }));
    rows
}

pub(super) fn information_tables(ctx: &StatementContext) -> Vec<Vec<Value>> {
    visible(ctx)
        .map(|t| {
            vec![
                text(&ctx.database.name),
                text(ctx.catalog.schema_name(t.schema_id)),
                text(&t.name),
                text("BASE TABLE"),
            ]
        })
        .collect()
}

pub(super) fn information_columns(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let row = |t: &Table, position: usize, c: &Column| {
        let (_, _, length, precision, scale) = shape(c.ty);
        let lengths = c.ty.is_text() || c.ty.is_bytes();
        let characters = if c.ty.is_national() && length > 0 {
            length / 2
        } else {
            length
        };
        let number = c.ty.is_number() && c.ty != SqlType::Bit;
        vec![
            text(&ctx.database.name),
            text(ctx.catalog.schema_name(t.schema_id)),
            text(&t.name),
            text(&c.name),
            int(position as i64 + 1),
            c.default.as_ref().map_or(Value::Null, |d| text(format!("({d})"))),
            text(if c.nullable { "YES" } else { "NO" }),
            text(c.ty.to_string()),
            if lengths { int(characters) } else { Value::Null },
            if lengths { int(length) } else { Value::Null },
            if number { int(precision) } else { Value::Null },
            if number && !c.ty.is_float() {
                int(scale)
            } else {
                Value::Null
            },
            if c.ty.is_temporal() { int(scale) } else { Value::Null },
            c.collation_name().map_or(Value::Null, text),
        ]
    };
    visible(ctx)
        .flat_map(|t| t.columns.iter().enumerate().map(move |(i, c)| row(t, i, c)))
        .collect()
}

pub(super) fn information_schemata(ctx: &StatementContext) -> Vec<Vec<Value>> {
    schemas(ctx)
        .into_iter()
        .map(|mut row| vec![text(&ctx.database.name), row.swap_remove(0), text("dbo")])
        .collect()
}

pub(super) fn key_column_usage(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for t in visible(ctx) {
        let schema = ctx.catalog.schema_name(t.schema_id);
        for k in t.keys.iter().filter(|k| k.constraint) {
            for (i, id) in k.columns.iter().enumerate() {
                let column = t.column_by_id(*id).map_or("", |c| c.name.as_str());
                rows.push(vec![
                    text(schema),
                    text(&k.name),
                    text(schema),
                    text(&t.name),
                    text(column),
                    int(i as i64 + 1),
                ]);
            }
        }
    }
    rows
}

pub(super) fn change_tables(ctx: &StatementContext) -> Vec<Vec<Value>> {
    let starts = ctx.database.cdc.lock().starts.clone();
    ctx.catalog
        .instances
        .values()
        .map(|i| {
            vec![
                int(i.id),
                int(0),
                int(i.source_id),
                text(&i.name),
                starts.get(&i.id).map_or(Value::Null, |l| Value::Bytes(l.0.to_vec())),
                Value::Null,
                bit(i.supports_net_changes),
                bit(false),
                i.role.as_ref().map_or(Value::Null, text),
                i.index_name.as_ref().map_or(Value::Null, text),
                i.filegroup.as_ref().map_or(Value::Null, text),
                when(i.created),
                bit(false),
            ]
        })
        .collect()
}

pub(super) fn computed_columns(ctx: &StatementContext) -> Vec<Vec<Value>> {
    columns(ctx)
        .into_iter()
        .filter(|row| row.get(COMPUTED_AT) == Some(&bit(true)))
        .collect()
}

pub(super) fn captured_columns(ctx: &StatementContext) -> Vec<Vec<Value>> {
    ctx.catalog
        .instances
        .values()
        .flat_map(|i| {
            i.columns.iter().map(move |c| {
                let source = ctx.catalog.tables.get(&i.source_id);
                let computed = source
                    .and_then(|t| t.column_by_id(c.source_id))
                    .is_some_and(|c| c.computed.is_some());
                vec![
                    int(i.id),
                    text(&c.name),
                    int(c.source_id),
                    text(c.ty.to_string()),
                    int(c.ordinal),
                    bit(computed),
                    Value::Null,
                ]
            })
        })
        .collect()
}

pub(super) fn cdc_index_columns(ctx: &StatementContext) -> Vec<Vec<Value>> {
    ctx.catalog
        .instances
        .values()
        .flat_map(|i| {
            i.columns
                .iter()
                .filter_map(move |c| Some(vec![int(i.id), text(&c.name), int(c.index_ordinal?), int(c.source_id)]))
        })
        .collect()
}
