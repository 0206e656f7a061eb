//! The driver's values, on their way to the chunk: from its types to ours, and nothing else.

use std::borrow::Cow;

use mssql_tds::datatypes::column_values::{
    SqlDate, SqlDateTime, SqlDateTime2, SqlDateTimeOffset, SqlMoney, SqlSmallDateTime, SqlSmallMoney, SqlTime, SqlXml,
};
use mssql_tds::datatypes::decoder::DecimalParts;
use mssql_tds::datatypes::row_writer::RowWriter;
use mssql_tds::datatypes::sql_json::SqlJson;
use mssql_tds::datatypes::sql_string::EncodingType;
use mssql_tds::datatypes::sql_vector::SqlVector;
use mssql_tds::token::tokens::SqlCollation;
use uuid::Uuid;

use super::code_page;
use crate::batch::{ChunkBuilder, TextEncoding};

/// Days from 0001-01-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_162;
/// Days from 1900-01-01 to 1970-01-01.
const DAYS_1900_TO_1970: i64 = 25_567;
/// 9999-12-31, in days since 0001-01-01.
const LAST_DAY: u32 = 3_652_058;
const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Units of 100 ns.
const TICKS_PER_DAY: u64 = 864_000_000_000;
/// Days from 1900-01-01 back to 1753-01-01 and on to 9999-12-31: the range of `datetime`.
const DATETIME_DAYS: std::ops::RangeInclusive<i32> = -53_690..=2_958_463;
/// Units of 1/300 s.
const DATETIME_UNITS_PER_DAY: u32 = 25_920_000;

/// Takes the rows that the driver decodes. What a type of SQL Server cannot hold is an error of the column, so that no bytes
/// off the wire can become a date that wraps, or a time of a 25th hour.
pub struct RowSink {
    /// Where the values go.
    pub chunk: ChunkBuilder,
    /// The collation that was seen last, with its encoding: columns of one table mostly share it.
    encoding: Option<(SqlCollation, Option<TextEncoding>)>,
}

impl RowSink {
    /// A sink for the rows of one result set.
    pub fn new(chunk: ChunkBuilder) -> RowSink {
        RowSink { chunk, encoding: None }
    }

    fn encoding_of(&mut self, collation: SqlCollation) -> Option<TextEncoding> {
        match self.encoding {
            Some((known, encoding)) if known == collation => encoding,
            _ => {
                let encoding = code_page::encoding(collation);
                self.encoding = Some((collation, encoding));
                encoding
            }
        }
    }
}

/// Microseconds since 1970-01-01, truncated: 9999-12-31 23:59:59.9999999 stays in its day. `None`: no such instant.
fn micros(value: &SqlDateTime2) -> Option<i64> {
    let ticks = value.time.time_nanoseconds;
    if value.days > LAST_DAY || ticks >= TICKS_PER_DAY {
        return None;
    }
    Some((i64::from(value.days) - DAYS_TO_1970) * MICROS_PER_DAY + (ticks / 10) as i64)
}

/// `HH:MM:SS` with as many digits of a second as the type has. `None`: no such time of day.
fn time_text(value: &SqlTime) -> Option<String> {
    // Despite its name, the field counts units of 100 ns.
    let ticks = value.time_nanoseconds;
    if ticks >= TICKS_PER_DAY {
        return None;
    }
    let (seconds, fraction) = (ticks / 10_000_000, ticks % 10_000_000);
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if value.scale > 0 {
        let digits = format!("{fraction:07}");
        text.push('.');
        text.push_str(&digits[..usize::from(value.scale.min(7))]);
    }
    Some(text)
}

/// A vector as a JSON array: each element in the fewest digits that give it back. `None`: an element is no number.
fn vector_text(elements: &[f32]) -> Option<String> {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 + elements.len() * 8);
    text.push('[');
    for (position, element) in elements.iter().enumerate() {
        if !element.is_finite() {
            return None;
        }
        if position > 0 {
            text.push(',');
        }
        let _ = write!(text, "{element:?}");
    }
    text.push(']');
    Some(text)
}

