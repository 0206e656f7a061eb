//! `sluice plugin test`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;

use super::Lookup;
use crate::cli::Failure;
use crate::cli::out::{complain, say};
use crate::error::ErrorKind;
use crate::kit::{Check, Component, Verdict, Workbench, fixtures_in, run_fixture, without_fixtures};

#[derive(Debug, Args)]
pub(super) struct TestArgs {
    /// A project's folder, a component's file, or the name of a component.
    #[arg(value_name = "DIR|FILE|NAME", default_value = ".")]
    what: String,
    /// Where the fixtures are; the folder `tests` beside the component by default.
    #[arg(long, value_name = "DIR")]
    fixtures: Option<PathBuf>,
    /// Only the fixtures with this in their name.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write what comes out as what is expected.
    #[arg(long)]
    bless: bool,
    /// Seed of the made-up rows; a new one each time by default.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Configuration for a component without fixtures, as JSON.
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    #[command(flatten)]
    lookup: Lookup,
    /// Print one JSON object a line (docs/reference/plugin-kit.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: TestArgs) -> Result<(), Failure> {
    let (component, beside) = component(&args)?;
    let seed = args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let dir = args.fixtures.clone().unwrap_or_else(|| beside.join("tests"));
    if args.fixtures.is_some() && !dir.is_dir() {
        return Err(Failure::new(
            ErrorKind::Config,
            format!("--fixtures {} is no folder", dir.display()),
        ));
    }
    let mut fixtures = fixtures_in(&dir)?;
    if let Some(only) = &args.only {
        fixtures.retain(|fixture| fixture.name.contains(only));
        if fixtures.is_empty() {
            return Err(Failure::new(
                ErrorKind::Config,
                format!("no fixture in {} has `{only}` in its name", dir.display()),
            ));
        }
    }
    if !args.json {
        say!("{}  sha256 {}…  seed {seed}", component.shown, &component.sha256[..16]);
    }
    let bench = Workbench::new(component)?;
    let mut tally = Tally::default();
    if fixtures.is_empty() || args.config.is_some() {
        if !args.json && fixtures.is_empty() {
            say!("no fixtures in {}: made-up rows of all types alone", dir.display());
        }
        let config = super::config(args.config.as_deref().unwrap_or("{}"))?;
        let checks = without_fixtures(&bench, config, seed)?;
        print("a table of all types", &checks, args.json);
        tally.add(&checks);
    }
    for fixture in &fixtures {
        let checks = run_fixture(&bench, fixture, seed, args.bless)?;
        print(&fixture.name, &checks, args.json);
        tally.add(&checks);
    }
    tally.end(seed, args.json)
}

/// The component, and the folder in which it stands.
fn component(args: &TestArgs) -> Result<(Component, PathBuf), Failure> {
    let path = Path::new(&args.what);
    if !path.is_dir() {
        let component = Component::find(&args.what, &args.lookup.plugins)?;
        let beside = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        return Ok((component, beside));
    }
    let mut found = Vec::new();
    let entries = std::fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
    for entry in entries {
        let file = entry.map_err(|error| unreadable(path, &error))?.path();
        if file.extension().is_some_and(|ending| ending == "wasm") {
            found.push(file);
        }
    }
    found.sort();
    match found.as_slice() {
        [] => Err(Failure::new(
            ErrorKind::Config,
            format!(
                "there is no component in {}; run `sluice plugin build` there first",
                path.display()
            ),
        )),
        [file] => {
            if let Some(newer) = newer_source(path, file) {
                complain!(
                    "warning: {} is newer than {}; run `sluice plugin build` to test what it says",
                    newer.display(),
                    file.display()
                );
            }
            Ok((Component::read(file)?, path.to_owned()))
        }
        several => {
            let names: Vec<String> = several.iter().map(|file| file.display().to_string()).collect();
            Err(Failure::new(
                ErrorKind::Config,
                format!(
                    "there are several components: {}; name the one to test",
                    names.join(", ")
                ),
            ))
        }
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ErrorKind::State, format!("cannot read {}: {error}", path.display()))
}

/// A source file that was changed after the component was built.
fn newer_source(dir: &Path, component: &Path) -> Option<PathBuf> {
    let time = |path: &Path| -> Option<SystemTime> { std::fs::metadata(path).ok()?.modified().ok() };
    let built = time(component)?;
    let sources = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.path()).filter(|path| {
            path.extension()
                .is_some_and(|ending| ["rs", "py", "js", "ts"].iter().any(|known| ending == *known))
        })
    };
    sources(dir.to_owned())
        .chain(sources(dir.join("src")))
        .find(|path| time(path).is_some_and(|time| time > built))
}

#[derive(Default)]
struct Tally {
    checks: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    fn add(&mut self, checks: &[Check]) {
        self.checks += checks.len();
        self.failed += checks.iter().filter(|check| check.failed()).count();
        self.skipped += checks
            .iter()
            .filter(|check| matches!(check.verdict, Verdict::Skipped(_)))
            .count();
    }

    fn end(&self, seed: u64, json: bool) -> Result<(), Failure> {
        let (checks, failed, skipped) = (self.checks, self.failed, self.skipped);
        if json {
            say!(
                "{}",
                serde_json::json!({
                    "type": "tested", "checks": checks, "failed": failed, "skipped": skipped, "seed": seed,
                })
            );
        } else {
            let skipped = if skipped > 0 {
                format!(", {skipped} skipped")
            } else {
                String::new()
            };
            say!("\n{checks} checks, {failed} failed{skipped}");
        }
        if failed == 0 {
            return Ok(());
        }
        Err(Failure {
            kind: ErrorKind::ComponentRefused,
            message: format!("{failed} of {checks} checks failed; --seed {seed} makes the same rows again"),
            shown: json,
        })
    }
}

fn print(of: &str, checks: &[Check], json: bool) {
    if !json {
        say!("\n{of}");
    }
    for check in checks {
        let (result, detail) = match &check.verdict {
            Verdict::Ok(note) => ("ok", note.as_deref()),
            Verdict::Skipped(why) => ("skipped", Some(why.as_str())),
            Verdict::Failed(what) => ("failed", Some(what.as_str())),
        };
        if json {
            say!(
                "{}",
                serde_json::json!({
                    "type": "check", "fixture": of, "check": check.what, "result": result, "detail": detail,
                })
            );
            continue;
        }
        let word = if check.failed() { "FAILED" } else { result };
        match detail {
            None => say!("  {word:<8} {}", check.what),
            Some(detail) => say!("  {word:<8} {}: {detail}", check.what),
        }
    }
}
