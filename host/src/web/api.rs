//! What the page asks for, as JSON (docs/reference/monitoring.md).

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};
use serde_json::{Value, json};

use crate::board::{STEP, State as TableState};
use crate::identity::CaptureInstance;
use crate::lsn::UtcMicros;
use crate::process;

use super::{Slot, Starting};

pub(super) async fn status(State(shown): State<Slot>) -> Result<Json<Value>, Starting> {
    let shown = shown.get()?;
    let tables = shown.board.tables();
    let source = shown.board.source();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for table in &tables {
        *counts.entry(table.state.as_str()).or_default() += 1;
    }
    let capture = match (source.max, source.stalled) {
        (None, _) => "unknown",
        (Some(_), true) => "stalled",
        (Some(_), false) => "running",
    };
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": shown.host,
        "started_at": shown.board.started_at(),
        "now": UtcMicros::now(),
        "source": {
            "server": shown.server,
            "database": shown.database,
            "polled_at": source.polled_at,
            "rtt_ms": source.rtt_ms,
            "error": source.error,
        },
        "capture": {
            "state": capture,
            "max_lsn": source.max.map(|max| max.lsn),
            "max_commit_ts": source.max.map(|max| max.commit_ts),
            "lag_seconds": source.capture_lag_seconds,
        },
        "memory": {
            "resident_bytes": process::resident_bytes(),
            "budget_bytes": shown.memory,
            "budget_used_bytes": shown.scheduler.memory.taken(),
        },
        "rows_per_second": tables.iter().map(|table| table.rows_per_second).sum::<f64>(),
        "counts": counts,
        "states": TableState::ALL.map(TableState::as_str),
        "tables": tables,
    })))
}

pub(super) async fn history(
    State(shown): State<Slot>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, Starting> {
    let shown = shown.get()?;
    let names: Vec<String> = query
        .into_iter()
        .filter(|(key, _)| key == "table")
        .map(|(_, name)| name)
        .collect();
    let series = |points: Vec<(Option<f32>, f32)>| {
        let (lag, rate): (Vec<_>, Vec<_>) = points.into_iter().unzip();
        json!({"lag_seconds": lag, "rows_per_second": rate})
    };
    let mut all = serde_json::Map::new();
    if names.is_empty()
        && let Some(points) = shown.board.history(None)
    {
        all.insert(String::new(), series(points));
    }
    for name in names {
        if let Some(points) = shown.board.history(Some(&CaptureInstance(name.clone()))) {
            all.insert(name, series(points));
        }
    }
    Ok(Json(
        json!({"step_seconds": STEP.as_secs(), "ends_at": UtcMicros::now(), "series": all}),
    ))
}
