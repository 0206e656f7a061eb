//! The same numbers for Prometheus (docs/reference/monitoring.md lists them).

use std::collections::BTreeMap;
use std::fmt;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::board::{Phase, State as TableState, TableNow};
use crate::lsn::UtcMicros;
use crate::process;

use super::{Slot, Starting};

pub(super) async fn metrics(State(shown): State<Slot>) -> Result<Response, Starting> {
    shown.get()?;
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(shown)));
    let mut text = String::new();
    Ok(match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("cannot write metrics: {error}\n"),
        )
            .into_response(),
    })
}

/// The numbers as they are when they are asked for.
struct Metrics(Slot);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// A number of each table that has one.
type OfTable = fn(&TableNow) -> Option<f64>;

const OF_TABLES: [(&str, &str, MetricType, OfTable); 9] = [
    (
        "sluice_table_up",
        "1 while the stream of the table runs",
        MetricType::Gauge,
        |table| Some(f64::from(u8::from(table.state.is_up()))),
    ),
    (
        "sluice_table_lag_seconds",
        "From the newest commit in bronze to the newest that capture has processed; 0 when bronze has all of the table",
        MetricType::Gauge,
        |table| table.lag_seconds,
    ),
    (
        "sluice_table_retention_headroom_seconds",
        "From the oldest change that the source still has to the newest in bronze",
        MetricType::Gauge,
        |table| table.headroom_hours.map(|hours| hours * 3600.0),
    ),
    (
        "sluice_table_finalized_until_timestamp_seconds",
        "Every period that ends at or before this is complete",
        MetricType::Gauge,
        |table| table.finalized_until.map(seconds),
    ),
    (
        "sluice_table_rows",
        "Rows that were committed to bronze",
        MetricType::Counter,
        |table| Some(table.rows as f64),
    ),
    (
        "sluice_table_batches",
        "Batches that ended, also without rows",
        MetricType::Counter,
        |table| Some(table.batches as f64),
    ),
    (
        "sluice_table_retries",
        "Steps that failed and were tried again",
        MetricType::Counter,
        |table| Some(table.retries as f64),
    ),
    (
        "sluice_table_open_quarantined_rows",
        "Rows that are in quarantine",
        MetricType::Gauge,
        |table| table.open_quarantined.map(|rows| rows as f64),
    ),
    (
        "sluice_table_weight",
        "The weight of the table's group",
        MetricType::Gauge,
        |table| Some(f64::from(table.weight)),
    ),
];

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Ok(shown) = self.0.get() else {
            return Ok(());
        };
        let tables = shown.board.tables();
        let source = shown.board.source();
        {
            let mut info =
                encoder.encode_descriptor("sluice_build_info", "What is running", None, MetricType::Gauge)?;
            let labels = [("version", env!("CARGO_PKG_VERSION"))];
            info.encode_family(&labels)?.encode_gauge(&1.0)?;
        }
        let mut single = |name: &str, help: &str, kind: MetricType, value: Option<f64>| -> Result<(), fmt::Error> {
            let Some(value) = value else {
                return Ok(());
            };
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            match kind {
                MetricType::Counter => metric.encode_counter::<NoLabelSet, f64, f64>(&value, None),
                _ => metric.encode_gauge(&value),
            }
        };
        let number = |count: Option<u64>| count.map(|count| count as f64);
        single(
            "process_resident_memory_bytes",
            "Resident memory",
            MetricType::Gauge,
            number(process::resident_bytes()),
        )?;
        single(
            "process_cpu_seconds",
            "Processor time",
            MetricType::Counter,
            process::cpu_seconds(),
        )?;
        single(
            "process_open_fds",
            "Open files",
            MetricType::Gauge,
            number(process::open_files()),
        )?;
        single(
            "process_max_fds",
            "Files that may be open",
            MetricType::Gauge,
            number(process::open_files_limit()),
        )?;
        single(
            "process_start_time_seconds",
            "When the process began",
            MetricType::Gauge,
            Some(seconds(shown.board.started_at())),
        )?;
        single(
            "sluice_source_up",
            "1 when the newest poll of the source was answered",
            MetricType::Gauge,
            {
                Some(f64::from(u8::from(
                    source.error.is_none() && source.polled_at.is_some(),
                )))
            },
        )?;
        single(
            "sluice_source_polls",
            "Polls of the source",
            MetricType::Counter,
            Some(source.polls as f64),
        )?;
        single(
            "sluice_source_poll_failures",
            "Polls that failed",
            MetricType::Counter,
            Some(source.failures as f64),
        )?;
        single(
            "sluice_source_rtt_seconds",
            "Round trip of the newest poll",
            MetricType::Gauge,
            source.rtt_ms.map(|ms| ms / 1e3),
        )?;
        single(
            "sluice_capture_stalled",
            "1 when capture stands still",
            MetricType::Gauge,
            source.max.map(|_| f64::from(u8::from(source.stalled))),
        )?;
        single(
            "sluice_capture_lag_seconds",
            "From the newest commit that capture has processed to the server's clock",
            MetricType::Gauge,
            source.capture_lag_seconds,
        )?;
        single(
            "sluice_memory_budget_bytes",
            "limits.memory",
            MetricType::Gauge,
            Some(shown.memory as f64),
        )?;
        single(
            "sluice_memory_budget_used_bytes",
            "Memory of chunks that are under way",
            MetricType::Gauge,
            Some(shown.scheduler.memory.taken() as f64),
        )?;
        let mut counts: BTreeMap<&str, f64> = TableState::ALL.map(|state| (state.as_str(), 0.0)).into();
        for table in &tables {
            *counts.entry(table.state.as_str()).or_default() += 1.0;
        }
        {
            let mut family = encoder.encode_descriptor("sluice_tables", "Tables by state", None, MetricType::Gauge)?;
            for (state, count) in counts {
                family.encode_family(&[("state", state)])?.encode_gauge(&count)?;
            }
        }
        {
            let help = "1 for the state that the table is in; other states are absent";
            let mut family = encoder.encode_descriptor("sluice_table_state", help, None, MetricType::Gauge)?;
            for table in &tables {
                let labels = [
                    ("capture_instance", table.capture_instance.0.as_str()),
                    ("state", table.state.as_str()),
                ];
                family.encode_family(&labels)?.encode_gauge(&1.0)?;
            }
        }
        for (name, help, kind, of_table) in OF_TABLES {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for table in &tables {
                let Some(value) = of_table(table) else {
                    continue;
                };
                let labels = [("capture_instance", table.capture_instance.0.as_str())];
                let mut metric = family.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => metric.encode_counter::<NoLabelSet, f64, f64>(&value, None)?,
                    _ => metric.encode_gauge(&value)?,
                }
            }
        }
        {
            let help = "Time that batches spent, by phase";
            let mut family =
                encoder.encode_descriptor("sluice_table_batch_seconds", help, None, MetricType::Counter)?;
            for table in &tables {
                for (phase, spent) in Phase::ALL.into_iter().zip(table.spent) {
                    let labels = [
                        ("capture_instance", table.capture_instance.0.as_str()),
                        ("phase", phase.as_str()),
                    ];
                    family
                        .encode_family(&labels)?
                        .encode_counter::<NoLabelSet, f64, f64>(&spent, None)?;
                }
            }
        }
        let help = "1 while the table falls behind, with what takes the time; absent otherwise";
        let mut family = encoder.encode_descriptor("sluice_table_falling_behind", help, None, MetricType::Gauge)?;
        for table in &tables {
            if let Some(phase) = table.reason {
                let labels = [
                    ("capture_instance", table.capture_instance.0.as_str()),
                    ("phase", phase.as_str()),
                ];
                family.encode_family(&labels)?.encode_gauge(&1.0)?;
            }
        }
        Ok(())
    }
}

fn seconds(at: UtcMicros) -> f64 {
    at.0 as f64 / 1e6
}
