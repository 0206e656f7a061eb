//! The row sink: rows of a table of every type, pushed in any order, with any values.

use std::borrow::Cow;
use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use arrow::datatypes::{DataType, TimeUnit};
use mssql_tds::datatypes::column_values::{
    SqlDate, SqlDateTime, SqlDateTime2, SqlDateTimeOffset, SqlMoney, SqlSmallDateTime, SqlSmallMoney, SqlTime, SqlXml,
};
use mssql_tds::datatypes::decoder::DecimalParts;
use mssql_tds::datatypes::row_writer::RowWriter;
use mssql_tds::datatypes::sql_json::SqlJson;
use mssql_tds::datatypes::sql_string::EncodingType;
use mssql_tds::datatypes::sql_vector::SqlVector;
use mssql_tds::token::tokens::SqlCollation;
use sluice::batch::{ChunkBuilder, CommitTimes};
use sluice::identity::CaptureInstance;
use sluice::lsn::Lsn;
use sluice::shape::{ColumnShape, Recorded, TableShape};
use sluice::source::RowSink;

/// Metadata columns before the captured ones.
pub(super) const META: usize = 4;

/// Commits that the sink knows.
const COMMITS: u8 = 4;

fn lsn(n: u8) -> Lsn {
    Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, n])
}

/// A sink for a table of these columns.
pub(super) fn of(columns: &[(&str, DataType, Recorded)]) -> Option<RowSink> {
    let shape = TableShape {
        schema: "dbo".to_owned(),
        table: "t".to_owned(),
        capture_instance: CaptureInstance("dbo_t".to_owned()),
        has_command_id: true,
        columns: columns
            .iter()
            .map(|(name, data_type, recorded)| ColumnShape {
                name: (*name).to_owned(),
                source_type: "x".to_owned(),
                data_type: data_type.clone(),
                key: None,
                recorded: *recorded,
            })
            .collect(),
    };
    let times = CommitTimes::new(
        (0..COMMITS).map(|n| (lsn(n), i64::from(n))).collect(),
        sluice::clock::Clock::Fixed(0),
        &sluice::clock::Repeated::default(),
        None,
    );
    let chunk = ChunkBuilder::new(&shape, Arc::new(times), 8, 1 << 16).ok()?;
    Some(RowSink::new(chunk))
}

/// The metadata of a row.
pub(super) fn lead(sink: &mut RowSink, operation: i32) {
    sink.write_bytes(0, Cow::Borrowed(&lsn(1).0));
    sink.write_i32(1, 1);
    sink.write_bytes(2, Cow::Borrowed(&lsn(1).0));
    sink.write_i32(3, operation);
}

/// Bytes are taken for rows until they end.
pub fn run(data: &[u8]) {
    let timestamp = |zone: Option<Arc<str>>| DataType::Timestamp(TimeUnit::Microsecond, zone);
    let columns = [
        ("bit", DataType::Boolean, Recorded::Always),
        ("small", DataType::Int16, Recorded::Always),
        ("int", DataType::Int32, Recorded::Always),
        ("big", DataType::Int64, Recorded::Never),
        ("real", DataType::Float32, Recorded::Always),
        ("float", DataType::Float64, Recorded::Always),
        ("decimal", DataType::Decimal128(38, 10), Recorded::Always),
        ("money", DataType::Decimal128(19, 4), Recorded::Always),
        ("date", DataType::Date32, Recorded::Always),
        ("local", timestamp(None), Recorded::Always),
        ("utc", timestamp(Some("UTC".into())), Recorded::Always),
        ("text", DataType::Utf8, Recorded::After),
        ("max", DataType::Utf8, Recorded::Changed { ordinal: 13 }),
        ("binary", DataType::Binary, Recorded::Changed { ordinal: 14 }),
    ];
    let Some(mut sink) = of(&columns) else {
        return;
    };
    let mut bytes = Unstructured::new(data);
    let mut rows = 0;
    while !bytes.is_empty() && rows < 100 {
        if row(&mut sink, &mut bytes, columns.len()).is_err() {
            break;
        }
        rows += 1;
        if sink.chunk.is_full() && check(&mut sink).is_none() {
            return;
        }
    }
    check(&mut sink);
}

