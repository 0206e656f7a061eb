//! The tokens of a response, one function each. All append to a buffer.

use mssql_sim_engine::Collation;
use mssql_sim_engine::result::{ColumnMeta, SqlError};
use mssql_sim_engine::value::{Length, SqlType, Value};

use super::encoding::{COLLATION, put_utf16};
use super::login7::{TDS_7_4, TDS_8_0};
use super::typeinfo::put_type_info;
use super::values::{Mismatch, put_value};

/// Token bytes of [MS-TDS] 2.2.7.
mod token {
    pub(super) const RETURN_STATUS: u8 = 0x79;
    pub(super) const COLUMN_METADATA: u8 = 0x81;
    pub(super) const ERROR: u8 = 0xAA;
    pub(super) const INFO: u8 = 0xAB;
    pub(super) const RETURN_VALUE: u8 = 0xAC;
    pub(super) const LOGIN_ACK: u8 = 0xAD;
    pub(super) const FEATURE_EXT_ACK: u8 = 0xAE;
    pub(super) const ROW: u8 = 0xD1;
    pub(super) const NBC_ROW: u8 = 0xD2;
    pub(super) const ENV_CHANGE: u8 = 0xE3;
}

/// Which of the three DONE tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DoneKind {
    /// A statement of a batch.
    Statement = 0xFD,
    /// A procedure.
    Procedure = 0xFE,
    /// A statement inside of a procedure.
    InProcedure = 0xFF,
}

/// A DONE token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) kind: DoneKind,
    /// Rows returned or changed; absent when nothing is counted.
    pub(crate) rows: Option<u64>,
    /// The statement returned rows.
    pub(crate) select: bool,
    pub(crate) error: bool,
}

const DONE_MORE: u16 = 0x01;
const DONE_ERROR: u16 = 0x02;
const DONE_COUNT: u16 = 0x10;
const DONE_ATTENTION: u16 = 0x20;
const COMMAND_SELECT: u16 = 0xC1;

/// Appends a DONE token; `more` when others follow in the same response.
pub(crate) fn done(out: &mut Vec<u8>, done: Done, more: bool) {
    let mut status = 0;
    if more {
        status |= DONE_MORE;
    }
    if done.error {
        status |= DONE_ERROR;
    }
    if done.rows.is_some() {
        status |= DONE_COUNT;
    }
    put_done(
        out,
        done.kind,
        status,
        if done.select { COMMAND_SELECT } else { 0 },
        done.rows.unwrap_or(0),
    );
}

/// Appends the acknowledgement of an attention.
pub(crate) fn done_attention(out: &mut Vec<u8>) {
    put_done(out, DoneKind::Statement, DONE_ATTENTION, 0, 0);
}

fn put_done(out: &mut Vec<u8>, kind: DoneKind, status: u16, command: u16, rows: u64) {
    out.push(kind as u8);
    out.extend(status.to_le_bytes());
    out.extend(command.to_le_bytes());
    out.extend(rows.to_le_bytes());
}

/// Appends an ERROR token.
pub(crate) fn error(out: &mut Vec<u8>, error: &SqlError, server: &str) {
    put_message(out, token::ERROR, error, server);
}

/// Appends an INFO token.
pub(crate) fn info(out: &mut Vec<u8>, message: &SqlError, server: &str) {
    put_message(out, token::INFO, message, server);
}

fn put_message(out: &mut Vec<u8>, kind: u8, message: &SqlError, server: &str) {
    out.push(kind);
    with_length(out, |out| {
        out.extend(message.number.to_le_bytes());
        out.extend([message.state, message.class]);
        put_us_varchar(out, &message.message);
        put_b_varchar(out, server);
        put_b_varchar(out, &message.procedure);
        out.extend(message.line.to_le_bytes());
    });
}

/// What an ENVCHANGE token tells.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EnvChange<'a> {
    Database {
        old: &'a str,
        new: &'a str,
    },
    Language {
        old: &'a str,
        new: &'a str,
    },
    PacketSize {
        old: usize,
        new: usize,
    },
    /// The stand-in's only collation, for what has none.
    Collation,
    TransactionBegun(u64),
    TransactionCommitted(u64),
    TransactionRolledBack(u64),
    /// The session was reset before the request ran.
    Reset,
    /// Log in at another server.
    Routing {
        host: &'a str,
        port: u16,
    },
}

