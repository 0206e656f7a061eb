//! Capture: committed log records become change rows.

use std::{collections::HashMap, sync::Arc};

use rusqlite::{Connection, Result, params, types::Value as Stored};

use super::{Image, Lsn, Op, column, read_image};
use crate::{
    catalog::{Catalog, Instance, Table, load},
    clock::system_ticks,
    database::Database,
    types::{convert, encode, encode_owned, round_to_datetime},
    value::Value,
};

/// Transactions that one SQLite transaction captures.
const BATCH: i64 = 500;

/// A committed transaction of the log.
struct Committed {
    id: i64,
    lsn: Lsn,
    begin_lsn: Vec<u8>,
    begin: i64,
    end: i64,
    first: i64,
    last: i64,
}

/// Captures what was committed up to a tick of the system's clock. Returns how many transactions that were.
///
/// # Errors
/// SQLite's.
pub(super) fn capture(database: &Database, until: i64) -> Result<usize> {
    let mut total = 0;
    loop {
        database.cdc_gate.lock();
        let result = step(database, until);
        database.cdc_gate.unlock();
        let done = result?;
        total += done;
        if done < BATCH as usize {
            return Ok(total);
        }
    }
}

fn step(database: &Database, until: i64) -> Result<usize> {
    let conn = database.agent.lock();
    let after = database.cdc.lock().captured_tx;
    conn.execute_batch("BEGIN")?;
    let result = transactions(&conn, after, until).and_then(|pending| {
        let catalog = load(&conn, &Arc::new(Catalog::default()))?;
        if !catalog.settings.capture_runs || pending.is_empty() {
            return Ok((Vec::new(), HashMap::new(), None));
        }
        let mut starts = database.cdc.lock().starts.clone();
        let mut max = None;
        for tx in &pending {
            if one(&conn, &catalog, tx, &mut starts)? {
                max = Some(tx.lsn);
            }
        }
        if let Some(last) = pending.last() {
            conn.prepare_cached("INSERT OR REPLACE INTO cdc._sim_state VALUES ('captured_tx', ?1)")?
                .execute([last.id])?;
        }
        Ok((pending, starts, max))
    });
    match result {
        Ok((pending, starts, max)) => {
            conn.execute_batch("COMMIT")?;
            if let Some(last) = pending.last() {
                let mut state = database.cdc.lock();
                state.captured_tx = last.id;
                state.starts = starts;
                if let Some(lsn) = max {
                    state.max_lsn = Some(lsn);
                    state.last_entry = system_ticks();
                }
            }
            Ok(pending.len())
        }
        Err(error) => {
            let _ = conn.execute_batch("ROLLBACK");
            Err(error)
        }
    }
}

fn transactions(conn: &Connection, after: i64, until: i64) -> Result<Vec<Committed>> {
    let mut statement = conn.prepare_cached(
        "SELECT tx, lsn, begin_lsn, begin_time, end_time, first_seq, last_seq FROM main._sim_tx
         WHERE tx > ?1 AND committed <= ?2 ORDER BY tx LIMIT ?3",
    )?;
    let rows = statement.query_map(params![after, until, BATCH], |r| {
        Ok(Committed {
            id: r.get(0)?,
            lsn: Lsn::of(&r.get::<_, Vec<u8>>(1)?),
            begin_lsn: r.get(2)?,
            begin: r.get(3)?,
            end: r.get(4)?,
            first: r.get(5)?,
            last: r.get(6)?,
        })
    })?;
    rows.collect()
}

/// An instance while a transaction is captured.
struct Target {
    instance: Arc<Instance>,
    sql: String,
    commands: i64,
    /// The change table has `__$command_id`.
    numbered: bool,
}

/// Captures one transaction; whether it left an entry in `cdc.lsn_time_mapping`.
fn one(conn: &Connection, catalog: &Catalog, tx: &Committed, starts: &mut HashMap<i64, Lsn>) -> Result<bool> {
    let mut targets: HashMap<i64, Vec<Target>> = HashMap::new();
    let mut touched = false;
    let mut statement = conn.prepare_cached(
        "SELECT object_id, op, lsn, data FROM main._sim_log WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq",
    )?;
    let mut rows = statement.query([tx.first, tx.last])?;
    while let Some(row) = rows.next()? {
        let object: i64 = row.get(0)?;
        let op = Op::of(row.get(1)?);
        let seqval: Vec<u8> = row.get(2)?;
        let mut data = row.get_ref(3)?.as_blob()?;
        match op {
            Op::Enable => {
                if catalog.instances.contains_key(&-object) {
                    starts.insert(object, tx.lsn);
                    conn.execute(
                        "INSERT OR REPLACE INTO cdc._sim_instance VALUES (?1, ?2)",
                        params![object, tx.lsn.0.as_slice()],
                    )?;
                    touched = true;
                }
            }
            Op::Ddl => ddl_entry(conn, catalog, object, &seqval, tx, data)?,
            _ => {
                let list = targets.entry(object).or_insert_with(|| {
                    catalog
                        .instances_of(object)
                        .into_iter()
                        .filter_map(|i| target(catalog, i))
                        .collect()
                });
                // An instance captures from the transaction after the one that made it, or what follows in it.
                if !list.iter().any(|t| starts.contains_key(&t.instance.id)) {
                    continue;
                }
                let Some(first) = read_image(&mut data) else {
                    continue;
                };
                let second = if op == Op::Update { read_image(&mut data) } else { None };
                for target in list.iter_mut().filter(|t| starts.contains_key(&t.instance.id)) {
                    touched |= change(conn, target, op, tx.lsn, &seqval, &first, second.as_ref())?;
                }
            }
        }
    }
    if touched {
        mapping_entry(
            conn,
            catalog,
            tx.lsn,
            (tx.begin, tx.end),
            &transaction_id(tx.id),
            &tx.begin_lsn,
        )?;
    }
    Ok(touched)
}

