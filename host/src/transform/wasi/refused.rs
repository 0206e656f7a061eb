//! The functions of WASI with nothing behind them. One that can answer with an error does, so that a program which is ready
//! for a refusal goes on; any other ends the call.

use wasmtime::component::types::{ComponentFunc, Type};
use wasmtime::component::{LinkerInstance, Val};

use super::{Refused, in_time};
use crate::transform::sandbox::HostState;

/// The error cases that say no, of `sockets`, `io/streams` and `http`. None of them has a payload.
const NO: [&str; 3] = ["access-denied", "closed", "HTTP-request-denied"];

/// Defines `function` of the import `interface`.
pub(super) fn add(
    target: &mut LinkerInstance<'_, HostState>,
    interface: &str,
    function: &str,
    ty: &ComponentFunc,
) -> wasmtime::Result<()> {
    let no = no_of(ty);
    let refused = Refused::Function {
        interface: interface.to_owned(),
        function: function.to_owned(),
    };
    target.func_new(function, move |mut store, _, params, results| {
        in_time(store.data().deadline)?;
        // Handles that were lent have to be given back before the call ends.
        for param in params {
            if let Val::Resource(handle) = param {
                handle.resource_drop(&mut store)?;
            }
        }
        match (&no, results) {
            (Some(no), [result]) => {
                *result = no.clone();
                Ok(())
            }
            _ => Err(refused.clone().into()),
        }
    })
}

/// The answer that says no, when the function has one.
fn no_of(ty: &ComponentFunc) -> Option<Val> {
    let Type::Result(result) = ty.results().next()? else {
        return None;
    };
    let error = match result.err()? {
        Type::Enum(names) => {
            let no = NO.into_iter().find(|no| names.names().any(|name| name == *no))?;
            Val::Enum(no.to_owned())
        }
        Type::Variant(cases) => {
            let no = NO
                .into_iter()
                .find(|no| cases.cases().any(|case| case.name == *no && case.ty.is_none()))?;
            Val::Variant(no.to_owned(), None)
        }
        _ => return None,
    };
    Some(Val::Result(Err(Some(Box::new(error)))))
}
