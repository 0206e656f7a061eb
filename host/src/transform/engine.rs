//! The process's WebAssembly engine: its settings, its clock, and the components that it has compiled.

use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Config;

use super::cache::{Cache, CacheSettings};
use super::component::{Compiled, Home, PluginError, Source};
use super::error::TransformError;
use super::limits::STACK_BYTES;
use super::lookup::Lookups;
use super::pins::{Lock, Pin, Plugins};
use super::registry::{BuiltinComponent, Found, Registry};
use super::slots::{self, Slots};
use super::taken::{AllTaken, Taken};
use crate::sha256;

/// How often the engine's epoch moves, and so how late a deadline can be noticed.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The engine. One per process; cheap to share, and safe to use from any number of threads.
pub struct Engine {
    wasmtime: wasmtime::Engine,
    slots: Arc<Slots>,
    pub(super) registry: Registry,
    lookups: Lookups,
    /// The plugin files that are accepted; `None`: all are.
    lock: Option<Lock>,
    reload: bool,
    pub(super) taken: AllTaken,
    compiled: Mutex<HashMap<String, Slot>>,
    cache_settings: CacheSettings,
    /// Opened when something is compiled for the first time.
    cache: OnceLock<Option<Cache>>,
    ticker: Arc<Ticker>,
}

/// One lock a digest, so that two tables never compile the same bytes twice and never wait for other bytes.
type Slot = Arc<Mutex<Option<Arc<Compiled>>>>;

/// A component under the name that a table uses for it.
#[derive(Clone)]
pub(crate) struct Plugin {
    /// Without a version.
    pub(crate) name: String,
    /// What the component says, else what its file's name says, else `unversioned`.
    pub(crate) version: String,
    /// Whether it is part of the binary.
    pub(crate) builtin: bool,
    pub(crate) compiled: Arc<Compiled>,
}

impl Plugin {
    /// Whether it may make something else of a column's values. The built-in `map` converts them; it hides none.
    pub(crate) fn masks(&self) -> bool {
        !(self.builtin && self.name == "map")
    }
}

impl Engine {
    /// Starts the engine, without reference tables and without a cache of compiled code. The plugin directory is looked into
    /// only when a plugin is asked for.
    pub fn new(
        plugins: impl Into<Plugins>,
        builtins: &'static [BuiltinComponent],
    ) -> Result<Arc<Engine>, TransformError> {
        Engine::with(plugins, builtins, Lookups::default(), CacheSettings::Off)
    }

    /// Starts the engine with reference tables, each of which is read when a chain is opened that may use it, and a cache of
    /// compiled code, which is opened only when a component is compiled.
    pub fn with(
        plugins: impl Into<Plugins>,
        builtins: &'static [BuiltinComponent],
        lookups: Lookups,
        cache: CacheSettings,
    ) -> Result<Arc<Engine>, TransformError> {
        let wasmtime = engine().map_err(|e| TransformError::Engine(format!("{e:#}")))?;
        let ticker = Ticker::start(wasmtime.clone()).map_err(|e| TransformError::Engine(e.to_string()))?;
        let plugins = plugins.into();
        Ok(Arc::new(Engine {
            wasmtime,
            slots: Slots::new(),
            registry: Registry::new(plugins.dir, builtins),
            lookups,
            lock: plugins.lock,
            reload: plugins.reload,
            taken: AllTaken::default(),
            compiled: Mutex::default(),
            cache_settings: cache,
            cache: OnceLock::new(),
            ticker: Arc::new(ticker),
        }))
    }

    /// The reference tables that transforms may be granted.
    pub(crate) fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// Finds, checks and compiles a plugin. The second time it is the one that was taken the first time, whatever its file
    /// is by then; [`Engine::refresh`] looks again.
    pub(crate) fn plugin(&self, plugin: &str, pin: Option<&str>) -> Result<Plugin, PluginError> {
        let taken = match self.taken.get(plugin) {
            Some(taken) => taken,
            None => self.taken.first(plugin, self.load(plugin, pin)?),
        };
        expect_pinned(&taken.file, &taken.plugin.compiled.sha256, pin)?;
        Ok(taken.plugin)
    }

    /// Whether files that change take effect while the process runs.
    pub(crate) fn reloads(&self) -> bool {
        self.reload
    }

