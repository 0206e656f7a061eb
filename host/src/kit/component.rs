//! A component on the workbench: its bytes, and an engine that has it and no other.

use std::path::{self, Path};
use std::sync::Arc;

use tempfile::TempDir;

use super::built::component_in;
use super::error::KitError;
use super::fixture::Setup;
use super::inspect;
use crate::error::{Classify, ErrorKind};
use crate::transform::{
    CacheSettings, Chain, Engine, Fault, INVALID_CODE, KeyRing, Limits, Lookups, Registry, RowAt, TransformError,
    TransformSpec, WITHHELD_CODE, read_component,
};

/// A component of as many bytes has a language runtime inside, and is compiled for many seconds.
const LARGE: usize = 4 << 20;

/// A component's file, read once: everything that is said of it is said of these bytes.
#[derive(Clone)]
pub(crate) struct Component {
    /// The name by which a table would use it: its file's, without the version.
    pub(crate) name: String,
    /// For messages: the path, or that it is built in.
    pub(crate) shown: String,
    pub(crate) bytes: Arc<[u8]>,
    /// In lower-case hex.
    pub(crate) sha256: String,
    /// As its file is called, `NAME` or `NAME@VERSION`, where that is a plugin's name.
    stem: String,
}

impl Component {
    /// A file, a project's folder, or the name of a built-in component or of one in `plugins`.
    ///
    /// # Errors
    /// When there is none, several fit, or it cannot be read.
    pub(crate) fn find(what: &str, plugins: &Path) -> Result<Component, KitError> {
        let path = Path::new(what);
        if path.is_dir() && !is_word(what) {
            return Component::read(&component_in(path)?);
        }
        if path.is_file() || what.ends_with(".wasm") || path.components().count() != 1 {
            return Component::read(path);
        }
        let dir = plugins.is_dir().then(|| plugins.to_owned());
        let found = Registry::new(dir, crate::BUILT_IN_COMPONENTS)
            .find(what)
            .map_err(|error| KitError::Refused {
                message: format!("{error}; or give the path of a file"),
                kind: error.kind(),
            })?;
        let name = what.split_once('@').map_or(what, |(name, _)| name);
        let stem = match &found.version {
            Some(version) => format!("{name}@{version}"),
            None => name.to_owned(),
        };
        Ok(Component::of(name, &stem, found.file, found.bytes))
    }

    /// The file at a path.
    ///
    /// # Errors
    /// When it is not there, no regular file, or too large.
    pub(crate) fn read(path: &Path) -> Result<Component, KitError> {
        let bytes = read_component(path).map_err(|error| KitError::Refused {
            message: error.to_string(),
            kind: error.kind(),
        })?;
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        // What is no plugin's name can be tried all the same; a table could not name it.
        let plain = |text: &str| {
            let first = text.bytes().next();
            first.is_some_and(|byte| byte.is_ascii_alphanumeric())
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
        };
        let (name, version) = match stem.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (stem, None),
        };
        let usable = plain(name) && version.is_none_or(plain);
        let (name, stem) = if usable {
            (name, stem)
        } else {
            ("component", "component")
        };
        Ok(Component::of(name, stem, path.display().to_string(), bytes))
    }

    fn of(name: &str, stem: &str, shown: String, bytes: Arc<[u8]>) -> Component {
        Component {
            name: name.to_owned(),
            stem: stem.to_owned(),
            shown,
            sha256: crate::sha256::hex(&bytes),
            bytes,
        }
    }
}

/// Whether it is a name, and no path: `mask`, and not `./mask` or `..`.
fn is_word(what: &str) -> bool {
    let mut parts = Path::new(what).components();
    let first = matches!(parts.next(), Some(path::Component::Normal(_)));
    first && parts.next().is_none() && !what.ends_with(path::MAIN_SEPARATOR)
}

/// With the user's cache: a language runtime takes minutes to compile.
fn engine(dir: &Path, lookups: Lookups) -> Result<Arc<Engine>, TransformError> {
    Engine::with(Some(dir.to_owned()), &[], lookups, CacheSettings::User)
}

/// An engine with one component, in the sandbox that tables use.
pub(crate) struct Workbench {
    pub(crate) component: Component,
    /// It has a language runtime inside, which needs more than a plain component.
    wasi: bool,
    engine: Arc<Engine>,
    dir: TempDir,
}

impl Workbench {
    /// Puts a component on the bench. Nothing of it is compiled yet.
    ///
    /// # Errors
    /// When the engine cannot start, or there is no room for a temporary file.
    pub(crate) fn new(component: Component) -> Result<Workbench, KitError> {
        // A copy in a folder of its own: no other file is found by the name, none is hidden, and it cannot change between
        // two looks.
        let system = |error: std::io::Error| KitError::System {
            what: "write",
            file: std::env::temp_dir(),
            reason: error.to_string(),
        };
        let dir = tempfile::tempdir().map_err(system)?;
        let file = dir.path().join(format!("{}.wasm", component.stem));
        std::fs::write(&file, &component.bytes).map_err(system)?;
        let engine = engine(dir.path(), Lookups::default()).map_err(|error| KitError::Refused {
            message: error.to_string(),
            kind: error.kind(),
        })?;
        Ok(Workbench {
            wasi: inspect::imports_wasi(&component.bytes),
            component,
            engine,
            dir,
        })
    }

    /// Whether to open it takes many seconds, because it is large and has to be compiled.
    pub(crate) fn opens_slowly(&self) -> bool {
        self.component.bytes.len() >= LARGE && !self.engine.keeps(&self.component.sha256)
    }

