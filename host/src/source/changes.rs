//! Change rows, off the wire into chunks.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mssql_tds::connection::tds_client::{BufferedRowPoll, ResultSet as _, StatementResult, TdsClient};
use mssql_tds::datatypes::column_values::{
    ColumnValues, SqlDate, SqlDateTime, SqlDateTime2, SqlDateTimeOffset, SqlMoney, SqlSmallDateTime, SqlSmallMoney,
    SqlTime, SqlXml,
};
use mssql_tds::datatypes::decoder::DecimalParts;
use mssql_tds::datatypes::row_writer::RowWriter;
use mssql_tds::datatypes::sql_json::SqlJson;
use mssql_tds::datatypes::sql_string::EncodingType;
use mssql_tds::datatypes::sql_vector::SqlVector;
use mssql_tds::datatypes::sqltypes::SqlType;
use mssql_tds::message::parameters::rpc_parameters::{RpcParameter, StatusFlags};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::bounds::{self, Bounds, Wanted};
use super::error::SourceError;
use super::quote;
use super::stream_pool::StreamPool;
use super::table::SourceInstance;
use crate::batch::{Chunk, ChunkBuilder, CommitTimes, LEADING_COLUMNS, TextEncoding};
use crate::lsn::Lsn;
use crate::shape::TableShape;

const DOING: &str = "reading change rows";
/// Days from 0001-01-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_162;
/// Days from 1900-01-01 to 1970-01-01.
const DAYS_1900_TO_1970: i64 = 25_567;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Where a chunk ends.
#[derive(Debug, Clone, Copy)]
pub struct ChunkLimits {
    /// Rows.
    pub rows: usize,
    /// Bytes before encoding.
    pub bytes: usize,
}

/// What a read cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadStats {
    /// Rows read.
    pub rows: u64,
    /// Time in which the reader waited for the network.
    pub network_wait: Duration,
    /// Bytes of the rows, before encoding.
    pub bytes: u64,
    /// Time in which full chunks waited to be taken.
    pub handing_over: Duration,
}

impl ReadStats {
    /// Adds what another part of the range cost. Parts are read at the same time, so their waits are not added up.
    pub fn add(&mut self, part: ReadStats) {
        self.rows += part.rows;
        self.bytes += part.bytes;
        self.network_wait = self.network_wait.max(part.network_wait);
        self.handing_over = self.handing_over.max(part.handing_over);
    }
}

/// Reads the change rows of one table.
pub struct ChangeReader {
    pool: StreamPool,
    shape: Arc<TableShape>,
    statement: String,
}

impl ChangeReader {
    /// A reader of one capture instance. Its chunks have the columns of `shape`; those that the instance does not capture are
    /// NULL in them.
    pub fn new(pool: StreamPool, shape: &TableShape, instance: &SourceInstance) -> ChangeReader {
        let shape = Arc::new(TableShape {
            capture_instance: instance.name.clone(),
            ..shape.clone()
        });
        let columns: Vec<String> = LEADING_COLUMNS
            .iter()
            .map(|name| quote::name(name))
            .chain(shape.columns.iter().map(|column| {
                let name = quote::name(&column.name);
                match instance.captures(&column.name) {
                    true => name,
                    false => format!("NULL AS {name}"),
                }
            }))
            .collect();
        let statement = format!(
            "SELECT {} FROM {} WHERE [__$start_lsn] >= @from AND [__$start_lsn] <= @to \
             ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]",
            columns.join(", "),
            quote::change_table(&shape.capture_instance.0)
        );
        ChangeReader { pool, shape, statement }
    }

    /// The statement that is sent, for people to read.
    pub fn statement(&self) -> &str {
        &self.statement
    }

    /// Reads the range, in order, and sends it on in chunks. An error when the server does not have all of it, before or
    /// after the read; chunks that were sent until then are void. Ends early, without an error, when nobody takes them
    /// any more.
    pub async fn read(
        &self,
        wanted: Wanted,
        commit_times: Arc<CommitTimes>,
        limits: ChunkLimits,
        out: mpsc::Sender<Chunk>,
    ) -> Result<ReadStats, SourceError> {
        self.read_whole(wanted, commit_times, limits, out)
            .await
            .map_err(|error| error.with_grant(&self.shape.capture_instance, self.pool.user()))
    }

