//! `sluice lock`: accepts the plugin files that the configuration names, as they are now. Needs no source and no secret.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::out::say;
use crate::config::Settings;
use crate::error::ErrorKind;
use crate::lake::durable;
use crate::transform::{Engine, Lookups, Pin, Pins};

#[derive(Debug, Args)]
pub(super) struct LockArgs {
    /// The configuration file. The lock file is beside it: sluice.lock of sluice.toml.
    #[arg(short = 'c', long = "config", value_name = "FILE", default_value = "sluice.toml")]
    config: PathBuf,
    /// Write nothing; exit with 2 if the plugin files are not those of the lock file, or there is none.
    #[arg(long)]
    check: bool,
    /// Print one JSON object a line (docs/reference/json.md).
    #[arg(long)]
    pub(super) json: bool,
}

/// A plugin file, then and now.
#[derive(Debug, PartialEq, Eq)]
struct Line<'p> {
    then: Option<&'p Pin>,
    now: Option<&'p Pin>,
}

pub(super) async fn run(args: LockArgs) -> Result<(), Failure> {
    let settings = Settings::load_without_secrets(&args.config)?;
    let Some(path) = settings.plugins.lock_file.clone() else {
        return Err(Failure::new(
            ErrorKind::Internal,
            "the configuration has no place for a lock file",
        ));
    };
    let (before, damage) = match settings.plugins.lock() {
        Ok(lock) => (lock.map(|lock| lock.pins), None),
        Err(error) if args.check => return Err(error.into()),
        // The user asks for a new one.
        Err(error) => (None, Some(error.to_string())),
    };
    let (now, built_in) = used(&settings)?;
    let empty = Pins::default();
    let lines = lines(before.as_ref().unwrap_or(&empty), &now);
    for line in &lines {
        show(line, args.json, args.check);
    }
    for name in &built_in {
        match args.json {
            true => say!("{}", serde_json::json!({"type": "built_in", "name": name})),
            false => say!("built in   {name}: part of this binary, and not pinned"),
        }
    }
    if args.check {
        return checked(&path, before.is_some(), &lines, args.json);
    }
    let text = now.text();
    let written = before.as_ref() != Some(&now);
    if written {
        durable::replace(&path, text.as_bytes())
            .map_err(|error| Failure::new(ErrorKind::Config, format!("cannot write {}: {error}", path.display())))?;
    }
    match (args.json, written) {
        (true, _) => say!(
            "{}",
            serde_json::json!({
                "type": "lock", "file": path, "plugins": now.iter().count(), "written": written, "replaced_damaged": damage,
            })
        ),
        (false, true) => {
            if let Some(damage) = damage {
                say!("\nthe lock file before could not be used: {damage}");
            }
            say!("\nwrote {}: it pins {}", path.display(), files(now.iter().count()));
        }
        (false, false) => say!(
            "\n{} is as it was: it pins {}",
            path.display(),
            files(now.iter().count())
        ),
    }
    Ok(())
}

fn checked(path: &Path, there: bool, lines: &[Line<'_>], json: bool) -> Result<(), Failure> {
    let differing: Vec<&str> = lines
        .iter()
        .filter(|line| line.state() != "same")
        .map(Line::file)
        .collect();
    let message = match (there, differing.as_slice()) {
        (false, _) => format!("there is no {}; write it with `sluice lock`", path.display()),
        (true, []) => {
            if !json {
                say!("\n{} is up to date", path.display());
            }
            return Ok(());
        }
        (true, files) => format!(
            "{} differs from the plugins that the configuration uses: {}; look at them and accept them with `sluice lock`",
            path.display(),
            files.join(", ")
        ),
    };
    Err(Failure::new(ErrorKind::Config, message))
}

/// The pins of the plugin files that the configuration's tables use, and the built-in components that they use.
fn used(settings: &Settings) -> Result<(Pins, BTreeSet<String>), Failure> {
    // Without the lock file: what it refuses is what is to be accepted.
    let engine = Engine::with(
        settings.plugins.dir.clone(),
        crate::BUILT_IN_COMPONENTS,
        Lookups::default(),
        // A language's runtime takes minutes to compile, and the next run will ask for it too.
        settings.plugins.cache.clone(),
    )?;
    let mut pins = BTreeMap::new();
    let mut built_in = BTreeSet::new();
    let patterns = settings.patterns().iter().map(|pattern| &pattern.settings);
    for table in settings.tables.iter().chain(patterns) {
        for (number, transform) in (1..).zip(&table.transforms) {
            let pin = engine
                .pin_of(&transform.plugin, transform.sha256.as_deref())
                .map_err(|error| {
                    Failure::new(
                        error.kind(),
                        format!(
                            "table {}, transform {number} ({}): {error}",
                            table.capture_instance, transform.plugin
                        ),
                    )
                })?;
            match pin {
                Some(pin) => {
                    pins.insert(pin.file.clone(), pin);
                }
                None => {
                    built_in.insert(transform.plugin.clone());
                }
            }
        }
    }
    Ok((pins.into_values().collect(), built_in))
}

/// Every file of either, sorted by name.
fn lines<'p>(then: &'p Pins, now: &'p Pins) -> Vec<Line<'p>> {
    let files: BTreeSet<&str> = then.iter().chain(now.iter()).map(|pin| pin.file.as_str()).collect();
    files
        .into_iter()
        .map(|file| Line {
            then: then.get(file),
            now: now.get(file),
        })
        .collect()
}

impl Line<'_> {
    fn file(&self) -> &str {
        self.now.or(self.then).map_or("", |pin| pin.file.as_str())
    }

    fn state(&self) -> &'static str {
        match (self.then, self.now) {
            (Some(then), Some(now)) if then == now => "same",
            (Some(_), Some(_)) => "changed",
            (None, _) => "new",
            (Some(_), None) => "unused",
        }
    }

    /// That another component goes by the name and the version of the one before.
    fn warning(&self) -> Option<String> {
        let (then, now) = (self.then?, self.now?);
        let is_same = (&then.name, &then.version) == (&now.name, &now.version);
        (is_same && then.sha256 != now.sha256).then(|| {
            format!(
                "warning: both are {} {}; raise the version, or commits cannot be told apart by it",
                now.name, now.version
            )
        })
    }
}