/// Takes the chunk, which agrees with itself. `None` after an error, which ends a read.
fn check(sink: &mut RowSink) -> Option<()> {
    if let Some(chunk) = sink.chunk.take().ok()? {
        let rows = chunk.batch.num_rows();
        assert!(chunk.inserts + chunk.updates + chunk.deletes <= rows as u64);
        assert!(chunk.omitted.iter().all(|(_, omitted)| omitted.len() == rows));
        assert!(chunk.first_lsn <= chunk.last_lsn || rows > 1);
    }
    Some(())
}

/// A row: mostly well-formed metadata, then values of any type in mostly the right columns.
fn row(sink: &mut RowSink, bytes: &mut Unstructured<'_>, columns: usize) -> Result<()> {
    if bytes.ratio(15, 16)? {
        let commit = lsn(bytes.int_in_range(0..=COMMITS)?);
        sink.write_bytes(0, Cow::Borrowed(&commit.0));
        match bytes.arbitrary::<bool>()? {
            true => sink.write_i32(1, bytes.arbitrary()?),
            false => sink.write_null(1),
        }
        sink.write_bytes(2, Cow::Borrowed(&commit.0));
        sink.write_i32(3, bytes.int_in_range(0..=5)?);
    }
    for column in META..=META + columns {
        let column = match bytes.ratio(1, 64)? {
            true => usize::from(bytes.arbitrary::<u8>()?),
            false => column,
        };
        match bytes.ratio(7, 8)? && column >= META {
            true => fitting(sink, bytes, column)?,
            false => any(sink, bytes, column)?,
        }
    }
    sink.end_row();
    Ok(())
}

/// A value of the column's own type.
fn fitting(sink: &mut RowSink, bytes: &mut Unstructured<'_>, column: usize) -> Result<()> {
    if bytes.ratio(1, 4)? {
        sink.write_null(column);
        return Ok(());
    }
    match column - META {
        0 => sink.write_bool(column, bytes.arbitrary()?),
        1 => sink.write_i16(column, bytes.arbitrary()?),
        2 => sink.write_i32(column, bytes.arbitrary()?),
        3 => sink.write_i64(column, bytes.arbitrary()?),
        4 => sink.write_f32(column, bytes.arbitrary()?),
        5 => sink.write_f64(column, bytes.arbitrary()?),
        6 => sink.write_decimal(column, decimal(bytes, 10)?),
        7 => sink.write_money(
            column,
            SqlMoney {
                lsb_part: bytes.arbitrary()?,
                msb_part: bytes.arbitrary()?,
            },
        ),
        8 => date(sink, bytes, column)?,
        9 => sink.write_datetime2(column, datetime2(bytes)?),
        10 => {
            let (datetime2, offset) = (datetime2(bytes)?, bytes.arbitrary()?);
            sink.write_datetimeoffset(column, SqlDateTimeOffset { datetime2, offset });
        }
        11 | 12 => text(sink, bytes, column)?,
        _ => sink.write_bytes(column, Cow::Borrowed(some_bytes(bytes)?)),
    }
    Ok(())
}