    /// What a lock file has to say of a plugin; `None` for a built-in component.
    ///
    /// # Errors
    /// A plugin that cannot be had, or that is not the one of `pin`.
    pub fn pin_of(&self, plugin: &str, pin: Option<&str>) -> Result<Option<Pin>, PluginError> {
        let Plugin {
            name,
            version,
            compiled,
            ..
        } = self.plugin(plugin, pin)?;
        let file = self.taken.get(plugin).and_then(|taken| taken.file_name);
        Ok(file.map(|file| Pin {
            file,
            name,
            version,
            sha256: compiled.sha256.clone(),
        }))
    }

    fn load(&self, plugin: &str, pin: Option<&str>) -> Result<Taken, PluginError> {
        let found = self.registry.find(plugin)?;
        let sha256 = sha256::hex(&found.bytes);
        expect_pinned(&found.file, &sha256, pin)?;
        self.expect_locked(&found, &sha256)?;
        self.take(plugin, found, sha256)
    }

    /// Loads a plugin that was taken before. What is no component is told before the lock file is asked, because a file
    /// that is half written is not in it; nothing that the lock file does not have is compiled.
    pub(super) fn load_anew(&self, plugin: &str, before: &Taken) -> Result<Taken, PluginError> {
        let found = self.registry.find(plugin)?;
        let sha256 = sha256::hex(&found.bytes);
        if sha256 == before.plugin.compiled.sha256 {
            return Ok(Taken::new(before.plugin.clone(), found.file, found.sighting));
        }
        Compiled::inspect(&found.file, &found.bytes)?;
        self.expect_locked(&found, &sha256)?;
        self.take(plugin, found, sha256)
    }

    /// Whether these bytes were compiled, or were tried to be.
    #[cfg(test)]
    pub(crate) fn has_compiled(&self, sha256: &str) -> bool {
        self.compiled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(sha256)
    }

    fn expect_locked(&self, found: &Found, sha256: &str) -> Result<(), PluginError> {
        match (&self.lock, &found.sighting) {
            (Some(lock), Some(file)) => lock.expect(file.path(), sha256),
            _ => Ok(()),
        }
    }