    /// Opens the component for a table.
    ///
    /// # Errors
    /// What keeps it from that: the component is refused, or refuses the configuration.
    pub(crate) fn open(&self, setup: &Setup) -> Result<Chain, TransformError> {
        let mut keys = KeyRing::new();
        for (name, secret) in &setup.keys {
            // The lengths were checked when the fixture was read, and a table has no key twice.
            let _ = keys.insert(name, "test", secret.as_bytes().to_vec());
        }
        let mut spec = TransformSpec {
            config: setup.config.clone(),
            keys: setup.keys.iter().map(|(name, _)| name.clone()).collect(),
            lookups: setup.lookups.iter().map(|(name, _)| name.clone()).collect(),
            wasi: self.wasi,
            ..TransformSpec::new(&self.component.stem)
        };
        if self.wasi {
            let limits = Limits::with_wasi();
            spec.memory_bytes = limits.memory_bytes;
            spec.deadline = limits.deadline;
        }
        // Reference tables belong to an engine, and each fixture has its own.
        let engine = match setup.lookups.is_empty() {
            true => Arc::clone(&self.engine),
            false => engine(self.dir.path(), Lookups::new(setup.lookups.iter().cloned()))?,
        };
        Chain::open(&engine, &setup.shape, &[spec], &keys, &setup.protect)
    }

    /// What an error says, with the component's own file in place of the bench's copy, and rows counted from 1, as fixtures
    /// count them.
    pub(crate) fn say(&self, error: &TransformError) -> String {
        let mut said = self.say_plugin(&crate::error::chain(error));
        if let Some(at) = row_of(error) {
            said = said.replace(&at.to_string(), &format!("row {}", at.row + 1));
        }
        if let Some(about) = code_of(error).and_then(about_code) {
            said = format!("{said} ({about})");
        }
        said
    }

    /// The same as an error of the kit.
    pub(crate) fn refused(&self, error: &TransformError) -> KitError {
        KitError::Refused {
            message: self.say(error),
            kind: error.kind(),
        }
    }

    /// The version that the component has, and why it is refused before it is opened.
    ///
    /// # Errors
    /// The reason, and whose business it is.
    pub(crate) fn accept(&self) -> Result<Accepted, (String, ErrorKind)> {
        let plugin = self
            .engine
            .plugin(&self.component.stem, None)
            .map_err(|error| (self.say_plugin(&error.to_string()), error.kind()))?;
        Ok(Accepted {
            version: plugin.version.clone(),
            wit: plugin.compiled.wit.to_owned(),
        })
    }

    fn say_plugin(&self, message: &str) -> String {
        let copy = self.dir.path().join(format!("{}.wasm", self.component.stem));
        message.replace(&copy.display().to_string(), &self.component.shown)
    }
}

/// The row that an error blames.
fn row_of(error: &TransformError) -> Option<&RowAt> {
    match error {
        TransformError::Refused {
            fault: Fault::Failed { at: Some(at), .. } | Fault::Rejected { at, .. },
            ..
        }
        | TransformError::Leak { at, .. } => Some(at),
        _ => None,
    }
}

/// The component's code in an error.
fn code_of(error: &TransformError) -> Option<&str> {
    match error {
        TransformError::Refused {
            fault: Fault::Failed { code, .. } | Fault::Rejected { code, .. },
            ..
        } => Some(code),
        _ => None,
    }
}

/// What to know of a code that stands in place of the component's own.
pub(crate) fn about_code(code: &str) -> Option<&'static str> {
    match code {
        INVALID_CODE => Some("a code has 1 to 64 lower-case letters, digits and hyphens; the component gave another"),
        WITHHELD_CODE => Some("the component's code is a value of the rows, or has one in it"),
        _ => None,
    }
}

/// What the sandbox says of a component that it takes.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) version: String,
    /// The version of the contract.
    pub(crate) wit: String,
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;
    use crate::kit::fixture::Fixture;
    use crate::kit::rows::run;

    const FIXTURE: &str = r#"
lookups = { countries = "countries.csv" }
rows = "id,country\n1,HU\n2,XX\n"
[table]
columns = [{ name = "id", type = "int", key = 1 }, { name = "country", type = "nvarchar(40)" }]
[config]
column = "country"
ask = { lookup = { table = "countries", column = "name" } }
"#;

    #[test]
    fn a_fixture_grants_the_reference_tables_beside_it_and_no_other() {
        let bench = Workbench::new(Component::read(&sluice_test_guests::component("asker")).unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("people.toml");
        std::fs::write(&file, FIXTURE).unwrap();
        let fixture = Fixture::read(&file).unwrap();
        let error = bench.open(&fixture.setup).map(drop).unwrap_err();
        assert!(bench.say(&error).contains("countries.csv"), "{error}");

        let found = |name: &str| {
            std::fs::write(dir.path().join(name), format!("code,name\nHU,{name}\n")).unwrap();
            std::fs::write(&file, FIXTURE.replace("countries.csv", name)).unwrap();
            let fixture = Fixture::read(&file).unwrap();
            let ran = run(&bench.open(&fixture.setup).unwrap(), &fixture.rows.unwrap()).unwrap();
            let names = ran.columns()[1].as_string::<i32>();
            names.iter().map(|name| name.map(str::to_owned)).collect::<Vec<_>>()
        };
        // One bench, two fixtures whose tables have one name.
        assert_eq!(found("countries.csv"), [Some("countries.csv".to_owned()), None]);
        assert_eq!(found("other.csv"), [Some("other.csv".to_owned()), None]);

        std::fs::write(&file, FIXTURE.replace("lookups =", "# lookups =")).unwrap();
        let fixture = Fixture::read(&file).unwrap();
        let refused = bench
            .open(&fixture.setup)
            .and_then(|chain| run(&chain, &fixture.rows.unwrap()));
        let message = bench.say(&refused.unwrap_err());
        assert!(message.contains("not-granted"), "{message}");
    }
}
