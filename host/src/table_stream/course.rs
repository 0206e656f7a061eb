//! What becomes of a batch that an earlier run planned and did not end, and whether the chain may go on: by what earlier
//! runs left and by what the configuration says now. `docs/decisions/0009` has the table of cases.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::{ATTEMPTS, CommitRecord, PlannedBatch, StateError};
use crate::config::{OnTransformChange, TableSettings};
use crate::identity::{BatchId, CaptureInstance};
use crate::transform::{Chain, OnError, Provenance, digest_of};

use super::StreamError;

/// What earlier runs left in the checkpoint.
#[derive(Clone)]
pub(super) struct Left<'a> {
    /// A batch that is planned and not done, and that bronze does not have.
    pub(super) open: Option<&'a PlannedBatch>,
    /// The last batch that is done.
    pub(super) last: Option<Ran<'a>>,
    /// The newest batch with rows that is done.
    pub(super) last_with_rows: Option<BatchId>,
}

/// The chain that a batch ran.
#[derive(Clone)]
pub(super) struct Ran<'a> {
    batch: BatchId,
    /// Its digest.
    chain: &'a str,
    /// Its provenance, as JSON.
    provenance: Cow<'a, str>,
}

impl<'a> Ran<'a> {
    /// A batch that is recorded as done.
    pub(super) fn recorded(record: &'a CommitRecord) -> Ran<'a> {
        Ran {
            batch: record.batch_id,
            chain: &record.chain,
            provenance: record.facts.transform.as_deref().unwrap_or_default().into(),
        }
    }

    /// A batch that was committed under its plan.
    pub(super) fn planned(planned: &'a PlannedBatch) -> Ran<'a> {
        Ran {
            batch: planned.batch_id,
            chain: &planned.chain,
            provenance: planned.provenance.to_string().into(),
        }
    }
}

/// How the open batch goes on, if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Course {
    /// As it was planned.
    AsPlanned,
    /// In another attempt, because the configuration no longer says what the plan says.
    Anew {
        /// The number of the attempt.
        attempt: u32,
        /// What changed.
        reason: String,
    },
}

/// Decides. An error when a person has to: bronze would hold rows of two chains.
pub(super) fn course(
    settings: &TableSettings,
    instances: &[&CaptureInstance],
    chain: &Chain,
    left: Left<'_>,
) -> Result<Course, StreamError> {
    let now = InForce {
        digest: chain.digest(),
        provenance: chain.provenance(),
        bounds: bounds(settings),
    };
    decide(settings.on_transform_change, instances, &now, left)
}

/// The chain of the configuration.
struct InForce<'a> {
    digest: &'a str,
    provenance: &'a [Provenance],
    bounds: String,
}

/// What decides beside the chain which rows it takes: a row that overruns a limit, or shows a protected value, can go into
/// quarantine. A deadline cannot.
pub(super) fn bounds(settings: &TableSettings) -> String {
    let transforms = settings.transforms.iter().map(|transform| {
        let on_error = match transform.on_error {
            OnError::Fail => "fail",
            OnError::Quarantine => "quarantine",
        };
        format!(
            "{on_error} memory {} output {}",
            transform.memory_bytes, transform.output_bytes
        )
    });
    let mut protect = settings.protect.clone();
    protect.sort_unstable();
    format!(
        "{}; protect {}; leak_check {:?}",
        transforms.collect::<Vec<_>>().join(", "),
        protect.join(", "),
        settings.leak_check
    )
    .to_lowercase()
}

