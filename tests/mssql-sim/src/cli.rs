//! Options, and what happens between start and stop.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use mssql_sim::engine::{EngineOptions, ServerVersion, UnknownZone, Zone};
use mssql_sim::workload::{ShopWorkload, WorkloadOptions};
use mssql_sim::{CertificateOptions, Encryption, ServerOptions, SimServer};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A stand-in for SQL Server that speaks TDS 7.4, for sluice's demo, tests and benchmarks.
#[derive(Debug, Parser)]
// `--version` says which SQL Server to be, so there is no flag of that name.
#[command(name = "mssql-sim", disable_version_flag = true)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:14330", value_name = "HOST:PORT")]
    listen: String,
    /// Folder of the databases; without it they are gone when the server stops
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The administrator's login
    #[arg(long, default_value = "sa")]
    user: String,
    /// The administrator's password
    #[arg(long, env = "MSSQL_SIM_PASSWORD", hide_env_values = true)]
    password: String,
    /// Make a database with tables under CDC, and changes in it
    #[arg(long, value_enum)]
    workload: Option<WorkloadName>,
    /// Seed of the workload: the same one makes the same rows
    #[arg(long, default_value_t = 7, requires = "workload")]
    seed: u64,
    /// Changes a second that the workload goes on making; 0 for none
    #[arg(long, default_value_t = 0.0, requires = "workload")]
    rate: f64,
    /// Change rows that the workload makes before the server is ready
    #[arg(long, default_value_t = 0, requires = "workload")]
    backlog: u64,
    /// Small tables under CDC beside the workload's own
    #[arg(long, default_value_t = 0, requires = "workload")]
    small_tables: u32,
    /// Script to run before the server is ready; lines that say GO end a batch
    #[arg(long, value_name = "FILE")]
    sql: Option<PathBuf>,
    /// How long capture stays behind a commit, such as 250ms or 5s; 0ms, or 20s as Azure SQL Database, unless given
    #[arg(long, value_parser = parse_duration)]
    capture_lag: Option<Duration>,
    /// The version that it says it is
    #[arg(long, default_value = "2022", value_enum)]
    version: Year,
    /// The server's clock, in minutes east of UTC
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_name = "MINUTES")]
    utc_offset: i16,
    /// The zone of the server's clock, by its Windows or IANA name: "W. Europe Standard Time" or Europe/Berlin
    #[arg(long, value_name = "NAME", value_parser = parse_zone, conflicts_with = "utc_offset")]
    time_zone: Option<Zone>,
    /// Change tables have no __$command_id, as on some builds of SQL Server 2016
    #[arg(long)]
    without_command_id: bool,
    /// Off: no certificate. On: the client decides. Required: everything is encrypted
    #[arg(long, default_value = "on", value_enum)]
    encrypt: Encrypt,
    /// Write the server's certificate (PEM) here, for a client's CA file
    #[arg(long, value_name = "FILE")]
    cert_out: Option<PathBuf>,
    /// Have an authority, made at start, sign the certificate, and write the authority's (PEM) here
    #[arg(long, value_name = "FILE")]
    ca_out: Option<PathBuf>,
    /// A name or address in the certificate, instead of the usual ones; may be given more than once
    #[arg(long, value_name = "NAME")]
    cert_name: Vec<String>,
    /// Make a certificate that has expired
    #[arg(long)]
    cert_expired: bool,
    /// Be a named instance, and answer as SQL Server Browser on UDP 1434 of the address of --listen
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Append each request to this file: a line of JSON with its text, without the values of its parameters
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// Say in the prelogin that federated authentication is required, as Azure SQL Database does
    #[arg(long)]
    fed_auth_required: bool,
    /// Write the address here once the server is ready
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Stop when standard input ends, as it does when the parent process is gone
    #[arg(long)]
    exit_with_parent: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WorkloadName {
    /// Customers, orders and order items
    Shop,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Year {
    #[value(name = "2016")]
    Y2016,
    #[value(name = "2017")]
    Y2017,
    #[value(name = "2019")]
    Y2019,
    #[value(name = "2022")]
    Y2022,
    #[value(name = "2025")]
    Y2025,
    /// Azure SQL Database
    #[value(name = "azure")]
    Azure,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Encrypt {
    Off,
    On,
    Required,
}

/// Why the server stops.
enum Stop {
    Asked,
    WorkloadFailed(anyhow::Error),
}

/// Starts the server, says that it is ready, and waits until it is to stop.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if args.password.is_empty() {
        bail!("the administrator's password is empty; set MSSQL_SIM_PASSWORD or give --password");
    }
    let (stop, stopped) = mpsc::channel();
    let ready = Arc::new(AtomicBool::new(false));
    watch_signals(stop.clone(), Arc::clone(&ready))?;
    if args.exit_with_parent {
        watch_parent(stop.clone(), Arc::clone(&ready));
    }
    let server = SimServer::start(ServerOptions {
        listen: args.listen.clone(),
        engine: engine_options(&args),
        encryption: match args.encrypt {
            Encrypt::Off => Encryption::Off,
            Encrypt::On => Encryption::On,
            Encrypt::Required => Encryption::Required,
        },
        certificate: CertificateOptions {
            names: args.cert_name.clone(),
            signed: args.ca_out.is_some(),
            expired: args.cert_expired,
        },
        instance: args.instance.clone(),
        requests: args.requests.clone(),
        fed_auth_required: args.fed_auth_required,
    })?;
    let workload = prepare(&args, &server)?;
    announce(&args, &server)?;
    ready.store(true, Ordering::Release);

    let quit = Arc::new(AtomicBool::new(false));
    let working = workload.filter(|_| args.rate > 0.0).map(|mut workload| {
        let quit = Arc::clone(&quit);
        std::thread::spawn(move || {
            if let Err(error) = workload.run(args.rate, &quit) {
                let _ = stop.send(Stop::WorkloadFailed(error.into()));
            }
        })
    });
    let why = stopped.recv();
    quit.store(true, Ordering::Release);
    if let Some(working) = working {
        let _ = working.join();
    }
    server.stop();
    match why {
        Ok(Stop::WorkloadFailed(error)) => Err(error.context("the workload cannot go on")),
        Ok(Stop::Asked) | Err(_) => Ok(()),
    }
}

