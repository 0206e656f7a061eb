//! Object stores of the tests, each a process on this machine: which ones may be trusted is in `docs/decisions/0018`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::project::{Project, kill, wait_for};
use super::python::python_environment;
use super::scratch;
use super::server::Server;

/// The bucket that projects write to.
pub const BUCKET: &str = "lake";

/// A store's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    S3,
    Azure,
    Gcs,
    /// One that speaks the protocol of GCS and ignores conditions.
    Careless,
}

/// A store with an empty bucket. It ends when this is dropped, with all that is in it.
pub struct Store {
    kind: Kind,
    process: Child,
    port: u16,
    _dir: TempDir,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a parent")
        .to_path_buf()
}

fn script(name: &str) -> PathBuf {
    root().join("tests/stores").join(name)
}

impl Store {
    pub fn start(kind: Kind) -> Store {
        let dir = scratch();
        // Nobody else on this machine asks for ports in such a hurry that it would get this one.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let mut command = match kind {
            Kind::S3 => {
                let mut command = Command::new(python_environment().join("bin/ministack"));
                command
                    .env("GATEWAY_PORT", port.to_string())
                    .env("BIND_HOST", "127.0.0.1")
                    .env("SERVICES", "s3")
                    .env("LOG_LEVEL", "ERROR")
                    .env("TMPDIR", dir.path());
                command
            }
            Kind::Azure => {
                let mut command = Command::new("node");
                command
                    .arg(root().join("target/azurite/node_modules/azurite/dist/src/blob/main.js"))
                    .args([
                        "--inMemoryPersistence",
                        "--silent",
                        "--skipApiVersionCheck",
                        "--disableTelemetry",
                    ])
                    .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
                command
            }
            Kind::Gcs | Kind::Careless => {
                let mut command = Command::new(python_environment().join("bin/python"));
                command.arg(script("gcs.py")).args(["--port", &port.to_string()]);
                if kind == Kind::Careless {
                    command.arg("--careless");
                }
                command
            }
        };
        let process = command
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the store starts: `cargo xtask setup` installs it");
        let store = Store {
            kind,
            process,
            port,
            _dir: dir,
        };
        assert!(
            wait_for(|| TcpStream::connect(("127.0.0.1", port)).is_ok()),
            "{kind:?} does not listen"
        );
        assert!(wait_for(|| store.script(&["make"])), "{kind:?} makes no bucket");
        store
    }

    fn script(&self, arguments: &[&str]) -> bool {
        let kind = match self.kind {
            Kind::S3 => "s3",
            Kind::Azure => "azure",
            Kind::Gcs | Kind::Careless => "gcs-xml",
        };
        Command::new(python_environment().join("bin/python"))
            .arg(script("mirror.py"))
            .args(["--kind", kind, "--port", &self.port.to_string(), "--bucket", BUCKET])
            .args(arguments)
            .stderr(Stdio::null())
            .status()
            .expect("Python runs")
            .success()
    }

    /// `[storage]` for it, at `port`: its own, or that of something before it.
    pub fn section(&self, port: u16) -> String {
        match self.kind {
            Kind::S3 => format!(
                "[storage.s3]\nendpoint = \"http://127.0.0.1:{port}\"\nregion = \"us-east-1\"\nallow_http = true\n\
                 access_key_id = \"test\"\nsecret_access_key = {{ command = [\"printf\", \"test\"] }}\n"
            ),
            Kind::Azure => format!(
                "[storage.azure]\nendpoint = \"http://127.0.0.1:{port}/devstoreaccount1\"\nallow_http = true\n\
                 account_name = \"devstoreaccount1\"\naccount_key = {{ command = [\"printf\", \
                 \"Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==\"] }}\n"
            ),
            Kind::Gcs | Kind::Careless => {
                // As emulators are reached: no token is asked for.
                let account = format!(
                    r#"{{"gcs_base_url": "http://127.0.0.1:{port}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#
                );
                format!(
                    "[storage.gcs]\nallow_http = true\nservice_account_key = {{ command = [\"printf\", '%s', '{account}'] }}\n"
                )
            }
        }
    }

    /// How places in its bucket begin.
    pub fn url(&self) -> String {
        let scheme = match self.kind {
            Kind::S3 => "s3",
            Kind::Azure => "az",
            Kind::Gcs | Kind::Careless => "gs",
        };
        format!("{scheme}://{BUCKET}")
    }

    /// A project whose tables, checkpoints and leases are in the bucket, in the folders that [`Project::new`] has on disk.
    pub fn project(&self, server: &Server, database: &str) -> Project {
        self.project_at(server, database, &self.section(self.port))
    }

    /// The same with another `[storage]`.
    pub fn project_at(&self, server: &Server, database: &str, storage: &str) -> Project {
        let mut project = Project::new(server, database);
        project.edit("\"lake/", &format!("\"{}/", self.url()));
        let ownership = format!(
            "{storage}\n[ownership]\nmode = \"lease\"\nlease = \"2s\"\nhosts = \"{}/hosts\"\n\n[plugins]",
            self.url()
        );
        project.edit("[plugins]", &ownership);
        project
    }

    /// What is in the bucket, as files.
    pub fn mirror(&self) -> Mirror {
        let dir = scratch();
        assert!(
            self.script(&["copy", dir.path().to_str().expect("UTF-8")]),
            "the bucket is copied"
        );
        Mirror { dir }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        kill(&mut self.process);
    }
}

/// A copy of a bucket.
pub struct Mirror {
    dir: TempDir,
}

impl Mirror {
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn bronze(&self, capture_instance: &str) -> PathBuf {
        self.dir.path().join("bronze").join(capture_instance)
    }
}

/// `tests/stores/gate.py` before a store.
pub struct Gate {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
    pub port: u16,
}

impl Gate {
    pub fn before(store: &Store, arguments: &[&str]) -> Gate {
        let mut process = Command::new(python_environment().join("bin/python"))
            .arg(script("gate.py"))
            .args(["--to", &store.port.to_string()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Python runs");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let port = line.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Gate {
            process,
            output,
            port: port.unwrap_or_else(|| panic!("a port in {line:?}")),
        }
    }

    /// Ends it. What it printed.
    pub fn end(mut self) -> Vec<String> {
        drop(self.process.stdin.take());
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("UTF-8");
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        kill(&mut self.process);
    }
}
