//! The procedures of CDC (`sys.sp_cdc_…`) and of the stand-in itself (`sim.…`).

mod answers;
mod stand_in;

use std::sync::Arc;

use self::answers::{captured_columns, ddl_history, help, jobs};
use super::{Lsn, Op, agent, cleanup, instances::Request};
use crate::{
    catalog::{Instance, Object, SETTINGS_ID},
    context::{StatementContext, may_read_instance},
    error::{SqlResult, sql_error},
    exec::{Arguments, Run, Session, storage},
    result::{ResultSink, SqlError},
    version::ServerVersion,
};

/// A procedure: its name and parameters (name, whether it must be given).
pub struct Procedure {
    schema: &'static str,
    name: &'static str,
    pub parameters: &'static [(&'static str, bool)],
}

const PROCEDURES: &[Procedure] = &[
    Procedure {
        schema: "sys",
        name: "sp_cdc_enable_db",
        parameters: &[],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_disable_db",
        parameters: &[],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_enable_table",
        parameters: &[
            ("@source_schema", true),
            ("@source_name", true),
            ("@role_name", false),
            ("@capture_instance", false),
            ("@supports_net_changes", false),
            ("@index_name", false),
            ("@captured_column_list", false),
            ("@filegroup_name", false),
            ("@allow_partition_switch", false),
        ],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_disable_table",
        parameters: &[
            ("@source_schema", true),
            ("@source_name", true),
            ("@capture_instance", true),
        ],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_help_change_data_capture",
        parameters: &[("@source_schema", false), ("@source_name", false)],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_get_captured_columns",
        parameters: &[("@capture_instance", true)],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_get_ddl_history",
        parameters: &[("@capture_instance", true)],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_cleanup_change_table",
        parameters: &[
            ("@capture_instance", true),
            ("@low_water_mark", true),
            ("@threshold", false),
            ("@fCleanupFailed", false),
        ],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_change_job",
        parameters: &[
            ("@job_type", false),
            ("@maxtrans", false),
            ("@maxscans", false),
            ("@continuous", false),
            ("@pollinginterval", false),
            ("@retention", false),
            ("@threshold", false),
        ],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_add_job",
        parameters: &[
            ("@job_type", true),
            ("@start_job", false),
            ("@maxtrans", false),
            ("@maxscans", false),
            ("@continuous", false),
            ("@pollinginterval", false),
            ("@retention", false),
            ("@threshold", false),
        ],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_start_job",
        parameters: &[("@job_type", false)],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_stop_job",
        parameters: &[("@job_type", false)],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_help_jobs",
        parameters: &[],
    },
    Procedure {
        schema: "sys",
        name: "sp_cdc_scan",
        parameters: &[
            ("@maxtrans", false),
            ("@maxscans", false),
            ("@continuous", false),
            ("@pollinginterval", false),
        ],
    },
    Procedure {
        schema: "sim",
        name: "capture",
        parameters: &[("@runs", true)],
    },
    Procedure {
        schema: "sim",
        name: "replica_lag",
        parameters: &[("@login", true), ("@entries", false), ("@lsn", false)],
    },
    Procedure {
        schema: "sim",
        name: "clock",
        parameters: &[
            ("@utc", false),
            ("@frozen", false),
            ("@advance_ms", false),
            ("@reset", false),
        ],
    },
    Procedure {
        schema: "sim",
        name: "idle_entry",
        parameters: &[],
    },
    Procedure {
        schema: "sim",
        name: "cleanup",
        parameters: &[("@capture_instance", true), ("@before_lsn", true)],
    },
    Procedure {
        schema: "sim",
        name: "key_update",
        parameters: &[("@form", true)],
    },
];

/// A procedure by schema (none will do for `sys`) and name. Azure SQL Database has no Agent, and so none of the procedures
/// about its jobs but the one that changes the retention and the one that shows it.
pub fn find(schema: &str, name: &str, version: ServerVersion) -> Option<&'static Procedure> {
    let of_agent = matches!(name, "sp_cdc_start_job" | "sp_cdc_stop_job" | "sp_cdc_add_job");
    PROCEDURES
        .iter()
        .find(|p| p.name == name && (p.schema == schema || p.schema == "sys" && (schema.is_empty() || schema == "dbo")))
        .filter(|_| !(version.is_azure() && of_agent))
}

