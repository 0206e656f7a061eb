//! `cargo xtask fuzz`: libFuzzer over the targets of `tests/fuzz`, as many at once as there are cores.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell::{self, say};

const USAGE: &str = "cargo xtask fuzz [MINUTES] [TARGET…] [--keep]";

/// The targets, each with the longest input that is made for it, in bytes.
const TARGETS: [(&str, u32); 5] = [
    ("sink", 4096),
    ("text", 512),
    ("requests", 4096),
    ("driver", 256),
    ("answer", 2048),
];

/// A length that was changed can promise the driver 2 GiB, which it makes room for before it reads.
const MEMORY: &str = "-rss_limit_mb=6144";

/// What one run does.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    minutes: u64,
    targets: Vec<(&'static str, u32)>,
    /// Whether the inputs that reach more than the kept ones are added to them.
    keep: bool,
}

/// Runs it. An error when a target panicked, hung or took too much memory.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let plan = plan(arguments)?;
    if !shell::succeeds("c++", &["--version"]) {
        bail!("libFuzzer is compiled from C++, and there is no c++: apt-get install g++");
    }
    build(&plan)?;
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failed = Vec::new();
    for targets in plan.targets.chunks(at_once) {
        let mut running = Vec::new();
        for (name, longest) in targets {
            running.push((name, fuzz(name, *longest, plan.minutes)?));
        }
        for (name, mut child) in running {
            let status = child.wait().with_context(|| format!("fuzz-{name} was lost"))?;
            say(&format!("{name}: {}", last_words(name)));
            if !status.success() {
                failed.push(format!("{name} ({status}): see {}", log(name).display()));
            }
        }
    }
    if plan.keep {
        plan.targets.iter().try_for_each(|(name, _)| keep(name))?;
    }
    if !failed.is_empty() {
        bail!(
            "{}\nthe input is in tests/fuzz/corpus/, where `cargo test -p sluice-fuzz` replays it",
            failed.join("\n")
        );
    }
    Ok(())
}

fn plan(arguments: &[String]) -> Result<Plan> {
    let mut plan = Plan {
        minutes: 10,
        targets: Vec::new(),
        keep: false,
    };
    for argument in arguments {
        if argument == "--keep" {
            plan.keep = true;
        } else if let Ok(minutes) = argument.parse() {
            plan.minutes = minutes;
        } else if let Some(target) = TARGETS.iter().find(|(name, _)| name == argument) {
            plan.targets.push(*target);
        } else {
            let known = TARGETS.map(|(name, _)| name).join(", ");
            bail!("{argument:?} is no number of minutes and none of {known}: {USAGE}");
        }
    }
    if plan.targets.is_empty() {
        plan.targets = TARGETS.to_vec();
    }
    Ok(plan)
}

/// The crates of the workspace with libFuzzer's counters, on the dependencies of every other build.
fn build(plan: &Plan) -> Result<()> {
    say("building the fuzz targets …");
    let mut command = vec!["build", "--workspace", "--features", "sluice-fuzz/libfuzzer"];
    let binaries: Vec<String> = plan.targets.iter().map(|(name, _)| format!("fuzz-{name}")).collect();
    for binary in &binaries {
        command.extend(["--bin", binary]);
    }
    let wrapper = shell::root().join("tests/fuzz/instrument");
    shell::cargo_with(&command, &[("RUSTC_WORKSPACE_WRAPPER", wrapper.display().to_string())])
}

/// Starts one target. What it finds on its way lies under `target/fuzz`, what makes it panic in its corpus.
fn fuzz(name: &str, longest: u32, minutes: u64) -> Result<Child> {
    let found = found(name);
    std::fs::create_dir_all(&found).with_context(|| format!("{} cannot be made", found.display()))?;
    let path = log(name);
    let output = File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
    say(&format!("{name}: {minutes} min, its output in {}", path.display()));
    Command::new(binary(name))
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-max_len={longest}"))
        .arg(format!("-artifact_prefix={}/", kept(name).display()))
        .args([MEMORY, "-timeout=30", "-print_final_stats=1"])
        // What is slow on a busy machine is not kept; what takes longer than the timeout is.
        .arg("-report_slow_units=30")
        .args([found, kept(name)])
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("fuzz-{name} does not start"))
}

/// Adds to the corpus what reaches more than it does.
fn keep(name: &str) -> Result<()> {
    say(&format!("{name}: keeping what reaches more than its corpus …"));
    let arguments = [
        "-merge=1".to_owned(),
        MEMORY.to_owned(),
        format!("-artifact_prefix={}/", shell::target().join("fuzz").display()),
        kept(name).display().to_string(),
        found(name).display().to_string(),
    ];
    shell::run(binary(name), &arguments)
}

fn binary(name: &str) -> PathBuf {
    shell::target().join(format!("debug/fuzz-{name}"))
}

fn kept(name: &str) -> PathBuf {
    shell::root().join("tests/fuzz/corpus").join(name)
}

fn found(name: &str) -> PathBuf {
    shell::target().join("fuzz").join(name)
}

fn log(name: &str) -> PathBuf {
    shell::target().join("fuzz").join(format!("{name}.log"))
}

/// The line that says how much was tried, or the last one.
fn last_words(name: &str) -> String {
    let text = std::fs::read_to_string(log(name)).unwrap_or_default();
    let tried = text.lines().find(|line| line.starts_with("Done "));
    tried.or_else(|| text.lines().last()).unwrap_or("no output").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_and_targets_are_taken_and_mistakes_are_refused() {
        let of = |text: &str| plan(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("").unwrap().targets.len(), TARGETS.len());
        assert_eq!(
            of("3 text --keep").unwrap(),
            Plan {
                minutes: 3,
                targets: vec![("text", 512)],
                keep: true
            }
        );
        let hour = of("60 answer").unwrap();
        assert_eq!((hour.minutes, hour.targets), (60, vec![("answer", 2048)]));
        assert!(
            of("3 texts").unwrap_err().to_string().contains("sink, text"),
            "names what there is"
        );
    }

    #[test]
    fn every_target_has_a_corpus() {
        for (name, _) in TARGETS {
            assert!(kept(name).is_dir(), "{name}");
        }
    }
}