/// Makes the workload's tables and backlog, then runs the script, which may be about them.
fn prepare(args: &Args, server: &SimServer) -> anyhow::Result<Option<ShopWorkload>> {
    let workload = match args.workload {
        Some(WorkloadName::Shop) => Some(shop(args, server)?),
        None => None,
    };
    if let Some(path) = &args.sql {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        server
            .run_script(&text)
            .with_context(|| format!("the script {} failed", path.display()))?;
    }
    Ok(workload)
}

fn shop(args: &Args, server: &SimServer) -> anyhow::Result<ShopWorkload> {
    let mut workload = ShopWorkload::open(
        server.engine(),
        WorkloadOptions {
            seed: args.seed,
            ..WorkloadOptions::new(&args.user, &args.password)
        },
    )?;
    workload.fill_small_tables(args.small_tables)?;
    workload.fill(args.backlog)?;
    Ok(workload)
}

/// Says where the server is to be found.
fn announce(args: &Args, server: &SimServer) -> anyhow::Result<()> {
    if let Some(path) = &args.cert_out {
        let Some(certificate) = server.certificate_pem() else {
            bail!("--cert-out needs a certificate, and --encrypt off makes none");
        };
        write_whole(path, certificate)?;
    }
    if let Some(path) = &args.ca_out {
        let Some(authority) = server.authority_pem() else {
            bail!("--ca-out needs a certificate, and --encrypt off makes none");
        };
        write_whole(path, authority)?;
    }
    let address = server.address();
    if let Some(path) = &args.ready_file {
        write_whole(path, &address.to_string())?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {address}")
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

/// Writes a file under another name first, so that nobody reads half of it.
fn write_whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    std::fs::write(&partial, text)
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn watch_signals(stop: mpsc::Sender<Stop>, ready: Arc<AtomicBool>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("cannot watch for signals")?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            ask_to_stop(&stop, &ready);
        }
    });
    Ok(())
}

fn watch_parent(stop: mpsc::Sender<Stop>, ready: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut nothing = [0; 256];
        let mut stdin = std::io::stdin().lock();
        while matches!(stdin.read(&mut nothing), Ok(count) if count > 0) {}
        ask_to_stop(&stop, &ready);
    });
}

/// While a backlog is being made nobody listens to the channel, and no client is connected: leave at once. The engine's
/// files are whole after any end of the process.
fn ask_to_stop(stop: &mpsc::Sender<Stop>, ready: &AtomicBool) {
    if !ready.load(Ordering::Acquire) || stop.send(Stop::Asked).is_err() {
        std::process::exit(0);
    }
}

fn engine_options(args: &Args) -> EngineOptions {
    EngineOptions {
        without_command_id: args.without_command_id,
        data_dir: args.data.clone(),
        admin_user: args.user.clone(),
        admin_password: args.password.clone(),
        capture_lag: args.capture_lag,
        server_name: "mssql-sim".to_owned(),
        version: match args.version {
            Year::Y2016 => ServerVersion::V2016,
            Year::Y2017 => ServerVersion::V2017,
            Year::Y2019 => ServerVersion::V2019,
            Year::Y2022 => ServerVersion::V2022,
            Year::Y2025 => ServerVersion::V2025,
            Year::Azure => ServerVersion::Azure,
        },
        time_zone: args.time_zone.clone().unwrap_or_else(|| Zone::fixed(args.utc_offset)),
        ..EngineOptions::default()
    }
}

fn parse_zone(name: &str) -> Result<Zone, UnknownZone> {
    Zone::named(name)
}

/// Reads `250ms`, `5s` or `2m`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let explain = || format!("{text:?} is no duration; write it as 250ms, 5s or 2m");
    let split = text
        .find(|character: char| !character.is_ascii_digit())
        .ok_or_else(explain)?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| explain())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err(explain()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert!(parse_duration("5").is_err());
        assert!(parse_duration("s").is_err());
    }

    #[test]
    fn the_options_are_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
        let args = [
            "mssql-sim",
            "--password",
            "x",
            "--version",
            "2019",
            "--utc-offset",
            "-420",
        ];
        assert!(matches!(
            Args::try_parse_from(args),
            Ok(Args {
                version: Year::Y2019,
                utc_offset: -420,
                ..
            })
        ));
        let zone = |name| ["mssql-sim", "--password", "x", "--version", "2025", "--time-zone", name];
        assert!(Args::try_parse_from(zone("W. Europe Standard Time")).is_ok());
        assert!(
            Args::try_parse_from(zone("Europe/Nowhere"))
                .unwrap_err()
                .to_string()
                .contains("IANA name")
        );
    }
}
