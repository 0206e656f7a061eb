//! `[web]`: the status page of a run.

use std::net::SocketAddr;
use std::path::Path;

use super::ConfigError;
use super::secret::{self, Secret, Secrets};
use super::section::Section;

/// `[web]`.
#[derive(Clone, Debug, Default)]
pub struct WebSettings {
    /// Where the page listens; `None`: there is none.
    pub listen: Option<SocketAddr>,
    /// What a reader from another machine has to give.
    pub token: Option<Secret>,
}

impl WebSettings {
    pub(super) fn parse(
        mut section: Section<'_>,
        base: &Path,
        secrets: Secrets,
        warnings: &mut Vec<String>,
    ) -> Result<WebSettings, ConfigError> {
        let listen =
            match section.string("listen")? {
                None => None,
                Some(text) => Some(text.parse().map_err(|_| {
                    section.error("listen", "must be an address and a port, such as \"127.0.0.1:9464\"")
                })?),
            };
        let token = match section.value("token") {
            None => None,
            Some(value) => Some(secret::resolve(&section.name("token"), value, base, secrets, warnings)?),
        };
        section.finish()?;
        Ok(WebSettings { listen, token })
    }
}
