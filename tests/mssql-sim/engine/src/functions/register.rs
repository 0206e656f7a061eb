//! The SQLite functions that generated SQL calls:
//!
//! * `tcast(value, from, to, style, try)` and `tarith(op, a, type, b, type, result)`, `tneg(value, type)`
//! * `tfunc(function, result, value, type, …)`, and `tvol` for functions that are never the same twice
//! * `tctx(function, result, value, type, …)`: functions of the statement's context (names, permissions, CDC positions)
//! * `tlike(text, pattern, escape)`, `tsum`, `tavg`, and the collation `TSQL`
//!
//! Types travel as numbers. An error of SQL Server travels beside SQLite's, in a thread-local, because a SQLite error
//! is only text.

use std::cell::RefCell;

use rusqlite::{
    Connection, Error, Result,
    functions::{Context, FunctionFlags},
    types::{Value as Stored, ValueRef},
};

use super::{
    Func,
    aggregate::{Single, Sum},
};
use crate::{
    context,
    error::{SqlResult, unknown_function},
    result::SqlError,
    types::{Arithmetic, Like, arithmetic, compare_text, convert_styled, decode, encode_owned, negate, type_of_code},
    value::{SqlType, Value},
};

thread_local! {
    static RAISED: RefCell<Option<SqlError>> = const { RefCell::new(None) };
}

/// The SQL Server error that a function raised in the statement that just failed on this thread.
pub fn take_error() -> Option<SqlError> {
    RAISED.with(|slot| slot.borrow_mut().take())
}

/// Notes an error for [`take_error`] and gives SQLite one to stop at.
pub(super) fn fail(error: SqlError) -> Error {
    let text = error.message.clone();
    RAISED.with(|slot| *slot.borrow_mut() = Some(error));
    Error::UserFunctionError(text.into())
}

/// Registers the functions and the collation on a connection.
///
/// # Errors
/// SQLite's, should it refuse one.
pub fn register(conn: &Connection) -> Result<()> {
    let pure = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    conn.create_collation("TSQL", compare_text)?;
    conn.create_scalar_function("tcast", 5, pure, |ctx| {
        let (from, to) = (type_at(ctx, 1)?, type_at(ctx, 2)?);
        let value = decode(ctx.get_raw(0), from);
        match convert_styled(&value, from, to, ctx.get(3)?) {
            Ok(value) => Ok(encode_owned(value)),
            Err(_) if ctx.get::<i64>(4)? == 1 => Ok(Stored::Null),
            Err(error) => Err(fail(error)),
        }
    })?;
    conn.create_scalar_function("tarith", 6, pure, |ctx| {
        let (a, b) = (type_at(ctx, 2)?, type_at(ctx, 4)?);
        let (x, y) = (decode(ctx.get_raw(1), a), decode(ctx.get_raw(3), b));
        let op = Arithmetic::of_code(ctx.get(0)?);
        answer(arithmetic(op, (&x, a), (&y, b), type_at(ctx, 5)?))
    })?;
    conn.create_scalar_function("tneg", 2, pure, |ctx| {
        let ty = type_at(ctx, 1)?;
        answer(negate(&decode(ctx.get_raw(0), ty), ty))
    })?;
    conn.create_scalar_function("tfunc", -1, pure, call)?;
    conn.create_scalar_function("tvol", -1, FunctionFlags::SQLITE_UTF8, call)?;
    conn.create_scalar_function("tctx", -1, FunctionFlags::SQLITE_UTF8, |ctx| {
        answer(context::call(ctx.get(0)?, &arguments(ctx)?))
    })?;
    conn.create_scalar_function("tlike", 3, pure, |ctx| {
        let (ValueRef::Text(text), ValueRef::Text(_)) = (ctx.get_raw(0), ctx.get_raw(1)) else {
            return Ok(Stored::Null);
        };
        let text = String::from_utf8_lossy(text).into_owned();
        let escape = match ctx.get_raw(2) {
            ValueRef::Text(t) => String::from_utf8_lossy(t).chars().next(),
            _ => None,
        };
        let like = ctx.get_or_create_aux(1, |pattern: ValueRef<'_>| -> std::result::Result<Like, Error> {
            let pattern = match pattern {
                ValueRef::Text(t) => String::from_utf8_lossy(t).into_owned(),
                _ => String::new(),
            };
            Ok(Like::new(&pattern, escape))
        })?;
        Ok(Stored::Integer(i64::from(like.matches(&text))))
    })?;
    conn.create_aggregate_function("tsingle", 1, pure, Single)?;
    conn.create_window_function("tsum", 2, pure, Sum { average: false })?;
    conn.create_window_function("tavg", 2, pure, Sum { average: true })
}

fn call(ctx: &mut Context<'_>) -> Result<Stored> {
    let Some(func) = Func::of_code(ctx.get(0)?) else {
        return Err(fail(unknown_function("")));
    };
    let result = type_at(ctx, 1)?;
    answer(func.call(&arguments(ctx)?, result))
}

/// The typed arguments after the function and the result type.
fn arguments(ctx: &Context<'_>) -> Result<Vec<(Value, SqlType)>> {
    (2..ctx.len())
        .step_by(2)
        .map(|i| {
            let ty = type_at(ctx, i + 1)?;
            Ok((decode(ctx.get_raw(i), ty), ty))
        })
        .collect()
}

fn type_at(ctx: &Context<'_>, index: usize) -> Result<SqlType> {
    Ok(type_of_code(ctx.get(index)?))
}

fn answer(value: SqlResult<Value>) -> Result<Stored> {
    value.map(encode_owned).map_err(fail)
}
