//! The listener, and what all connections share.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mssql_sim_engine::result::SqlError;
use mssql_sim_engine::{Engine, EngineOptions, ServerVersion};

use crate::browser::Browser;
use crate::connection::Connection;
use crate::faults::Faults;
use crate::logins::Logins;
use crate::requests::Requests;
use crate::script;
use crate::wire::tls::{CertificateOptions, ServerTls};

/// How long a stop waits for connections to end.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// Stack of a connection's thread: deep expressions are bound recursively.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// Whether connections are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// The server has no certificate: clients that want encryption are turned away.
    Off,
    /// The client decides, as with SQL Server's defaults: everything, or only the login.
    On,
    /// Everything is encrypted, whatever the client says (`ForceEncryption`).
    Required,
}

/// How to start a [`SimServer`].
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// `host:port`; port 0 takes a free one.
    pub listen: String,
    /// Where the data is, and who the administrator is.
    pub engine: EngineOptions,
    /// Whether connections are encrypted.
    pub encryption: Encryption,
    /// What its certificate is like.
    pub certificate: CertificateOptions,
    /// The name of a named instance. A Browser then answers on UDP 1434 of the address where it listens.
    pub instance: Option<String>,
    /// Where each request is appended, as a line of JSON without the values of its parameters.
    pub requests: Option<PathBuf>,
    /// Whether the prelogin says that federated authentication is required. Azure SQL Database always says so.
    pub fed_auth_required: bool,
}

/// A running stand-in. Dropping it stops it.
pub struct SimServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
    /// Answers until it is dropped.
    _browser: Option<Browser>,
    /// Held for as long as the data is in use.
    _lock: Option<File>,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) encryption: Encryption,
    pub(crate) server_name: String,
    /// Major, minor, build.
    pub(crate) version: (u8, u8, u16),
    pub(crate) admin_user: String,
    admin_password: String,
    pub(crate) faults: Faults,
    pub(crate) logins: Logins,
    pub(crate) requests: Option<Requests>,
    pub(crate) fed_auth_required: bool,
    stopping: AtomicBool,
    next_id: AtomicU64,
    connections: Mutex<HashMap<u64, TcpStream>>,
}

