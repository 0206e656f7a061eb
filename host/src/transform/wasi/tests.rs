use std::time::Duration;

use wasmtime::component::{ComponentNamedList, Instance, Lift, Lower};
use wasmtime::{Engine, Store};

use super::*;
use crate::transform::limits::Limiter;
use crate::transform::log::LogBudget;
use crate::transform::made::Made;

const HOUR_NS: u64 = 3_600_000_000_000;

/// A live instance of `probe.wat`.
struct Guest {
    store: Store<HostState>,
    instance: Instance,
}

impl Guest {
    fn start() -> Guest {
        let engine = Engine::default();
        let component = Component::new(&engine, wat::parse_str(include_str!("probe.wat")).unwrap()).unwrap();
        let mut linker = Linker::new(&engine);
        add_to_linker(&mut linker, &component).unwrap();
        let state = HostState {
            limiter: Limiter::new(1 << 20),
            log: LogBudget::default(),
            grants: Arc::default(),
            deadline: Instant::now() + Duration::from_secs(60),
            keyed: Duration::ZERO,
            made: Made::within(1 << 20),
            opening: false,
            wasi: Wasi::new("probe".into()),
            label: "probe".into(),
        };
        let mut store = Store::new(&engine, state);
        let instance = linker.instantiate(&mut store, &component).unwrap();
        Guest { store, instance }
    }

    fn call<P, R>(&mut self, name: &str, params: P) -> wasmtime::Result<R>
    where
        P: ComponentNamedList + Lower + Send + Sync,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let function = self.instance.get_typed_func::<P, R>(&mut self.store, name)?;
        function.call(&mut self.store, params)
    }

    fn number(&mut self, name: &str) -> u64 {
        self.call::<(), (u64,)>(name, ()).unwrap().0
    }

    fn refused(&mut self, name: &str) -> Refused {
        let error = self.call::<(), ()>(name, ()).unwrap_err();
        error.downcast_ref::<Refused>().unwrap().clone()
    }
}

#[test]
fn releases_of_wasi_0_2_are_offered_and_no_other() {
    for (import, interface) in [
        ("wasi:io/poll@0.2.0", Some("io/poll")),
        ("wasi:io/poll@0.2.12", Some("io/poll")),
        ("wasi:http/types@0.2.10", Some("http/types")),
        ("wasi:io/poll@0.2.0-rc-2023-11-10", None),
        ("wasi:io/poll@0.2.", None),
        ("wasi:io/poll@0.3.0", None),
        ("wasi:io/poll", None),
        ("wasi:keyvalue/store@0.2.0", None),
        ("own:io/poll@0.2.0", None),
    ] {
        assert_eq!(offered(import), interface, "{import}");
    }
}

#[test]
fn a_sleep_takes_no_time_and_moves_the_clock() {
    let began = Instant::now();
    let mut guest = Guest::start();
    assert_eq!(guest.number("clock"), READING_NS);
    assert_eq!(guest.number("clock"), 2 * READING_NS);
    let (after,) = guest.call::<_, (u64,)>("sleep", (HOUR_NS,)).unwrap();
    assert_eq!(after, HOUR_NS + 3 * READING_NS);
    // Not ready before, ready after it.
    assert_eq!(guest.call::<_, (u64,)>("ready", (2 * HOUR_NS,)).unwrap(), (2,));
    assert_eq!(guest.call::<_, (u64,)>("ready", (1_u64,)).unwrap(), (3,));
    // Of two sleeps the shorter one ends the wait, alone; equal ones end it together.
    assert_eq!(guest.call::<_, (u64,)>("race", (HOUR_NS, HOUR_NS / 2)).unwrap(), (101,));
    assert_eq!(guest.call::<_, (u64,)>("race", (HOUR_NS, HOUR_NS)).unwrap(), (200,));
    // The end of time can be slept to.
    assert_eq!(guest.call::<_, (u64,)>("sleep", (u64::MAX,)).unwrap(), (u64::MAX,));
    assert!(began.elapsed() < Duration::from_secs(1800));
}

#[test]
fn every_instance_sees_the_same_clock_and_numbers() {
    let seen = || {
        let mut guest = Guest::start();
        let (bytes,) = guest.call::<_, (u64,)>("bytes", (100_u64,)).unwrap();
        [
            bytes,
            guest.number("number"),
            guest.number("clock"),
            guest.number("wall"),
        ]
    };
    let first = seen();
    assert_eq!(first, seen());
    // In Python, with `digest` as in `random`: `int.from_bytes(digest(0)[:8], "little")`.
    assert_eq!(first[0], 11_726_155_189_468_463_680);
    assert_ne!(first[0], first[1]);
    assert_eq!(first[3], 0);
}

#[test]
fn nothing_of_the_machine_is_there() {
    let mut guest = Guest::start();
    assert_eq!(guest.number("surroundings"), 0);
    // Errors: `closed` is case 1 of a stream's, `access-denied` of a socket's.
    assert_eq!(guest.number("read"), 101);
    assert_eq!(guest.number("socket"), 101);
    let exit = guest.refused("exit");
    assert_eq!(exit.to_string(), "`exit` of `wasi:cli/exit@0.2.9`");
    assert_eq!(Guest::start().refused("nothing-to-wait-for"), Refused::EmptyPoll);
}

#[test]
fn what_a_guest_writes_is_bounded() {
    let mut guest = Guest::start();
    assert_eq!(guest.call::<_, (u64,)>("write", (3000_u32,)).unwrap(), (0,));
    assert!(guest.store.data_mut().log.take().is_none());
    assert_eq!(guest.call::<_, (u64,)>("write", (1_u32,)).unwrap(), (0,));
}

#[test]
fn handles_and_answers_are_bounded() {
    assert_eq!(Guest::start().refused("hoard"), Refused::Handles);
    let mut guest = Guest::start();
    // Handles that are given back do not count.
    for _ in 0..2 * MAX_HANDLES {
        guest.call::<_, (u64,)>("sleep", (1_u64,)).unwrap();
    }
    assert!(guest.store.data().wasi.waits.is_empty());
    assert!(guest.call::<_, (u64,)>("bytes", (1_u64 << 40,)).is_err());
    assert!(guest.store.data().limiter.memory_refused());
}

#[test]
fn a_deadline_that_has_passed_ends_every_call() {
    for call in ["clock", "wall", "number", "read", "socket", "surroundings"] {
        let mut guest = Guest::start();
        guest.store.data_mut().deadline = Instant::now();
        let error = guest.call::<(), (u64,)>(call, ()).unwrap_err();
        assert!(error.is::<DeadlinePassed>(), "{call}: {error:#}");
    }
    let mut guest = Guest::start();
    guest.store.data_mut().deadline = Instant::now();
    let error = guest.call::<_, (u64,)>("sleep", (HOUR_NS,)).unwrap_err();
    assert!(error.is::<DeadlinePassed>(), "{error:#}");
}
