//! Both drivers' connections, made from the same settings: to the same address, with the same identity and the same idea
//! of the right certificate, and set up in the same way.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::select_ok;
use mssql_tds::connection::client_context::{ClientContext, TdsAuthenticationMethod};
use mssql_tds::connection::tds_client::TdsClient;
use mssql_tds::connection_provider::tds_connection_provider::TdsConnectionProvider;
use mssql_tds::core::EncryptionSetting;
use mssql_tds::message::login_options::ApplicationIntent;
use socket2::{SockRef, TcpKeepalive};
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use super::browser;
use super::error::SourceError;
use super::login;
use super::prelogin::Answered;
use super::session;
use super::token::Issued;
use super::verify::{self, Encrypted};
use crate::config::{Authentication, Encrypt, Endpoint, Secret, SourceSettings, Trust};

/// The largest packet that both sides take: fewer packets, less CPU.
const PACKET_BYTES: u16 = 32_000;
/// How often a login may be sent on to another server. Azure SQL does it once; mssql-tds follows ten.
const MAX_ROUTES: usize = 10;
/// An idle connection is probed, so that a peer that is gone without a word is noticed, and firewalls remember it.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

const SETTING_UP: &str = "setting up a connection";

/// What tiberius talks over.
pub(super) enum Wire {
    /// TLS, if any, is the driver's.
    Plain(TcpStream),
    /// TLS is ours, and the driver knows nothing of it.
    Encrypted(Box<Answered<Encrypted>>),
}

pub(super) type TiberiusClient = Client<Compat<Wire>>;

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    /// Another server sent the login there.
    pub(super) routed: bool,
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{},{}", self.host, self.port)
    }
}

/// Who logs in, for one attempt.
enum Credential {
    Sql { user: String, password: Secret },
    Token(Issued),
}

/// Logs in with tiberius. Where the server sends the login on, it is followed.
pub(super) async fn tiberius(settings: &SourceSettings) -> Result<TiberiusClient, SourceError> {
    // A command or an endpoint that brings a token has a deadline of its own.
    let credential = Credential::get(settings).await?;
    let made = within(settings, tiberius_as(settings, &credential)).await;
    if !credential.was_refused(&made) {
        return made;
    }
    let credential = credential.renew(settings).await?;
    within(settings, tiberius_as(settings, &credential)).await
}

async fn tiberius_as(settings: &SourceSettings, credential: &Credential) -> Result<TiberiusClient, SourceError> {
    let first = target(settings).await?;
    let (mut client, at) = tiberius_routed(settings, &first, credential).await?;
    let batch = format!("{} {}", session::settings(settings), session::WHO);
    let asked = async { client.simple_query(batch).await?.into_row().await };
    let row = asked.await.map_err(|error| SourceError::ask(error, SETTING_UP))?;
    if let Some(user) = row.as_ref().and_then(|row| row.try_get::<&str, _>(0).ok().flatten()) {
        settings.learned.is_principal(user);
    }
    settings.learned.came_in();
    settings.learned.is_at((at != first).then_some(at));
    Ok(client)
}

/// Logs in with mssql-tds, which follows a server that sends the login on by itself.
pub(super) async fn mssql_tds(settings: &SourceSettings) -> Result<TdsClient, SourceError> {
    let credential = Credential::get(settings).await?;
    let made = within(settings, mssql_tds_as(settings, &credential)).await;
    if !credential.was_refused(&made) {
        return made;
    }
    let credential = credential.renew(settings).await?;
    within(settings, mssql_tds_as(settings, &credential)).await
}

async fn mssql_tds_as(settings: &SourceSettings, credential: &Credential) -> Result<TdsClient, SourceError> {
    let mut target = target(settings).await?;
    // The driver follows a route by itself, and what is checked before has to be the server at its end.
    if (checks_first(settings) || settings.encrypt == Encrypt::Login)
        && let Some(routed) = settings.learned.at()
    {
        target = routed;
    }
    let mut client = mssql_tds_at(settings, &target, credential).await?;
    let set = async {
        client.execute(session::settings(settings), ()).await?;
        client.close_query().await
    };
    set.await.map_err(|error| SourceError::stream(error, SETTING_UP))?;
    settings.learned.came_in();
    Ok(client)
}

async fn within<T>(
    settings: &SourceSettings,
    connecting: impl Future<Output = Result<T, SourceError>>,
) -> Result<T, SourceError> {
    match tokio::time::timeout(settings.connect_timeout, connecting).await {
        Ok(result) => result,
        Err(_) => Err(SourceError::Connect {
            server: settings.server.to_string(),
            reason: format!(
                "no answer within {} s (source.connect_timeout)",
                settings.connect_timeout.as_secs()
            ),
        }),
    }
}