impl std::fmt::Debug for SimServer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SimServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl SimServer {
    /// Opens the data, binds the address and starts to accept. Errors name the address or the folder.
    pub fn start(options: ServerOptions) -> io::Result<SimServer> {
        let lock = options.engine.data_dir.as_deref().map(lock_data).transpose()?;
        let listener = bind(&options.listen)?;
        let address = listener.local_addr()?;
        let browser = match &options.instance {
            Some(instance) => Some(Browser::start(address, &options.engine.server_name, instance)?),
            None => None,
        };
        let tls = match options.encryption {
            Encryption::Off => None,
            Encryption::On | Encryption::Required => {
                Some(ServerTls::generate(&options.engine.server_name, &options.certificate)?)
            }
        };
        let shared = Shared {
            tls,
            encryption: options.encryption,
            server_name: options.engine.server_name.clone(),
            version: build_of(options.engine.version),
            fed_auth_required: options.fed_auth_required || options.engine.version.is_azure(),
            admin_user: options.engine.admin_user.clone(),
            admin_password: options.engine.admin_password.clone(),
            engine: Engine::open(options.engine).map_err(io::Error::other)?,
            faults: Faults::default(),
            logins: Logins::default(),
            requests: options.requests.as_deref().map(Requests::open).transpose()?,
            stopping: AtomicBool::new(false),
            // SQL Server keeps the numbers up to 50 for itself.
            next_id: AtomicU64::new(51),
            connections: Mutex::default(),
        };
        let shared = Arc::new(shared);
        let for_accepting = Arc::clone(&shared);
        let accepting = std::thread::Builder::new()
            .name("mssql-sim accept".to_owned())
            .spawn(move || accept(&listener, &for_accepting))?;
        Ok(SimServer {
            address,
            shared,
            accepting: Some(accepting),
            _browser: browser,
            _lock: lock,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The engine behind it.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    /// The faults that clients run into.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Its certificate, for a client's CA file; `None` without encryption.
    pub fn certificate_pem(&self) -> Option<&str> {
        self.shared.tls.as_ref().map(|tls| tls.certificate_pem.as_str())
    }

    /// The certificate of the authority that signed its own; `None` without one.
    pub fn authority_pem(&self) -> Option<&str> {
        self.shared.tls.as_ref().and_then(|tls| tls.authority_pem.as_deref())
    }

    /// Runs a script as the administrator: batches with `GO` lines between them. Stops at the first error.
    pub fn run_script(&self, script: &str) -> Result<(), SqlError> {
        self.shared.run_as_admin(None, script)
    }

    /// Closes all connections and waits for what they run to end, for up to five seconds.
    pub fn stop(mut self) {
        self.shut_down();
    }

    fn shut_down(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // A connection of its own wakes the accepting thread; when it fails, the listener is gone already.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(accepting) = self.accepting.take()
            && woken
        {
            let _ = accepting.join();
        }
        for stream in self.shared.lock_connections().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let until = Instant::now() + STOP_WAIT;
        while !self.shared.lock_connections().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for SimServer {
    fn drop(&mut self) {
        if self.accepting.is_some() {
            self.shut_down();
        }
    }
}

impl Shared {
    /// Runs a script in a session of its own, outside of every client's transaction.
    pub(crate) fn run_as_admin(&self, database: Option<&str>, sql: &str) -> Result<(), SqlError> {
        let mut session = self.engine.login(&self.admin_user, &self.admin_password, database)?;
        script::run(&mut session, sql)
    }

    fn lock_connections(&self) -> std::sync::MutexGuard<'_, HashMap<u64, TcpStream>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        // A client that was gone before it was accepted is no reason to stop.
        let Ok(stream) = stream else {
            continue;
        };
        let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
        if let Ok(handle) = stream.try_clone() {
            shared.lock_connections().insert(id, handle);
        }
        let for_thread = Arc::clone(shared);
        let spawned = std::thread::Builder::new()
            .name(format!("mssql-sim {id}"))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _registered = Registered {
                    shared: Arc::clone(&for_thread),
                    id,
                };
                serve(stream, for_thread, id);
            });
        if spawned.is_err() {
            shared.lock_connections().remove(&id);
        }
    }
}

/// Takes a connection off the list when its thread ends, however it ends.
struct Registered {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.lock_connections().remove(&self.id);
    }
}

fn serve(stream: TcpStream, shared: Arc<Shared>, id: u64) {
    let result = Connection::new(stream, shared, id).and_then(Connection::serve);
    if let Err(error) = result
        && error.kind() == io::ErrorKind::InvalidData
    {
        // Somebody speaks something else, or the engine sent a value that its column cannot have.
        eprintln!("mssql-sim: connection {id}: {error}");
    }
}

fn bind(listen: &str) -> io::Result<TcpListener> {
    let named = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => "; --listen ADDRESS:PORT takes another, port 0 any free one",
            _ => "",
        };
        io::Error::new(error.kind(), format!("cannot listen on {listen}: {error}{hint}"))
    };
    let addresses: Vec<SocketAddr> = listen.to_socket_addrs().map_err(named)?.collect();
    TcpListener::bind(addresses.as_slice()).map_err(named)
}

fn lock_data(folder: &Path) -> io::Result<File> {
    let shown = folder.display();
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot use the data folder {shown}: {error}"));
    std::fs::create_dir_all(folder).map_err(named)?;
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("mssql-sim.lock"))
        .map_err(named)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("the data folder {shown} is in use by another mssql-sim; stop that one or name another folder"),
        )),
        Err(TryLockError::Error(error)) => Err(named(error)),
    }
}

/// The build that a version reports, as the wire has it: major, minor, build.
fn build_of(version: ServerVersion) -> (u8, u8, u16) {
    let mut parts = version.product_version().split('.');
    let mut next = || parts.next().and_then(|part| part.parse::<u16>().ok()).unwrap_or(0);
    let (major, minor, build) = (next(), next(), next());
    (major as u8, minor as u8, build)
}
