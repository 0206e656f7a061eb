//! The plugins that this process has taken, so that a file that changes afterwards takes effect when it may: with
//! `[plugins] reload = true` at a table's next batch, else at the next start.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::component::PluginError;
use super::engine::{Engine, Plugin};
use super::registry::Sighting;

/// A file that was written so recently may still be written: it is looked at again.
const QUIET: Duration = Duration::from_secs(1);
/// How often that happens before the next batch is left to look.
const LOOKS: u32 = 5;

/// A plugin as it was taken from its file.
#[derive(Clone)]
pub(super) struct Taken {
    pub(super) plugin: Plugin,
    /// For messages.
    pub(super) file: String,
    /// The file as it was before it was read; `None` for a built-in component.
    pub(super) sighting: Option<Sighting>,
    /// The name of its file; `None` for a built-in component.
    pub(super) file_name: Option<String>,
    /// A later look at the file that found nothing to use.
    refused: Option<(Option<Sighting>, PluginError)>,
}

impl Taken {
    pub(super) fn new(plugin: Plugin, file: String, sighting: Option<Sighting>) -> Taken {
        let file_name = sighting.as_ref().and_then(Sighting::file_name);
        Taken {
            plugin,
            file,
            sighting,
            file_name,
            refused: None,
        }
    }
}

/// What was taken, by the name that tables use.
#[derive(Default)]
pub(super) struct AllTaken(Mutex<HashMap<String, Taken>>);

impl AllTaken {
    pub(super) fn get(&self, plugin: &str) -> Option<Taken> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(plugin)
            .cloned()
    }

    /// Keeps what was loaded first: what is in force.
    pub(super) fn first(&self, plugin: &str, loaded: Taken) -> Taken {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(plugin.to_owned()).or_insert(loaded).clone()
    }

    /// Notes that a later file cannot be used, beside what is in force by now: another table may have looked meanwhile.
    fn refuse(&self, plugin: &str, taken: Taken, refused: (Option<Sighting>, PluginError)) -> Taken {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = all.entry(plugin.to_owned()).or_insert(taken);
        taken.refused = Some(refused);
        taken.clone()
    }

    fn replace(&self, plugin: &str, taken: Taken) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(plugin.to_owned(), taken);
    }
}

/// What a look at a plugin's file found.
#[derive(Debug)]
pub(crate) struct Refreshed {
    /// SHA-256 of the file in force, lower-case hex.
    pub(crate) sha256: String,
    /// The file is another one now and cannot be used, so that the one before stays in force: the state of the file, and
    /// why.
    pub(crate) refused: Option<(Option<Sighting>, PluginError)>,
}

impl Engine {
    /// Looks whether the file of a plugin that was taken is another one now, and takes it if it can be used. A file that is
    /// no component (it may be half written) is not taken. Blocks: for a moment where a file was just written, and for as
    /// long as a new component is compiled.
    ///
    /// # Errors
    /// A component that the lock file does not have. Nothing may run in its place.
    pub(crate) fn refresh(&self, plugin: &str) -> Result<Refreshed, PluginError> {
        let Some(taken) = self.taken.get(plugin) else {
            // Nobody opened it yet, so what is in the file now is what is taken.
            let plugin = self.plugin(plugin, None)?;
            return Ok(in_force(plugin.compiled.sha256.clone()));
        };
        if taken.sighting.is_none() {
            return Ok(in_force(taken.plugin.compiled.sha256.clone()));
        }
        let seen = match self.quiet_sighting(plugin, &taken) {
            Ok(Some(seen)) => seen,
            // As it was, or still being written.
            Ok(None) => return Ok(as_told(&taken)),
            Err(error) => return Ok(self.refuse(plugin, taken, None, error)),
        };
        if let Some((Some(refused), _)) = &taken.refused
            && *refused == seen
        {
            return Ok(as_told(&taken));
        }
        match self.load_anew(plugin, &taken) {
            Ok(now) => {
                let sha256 = now.plugin.compiled.sha256.clone();
                self.taken.replace(plugin, now);
                Ok(in_force(sha256))
            }
            Err(error @ (PluginError::OtherThanLocked { .. } | PluginError::NotLocked { .. })) => Err(error),
            Err(error) => Ok(self.refuse(plugin, taken, Some(seen), error)),
        }
    }

    /// The file, when it is another one than was taken and nobody seems to be writing it.
    fn quiet_sighting(&self, plugin: &str, taken: &Taken) -> Result<Option<Sighting>, PluginError> {
        for look in 0..LOOKS {
            let seen = self.registry.sighting(plugin)?;
            if seen == taken.sighting {
                return Ok(None);
            }
            let age = seen
                .as_ref()
                .and_then(|seen| SystemTime::now().duration_since(seen.changed()).ok());
            match age
                .and_then(|age| QUIET.checked_sub(age))
                .filter(|left| !left.is_zero())
            {
                None => return Ok(seen),
                Some(_) if look + 1 == LOOKS => return Ok(None),
                Some(left) => std::thread::sleep(left),
            }
        }
        Ok(None)
    }

    fn refuse(&self, plugin: &str, taken: Taken, seen: Option<Sighting>, error: PluginError) -> Refreshed {
        as_told(&self.taken.refuse(plugin, taken, (seen, error)))
    }
}

fn in_force(sha256: String) -> Refreshed {
    Refreshed { sha256, refused: None }
}

fn as_told(taken: &Taken) -> Refreshed {
    Refreshed {
        sha256: taken.plugin.compiled.sha256.clone(),
        refused: taken.refused.clone(),
    }
}