    async fn read_whole(
        &self,
        wanted: Wanted,
        commit_times: Arc<CommitTimes>,
        limits: ChunkLimits,
        out: mpsc::Sender<Chunk>,
    ) -> Result<ReadStats, SourceError> {
        let mut connection = self.pool.get().await?;
        let silence = self.pool.silence();
        let mut stats = ReadStats::default();
        let mut sink = RowSink {
            chunk: ChunkBuilder::new(&self.shape, commit_times, limits.rows, limits.bytes)?,
        };
        let client = connection.client()?;
        let asked = Instant::now();
        let instance = &self.shape.capture_instance;
        wanted.check(instance, self.bounds(client, silence).await?)?;
        let positioned = within(
            silence,
            client.execute_sp_executesql(
                self.statement.clone(),
                vec![parameter("@from", wanted.from), parameter("@to", wanted.to)],
                (),
            ),
        )
        .await?;
        stats.network_wait += asked.elapsed();
        if !matches!(positioned, StatementResult::Rows) {
            return Err(SourceError::Unexpected {
                doing: DOING.to_owned(),
                reason: "no result set".to_owned(),
            });
        }
        while read_row(client, &mut sink, silence, &mut stats).await? {
            stats.rows += 1;
            if sink.chunk.is_full() && !send(&mut sink, &out, &mut stats).await? {
                return Ok(stats);
            }
        }
        within(silence, client.close_query()).await?;
        wanted.check(instance, self.bounds(client, silence).await?)?;
        connection.give_back();
        send(&mut sink, &out, &mut stats).await?;
        Ok(stats)
    }

    /// What this connection's server has. The connection must be the one that reads: another may lead to another copy.
    async fn bounds(&self, client: &mut TdsClient, silence: Duration) -> Result<Bounds, SourceError> {
        let statement = bounds::statement(&self.shape.capture_instance);
        within(silence, client.execute_sp_executesql(statement, Vec::new(), ())).await?;
        let row = within(silence, client.next_row()).await?.unwrap_or_default();
        within(silence, client.close_query()).await?;
        let lsn = |column: usize| match row.get(column) {
            Some(ColumnValues::Bytes(bytes)) => Lsn::from_bytes(bytes).filter(|lsn| !lsn.is_zero()),
            _ => None,
        };
        Ok(Bounds {
            min_lsn: lsn(0),
            max_lsn: lsn(1),
        })
    }
}

/// Sends the chunk on. Whether somebody still listens.
async fn send(sink: &mut RowSink, out: &mpsc::Sender<Chunk>, stats: &mut ReadStats) -> Result<bool, SourceError> {
    match sink.chunk.take()? {
        Some(chunk) => {
            stats.bytes += chunk.bytes;
            let waiting = Instant::now();
            let taken = out.send(chunk).await.is_ok();
            stats.handing_over += waiting.elapsed();
            Ok(taken)
        }
        None => Ok(true),
    }
}

/// Reads one row; `false` at the end. Rows that are already buffered cost no timer.
async fn read_row(
    client: &mut TdsClient,
    sink: &mut RowSink,
    silence: Duration,
    stats: &mut ReadStats,
) -> Result<bool, SourceError> {
    match client
        .try_next_buffered_row_into(sink)
        .map_err(|error| SourceError::stream(error, DOING))?
    {
        BufferedRowPoll::Complete => return Ok(true),
        BufferedRowPoll::Exhausted => return Ok(false),
        BufferedRowPoll::Partial => {
            let waiting = Instant::now();
            within(silence, client.finish_row_into(sink)).await?;
            stats.network_wait += waiting.elapsed();
            return Ok(true);
        }
        BufferedRowPoll::Pending => {}
    }
    let waiting = Instant::now();
    let more = within(silence, client.next_row_into(sink)).await?;
    stats.network_wait += waiting.elapsed();
    Ok(more)
}

