//! What the administrator says to the server.

use tiberius::Client;
use tokio::net::TcpStream;
use tokio_util::compat::Compat;

use super::model::Model;
use super::plan::Mark;

pub const DATABASE: &str = "sales";

pub type Connection = Client<Compat<TcpStream>>;

/// `sim.clock`, frozen at an instant in seconds since 1970.
pub fn clock_text(at: i64) -> String {
    let at = chrono::DateTime::from_timestamp(at, 0).unwrap_or_default();
    format!(
        "EXEC sim.clock @utc = N'{}', @frozen = 1",
        at.format("%Y-%m-%dT%H:%M:%SZ")
    )
}

/// The arguments of a fault that runs a batch in the middle of a read.
pub fn within_read(rows: u64, text: &str, read: &str) -> String {
    format!(
        "N'sql_after_rows', @rows = {rows}, {read}, @database = N'{DATABASE}', @sql = N'{}'",
        text.replace('\'', "''")
    )
}

pub async fn run(client: &mut Connection, text: &str) -> Result<(), String> {
    let answer = async { client.simple_query(text).await?.into_results().await };
    answer
        .await
        .map(|_| ())
        .map_err(|error| format!("{error}\nin {text:.300}"))
}

pub async fn rows(client: &mut Connection, text: &str) -> Result<Vec<tiberius::Row>, String> {
    let answer = async { client.simple_query(text).await?.into_first_result().await };
    answer.await.map_err(|error| format!("{error}\nin {text}"))
}

/// The LSNs of one row. Zeros and NULL are none.
pub async fn lsns(client: &mut Connection, text: &str) -> Result<Vec<Option<String>>, String> {
    let rows = rows(client, text).await?;
    let row = rows.first().ok_or_else(|| format!("no row of {text}"))?;
    Ok((0..row.columns().len())
        .map(|column| {
            let bytes: Option<&[u8]> = row.get(column);
            hex(bytes.filter(|bytes| bytes.iter().any(|byte| *byte != 0)))
        })
        .collect())
}

/// `0x…`, as sluice and T-SQL write it.
pub fn hex(bytes: Option<&[u8]>) -> Option<String> {
    let digits: String = bytes?.iter().map(|byte| format!("{byte:02X}")).collect();
    Some(format!("0x{digits}"))
}

/// Cleanup to a mark; `read` is how far sluice has read. `None` where there is nothing to clean.
pub fn cleanup_text(model: &Model, mark: Mark, read: Option<&str>) -> Option<String> {
    let there: Vec<&str> = (model.entries.iter())
        .filter_map(|entry| entry.lsn.as_deref())
        .filter(|lsn| *lsn >= model.oldest.as_str())
        .filter(|lsn| mark.unread || Some(*lsn) <= read)
        .collect();
    let last = there.len().checked_sub(1)?;
    let low = there[usize::try_from(mark.permille).unwrap_or(0) * last / 1000];
    // The server refuses a mark below the one that an instance has.
    let mut names: Vec<&str> = (model.living())
        .take(if mark.oldest_only { 1 } else { usize::MAX })
        .filter(|instance| instance.low.as_deref().is_some_and(|own| own < low))
        .map(|instance| instance.name.as_str())
        .collect();
    if mark.mapping && model.other_low.as_deref().is_some_and(|own| own < low) {
        names.push("dbo_other");
    }
    let calls: Vec<String> = (names.iter())
        .map(|name| {
            format!(
                "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'{name}', @low_water_mark = @low, \
                 @threshold = 5000"
            )
        })
        .collect();
    let declared = format!("DECLARE @low binary(10) = {low}; ");
    (!calls.is_empty()).then(|| declared + &calls.join("; "))
}
