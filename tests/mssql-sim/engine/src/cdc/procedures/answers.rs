//! The result sets of the procedures that only answer, with the columns of their documentation.

use std::sync::Arc;

use crate::{
    catalog::{CatalogView, Instance},
    cdc::Lsn,
    context::{StatementContext, may_read_instance},
    error::{SqlResult, sql_error},
    exec::{Run, Session, storage},
    result::ResultSink,
    types::round_to_datetime,
    value::{Length, SqlType, Value},
};

const NAME: SqlType = SqlType::NVarChar(Length::Limited(128));
const LSN: SqlType = SqlType::Binary(10);
const MAX: SqlType = SqlType::NVarChar(Length::Max);

fn text(t: &str) -> Value {
    Value::Text(t.to_owned())
}

fn optional(t: Option<&String>) -> Value {
    t.map_or(Value::Null, |t| Value::Text(t.clone()))
}

fn list<'i>(names: impl Iterator<Item = &'i str>) -> Value {
    let quoted: Vec<String> = names.map(|n| format!("[{}]", n.replace(']', "]]"))).collect();
    if quoted.is_empty() {
        Value::Null
    } else {
        Value::Text(quoted.join(", "))
    }
}

pub(super) fn help(
    session: &mut Session,
    ctx: &StatementContext,
    schema: Option<&str>,
    table: Option<&str>,
    sink: &mut dyn ResultSink,
) -> Run<i64> {
    let source = match (schema, table) {
        (None, None) => None,
        (schema, Some(table)) => match ctx.catalog.table(schema, table) {
            Some(found) => Some(found.id),
            None => return Err(sql_error(22981, 16, "Object does not exist or access is denied.").into()),
        },
        (Some(_), None) => return Err(sql_error(22963, 16, "Parameter \"@source_name\" cannot be empty.").into()),
    };
    let starts = ctx.database.cdc.lock().starts.clone();
    let mut rows = Vec::new();
    let mut found: Vec<&Arc<Instance>> = ctx.catalog.instances.values().collect();
    found.sort_by(|a, b| {
        (&a.source_schema, &a.source_table, a.created).cmp(&(&b.source_schema, &b.source_table, b.created))
    });
    for i in found {
        if source.is_some_and(|s| s != i.source_id) || !may_read_instance(ctx, i) {
            continue;
        }
        let mut index: Vec<_> = i.columns.iter().filter(|c| c.index_ordinal.is_some()).collect();
        index.sort_by_key(|c| c.index_ordinal);
        rows.push(vec![
            text(&i.source_schema),
            text(&i.source_table),
            text(&i.name),
            Value::Int(i.id),
            Value::Int(i.source_id),
            starts
                .get(&i.id)
                .filter(|start| ctx.as_of.is_none_or(|newest| **start <= newest))
                .map_or(Value::Null, |l| Value::Bytes(l.0.to_vec())),
            Value::Null,
            Value::Int(i64::from(i.supports_net_changes)),
            Value::Null,
            optional(i.role.as_ref()),
            optional(i.index_name.as_ref()),
            optional(i.filegroup.as_ref()),
            Value::DateTime(round_to_datetime(i.created)),
            list(index.iter().map(|c| c.name.as_str())),
            list(i.columns.iter().map(|c| c.name.as_str())),
        ]);
    }
    let columns = [
        ("source_schema", NAME, true),
        ("source_table", NAME, true),
        ("capture_instance", NAME, false),
        ("object_id", SqlType::Int, false),
        ("source_object_id", SqlType::Int, true),
        ("start_lsn", LSN, true),
        ("end_lsn", LSN, true),
        ("supports_net_changes", SqlType::Bit, true),
        ("has_drop_pending", SqlType::Bit, true),
        ("role_name", NAME, true),
        ("index_name", NAME, true),
        ("filegroup_name", NAME, true),
        ("create_date", SqlType::DateTime, true),
        ("index_column_list", MAX, true),
        ("captured_column_list", MAX, true),
    ];
    session.answer(&columns, &rows, sink)?;
    Ok(0)
}

