//! One instance of a component: made for one call, held to its limits, thrown away after it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::{Store, Trap, UpdateDeadline};

use super::bindings::v0_3::exports::sluice::transform::transform as wit;
use super::bindings::v0_3::sluice::transform::types;
use super::component::Compiled;
use super::contract::Guest;
use super::engine::TICK;
use super::error::Fault;
use super::grants::Grants;
use super::limits::{Limiter, Limits};
use super::log::{LogBudget, guest_text};
use super::made::{Made, OutputSpent};
use super::slots::Slot;
use super::wasi::{self, Wasi};

/// What the host keeps beside an instance.
pub(crate) struct HostState {
    pub(crate) limiter: Limiter,
    pub(crate) log: LogBudget,
    pub(crate) grants: Arc<Grants>,
    /// Until `apply` is called. What a component says until then is shown, so it gets no value and no hash of one to say.
    pub(crate) opening: bool,
    pub(crate) deadline: Instant,
    /// How long the host worked with keys.
    pub(crate) keyed: Duration,
    pub(crate) made: Made,
    pub(crate) wasi: Wasi,
    /// Names the table and the plugin in the debug log.
    pub(crate) label: Arc<str>,
}

/// The interface has types alone.
impl types::Host for HostState {}

/// The call's time is over.
#[derive(Debug, thiserror::Error)]
#[error("the deadline has passed")]
pub(crate) struct DeadlinePassed;

/// A live instance, of whichever version of the contract.
pub(crate) struct Instance {
    store: Store<HostState>,
    guest: Guest,
    limits: Limits,
    /// Free again after the store is gone: fields are dropped in their order.
    _slot: Slot,
}

impl Instance {
    /// Instantiates `component`, as soon as there is a place. The deadline runs from then on.
    pub(crate) fn start(
        component: &Compiled,
        limits: Limits,
        grants: Arc<Grants>,
        label: Arc<str>,
    ) -> Result<Instance, Fault> {
        let slot = component.slot();
        let started = Instant::now();
        let state = HostState {
            limiter: Limiter::new(limits.memory_bytes),
            log: LogBudget::default(),
            grants,
            opening: true,
            // A deadline that the clock cannot hold is as good as one in a century.
            deadline: started
                .checked_add(limits.deadline)
                .unwrap_or(started + Duration::from_secs(3_155_760_000)),
            keyed: Duration::ZERO,
            made: Made::within(limits.output_bytes),
            wasi: Wasi::new(Arc::clone(&label)),
            label,
        };
        let mut store = Store::new(component.linked.engine(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(usize::try_from(limits.output_bytes).unwrap_or(usize::MAX));
        store.set_epoch_deadline(ticks(limits.deadline));
        // Ticks come late on a busy machine and the first one early, so the clock decides.
        store.epoch_deadline_callback(|store| {
            let left = store.data().deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(DeadlinePassed.into());
            }
            Ok(UpdateDeadline::Continue(ticks(left)))
        });
        match component.linked.instantiate(&mut store) {
            Ok(Ok(guest)) => Ok(Instance {
                store,
                guest,
                limits,
                _slot: slot,
            }),
            // The names of the exports were checked long before; these are their types.
            Ok(Err(_)) => Err(Fault::Signature),
            Err(error) => Err(fault(store.data(), limits, &error)),
        }
    }

    /// Calls `open`.
    pub(crate) fn open(
        &mut self,
        table: wit::Table<'_>,
        config: &str,
    ) -> Result<Result<wit::Plan, wit::OpenError>, Fault> {
        self.guest
            .open(&mut self.store, table, config)
            .map_err(|error| fault(self.store.data(), self.limits, &error))
    }

    /// How long the host has worked with keys for it.
    pub(crate) fn keyed(&self) -> Duration {
        self.store.data().keyed
    }

    /// The output columns that the host made in `apply`.
    pub(crate) fn made(&mut self) -> Made {
        std::mem::replace(&mut self.store.data_mut().made, Made::within(0))
    }

    /// Calls `apply`, for an answer of so many computed columns.
    pub(crate) fn apply(
        &mut self,
        batch: wit::Batch<'_>,
        computed: usize,
    ) -> Result<Result<wit::Outcome, wit::ApplyError>, Fault> {
        let state = self.store.data_mut();
        state.opening = false;
        state.made.begin(batch.rows, computed);
        self.guest
            .apply(&mut self.store, batch)
            .map_err(|error| fault(self.store.data(), self.limits, &error))
    }
}

/// How many ticks of the engine `time` is, at least one.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis().div_ceil(TICK.as_millis()))
        .unwrap_or(u64::MAX / 2)
        .clamp(1, u64::MAX / 2)
}