/// Runs a procedure; its return status.
pub(crate) fn run(
    session: &mut Session,
    procedure: &Procedure,
    args: &Arguments,
    sink: &mut dyn ResultSink,
) -> Run<i64> {
    let result = dispatch(session, procedure, args, sink);
    result.map_err(|stop| match stop {
        crate::exec::Stop::Error(mut error) => {
            if error.procedure.is_empty() {
                error.procedure = procedure.name.to_owned();
            }
            crate::exec::Stop::Error(error)
        }
        other => other,
    })
}

fn dispatch(session: &mut Session, procedure: &Procedure, args: &Arguments, sink: &mut dyn ResultSink) -> Run<i64> {
    let ctx = session.context()?;
    let owner = || if ctx.is_owner() { Ok(()) } else { Err(not_dbo()) };
    let enabled = || {
        if ctx.catalog.settings.cdc {
            Ok(())
        } else {
            Err(not_enabled(&ctx))
        }
    };
    // These work on the change tables by themselves, and would wait for the very transaction that runs them.
    if session.tx.holds_change_tables()
        && matches!(
            procedure.name,
            "sp_cdc_cleanup_change_table" | "cleanup" | "sp_cdc_start_job" | "sp_cdc_scan" | "capture" | "idle_entry"
        )
    {
        return Err(sql_error(
            226,
            16,
            format!(
                "{} statement not allowed within multi-statement transaction.",
                procedure.name
            ),
        )
        .into());
    }
    match procedure.name {
        "sp_cdc_enable_db" | "sp_cdc_disable_db" => {
            let azure = ctx.engine.options.version.is_azure();
            if azure {
                owner()?;
            } else if !ctx.admin {
                return Err(sql_error(
                    22902,
                    16,
                    "Caller is not authorized to initiate the requested action. Sysadmin privileges are required.",
                )
                .into());
            }
            if procedure.name == "sp_cdc_enable_db" {
                session.enable_database()?;
            } else {
                session.disable_database()?;
            }
        }
        "sp_cdc_enable_table" => {
            owner()?;
            enabled()?;
            if args.absent(2) {
                let mut error = sql_error(
                    201,
                    16,
                    "Procedure or function 'sp_cdc_enable_table' expects parameter '@role_name', which was not supplied.",
                );
                error.state = 4;
                return Err(error.into());
            }
            let request = Request {
                schema: args.text(0)?.unwrap_or_default(),
                table: args.text(1)?.unwrap_or_default(),
                role: args.text(2)?,
                instance: args.text(3)?,
                net_changes: args.int(4)?.map(|n| n != 0),
                index: args.text(5)?,
                columns: args.text(6)?,
                filegroup: args.text(7)?,
            };
            session.enable_table(&request)?;
        }
        "sp_cdc_disable_table" => {
            owner()?;
            enabled()?;
            let (schema, table) = (args.text(0)?.unwrap_or_default(), args.text(1)?.unwrap_or_default());
            session.disable_table(&schema, &table, &args.text(2)?.unwrap_or_default())?;
        }
        "sp_cdc_help_change_data_capture" => {
            enabled()?;
            let (schema, table) = (args.text(0)?, args.text(1)?);
            return help(session, &ctx, schema.as_deref(), table.as_deref(), sink);
        }
        "sp_cdc_get_captured_columns" => {
            enabled()?;
            let instance = readable(&ctx, &args.text(0)?.unwrap_or_default())?;
            return captured_columns(session, &instance, sink);
        }
        "sp_cdc_get_ddl_history" => {
            enabled()?;
            let instance = readable(&ctx, &args.text(0)?.unwrap_or_default())?;
            return ddl_history(session, &ctx, &instance, sink);
        }
        "sp_cdc_cleanup_change_table" => {
            owner()?;
            enabled()?;
            let instance = readable(&ctx, &args.text(0)?.unwrap_or_default())?;
            let state = ctx.database.cdc.lock();
            let (low, high) = (
                state.starts.get(&instance.id).copied().unwrap_or(Lsn::ZERO),
                state.max_lsn.unwrap_or(Lsn::ZERO),
            );
            drop(state);
            // Without a mark the low endpoint stays, and only what lies below it goes.
            let mark = args.lsn(1)?.unwrap_or(low);
            let known = ctx.database.entry_time(mark).map_err(storage)?.is_some();
            if mark != low && (!known || mark < low || mark > high) {
                return Err(sql_error(
                    22957,
                    16,
                    format!("LSN {mark}, specified as the new low end point for change table associated with capture instance '{}', is not within the Change Data Capture timeline [{low}, {high}].", instance.name),
                )
                .into());
            }
            let threshold = args.int(2)?.unwrap_or(5000);
            cleanup::clean(&ctx.database, instance.id, mark, threshold).map_err(storage)?;
        }
        "sp_cdc_change_job" | "sp_cdc_add_job" => {
            owner()?;
            enabled()?;
            let at = if procedure.name == "sp_cdc_change_job" { 5 } else { 6 };
            let (retention, threshold) = (args.int(at)?, args.int(at + 1)?);
            let kind = args.text(0)?.unwrap_or_else(|| "capture".into());
            change_settings(session, |s| {
                if kind.eq_ignore_ascii_case("cleanup") {
                    s.retention_minutes = retention.unwrap_or(s.retention_minutes);
                    s.cleanup_threshold = threshold.unwrap_or(s.cleanup_threshold);
                }
            })?;
        }
        "sp_cdc_start_job" | "sp_cdc_stop_job" => {
            owner()?;
            enabled()?;
            let runs = procedure.name == "sp_cdc_start_job";
            let kind = args.text(0)?.unwrap_or_else(|| "capture".into());
            let cleanup_job = kind.eq_ignore_ascii_case("cleanup");
            change_settings(session, |s| {
                if cleanup_job {
                    s.cleanup_runs = runs;
                } else {
                    s.capture_runs = runs;
                }
            })?;
            if runs && cleanup_job {
                // Started by hand, the job runs at once.
                cleanup::run_job(&ctx.database).map_err(storage)?;
            } else if runs {
                agent::committed(&ctx.engine, &ctx.database).map_err(storage)?;
            }
        }
        "sp_cdc_scan" => {
            owner()?;
            enabled()?;
            agent::scan(&ctx.database).map_err(storage)?;
        }
        "sp_cdc_help_jobs" => {
            enabled()?;
            return jobs(session, &ctx, sink);
        }
        name if procedure.schema == "sim" => stand_in::run(session, &ctx, name, args)?,
        _ => {
            return Err(sql_error(
                2812,
                16,
                format!("Could not find stored procedure '{}'.", procedure.name),
            )
            .into());
        }
    }
    Ok(0)
}