impl Credential {
    async fn get(settings: &SourceSettings) -> Result<Credential, SourceError> {
        Ok(match &settings.authentication {
            Authentication::Sql { user, password } => Credential::Sql {
                user: user.clone(),
                password: password.clone(),
            },
            Authentication::Token(source) => Credential::Token(settings.learned.tokens.get(source).await?),
        })
    }

    /// Whether a token that was kept from earlier was refused: it may have been revoked, or the clocks differ. It is then
    /// replaced and the login tried again, once. A new one would be refused again.
    fn was_refused<T>(&self, result: &Result<T, SourceError>) -> bool {
        matches!(
            (self, result),
            (
                Credential::Token(Issued { fresh: false, .. }),
                Err(SourceError::TokenLogin { .. })
            )
        )
    }

    async fn renew(&self, settings: &SourceSettings) -> Result<Credential, SourceError> {
        if let Credential::Token(refused) = self {
            settings.learned.tokens.forget(refused);
        }
        Credential::get(settings).await
    }
}

/// The server's address; a named instance's port is asked for.
async fn target(settings: &SourceSettings) -> Result<Target, SourceError> {
    let host = settings.server.host.clone();
    let port = match &settings.server.endpoint {
        Endpoint::Port(port) => *port,
        Endpoint::Instance(instance) => browser::port_of(&host, instance).await?,
    };
    Ok(Target {
        host,
        port,
        routed: false,
    })
}

/// A TCP connection to whichever address of the host answers first: an availability group's listener has one in each
/// subnet, and only one of them lives.
pub(super) async fn dial(settings: &SourceSettings, target: &Target) -> Result<TcpStream, SourceError> {
    let failed = |error: io::Error| SourceError::Connect {
        server: target.to_string(),
        reason: match target.routed {
            true => format!("{error} (the login was sent there by {})", settings.server),
            false => error.to_string(),
        },
    };
    let addresses: Vec<_> = tokio::net::lookup_host((target.host.as_str(), target.port))
        .await
        .map_err(failed)?
        .collect();
    if addresses.is_empty() {
        return Err(failed(io::Error::other("the host has no address")));
    }
    let dials = addresses
        .into_iter()
        .map(|address| Box::pin(TcpStream::connect(address)));
    let (tcp, _) = select_ok(dials).await.map_err(failed)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE_INTERVAL);
    tcp.set_nodelay(true)
        .and_then(|()| SockRef::from(&tcp).set_tcp_keepalive(&keepalive))
        .map_err(failed)?;
    Ok(tcp)
}

/// Logs in, and follows the server that sends the login on. The connection, and where it leads.
async fn tiberius_routed(
    settings: &SourceSettings,
    first: &Target,
    credential: &Credential,
) -> Result<(TiberiusClient, Target), SourceError> {
    let mut target = first.clone();
    for _ in 0..=MAX_ROUTES {
        match tiberius_at(settings, &target, credential).await? {
            Attempt::In(client) => return Ok((*client, target)),
            Attempt::Routed(to) => target = to,
        }
    }
    Err(SourceError::Connect {
        server: first.to_string(),
        reason: format!("the login was sent on more than {MAX_ROUTES} times"),
    })
}

enum Attempt {
    In(Box<TiberiusClient>),
    Routed(Target),
}

async fn tiberius_at(
    settings: &SourceSettings,
    target: &Target,
    credential: &Credential,
) -> Result<Attempt, SourceError> {
    if settings.encrypt == Encrypt::Login {
        verify::expect_encryption(settings, target).await?;
    }
    let tcp = dial(settings, target).await?;
    let wire = match settings.encrypt {
        Encrypt::Login => Wire::Plain(tcp),
        Encrypt::All | Encrypt::Strict => {
            let (stream, answer) = verify::encrypt(settings, target, tcp).await?;
            Wire::Encrypted(Box::new(Answered::new(stream, answer)))
        }
    };
    match Client::connect(tiberius_config(settings, target, credential), wire.compat_write()).await {
        Ok(client) => Ok(Attempt::In(Box::new(client))),
        Err(tiberius::error::Error::Routing { host, port }) => Ok(Attempt::Routed(Target {
            // An instance behind the host says nothing more than the port.
            host: host.split('\\').next().unwrap_or(&host).to_owned(),
            port,
            routed: true,
        })),
        Err(error) => Err(login::of_tiberius(settings, target, error)),
    }
}