/// Finds the right name for what went wrong. The error's own text goes to the debug log alone.
fn fault(state: &HostState, limits: Limits, error: &wasmtime::Error) -> Fault {
    guest_text(&state.label, "failure", &format!("{error:#}"));
    if error.is::<DeadlinePassed>() {
        return Fault::Deadline {
            ms: limits.deadline.as_millis(),
        };
    }
    if error.is::<OutputSpent>() {
        return Fault::Output {
            bytes: limits.output_bytes,
        };
    }
    if let Some(refused) = error.downcast_ref::<wasi::Refused>() {
        return Fault::Wasi(refused.to_string());
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => Fault::Deadline {
            ms: limits.deadline.as_millis(),
        },
        Some(Trap::StackOverflow) => Fault::Stack,
        // A guest that was refused memory mostly ends in `unreachable`, or in an error of the call that asked for it.
        _ if state.limiter.memory_refused() => Fault::Memory {
            bytes: limits.memory_bytes,
        },
        _ if state.limiter.table_refused() => Fault::Structure,
        Some(trap) => Fault::Trap(trap.to_string()),
        None => {
            let text = error.root_cause().to_string();
            // wasmtime has no public type for these two; tests hold the texts in place.
            if text.contains("fuel allocated for hostcalls") {
                Fault::Output {
                    bytes: limits.output_bytes,
                }
            } else if text.contains("resource limit exceeded") {
                Fault::Structure
            } else {
                Fault::Unreadable
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::component::{Component, Linker};
    use wasmtime::{Engine, Module};

    use super::*;
    use crate::transform::keys::KeyRing;
    use crate::transform::lookup::Lookups;
    use crate::transform::spec::TransformSpec;

    #[test]
    fn every_deadline_is_at_least_one_tick() {
        assert_eq!(ticks(Duration::ZERO), 1);
        assert_eq!(ticks(Duration::from_millis(10)), 1);
        assert_eq!(ticks(Duration::from_millis(11)), 2);
        assert_eq!(ticks(Duration::MAX), u64::MAX / 2);
    }

    fn state() -> HostState {
        let label: Arc<str> = "probe".into();
        HostState {
            limiter: Limiter::new(16 << 20),
            log: LogBudget::default(),
            grants: Arc::default(),
            opening: true,
            deadline: Instant::now() + Duration::from_secs(60),
            keyed: Duration::ZERO,
            made: Made::within(1 << 20),
            wasi: Wasi::new(Arc::clone(&label)),
            label,
        }
    }

    #[test]
    fn until_apply_the_host_answers_for_no_row() {
        use crate::transform::bindings::v0_3::sluice::transform::{keyed, lookup};
        use crate::transform::cells::testing::{column, texts};

        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("countries.csv");
        std::fs::write(&file, "code,name\nSE,Sverige\n").unwrap();
        let mut ring = KeyRing::new();
        ring.insert("pii", "v1", vec![7; 16]).unwrap();
        let spec = TransformSpec {
            keys: vec!["pii".into()],
            lookups: vec!["countries".into()],
            ..TransformSpec::new("any")
        };
        let lookups = Lookups::new([("countries".to_owned(), file)]);
        let mut state = HostState {
            grants: Arc::new(Grants::new(&spec, &ring, &lookups).unwrap()),
            ..state()
        };
        let [pii, countries, name] = ["pii", "countries", "name"].map(str::to_owned);
        let one = || texts(&[Some("SE")]);
        let tags = keyed::Host::hmac_sha256(&mut state, pii.clone(), String::new(), 1, one()).unwrap();
        assert!(matches!(tags, Err(keyed::KeyedError::NotGranted)));
        let picks = keyed::Host::pick(&mut state, pii.clone(), String::new(), 5, 1, one()).unwrap();
        assert!(matches!(picks, Err(keyed::KeyedError::NotGranted)));
        let digits = "0123456789".to_owned();
        let ciphers = keyed::Host::ff1_encrypt(&mut state, pii.clone(), Vec::new(), digits, 1, one()).unwrap();
        assert!(matches!(ciphers, Err(keyed::KeyedError::NotGranted)));
        let found = lookup::Host::find(&mut state, countries.clone(), name.clone(), 1, one()).unwrap();
        assert!(matches!(found, Err(lookup::LookupError::NotGranted)));
        let hash_output = |state: &mut HostState, rows, values| {
            let text = keyed::DigestText::Hex(64);
            keyed::Host::hash_output(state, 0, "pii".to_owned(), String::new(), text, rows, values).unwrap()
        };
        assert!(matches!(
            hash_output(&mut state, 1, one()),
            Err(keyed::KeyedError::NotGranted)
        ));
        // Whether it is granted may be asked, by the hash of no row.
        let none = || column(None, &[0], b"");
        let tags = keyed::Host::hmac_sha256(&mut state, pii.clone(), String::new(), 0, none()).unwrap();
        assert!(matches!(tags, Ok(tags) if tags.is_empty()));
        assert!(hash_output(&mut state, 0, none()).is_ok());
        assert!(state.made.take(0).is_none());
        let columns = lookup::Host::columns(&mut state, countries.clone()).unwrap();
        assert!(matches!(columns, Ok(columns) if columns == ["code", "name"]));

        state.opening = false;
        state.made.begin(1, 1);
        let tags = keyed::Host::hmac_sha256(&mut state, pii, String::new(), 1, one()).unwrap();
        assert!(matches!(tags, Ok(tags) if tags.len() == 32));
        assert!(hash_output(&mut state, 1, one()).is_ok());
        assert_eq!(state.made.take(0).unwrap().len(), 1);
        // 64 digits, two offsets and a bitmap.
        assert_eq!(state.made.left, (1 << 20) - 73);
        let found = lookup::Host::find(&mut state, countries, name, 1, one()).unwrap();
        assert!(matches!(found, Ok(found) if found.values == b"Sverige"));
    }

    fn store(engine: &Engine) -> Store<HostState> {
        let mut store = Store::new(engine, state());
        store.limiter(|state| &mut state.limiter);
        store
    }

    #[test]
    fn tables_and_memories_beyond_the_limits_have_names() {
        let engine = Engine::default();
        for (module, expected) in [
            ("(module (table 1048576 funcref))", None),
            ("(module (table 1048577 funcref))", Some(Fault::Structure)),
            ("(module (table 600000 funcref) (table 600000 funcref))", Some(Fault::Structure)),
            (
                "(module (table 1 funcref) (func (if (i32.lt_s (table.grow (ref.null func) (i32.const 1048576)) (i32.const 0))
                    (then (unreachable)))) (start 0))",
                Some(Fault::Structure),
            ),
            ("(module (memory 256))", None),
            ("(module (memory 257))", Some(Fault::Memory { bytes: 1 << 28 })),
            ("(module (memory 200) (memory 200))", Some(Fault::Memory { bytes: 1 << 28 })),
            (
                "(module (memory 1) (func (if (i32.lt_s (memory.grow (i32.const 256)) (i32.const 0))
                    (then (unreachable)))) (start 0))",
                Some(Fault::Memory { bytes: 1 << 28 }),
            ),
        ] {
            let compiled = Module::new(&engine, wat::parse_str(module).unwrap()).unwrap();
            let mut store = store(&engine);
            let error = wasmtime::Instance::new(&mut store, &compiled, &[]).err();
            // The fault names the limit of the table's configuration.
            let found = error.map(|error| fault(store.data(), Limits::default(), &error));
            assert_eq!(found, expected, "{module}");
        }
    }

    /// A list may name the same bytes a thousand times, and takes them a thousand times when it is read.
    #[test]
    fn lists_that_share_their_bytes_are_counted_each_time() {
        let engine = Engine::default();
        let guest = "(component
            (core module $guest
              (memory (export \"memory\") 32)
              (func (export \"make\") (param i32) (result i32) (local $i i32)
                (loop $next
                  (i32.store offset=4 (i32.shl (local.get $i) (i32.const 3)) (i32.const 1048576))
                  (local.set $i (i32.add (local.get $i) (i32.const 1)))
                  (br_if $next (i32.lt_u (local.get $i) (local.get 0))))
                (i32.store (i32.const 65536) (i32.const 0))
                (i32.store (i32.const 65540) (local.get 0))
                (i32.const 65536)))
            (core instance $guest (instantiate $guest))
            (alias core export $guest \"memory\" (core memory $memory))
            (func (export \"make\") (param \"n\" u32) (result (list (list u8)))
              (canon lift (core func $guest \"make\") (memory $memory))))";
        let component = Component::new(&engine, wat::parse_str(guest).unwrap()).unwrap();
        let make = |n: u32| {
            let mut store = store(&engine);
            store.set_hostcall_fuel(32 << 20);
            let instance = Linker::new(&engine).instantiate(&mut store, &component).unwrap();
            let make = instance
                .get_typed_func::<(u32,), (Vec<Vec<u8>>,)>(&mut store, "make")
                .unwrap();
            let answer = make.call(&mut store, (n,));
            answer.map_err(|error| fault(store.data(), Limits::default(), &error))
        };
        assert_eq!(make(20).unwrap().0.len(), 20);
        assert!(matches!(make(1000), Err(Fault::Output { .. })));
    }

    #[test]
    fn what_ends_a_call_of_wasi_is_named() {
        let error = wasmtime::Error::from(wasi::Refused::EmptyPoll).context("somewhere");
        let found = fault(&state(), Limits::default(), &error);
        assert_eq!(
            found.to_string(),
            "the component used `poll` of `wasi:io/poll` with an empty list; with `wasi = true` it has no files, no network \
             and no process to end"
        );
    }
}
