//! Secrets: where they come from, and a type that never shows them.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use toml::Value;

use super::ConfigError;

/// A secret value. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value that was obtained elsewhere.
    pub fn new(value: impl Into<String>) -> Secret {
        Secret(value.into())
    }

    /// The value itself, for the one call that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Whether secrets are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrets {
    /// Each is resolved now; a missing one is an error.
    Resolve,
    /// None is used, so none is resolved.
    Skip,
}

/// Where a secret comes from. It can be read again, when what it gives runs out.
#[derive(Clone)]
pub enum SecretSource {
    /// The configuration file itself.
    Literal(Secret),
    /// An environment variable.
    Env(String),
    /// A file.
    File(PathBuf),
    /// The output of a program.
    Command(Vec<String>),
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SecretSource::Literal(_) => "Literal(…)",
            SecretSource::Env(_) => "Env(…)",
            SecretSource::File(_) => "File(…)",
            // Arguments may be secrets too.
            SecretSource::Command(_) => "Command(…)",
        })
    }
}

impl SecretSource {
    /// Reads what the file says: `{ env = "…" }`, `{ file = "…" }`, `{ command = ["…"] }` or a string.
    pub(super) fn parse(value: &Value, base: &Path) -> Result<SecretSource, String> {
        let table = match value {
            Value::String(text) => return Ok(SecretSource::Literal(Secret(text.clone()))),
            Value::Table(table) => table,
            _ => return Err("must be { env = \"NAME\" }, { file = \"PATH\" } or { command = [\"…\"] }".to_owned()),
        };
        let mut sources = table.iter().filter(|(name, _)| name.as_str() != "version");
        match (sources.next(), sources.next()) {
            (Some((name, Value::String(variable))), None) if name == "env" => Ok(SecretSource::Env(variable.clone())),
            (Some((name, Value::String(file))), None) if name == "file" => Ok(SecretSource::File(base.join(file))),
            (Some((name, Value::Array(words))), None) if name == "command" => words
                .iter()
                .map(|word| word.as_str().map(str::to_owned))
                .collect::<Option<Vec<String>>>()
                .map(SecretSource::Command)
                .ok_or_else(|| "command must be a list of strings".to_owned()),
            _ => Err(
                "must be exactly one of { env = \"NAME\" }, { file = \"PATH\" } and { command = [\"…\"] }".to_owned(),
            ),
        }
    }

    /// The secret as it is now. Blocks for as long as a command runs, up to a minute. Surrounding line ends of a file or
    /// of a command's output are not part of it. An error names the source and shows nothing of what it gave.
    pub fn read(&self) -> Result<Secret, String> {
        let text = match self {
            SecretSource::Literal(secret) => return Ok(secret.clone()),
            SecretSource::Env(variable) => {
                std::env::var(variable).map_err(|_| format!("environment variable {variable} is not set"))?
            }
            SecretSource::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
                text.trim_end_matches(['\r', '\n']).to_owned()
            }
            SecretSource::Command(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                run(&words, COMMAND_TIME)?
            }
        };
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        Ok(Secret(text))
    }

    /// Whether reading it again may give another value.
    pub fn can_change(&self) -> bool {
        matches!(self, SecretSource::File(_) | SecretSource::Command(_))
    }
}

/// Reads a secret from what the file says. A literal string is taken with a warning.
pub(super) fn resolve(
    key: &str,
    value: &Value,
    base: &Path,
    secrets: Secrets,
    warnings: &mut Vec<String>,
) -> Result<Secret, ConfigError> {
    let problem = |problem: String| ConfigError::Key {
        key: key.to_owned(),
        problem,
    };
    let source = SecretSource::parse(value, base).map_err(problem)?;
    if let SecretSource::Literal(_) = source {
        warnings.push(literal_warning(key));
    } else if secrets == Secrets::Skip {
        return Ok(Secret(String::new()));
    }
    source.read().map_err(problem)
}

/// What is said of a secret that stands in the configuration file itself.
pub(super) fn literal_warning(key: &str) -> String {
    format!(
        "{key} is a literal in the configuration file; use {{ env = \"…\" }}, {{ file = \"…\" }} or {{ command = [\"…\"] }}"
    )
}

/// How long a command may take to print its secret.
const COMMAND_TIME: Duration = Duration::from_secs(60);

fn run(words: &[&str], time: Duration) -> Result<String, String> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| "command must name a program".to_owned())?;
    let failed = |e: std::io::Error| format!("cannot run {program}: {e}");
    let mut child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut stdout = child.stdout.take();
    let (printed, text) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.as_mut().map_or(Ok(0), |stdout| stdout.read_to_end(&mut bytes));
        // Nobody waits any more when the time was over.
        let _ = printed.send(read.map(|_| bytes));
    });
    let Ok(bytes) = text.recv_timeout(time) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!(
            "{program} printed nothing to the end within {} s and was ended",
            time.as_secs()
        ));
    };
    let bytes = bytes.map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        return Err(format!("{program} ended with {status}"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("what {program} printed is not UTF-8"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<(Secret, Vec<String>), String> {
        let table: toml::Table = toml.parse().unwrap();
        let mut warnings = Vec::new();
        let secret = resolve(
            "source.password",
            &table["p"],
            Path::new("/"),
            Secrets::Resolve,
            &mut warnings,
        )
        .map_err(|e| e.to_string())?;
        Ok((secret, warnings))
    }

    #[test]
    fn a_secret_never_shows_in_debug() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }

    #[test]
    fn a_command_is_run_and_its_line_end_dropped() {
        let (secret, warnings) = read(r#"p = { command = ["printf", "s3cret\\n"] }"#).unwrap();
        assert_eq!(secret.reveal(), "s3cret");
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_literal_warns_without_showing_it() {
        let (_, warnings) = read(r#"p = "hunter2""#).unwrap();
        assert_eq!(warnings.len(), 1);
        assert!(!warnings[0].contains("hunter2"));
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let error = run(&["sleep", "1000"], Duration::from_millis(50)).unwrap_err();
        assert!(error.contains("sleep printed nothing"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = read(r#"p = { env = "SLUICE_TEST_NO_SUCH" }"#).unwrap_err();
        assert!(error.contains("SLUICE_TEST_NO_SUCH"), "{error}");
        let error = read(r#"p = { file = "/no/such" }"#).unwrap_err();
        assert!(error.contains("/no/such"), "{error}");
        assert!(
            read(r#"p = { env = "A", file = "B" }"#)
                .unwrap_err()
                .contains("exactly one")
        );
        assert!(
            read(r#"p = { command = ["false"] }"#)
                .unwrap_err()
                .contains("false ended")
        );
    }
}
