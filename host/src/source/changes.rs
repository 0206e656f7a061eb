//! Change rows, off the wire into chunks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mssql_tds::connection::tds_client::{BufferedRowPoll, ResultSet as _, StatementResult, TdsClient};
use mssql_tds::datatypes::column_values::ColumnValues;
use mssql_tds::datatypes::sqltypes::SqlType;
use mssql_tds::message::parameters::rpc_parameters::{RpcParameter, StatusFlags};
use tokio::sync::mpsc;

use super::bounds::{self, Bounds, Wanted};
use super::error::SourceError;
use super::quote;
use super::row_sink::RowSink;
use super::stream_pool::StreamPool;
use super::table::{SourceInstance, SourceTable};
use crate::batch::{Chunk, ChunkBuilder, CommitTimes, LEADING_COLUMNS, UPDATE_MASK};
use crate::lsn::Lsn;
use crate::scheduler::{Scheduler, Turn};
use crate::shape::TableShape;

const DOING: &str = "reading change rows";

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
    /// A reader of one capture instance. Its chunks have the columns of `stream`; those that the instance does not capture are
    /// NULL in them.
    pub fn new(pool: StreamPool, table: &SourceTable, instance: usize, stream: &TableShape) -> ChangeReader {
        let shape = Arc::new(table.shape_of(instance, stream));
        let statement = statement(&shape, &table.instances[instance]);
        ChangeReader { pool, shape, statement }
    }

    /// The statement that is sent, for people to read.
    pub fn statement(&self) -> &str {
        &self.statement
    }

    /// Reads the range, in order, and sends it on in chunks. An error when the server does not have all of it, before or
    /// after the read; chunks that were sent until then are void. Ends early, without an error, when nobody takes them
    /// any more. `long`: it is known to be many chunks.
    pub async fn read(
        &self,
        wanted: Wanted,
        commit_times: Arc<CommitTimes>,
        limits: ChunkLimits,
        long: bool,
        out: mpsc::Sender<Chunk>,
    ) -> Result<ReadStats, SourceError> {
        self.read_whole(wanted, commit_times, limits, long, out)
            .await
            .map_err(|error| error.with_grant(&self.shape.capture_instance, self.pool.user()))
    }

    async fn read_whole(
        &self,
        wanted: Wanted,
        commit_times: Arc<CommitTimes>,
        limits: ChunkLimits,
        long: bool,
        out: mpsc::Sender<Chunk>,
    ) -> Result<ReadStats, SourceError> {
        let mut connection = self.pool.get(long).await?;
        let silence = self.pool.silence();
        let mut stats = ReadStats::default();
        let mut sink = RowSink::new(ChunkBuilder::new(&self.shape, commit_times, limits.rows, limits.bytes)?);
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
        // Asked for as a whole: chunks that were begun and wait for more could wait for each other.
        let of_chunk = Scheduler::memory_of_chunk(limits.bytes as u64);
        let mut memory = self.pool.memory(of_chunk).await;
        while read_row(client, &mut sink, silence, &mut stats).await? {
            stats.rows += 1;
            if sink.chunk.is_full() {
                if !send(&mut sink, memory, &out, &mut stats).await? {
                    return Ok(stats);
                }
                memory = self.pool.memory(of_chunk).await;
            }
        }
        within(silence, client.close_query()).await?;
        wanted.check(instance, self.bounds(client, silence).await?)?;
        connection.give_back();
        send(&mut sink, memory, &out, &mut stats).await?;
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

/// Selects the metadata columns, the captured ones, and the update mask where it takes that to tell what was not recorded from
/// NULL, in the order of the clustered index.
fn statement(shape: &TableShape, instance: &SourceInstance) -> String {
    let command_id = LEADING_COLUMNS[1];
    let leading = LEADING_COLUMNS.iter().map(|name| match *name {
        name if name == command_id && !shape.has_command_id => {
            format!("CAST(NULL AS int) AS {}", quote::name(name))
        }
        name => quote::name(name),
    });
    let captured = shape.columns.iter().map(|column| {
        let name = quote::name(&column.name);
        match instance.captures(&column.name) {
            true => name,
            false => format!("NULL AS {name}"),
        }
    });
    let mask = shape.needs_update_mask().then(|| quote::name(UPDATE_MASK));
    let columns: Vec<String> = leading.chain(captured).chain(mask).collect();
    let order: Vec<String> = LEADING_COLUMNS
        .iter()
        .filter(|name| **name != command_id || shape.has_command_id)
        .map(|name| quote::name(name))
        .collect();
    format!(
        "SELECT {} FROM {} WHERE [__$start_lsn] >= @from AND [__$start_lsn] <= @to ORDER BY {}",
        columns.join(", "),
        quote::change_table(&shape.capture_instance.0),
        order.join(", ")
    )
}

/// Sends the chunk on. Whether somebody still listens.
async fn send(
    sink: &mut RowSink,
    mut memory: Turn,
    out: &mpsc::Sender<Chunk>,
    stats: &mut ReadStats,
) -> Result<bool, SourceError> {
    match sink.chunk.take()? {
        Some(mut chunk) => {
            stats.bytes += chunk.bytes;
            memory.keep_only(Scheduler::memory_of_chunk(chunk.bytes));
            chunk.memory = Some(Arc::new(memory));
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
