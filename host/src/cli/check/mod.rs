//! `sluice check`: what a run would find out before its first batch, and nothing written.

mod process;

use std::sync::Arc;

use clap::Args;

use super::out::say;
use super::run::worst;
use super::{ConfigArgs, Failure, grants};
use crate::clock::{Clock, Zone};
use crate::config::{Encrypt, OnDataLoss, Origin, OwnershipSettings, Settings, TableSettings, Trigger};
use crate::error::{Classify, ErrorKind};
use crate::fanout::{engine, expand, expect_stores, key_ring};
use crate::lake::delta_type;
use crate::scheduler::Scheduler;
use crate::source::{
    AskPool, Asker, Catalog, ChangeReader, SourceError, StreamPool, TableSource, check_history, expect_left, persist,
};
use crate::table_stream::{Course, Open, Standing, StreamError, plugin_name, recorded_position, specs, standing};
use crate::transform::{Chain, Engine, KeyRing, OnError, Provenance, Route, SourceRoute};

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print only the T-SQL that gives the login what these tables need.
    #[arg(long)]
    grants: bool,
    /// Print one JSON object a line (docs/reference/json.md).
    #[arg(long)]
    pub(super) json: bool,
}

fn warn(message: &str, json: bool) {
    match json {
        true => say!("{}", serde_json::json!({"type": "warning", "message": message})),
        false => say!("warning: {message}"),
    }
}

pub(super) async fn run(args: CheckArgs) -> Result<(), Failure> {
    let json = args.json;
    let mut settings = Settings::load(&args.config.config)?;
    settings.select(&args.config.tables)?;
    if args.grants {
        return grants::print(&settings, json).await;
    }
    for warning in &settings.warnings {
        warn(warning, json);
    }
    process::expect_page(&settings)?;
    let engine = engine(&settings)?;
    let keys = key_ring(&settings).map_err(|error| Failure::new(ErrorKind::Config, error.to_string()))?;
    let asks = AskPool::new(settings.source.clone(), 1);
    let catalog = persist(|| async { Catalog::read(&mut *asks.get().await?).await }).await?;
    let told = settings.warnings.len();
    let settings = expand(&settings, &catalog)?;
    for warning in &settings.warnings[told..] {
        warn(warning, json);
    }
    let mut asker = asks.get().await?;
    let pool = StreamPool::new(settings.source.clone(), &Scheduler::new(&settings.limits));
    persist(|| pool.warm_up()).await?;
    expect_stores(&settings).await?;
    print_source(&settings, &catalog, json);
    process::print(&settings, json);
    let mut failed: Vec<(ErrorKind, String)> = Vec::new();
    let mut lacks_grants = false;
    for table in &settings.tables {
        if !json {
            say!("\n{}", table.capture_instance);
        }
        let checked = check_table(&catalog, &mut asker, &engine, &keys, (table, &settings.ownership)).await;
        if json {
            let error = checked.as_ref().err();
            let ready = checked.as_ref().ok();
            let state = ready.map(|(_, _, standing)| describe_standing(standing));
            say!(
                "{}",
                serde_json::json!({
                    "type": "checked", "capture_instance": table.capture_instance, "ready": error.is_none(),
                    "state": state, "transform": ready.map(|(_, opened, _)| opened.provenance()),
                    "columns": ready.map(|(_, opened, _)| json_columns(opened)),
                    "kind": error.map(Classify::kind), "error": error.map(StreamError::told),
                })
            );
        }
        match checked {
            Ok((source, opened, standing)) if !json => print_table(table, &source, &opened, &standing, &pool),
            Ok(_) => {}
            Err(error) => {
                if !json {
                    say!("  error: {}", error.told());
                }
                lacks_grants |= matches!(&error, StreamError::Source(error) if matches!(
                    **error,
                    SourceError::Permission { .. } | SourceError::UnknownInstance(_)
                ));
                failed.push((error.kind(), table.capture_instance.0.clone()));
            }
        }
    }
    if json {
        grants::show(&grants::script(&settings, Some(&catalog)), true);
    } else if lacks_grants {
        say!("\nsluice check --grants prints the T-SQL that gives the login what these tables need");
    }
    match worst(failed.iter().map(|(kind, _)| *kind)) {
        None => {
            if !json {
                say!(
                    "\n{} of {} tables are ready to run",
                    settings.tables.len(),
                    settings.tables.len()
                );
            }
            Ok(())
        }
        Some(kind) => {
            let names: Vec<&str> = failed.iter().map(|(_, name)| name.as_str()).collect();
            Err(Failure {
                kind,
                message: format!(
                    "{} of {} tables cannot run: {}",
                    failed.len(),
                    settings.tables.len(),
                    names.join(", ")
                ),
                shown: json,
            })
        }
    }
}

