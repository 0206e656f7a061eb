//! Bugs that a test plants, to see that the schedules of `tests/it/schedules` would find them.
//!
//! `SLUICE_PLANT=name` leaves one step of the protocol (`docs/decisions/0009-exactly-once.md`, `0014-quarantine.md`) out.
//! Builds without debug assertions have every step, whatever the environment says.

/// Bronze's transaction id and the newest known batch are not compared before an attempt, and a batch that is in bronze
/// is not looked for: a batch whose reply was lost, or whose process died after it, is written again.
pub const NO_FRESH_TXN_CHECK: &str = "no-fresh-txn-check";
/// Facts that a crash kept from the facts table are not written again from `commits/<n>`: rows are missing, and the
/// verdict gets ahead of them.
pub const FACTS_NOT_REBUILT: &str = "facts-not-rebuilt";
/// `#owner` is neither compared nor kept from going down: a process that was replaced goes on to write.
pub const FENCE_NOT_COMPARED: &str = "fence-not-compared";
/// Rows that an attempt put into quarantine count on when its batch became another attempt's, was closed, or was a retry that
/// was interrupted.
pub const ATTEMPTS_NOT_VOIDED: &str = "attempts-not-voided";
/// A retry of quarantine commits its rows to bronze, and quarantine is not told that they are out of it.
pub const RETRIED_NOT_TOLD: &str = "retried-not-told";

/// Every bug that can be planted.
pub const ALL: [&str; 5] = [
    NO_FRESH_TXN_CHECK,
    FACTS_NOT_REBUILT,
    FENCE_NOT_COMPARED,
    ATTEMPTS_NOT_VOIDED,
    RETRIED_NOT_TOLD,
];

/// Whether this bug is planted.
#[cfg(debug_assertions)]
pub(crate) fn is(name: &str) -> bool {
    use std::sync::OnceLock;

    static PLANTED: OnceLock<Option<String>> = OnceLock::new();
    let planted = PLANTED.get_or_init(|| {
        let text = std::env::var("SLUICE_PLANT").ok()?;
        if !ALL.contains(&text.as_str()) {
            super::refuse("SLUICE_PLANT", &text);
        }
        Some(text)
    });
    planted.as_deref() == Some(name)
}

/// No bug is planted in this build.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn is(_name: &str) -> bool {
    false
}