impl RowWriter for RowSink {
    fn write_null(&mut self, col: usize) {
        self.chunk.push_null(col);
    }

    fn write_bool(&mut self, col: usize, val: bool) {
        self.chunk.push_bool(col, val);
    }

    fn write_u8(&mut self, col: usize, val: u8) {
        self.chunk.push_i16(col, i16::from(val));
    }

    fn write_i16(&mut self, col: usize, val: i16) {
        self.chunk.push_i16(col, val);
    }

    fn write_i32(&mut self, col: usize, val: i32) {
        self.chunk.push_i32(col, val);
    }

    fn write_i64(&mut self, col: usize, val: i64) {
        self.chunk.push_i64(col, val);
    }

    fn write_f32(&mut self, col: usize, val: f32) {
        self.chunk.push_f32(col, val);
    }

    fn write_f64(&mut self, col: usize, val: f64) {
        self.chunk.push_f64(col, val);
    }

    fn write_string(&mut self, col: usize, bytes: Cow<'_, [u8]>, encoding_type: EncodingType) {
        let encoding = match encoding_type {
            EncodingType::Utf16 => Some(TextEncoding::Utf16),
            EncodingType::Utf8 => Some(TextEncoding::Utf8),
            EncodingType::LcidBased(collation) => self.encoding_of(collation),
            EncodingType::DelayedSet => None,
        };
        match encoding {
            Some(encoding) => self.chunk.push_text(col, &bytes, encoding),
            None => self.chunk.push_unknown_collation(col),
        }
    }

    fn write_bytes(&mut self, col: usize, bytes: Cow<'_, [u8]>) {
        self.chunk.push_bytes(col, &bytes);
    }

    fn write_decimal(&mut self, col: usize, val: DecimalParts) {
        match i128::try_from(val.magnitude()) {
            Ok(magnitude) => {
                let value = if val.is_positive { magnitude } else { -magnitude };
                self.chunk.push_decimal(col, value, val.scale);
            }
            Err(_) => self.chunk.push_out_of_range(col),
        }
    }

    fn write_numeric(&mut self, col: usize, val: DecimalParts) {
        self.write_decimal(col, val);
    }

    fn write_date(&mut self, col: usize, val: SqlDate) {
        match val.get_days() {
            days @ 0..=LAST_DAY => self.chunk.push_date(col, (i64::from(days) - DAYS_TO_1970) as i32),
            _ => self.chunk.push_out_of_range(col),
        }
    }

    fn write_time(&mut self, col: usize, val: SqlTime) {
        match time_text(&val) {
            Some(text) => self.chunk.push_text(col, text.as_bytes(), TextEncoding::Utf8),
            None => self.chunk.push_out_of_range(col),
        }
    }

    fn write_datetime(&mut self, col: usize, val: SqlDateTime) {
        if !DATETIME_DAYS.contains(&val.days) || val.time >= DATETIME_UNITS_PER_DAY {
            return self.chunk.push_out_of_range(col);
        }
        // SQL Server shows the nearest millisecond of its 1/300 s.
        let millis = (i64::from(val.time) * 10 + 1) / 3;
        let days = i64::from(val.days) - DAYS_1900_TO_1970;
        self.chunk
            .push_timestamp_ntz(col, days * MICROS_PER_DAY + millis * 1000);
    }

    fn write_smalldatetime(&mut self, col: usize, val: SqlSmallDateTime) {
        if val.time >= 24 * 60 {
            return self.chunk.push_out_of_range(col);
        }
        let days = i64::from(val.days) - DAYS_1900_TO_1970;
        self.chunk
            .push_timestamp_ntz(col, days * MICROS_PER_DAY + i64::from(val.time) * 60_000_000);
    }

