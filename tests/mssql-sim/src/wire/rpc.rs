//! Remote procedure calls as they come: a procedure and its typed parameters.

use mssql_sim_engine::value::{SqlType, Value};

use super::reader::{Parsed, Reader, malformed, utf16};
use super::typeinfo::read_type_info;
use super::values::read_value;

/// What is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Procedure {
    /// One of the procedures that have a number.
    Id(u16),
    Name(String),
}

/// Numbers of [MS-TDS] 2.2.6.6.
pub(crate) mod proc_id {
    pub(crate) const EXECUTE_SQL: u16 = 10;
    pub(crate) const PREPARE: u16 = 11;
    pub(crate) const EXECUTE: u16 = 12;
    pub(crate) const PREP_EXEC: u16 = 13;
    pub(crate) const UNPREPARE: u16 = 15;
}

/// One argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    /// With its `@`, or empty for one that goes by its position.
    pub(crate) name: String,
    /// The caller wants the value back.
    pub(crate) output: bool,
    /// `int` for a bare NULL, whose type says nothing.
    pub(crate) ty: SqlType,
    /// The procedure's own default applies; there is no value.
    pub(crate) default: bool,
    pub(crate) value: Value,
}

/// One call of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) procedure: Procedure,
    pub(crate) arguments: Vec<Argument>,
}

const STATUS_BY_REFERENCE: u8 = 0x01;
const STATUS_DEFAULT: u8 = 0x02;
const STATUS_ENCRYPTED: u8 = 0x08;
/// What separates calls: they end a request's arguments, and no argument's name is that long.
const SEPARATORS: [u8; 2] = [0xFF, 0xFE];

/// The text of an SQL batch message.
pub(crate) fn parse_batch(body: &[u8]) -> Parsed<String> {
    let mut reader = Reader::new(body);
    skip_headers(&mut reader)?;
    let text = reader.bytes(reader.remaining())?;
    if text.len() % 2 != 0 {
        return malformed("the text of the batch ends in half a character");
    }
    Ok(utf16(text))
}

/// The calls of an RPC message.
pub(crate) fn parse_calls(body: &[u8]) -> Parsed<Vec<Call>> {
    let mut reader = Reader::new(body);
    skip_headers(&mut reader)?;
    let mut calls = Vec::new();
    while !reader.is_empty() {
        let procedure = match reader.u16()? {
            0xFFFF => Procedure::Id(reader.u16()?),
            units => Procedure::Name(utf16(reader.bytes(usize::from(units) * 2)?)),
        };
        let _options = reader.u16()?;
        let mut arguments = Vec::new();
        while let Some(next) = reader.peek() {
            if SEPARATORS.contains(&next) {
                reader.u8()?;
                break;
            }
            arguments.push(parse_argument(&mut reader)?);
        }
        calls.push(Call { procedure, arguments });
    }
    Ok(calls)
}

/// What a transaction manager request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TransactionRequest {
    Begin { isolation: u8, name: String },
    Commit { name: String, then_begin: bool },
    Rollback { name: String, then_begin: bool },
    Save { name: String },
}

/// Reads a transaction manager request.
pub(crate) fn parse_transaction(body: &[u8]) -> Parsed<TransactionRequest> {
    let mut reader = Reader::new(body);
    skip_headers(&mut reader)?;
    let request = reader.u16()?;
    if request == 5 {
        return Ok(TransactionRequest::Begin {
            isolation: reader.u8()?,
            name: name(&mut reader)?,
        });
    }
    let name = name(&mut reader)?;
    if request == 9 {
        return Ok(TransactionRequest::Save { name });
    }
    let then_begin = !reader.is_empty() && reader.u8()? & 1 != 0;
    match request {
        7 => Ok(TransactionRequest::Commit { name, then_begin }),
        8 => Ok(TransactionRequest::Rollback { name, then_begin }),
        other => malformed(format!("transaction manager request {other} is not supported")),
    }
}

/// A name with its length in bytes in front.
fn name(reader: &mut Reader<'_>) -> Parsed<String> {
    let bytes = usize::from(reader.u8()?);
    Ok(utf16(reader.bytes(bytes)?))
}

fn parse_argument(reader: &mut Reader<'_>) -> Parsed<Argument> {
    let name = reader.b_varchar()?;
    let status = reader.u8()?;
    if status & STATUS_ENCRYPTED != 0 {
        return malformed("encrypted parameters are not supported");
    }
    let param = read_type_info(reader)?;
    let value = read_value(reader, param)?;
    Ok(Argument {
        name,
        output: status & STATUS_BY_REFERENCE != 0,
        ty: param.ty,
        default: status & STATUS_DEFAULT != 0,
        value,
    })
}

/// Skips ALL_HEADERS: their length, itself included, comes first.
fn skip_headers(reader: &mut Reader<'_>) -> Parsed<()> {
    let length = reader.u32()? as usize;
    if length < 4 {
        return malformed("the headers of the request are shorter than their length");
    }
    reader.bytes(length - 4)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    fn headers() -> Vec<u8> {
        let mut out = vec![22, 0, 0, 0, 18, 0, 0, 0, 2, 0];
        out.extend([0; 12]);
        out
    }

    #[test]
    fn a_batch_is_the_text_behind_its_headers() {
        let mut body = headers();
        body.extend(wide("SELECT N'😀'"));
        assert_eq!(parse_batch(&body).unwrap(), "SELECT N'😀'");
    }

    #[test]
    fn two_calls_in_one_request() {
        let mut body = headers();
        body.extend([0xFF, 0xFF, 10, 0, 0, 0]);
        body.extend([2]);
        body.extend(wide("@a"));
        body.extend([1, 0x26, 4, 4, 7, 0, 0, 0]);
        body.push(0xFF);
        body.extend([3, 0]);
        body.extend(wide("foo"));
        body.extend([0, 0]);
        body.extend([0, 0, 0x1F]);
        let calls = parse_calls(&body).unwrap();
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0].procedure, Procedure::Id(10));
        let argument = &calls[0].arguments[0];
        assert_eq!(
            (argument.name.as_str(), argument.output, &argument.value),
            ("@a", true, &Value::Int(7))
        );
        assert_eq!(calls[1].procedure, Procedure::Name("foo".into()));
        assert_eq!(calls[1].arguments[0].value, Value::Null);
    }

    #[test]
    fn a_cut_request_is_refused() {
        let mut body = headers();
        body.extend([0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0x26, 4, 4, 7]);
        assert!(parse_calls(&body).is_err());
        assert!(parse_batch(&[1, 0, 0, 0]).is_err());
    }
}
