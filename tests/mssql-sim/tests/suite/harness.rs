//! A server for a test, and the programs that talk to it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use mssql_sim::engine::EngineOptions;
use mssql_sim::{CertificateOptions, Encryption, ServerOptions, SimServer};
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

pub const USER: &str = "sa";
/// With characters that go wrong when the login's obfuscation is not undone exactly.
pub const PASSWORD: &str = "Pa55 wörd!€";
/// A client that takes longer hangs.
const CLIENT_DEADLINE: Duration = Duration::from_secs(120);

/// A server with its certificate in a file.
pub struct Sim {
    pub server: SimServer,
    folder: tempfile::TempDir,
}

impl Sim {
    pub fn start() -> Sim {
        Sim::with(Encryption::On)
    }

    pub fn with(encryption: Encryption) -> Sim {
        let server = SimServer::start(ServerOptions {
            listen: "127.0.0.1:0".into(),
            engine: EngineOptions {
                admin_user: USER.into(),
                admin_password: PASSWORD.into(),
                ..EngineOptions::default()
            },
            encryption,
            certificate: CertificateOptions::default(),
            instance: None,
            requests: None,
            fed_auth_required: false,
        })
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        if let Some(certificate) = server.certificate_pem() {
            std::fs::write(folder.path().join("cert.pem"), certificate).unwrap();
        }
        Sim { server, folder }
    }

    /// One that has a database `probe`.
    pub fn with_probe() -> Sim {
        let sim = Sim::start();
        sim.script("CREATE DATABASE probe");
        sim
    }

    pub fn script(&self, sql: &str) {
        self.server.run_script(sql).unwrap();
    }

    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    pub fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1");
        config.port(self.port());
        config.database(database);
        config.authentication(AuthMethod::sql_server(USER, PASSWORD));
        config.encryption(EncryptionLevel::Required);
        config.trust_cert_ca(self.certificate().display());
        // A machine that compiles something else at the same time answers slowly.
        config.handshake_timeout(Some(CLIENT_DEADLINE));
        config
    }

    pub async fn tiberius(&self, database: &str) -> Client<Compat<TcpStream>> {
        connect(self.config(database)).await.unwrap()
    }
}

pub async fn connect(config: Config) -> tiberius::Result<Client<Compat<TcpStream>>> {
    let tcp = TcpStream::connect(config.get_addr()).await.unwrap();
    tcp.set_nodelay(true).unwrap();
    Client::connect(config, tcp.compat_write()).await
}

/// Runs a client program to its end, with `input` on its standard input.
pub fn run(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = std::thread::spawn(move || {
        // A client that ends early does not read it all.
        let _ = stdin.write_all(input.as_bytes());
    });
    let id = child.id().to_string();
    let (sender, ended) = std::sync::mpsc::channel::<()>();
    let watching = std::thread::spawn(move || {
        if ended.recv_timeout(CLIENT_DEADLINE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-9", &id]).status();
        }
    });
    let started = Instant::now();
    let output = child.wait_with_output().unwrap();
    drop(sender);
    watching.join().unwrap();
    writing.join().unwrap();
    assert!(
        started.elapsed() < CLIENT_DEADLINE,
        "{command:?} hung and was killed: {output:?}"
    );
    output
}

/// Runs a test of a Python peer: a script beside the tests, which says "passed" at its end. What it printed.
pub fn peer(sim: &Sim, script: &str, test: &str, input: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite").join(script);
    let mut command = Command::new(python());
    command
        .arg(script)
        .arg(test)
        .arg(sim.port().to_string())
        .arg(sim.certificate());
    command
        .env("SIM_USER", USER)
        .env("SIM_PASSWORD", PASSWORD)
        .env("PYTHONIOENCODING", "utf-8");
    let output = run(&mut command, input);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{test}:\n{out}\n{err}");
    assert!(out.contains("passed"), "{test} ended without saying so:\n{out}\n{err}");
    out.into_owned()
}

/// The interpreter of a virtual environment that has python-tds and mssql-python: `$SLUICE_PY_VENV`, or `target/pyenv`, which is made
/// when it is not there.
pub fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let venv = std::env::var_os("SLUICE_PY_VENV").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/pyenv"),
            PathBuf::from,
        );
        std::fs::create_dir_all(venv.parent().unwrap()).unwrap();
        // Tests are processes of their own under nextest.
        let lock = File::create(venv.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        let python = venv.join("bin/python");
        if !python.exists() {
            must(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        }
        let ready = Command::new(&python)
            .args(["-c", "import pytds, OpenSSL, mssql_python"])
            .output()
            .unwrap()
            .status
            .success();
        if !ready {
            let peers = ["python-tds==1.17.1", "pyOpenSSL", "mssql-python==1.16.0"];
            must(
                Command::new(&python)
                    .args(["-m", "pip", "install", "--quiet"])
                    .args(peers),
            );
        }
        python
    })
}

fn must(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
