//! `sluice run`: keeps the tables of a configuration in step, until it is stopped or, with `--once`, has caught up.

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::show::Show;
use super::{ConfigArgs, Failure, out};
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
    let options = StartOptions {
        once: args.once,
        ..StartOptions::default()
    };
    stream(&settings, options, Show::new(args.json)).await.map(|_| ())
}

/// Runs the tables and shows what happens. The summaries of the tables that ended well.
pub(super) async fn stream(settings: &Settings, options: StartOptions, mut show: Show) -> Result<Vec<Event>, Failure> {
    for warning in &settings.warnings {
        show.warning(warning);
    }
    let mut stop = StopSignals::listen()?;
    show.opening(settings.tables.iter().map(|table| &table.capture_instance));
    let mut streams = tokio::select! {
        started = start_many(settings, options) => started?,
        () = stop.next() => return Ok(Vec::new()),
    };
    let mut tables = Vec::new();
    let mut failures: Vec<(ErrorKind, String)> = Vec::new();
    let mut on_disk = false;
    let mut stopping = false;
    loop {
        tokio::select! {
            event = streams.next_event() => match event {
                Some(event) => {
                    show.event(&event);
                    match event {
                        Event::Failed { kind, capture_instance, on_disk: of_this, .. } => {
                            failures.push((kind, capture_instance.0));
                            on_disk |= of_this;
                        }
                        Event::Table(_) => tables.push(event),
                        _ => {}
                    }
                }
                None => break,
            },
            () = stop.next() => {
                if stopping {
                    return Err(Failure::new(
                        ErrorKind::Retryable,
                        "stopped at once, at the second signal: the next run finishes what was begun",
                    ));
                }
                stopping = true;
                show.stopping();
                streams.stop_all();
            }
            // Nobody reads what happens: as for other programs in a pipe, that is a request to stop.
            () = out::gone(), if !stopping => {
                stopping = true;
                streams.stop_all();
            }
        }
    }
    streams.await_all(None).await;
    show.finish();
    match worst(failures.iter().map(|(kind, _)| *kind)) {
        None => Ok(tables),
        Some(kind) => {
            let names: Vec<&str> = failures.iter().map(|(_, name)| name.as_str()).collect();
            let more = match on_disk {
                true => "; `sluice doctor` examines what is on disk and says what to do",
                false => "",
            };
            Err(Failure {
                kind,
                message: format!(
                    "{} of {} tables failed: {}{more}",
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
pub(super) fn worst(failures: impl Iterator<Item = ErrorKind> + Clone) -> Option<ErrorKind> {
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
        .find(|kind| failures.clone().any(|failed| failed == *kind))
}

/// SIGINT and SIGTERM. They are listened for as long as this lives, so that none is missed between two waits.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    fn listen() -> Result<StopSignals, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(ErrorKind::Internal, format!("cannot listen for signals: {error}")))
        };
        Ok(StopSignals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_loss_outranks_what_a_retry_would_mend() {
        let failures = [ErrorKind::Retryable, ErrorKind::DataLoss, ErrorKind::Config];
        assert_eq!(worst(failures.into_iter()), Some(ErrorKind::DataLoss));
        assert_eq!(worst([].into_iter()), None);
    }
}