fn tiberius_config(settings: &SourceSettings, target: &Target, credential: &Credential) -> Config {
    let mut config = Config::new();
    // What the login names is the server of the configuration, wherever the login is sent on to.
    config.host(&settings.server.host);
    config.port(target.port);
    config.database(&settings.database);
    config.application_name(&settings.application_name);
    config.readonly(settings.read_only);
    config.authentication(match credential {
        Credential::Sql { user, password } => AuthMethod::sql_server(user, password.reveal()),
        Credential::Token(issued) => AuthMethod::aad_token(issued.secret.reveal()),
    });
    config.encryption(match settings.encrypt {
        // `Off` still encrypts the login, as `encrypt = false` does everywhere.
        Encrypt::Login => EncryptionLevel::Off,
        // The wire is encrypted already.
        Encrypt::All | Encrypt::Strict => EncryptionLevel::NotSupported,
    });
    if settings.encrypt == Encrypt::Login {
        config.trust_cert();
    }
    // Both have their own limits here: connect_timeout and command_timeout.
    config.handshake_timeout(None);
    config.command_timeout(None);
    config
}

/// Whether mssql-tds is held to a certificate that was checked by a connection before.
fn checks_first(settings: &SourceSettings) -> bool {
    matches!(settings.trust, Trust::Authority(_)) && settings.encrypt != Encrypt::Login
}

async fn mssql_tds_at(
    settings: &SourceSettings,
    target: &Target,
    credential: &Credential,
) -> Result<TdsClient, SourceError> {
    if settings.encrypt == Encrypt::Login {
        verify::expect_encryption(settings, target).await?;
    }
    let mut anew = false;
    loop {
        let (mut context, data_source) = tds_context(settings, target, credential);
        let certificate = match checks_first(settings) {
            true => Some(verify::certificate_file(settings, target, anew).await?),
            false => None,
        };
        if let Some(file) = &certificate {
            context.encryption_options.server_certificate = Some(file.to_path_buf());
            // The name was checked with the certificate.
            context.encryption_options.host_name_in_cert = None;
        }
        match TdsConnectionProvider::new()
            .create_client(context, &data_source, None)
            .await
        {
            Ok(client) => return Ok(client),
            // The server got a new certificate since it was checked.
            Err(mssql_tds::error::Error::CertificateMismatch) if checks_first(settings) && !anew => anew = true,
            // Each of several servers behind one name has its own: the next attempt may meet the same twice.
            Err(mssql_tds::error::Error::CertificateMismatch) if checks_first(settings) => {
                return Err(SourceError::Connect {
                    server: target.to_string(),
                    reason: "it has another certificate than a moment ago: do servers behind this name have different \
                             ones?"
                        .to_owned(),
                });
            }
            Err(error) => return Err(login::of_mssql_tds(settings, target, error)),
        }
    }
}

fn tds_context(settings: &SourceSettings, target: &Target, credential: &Credential) -> (ClientContext, String) {
    let mut context = ClientContext::default();
    match credential {
        Credential::Sql { user, password } => {
            context.user_name.clone_from(user);
            context.password = password.reveal().to_owned();
        }
        Credential::Token(issued) => {
            context.tds_authentication_method = TdsAuthenticationMethod::AccessToken;
            context.access_token = Some(issued.secret.reveal().to_owned());
        }
    }
    context.database.clone_from(&settings.database);
    context.application_name.clone_from(&settings.application_name);
    context.application_intent = match settings.read_only {
        true => ApplicationIntent::ReadOnly,
        false => ApplicationIntent::ReadWrite,
    };
    // As in `tiberius_config`.
    context.login_server_name = Some(settings.server.host.clone());
    // Ours is over first, and says which setting it is.
    context.connect_timeout = u32::try_from(settings.connect_timeout.as_secs() + 1).unwrap_or(u32::MAX);
    context.keep_alive_in_ms = KEEPALIVE.as_millis() as u32;
    context.keep_alive_interval_in_ms = KEEPALIVE_INTERVAL.as_millis() as u32;
    context.packet_size = PACKET_BYTES;
    // A broken stream is retried as a whole, from the batch's plan: the driver must not reconnect behind our back.
    context.connect_retry_count = 0;
    let options = &mut context.encryption_options;
    options.mode = match settings.encrypt {
        Encrypt::Login => EncryptionSetting::PreferOff,
        Encrypt::All => EncryptionSetting::Required,
        Encrypt::Strict => EncryptionSetting::Strict,
    };
    options.trust_server_certificate = settings.trust == Trust::Any || settings.encrypt == Encrypt::Login;
    options.host_name_in_cert.clone_from(&settings.host_name_in_certificate);
    if let Trust::Certificate(path) = &settings.trust {
        options.server_certificate = Some(path.clone());
    }
    // An IPv6 address has colons of its own; with a port behind a comma it can only be TCP.
    let protocol = if target.host.contains(':') { "" } else { "tcp:" };
    (context, format!("{protocol}{},{}", target.host, target.port))
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Wire::Encrypted(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Wire::Encrypted(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Wire::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Wire::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
