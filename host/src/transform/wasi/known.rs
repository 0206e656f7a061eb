//! The functions of WASI that have an answer.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentNamedList, ComponentType, Lift, LinkerInstance, Lower, Resource};

use super::stdio::Output;
use super::{InputStream, IoError, Network, OutputStream, Pollable, READING_NS, Unheld, in_time};
use crate::transform::sandbox::HostState;

/// Bytes that a component may write to standard output or error at a time. A guide for its libraries: more is taken too.
const WRITE_BYTES: u64 = 64 << 10;

#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
#[allow(dead_code, reason = "both cases are part of the type; writing never fails here")]
enum StreamError {
    #[component(name = "last-operation-failed")]
    LastOperationFailed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// Defines the function when it has an answer here.
pub(super) fn add(target: &mut LinkerInstance<'_, HostState>, interface: &str, name: &str) -> wasmtime::Result<bool> {
    match interface {
        "io/poll" => add_poll(target, name),
        "io/streams" => add_streams(target, name),
        "clocks/wall-clock" => add_wall_clock(target, name),
        "clocks/monotonic-clock" => add_monotonic_clock(target, name),
        "random/random" | "random/insecure" | "random/insecure-seed" => add_random(target, name),
        "cli/environment" => add_environment(target, name),
        _ => add_handles(target, interface, name),
    }
}

/// Defines one function. Each looks at the clock first.
fn on<P, R>(
    target: &mut LinkerInstance<'_, HostState>,
    name: &str,
    answer: impl Fn(&mut HostState, P) -> wasmtime::Result<R> + Send + Sync + 'static,
) -> wasmtime::Result<bool>
where
    P: ComponentNamedList + Lift + 'static,
    R: ComponentNamedList + Lower + 'static,
{
    target.func_wrap(name, move |mut store: StoreContextMut<'_, HostState>, params: P| {
        let state = store.data_mut();
        in_time(state.deadline)?;
        answer(state, params)
    })?;
    Ok(true)
}

fn add_poll(target: &mut LinkerInstance<'_, HostState>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "[method]pollable.ready" => on(target, name, |state, (this,): (Resource<Pollable>,)| {
            Ok((state.wasi.ready_at(this.rep()) <= state.wasi.read_clock(),))
        }),
        "[method]pollable.block" => on(target, name, |state, (this,): (Resource<Pollable>,)| {
            state.wasi.wait(&[this.rep()]).map(drop)
        }),
        "poll" => on(target, name, |state, (list,): (Vec<Resource<Pollable>>,)| {
            let reps: Vec<u32> = list.iter().map(Resource::rep).collect();
            Ok((state.wasi.wait(&reps)?,))
        }),
        _ => Ok(false),
    }
}

fn add_streams(target: &mut LinkerInstance<'_, HostState>, name: &str) -> wasmtime::Result<bool> {
    type Stream = Resource<OutputStream>;
    type Written = (Result<(), StreamError>,);
    match name {
        "[method]input-stream.subscribe" => on(target, name, |state, (_,): (Resource<InputStream>,)| {
            Ok((Resource::<Pollable>::new_own(state.wasi.wait_for(0)?),))
        }),
        "[method]output-stream.subscribe" => on(target, name, |state, (_,): (Stream,)| {
            Ok((Resource::<Pollable>::new_own(state.wasi.wait_for(0)?),))
        }),
        "[method]output-stream.check-write" => on(target, name, |_, (_,): (Stream,)| {
            Ok((Ok::<u64, StreamError>(WRITE_BYTES),))
        }),
        "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush" => on(
            target,
            name,
            |state, (this, bytes): (Stream, Vec<u8>)| -> wasmtime::Result<Written> {
                let HostState { wasi, log, .. } = state;
                wasi.lines.write(Output::of(this.rep()), &bytes, log);
                Ok((Ok(()),))
            },
        ),
        "[method]output-stream.flush" | "[method]output-stream.blocking-flush" => {
            on(target, name, |_, (_,): (Stream,)| -> wasmtime::Result<Written> {
                Ok((Ok(()),))
            })
        }
        _ => Ok(false),
    }
}

