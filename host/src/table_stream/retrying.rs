//! Steps that are tried again, and what ends that.

use std::time::{Duration, Instant};

use crate::error::{Classify, ErrorKind, chain};
use crate::identity::CaptureInstance;
use crate::report::Event;
use crate::retry;
use crate::source::SourceError;

use super::open::OpenTable;
use super::{Shared, StreamError, millis};

/// How long `--once` waits for capture to reach a table that was just enabled. Azure SQL captures about every 20 s.
const CAPTURE_PATIENCE: Duration = Duration::from_secs(60);
/// From one look at why a table has no low end to the next.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Since when the server answers zeros for the table's low end.
#[derive(Debug)]
pub(super) struct Unreached {
    since: Instant,
    looked: Instant,
}

impl Shared {
    /// Waits before the next attempt, or gives the error back. [`StreamError::Stopped`] when the stream is to end.
    pub(super) async fn pause(
        &self,
        capture_instance: &CaptureInstance,
        error: StreamError,
        failures: &mut u32,
    ) -> Result<(), StreamError> {
        if self.stop.is_cancelled() && error.kind() == ErrorKind::Retryable {
            return Err(StreamError::Stopped);
        }
        *failures += 1;
        let Some(pause) = retry::pause(error.kind(), *failures) else {
            return Err(error);
        };
        self.tell(Event::Retrying {
            capture_instance: capture_instance.clone(),
            error: chain(&error),
            failures: *failures,
            pause_ms: millis(pause),
        });
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = self.stop.cancelled() => Err(StreamError::Stopped),
        }
    }
}

impl OpenTable {
    /// Does a step until it works or its failure is final. A step alone is repeated, never the batch for it.
    pub(super) async fn retried<T, F>(&self, step: impl Fn() -> F) -> Result<T, StreamError>
    where
        F: Future<Output = Result<T, StreamError>>,
    {
        let mut failures = 0;
        loop {
            match step().await {
                Ok(done) => return Ok(done),
                Err(error) => self.pause(error, &mut failures).await?,
            }
        }
    }

    /// As [`Shared::pause`]; zeros for the low end are explained first, as a missing grant does not mend itself.
    pub(super) async fn pause(&self, error: StreamError, failures: &mut u32) -> Result<(), StreamError> {
        let zeros = match &error {
            StreamError::Source(source) => match &**source {
                SourceError::NotReached { capture_instance } => Some(capture_instance.clone()),
                _ => None,
            },
            _ => None,
        };
        let error = match zeros {
            Some(instance) => self.explain_zeros(&instance).await,
            None => error,
        };
        self.shared
            .pause(&self.settings.capture_instance, error, failures)
            .await
    }

    /// The server answers zeros for the low end. While capture only has to get there, this warns once and returns; under
    /// `--once` not for ever.
    pub(super) async fn wait_for_capture(
        &self,
        unreached: &mut Option<Unreached>,
        once: bool,
    ) -> Result<(), StreamError> {
        let now = Instant::now();
        let first = unreached.is_none();
        let unreached = unreached.get_or_insert(Unreached {
            since: now,
            looked: now,
        });
        if !first && unreached.looked.elapsed() < LOOK_AGAIN {
            return Ok(());
        }
        unreached.looked = now;
        let mut failures = 0;
        loop {
            let error = self.explain_zeros(self.instance_in_force()).await;
            match &error {
                StreamError::Source(source) if matches!(**source, SourceError::NotReached { .. }) => {
                    if once && unreached.since.elapsed() >= CAPTURE_PATIENCE {
                        return Err(error);
                    }
                    if first {
                        self.shared.tell(Event::Warning {
                            capture_instance: self.settings.capture_instance.clone(),
                            message: chain(&error),
                        });
                    }
                    return Ok(());
                }
                _ => self.shared.pause(self.instance(), error, &mut failures).await?,
            }
        }
    }

    async fn explain_zeros(&self, instance: &CaptureInstance) -> StreamError {
        let explained = async {
            let mut asker = self.shared.asks.get().await?;
            self.shared.catalog.explain_zeros(&mut asker, instance).await
        };
        match explained.await {
            Ok(error) | Err(error) => error.into(),
        }
    }
}
