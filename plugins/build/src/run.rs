//! Calls of the languages' own tools.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::BuildError;

/// Lines of a program's own words that an error shows.
const LINES_SHOWN: usize = 40;

/// Runs a program to its end and returns what it printed.
pub(crate) fn output(mut command: Command, doing: &str) -> Result<Vec<u8>, BuildError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| BuildError::Run {
            program: command.get_program().display().to_string(),
            source,
        })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    // Some tools say on standard output what is wrong.
    let mut text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if text.is_empty() {
        String::from_utf8_lossy(&output.stdout).trim().clone_into(&mut text);
    }
    Err(BuildError::Failed {
        program: doing.to_owned(),
        output: last_lines(&text),
    })
}

/// As [`output`] for a program that may not be there, in which case the error says how to get it.
pub(crate) fn output_of(command: Command, doing: &str, purpose: &str, hint: &str) -> Result<Vec<u8>, BuildError> {
    output(command, doing).map_err(|error| match error {
        BuildError::Run { program, source } if source.kind() == io::ErrorKind::NotFound => BuildError::NoProgram {
            program,
            purpose: purpose.to_owned(),
            hint: hint.to_owned(),
        },
        other => other,
    })
}

/// As [`output`] for a program that asks a registry, which has errors of its own.
pub(crate) fn fetched(command: Command, doing: &str, registry: &str) -> Result<Vec<u8>, BuildError> {
    output(command, doing).map_err(|error| match error {
        BuildError::Failed { program, output } if is_of_the_network(&output) => BuildError::Unreachable {
            program,
            registry: registry.to_owned(),
            output,
        },
        other => other,
    })
}

/// Whether a tool's words are about a network that is not there. Source: what pip and npm print without one.
fn is_of_the_network(output: &str) -> bool {
    const SIGNS: [&str; 13] = [
        "NewConnectionError",
        "ConnectTimeoutError",
        "ConnectionResetError",
        "NameResolutionError",
        "ProxyError",
        "SSLError",
        "ReadTimeoutError",
        "ENOTFOUND",
        "EAI_AGAIN",
        "ECONNREFUSED",
        "ECONNRESET",
        "ETIMEDOUT",
        "ERR_SOCKET_TIMEOUT",
    ];
    SIGNS.iter().any(|sign| output.contains(sign))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}

/// Makes the folder anew by `fill`, unless `stamp` says that it was filled completely from the same `contents`.
pub(crate) fn once(
    folder: &Path,
    contents: &str,
    fill: impl FnOnce() -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    let stamp = folder.join("sluice-stamp");
    if std::fs::read_to_string(&stamp).is_ok_and(|was| was == contents) {
        return Ok(());
    }
    empty(folder)?;
    fill()?;
    write(&stamp, contents.as_bytes())
}

/// Makes the folder an empty one.
pub(crate) fn empty(folder: &Path) -> Result<(), BuildError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(folder, error)),
        _ => {}
    }
    std::fs::create_dir_all(folder).map_err(|error| at(folder, error))
}

/// Writes a file, and the folders that it stands in.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| at(folder, error))?;
    }
    std::fs::write(path, bytes).map_err(|error| at(path, error))
}

pub(crate) fn at(path: &Path, source: io::Error) -> BuildError {
    BuildError::File {
        path: path.to_owned(),
        source,
    }
}

/// The path from the root: tools run in folders of their own.
pub(crate) fn absolute(path: &Path) -> Result<std::path::PathBuf, BuildError> {
    std::path::absolute(path).map_err(|error| at(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named_with_the_way_to_get_it() {
        let error = output_of(
            Command::new("no-such-program"),
            "asking",
            "building",
            "install it: apt install x",
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "no-such-program was not found, and building needs it; install it: apt install x"
        );
    }

    #[test]
    fn a_failing_program_says_so_in_its_own_words() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let error = output(shell("echo first; echo why >&2; exit 3"), "trying").unwrap_err();
        assert_eq!(error.to_string(), "trying failed: why");
        let error = output(shell("echo only; exit 3"), "trying").unwrap_err();
        assert_eq!(error.to_string(), "trying failed: only");
        let error = fetched(shell("echo 'npm error code ENOTFOUND' >&2; exit 1"), "npm ci", "npm").unwrap_err();
        assert!(matches!(error, BuildError::Unreachable { .. }), "{error}");
        let error = fetched(shell("echo 'no such version' >&2; exit 1"), "npm ci", "npm").unwrap_err();
        assert!(matches!(error, BuildError::Failed { .. }), "{error}");
    }

    #[test]
    fn a_folder_is_filled_once_and_again_after_a_failure() {
        let folder = std::env::temp_dir().join(format!("sluice-once-{}", std::process::id()));
        let mut fills = 0;
        let mut fill = |contents: &str, works: bool| {
            once(&folder, contents, || {
                fills += 1;
                if works {
                    Ok(())
                } else {
                    Err(at(Path::new("x"), io::Error::other("no")))
                }
            })
            .is_ok()
        };
        assert!(!fill("a", false));
        assert!(fill("a", true));
        assert!(fill("a", false));
        assert!(!fill("b", false));
        assert!(!fill("a", false));
        assert_eq!(fills, 4);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