/// Where the source is, and whose the tables are.
fn print_source(settings: &Settings, catalog: &Catalog, json: bool) {
    let source = &settings.source;
    let user = source.database_user();
    if json {
        say!(
            "{}",
            serde_json::json!({
                "type": "source", "server": source.server.to_string(), "database": catalog.database,
                "version": catalog.version, "user": user, "tls": source.encrypt != Encrypt::Login,
                "time_zone": catalog.zone.named().and_then(Clock::zone_name),
            })
        );
        for message in &catalog.warnings {
            say!("{}", serde_json::json!({"type": "warning", "message": message}));
        }
        return;
    }
    say!(
        "source: {} database {} (SQL Server {}), logged in{}; in the database as user {user}",
        source.server,
        catalog.database,
        catalog.version,
        if source.encrypt == Encrypt::Login {
            ""
        } else {
            " over TLS"
        }
    );
    match catalog.zone {
        Zone::Configured(zone) => say!("time zone: {zone} (source.source_time_zone)"),
        Zone::Named(zone) => say!("time zone: {zone} (the server says so)"),
        Zone::Unknown => say!("time zone: not known"),
    }
    for message in &catalog.warnings {
        say!("warning: {message}");
    }
}

async fn check_table(
    catalog: &Catalog,
    asker: &mut Asker,
    engine: &Arc<Engine>,
    keys: &KeyRing,
    (table, ownership): (&TableSettings, &OwnershipSettings),
) -> Result<(TableSource, Chain, Standing), StreamError> {
    let (position, begins) = recorded_position(table).await?;
    let source = catalog
        .open_table(
            asker,
            &table.capture_instance,
            position,
            &begins,
            table.columns.as_deref(),
        )
        .await?;
    let opened = Chain::open(engine, &source.shape, &specs(table), keys, &table.protect)?;
    let opened = opened.with_leak_check(table.leak_check);
    let standing = standing(table, ownership, &catalog.database, &source, &opened).await?;
    if let Some((_, Some(end))) = standing.last {
        check_history(asker, &source.shape.capture_instance, end, catalog.zone.named()).await?;
        match expect_left(asker, &source.table, end).await {
            Err(SourceError::Purged { .. }) if table.reading.on_data_loss == OnDataLoss::Skip => {}
            left => left?,
        }
    }
    Ok((source, opened, standing))
}

fn print_table(table: &TableSettings, source: &TableSource, opened: &Chain, standing: &Standing, pool: &StreamPool) {
    let shape = &source.shape;
    say!(
        "  reads      [{}].[{}] through {}",
        shape.schema,
        shape.table,
        shape.capture_instance
    );
    let trigger = match table.trigger {
        Trigger::Every(interval) => format!("every {interval:?}"),
        Trigger::Continuous => "continuous".to_owned(),
        Trigger::AvailableNow => "available-now".to_owned(),
    };
    for (key, value) in [
        ("target", table.target.display().to_string()),
        ("app_id", table.app_id.to_string()),
        ("checkpoint", table.checkpoint.display().to_string()),
        ("facts_table", table.facts_table.display().to_string()),
        ("control_table", table.control_table.display().to_string()),
        ("trigger", trigger),
        ("max_commits_per_batch", table.max_commits_per_batch.to_string()),
        ("num_partitions", table.reading.num_partitions.to_string()),
        ("starting_lsn", table.reading.starting_lsn.to_string()),
        (
            "on_data_loss",
            format!("{:?}", table.reading.on_data_loss).to_lowercase(),
        ),
        (
            "schema_change_policy",
            format!("{:?}", table.reading.schema_change_policy).to_lowercase(),
        ),
        (
            "capture_stalled_after",
            format!("{:?}", table.reading.capture_stalled_after),
        ),
        ("granularity", format!("{:?}", table.granularity).to_lowercase()),
        ("idle_interval", format!("{:?}", table.idle_interval)),
        (
            "on_transform_change",
            format!("{:?}", table.on_transform_change).to_lowercase(),
        ),
        ("leak_check", format!("{:?}", table.leak_check).to_lowercase()),
        ("max_quarantined", table.max_quarantined.to_string()),
    ] {
        let origin = match table.origins.get(key) {
            Some(Origin::Table) => "the table",
            Some(Origin::Defaults) => "defaults",
            Some(Origin::BuiltIn) | None => "built in",
        };
        say!("  {key:<22} {value}  ({origin})");
    }
    if !table.protect.is_empty() {
        say!("  {:<22} {}", "protect", table.protect.join(", "));
    }
    if opened.provenance().is_empty() {
        say!("  transform  none: every column goes to Delta as it is");
    }
    for (step, settings) in opened.provenance().iter().zip(&table.transforms) {
        say!(
            "  transform  {}  sha256 {:.16}…  wit {}  memory {} MiB  output {} MiB  deadline {:?}  on_error {}{}{}",
            plugin_name(step),
            step.sha256,
            step.wit,
            settings.memory_bytes >> 20,
            settings.output_bytes >> 20,
            settings.deadline,
            match settings.on_error {
                OnError::Fail => "fail",
                OnError::Quarantine => "quarantine",
            },
            if settings.wasi { "  wasi" } else { "" },
            describe_grants(step)
        );
    }
    say!("  columns");
    let routes = opened.routes();
    for column in &shape.columns {
        let route = routes.iter().find(|route| route.column == column.name);
        say!(
            "    {:<24} {:<18} {}{}",
            column.name,
            column.source_type,
            describe_route(route, opened),
            column.key.map(|key| format!("  (key {key})")).unwrap_or_default()
        );
    }
    for column in opened.output() {
        // What is made of no column stands under none of the above.
        if let (Route::Computed { sources, .. }, Some(how)) = (&column.from, column.from.how())
            && sources.is_empty()
        {
            let data_type = delta_type(&column.data_type).map(|data_type| data_type.to_string());
            say!(
                "    {:<24} {:<18} {how}, as {}",
                column.name,
                "(new)",
                data_type.unwrap_or_default()
            );
        }
    }
    for instance in 0..source.table.instances.len() {
        let reader = ChangeReader::new(pool.clone(), &source.table, instance, shape);
        say!("  statement  {}", reader.statement());
    }
    say!("  state      {}", describe_standing(standing));
}

