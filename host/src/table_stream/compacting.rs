//! Small files of bronze made one, by the stream that writes them: between its batches, so that the two never compete.

use std::time::Instant;

use crate::lake::Looked;
use crate::lsn::UtcMicros;

use super::open::OpenTable;

impl OpenTable {
    /// Nothing is left to do for now: makes one file of small ones, where there may be enough of them and it is time for that.
    pub(super) async fn compact_when_due(&mut self) {
        let maintenance = self.shared.maintenance;
        let Some(which) = maintenance
            .compact
            .filter(|_| maintenance.window.is_open(UtcMicros::now()))
        else {
            return;
        };
        let version = self.bronze.version().await;
        // Each commit brings one small file or a few: with fewer commits since the last look, there are not enough.
        if version < self.compact_at || Instant::now() < self.compact_after {
            return;
        }
        // One at a time in the process: what it reads and encodes is in no turn's account. A busy one is for the next look.
        let Ok(_place) = self.shared.compacting.try_acquire() else {
            return;
        };
        match self.bronze.compact(which).await {
            Ok(Looked::MadeOne(done)) => {
                // There may be more of them.
                self.compact_at = 0;
                tracing::info!(
                    table = %self.settings.target.display(), files = done.files, bytes = done.bytes,
                    into_bytes = done.into_bytes, version = done.version, "small files were made one"
                );
            }
            Ok(Looked::TooFew { old, young }) if old + young >= which.at_least => {
                self.compact_after = Instant::now() + which.older_than;
            }
            Ok(Looked::TooFew { old, young }) => {
                let missing = which.at_least - old - young;
                self.compact_at = version.saturating_add(missing as u64);
            }
            Ok(Looked::Overtaken) => {}
            // The rows are where they were.
            Err(error) => {
                self.compact_at = version.saturating_add(which.at_least as u64);
                tracing::warn!(table = %self.settings.target.display(), %error, "small files could not be made one");
            }
        }
    }
}
