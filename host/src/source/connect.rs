//! Both drivers' connections, made from the same settings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mssql_tds::connection::client_context::ClientContext;
use mssql_tds::connection::tds_client::TdsClient;
use mssql_tds::connection_provider::tds_connection_provider::TdsConnectionProvider;
use mssql_tds::core::EncryptionSetting;
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use super::ask::LONGEST_IDLE;
use super::error::SourceError;
use super::quote;
use crate::config::SourceSettings;

/// The largest packet that both sides take: fewer packets, less CPU.
const PACKET_BYTES: u16 = 32_000;

pub(super) type TiberiusClient = Client<Compat<TcpStream>>;

/// Logs in with tiberius.
pub(super) async fn tiberius(settings: &SourceSettings) -> Result<TiberiusClient, SourceError> {
    let connecting = async {
        let tcp = TcpStream::connect((settings.host.as_str(), settings.port))
            .await
            .and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp))
            .map_err(|error| SourceError::Connect {
                server: server(settings),
                reason: error.to_string(),
            })?;
        Client::connect(tiberius_config(settings), tcp.compat_write())
            .await
            .map_err(|error| tiberius_login_error(settings, error))
    };
    within(settings, connecting).await
}

/// Logs in with mssql-tds.
pub(super) async fn mssql_tds(settings: &SourceSettings) -> Result<TdsClient, SourceError> {
    let (context, data_source) = tds_context(settings);
    let connecting = async {
        TdsConnectionProvider {}
            .create_client(context, &data_source, None)
            .await
            .map_err(|error| tds_login_error(settings, error))
    };
    within(settings, connecting).await
}

async fn within<T>(
    settings: &SourceSettings,
    connecting: impl Future<Output = Result<T, SourceError>>,
) -> Result<T, SourceError> {
    match tokio::time::timeout(settings.connect_timeout, connecting).await {
        Ok(result) => result,
        Err(_) => Err(SourceError::Connect {
            server: server(settings),
            reason: format!(
                "no answer within {} s (source.connect_timeout)",
                settings.connect_timeout.as_secs()
            ),
        }),
    }
}

fn server(settings: &SourceSettings) -> String {
    format!("{},{}", settings.host, settings.port)
}

fn tiberius_config(settings: &SourceSettings) -> Config {
    let mut config = Config::new();
    config.host(&settings.host);
    config.port(settings.port);
    config.database(&settings.database);
    config.application_name(&settings.application_name);
    config.authentication(AuthMethod::sql_server(&settings.user, settings.password.reveal()));
    // `Off` still encrypts the login, as `encrypt = false` does everywhere.
    config.encryption(if settings.encrypt {
        EncryptionLevel::Required
    } else {
        EncryptionLevel::Off
    });
    if settings.trust_server_certificate || !settings.encrypt {
        config.trust_cert();
    } else if let Some(certificate) = &settings.server_certificate {
        config.trust_cert_ca(certificate.display());
    }
    config
}

fn tds_context(settings: &SourceSettings) -> (ClientContext, String) {
    let mut context = ClientContext::default();
    context.user_name.clone_from(&settings.user);
    context.password = settings.password.reveal().to_owned();
    context.database.clone_from(&settings.database);
    context.application_name.clone_from(&settings.application_name);
    context.connect_timeout = u32::try_from(settings.connect_timeout.as_secs().max(1)).unwrap_or(u32::MAX);
    context.packet_size = PACKET_BYTES;
    // A broken stream is retried as a whole, from the batch's plan: the driver must not reconnect behind our back.
    context.connect_retry_count = 0;
    context.encryption_options.mode = if settings.encrypt {
        EncryptionSetting::Required
    } else {
        EncryptionSetting::PreferOff
    };
    context.encryption_options.trust_server_certificate = settings.trust_server_certificate || !settings.encrypt;
    context
        .encryption_options
        .server_certificate
        .clone_from(&settings.server_certificate);
    (context, format!("tcp:{},{}", settings.host, settings.port))
}

fn tiberius_login_error(settings: &SourceSettings, error: tiberius::error::Error) -> SourceError {
    use tiberius::error::Error;
    match error {
        Error::Server(token) => login_error(settings, token.code(), token.message()),
        Error::Tls(reason) => SourceError::Tls {
            server: server(settings),
            reason,
        },
        other => SourceError::Connect {
            server: server(settings),
            reason: other.to_string(),
        },
    }
}

