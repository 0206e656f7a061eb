//! `cargo xtask test-mssql`: the part of the end-to-end tests that a real SQL Server can answer, against one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::shell::{self, say};

/// The administrator's connection string.
const VARIABLE: &str = "SLUICE_TEST_MSSQL";
/// Where the tests say which of them ran against the server.
const REPORT: &str = "SLUICE_TEST_MSSQL_REPORT";
const STAND_IN: &str = "--against-stand-in";

const HELP: &str = "\
SLUICE_TEST_MSSQL is not set, so there is no server to test against. Set it to the ADO.NET connection string of an administrator \
of a SQL Server that holds nothing of value (databases such as sales, and the login reader, are dropped and made anew):

  export SLUICE_TEST_MSSQL='Server=127.0.0.1,1433;User ID=sa;Password=…;TrustServerCertificate=true'

docs/guides/testing-against-sql-server.md says how to start one. cargo xtask test-mssql --against-stand-in rehearses the same \
with the stand-in.";

/// Runs the tests one after the other, and says what they prove.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let rehearsal = arguments.iter().any(|argument| argument == STAND_IN);
    let rest = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| *argument != STAND_IN);
    if !rehearsal && std::env::var_os(VARIABLE).is_none() {
        bail!("{HELP}");
    }
    if !shell::succeeds("cargo", &["nextest", "--version"]) {
        bail!("each test has to be a process of its own: cargo install cargo-nextest --locked");
    }
    setup::run(setup::For::Tests)?;
    say("building sluice and the stand-in server …");
    shell::cargo(&["build", "--workspace", "--bins"])?;
    let report = shell::target().join("test-mssql.txt");
    if let Err(error) = std::fs::remove_file(&report)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error).with_context(|| format!("cannot remove {}", report.display()));
    }
    let mut environment = vec![(REPORT, text(&report)?)];
    // It runs for as long as this does.
    let _stand_in = if rehearsal {
        let stand_in = StandIn::start()?;
        say("running the portable tests, one after the other, against a stand-in that captures with a lag …");
        environment.push((VARIABLE, stand_in.connection_string.clone()));
        Some(stand_in)
    } else {
        say("running the portable tests, one after the other, against the server of SLUICE_TEST_MSSQL …");
        None
    };
    let mut command = vec!["nextest", "run", "--workspace", "--test", "it", "--profile", "mssql"];
    command.extend(rest);
    let ran = shell::cargo_with(&command, &environment);
    // A run that could not even build has none.
    let lines = std::fs::read_to_string(&report).unwrap_or_default();
    say(&summary(&lines));
    ran
}

/// What the tests' report says.
fn summary(report: &str) -> String {
    let mut ran: BTreeSet<&str> = BTreeSet::new();
    let mut not_portable: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in report.lines() {
        let mut fields = line.split('\t');
        let (what, test, why) = (
            fields.next(),
            fields.next().unwrap_or(line),
            fields.next().unwrap_or_default(),
        );
        match what {
            Some("ran") => {
                ran.insert(test);
            }
            _ => {
                not_portable.entry(why).or_default().insert(test);
            }
        }
    }
    // A test may see only on its way that it is not.
    for test in not_portable.values().flatten() {
        ran.remove(test);
    }
    let skipped: usize = not_portable.values().map(BTreeSet::len).sum();
    let mut text = format!(
        "{} tests ran against the server. {skipped} began and are not portable; they count as passed above, and prove nothing \
         of this server. The others ask no server, or one of their own.",
        ran.len()
    );
    for (why, tests) in &not_portable {
        text.push_str(&format!("\nnot portable: {why}"));
        for test in tests {
            text.push_str(&format!("\n  {test}"));
        }
    }
    text
}

fn text(path: &Path) -> Result<String> {
    let path = std::path::absolute(path).with_context(|| format!("no absolute path of {}", path.display()))?;
    let text = path.to_str().context("the path of the target folder is not UTF-8")?;
    Ok(text.to_owned())
}

/// A stand-in that was started by itself, as a real server is; killed when dropped.
struct StandIn {
    child: Child,
    connection_string: String,
}

impl StandIn {
    /// It captures 300 ms after each commit, so that a test which does not wait for capture fails.
    fn start() -> Result<StandIn> {
        const PASSWORD: &str = "Rehearsal-0nly";
        let program = shell::target().join("debug/mssql-sim");
        let certificate = text(&shell::target().join("test-mssql.pem"))?;
        let mut command = Command::new(&program);
        command
            .args(["--listen", "127.0.0.1:0", "--user", "sa", "--exit-with-parent"])
            .args(["--capture-lag", "300ms", "--cert-out", &certificate])
            .env("MSSQL_SIM_PASSWORD", PASSWORD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Ok(version) = std::env::var("SLUICE_TEST_VERSION") {
            command.args(["--version", &version]);
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out)
                .read_line(&mut line)
                .context("cannot read what the stand-in says")?;
        }
        let Some((host, port)) = line
            .trim()
            .strip_prefix("listening on ")
            .and_then(|address| address.rsplit_once(':'))
        else {
            let _ = child.kill();
            let _ = child.wait();
            bail!("the stand-in does not start: {line:?}");
        };
        let connection_string =
            format!("Server={host},{port};User ID=sa;Password={PASSWORD};ServerCertificate='{certificate}'");
        Ok(StandIn {
            child,
            connection_string,
        })
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_ended_early_is_not_one_that_ran() {
        let report = "ran\ta::one\t\nran\ta::two\t\nnot portable\ta::two\tbecause\nnot portable\tb::three\tbecause\n";
        let text = summary(report);
        assert!(text.starts_with("1 tests ran against the server. 2 began"), "{text}");
        assert!(text.ends_with("not portable: because\n  a::two\n  b::three"), "{text}");
    }
}
