//! The stand-in's own procedures (`sim.…`): what no server has, and tests need.

use super::{change_settings, not_dbo, not_enabled, readable};
use crate::{
    cdc::{Lsn, agent, cleanup},
    context::StatementContext,
    error::{SqlResult, sql_error},
    exec::{Arguments, Session, storage},
    result::SqlError,
};

/// Runs one of them.
pub(super) fn run(session: &mut Session, ctx: &StatementContext, name: &str, args: &Arguments) -> SqlResult<()> {
    match name {
        "clock" => return set_clock(ctx, args),
        "replica_lag" => return lag(ctx, args),
        _ if !ctx.is_owner() => return Err(not_dbo()),
        "key_update" => {}
        _ if !ctx.catalog.settings.cdc => return Err(not_enabled(ctx)),
        _ => {}
    }
    match name {
        "capture" => {
            let runs = args.int(0)?.is_some_and(|n| n != 0);
            change_settings(session, |s| s.capture_runs = runs)?;
            if runs {
                agent::committed(&ctx.engine, &ctx.database).map_err(storage)?;
            }
        }
        "idle_entry" => {
            session.begin_write()?;
            let added = agent::idle_entry(&ctx.database, true).map_err(storage);
            session.end_empty_write();
            if !added? {
                return Err(own(
                    "no idle entry can be written: capture is stopped or has transactions to capture.",
                ));
            }
        }
        "cleanup" => {
            let instance = readable(ctx, &args.text(0)?.unwrap_or_default())?;
            let mark = args.lsn(1)?.unwrap_or(Lsn::ZERO);
            cleanup::clean(&ctx.database, instance.id, mark, ctx.catalog.settings.cleanup_threshold)
                .map_err(storage)?;
        }
        _ => {
            let form = args.text(0)?.unwrap_or_default().to_lowercase();
            let in_place = match form.as_str() {
                "delete_insert" => false,
                "before_after" => true,
                _ => return Err(own("@form is N'delete_insert' or N'before_after'.")),
            };
            change_settings(session, |s| s.key_update_in_place = in_place)?;
        }
    }
    Ok(())
}

/// `sim.replica_lag`: a login sees CDC of the database as it was.
fn lag(ctx: &StatementContext, args: &Arguments) -> SqlResult<()> {
    if !ctx.admin {
        return Err(only_for_admin("replica_lag"));
    }
    let login = args.text(0)?.unwrap_or_default();
    let as_of = match (args.int(1)?, args.lsn(2)?) {
        (_, Some(lsn)) => Some(lsn),
        (Some(entries), None) => Some(ctx.database.entry_before(entries.unsigned_abs()).map_err(storage)?),
        (None, None) => None,
    };
    ctx.engine.show_older(ctx.database.id, &login, as_of);
    Ok(())
}

/// `sim.clock`: sets the server's clock.
fn set_clock(ctx: &StatementContext, args: &Arguments) -> SqlResult<()> {
    if !ctx.admin {
        return Err(only_for_admin("clock"));
    }
    let clock = ctx.engine.clock();
    let (utc, frozen, advance) = (args.utc_ticks(0)?, args.int(1)?, args.int(2)?);
    let reset = args.int(3)?.is_some_and(|n| n != 0);
    if utc.is_none() && frozen.is_none() && advance.is_none() && !reset {
        return Err(sql_error(
            50000,
            16,
            "mssql-sim: sim.clock takes @utc, @frozen, @advance_ms or @reset.",
        ));
    }
    if reset {
        clock.reset();
    }
    match frozen {
        Some(0) => clock.unfreeze(),
        Some(_) => clock.freeze(),
        None => {}
    }
    if let Some(utc) = utc {
        clock.set_utc(utc);
    }
    if let Some(ms) = advance {
        clock.advance_ms(ms);
    }
    Ok(())
}

fn only_for_admin(procedure: &str) -> SqlError {
    sql_error(
        229,
        14,
        format!(
            "The EXECUTE permission was denied on the object '{procedure}', database 'mssqlsystemresource', schema 'sim'."
        ),
    )
}

fn own(text: &str) -> SqlError {
    sql_error(50000, 16, format!("mssql-sim: {text}"))
}