/// `tran_id` as it looks there: six bytes, little-endian.
fn transaction_id(id: i64) -> Vec<u8> {
    (id + 0x3A0).to_le_bytes()[..6].to_vec()
}

/// Adds a row to `cdc.lsn_time_mapping`.
pub(super) fn mapping_entry(
    conn: &Connection,
    catalog: &Catalog,
    lsn: Lsn,
    (begin, end): (i64, i64),
    id: &[u8],
    begin_lsn: &[u8],
) -> Result<()> {
    if let Some(table) = catalog.table(Some("cdc"), "lsn_time_mapping") {
        conn.prepare_cached(&format!(
            "INSERT OR REPLACE INTO {}(c1, c2, c3, c4, c5) VALUES (?1, ?2, ?3, ?4, ?5)",
            table.sql_name()
        ))?
        .execute(params![
            lsn.0.as_slice(),
            round_to_datetime(begin),
            round_to_datetime(end),
            id,
            begin_lsn
        ])?;
    }
    Ok(())
}

fn ddl_entry(conn: &Connection, catalog: &Catalog, object: i64, lsn: &[u8], tx: &Committed, data: &[u8]) -> Result<()> {
    let Some(table) = catalog.table(Some("cdc"), "ddl_history") else {
        return Ok(());
    };
    let (required, text) = data
        .split_first()
        .map_or((0, ""), |(r, t)| (i64::from(*r), std::str::from_utf8(t).unwrap_or("")));
    for instance in catalog.instances_of(object) {
        conn.execute(
            &format!(
                "INSERT INTO {}(c1, c2, c3, c4, c5, c6) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                table.sql_name()
            ),
            params![object, instance.id, required, text, lsn, round_to_datetime(tx.end)],
        )?;
    }
    Ok(())
}

fn target(catalog: &Catalog, instance: &Arc<Instance>) -> Option<Target> {
    let table: &Arc<Table> = catalog.tables.get(&instance.id)?;
    let numbered = table.column_by_id(column::COMMAND_ID).is_some();
    let mut ids = vec![
        column::START_LSN,
        column::SEQVAL,
        column::OPERATION,
        column::UPDATE_MASK,
    ];
    ids.extend(numbered.then_some(column::COMMAND_ID));
    ids.extend(instance.columns.iter().map(|c| c.change_id));
    let names: Vec<String> = ids.iter().map(|id| format!("c{id}")).collect();
    let marks: Vec<String> = (1..=names.len()).map(|i| format!("?{i}")).collect();
    let sql = format!(
        "INSERT OR REPLACE INTO {}({}) VALUES ({})",
        table.sql_name(),
        names.join(", "),
        marks.join(", ")
    );
    Some(Target {
        instance: Arc::clone(instance),
        sql,
        commands: 0,
        numbered,
    })
}

/// Writes the rows of one change into an instance's change table. An update that changed no captured column leaves none.
fn change(
    conn: &Connection,
    target: &mut Target,
    op: Op,
    lsn: Lsn,
    seqval: &[u8],
    first: &Image,
    second: Option<&Image>,
) -> Result<bool> {
    let columns = &target.instance.columns;
    let width = columns.len().div_ceil(8);
    let value_of = |image: &Image, source: i64| {
        image
            .iter()
            .find(|(id, ..)| *id == source)
            .map(|(_, ty, v)| (*ty, v.clone()))
    };
    let mut mask = vec![0_u8; width];
    let mut set = |ordinal: i64| {
        let bit = (ordinal - 1) as usize;
        mask[width - 1 - bit / 8] |= 1 << (bit % 8);
    };
    match second {
        None => columns.iter().for_each(|c| set(c.ordinal)),
        Some(after) => {
            let mut any = false;
            for c in columns {
                if value_of(first, c.source_id) != value_of(after, c.source_id) {
                    set(c.ordinal);
                    any = true;
                }
            }
            if !any {
                return Ok(false);
            }
        }
    }
    target.commands += 1;
    let changed = |ordinal: i64| {
        let bit = (ordinal - 1) as usize;
        mask[width - 1 - bit / 8] >> (bit % 8) & 1 == 1
    };
    let images: Vec<(i64, &Image)> = match (op, second) {
        (Op::Update, Some(after)) => vec![(3, first), (4, after)],
        (op, _) => vec![(op as i64, first)],
    };
    let mut statement = conn.prepare_cached(&target.sql)?;
    for (operation, image) in images {
        let mut row: Vec<Stored> = Vec::with_capacity(columns.len() + 5);
        row.push(Stored::Blob(lsn.0.to_vec()));
        row.push(Stored::Blob(seqval.to_vec()));
        row.push(Stored::Integer(operation));
        row.push(Stored::Blob(mask.clone()));
        if target.numbered {
            row.push(Stored::Integer(target.commands));
        }
        for c in columns {
            // The old value of a (max) column is not in the log unless the update changed it; that of the old long types
            // never is.
            let lacks_old = operation == 3 && c.ty.is_max() && !changed(c.ordinal);
            if lacks_old || c.ty.is_old_lob() && matches!(operation, 1 | 3) {
                row.push(Stored::Null);
                continue;
            }
            row.push(match value_of(image, c.source_id) {
                // A dropped column stays captured, as NULL.
                None => Stored::Null,
                Some((ty, value)) if ty == c.ty => encode_owned(value),
                // Logged before the column was altered: it takes the type that the change table has now.
                Some((ty, value)) => encode(&convert(&value, ty, c.ty).unwrap_or(Value::Null)),
            });
        }
        statement.execute(rusqlite::params_from_iter(row))?;
    }
    Ok(true)
}