async fn within<T>(
    silence: Duration,
    call: impl Future<Output = mssql_tds::core::TdsResult<T>>,
) -> Result<T, SourceError> {
    match tokio::time::timeout(silence, call).await {
        Ok(result) => result.map_err(|error| SourceError::stream(error, DOING)),
        Err(_) => Err(SourceError::Timeout {
            doing: DOING.to_owned(),
            seconds: silence.as_secs(),
        }),
    }
}

fn parameter(name: &str, lsn: Lsn) -> RpcParameter {
    RpcParameter::new(
        Some(name.to_owned()),
        StatusFlags::NONE,
        SqlType::VarBinary(Some(lsn.0.to_vec()), 10),
    )
}

/// Hands the driver's values to the chunk: from its types to ours, and nothing else.
struct RowSink {
    chunk: ChunkBuilder,
}

impl RowSink {
    fn datetime2(days: u32, hundreds_of_ns: u64) -> i64 {
        // Truncated to the microsecond: 9999-12-31 23:59:59.9999999 stays in its day.
        (i64::from(days) - DAYS_TO_1970) * MICROS_PER_DAY + (hundreds_of_ns / 10) as i64
    }
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
        match encoding_type {
            EncodingType::Utf16 => self.chunk.push_text(col, &bytes, TextEncoding::Utf16),
            EncodingType::Utf8 => self.chunk.push_text(col, &bytes, TextEncoding::Utf8),
            EncodingType::LcidBased(_) | EncodingType::DelayedSet => match encoding_type.resolved_encoding() {
                Some(resolved) => match resolved.as_encoding_rs() {
                    Some(page) => self.chunk.push_text(col, &bytes, TextEncoding::CodePage(page)),
                    None => {
                        let (text, _) = resolved.decode_without_bom_handling(&bytes);
                        self.chunk.push_text(col, text.as_bytes(), TextEncoding::Utf8);
                    }
                },
                None => self.chunk.push_unexpected(col, "text of an unknown collation"),
            },
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
        self.chunk
            .push_date(col, (i64::from(val.get_days()) - DAYS_TO_1970) as i32);
    }

    fn write_time(&mut self, col: usize, val: SqlTime) {
        let ticks = val.time_nanoseconds;
        let (seconds, fraction) = (ticks / 10_000_000, ticks % 10_000_000);
        let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        if val.scale > 0 {
            let digits = format!("{fraction:07}");
            text.push('.');
            text.push_str(&digits[..usize::from(val.scale.min(7))]);
        }
        self.chunk.push_text(col, text.as_bytes(), TextEncoding::Utf8);
    }

    fn write_datetime(&mut self, col: usize, val: SqlDateTime) {
        // SQL Server shows the nearest millisecond of its 1/300 s.
        let millis = (i64::from(val.time) * 10 + 1) / 3;
        let days = i64::from(val.days) - DAYS_1900_TO_1970;
        self.chunk
            .push_timestamp_ntz(col, days * MICROS_PER_DAY + millis * 1000);
    }

    fn write_smalldatetime(&mut self, col: usize, val: SqlSmallDateTime) {
        let days = i64::from(val.days) - DAYS_1900_TO_1970;
        self.chunk
            .push_timestamp_ntz(col, days * MICROS_PER_DAY + i64::from(val.time) * 60_000_000);
    }

    fn write_datetime2(&mut self, col: usize, val: SqlDateTime2) {
        self.chunk
            .push_timestamp_ntz(col, RowSink::datetime2(val.days, val.time.time_nanoseconds));
    }

    fn write_datetimeoffset(&mut self, col: usize, val: SqlDateTimeOffset) {
        // The wire has UTC already; the offset says how the server shows it.
        let micros = RowSink::datetime2(val.datetime2.days, val.datetime2.time.time_nanoseconds);
        self.chunk.push_timestamp_utc(col, micros);
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

    fn write_json(&mut self, col: usize, _val: SqlJson) {
        self.chunk.push_unexpected(col, "json");
    }

    fn write_vector(&mut self, col: usize, _val: SqlVector) {
        self.chunk.push_unexpected(col, "vector");
    }

    fn end_row(&mut self) {
        self.chunk.end_row();
    }
}
