//! `sluice drill`: damages copies of a table and shows whether each damage is found and put right. The table is only read.

use std::path::PathBuf;

use clap::Args;

use super::doctor::{tagged, wrapped};
use super::out::say;
use super::{ConfigArgs, Failure};
use crate::config::{ConfigError, Settings};
use crate::doctor::{Code, Subject, Trial, drill};
use crate::error::{Classify as _, ErrorKind, chain};
use crate::fanout::expand_from_disk;

#[derive(Debug, Args)]
pub(super) struct DrillArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only the damages that the doctor is to find under this code.
    #[arg(long, value_name = "CODE")]
    only: Option<String>,
    /// The folder to make the copies in. On the lake's own disk, data files are linked and not copied.
    #[arg(long = "in", value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Keep the copies.
    #[arg(long)]
    keep: bool,
    /// Print one JSON object a line (docs/reference/json.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: DrillArgs) -> Result<(), Failure> {
    let mut settings = Settings::load_without_secrets(&args.config.config)?;
    settings.select(&args.config.tables)?;
    let settings = expand_from_disk(&settings)?;
    let only = args.only.as_deref().map(code).transpose()?;
    let mut failed: Vec<String> = Vec::new();
    for table in &settings.tables {
        let subject = Subject::of(&settings, table);
        let folder = temporary(args.folder.as_deref())?;
        if !args.json {
            say!(
                "{} ({}), on copies in {}",
                subject.capture_instance,
                subject.app_id,
                folder.path().display()
            );
            say!("\n  {:<46} {:<20} {}", "damage", "found", "outcome");
        }
        let trials = drill(&subject, folder.path(), only, |trial| show(trial, args.json)).await;
        if args.keep {
            let kept = folder.keep();
            if !args.json {
                say!("\n  the copies are kept in {}", kept.display());
            }
        }
        match trials {
            Ok(trials) => {
                let bad = trials.iter().filter(|trial| !trial.passed).count();
                if !args.json {
                    summary(&trials, bad);
                }
                if bad > 0 {
                    failed.push(table.capture_instance.0.clone());
                }
            }
            Err(error) if settings.tables.len() == 1 => return Err(error.into()),
            Err(error) => {
                failed.push(table.capture_instance.0.clone());
                match args.json {
                    true => say!(
                        "{}",
                        serde_json::json!({
                            "type": "failed",
                            "capture_instance": table.capture_instance,
                            "kind": error.kind(),
                            "error": chain(&error),
                        })
                    ),
                    false => say!("{}\n", wrapped("  no drill: ", "  ", &chain(&error))),
                }
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure {
        kind: ErrorKind::State,
        message: format!(
            "the drill of {} of {} tables did not end as it should: {}",
            failed.len(),
            settings.tables.len(),
            failed.join(", ")
        ),
        shown: true,
    })
}

fn code(text: &str) -> Result<Code, ConfigError> {
    let known = Code::ALL.iter().find(|code| code.as_str() == text);
    known.copied().ok_or_else(|| {
        let nearest = crate::config::nearest(text, Code::ALL.iter().map(|code| code.as_str()));
        ConfigError::Key {
            key: format!("--only {text}"),
            problem: format!(
                "is no code of the doctor{}",
                nearest
                    .map(|nearest| format!("; did you mean {nearest}?"))
                    .unwrap_or_default()
            ),
        }
    })
}

fn temporary(folder: Option<&std::path::Path>) -> Result<tempfile::TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("sluice-drill-");
    let made = match folder {
        Some(folder) => builder.tempdir_in(folder),
        None => builder.tempdir(),
    };
    made.map_err(|error| {
        Failure::new(
            ErrorKind::Config,
            format!("cannot make a folder for the copies: {error}"),
        )
    })
}

fn show(trial: &Trial, json: bool) {
    if json {
        say!("{}", tagged("drill", trial, |_| {}));
        return;
    }
    let mark = if trial.passed { ' ' } else { '!' };
    let outcome = match trial.passed {
        true => trial.outcome.as_str(),
        false => "NOT AS IT SHOULD BE",
    };
    say!("{mark} {:<46} {:<20} {outcome}", trial.damage, trial.code);
    for (label, text) in [("said: ", &trial.said), ("why:  ", &trial.why)] {
        if !text.is_empty() {
            say!("{}", wrapped(&format!("      {label}"), "            ", text));
        }
    }
}

fn summary(trials: &[Trial], bad: usize) {
    match bad {
        0 => say!(
            "\n  all {} damages ended as they should; the table itself was only read\n",
            trials.len()
        ),
        bad => say!(
            "\n  {bad} of {} damages did not end as they should; the table itself was only read\n",
            trials.len()
        ),
    }
}