/// Appends an ENVCHANGE token.
pub(crate) fn env_change(out: &mut Vec<u8>, change: EnvChange<'_>) {
    out.push(token::ENV_CHANGE);
    with_length(out, |out| match change {
        EnvChange::Database { old, new } => {
            out.push(1);
            put_b_varchar(out, new);
            put_b_varchar(out, old);
        }
        EnvChange::Language { old, new } => {
            out.push(2);
            put_b_varchar(out, new);
            put_b_varchar(out, old);
        }
        EnvChange::PacketSize { old, new } => {
            out.push(4);
            put_b_varchar(out, &new.to_string());
            put_b_varchar(out, &old.to_string());
        }
        EnvChange::Collation => {
            out.extend([7, 5]);
            out.extend(COLLATION);
            out.push(0);
        }
        EnvChange::TransactionBegun(descriptor) => {
            out.extend([8, 8]);
            out.extend(descriptor.to_le_bytes());
            out.push(0);
        }
        EnvChange::TransactionCommitted(descriptor) => {
            out.extend([9, 0, 8]);
            out.extend(descriptor.to_le_bytes());
        }
        EnvChange::TransactionRolledBack(descriptor) => {
            out.extend([10, 0, 8]);
            out.extend(descriptor.to_le_bytes());
        }
        EnvChange::Reset => out.extend([18, 0, 0]),
        EnvChange::Routing { host, port } => {
            out.push(20);
            with_length(out, |out| {
                // Protocol 0 is TCP.
                out.push(0);
                out.extend(port.to_le_bytes());
                put_us_varchar(out, host);
            });
            out.extend([0, 0]);
        }
    });
}

/// Appends the LOGINACK token. `version` is major, minor, build.
pub(crate) fn login_ack(out: &mut Vec<u8>, tds_version: u32, version: (u8, u8, u16)) {
    // SQL Server answers a TDS 8 login with 8.0 and everything else with what it agreed on.
    let tds_version = if tds_version == TDS_8_0 {
        TDS_8_0
    } else {
        tds_version.min(TDS_7_4)
    };
    out.push(token::LOGIN_ACK);
    with_length(out, |out| {
        // Interface 1 is T-SQL.
        out.push(1);
        out.extend(tds_version.to_be_bytes());
        put_b_varchar(out, "Microsoft SQL Server");
        let [build_hi, build_lo] = version.2.to_be_bytes();
        out.extend([version.0, version.1, build_hi, build_lo]);
    });
}

/// Appends a FEATUREEXTACK token that accepts `features`, each an id with its data.
pub(crate) fn feature_ext_ack(out: &mut Vec<u8>, features: &[(u8, &[u8])]) {
    out.push(token::FEATURE_EXT_ACK);
    for (id, data) in features {
        out.push(*id);
        out.extend((data.len() as u32).to_le_bytes());
        out.extend_from_slice(data);
    }
    out.push(0xFF);
}

/// Appends a RETURNSTATUS token.
pub(crate) fn return_status(out: &mut Vec<u8>, status: i32) {
    out.push(token::RETURN_STATUS);
    out.extend(status.to_le_bytes());
}

/// Appends a RETURNVALUE token: an output parameter of type `int`.
pub(crate) fn return_int(out: &mut Vec<u8>, ordinal: u16, name: &str, value: i32) {
    out.push(token::RETURN_VALUE);
    out.extend(ordinal.to_le_bytes());
    put_b_varchar(out, name);
    // Status 1: an output parameter. Then no user type and no flags.
    out.extend([1, 0, 0, 0, 0, 0, 0]);
    put_type_info(out, SqlType::Int, true, COLLATION);
    out.push(4);
    out.extend(value.to_le_bytes());
}

/// A column as its values are written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WireColumn {
    pub(crate) ty: SqlType,
    pub(crate) nullable: bool,
    pub(crate) collation: Collation,
}

impl WireColumn {
    /// `json` and `vector` are UTF-8 text to a client that did not say that it knows them.
    pub(crate) fn new(column: &ColumnMeta, knows: Knows) -> WireColumn {
        let unknown = match column.ty {
            SqlType::Json => !knows.json,
            SqlType::Vector(_) => !knows.vector,
            _ => false,
        };
        if unknown {
            return WireColumn {
                ty: SqlType::VarChar(Length::Max),
                nullable: column.nullable,
                collation: Collation::of_name("Latin1_General_100_BIN2_UTF8").unwrap_or_default(),
            };
        }
        WireColumn {
            ty: column.ty,
            nullable: column.nullable,
            collation: column.collation.unwrap_or_default(),
        }
    }

