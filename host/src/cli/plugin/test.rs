//! `sluice plugin test`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;

use super::Lookup;
use crate::cli::Failure;
use crate::cli::out::{complain, say};
use crate::error::ErrorKind;
use crate::kit::{Check, Component, Verdict, Workbench, component_in, fixtures_in, run_fixture, without_fixtures};

/// The end of `--help`.
pub(super) const FIXTURES: &str = r#"Fixtures: tests/NAME.toml is a table, a configuration and rows. What is to come out stands beside it
in tests/NAME.expected.csv, which --bless writes.

# Where values may come out on purpose.
shows = ["city", { column = "email", in = ["domain"] }]
# Keys that the component may use.
keys = { pii = "a secret for tests alone" }
# Rows count from 1.
rejects = [{ row = 2, column = "email", code = "a-code" }]
# An empty field is NULL, "" is an empty text.
rows = '''
_operation,id,email,city
insert,1,anna@example.org,Bern
insert,2,nobody,""
'''

[table]
name = "customers"
columns = [
    { name = "id", type = "int", key = 1 },
    { name = "email", type = "nvarchar(100)" },
    { name = "city", type = "nvarchar(50)" },
]

# As under `config` in sluice.toml.
[config]
columns = ["email"]

In place of rows that come out: open_error = "words", or batch_error = "words". Further keys:
rows_file, lookups, protect, properties. docs/reference/plugin-kit.md has all of it.

Under a check that FAILED stand the last lines of what the component said in it: its log, what it
printed, where it panicked, the message of its error. Rows of a test are made up, so their values
may stand there; of rows in a file of their own, which may have been captured, nothing is shown."#;

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
    if !args.json && bench.opens_slowly() {
        complain!(
            "compiling {} for this machine (10 to 20 s in a release build, once; its code is kept)",
            bench.component.shown
        );
    }
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
    let file = component_in(path)?;
    if let Some(newer) = newer_source(path, &file) {
        complain!(
            "warning: {} is newer than {}; run `sluice plugin build` to test what it says",
            newer.display(),
            file.display()
        );
    }
    Ok((Component::read(&file)?, path.to_owned()))
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
        .filter(|path| !is_test(path))
        .find(|path| time(path).is_some_and(|time| time > built))
}

/// Whether a source is one of the project's own tests, which are no part of the component.
fn is_test(file: &Path) -> bool {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is = |ending: &str| file.extension().is_some_and(|extension| extension == ending);
    if is("rs") {
        return stem == "tests";
    }
    if is("py") {
        return stem.starts_with("test_") || stem.ends_with("_test") || stem == "conftest";
    }
    stem.ends_with(".test") || stem.ends_with(".spec")
}

#[derive(Default)]
struct Tally {
    checks: usize,
    failed: usize,
    skipped: usize,
    /// Whether one failed that the seed makes fail again.
    by_seed: bool,
}

impl Tally {
    fn add(&mut self, checks: &[Check]) {
        self.checks += checks.len();
        self.failed += checks.iter().filter(|check| check.failed()).count();
        self.by_seed |= checks.iter().any(|check| check.failed() && check.made_up);
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
        let again = match self.by_seed {
            true => format!("; --seed {seed} makes the same rows again"),
            false => String::new(),
        };
        Err(Failure {
            kind: ErrorKind::ComponentRefused,
            message: format!("{failed} of {checks} checks failed{again}"),
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
                    "said": check.said,
                })
            );
            continue;
        }
        let word = if check.failed() { "FAILED" } else { result };
        match detail {
            None => say!("  {word:<8} {}", check.what),
            Some(detail) => say!("  {word:<8} {}: {detail}", check.what),
        }
        if !check.said.is_empty() {
            say!("           the component said:");
            for line in &check.said {
                say!("             {line}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_of_the_project_does_not_make_its_component_old() {
        let dir = tempfile::tempdir().unwrap();
        let component = dir.path().join("mine.wasm");
        let write = |file: &Path, second: u64| {
            std::fs::write(file, "x").unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second);
            std::fs::File::options()
                .write(true)
                .open(file)
                .and_then(|file| file.set_modified(time))
                .unwrap();
        };
        write(&component, 1000);
        std::fs::create_dir(dir.path().join("src")).unwrap();
        for test in [
            "test_transform.py",
            "transform_test.py",
            "conftest.py",
            "transform.test.js",
            "src/tests.rs",
        ] {
            write(&dir.path().join(test), 2000);
        }
        write(&dir.path().join("transform.py"), 500);
        assert_eq!(newer_source(dir.path(), &component), None);
        write(&dir.path().join("transform.py"), 2000);
        assert_eq!(
            newer_source(dir.path(), &component),
            Some(dir.path().join("transform.py"))
        );
    }
}