/// A value of any type.
fn any(sink: &mut RowSink, bytes: &mut Unstructured<'_>, column: usize) -> Result<()> {
    match bytes.int_in_range(0..=22)? {
        0 => sink.write_null(column),
        1 => sink.write_bool(column, bytes.arbitrary()?),
        2 => sink.write_u8(column, bytes.arbitrary()?),
        3 => sink.write_i16(column, bytes.arbitrary()?),
        4 => sink.write_i32(column, bytes.arbitrary()?),
        5 => sink.write_i64(column, bytes.arbitrary()?),
        6 => sink.write_f32(column, bytes.arbitrary()?),
        7 => sink.write_f64(column, bytes.arbitrary()?),
        8 => text(sink, bytes, column)?,
        9 => sink.write_bytes(column, Cow::Borrowed(some_bytes(bytes)?)),
        10 => {
            let scale = bytes.arbitrary()?;
            sink.write_decimal(column, decimal(bytes, scale)?);
        }
        11 => sink.write_numeric(column, decimal(bytes, 4)?),
        12 => date(sink, bytes, column)?,
        13 => sink.write_time(column, time(bytes)?),
        14 => {
            let (days, time) = (bytes.arbitrary()?, bytes.arbitrary()?);
            sink.write_datetime(column, SqlDateTime { days, time });
        }
        15 => {
            let (days, time) = (bytes.arbitrary()?, bytes.arbitrary()?);
            sink.write_smalldatetime(column, SqlSmallDateTime { days, time });
        }
        16 => sink.write_datetime2(column, datetime2(bytes)?),
        17 => {
            let (datetime2, offset) = (datetime2(bytes)?, bytes.arbitrary()?);
            sink.write_datetimeoffset(column, SqlDateTimeOffset { datetime2, offset });
        }
        18 => {
            let int_val = bytes.arbitrary()?;
            sink.write_smallmoney(column, SqlSmallMoney { int_val });
        }
        19 => sink.write_uuid(column, uuid::Uuid::from_bytes(bytes.arbitrary()?)),
        20 => {
            let bytes = some_bytes(bytes)?.to_vec();
            sink.write_xml(column, SqlXml { bytes });
        }
        21 => sink.write_json(column, SqlJson::new(some_bytes(bytes)?.to_vec())),
        _ => {
            let elements: Vec<f32> = bytes.arbitrary_iter()?.take(20).collect::<Result<_>>()?;
            if let Ok(vector) = SqlVector::try_from_f32(elements) {
                sink.write_vector(column, vector);
            }
        }
    }
    Ok(())
}

fn text(sink: &mut RowSink, bytes: &mut Unstructured<'_>, column: usize) -> Result<()> {
    let encoding = match bytes.int_in_range(0..=4)? {
        0 => EncodingType::Utf16,
        1 => EncodingType::Utf8,
        2 => EncodingType::DelayedSet,
        _ => match SqlCollation::try_from(bytes.bytes(5)?) {
            Ok(collation) => EncodingType::LcidBased(collation),
            Err(_) => EncodingType::Utf8,
        },
    };
    sink.write_string(column, Cow::Borrowed(some_bytes(bytes)?), encoding);
    Ok(())
}

fn date(sink: &mut RowSink, bytes: &mut Unstructured<'_>, column: usize) -> Result<()> {
    match SqlDate::create(bytes.arbitrary()?) {
        Ok(date) => sink.write_date(column, date),
        Err(_) => sink.write_null(column),
    }
    Ok(())
}

fn decimal(bytes: &mut Unstructured<'_>, scale: u8) -> Result<DecimalParts> {
    Ok(DecimalParts::new(bytes.arbitrary()?, 38, scale, bytes.arbitrary()?))
}

fn time(bytes: &mut Unstructured<'_>) -> Result<SqlTime> {
    Ok(SqlTime {
        time_nanoseconds: bytes.arbitrary()?,
        scale: bytes.arbitrary()?,
    })
}

fn datetime2(bytes: &mut Unstructured<'_>) -> Result<SqlDateTime2> {
    Ok(SqlDateTime2 {
        days: bytes.arbitrary()?,
        time: time(bytes)?,
    })
}

fn some_bytes<'a>(bytes: &mut Unstructured<'a>) -> Result<&'a [u8]> {
    let length = bytes.int_in_range(0..=64_usize)?.min(bytes.len());
    bytes.bytes(length)
}