pub(super) fn captured_columns(session: &mut Session, i: &Instance, sink: &mut dyn ResultSink) -> Run<i64> {
    let rows: Vec<Vec<Value>> = i
        .columns
        .iter()
        .map(|c| {
            let length = CatalogView::max_length(c.ty);
            let characters = if c.ty.is_old_lob() {
                if c.ty.is_national() { 0x3FFF_FFFF } else { 0x7FFF_FFFF }
            } else if c.ty.is_national() && length > 0 {
                length / 2
            } else {
                length
            };
            let number = c.ty.is_number() && c.ty != SqlType::Bit;
            let (precision, scale) = CatalogView::precision(c.ty);
            vec![
                text(&i.source_schema),
                text(&i.source_table),
                text(&i.name),
                text(&c.name),
                Value::Int(c.source_id),
                Value::Int(c.ordinal),
                text(&c.ty.to_string()),
                if c.ty.is_text() || c.ty.is_bytes() {
                    Value::Int(characters)
                } else {
                    Value::Null
                },
                if number { Value::Int(precision) } else { Value::Null },
                match (number, c.ty.is_float()) {
                    (false, _) => Value::Null,
                    (true, binary) => Value::Int(if binary { 2 } else { 10 }),
                },
                if number && !c.ty.is_float() {
                    Value::Int(scale)
                } else {
                    Value::Null
                },
                if c.ty.is_temporal() {
                    Value::Int(scale)
                } else {
                    Value::Null
                },
            ]
        })
        .collect();
    let columns = [
        ("source_schema", NAME, true),
        ("source_table", NAME, true),
        ("capture_instance", NAME, false),
        ("column_name", NAME, false),
        ("column_id", SqlType::Int, true),
        ("ordinal_position", SqlType::Int, false),
        ("data_type", NAME, true),
        ("character_maximum_length", SqlType::Int, true),
        ("numeric_precision", SqlType::TinyInt, true),
        ("numeric_precision_radix", SqlType::SmallInt, true),
        ("numeric_scale", SqlType::Int, true),
        ("datetime_precision", SqlType::SmallInt, true),
    ];
    session.answer(&columns, &rows, sink)?;
    Ok(0)
}

pub(super) fn ddl_history(
    session: &mut Session,
    ctx: &StatementContext,
    i: &Instance,
    sink: &mut dyn ResultSink,
) -> Run<i64> {
    let mut rows = Vec::new();
    if let Some(table) = ctx.catalog.table(Some("cdc"), "ddl_history") {
        let sql = format!(
            "SELECT c3, c4, c5, c6 FROM {} WHERE c2 = ?1 AND c5 <= ?2 ORDER BY c5",
            table.sql_name()
        );
        let mut statement = session.conn.prepare(&sql).map_err(storage)?;
        let newest = ctx.as_of.unwrap_or(Lsn([0xFF; 10]));
        let mut found = statement
            .query(rusqlite::params![i.id, newest.0.as_slice()])
            .map_err(storage)?;
        while let Some(row) = found.next().map_err(storage)? {
            let cell = |at: usize, ty: SqlType| -> SqlResult<Value> {
                Ok(crate::types::decode(row.get_ref(at).map_err(storage)?, ty))
            };
            rows.push(vec![
                text(&i.source_schema),
                text(&i.source_table),
                text(&i.name),
                cell(0, SqlType::Bit)?,
                cell(1, MAX)?,
                cell(2, LSN)?,
                cell(3, SqlType::DateTime)?,
            ]);
        }
    }
    let columns = [
        ("source_schema", NAME, true),
        ("source_table", NAME, true),
        ("capture_instance", NAME, false),
        ("required_column_update", SqlType::Bit, true),
        ("ddl_command", MAX, true),
        ("ddl_lsn", LSN, false),
        ("ddl_time", SqlType::DateTime, true),
    ];
    session.answer(&columns, &rows, sink)?;
    Ok(0)
}

pub(super) fn jobs(session: &mut Session, ctx: &StatementContext, sink: &mut dyn ResultSink) -> Run<i64> {
    let settings = &ctx.catalog.settings;
    let id = |n: u8| {
        Value::Guid([
            n,
            0x5C,
            0xDC,
            0,
            0,
            0,
            0x40,
            0,
            0x80,
            0,
            0,
            0,
            0,
            0,
            0,
            ctx.database.id as u8,
        ])
    };
    let name = |kind: &str| text(&format!("cdc.{}_{kind}", ctx.database.name));
    let int = Value::Int;
    let rows = vec![
        vec![
            id(1),
            text("capture"),
            name("capture"),
            int(500),
            int(10),
            int(1),
            int(5),
            int(0),
            int(0),
        ],
        vec![
            id(2),
            text("cleanup"),
            name("cleanup"),
            int(0),
            int(0),
            int(0),
            int(0),
            int(settings.retention_minutes),
            int(settings.cleanup_threshold),
        ],
    ];
    let columns = [
        ("job_id", SqlType::UniqueIdentifier, true),
        ("job_type", SqlType::NVarChar(Length::Limited(20)), true),
        ("job_name", NAME, true),
        ("maxtrans", SqlType::Int, true),
        ("maxscans", SqlType::Int, true),
        ("continuous", SqlType::Bit, true),
        ("pollinginterval", SqlType::BigInt, true),
        ("retention", SqlType::BigInt, true),
        ("threshold", SqlType::BigInt, true),
    ];
    session.answer(&columns, &rows, sink)?;
    Ok(0)
}
