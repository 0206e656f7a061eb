//! `sluice check --grants`: the T-SQL that gives the login what the configured tables need. Also when nothing is granted
//! yet, and the login sees neither the tables nor the database.

use super::Failure;
use super::out::say;
use crate::config::Settings;
use crate::fanout::expand;
use crate::source::{AskPool, Catalog, GrantScript, SourceError, persist};

/// Prints the script and nothing else.
pub(super) async fn print(settings: &Settings, json: bool) -> Result<(), Failure> {
    let asks = AskPool::new(settings.source.clone(), 1);
    let catalog = match persist(|| async { Catalog::read(&mut *asks.get().await?).await }).await {
        Ok(catalog) => Some(catalog),
        Err(SourceError::Database { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let expanded = match &catalog {
        Some(catalog) => expand(settings, catalog)?,
        None => settings.clone(),
    };
    show(&script(&expanded, catalog.as_ref()), json);
    Ok(())
}

/// The script for the configured tables.
pub(super) fn script(settings: &Settings, catalog: Option<&Catalog>) -> GrantScript {
    let tables = settings.tables.iter().map(|table| &table.capture_instance);
    GrantScript::new(&settings.source, catalog, tables)
}

pub(super) fn show(script: &GrantScript, json: bool) {
    if !json {
        say!("{}", script.text().trim_end());
        return;
    }
    let tables: Vec<serde_json::Value> = script
        .tables()
        .iter()
        .map(|table| {
            serde_json::json!({
                "capture_instance": table.capture_instance,
                "seen": table.seen,
                "statements": table.statements,
            })
        })
        .collect();
    say!(
        "{}",
        serde_json::json!({"type": "grants", "user": script.user(), "tables": tables, "script": script.text()})
    );
}