    fn take(&self, plugin: &str, found: Found, sha256: String) -> Result<Taken, PluginError> {
        let compiled = self.compiled(&found, sha256)?;
        let (name, wanted) = match plugin.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (plugin, None),
        };
        let inside = compiled.info.as_ref().map(|info| info.version.as_str());
        let version = inside.or(found.version.as_deref()).unwrap_or("unversioned");
        for wanted in [wanted, found.version.as_deref()].into_iter().flatten() {
            if wanted != version {
                return Err(PluginError::OtherVersion {
                    file: found.file,
                    found: version.to_owned(),
                    wanted: wanted.to_owned(),
                });
            }
        }
        let plugin = Plugin {
            name: name.to_owned(),
            version: version.to_owned(),
            builtin: found.sighting.is_none(),
            compiled,
        };
        Ok(Taken::new(plugin, found.file, found.sighting))
    }

    /// Whether the cache has the code of the component with this digest, so that it is not compiled.
    pub(crate) fn keeps(&self, sha256: &str) -> bool {
        let cache = self.cache.get_or_init(|| Cache::open(&self.cache_settings));
        cache.as_ref().is_some_and(|cache| cache.has(&self.wasmtime, sha256))
    }

    fn compiled(&self, found: &Found, sha256: String) -> Result<Arc<Compiled>, PluginError> {
        let slot = {
            let mut slots = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(sha256.clone()).or_default())
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = &*slot {
            return Ok(Arc::clone(compiled));
        }
        let cache = self.cache.get_or_init(|| Cache::open(&self.cache_settings)).as_ref();
        let file = Source {
            file: &found.file,
            sha256,
            bytes: Arc::clone(&found.bytes),
        };
        let home = Home {
            engine: self.wasmtime.clone(),
            slots: Arc::clone(&self.slots),
            _ticker: Arc::clone(&self.ticker),
        };
        let compiled = Compiled::new(home, cache, file)?;
        Ok(Arc::clone(slot.insert(Arc::new(compiled))))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

fn expect_pinned(file: &str, sha256: &str, pin: Option<&str>) -> Result<(), PluginError> {
    match pin {
        Some(wanted) if !wanted.eq_ignore_ascii_case(sha256) => Err(PluginError::OtherDigest {
            file: file.to_owned(),
            found: sha256.to_owned(),
            wanted: wanted.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The same input must give the same bytes, and every loop must be stoppable.
fn settings() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .consume_fuel(false)
        .max_wasm_stack(STACK_BYTES)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .wasm_memory64(false)
        .wasm_component_model(true);
    config
}

/// An engine whose instances live in slots, or, where the process may not set aside so much address space, in memory that is
/// mapped for each.
fn engine() -> wasmtime::Result<wasmtime::Engine> {
    let mut pooled = settings();
    pooled.allocation_strategy(slots::pool());
    wasmtime::Engine::new(&pooled).or_else(|error| {
        tracing::warn!(
            error = format!("{error:#}"),
            "no address space can be set aside for instances of components: each maps its memory anew, which takes longer"
        );
        wasmtime::Engine::new(&settings())
    })
}

/// The thread that moves the epoch. Whoever may call a component keeps it.
pub(super) struct Ticker {
    /// The thread ends when this is dropped.
    alive: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(engine: wasmtime::Engine) -> std::io::Result<Ticker> {
        let (alive, dropped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("sluice-epoch".to_owned())
            .spawn(move || {
                while dropped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    engine.increment_epoch();
                }
            })?;
        Ok(Ticker {
            alive: Some(alive),
            thread: Some(thread),
        })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            // It runs no code that panics; if it did, there would be nothing left to stop.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Instance, Module, Store};

    use super::*;

    /// What the export `run` of a module gives under the settings of every component.
    fn run(module: &str) -> u64 {
        let engine = wasmtime::Engine::new(&settings()).unwrap();
        let module = Module::new(&engine, wat::parse_str(module).unwrap()).unwrap();
        let mut store = Store::new(&engine, ());
        store.set_epoch_deadline(1000);
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let run = instance.get_typed_func::<(), u64>(&mut store, "run").unwrap();
        run.call(&mut store, ()).unwrap()
    }

    fn refusal(module: &str) -> String {
        let engine = wasmtime::Engine::new(&settings()).unwrap();
        let error = Module::new(&engine, wat::parse_str(module).unwrap()).unwrap_err();
        format!("{error:#}")
    }

    /// Processors keep the payload of a NaN, and differ in its sign: here both are gone.
    #[test]
    fn every_nan_that_is_computed_is_the_same() {
        for (given, computed) in [
            ("f64.reinterpret_i64 (i64.const 0xfff4000000000001)", "f64.add"),
            ("f64.reinterpret_i64 (i64.const 0x7ffc00000000beef)", "f64.mul"),
            ("f64.const inf", "f64.sub"),
            ("f64.const 0", "f64.div"),
        ] {
            let found = run(&format!(
                "(module (func (export \"run\") (result i64) (i64.reinterpret_f64 ({computed} ({given}) ({given})))))"
            ));
            assert_eq!(found, 0x7ff8_0000_0000_0000, "{computed}");
        }
        let found = run(
            "(module (func (export \"run\") (result i64) (i64.extend_i32_u (i32.reinterpret_f32
                (f32.add (f32.reinterpret_i32 (i32.const 0xffa00001)) (f32.const 1))))))",
        );
        assert_eq!(found, 0x7fc0_0000);
    }

    /// An index of 16 or more may choose lane 0 or lane 16 of 16 on one processor and give 0 on another: here it gives 0.
    #[test]
    fn relaxed_simd_gives_the_same_everywhere() {
        let found = run(
            "(module (func (export \"run\") (result i64) (i64x2.extract_lane 0 (i8x16.relaxed_swizzle
                (v128.const i8x16 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
                (v128.const i8x16 0 16 17 31 127 1 1 1 0 0 0 0 0 0 0 0)))))",
        );
        assert_eq!(found.to_le_bytes(), [1, 0, 0, 0, 0, 2, 2, 2]);
    }

    #[test]
    fn threads_and_large_memories_are_refused() {
        let shared = refusal("(module (memory 1 1 shared))");
        assert!(shared.contains("threads must be enabled"), "{shared}");
        let large = refusal("(module (memory i64 1))");
        assert!(large.contains("memory64 must be enabled"), "{large}");
    }
}
