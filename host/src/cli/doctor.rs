//! `sluice doctor`: what is wrong with each table's state, in words, and what would put it right. Needs no source.

use clap::Args;

use super::out::{complain, say};
use super::{ConfigArgs, Failure};
use crate::config::Settings;
use crate::doctor::{Doctor, Examination, Finding, Loss, RepairError, Repaired, Severity, Subject, repair};
use crate::error::{ErrorKind, chain};
use crate::fanout::expand_from_disk;
use crate::lsn::UtcMicros;

/// Columns of the terminal that texts are wrapped to.
const WIDTH: usize = 100;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Put right what can be put right, after a backup. Nothing is deleted. Not while a process runs the table.
    #[arg(long)]
    repair: bool,
    /// With --repair: accept that rows of a quarantine table are lost which is gone or was set back, and note that in it. The
    /// findings say which.
    #[arg(long, requires = "repair")]
    accept_loss: bool,
    /// Print one JSON object a line (docs/reference/json.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: DoctorArgs) -> Result<(), Failure> {
    let mut settings = Settings::load_without_secrets(&args.config.config)?;
    settings.select(&args.config.tables)?;
    let settings = expand_from_disk(&settings)?;
    let mut doctor = Doctor::default();
    let mut ill: Vec<String> = Vec::new();
    let loss = match args.accept_loss {
        true => Loss::Accepted,
        false => Loss::Refused,
    };
    for table in &settings.tables {
        let subject = Subject::of(&settings, table);
        let seen = doctor.examine(&subject).await;
        show(&seen, args.json);
        let seen = match args.repair {
            false => Some(seen),
            true => match repair(&subject, loss).await {
                Ok(repaired) => {
                    show_repaired(&seen, &repaired, args.json);
                    Some(repaired.after)
                }
                Err(error) => {
                    show_refused(&seen, &error, args.json);
                    None
                }
            },
        };
        if seen.is_none_or(|seen| seen.is_ill()) {
            ill.push(table.capture_instance.0.clone());
        }
    }
    if ill.is_empty() {
        return Ok(());
    }
    Err(Failure {
        kind: ErrorKind::State,
        message: format!(
            "{} of {} tables {}: {}",
            ill.len(),
            settings.tables.len(),
            match args.repair {
                true => "are not well, or could not be repaired",
                false => "need a repair or a person",
            },
            ill.join(", ")
        ),
        shown: true,
    })
}

fn show(seen: &Examination, json: bool) {
    if json {
        for finding in &seen.findings {
            say!("{}", finding_json(seen, finding));
        }
        say!("{}", examination_json(seen));
        return;
    }
    say!("{}", headline(seen));
    for finding in &seen.findings {
        show_finding(finding);
    }
    say!("");
}

fn show_repaired(before: &Examination, repaired: &Repaired, json: bool) {
    if json {
        say!(
            "{}",
            serde_json::json!({
                "type": "repaired",
                "capture_instance": before.capture_instance,
                "backup": repaired.backup,
                "done": repaired.done,
                "error": null,
            })
        );
        if repaired.backup.is_some() {
            show(&repaired.after, json);
        }
        return;
    }
    let Some(backup) = &repaired.backup else {
        if before.is_ill() {
            say!("  nothing of this can be repaired without a person\n");
        }
        return;
    };
    say!("  repaired; as it was before: {}", backup.display());
    for done in &repaired.done {
        say!("{}", wrapped("    - ", "      ", done));
    }
    say!("\n  after the repair:");
    show(&repaired.after, json);
}

fn show_refused(before: &Examination, refused: &RepairError, json: bool) {
    let error = chain(refused);
    match json {
        true => say!(
            "{}",
            serde_json::json!({
                "type": "repaired",
                "capture_instance": before.capture_instance,
                "backup": refused.backup(),
                "done": refused.done(),
                "error": error,
            })
        ),
        false => complain!(
            "{}",
            wrapped("", "  ", &format!("{}: {error}", before.capture_instance))
        ),
    }
}

