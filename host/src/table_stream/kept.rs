//! Where the checkpoint keeps the components that a table last ran with, for whoever has to put one back.

use crate::checkpoint::CheckpointReader;
use crate::config::TableSettings;
use crate::report::Event;
use crate::storage::Place;
use crate::transform::{ConfigFault, Provenance, TransformError};

use super::described::plugin_name;
use super::{Shared, StreamError};

/// Says where the components of the last chain are kept, when an error is about them. They are not run from there: what
/// runs is what the configuration names.
pub(super) async fn tell(shared: &Shared, settings: &TableSettings, error: &StreamError) {
    let about_components = match error {
        StreamError::TransformChanged { .. } => true,
        StreamError::Transform(TransformError::Config { fault, .. }) => matches!(fault, ConfigFault::Plugin(_)),
        _ => false,
    };
    if !about_components {
        return;
    }
    let location = settings.checkpoint.clone();
    let kept = tokio::task::spawn_blocking(move || kept(&location))
        .await
        .unwrap_or_default();
    if kept.is_empty() {
        return;
    }
    shared.tell(Event::Warning {
        capture_instance: settings.capture_instance.clone(),
        message: format!(
            "the checkpoint keeps the components of the last chain; copy one back to restore the former chain: {}",
            kept.join(", ")
        ),
    });
}

/// Each component of the newest plan, or of the last batch, whose bytes are there.
fn kept(checkpoint: &Place) -> Vec<String> {
    let reader = CheckpointReader::new(checkpoint);
    let Ok(state) = reader.latest() else {
        return Vec::new();
    };
    let planned = state.open.map(|open| open.provenance.to_string());
    let provenance = planned.or(state.last_committed.and_then(|record| record.facts.transform));
    let chain: Vec<Provenance> = provenance
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let found = chain.iter().filter_map(|step| {
        let file = reader.kept_component(&step.sha256)?;
        Some(format!("{} in {}", plugin_name(step), file.display()))
    });
    found.collect()
}