fn decide(
    policy: OnTransformChange,
    instances: &[&CaptureInstance],
    now: &InForce<'_>,
    left: Left<'_>,
) -> Result<Course, StreamError> {
    // A batch without ranges reads nothing, so it does not depend on the chain.
    let open = left.open.filter(|open| !open.ranges.is_empty());
    let planned_so = open.is_some_and(|open| open.chain == now.digest);
    if !planned_so {
        may_change(policy, now, &left)?;
    }
    let Some(open) = open else {
        return Ok(Course::AsPlanned);
    };
    let mut reasons = Vec::new();
    if !planned_so {
        let planned = open.provenance.to_string();
        reasons.push(format!(
            "the transform chain changed{}: from {} to {}",
            what_changed(&steps(&planned), now.provenance),
            describe_json(&planned),
            describe(now.provenance)
        ));
    }
    if let Some(planned) = open.bounds.as_ref().filter(|planned| **planned != now.bounds) {
        reasons.push(format!(
            "what decides which rows are taken changed: from {planned} to {}",
            now.bounds
        ));
    }
    let others = open.ranges.iter().map(|range| &range.capture_instance);
    if let Some(other) = others.into_iter().find(|other| !instances.contains(other)) {
        let names: Vec<&str> = instances.iter().map(|instance| instance.0.as_str()).collect();
        reasons.push(format!(
            "it was planned through capture instance {other}, and the table is read through {} now",
            names.join(" and ")
        ));
    }
    if open.clock().is_none() {
        reasons.push("it was planned with a time zone that this version of sluice does not know".to_owned());
    }
    if reasons.is_empty() {
        return Ok(Course::AsPlanned);
    }
    let attempt = open.attempt + 1;
    if attempt >= ATTEMPTS {
        return Err(StateError::TooManyAttempts {
            batch: open.batch_id,
            attempts: ATTEMPTS,
        }
        .into());
    }
    Ok(Course::Anew {
        attempt,
        reason: reasons.join("; "),
    })
}

/// Bronze's rows and those to come are of one chain, unless the user said that they may differ.
fn may_change(policy: OnTransformChange, now: &InForce<'_>, left: &Left<'_>) -> Result<(), StreamError> {
    let Some(last) = left.last.as_ref().filter(|last| last.chain != now.digest) else {
        return Ok(());
    };
    // Without rows in bronze there is nothing to be mixed with.
    if policy == OnTransformChange::Continue || left.last_with_rows.is_none() {
        return Ok(());
    }
    let ran = last.provenance.as_ref();
    if digest_of(ran).as_deref() == Some(now.digest) {
        return Err(StateError::RecordOfTwo { batch: last.batch }.into());
    }
    Err(StreamError::TransformChanged {
        batch: last.batch.0,
        open: left
            .open
            .filter(|open| !open.ranges.is_empty())
            .map(|open| open.batch_id.0),
        was: describe_json(ran),
        is: describe(now.provenance),
        what: what_changed(&steps(ran), now.provenance),
    })
}

/// `mask@0.1.0`.
pub(crate) fn plugin_name(provenance: &Provenance) -> String {
    format!("{}@{}", provenance.plugin, provenance.version)
}

/// A chain in one line, with what its digest depends on.
fn describe(provenance: &[Provenance]) -> String {
    if provenance.is_empty() {
        return "no transform".to_owned();
    }
    let steps: Vec<String> = provenance
        .iter()
        .map(|step| {
            let keys: Vec<String> = step
                .keys
                .iter()
                .map(|(name, version)| format!("{name}={version}"))
                .collect();
            let lookups: Vec<String> = step
                .lookups
                .iter()
                .map(|(name, sha256)| format!("{name}={sha256:.12}"))
                .collect();
            format!(
                "{} (component {:.12}, configuration {:.12}{}{}{}{})",
                plugin_name(step),
                step.sha256,
                step.config_sha256,
                if keys.is_empty() { "" } else { ", keys " },
                keys.join(" "),
                if lookups.is_empty() { "" } else { ", lookups " },
                lookups.join(" ")
            )
        })
        .collect();
    steps.join(" → ")
}

fn describe_json(provenance: &str) -> String {
    match steps(provenance) {
        Some(steps) => describe(&steps),
        None => "a chain that this version cannot read".to_owned(),
    }
}

fn steps(provenance: &str) -> Option<Vec<Provenance>> {
    serde_json::from_str(provenance).ok()
}

/// ` (the configuration of mask, key pii of mask)`: what is another in a chain of the same plugins; else nothing, because
/// the two chains say it.
fn what_changed(was: &Option<Vec<Provenance>>, now: &[Provenance]) -> String {
    let Some(was) = was else { return String::new() };
    let same_plugins = was
        .iter()
        .map(|step| &step.plugin)
        .eq(now.iter().map(|step| &step.plugin));
    if !same_plugins {
        return String::new();
    }
    let mut changed = Vec::new();
    for (was, now) in was.iter().zip(now) {
        if was.sha256 != now.sha256 {
            changed.push(format!("the component of {}", now.plugin));
        }
        if was.config_sha256 != now.config_sha256 {
            changed.push(format!("the configuration of {}", now.plugin));
        }
        let keys = differing(&was.keys, &now.keys);
        changed.extend(keys.map(|name| format!("key {name} of {}", now.plugin)));
        let lookups = differing(&was.lookups, &now.lookups);
        changed.extend(lookups.map(|name| format!("lookup {name} of {}", now.plugin)));
    }
    match changed.is_empty() {
        true => String::new(),
        false => format!(" ({})", changed.join(", ")),
    }
}

