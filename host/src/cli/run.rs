//! `sluice run`: keeps the tables of a configuration in step, until it is stopped or, with `--once`, has caught up.

use clap::Args;

use super::show::Show;
use super::{ConfigArgs, Failure};
use crate::config::Settings;
use crate::error::ErrorKind;
use crate::fanout::{StartOptions, start_many};
use crate::report::Event;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Catch up to where the source is now, then stop.
    #[arg(long)]
    once: bool,
    /// Print one JSON object a line (docs/reference/json.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: RunArgs) -> Result<(), Failure> {
    let mut settings = Settings::load(&args.config.config)?;
    settings.select(&args.config.tables)?;
    stream(&settings, args.once, Show::new(args.json)).await.map(|_| ())
}

/// Runs the tables and shows what happens. The summaries of the tables that ended well.
pub(super) async fn stream(settings: &Settings, once: bool, mut show: Show) -> Result<Vec<Event>, Failure> {
    for warning in &settings.warnings {
        show.warning(warning);
    }
    show.opening(settings.tables.iter().map(|table| &table.capture_instance));
    let mut streams = start_many(settings, StartOptions { once }).await?;
    let mut tables = Vec::new();
    let mut failures: Vec<(ErrorKind, String)> = Vec::new();
    let mut stopping = false;
    loop {
        tokio::select! {
            event = streams.next_event() => match event {
                Some(event) => {
                    show.event(&event);
                    match event {
                        Event::Failed { kind, capture_instance, .. } => failures.push((kind, capture_instance.0)),
                        Event::Table(_) => tables.push(event),
                        _ => {}
                    }
                }
                None => break,
            },
            () = stop_signal(), if !stopping => {
                stopping = true;
                show.stopping();
                streams.stop_all();
            }
        }
    }
    streams.await_all(None).await;
    show.finish();
    match worst(&failures) {
        None => Ok(tables),
        Some(kind) => {
            let names: Vec<&str> = failures.iter().map(|(_, name)| name.as_str()).collect();
            Err(Failure {
                kind,
                message: format!(
                    "{} of {} tables failed: {}",
                    failures.len(),
                    settings.tables.len(),
                    names.join(", ")
                ),
                shown: true,
            })
        }
    }
}

/// The failure that needs a person most decides the exit code.
fn worst(failures: &[(ErrorKind, String)]) -> Option<ErrorKind> {
    const ORDER: [ErrorKind; 7] = [
        ErrorKind::DataLoss,
        ErrorKind::SchemaChanged,
        ErrorKind::ComponentRefused,
        ErrorKind::State,
        ErrorKind::Config,
        ErrorKind::Internal,
        ErrorKind::Retryable,
    ];
    ORDER
        .into_iter()
        .find(|kind| failures.iter().any(|(failed, _)| failed == kind))
}

/// Resolves at SIGINT or SIGTERM.
pub(super) async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_loss_outranks_what_a_retry_would_mend() {
        let failures = [
            (ErrorKind::Retryable, "a".to_owned()),
            (ErrorKind::DataLoss, "b".to_owned()),
            (ErrorKind::Config, "c".to_owned()),
        ];
        assert_eq!(worst(&failures), Some(ErrorKind::DataLoss));
        assert_eq!(worst(&[]), None);
    }
}