fn add_wall_clock(target: &mut LinkerInstance<'_, HostState>, name: &str) -> wasmtime::Result<bool> {
    // The resolution is the time between two different readings; the shortest that can be said of a clock that stands.
    let (seconds, nanoseconds) = match name {
        "now" => (0, 0),
        "resolution" => (1, 0),
        _ => return Ok(false),
    };
    on(target, name, move |_, (): ()| Ok((Datetime { seconds, nanoseconds },)))
}

fn add_monotonic_clock(target: &mut LinkerInstance<'_, HostState>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "now" => on(target, name, |state, (): ()| Ok((state.wasi.read_clock(),))),
        "resolution" => on(target, name, |_, (): ()| Ok((READING_NS,))),
        "subscribe-instant" => on(target, name, |state, (instant,): (u64,)| {
            Ok((Resource::<Pollable>::new_own(state.wasi.wait_for(instant)?),))
        }),
        "subscribe-duration" => on(target, name, |state, (duration,): (u64,)| {
            let instant = state.wasi.now.saturating_add(duration);
            Ok((Resource::<Pollable>::new_own(state.wasi.wait_for(instant)?),))
        }),
        _ => Ok(false),
    }
}

fn add_random(target: &mut LinkerInstance<'_, HostState>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "get-random-bytes" | "get-insecure-random-bytes" => on(target, name, |state, (len,): (u64,)| {
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            // The answer has to fit into the component: nothing is made for one that cannot take it.
            if state.limiter.refuses(len) {
                return Err(wasmtime::Error::msg("the answer is larger than the component's memory"));
            }
            Ok((state.wasi.numbers.bytes(len, state.deadline)?,))
        }),
        "get-random-u64" | "get-insecure-random-u64" => {
            on(target, name, |state, (): ()| Ok((state.wasi.numbers.number(),)))
        }
        "insecure-seed" => on(target, name, |state, (): ()| {
            let numbers = &mut state.wasi.numbers;
            Ok(((numbers.number(), numbers.number()),))
        }),
        _ => Ok(false),
    }
}

fn add_environment(target: &mut LinkerInstance<'_, HostState>, name: &str) -> wasmtime::Result<bool> {
    match name {
        "get-environment" => on(target, name, |_, (): ()| Ok((Vec::<(String, String)>::new(),))),
        "get-arguments" => on(target, name, |_, (): ()| Ok((Vec::<String>::new(),))),
        "initial-cwd" => on(target, name, |_, (): ()| Ok((None::<String>,))),
        _ => Ok(false),
    }
}

/// The functions that give out what there is one of, or nothing.
fn add_handles(target: &mut LinkerInstance<'_, HostState>, interface: &str, name: &str) -> wasmtime::Result<bool> {
    match (interface, name) {
        ("cli/stdin", "get-stdin") => on(target, name, |state, (): ()| {
            state.wasi.hold()?;
            Ok((Resource::<InputStream>::new_own(0),))
        }),
        ("cli/stdout", "get-stdout") => add_output(target, name, Output::Stdout),
        ("cli/stderr", "get-stderr") => add_output(target, name, Output::Stderr),
        (_, "get-terminal-stdin" | "get-terminal-stdout" | "get-terminal-stderr") => {
            on(target, name, |_, (): ()| Ok((None::<Resource<Unheld>>,)))
        }
        ("filesystem/preopens", "get-directories") => on(target, name, |_, (): ()| {
            Ok((Vec::<(Resource<Unheld>, String)>::new(),))
        }),
        ("sockets/instance-network", "instance-network") => on(target, name, |state, (): ()| {
            state.wasi.hold()?;
            Ok((Resource::<Network>::new_own(0),))
        }),
        _ => Ok(false),
    }
}

fn add_output(target: &mut LinkerInstance<'_, HostState>, name: &str, output: Output) -> wasmtime::Result<bool> {
    on(target, name, move |state, (): ()| {
        state.wasi.hold()?;
        Ok((Resource::<OutputStream>::new_own(output.rep()),))
    })
}