fn show(line: &Line<'_>, json: bool, check: bool) {
    if json {
        say!(
            "{}",
            serde_json::json!({
                "type": "pin",
                "file": line.file(),
                "state": line.state(),
                "version": line.now.map(|pin| &pin.version),
                "sha256": line.now.map(|pin| &pin.sha256),
                "locked_version": line.then.map(|pin| &pin.version),
                "locked_sha256": line.then.map(|pin| &pin.sha256),
            })
        );
        return;
    }
    let described = |pin: &Pin| format!("{}@{}  sha256 {}", pin.name, pin.version, pin.sha256);
    let state = line.state();
    match (line.then, line.now) {
        (_, Some(now)) => say!("{state:<10} {}  {}", line.file(), described(now)),
        (Some(then), None) => say!(
            "{state:<10} {}  {}, which no table uses: {}",
            line.file(),
            described(then),
            match check {
                true => "`sluice lock` removes it from the lock file",
                false => "removed from the lock file",
            }
        ),
        (None, None) => {}
    }
    if let ("changed", Some(then)) = (state, line.then) {
        say!("{:<10} {}  {}", "  was", line.file(), described(then));
    }
    if let Some(warning) = line.warning() {
        say!("{warning}");
    }
}

fn files(count: usize) -> String {
    match count {
        0 => "no plugin file, so none may be used".to_owned(),
        1 => "1 plugin file".to_owned(),
        count => format!("{count} plugin files"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(file: &str, digit: &str) -> Pin {
        Pin {
            file: file.to_owned(),
            name: "n".to_owned(),
            version: "1".to_owned(),
            sha256: digit.repeat(64),
        }
    }

    #[test]
    fn every_file_of_then_or_now_is_told_as_what_became_of_it() {
        let then: Pins = [pin("a.wasm", "a"), pin("b.wasm", "b"), pin("c.wasm", "c")]
            .into_iter()
            .collect();
        let now: Pins = [pin("b.wasm", "0"), pin("c.wasm", "c"), pin("d.wasm", "d")]
            .into_iter()
            .collect();
        let lines = lines(&then, &now);
        let told: Vec<(&str, &str)> = lines.iter().map(|line| (line.file(), line.state())).collect();
        assert_eq!(
            told,
            [
                ("a.wasm", "unused"),
                ("b.wasm", "changed"),
                ("c.wasm", "same"),
                ("d.wasm", "new")
            ]
        );
    }

    #[test]
    fn another_file_of_the_same_version_is_warned_of() {
        let warning = |then: &Pin, now: &Pin| {
            let line = Line {
                then: Some(then),
                now: Some(now),
            };
            line.warning()
        };
        let (then, now) = (pin("a.wasm", "a"), pin("a.wasm", "b"));
        assert_eq!(
            warning(&then, &now).as_deref(),
            Some("warning: both are n 1; raise the version, or commits cannot be told apart by it")
        );
        assert_eq!(warning(&then, &then), None);
        let raised = Pin {
            version: "2".to_owned(),
            ..now
        };
        assert_eq!(warning(&then, &raised), None);
    }
}