/// A table in one line: whether it is well, and where it stands.
fn headline(seen: &Examination) -> String {
    let state = match seen.worst() {
        None if seen.batch_id.is_none() => "not started",
        None | Some(Severity::Note) => "well",
        Some(Severity::RunMends) => "well after the next run",
        Some(Severity::Repairable) => "needs a repair",
        Some(Severity::NeedsPerson) => "needs a person",
    };
    let mut parts = vec![format!("{} ({}): {state}", seen.capture_instance, seen.app_id)];
    if let Some(batch) = seen.batch_id {
        let end = seen.end.map(|end| format!(", up to {}", end.commit_ts));
        parts.push(format!("batch {batch}{}", end.unwrap_or_default()));
    }
    let verdict = |at: UtcMicros| format!("complete until {at}");
    parts.extend(seen.finalized_until.map(verdict));
    if let Some(owner) = &seen.owner {
        parts.push(match seen.running {
            true => format!("run by {owner}"),
            false => format!("last run by {owner}"),
        });
    }
    wrapped("", "  ", &parts.join("; "))
}

fn show_finding(finding: &Finding) {
    say!("\n  {} | {}", finding.severity, finding.code);
    match finding.place.as_local() {
        Some(path) => say!("  {}", shortened(path).display()),
        None => say!("  {}", finding.place),
    }
    let accepted = finding.on_accepted_loss.as_ref();
    for (label, text) in [
        ("wrong:  ", Some(finding.what.as_str())),
        ("means:  ", Some(&finding.means)),
        ("repair: ", finding.repair.as_ref().map(|repair| repair.words.as_str())),
        ("accept: ", accepted.map(|repair| repair.words.as_str())),
        (
            "do:     ",
            Some(finding.advice.as_str()).filter(|advice| *advice != "nothing"),
        ),
    ] {
        if let Some(text) = text {
            say!("{}", wrapped(&format!("    {label}"), "            ", text));
        }
    }
}

/// As seen from the working directory.
fn shortened(path: &std::path::Path) -> &std::path::Path {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}

/// Text in lines of [`WIDTH`] columns. A word that is longer stays whole, so that a path can be copied.
pub(super) fn wrapped(first: &str, rest: &str, text: &str) -> String {
    let mut lines = vec![first.to_owned()];
    let mut used = first.chars().count();
    let mut fresh = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let length = word.chars().count();
        if !fresh && used + 1 + length > WIDTH {
            lines.push(rest.to_owned());
            used = rest.chars().count();
            fresh = true;
        }
        if let Some(line) = lines.last_mut() {
            if !fresh {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
        }
        used += length;
        fresh = false;
    }
    lines.join("\n")
}

fn finding_json(seen: &Examination, finding: &Finding) -> String {
    tagged("finding", finding, |line| {
        line.insert("capture_instance".to_owned(), seen.capture_instance.0.as_str().into());
    })
}

fn examination_json(seen: &Examination) -> String {
    tagged("examination", seen, |line| {
        line.insert("findings".to_owned(), seen.findings.len().into());
        line.insert(
            "worst".to_owned(),
            serde_json::to_value(seen.worst()).unwrap_or_default(),
        );
    })
}

/// An object with its type.
pub(super) fn tagged(
    kind: &str,
    object: impl serde::Serialize,
    more: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>),
) -> String {
    let mut line = match serde_json::to_value(object) {
        Ok(serde_json::Value::Object(line)) => line,
        _ => serde_json::Map::new(),
    };
    line.insert("type".to_owned(), kind.into());
    more(&mut line);
    serde_json::Value::Object(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_before_the_edge_and_paths_stay_whole() {
        let path = "/a".repeat(80);
        let text = format!("{} {path} end", "word ".repeat(30));
        let lines = wrapped("  do: ", "      ", &text);
        assert!(
            lines
                .lines()
                .all(|line| line.chars().count() <= WIDTH || line.contains(&path)),
            "{lines}"
        );
        assert!(lines.contains(&path) && lines.ends_with(" end"), "{lines}");
    }
}
