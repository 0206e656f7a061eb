//! `[plugins] reload = true`: before a batch is planned, whether the files of the chain's plugins are still those that it
//! was opened with.

use std::sync::Arc;

use super::StreamError;
use super::open::OpenTable;
use crate::report::Event;
use crate::transform::{Place, PluginError, Sighting, TransformError};

/// A file that was there instead of the one that runs, and could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PluginRefused {
    plugin: String,
    /// The file, so that each change of it is told once.
    file: Option<Sighting>,
    error: PluginError,
}

impl OpenTable {
    /// Looks at the files of the chain's plugins, where they may take effect while the stream runs. A file that is no
    /// component, or that is gone, is told once for each change; the one that was taken before stays in force.
    ///
    /// # Errors
    /// [`StreamError::PluginsChanged`] when another file is in force now: the stream opens its chain again, and
    /// `on_transform_change` decides. A file that the lock file does not have.
    pub(super) async fn heed_plugins(&mut self) -> Result<(), StreamError> {
        if !self.shared.engine.reloads() || self.settings.transforms.is_empty() {
            return Ok(());
        }
        let engine = Arc::clone(&self.shared.engine);
        let plugins: Vec<String> = self
            .settings
            .transforms
            .iter()
            .map(|transform| transform.plugin.clone())
            .collect();
        let looks = tokio::task::spawn_blocking(move || {
            let look = |plugin: String| {
                let found = engine.refresh(&plugin);
                (plugin, found)
            };
            plugins.into_iter().map(look).collect::<Vec<_>>()
        })
        .await
        .map_err(|_| StreamError::Task {
            doing: "looking at its plugins",
        })?;
        let mut changed = Vec::new();
        let mut refused = Vec::new();
        for (step, ((plugin, found), ran)) in (1..).zip(looks.into_iter().zip(self.chain.provenance())) {
            let found = found.map_err(|error| TransformError::Config {
                place: Place {
                    table: self.instance().to_string(),
                    step,
                    plugin: plugin.clone(),
                },
                fault: error.into(),
            })?;
            if found.sha256 != ran.sha256 {
                changed.push(format!(
                    "the file of plugin {plugin} has SHA-256 {:.12}… now, and {:.12}… ran until here",
                    found.sha256, ran.sha256
                ));
            }
            refused.extend(found.refused.map(|(file, error)| PluginRefused { plugin, file, error }));
        }
        for now in refused.iter().filter(|now| !self.plugins_refused.contains(now)) {
            self.shared.tell(Event::Warning {
                capture_instance: self.settings.capture_instance.clone(),
                message: format!(
                    "the file of plugin {} changed and cannot be used, so the component before it runs on: {}",
                    now.plugin, now.error
                ),
            });
        }
        self.plugins_refused = refused;
        match changed.is_empty() {
            true => Ok(()),
            false => Err(StreamError::PluginsChanged {
                what: changed.join("; "),
            }),
        }
    }
}
