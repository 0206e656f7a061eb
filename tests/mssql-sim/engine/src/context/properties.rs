//! `@@` variables and SERVERPROPERTY.

use super::StatementContext;
use crate::value::{Length, SqlType, Value};

const NVARCHAR: SqlType = SqlType::NVarChar(Length::Limited(300));

/// A global variable by name, without its case; nothing when there is none.
pub fn global(ctx: &StatementContext, name: &str) -> Option<(Value, SqlType)> {
    let int = |n: i64| Some((Value::Int(n), SqlType::Int));
    let text = |t: &str| Some((Value::Text(t.to_owned()), NVARCHAR));
    match name.to_ascii_uppercase().as_str() {
        "@@VERSION" => text(&ctx.engine.options.version.banner()),
        "@@SERVERNAME" => text(&ctx.engine.options.server_name),
        "@@SERVICENAME" => text("MSSQLSERVER"),
        "@@LANGUAGE" => text("us_english"),
        "@@SPID" => Some((Value::Int(ctx.spid), SqlType::SmallInt)),
        "@@TRANCOUNT" => int(ctx.transactions),
        "@@ROWCOUNT" => int(ctx.row_count),
        "@@ERROR" => int(ctx.last_error),
        "@@FETCH_STATUS" | "@@NESTLEVEL" | "@@PROCID" | "@@LANGID" => int(0),
        "@@TEXTSIZE" => int(2_147_483_647),
        "@@LOCK_TIMEOUT" => int(ctx.lock_timeout_ms),
        "@@DATEFIRST" => Some((Value::Int(7), SqlType::TinyInt)),
        "@@MAX_PRECISION" => Some((Value::Int(38), SqlType::TinyInt)),
        "@@OPTIONS" => int(5496),
        "@@MICROSOFTVERSION" => {
            let major: i64 = ctx.engine.options.version.product_version()[..2].parse().unwrap_or(16);
            int(major << 24)
        }
        "@@IDENTITY" => Some((
            identity(ctx),
            SqlType::Decimal {
                precision: 38,
                scale: 0,
            },
        )),
        _ => None,
    }
}

/// `SCOPE_IDENTITY()` and `@@IDENTITY`.
pub(super) fn identity(ctx: &StatementContext) -> Value {
    ctx.identity.map_or(Value::Null, |v| Value::Decimal(i128::from(v)))
}

/// SERVERPROPERTY's answer; NULL for a property that there is not.
pub(super) fn server_property(ctx: &StatementContext, name: &str) -> Value {
    let version = ctx.engine.options.version;
    let product = version.product_version();
    let text = |t: &str| Value::Text(t.to_owned());
    match name.to_ascii_lowercase().as_str() {
        "productversion" => text(product),
        "productmajorversion" => text(product.split('.').next().unwrap_or("")),
        "productminorversion" => text("0"),
        "productbuild" => text(product.split('.').nth(2).unwrap_or("")),
        "productlevel" => text("RTM"),
        "productupdatelevel" => version.update_level().map_or(Value::Null, text),
        "engineedition" => text(version.engine_edition()),
        "edition" => text(version.edition()),
        "editionid" => text(if version.is_azure() {
            "1674378470"
        } else {
            "-2117995310"
        }),
        "servername" | "machinename" | "computernamephysicalnetbios" => text(&ctx.engine.options.server_name),
        "collation" => text("SQL_Latin1_General_CP1_CI_AS"),
        "lcid" => text("1033"),
        "ishadrenabled" | "isclustered" | "isintegratedsecurityonly" | "issingleuser" | "isfulltextinstalled" => {
            text("0")
        }
        _ => Value::Null,
    }
}
