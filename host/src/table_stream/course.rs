//! What becomes of a batch that an earlier run planned and did not end, and whether the chain may go on: by what earlier
//! runs left and by what the configuration says now. `docs/decisions/0009` has the table of cases.

use std::borrow::Cow;

use crate::checkpoint::{ATTEMPTS, CommitRecord, PlannedBatch, StateError};
use crate::config::{OnTransformChange, TableSettings};
use crate::identity::{BatchId, CaptureInstance};
use crate::quarantine::AttemptAt;
use crate::transform::{Chain, Provenance, digest_of};

use super::StreamError;
use super::bounds::{bounds, differences};
use super::described::{describe, describe_json, from_to, steps, what_changed};

/// What earlier runs left in the checkpoint.
#[derive(Clone)]
pub(super) struct Left<'a> {
    /// A batch that is planned and not done, and that bronze does not have.
    pub(super) open: Option<&'a PlannedBatch>,
    /// The last batch that is done.
    pub(super) last: Option<Ran<'a>>,
    /// The newest batch with rows that is done.
    pub(super) last_with_rows: Option<BatchId>,
    /// The newest attempt that has rows in quarantine.
    pub(super) in_quarantine: Option<AttemptAt>,
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

/// That the chain changed, where the next batch begins with another one because the user said that it may. Of a batch that was
/// planned and is not done its course says it.
pub(super) fn chain_changed(settings: &TableSettings, chain: &Chain, left: &Left<'_>) -> Option<String> {
    let is_open = left.open.is_some_and(|open| !open.ranges.is_empty());
    if is_open || settings.on_transform_change != OnTransformChange::Continue {
        return None;
    }
    told_of_change(chain.digest(), chain.provenance(), left)
}

fn told_of_change(digest: &str, provenance: &[Provenance], left: &Left<'_>) -> Option<String> {
    let last = left.last.as_ref().filter(|last| last.chain != digest)?;
    left.last_with_rows?;
    let done = left.open.map_or(last.batch, |open| open.batch_id);
    Some(format!(
        "chain changed: {}, from batch {} on (on_transform_change = \"continue\")",
        from_to(&steps(&last.provenance), provenance),
        done.0 + 1
    ))
}

/// The chain of the configuration.
struct InForce<'a> {
    digest: &'a str,
    provenance: &'a [Provenance],
    bounds: String,
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
    let later = |there: &AttemptAt| there.batch == open.batch_id && there.attempt > open.attempt;
    let newest = match left.in_quarantine.filter(later) {
        // Its rows are there, so nothing can be put there any more as the attempt whose plan is left.
        Some(lost) => {
            reasons.push(format!(
                "the plan of attempt {} is lost, and it had put rows into quarantine",
                lost.attempt
            ));
            lost.attempt
        }
        None => open.attempt,
    };
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
        let plugins: Vec<&str> = now.provenance.iter().map(|step| step.plugin.as_str()).collect();
        let mut changed = differences(planned, &now.bounds, &plugins);
        if changed.is_empty() && planned_so {
            changed.push(format!("from {planned} to {}", now.bounds));
        }
        // Where the transforms are others, the chain says it.
        if !changed.is_empty() {
            reasons.push(format!(
                "what decides which rows are taken changed: {}",
                changed.join(", ")
            ));
        }
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
    let attempt = newest + 1;
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
            in_quarantine: None,
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
    fn a_chain_that_changes_because_it_may_is_told_with_the_batch_that_begins_with_it() {
        let last = done("a");
        let told = |digest: &str, open: Option<&PlannedBatch>, rows: bool| {
            let left = Left {
                open,
                last: Some(Ran::recorded(&last)),
                last_with_rows: rows.then_some(BatchId(6)),
                in_quarantine: None,
            };
            told_of_change(digest, &[], &left)
        };
        assert_eq!(
            told("b", None, true).as_deref(),
            Some("chain changed: mask@1 → no transform, from batch 7 on (on_transform_change = \"continue\")")
        );
        // A position without rows takes a number.
        let mut idle = planned("a", "dbo_t", 0);
        idle.ranges.clear();
        assert!(told("b", Some(&idle), true).is_some_and(|text| text.contains("from batch 8 on")));
        assert_eq!(told("a", None, true), None);
        assert_eq!(told("b", None, false), None, "nothing is mixed");
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
            in_quarantine: None,
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
    fn an_attempt_comes_after_all_that_left_rows_in_quarantine() {
        let open = planned("b", "dbo_t", 0);
        let with = |in_quarantine: Option<(i64, u32)>| {
            let now = InForce {
                digest: "b",
                provenance: &[],
                bounds: "now".to_owned(),
            };
            let left = Left {
                open: Some(&open),
                last: None,
                last_with_rows: None,
                in_quarantine: in_quarantine.map(|(batch, attempt)| AttemptAt {
                    batch: BatchId(batch),
                    attempt,
                }),
            };
            decide(
                OnTransformChange::Fail,
                &[&CaptureInstance("dbo_t".to_owned())],
                &now,
                left,
            )
        };
        for in_quarantine in [None, Some((6, 4)), Some((7, 0))] {
            assert_eq!(with(in_quarantine).unwrap(), Course::AsPlanned, "{in_quarantine:?}");
        }
        let (attempt, reason) = anew(with(Some((7, 1))).unwrap());
        assert_eq!(attempt, 2);
        assert_eq!(
            reason,
            "the plan of attempt 1 is lost, and it had put rows into quarantine"
        );
        assert!(with(Some((7, 999))).is_err());
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