    fn write_datetime2(&mut self, col: usize, val: SqlDateTime2) {
        match micros(&val) {
            Some(micros) => self.chunk.push_timestamp_ntz(col, micros),
            None => self.chunk.push_out_of_range(col),
        }
    }

    fn write_datetimeoffset(&mut self, col: usize, val: SqlDateTimeOffset) {
        // The wire has UTC already; the offset says how the server shows it.
        match micros(&val.datetime2) {
            Some(micros) => self.chunk.push_timestamp_utc(col, micros),
            None => self.chunk.push_out_of_range(col),
        }
    }

    fn write_money(&mut self, col: usize, val: SqlMoney) {
        let units = (i64::from(val.msb_part) << 32) | i64::from(val.lsb_part as u32);
        self.chunk.push_decimal(col, i128::from(units), 4);
    }

    fn write_smallmoney(&mut self, col: usize, val: SqlSmallMoney) {
        self.chunk.push_decimal(col, i128::from(val.int_val), 4);
    }

    fn write_uuid(&mut self, col: usize, val: Uuid) {
        let mut buffer = Uuid::encode_buffer();
        let text = val.hyphenated().encode_upper(&mut buffer);
        self.chunk.push_text(col, text.as_bytes(), TextEncoding::Utf8);
    }

    fn write_xml(&mut self, col: usize, val: SqlXml) {
        let bytes = val.bytes.strip_prefix(&[0xFF, 0xFE]).unwrap_or(&val.bytes);
        self.chunk.push_text(col, bytes, TextEncoding::Utf16);
    }

    fn write_json(&mut self, col: usize, val: SqlJson) {
        self.chunk.push_text(col, &val.bytes, TextEncoding::Utf8);
    }

    fn write_vector(&mut self, col: usize, val: SqlVector) {
        match val.as_f32().and_then(vector_text) {
            Some(text) => self.chunk.push_text(col, text.as_bytes(), TextEncoding::Utf8),
            None => self.chunk.push_out_of_range(col),
        }
    }

    fn end_row(&mut self) {
        self.chunk.end_row();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};

    use super::*;
    use crate::batch::{BatchError, Chunk, CommitTimes};
    use crate::identity::CaptureInstance;
    use crate::lsn::Lsn;
    use crate::shape::{ColumnShape, Recorded, TableShape};