fn tds_login_error(settings: &SourceSettings, error: mssql_tds::error::Error) -> SourceError {
    use mssql_tds::error::Error;
    match error {
        Error::SqlServerError { diagnostics } => match diagnostics.errors.first() {
            Some(first) => login_error(settings, first.number, &first.message),
            None => SourceError::Connect {
                server: server(settings),
                reason: "the server refused without a reason".to_owned(),
            },
        },
        Error::TlsError(_)
        | Error::TlsHandshakeError { .. }
        | Error::CertificateMismatch
        | Error::CertificateExpired => SourceError::Tls {
            server: server(settings),
            reason: error.to_string(),
        },
        other => SourceError::Connect {
            server: server(settings),
            reason: other.to_string(),
        },
    }
}

fn login_error(settings: &SourceSettings, number: u32, message: &str) -> SourceError {
    match number {
        18456 => SourceError::Login {
            server: server(settings),
            user: settings.user.clone(),
        },
        4060 | 911 | 916 => SourceError::Database {
            server: server(settings),
            database: settings.database.clone(),
            user: settings.user.clone(),
            quoted_user: quote::name(&settings.user),
        },
        _ => SourceError::Server {
            number,
            message: message.to_owned(),
            doing: "logging in".to_owned(),
        },
    }
}

/// The connections that stream rows: at most so many at a time, and kept for the next stream when one ended cleanly.
/// One that was cancelled, or failed, is closed and never used again.
#[derive(Clone)]
pub struct StreamPool {
    inner: Arc<PoolInner>,
}

struct PoolInner {
    settings: SourceSettings,
    permits: Arc<Semaphore>,
    idle: std::sync::Mutex<Vec<(TdsClient, Instant)>>,
}

/// A connection out of the pool.
pub(super) struct Pooled {
    client: Option<TdsClient>,
    pool: Arc<PoolInner>,
    _permit: OwnedSemaphorePermit,
}

impl StreamPool {
    /// A pool of at most `connections`.
    pub fn new(settings: SourceSettings, connections: usize) -> StreamPool {
        StreamPool {
            inner: Arc::new(PoolInner {
                settings,
                permits: Arc::new(Semaphore::new(connections)),
                idle: std::sync::Mutex::new(Vec::new()),
            }),
        }
    }

    /// Who logs in.
    pub(super) fn user(&self) -> &str {
        &self.inner.settings.user
    }

    /// How long a stream may be silent.
    pub(super) fn silence(&self) -> Duration {
        self.inner.settings.command_timeout
    }

    /// Logs in once and keeps the connection, so that a problem with this driver's login shows before anything starts.
    pub async fn warm_up(&self) -> Result<(), SourceError> {
        let pooled = self.get().await?;
        pooled.give_back();
        Ok(())
    }

    /// Waits for a place, then takes an idle connection or makes one.
    pub(super) async fn get(&self) -> Result<Pooled, SourceError> {
        let permit = Arc::clone(&self.inner.permits)
            .acquire_owned()
            .await
            .map_err(|_| SourceError::Broken {
                doing: "waiting for a connection".to_owned(),
                reason: "the pool is closed".to_owned(),
            })?;
        let idle = {
            let mut idle = self.inner.lock();
            idle.retain(|(_, since)| since.elapsed() < LONGEST_IDLE);
            idle.pop()
        };
        let client = match idle {
            Some((client, _)) if !client.is_connection_dead() => client,
            _ => mssql_tds(&self.inner.settings).await?,
        };
        Ok(Pooled {
            client: Some(client),
            pool: Arc::clone(&self.inner),
            _permit: permit,
        })
    }
}

impl PoolInner {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(TdsClient, Instant)>> {
        // A panic while a plain list was pushed or popped leaves a usable list.
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Pooled {
    pub(super) fn client(&mut self) -> Result<&mut TdsClient, SourceError> {
        self.client.as_mut().ok_or_else(|| SourceError::Broken {
            doing: "using a connection".to_owned(),
            reason: "it was given back".to_owned(),
        })
    }

    /// The stream ended cleanly: the connection may serve again. Dropped without this, it is closed.
    pub(super) fn give_back(mut self) {
        if let Some(client) = self.client.take()
            && !client.is_connection_dead()
            && !client.has_open_batch()
        {
            self.pool.lock().push((client, Instant::now()));
        }
    }
}
