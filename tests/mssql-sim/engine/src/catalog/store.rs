//! The catalogue in SQLite: reading it again only as far as it changed, and writing objects.

use std::sync::Arc;

use rusqlite::{Connection, Result, params};

use super::{Catalog, Object};

/// The catalogue as the connection's transaction sees it, starting from a cached one.
///
/// # Errors
/// SQLite's.
pub fn load(conn: &Connection, cached: &Arc<Catalog>) -> Result<Arc<Catalog>> {
    let version: i64 = conn
        .prepare_cached("SELECT max(version) FROM main._sim_object")?
        .query_row([], |row| Ok(row.get::<_, Option<i64>>(0)?.unwrap_or(0)))?;
    if version == cached.version {
        return Ok(Arc::clone(cached));
    }
    // A smaller version means that what was cached was rolled back.
    let mut catalog = if version > cached.version {
        (**cached).clone()
    } else {
        Catalog::default()
    };
    let since = catalog.version;
    let mut statement = conn.prepare_cached("SELECT id, json FROM main._sim_object WHERE version > ?1")?;
    let mut rows = statement.query([since])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        match row.get::<_, Option<String>>(1)? {
            None => catalog.delete(id),
            Some(json) => {
                let object: Object = serde_json::from_str(&json).map_err(|e| {
                    rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(e))
                })?;
                catalog.insert(id, object);
            }
        }
    }
    catalog.version = version;
    Ok(Arc::new(catalog))
}

/// Writes an object at a version. Versions rise over the life of the file and none is given twice.
///
/// # Errors
/// SQLite's.
pub fn put(conn: &Connection, version: i64, id: i64, object: &Object) -> Result<()> {
    let json = serde_json::to_string(object).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
    conn.prepare_cached(
        "INSERT INTO main._sim_object(id, version, json) VALUES (?1, ?2, ?3)
         ON CONFLICT(id) DO UPDATE SET version = excluded.version, json = excluded.json",
    )?
    .execute(params![id, version, json])?;
    Ok(())
}

/// Leaves a tombstone for an object.
///
/// # Errors
/// SQLite's.
pub fn remove(conn: &Connection, version: i64, id: i64) -> Result<()> {
    conn.prepare_cached("UPDATE main._sim_object SET version = ?2, json = NULL WHERE id = ?1")?
        .execute(params![id, version])?;
    Ok(())
}