    fn lsn() -> Lsn {
        Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, 1])
    }

    /// One row of one captured column.
    fn one(data_type: DataType, write: impl FnOnce(&mut RowSink)) -> Result<Chunk, BatchError> {
        let shape = TableShape {
            schema: "dbo".to_owned(),
            table: "t".to_owned(),
            capture_instance: CaptureInstance("dbo_t".to_owned()),
            has_command_id: true,
            columns: vec![ColumnShape {
                name: "v".to_owned(),
                source_type: "a type".to_owned(),
                data_type,
                key: None,
                recorded: Recorded::Always,
            }],
        };
        let times = CommitTimes::new(
            vec![(lsn(), 0)],
            crate::clock::Clock::Fixed(0),
            &crate::clock::Repeated::default(),
            None,
        );
        let mut sink = RowSink::new(ChunkBuilder::new(&shape, Arc::new(times), 10, 1000).unwrap());
        sink.write_bytes(0, Cow::Borrowed(&lsn().0));
        sink.write_i32(1, 1);
        sink.write_bytes(2, Cow::Borrowed(&lsn().0));
        sink.write_i32(3, 2);
        write(&mut sink);
        sink.end_row();
        sink.chunk.take().map(|chunk| chunk.unwrap())
    }

    fn text(write: impl FnOnce(&mut RowSink)) -> String {
        let chunk = one(DataType::Utf8, write).unwrap();
        chunk.batch.column(6).as_string::<i32>().value(0).to_owned()
    }

    fn datetime2(days: u32, ticks: u64) -> SqlDateTime2 {
        SqlDateTime2 {
            days,
            time: SqlTime {
                time_nanoseconds: ticks,
                scale: 7,
            },
        }
    }

    #[test]
    fn the_first_and_the_last_instant_are_held_and_the_ones_beyond_are_reported() {
        let utc = || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for (days, ticks, micros) in [
            (0, 0, Some(-62_135_596_800_000_000)),
            (LAST_DAY, TICKS_PER_DAY - 1, Some(253_402_300_799_999_999)),
            (LAST_DAY + 1, 0, None),
            (0xFF_FFFF, 0, None),
            (0, TICKS_PER_DAY, None),
        ] {
            let made = one(utc(), |sink| {
                let datetime2 = datetime2(days, ticks);
                sink.write_datetimeoffset(
                    4,
                    SqlDateTimeOffset {
                        datetime2,
                        offset: -840,
                    },
                );
            });
            match micros {
                Some(micros) => {
                    let chunk = made.unwrap();
                    let column = chunk.batch.column(6).as_primitive::<TimestampMicrosecondType>();
                    assert_eq!((column.value(0), column.is_null(0)), (micros, false));
                }
                None => assert!(matches!(made, Err(BatchError::OutOfRange { .. })), "{days} {ticks}"),
            }
        }
        let ntz = || DataType::Timestamp(TimeUnit::Microsecond, None);
        let outside = [
            one(ntz(), |sink| sink.write_datetime2(4, datetime2(LAST_DAY + 1, 0))),
            one(ntz(), |sink| {
                sink.write_datetime(
                    4,
                    SqlDateTime {
                        days: i32::MAX,
                        time: 0,
                    },
                )
            }),
            one(ntz(), |sink| {
                sink.write_datetime(
                    4,
                    SqlDateTime {
                        days: 0,
                        time: DATETIME_UNITS_PER_DAY,
                    },
                )
            }),
            one(ntz(), |sink| {
                sink.write_smalldatetime(4, SqlSmallDateTime { days: 0, time: 1440 })
            }),
            one(DataType::Utf8, |sink| {
                sink.write_time(4, datetime2(0, TICKS_PER_DAY).time)
            }),
        ];
        for made in outside {
            assert!(matches!(made, Err(BatchError::OutOfRange { .. })));
        }
    }

    #[test]
    fn json_vectors_and_xml_are_text() {
        let json = "{\"a\":[1,\"é\"]}";
        assert_eq!(text(|sink| sink.write_json(4, SqlJson::new(json.into()))), json);
        let vector = SqlVector::try_from_f32(vec![1.0, -0.1, 1e30, 0.0]).unwrap();
        assert_eq!(text(|sink| sink.write_vector(4, vector)), "[1.0,-0.1,1e30,0.0]");
        let infinite = SqlVector::try_from_f32(vec![f32::INFINITY]).unwrap();
        let made = one(DataType::Utf8, |sink| sink.write_vector(4, infinite));
        assert!(matches!(made, Err(BatchError::OutOfRange { .. })));
        let xml: Vec<u8> = [0xFF, 0xFE]
            .into_iter()
            .chain("<a>é</a>".encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        assert_eq!(text(|sink| sink.write_xml(4, SqlXml { bytes: xml })), "<a>é</a>");
    }

    #[test]
    fn invalid_json_text_is_counted() {
        let chunk = one(DataType::Utf8, |sink| {
            sink.write_json(4, SqlJson::new(b"\"\xFF\"".to_vec()))
        })
        .unwrap();
        assert_eq!(chunk.replaced, [1]);
    }

    #[test]
    fn a_collation_that_nobody_knows_is_an_error_and_not_windows_1252() {
        let hindi = SqlCollation::try_from([0x39, 0x04, 0, 0, 0].as_slice()).unwrap();
        let made = one(DataType::Utf8, |sink| {
            sink.write_string(4, Cow::Borrowed(b"x"), EncodingType::LcidBased(hindi));
        });
        assert!(matches!(made, Err(BatchError::UnknownCollation { .. })));
    }
}
