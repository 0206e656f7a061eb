//! `sluice run`: keeps the tables of a configuration in step, until it is stopped or, with `--once`, has caught up.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::show::Show;
use super::{ConfigArgs, Failure, out};
use crate::config::{OnStartError, Secret, Settings, parse_duration};
use crate::error::ErrorKind;
use crate::fanout::{Shard, StartOptions, start_many};
use crate::identity::{CaptureInstance, host_id};
use crate::report::Event;
use crate::web::{Listening, Shown, Slot};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Catch up to where the source is now, then stop.
    #[arg(long)]
    once: bool,
    /// Stop after this time, such as 4h or 90m, each table at the end of its batch.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Serve a status page, metrics and health here, such as 127.0.0.1:9464; also `listen` of [web].
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// Only this share of the tables, such as 2/8 for the second of eight processes.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Stop all tables, at the end of their batches, when one fails.
    #[arg(long)]
    fail_fast: bool,
    /// What a table that cannot be opened means for the others; also `on_start_error` of [run].
    #[arg(long, value_enum)]
    on_start_error: Option<StartErrors>,
    /// Print one JSON object a line (docs/reference/json.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: RunArgs) -> Result<(), Failure> {
    let mut settings = Settings::load(&args.config.config)?;
    settings.select(&args.config.tables)?;
    settings.web.listen = args.http.or(settings.web.listen);
    if let Ok(token) = std::env::var("SLUICE_HTTP_TOKEN")
        && !token.trim().is_empty()
    {
        settings.web.token = Some(Secret::new(token.trim()));
    }
    let options = StartOptions {
        once: args.once,
        on_start_error: match args.on_start_error {
            Some(StartErrors::Isolate) => OnStartError::Isolate,
            Some(StartErrors::Stop) => OnStartError::Stop,
            None => settings.run.on_start_error,
        },
        shard: args.shard,
        fail_fast: args.fail_fast || settings.run.fail_fast,
        ..StartOptions::default()
    };
    stream(&settings, options, args.time, Show::new(args.json))
        .await
        .map(|_| ())
}

/// What a table that cannot be opened means for the others.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum StartErrors {
    /// They run, and the end of the run reports it.
    Isolate,
    /// They are stopped.
    Stop,
}

/// Ten years.
const LONGEST: Duration = Duration::from_secs(3653 * 24 * 3600);

fn duration(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    match time.is_zero() {
        true => Err("must be longer than nothing".to_owned()),
        false if time > LONGEST => {
            Err("must be ten years at most; without it, a run goes on until it is stopped".to_owned())
        }
        false => Ok(time),
    }
}

/// Runs the tables and shows what happens. The summaries of the tables that ended well.
///
/// After `time`, and at SIGINT or SIGTERM, the tables end with their batches. At SIGUSR1, those start again that failed.
pub(super) async fn stream(
    settings: &Settings,
    options: StartOptions,
    time: Option<Duration>,
    mut show: Show,
) -> Result<Vec<Event>, Failure> {
    let of_shard = options.shard;
    let over = time.map(|time| Instant::now() + time);
    for warning in &settings.warnings {
        show.warning(warning);
    }
    let mut signals = Signals::listen()?;
    let (on_page, page_ends) = (Slot::default(), CancellationToken::new());
    let _page_ends = page_ends.clone().drop_guard();
    if let Some(address) = settings.web.listen {
        let page = Listening::on(address, settings.web.token.as_ref()).await?;
        show.serving(page.address());
        tokio::spawn(page.serve(on_page.clone(), page_ends));
    }
    show.opening(settings.tables.iter().map(|table| &table.capture_instance));
    let mut streams = tokio::select! {
        started = start_many(settings, options) => started?,
        () = signals.asked_to_stop() => return Ok(Vec::new()),
        () = until(over) => return Ok(Vec::new()),
    };
    on_page.fill(Shown::new(
        streams.board(),
        streams.scheduler(),
        settings.limits.memory,
        &settings.source,
        &host_id(),
    ));
    let started = streams.tables().len();
    if let (Some(shard), 0) = (of_shard, started) {
        show.warning(&format!("no table is in the share {shard}: there is nothing to do"));
    }
    let mut tables = Vec::new();
    let mut failures: BTreeMap<CaptureInstance, (ErrorKind, bool)> = BTreeMap::new();
    let mut stopping = false;
    let mut signalled = false;
    loop {
        tokio::select! {
            event = streams.next_event() => match event {
                Some(event) => {
                    show.event(&event);
                    match event {
                        Event::Failed { kind, capture_instance, on_disk: of_this, .. } => {
                            failures.insert(capture_instance, (kind, of_this));
                        }
                        // It was started again.
                        Event::Opened { capture_instance, .. } => {
                            failures.remove(&capture_instance);
                        }
                        Event::Table(_) => tables.push(event),
                        _ => {}
                    }
                }
                None => break,
            },
            signal = signals.next() => {
                if signal == Asked::Again {
                    for name in streams.restart_failed() {
                        failures.remove(&name);
                    }
                    continue;
                }
                if signalled {
                    return Err(Failure::new(
                        ErrorKind::Retryable,
                        "stopped at once, at the second signal: the next run finishes what was begun",
                    ));
                }
                signalled = true;
                if !stopping {
                    show.stopping();
                }
                stopping = true;
                streams.stop_all();
            }
            () = until(over), if !stopping => {
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
    match worst(failures.values().map(|(kind, _)| *kind)) {
        None => Ok(tables),
        Some(kind) => {
            let names: Vec<&str> = failures.keys().map(|name| name.0.as_str()).collect();
            let more = match failures.values().any(|(_, on_disk)| *on_disk) {
                true => "; `sluice doctor` examines what is on disk and says what to do",
                false => "",
            };
            Err(Failure {
                kind,
                message: format!(
                    "{} of {} tables failed: {}{more}",
                    failures.len(),
                    started,
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

/// Waits until then; for ever where there is no such time.
async fn until(then: Option<Instant>) {
    match then {
        Some(then) => tokio::time::sleep_until(then.into()).await,
        None => std::future::pending().await,
    }
}

/// SIGINT and SIGTERM, and SIGUSR1. They are listened for as long as this lives, so that none is missed between two waits.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    again: Signal,
}

impl Signals {
    fn listen() -> Result<Signals, Failure> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::new(ErrorKind::Internal, format!("cannot listen for signals: {error}")))
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            again: listen(SignalKind::user_defined1())?,
        })
    }

    /// Waits for the next one.
    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.again.recv() => Asked::Again,
        }
    }

    /// Waits for the next that asks to stop.
    async fn asked_to_stop(&mut self) {
        while self.next().await != Asked::Stop {}
    }
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// To end.
    Stop,
    /// To start those tables again that failed.
    Again,
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
