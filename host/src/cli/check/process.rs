//! What the configuration says of the process as a whole.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::super::Failure;
use super::super::out::say;
use crate::config::{OnStartError, OwnershipSettings, Secret, Settings};
use crate::error::ErrorKind;
use crate::web::Listening;

/// The status page of a run could be served: its token, where it needs one.
pub(super) fn expect_page(settings: &Settings) -> Result<(), Failure> {
    let Some(address) = settings.web.listen else {
        return Ok(());
    };
    let from_environment = std::env::var("SLUICE_HTTP_TOKEN").ok().map(Secret::new);
    let token = settings.web.token.as_ref().or(from_environment.as_ref());
    Listening::expect_access(address, token).map_err(|error| Failure::new(ErrorKind::Config, error.to_string()))
}

/// Names and words (none where there is nothing to say) for each section that is not a table's, in the order of the reference.
fn told(settings: &Settings) -> Vec<(&'static str, String)> {
    let mib = |bytes: u64| bytes >> 20;
    let limits = &settings.limits;
    let mut told = vec![(
        "limits",
        format!(
            "{} connections for rows, chunks of {} rows or {} MiB, {} MiB of memory",
            limits.connections,
            limits.chunk_rows,
            mib(limits.chunk_bytes as u64),
            mib(limits.memory)
        ),
    )];
    let mut groups: BTreeMap<&str, (u32, usize)> = BTreeMap::new();
    for table in &settings.tables {
        if let Some(group) = &table.group {
            groups.entry(group).or_insert((table.weight.get(), 0)).1 += 1;
        }
    }
    let groups: Vec<String> = groups
        .into_iter()
        .map(|(group, (weight, tables))| format!("{group} ({tables} tables) weighs {weight}"))
        .collect();
    told.push(("weights", groups.join(", ")));
    let on_start_error = match settings.run.on_start_error {
        OnStartError::Isolate => "a table that cannot start fails alone",
        OnStartError::Stop => "a table that cannot start stops the others",
    };
    let fail_fast = if settings.run.fail_fast {
        "; the first failure stops all"
    } else {
        ""
    };
    told.push(("run", format!("{on_start_error}{fail_fast}")));
    told.push(("maintenance", maintenance(settings)));
    told.push(("page", page(settings.web.listen)));
    told.push((
        "ownership",
        match &settings.ownership {
            OwnershipSettings::Lock => "the lock of each checkpoint".to_owned(),
            OwnershipSettings::Lease { hosts, lease, standby } => {
                format!(
                    "a lease of {lease:?} in {hosts}{}",
                    if *standby { ", standing by" } else { "" }
                )
            }
        },
    ));
    told
}

fn maintenance(settings: &Settings) -> String {
    let maintenance = &settings.maintenance;
    let compact = match &maintenance.compact {
        None => "small files are left".to_owned(),
        Some(which) => format!(
            "{} files below {} KiB are made one",
            which.at_least,
            which.smaller_than >> 10
        ),
    };
    match maintenance.facts_retention {
        None => format!("{compact}; facts are kept for ever"),
        Some(kept) => format!(
            "{compact}; facts of batches are kept for {} hours",
            kept.as_secs() / 3600
        ),
    }
}

fn page(listen: Option<SocketAddr>) -> String {
    listen.map_or_else(|| "none".to_owned(), |address| format!("at {address}"))
}

pub(super) fn print(settings: &Settings, json: bool) {
    let told = told(settings);
    if json {
        let mut object: serde_json::Map<String, serde_json::Value> = told
            .into_iter()
            .map(|(name, words)| (name.to_owned(), Some(words).filter(|words| !words.is_empty()).into()))
            .collect();
        object.insert("type".to_owned(), "process".into());
        say!("{}", serde_json::Value::Object(object));
        return;
    }
    for (name, words) in told.into_iter().filter(|(_, words)| !words.is_empty()) {
        say!("{name}: {words}");
    }
}