fn change_settings(session: &mut Session, change: impl FnOnce(&mut crate::catalog::Settings)) -> SqlResult<()> {
    session.write(|s| {
        s.context()?;
        let mut settings = s.catalog.settings.clone();
        change(&mut settings);
        s.put_object(SETTINGS_ID, &Object::Settings(settings))
    })
}

fn not_dbo() -> SqlError {
    sql_error(
        22904,
        16,
        "Caller is not authorized to initiate the requested action. DBO privileges are required.",
    )
}

fn not_enabled(ctx: &StatementContext) -> SqlError {
    sql_error(
        22901,
        16,
        format!(
            "The database '{}' is not enabled for Change Data Capture. Ensure that the correct database context is set and retry the operation. To report on the databases enabled for Change Data Capture, query the is_cdc_enabled column in the sys.databases catalog view.",
            ctx.database.name
        ),
    )
}

/// An instance that the user may ask about.
fn readable(ctx: &StatementContext, name: &str) -> SqlResult<Arc<Instance>> {
    ctx.catalog
        .instance(name)
        .filter(|i| may_read_instance(ctx, i))
        .cloned()
        .ok_or_else(|| sql_error(22981, 16, "Object does not exist or access is denied."))
}

impl Session {
    /// Appends a log record to the open transaction.
    pub(super) fn log_record(&mut self, object: i64, op: Op, data: &[u8]) -> SqlResult<()> {
        let mut log = self.tx.log.clone();
        crate::exec::append(&self.conn, &self.database, &mut log, object, op, data)?;
        self.tx.log = log;
        Ok(())
    }
}
