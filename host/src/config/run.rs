//! `[run]`: how the tables of a run go together.

use super::ConfigError;
use super::section::Section;
use super::table::one_of;

/// What a table that cannot be opened means for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStartError {
    /// They run; the run reports that table at its end.
    #[default]
    Isolate,
    /// Those that have started are stopped, and the run ends.
    Stop,
}

/// `[run]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSettings {
    /// What a table that cannot be opened means for the others.
    pub on_start_error: OnStartError,
    /// The first table that fails stops all others, at the end of their batches.
    pub fail_fast: bool,
}

impl RunSettings {
    pub(super) fn parse(mut section: Section<'_>) -> Result<RunSettings, ConfigError> {
        let settings = RunSettings {
            on_start_error: one_of(
                &mut section,
                "on_start_error",
                &[("isolate", OnStartError::Isolate), ("stop", OnStartError::Stop)],
            )?
            .unwrap_or_default(),
            fail_fast: section.boolean("fail_fast")?.unwrap_or_default(),
        };
        section.finish()?;
        Ok(settings)
    }
}