/// The names that do not mean the same in both.
fn differing<'a>(
    was: &'a BTreeMap<String, String>,
    now: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a String> {
    let names: BTreeSet<&String> = was.keys().chain(now.keys()).collect();
    names.into_iter().filter(|name| was.get(*name) != now.get(*name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::samples;
    use crate::error::{Classify, ErrorKind};

    const WAS: &str = r#"[{"plugin":"mask","version":"1","sha256":"aa","wit":"0.1.0","config_sha256":"bb","keys":{}}]"#;

    fn planned(chain: &str, instance: &str, attempt: u32) -> PlannedBatch {
        let mut planned = samples::planned(7, attempt);
        planned.chain = chain.to_owned();
        planned.provenance = serde_json::from_str(WAS).unwrap();
        planned.ranges[0].capture_instance = CaptureInstance(instance.to_owned());
        planned
    }

    fn done(chain: &str) -> CommitRecord {
        let mut record = samples::commit_record(6, Some(3));
        record.chain = chain.to_owned();
        record.facts.transform = Some(WAS.to_owned());
        record
    }

    /// The configuration has chain `b` and instance `dbo_t`.
    fn decided(
        policy: OnTransformChange,
        open: Option<&PlannedBatch>,
        last: Option<&CommitRecord>,
        rows: bool,
    ) -> Result<Course, StreamError> {
        let now = InForce {
            digest: "b",
            provenance: &[],
            bounds: "now".to_owned(),
        };
        let left = Left {
            open,
            last: last.map(Ran::recorded),
            last_with_rows: rows.then_some(BatchId(6)),
        };
        decide(policy, &[&CaptureInstance("dbo_t".to_owned())], &now, left)
    }

    fn anew(course: Course) -> (u32, String) {
        match course {
            Course::Anew { attempt, reason } => (attempt, reason),
            Course::AsPlanned => panic!("as planned"),
        }
    }

    #[test]
    fn a_batch_goes_on_as_planned_while_the_configuration_says_what_the_plan_says() {
        use OnTransformChange::{Continue, Fail};
        let open = planned("b", "dbo_t", 2);
        // The chain of the plan counts: the user agreed to it when the batch was planned.
        for (policy, last) in [(Fail, "b"), (Fail, "a"), (Continue, "a")] {
            let course = decided(policy, Some(&open), Some(&done(last)), true).unwrap();
            assert_eq!(course, Course::AsPlanned, "{policy:?} {last}");
        }
        assert_eq!(decided(Fail, None, None, false).unwrap(), Course::AsPlanned);
        assert_eq!(
            decided(Continue, None, Some(&done("a")), true).unwrap(),
            Course::AsPlanned
        );
    }

    #[test]
    fn another_chain_is_another_attempt_where_bronze_has_rows_of_none_or_of_the_new_one() {
        use OnTransformChange::{Continue, Fail};
        let open = planned("a", "dbo_t", 2);
        for (policy, last, rows) in [
            (Fail, None, false),
            (Fail, Some("a"), false),
            (Fail, Some("b"), true),
            (Continue, Some("a"), true),
        ] {
            let last = last.map(done);
            let (attempt, reason) = anew(decided(policy, Some(&open), last.as_ref(), rows).unwrap());
            assert_eq!(attempt, 3);
            assert_eq!(
                reason,
                "the transform chain changed: from mask@1 (component aa, configuration bb) to no transform"
            );
        }
    }

    #[test]
    fn rows_of_two_chains_need_a_word_of_the_user() {
        let open = planned("a", "dbo_t", 0);
        let error = decided(OnTransformChange::Fail, Some(&open), Some(&done("a")), true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(
            text.contains("since batch 6") && text.contains("batch 7 was planned and not written"),
            "{text}"
        );
        let text = decided(OnTransformChange::Fail, None, Some(&done("a")), true)
            .unwrap_err()
            .to_string();
        assert!(text.contains("since batch 6") && !text.contains("planned"), "{text}");
    }

    #[test]
    fn another_limit_or_on_error_is_another_attempt_because_it_decides_which_rows_are_taken() {
        let mut open = planned("b", "dbo_t", 0);
        open.bounds = Some("now".to_owned());
        let course = decided(OnTransformChange::Fail, Some(&open), Some(&done("b")), true).unwrap();
        assert_eq!(course, Course::AsPlanned);
        open.bounds = Some("then".to_owned());
        let (attempt, reason) = anew(decided(OnTransformChange::Fail, Some(&open), Some(&done("b")), true).unwrap());
        assert_eq!(attempt, 1);
        assert_eq!(reason, "what decides which rows are taken changed: from then to now");
    }

    #[test]
    fn another_instance_is_another_attempt() {
        let open = planned("b", "dbo_t_v1", 0);
        let (attempt, reason) = anew(decided(OnTransformChange::Fail, Some(&open), None, false).unwrap());
        assert_eq!(attempt, 1);
        assert_eq!(
            reason,
            "it was planned through capture instance dbo_t_v1, and the table is read through dbo_t now"
        );
    }

    #[test]
    fn a_batch_that_reads_nothing_depends_on_no_chain() {
        let mut open = planned("a", "dbo_t", 0);
        open.ranges.clear();
        let course = decided(OnTransformChange::Continue, Some(&open), Some(&done("a")), true).unwrap();
        assert_eq!(course, Course::AsPlanned);
        assert!(decided(OnTransformChange::Fail, Some(&open), Some(&done("a")), true).is_err());
    }

    #[test]
    fn what_changed_is_said_where_the_plugins_are_the_same() {
        let step = |sha256: &str, config: &str, key: &str| Provenance {
            plugin: "mask".into(),
            version: "1".into(),
            sha256: sha256.into(),
            wit: "0.1.0".into(),
            config_sha256: config.into(),
            keys: [("pii".to_owned(), key.to_owned())].into(),
            lookups: BTreeMap::new(),
        };
        let looking = |sha256: &str| Provenance {
            lookups: [("countries".to_owned(), sha256.to_owned())].into(),
            ..step("aa", "bb", "v1")
        };
        let was = Some(vec![step("aa", "bb", "v1")]);
        let said = |now: &[Provenance]| what_changed(&was, now);
        assert_eq!(said(&[step("aa", "cc", "v1")]), " (the configuration of mask)");
        assert_eq!(
            said(&[step("ab", "bb", "v2")]),
            " (the component of mask, key pii of mask)"
        );
        assert_eq!(said(&[looking("cc")]), " (lookup countries of mask)");
        let looked = Some(vec![looking("cc")]);
        assert_eq!(what_changed(&looked, &[looking("dd")]), " (lookup countries of mask)");
        assert_eq!(what_changed(&looked, &[looking("cc")]), "");
        assert!(
            describe(&[looking("0123456789abcdef")]).ends_with(", keys pii=v1, lookups countries=0123456789ab)"),
            "{}",
            describe(&[looking("0123456789abcdef")])
        );
        assert_eq!(said(&[]), "");
        assert_eq!(what_changed(&None, &[]), "");
    }

    #[test]
    fn a_record_that_contradicts_itself_is_damage_and_no_change() {
        let mut record = done("a");
        record.facts.transform = Some("[]".to_owned());
        let digest = digest_of("[]").unwrap();
        let now = InForce {
            digest: &digest,
            provenance: &[],
            bounds: "now".to_owned(),
        };
        let left = Left {
            open: None,
            last: Some(Ran::recorded(&record)),
            last_with_rows: Some(BatchId(6)),
        };
        let error = decide(
            OnTransformChange::Fail,
            &[&CaptureInstance("dbo_t".to_owned())],
            &now,
            left,
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State);
        assert!(error.to_string().contains("commits/6.json"), "{error}");
    }

    #[test]
    fn attempts_end_before_their_numbers_do() {
        let error = decided(
            OnTransformChange::Continue,
            Some(&planned("a", "dbo_t", 999)),
            None,
            false,
        )
        .unwrap_err();
        assert!(error.to_string().contains("batch 7 has had 1000 attempts"), "{error}");
    }
}
