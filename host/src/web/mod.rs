//! `sluice run --http`: a page that shows how the tables do, the same as JSON and as Prometheus metrics, and whether the process
//! is alive and ready. It changes nothing, and shows no value of a row and no secret.
//!
//! On a loopback address the page is open to whoever is on this machine, and only under a loopback name, so that no other site
//! that a browser shows can reach it through a name of its own. Anywhere else a token is required.

mod access;
mod api;
mod metrics;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::config::{Secret, SourceSettings};
use crate::error::{Classify, ErrorKind};
use crate::scheduler::Scheduler;

use access::Access;

const INDEX: &str = include_str!("assets/index.html");
const STYLE: &str = include_str!("assets/page.css");
const SCRIPT: &str = include_str!("assets/page.js");

/// What a browser may do with the page: nothing from elsewhere, and nothing that is not a file of its own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Nobody can listen there.
    #[error("cannot listen on {address} for the status page: {source}; choose another with --http")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Others could read it.
    #[error(
        "the status page on {0} can be reached from other machines and needs a token: set SLUICE_HTTP_TOKEN (for example to the \
         output of `openssl rand -hex 32`), or token under [web]; or listen on 127.0.0.1"
    )]
    NeedsToken(SocketAddr),
    /// The token can be guessed.
    #[error("the token of the status page is shorter than 16 characters; use the output of `openssl rand -hex 32`")]
    ShortToken,
}

impl Classify for WebError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Config
    }
}

/// A place where the page is going to be.
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
}

/// What is shown.
pub struct Shown {
    /// How the tables do.
    pub board: Board,
    /// What they share.
    pub scheduler: Scheduler,
    /// `limits.memory`, in bytes.
    pub memory: u64,
    /// The source that they are read from.
    pub server: String,
    /// Its database.
    pub database: String,
    /// What this process calls itself.
    pub host: String,
}

impl Shown {
    /// Of a running process.
    pub fn new(board: Board, scheduler: &Scheduler, memory: u64, source: &SourceSettings, host: &str) -> Shown {
        Shown {
            board,
            scheduler: scheduler.clone(),
            memory,
            server: source.server.to_string(),
            database: source.database.clone(),
            host: host.to_owned(),
        }
    }
}

/// What is shown, once there is something. Clones share it.
#[derive(Clone, Default)]
pub struct Slot(Arc<OnceLock<Shown>>);

impl Slot {
    /// From now on, this is shown.
    pub fn fill(&self, shown: Shown) {
        let _ = self.0.set(shown);
    }

    fn get(&self) -> Result<&Shown, Starting> {
        self.0.get().ok_or(Starting)
    }
}

/// The tables are not known yet.
struct Starting;

impl IntoResponse for Starting {
    fn into_response(self) -> Response {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "starting: the source is asked which tables there are\n",
        )
            .into_response()
    }
}

impl Listening {
    /// An address that other machines reach needs a token, and a token has to be a long one.
    pub fn expect_access(address: SocketAddr, token: Option<&Secret>) -> Result<(), WebError> {
        match token {
            Some(token) if token.reveal().len() < 16 => Err(WebError::ShortToken),
            None if !address.ip().is_loopback() => Err(WebError::NeedsToken(address)),
            _ => Ok(()),
        }
    }

    /// Takes the address. Port 0 takes a free one.
    pub async fn on(address: SocketAddr, token: Option<&Secret>) -> Result<Listening, WebError> {
        Listening::expect_access(address, token)?;
        let access = token.map_or_else(Access::loopback, Access::token);
        let listen = |source| WebError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Listening {
            listener,
            address,
            access,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop`: that it is not ready, as long as the slot is empty.
    pub async fn serve(self, shown: Slot, stop: CancellationToken) {
        let routes = router(shown, self.access);
        let served = axum::serve(self.listener, routes).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = served.await {
            tracing::warn!(%error, "the status page is not served any more");
        }
    }
}

fn router(shown: Slot, access: Access) -> Router {
    let access = Arc::new(access);
    let guarded = Router::new()
        .route("/", get(|| async { Html(INDEX) }))
        .route(
            "/page.js",
            get(|| async { text("text/javascript; charset=utf-8", SCRIPT) }),
        )
        .route("/api/status", get(api::status))
        .route("/api/history", get(api::history))
        .route("/metrics", get(metrics::metrics))
        .layer(from_fn_with_state(Arc::clone(&access), access::guard))
        .with_state(shown.clone());
    let sign_in = Router::new()
        .route("/login", get(access::login).post(access::sign_in))
        .route("/logout", post(access::sign_out))
        .with_state(access);
    Router::new()
        .merge(guarded)
        .merge(sign_in)
        .route("/page.css", get(|| async { text("text/css; charset=utf-8", STYLE) }))
        .route("/healthz", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .with_state(shown)
        .layer(axum::middleware::map_response(with_headers))
}

/// Whether every table was opened, or failed, and the source has answered: from then on the page says how each does.
async fn ready(State(shown): State<Slot>) -> Result<Response, Starting> {
    let shown = shown.get()?;
    let tables = shown.board.tables();
    let starting = shown.board.unsettled();
    let answered = shown.board.source().polled_at.is_some();
    Ok(match (starting, answered) {
        (0, true) => "ready\n".into_response(),
        (0, false) => (StatusCode::SERVICE_UNAVAILABLE, "the source has not answered yet\n").into_response(),
        (starting, _) => {
            let text = format!("{starting} of {} tables are not open yet\n", tables.len());
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    })
}

fn text(kind: &'static str, body: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

async fn with_headers(mut response: Response) -> Response {
    const HEADERS: [(HeaderName, &str); 5] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .insert(name, axum::http::HeaderValue::from_static(value));
    }
    response
}
