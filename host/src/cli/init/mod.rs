//! `sluice init`: a first configuration. With `--from-server` it has the tables of a server, and masks for the columns that
//! look personal by name and type; no row is read.

mod guess;
mod render;
mod template;
mod words;

use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::out::{complain, say};
use crate::config::{OnlySource, Settings};
use crate::error::ErrorKind;
use crate::lake::durable::{Published, publish_new};
use crate::source::{AskPool, Catalog, persist, survey};

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// Connect, list what CDC captures, and propose masks by the names and types of columns. Reads no row.
    #[arg(long)]
    from_server: bool,
    /// A file whose [source] says which server; instead of the options below.
    #[arg(
        short = 'c',
        long = "config",
        value_name = "FILE",
        requires = "from_server",
        conflicts_with_all = ["server", "database", "user", "password_env", "server_certificate", "ca_file"]
    )]
    config: Option<PathBuf>,
    /// The server: host, host,port or host\INSTANCE.
    #[arg(long, value_name = "SERVER", requires = "from_server")]
    server: Option<String>,
    /// The database.
    #[arg(long, value_name = "NAME", requires = "from_server")]
    database: Option<String>,
    /// The login.
    #[arg(long, value_name = "NAME", requires = "from_server")]
    user: Option<String>,
    /// The environment variable that has the password. [default: SLUICE_PASSWORD]
    #[arg(long, value_name = "NAME", requires = "from_server")]
    password_env: Option<String>,
    /// PEM file of the server's own certificate, where nobody signed it.
    #[arg(long, value_name = "FILE", requires = "from_server")]
    server_certificate: Option<PathBuf>,
    /// PEM file of the authorities that may have signed the server's certificate.
    #[arg(long, value_name = "FILE", requires = "from_server")]
    ca_file: Option<PathBuf>,
    /// The environment variable from which the configuration will take the key of the masks.
    #[arg(long, value_name = "NAME", default_value = "PII_KEY")]
    key_env: String,
    /// Where to write it; standard output otherwise. A file that is there is never overwritten.
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) async fn run(args: InitArgs) -> Result<(), Failure> {
    // Before a server is asked for nothing.
    if let Some(output) = &args.output
        && output.symlink_metadata().is_ok()
    {
        return Err(exists(output));
    }
    let text = match args.from_server {
        true => from_server(&args).await?,
        false => template::TEMPLATE.to_owned(),
    };
    let Some(output) = &args.output else {
        say!("{}", text.trim_end());
        return Ok(());
    };
    match publish_new(output, text.as_bytes()) {
        Ok(Published::Written) => {}
        Ok(Published::Exists) => return Err(exists(output)),
        Err(error) => {
            return Err(Failure::new(
                ErrorKind::Config,
                format!("cannot write {}: {error}", output.display()),
            ));
        }
    }
    say!(
        "wrote {}; look through it, then: sluice check -c {}",
        output.display(),
        output.display()
    );
    Ok(())
}

fn exists(output: &Path) -> Failure {
    Failure::new(
        ErrorKind::Config,
        format!(
            "{} is there already, and is not overwritten; name another file with -o",
            output.display()
        ),
    )
}

async fn from_server(args: &InitArgs) -> Result<String, Failure> {
    let source = match &args.config {
        Some(path) => OnlySource::load(path)?,
        None => OnlySource::of(section(args)?, here(), Vec::new())?,
    };
    if !source.others.is_empty() {
        complain!(
            "warning: only [source] of the file is used, and not {}",
            source.others.join(", ")
        );
    }
    for warning in &source.warnings {
        complain!("warning: {warning}");
    }
    let asks = AskPool::new(source.settings.clone(), 1);
    let catalog = persist(|| async { Catalog::read(&mut *asks.get().await?).await }).await?;
    for warning in &catalog.warnings {
        complain!("warning: {warning}");
    }
    let tables = survey(&catalog, &mut *asks.get().await?).await?;
    if tables.iter().all(|table| table.columns.is_empty()) {
        return Err(Failure::new(
            ErrorKind::Config,
            format!(
                "user {} sees no captured table in database {}: enable CDC on the tables (sys.sp_cdc_enable_table) and grant \
                 it SELECT on them",
                source.settings.database_user(),
                catalog.database
            ),
        ));
    }
    let folder = match &args.output {
        Some(output) => std::path::absolute(output)
            .ok()
            .and_then(|output| output.parent().map(Path::to_owned))
            .unwrap_or_else(here),
        None => here(),
    };
    let options = render::Options {
        key_env: &args.key_env,
        folder: &folder,
    };
    let text = render::render(&source, &catalog.database, &tables, options);
    // What a person has to solve is said now: a name that is no folder's, two tables in one place.
    if let Err(error) = Settings::parse_without_secrets(&text, &folder, Path::new("the new configuration")) {
        complain!("warning: the configuration needs a change before it can be used: {error}");
    }
    Ok(text)
}

/// `[source]` of the options.
fn section(args: &InitArgs) -> Result<toml::Table, Failure> {
    let mut section = toml::Table::new();
    for (key, option, value) in [
        ("server", "--server", &args.server),
        ("database", "--database", &args.database),
        ("user", "--user", &args.user),
    ] {
        let value = value.as_ref().ok_or_else(|| {
            Failure::new(
                ErrorKind::Config,
                format!(
                    "{option} is missing: --from-server needs --server, --database and --user, or -c FILE with [source]"
                ),
            )
        })?;
        section.insert(key.to_owned(), value.as_str().into());
    }
    let password = args.password_env.as_deref().unwrap_or("SLUICE_PASSWORD");
    let secret = toml::Table::from_iter([("env".to_owned(), toml::Value::from(password))]);
    section.insert("password".to_owned(), secret.into());
    for (key, path) in [
        ("server_certificate", &args.server_certificate),
        ("ca_file", &args.ca_file),
    ] {
        if let Some(path) = path {
            section.insert(key.to_owned(), path.display().to_string().into());
        }
    }
    Ok(section)
}

fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."))
}
