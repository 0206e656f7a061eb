//! What things cost, and how costs of several runs are told.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::say;

const REPORT: &str = "target/bench/report.json";

/// What a process cost, in seconds.
pub(crate) struct Cost {
    /// User and system.
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

/// Runs a child to its end. Its last line is an object with the `rows` it handled: both sides must have had all of them.
pub(crate) fn measure(command: &mut Command, rows: u64) -> Result<Cost> {
    let before = children_cpu();
    let started = Instant::now();
    let output = command.stderr(Stdio::inherit()).output()?;
    let wall = started.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("{command:?} ended with {}", output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    let summary: serde_json::Value = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .rfind(|object: &serde_json::Value| object.get("rows").is_some())
        .with_context(|| format!("{command:?} did not say how many rows it had"))?;
    if summary["rows"] != rows {
        bail!("{command:?} had {} rows of {rows}", summary["rows"]);
    }
    Ok(Cost {
        cpu: children_cpu() - before,
        wall,
    })
}

/// CPU seconds, user and system, of the children that have ended.
fn children_cpu() -> f64 {
    cpu_of("self", 13)
}

/// CPU seconds, user and system, of a process that runs.
pub(crate) fn process_cpu(pid: u32) -> f64 {
    cpu_of(&pid.to_string(), 11)
}

/// The sum of two fields of `/proc/PID/stat`, counted after the name in parentheses; in clock ticks of 1/100 s.
fn cpu_of(pid: &str, first: usize) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(first) + ticks(first + 1)) / 100.0
}

/// CPU seconds of this thread, user and system. The kernel counts them up to its last look at the thread, a few
/// milliseconds ago.
pub(crate) fn thread_cpu() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").context("this system does not count CPU time")?;
    let nanoseconds = text
        .split_whitespace()
        .next()
        .and_then(|first| first.parse::<f64>().ok());
    Ok(nanoseconds.context("/proc/thread-self/schedstat is not written as expected")? / 1e9)
}

/// One figure of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of an even number of figures, the median is the higher one in the middle.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Result<Spread> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (figures.first(), figures.last()) else {
            bail!("no runs");
        };
        Ok(Spread {
            median: figures[figures.len() / 2],
            least: *least,
            most: *most,
        })
    }

    /// For people: the median, and in parentheses how far the runs were apart.
    pub(crate) fn text(&self, decimals: usize) -> String {
        let Spread { median, least, most } = self;
        format!("{median:.decimals$} ({least:.decimals$} to {most:.decimals$})")
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "median": self.median, "min": self.least, "max": self.most })
    }
}

/// Writes one part of the report, and leaves the others as they are.
pub(crate) fn report(part: &str, figures: Value) -> Result<()> {
    let file = PathBuf::from(REPORT);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let before = std::fs::read(&file).ok();
    let before = before.and_then(|bytes| serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes).ok());
    let mut parts = before.unwrap_or_default();
    parts.insert(part.to_owned(), figures);
    std::fs::write(&file, serde_json::to_string_pretty(&Value::Object(parts))?)?;
    say(&format!("written to {REPORT} as {part}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        let spread = Spread::of([3.0, 1.0, 10.0]).unwrap();
        assert_eq!((spread.median, spread.least, spread.most), (3.0, 1.0, 10.0));
        assert_eq!(Spread::of([1.0, 2.0]).unwrap().median, 2.0);
        assert_eq!(spread.text(1), "3.0 (1.0 to 10.0)");
        assert!(Spread::of([]).is_err());
    }

    #[test]
    fn work_takes_cpu_time_of_the_thread() {
        let before = thread_cpu().unwrap();
        let began = Instant::now();
        while began.elapsed().as_millis() < 50 {
            std::hint::black_box((0..1000).sum::<u64>());
        }
        assert!(thread_cpu().unwrap() > before);
    }
}
