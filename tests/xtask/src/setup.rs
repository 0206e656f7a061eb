//! What a fresh machine lacks: Debian packages, a way to compile for WebAssembly, Python peers.

use anyhow::{Context, Result, bail};

use crate::shell::{self, root, say, succeeds};

/// What the machine is set up for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// Building and running the binaries.
    Demo,
    /// The tests, which need other programs as peers as well.
    Tests,
}

/// A package, and a command that succeeds once it is there.
struct Package {
    name: &'static str,
    probe: (&'static str, &'static [&'static str]),
    only_tests: bool,
}

const PACKAGES: [Package; 9] = [
    Package {
        name: "gcc",
        probe: ("cc", &["--version"]),
        only_tests: false,
    },
    // jemalloc is built with it.
    Package {
        name: "make",
        probe: ("make", &["--version"]),
        only_tests: false,
    },
    Package {
        name: "pkg-config",
        probe: ("pkg-config", &["--version"]),
        only_tests: false,
    },
    Package {
        name: "libssl-dev",
        probe: ("pkg-config", &["--exists", "openssl"]),
        only_tests: false,
    },
    Package {
        // The demo suggests it, the tests use it.
        name: "freetds-bin",
        probe: ("tsql", &["-C"]),
        only_tests: false,
    },
    Package {
        name: "python3-venv",
        probe: ("python3", &["-c", "import venv, ensurepip"]),
        only_tests: true,
    },
    // Plugins in JavaScript are built and tested with it.
    Package {
        name: "nodejs",
        probe: ("node", &["--version"]),
        only_tests: true,
    },
    // The status page is looked at with it.
    Package {
        name: "chromium",
        probe: ("chromium", &["--version"]),
        only_tests: true,
    },
    Package {
        name: "npm",
        probe: ("npm", &["--version"]),
        only_tests: true,
    },
];

/// Python packages that the tests use as independent peers, pinned.
const PYTHON_PEERS: [&str; 6] = [
    "deltalake==1.6.6",
    "pyarrow==26.0.1",
    "python-tds==1.17.1",
    "pyOpenSSL==26.4.0",
    // It brings Microsoft's ODBC driver 18.
    "mssql-python==1.16.0",
    // An S3 that keeps its promises (docs/decisions/0018).
    "ministack==1.5.33",
];

/// Azure Blob Storage for the tests (docs/decisions/0018), from npm.
const AZURITE: &str = "azurite@3.37.0";

/// Installs what is missing.
pub(crate) fn run(purpose: For) -> Result<()> {
    packages(purpose)?;
    sluice_component_build::ensure_toolchain(&mut |line| say(line), &mut |packages| {
        install(packages).map_err(|error| format!("{error:#}"))
    })
    .context("cannot set up a compiler for WebAssembly")?;
    if purpose == For::Tests {
        python()?;
        azurite()?;
    }
    Ok(())
}

/// `cargo deny`, when it is not there.
pub(crate) fn deny() -> Result<()> {
    if !succeeds("cargo", &["deny", "--version"]) {
        // It reads a few files: a quick build serves as well as a fast program.
        say("installing cargo-deny (a few minutes) …");
        shell::run("cargo", &["install", "cargo-deny@0.20.2", "--locked", "--debug"])?;
    }
    Ok(())
}

fn packages(purpose: For) -> Result<()> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|package| purpose == For::Tests || !package.only_tests)
        .filter(|package| !succeeds(package.probe.0, package.probe.1))
        .map(|package| package.name)
        .collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs Debian packages, as root; their lists are fetched first, because a fresh machine has none.
fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !succeeds("apt-get", &["--version"]) {
        bail!("please install these packages, or what your system calls them, and try again: {list}");
    }
    let sudo: &[&str] = if succeeds("test", &["-w", "/var/lib/dpkg"]) {
        &[]
    } else {
        &["sudo"]
    };
    say(&format!("installing Debian packages: {list} …"));
    apt(sudo, &["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    apt(sudo, &arguments)
}

fn apt(sudo: &[&str], arguments: &[&str]) -> Result<()> {
    let mut command: Vec<&str> = sudo.to_vec();
    command.push("apt-get");
    command.extend(arguments);
    shell::run(command[0], &command[1..])
}

fn azurite() -> Result<()> {
    let folder = root().join("target/azurite");
    let stamp = folder.join("sluice-azurite.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|text| text == AZURITE) {
        return Ok(());
    }
    say(&format!("installing {AZURITE} into {} …", folder.display()));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let prefix = folder.to_string_lossy().into_owned();
    shell::run(
        "npm",
        &[
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
            &prefix,
            AZURITE,
        ],
    )?;
    std::fs::write(&stamp, AZURITE).with_context(|| format!("cannot write {}", stamp.display()))
}

fn python() -> Result<()> {
    let venv = root().join("target/pyenv");
    let python = venv.join("bin/python");
    let python_text = python.to_string_lossy().into_owned();
    let wanted = PYTHON_PEERS.join("\n");
    let stamp = venv.join("sluice-peers.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|text| text == wanted)
        && succeeds(
            &python_text,
            &["-c", "import deltalake, pytds, OpenSSL, mssql_python, ministack"],
        )
    {
        return Ok(());
    }
    say(&format!("installing Python peers into {} …", venv.display()));
    shell::run("python3", &["-m", "venv", &venv.to_string_lossy()])?;
    let mut install = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    install.extend(PYTHON_PEERS);
    shell::run(&python_text, &install)?;
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}