const NOTHING_DONE: &str = "nothing is done yet: a run begins at the first recorded change and copies no older rows";

/// Where a run would go on.
fn describe_standing(standing: &Standing) -> String {
    let mut text = match (&standing.last, standing.has_bronze) {
        (Some((batch, Some(end))), _) => format!("batch {batch} is done, up to {} ({})", end.lsn, end.commit_ts),
        (Some((batch, None)), _) => {
            format!("batch {batch} is done, without rows, and a run begins at the first change")
        }
        (None, true) => format!("{NOTHING_DONE}; the bronze table is there and fits"),
        (None, false) => NOTHING_DONE.to_owned(),
    };
    if let Some((batch, open)) = &standing.open {
        text.push_str(&match open {
            Open::InHand => format!("; batch {batch} is in hand"),
            Open::Recorded => {
                format!("; batch {batch} is in bronze and not recorded as done, and the next run records it")
            }
            Open::Closed => format!(
                "; batch {batch} was begun and not written: the next run closes it without rows and reads its range again"
            ),
            Open::GoesOn(Course::AsPlanned) => format!("; batch {batch} was begun, and the next run finishes it"),
            Open::GoesOn(Course::Anew { attempt, reason }) => format!(
                "; batch {batch} was begun and not written, and the next run plans it anew (attempt {attempt}): {reason}"
            ),
        });
    }
    if let Some(changed) = &standing.chain_changed {
        text.push_str(&format!("; {changed}"));
    }
    if let Some(owner) = &standing.owner {
        text.push_str(&format!("; {owner} runs it now"));
    }
    if let Some(stopped) = &standing.stopped {
        text.push_str(&format!(
            "; a run stopped at {}, and the next one stops there too unless this is over: {}",
            stopped.at, stopped.error
        ));
    }
    text
}

/// What a transform may use, key by key with its version. Of a component of 0.1.0 it is all that is known of keys.
fn describe_grants(step: &Provenance) -> String {
    let mut text = String::new();
    if !step.keys.is_empty() {
        let keys: Vec<String> = step
            .keys
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        text.push_str(&format!("  keys {}", keys.join(", ")));
    }
    if !step.lookups.is_empty() {
        let lookups: Vec<&str> = step.lookups.keys().map(String::as_str).collect();
        text.push_str(&format!("  lookups {}", lookups.join(", ")));
    }
    text
}

/// The columns of bronze that are made from the source, each with where it comes from.
fn json_columns(opened: &Chain) -> Vec<serde_json::Value> {
    opened
        .output()
        .iter()
        .map(|column| {
            let (passes, sources, how, keys) = match &column.from {
                Route::Passed { source } => (Some(source), None, None, None),
                Route::Computed { sources, how, keys } => (None, Some(sources), Some(how), Some(keys)),
            };
            serde_json::json!({
                "column": column.name, "data_type": delta_type(&column.data_type).map(|data_type| data_type.to_string()),
                "passes": passes, "sources": sources, "how": how, "keys": keys,
            })
        })
        .collect()
}

fn describe_route(route: Option<&SourceRoute>, opened: &Chain) -> String {
    let Some(route) = route else {
        return "dropped".to_owned();
    };
    let type_of = |name: &str| {
        opened
            .output()
            .iter()
            .find(|column| column.name == name)
            .and_then(|column| delta_type(&column.data_type))
            .map(|data_type| data_type.to_string())
            .unwrap_or_default()
    };
    let passed = route.passed_as.iter().map(|name| {
        if *name == route.column {
            format!("passes as {}", type_of(name))
        } else {
            format!("passes as {name} {}", type_of(name))
        }
    });
    let computed = route.computed_into.iter().map(|made| {
        let (name, how) = (&made.column, &made.how);
        if *name == route.column {
            format!("{how}, as {}", type_of(name))
        } else {
            format!("{how}, as {name} {}", type_of(name))
        }
    });
    let all: Vec<String> = passed.chain(computed).collect();
    if all.is_empty() {
        "dropped".to_owned()
    } else {
        all.join("; ")
    }
}
