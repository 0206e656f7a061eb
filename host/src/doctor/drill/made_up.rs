//! Situations that a table has to be brought into before they can go wrong.

use std::fs;
use std::io::{Error, Result};

use serde::Serialize;

use super::damages::Damaged;
use super::path_of;
use crate::checkpoint::{CommitRecord, Ended, Lease, Owner, PlannedBatch, StreamIdentity, files};
use crate::doctor::evidence::Evidence;
use crate::doctor::ledger::chain_of;
use crate::doctor::subject::Subject;
use crate::identity::{AppId, BatchId};
use crate::lsn::UtcMicros;
use crate::storage::Place;

/// Plans the batch after the newest one, in the likeness of the newest plan. `None` when there is none.
pub(super) fn open_batch(seen: &Evidence) -> Result<Option<Place>> {
    let checkpoint = &seen.checkpoint;
    let Some(newest) = checkpoint.commits.keys().next_back().copied() else {
        return Ok(None);
    };
    let open = checkpoint.plans.keys().rev().find(|(batch, _)| *batch > newest);
    if let Some((batch, attempt)) = open {
        return Ok(Some(checkpoint.plan_file(*batch, *attempt)));
    }
    let whole = |plan: &PlannedBatch| plan.clone();
    let Some(plan) = checkpoint.plans.values().rev().find_map(|plan| plan.whole().map(whole)) else {
        return Ok(None);
    };
    let plan = PlannedBatch {
        batch_id: BatchId(newest + 1),
        attempt: 0,
        start: Some(plan.end),
        first_lsn: plan.end.lsn.next(),
        reason: None,
        ..plan
    };
    let file = checkpoint.plan_file(newest + 1, 0);
    write(&file, &plan)?;
    Ok(Some(file))
}

/// A record that was edited by hand: its chain is not the one that its facts have.
pub(super) fn other_chain(seen: &Evidence) -> Result<Damaged> {
    let checkpoint = &seen.checkpoint;
    let newest = checkpoint.commits.keys().next_back().copied();
    let record = newest.and_then(|newest| checkpoint.commit(newest));
    let Some(record) = record.filter(|record| chain_of(&record.facts).is_some()) else {
        return Ok(Damaged::NotApplicable("the newest record does not tell its chain"));
    };
    let edited = CommitRecord {
        chain: "another".to_owned(),
        ..record.clone()
    };
    write(&checkpoint.commit_file(record.batch_id.0), &edited)?;
    Ok(Damaged::Done)
}

/// Another table's `stream.json`.
pub(super) fn foreign_identity(seen: &Evidence) -> Result<Damaged> {
    let checkpoint = &seen.checkpoint;
    if checkpoint.commits.is_empty() {
        return Ok(Damaged::NotApplicable(
            "the checkpoint has no record that says whose it is",
        ));
    }
    let another = StreamIdentity::new(AppId("another-table".to_owned()), "another", "dbo", "table");
    write(&checkpoint.root.join(files::STREAM), &another)?;
    Ok(Damaged::Done)
}

/// An owner on a machine that is gone, whose lease another process has ended.
pub(super) fn dead_owner(table: &Subject, seen: &Evidence) -> Result<Damaged> {
    let hosts = table.checkpoint.beside("hosts");
    fs::create_dir_all(path_of(&hosts))?;
    let before = seen.checkpoint.owner.as_ref().and_then(|owner| owner.whole());
    let id = "drill".to_owned();
    let now = UtcMicros::now();
    let lease = Lease {
        format: crate::checkpoint::FORMAT,
        id: id.clone(),
        host: "a-machine-that-is-gone".to_owned(),
        pid: 1,
        boot_id: None,
        device: None,
        beat: 7,
        lease_ms: 15_000,
        started_at: now,
        renewed_at: now,
        ended: Some(Ended {
            by: "the drill".to_owned(),
            at: now,
        }),
    };
    write(&hosts.join(&format!("{id}.json")), &lease)?;
    let owner = Owner {
        format: crate::checkpoint::FORMAT,
        host: lease.host,
        pid: lease.pid,
        fencing: before.map_or(1, |owner| owner.fencing),
        since: now,
        lease: Some(id),
        hosts: Some(hosts.to_string()),
        hosts_id: None,
        unsettled: Vec::new(),
    };
    write(&table.checkpoint.join(files::OWNER), &owner)?;
    Ok(Damaged::Done)
}

/// A deletion by another writer: a version that takes a file with rows out of bronze.
pub(super) fn deletion(table: &Subject, seen: &Evidence) -> Result<Damaged> {
    let bronze = &seen.bronze;
    let (Some(file), Some(newest)) = (bronze.active.iter().flatten().next(), bronze.newest()) else {
        return Ok(Damaged::NotApplicable("bronze has no data file"));
    };
    let now_ms = UtcMicros::now().0 / 1000;
    let lines = [
        serde_json::json!({"commitInfo": {"timestamp": now_ms, "operation": "DELETE", "operationParameters": {}}}),
        serde_json::json!({"remove": {
            "path": file.path, "dataChange": true, "deletionTimestamp": now_ms, "size": file.size,
            "extendedFileMetadata": true, "partitionValues": {},
        }}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let entry = table
        .target
        .join("_delta_log")
        .join(&format!("{:020}.json", newest + 1));
    fs::write(path_of(&entry), text)?;
    Ok(Damaged::Done)
}

fn write(file: &Place, content: &impl Serialize) -> Result<()> {
    // A new file in place of the old one, as an editor or a restore writes it.
    let bytes = serde_json::to_vec_pretty(content).map_err(Error::other)?;
    fs::write(path_of(file), bytes)
}