    fn put(&self, out: &mut Vec<u8>, value: &Value) -> Result<(), Mismatch> {
        put_value(out, self.ty, self.nullable, self.collation.page, value)
    }
}

/// Which newer types the client knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Knows {
    pub(crate) json: bool,
    pub(crate) vector: bool,
}

/// Appends a COLMETADATA token; `columns` are those of `names`.
pub(crate) fn column_metadata(out: &mut Vec<u8>, names: &[ColumnMeta], columns: &[WireColumn]) {
    out.push(token::COLUMN_METADATA);
    out.extend((columns.len() as u16).to_le_bytes());
    for (name, column) in names.iter().zip(columns) {
        // No user type; flag 0x0001 says that NULL may come.
        out.extend([0; 4]);
        out.extend(u16::from(column.nullable).to_le_bytes());
        put_type_info(out, column.ty, column.nullable, column.collation.wire);
        if column.ty.is_old_lob() {
            // The table's name, in no parts.
            out.push(0);
        }
        put_b_varchar(out, &name.name);
    }
}

/// Appends a row: a ROW token, or, when something is NULL and the client knows it, an NBCROW token.
pub(crate) fn row(
    out: &mut Vec<u8>,
    columns: &[WireColumn],
    values: &[Value],
    null_bitmap: bool,
) -> Result<(), Mismatch> {
    let compressed = null_bitmap && values.iter().any(|value| matches!(value, Value::Null));
    if !compressed {
        out.push(token::ROW);
        for (column, value) in columns.iter().zip(values) {
            column.put(out, value)?;
        }
        return Ok(());
    }
    out.push(token::NBC_ROW);
    let bitmap = out.len();
    out.resize(bitmap + columns.len().div_ceil(8), 0);
    for (at, (column, value)) in columns.iter().zip(values).enumerate() {
        if column.nullable && matches!(value, Value::Null) {
            out[bitmap + at / 8] |= 1 << (at % 8);
        } else {
            column.put(out, value)?;
        }
    }
    Ok(())
}

/// Writes what `put` appends behind its length in two bytes. Messages beyond it are cut by their own limits.
fn with_length(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0, 0]);
    put(out);
    let length = (out.len() - start - 2) as u16;
    out[start..start + 2].copy_from_slice(&length.to_le_bytes());
}

/// Text with its length in one byte, cut to 128 characters, the longest identifier.
fn put_b_varchar(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    out.push(0);
    put_utf16(out, text);
    out.truncate(start + 1 + 128 * 2);
    out[start] = ((out.len() - start - 1) / 2) as u8;
}

/// Text with its length in two bytes, cut to 2047 characters as SQL Server cuts messages.
fn put_us_varchar(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    out.extend([0, 0]);
    put_utf16(out, text);
    out.truncate(start + 2 + 2047 * 2);
    let units = ((out.len() - start - 2) / 2) as u16;
    out[start..start + 2].copy_from_slice(&units.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_nulls_is_compressed_unless_the_client_is_too_old() {
        let columns = [false, true].map(|nullable| WireColumn {
            ty: SqlType::Int,
            nullable,
            collation: Collation::default(),
        });
        let mut out = Vec::new();
        row(&mut out, &columns, &[Value::Int(1), Value::Null], true).unwrap();
        assert_eq!(out, [0xD2, 0b10, 1, 0, 0, 0]);
        out.clear();
        row(&mut out, &columns, &[Value::Int(1), Value::Null], false).unwrap();
        assert_eq!(out, [0xD1, 1, 0, 0, 0, 0]);
        out.clear();
        row(&mut out, &columns, &[Value::Int(1), Value::Int(2)], true).unwrap();
        assert_eq!(out, [0xD1, 1, 0, 0, 0, 4, 2, 0, 0, 0]);
    }

    #[test]
    fn done_says_more_error_and_count() {
        let mut out = Vec::new();
        let token = Done {
            kind: DoneKind::InProcedure,
            rows: Some(258),
            select: true,
            error: true,
        };
        done(&mut out, token, true);
        assert_eq!(out, [0xFF, 0x13, 0, 0xC1, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_long_message_is_cut_and_its_lengths_are_right() {
        let long = SqlError {
            number: 50000,
            state: 1,
            class: 16,
            message: "x".repeat(5000),
            line: 3,
            procedure: String::new(),
        };
        let mut out = Vec::new();
        error(&mut out, &long, "srv");
        assert_eq!(usize::from(u16::from_le_bytes([out[1], out[2]])), out.len() - 3);
        assert_eq!(u16::from_le_bytes([out[9], out[10]]), 2047);
    }
}
