//! The benchmarks of docs/performance.md. Whatever is compared takes turns in one run, so that ratios mean something on a
//! machine that is noisy; both sides must have had every row, or there is no figure.
//!
//! `sluice-bench drain PORT CERTIFICATE` is the bare loop of P1, as a process of its own.

/// What the binary allocates with, so that its code is measured as it runs there.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "../../../host/src/allocator.rs"]
mod allocator;
mod customers;
mod ingestion;
mod measure;
mod p1;
mod project;
mod server;
mod tables;
mod transforms;

use std::path::Path;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask bench [source] [ROWS] [PAIRS]
        P1: change rows from the source to committed Delta, against a bare loop that drains them (1000000, 5)
cargo xtask bench transforms [ROUNDS]
        P3: `mask` in the sandbox against the same crate natively, and where the time goes (9)
cargo xtask bench ingestion [ROWS] [ROUNDS]
        P3: customers from the source to committed Delta, with a mask against the same without (1000000, 5)
cargo xtask bench tables [TABLES] [SECONDS] [BACKLOG]
        P4: what 10, 100, … TABLES cost, idle and with ten that change; P6: from commit to Delta for 99 tables, alone and
        beside one with BACKLOG rows in one transaction (1000, 60, 5000000)
cargo xtask bench all
        all of them, one after the other
Figures go to target/bench/report.json.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_word = |text: &&str| !text.starts_with(|first: char| first.is_ascii_digit());
    let word = arguments.first().map(String::as_str).filter(is_word);
    let rest = if word.is_some() {
        &arguments[1..]
    } else {
        &arguments[..]
    };
    let number = |index: usize, default: u64| match rest.get(index) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is no number")),
        None => Ok(default),
    };
    match word {
        None | Some("source") => p1::run(number(0, 1_000_000)?, number(1, 5)?).await,
        Some("transforms") => transforms::run(usize::try_from(number(0, 9)?)?),
        Some("ingestion") => ingestion::run(number(0, 1_000_000)?, number(1, 5)?).await,
        Some("tables") => tables::run(number(0, 1000)?, number(1, 60)?, number(2, 5_000_000)?).await,
        Some("all") => {
            p1::run(1_000_000, 5).await?;
            transforms::run(9)?;
            ingestion::run(1_000_000, 5).await?;
            tables::run(1000, 60, 5_000_000).await
        }
        Some("drain") => {
            let port = rest.first().context("drain needs a port")?.parse()?;
            let certificate = rest.get(1).context("drain needs a certificate")?;
            p1::drain(port, Path::new(certificate)).await
        }
        Some("help" | "--help" | "-h") => {
            say(HELP);
            Ok(())
        }
        Some(other) => bail!("there is no benchmark {other:?}\n{HELP}"),
    }
}

#[allow(clippy::print_stdout)]
fn say(text: &str) {
    println!("{text}");
}
