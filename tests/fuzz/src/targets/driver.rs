//! The driver: what the stand-in answers to a query over every type, changed on its way, through `mssql-tds` into the sink. A
//! driver that panics would take a table down without a word of what is wrong, so it has to be known where it does.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use arrow::datatypes::{DataType, TimeUnit};
use mssql_sim::engine::EngineOptions;
use mssql_sim::{CertificateOptions, Encryption, ServerOptions, SimServer};
use mssql_tds::connection::client_context::ClientContext;
use mssql_tds::connection_provider::tds_connection_provider::TdsConnectionProvider;
use mssql_tds::core::{EncryptionOptions, EncryptionSetting};
use sluice::shape::Recorded;

use super::sink;

const PASSWORD: &str = "f0r-fuzzing-only";
/// A read that takes longer waits for bytes that a changed length promised.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Messages that the server sends before it answers the query: prelogin and login.
const BEFORE_ANSWER: usize = 2;

// Not xml and json: the driver fills as many bytes as their first length says, up to 2 GiB, before it reads any.
const TABLE: &str = "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, b bit, s smallint, n bigint, f float, d decimal(38,10), \
     m money, dt date, d2 datetime2(7), o datetimeoffset(7), v varchar(40) COLLATE Japanese_CI_AS, w nvarchar(max), \
     x varbinary(max), g uniqueidentifier, tx text, im image, ve vector(2), tm time(3), sd smalldatetime, od datetime)";
const ROW: &str = "1, -7, 9e9, 0.5, 12345.6789, -0.01, '2024-02-29', '2024-02-29T12:00:00.1234567', \
     '2024-02-29T12:00:00+02:00', N'日本', N'日本😀', 0x00FF, '6F9619FF-8B86-D011-B42D-00C04FC964FF', 'text', 0xFFD8, N'[1,2]', \
     '12:34:56.789', '2024-02-29T12:34:00', '2024-02-29T12:34:56.789'";

/// What is changed of the answer, byte by byte: three bytes of input each, two of the place and one of the value.
static CHANGES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Reads the table once, with these changes.
pub fn run(data: &[u8]) {
    let Some(address) = proxy() else {
        return;
    };
    data.clone_into(&mut CHANGES.lock().unwrap_or_else(PoisonError::into_inner));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    // Any error will do, and so will a wait that does not end.
    let _ = runtime.block_on(async { tokio::time::timeout(PATIENCE, read(address)).await });
}

/// Whether an answer that nobody changed is read to its end: else the target would test nothing.
pub fn reads_unchanged() -> Result<u64> {
    let address = proxy().context("the stand-in does not start")?;
    CHANGES.lock().unwrap_or_else(PoisonError::into_inner).clear();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(read(address))
}

async fn read(address: SocketAddr) -> Result<u64> {
    let mut context = ClientContext::default();
    context.user_name = "sa".to_owned();
    context.password = PASSWORD.to_owned();
    context.database = "fuzz".to_owned();
    context.encryption_options = EncryptionOptions {
        mode: EncryptionSetting::PreferOff,
        ..EncryptionOptions::default()
    };
    let source = format!("tcp:127.0.0.1,{}", address.port());
    let mut client = TdsConnectionProvider {}.create_client(context, &source, None).await?;
    let local = DataType::Timestamp(TimeUnit::Microsecond, None);
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let types = [
        DataType::Int32,
        DataType::Boolean,
        DataType::Int16,
        DataType::Int64,
        DataType::Float64,
        DataType::Decimal128(38, 10),
        DataType::Decimal128(19, 4),
        DataType::Date32,
        local.clone(),
        utc,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Binary,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Binary,
        DataType::Utf8,
        DataType::Utf8,
        local.clone(),
        local,
    ];
    let columns = types.map(|data_type| ("c", data_type, Recorded::Always));
    let mut sink = sink::of(&columns).context("no sink")?;
    let lsn = "0x00000001000000000001";
    let query = format!("SELECT {lsn}, 1, {lsn}, 2, * FROM dbo.t");
    client.execute(query, ()).await?;
    let mut rows = 0;
    while client.next_row_into(&mut sink).await? {
        rows += 1;
        if sink.chunk.is_full() {
            sink.chunk.take()?;
        }
    }
    if let Some(chunk) = sink.chunk.take()? {
        anyhow::ensure!(chunk.batch.num_rows() > 0, "a chunk of no rows");
    }
    Ok(rows)
}

/// The stand-in, behind a door that changes its answers. Both live as long as the process.
fn proxy() -> Option<SocketAddr> {
    static DOOR: OnceLock<Option<(SocketAddr, SimServer)>> = OnceLock::new();
    let door = DOOR.get_or_init(|| start().ok());
    door.as_ref().map(|(address, _)| *address)
}

fn start() -> Result<(SocketAddr, SimServer)> {
    let server = SimServer::start(ServerOptions {
        listen: "127.0.0.1:0".to_owned(),
        engine: EngineOptions {
            admin_user: "sa".to_owned(),
            admin_password: PASSWORD.to_owned(),
            ..EngineOptions::default()
        },
        encryption: Encryption::Off,
        certificate: CertificateOptions::default(),
        instance: None,
        requests: None,
        fed_auth_required: false,
    })?;
    let nulls = vec!["NULL"; ROW.matches(", ").count() + 1].join(", ");
    let script = format!(
        "CREATE DATABASE fuzz\nGO\nUSE fuzz\nGO\n{TABLE}\nGO\nINSERT INTO dbo.t VALUES (1, {ROW}), (2, {nulls}), (3, {ROW})"
    );
    server.run_script(&script).map_err(|error| anyhow::anyhow!("{error}"))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (door, behind) = (listener.local_addr()?, server.address());
    std::thread::spawn(move || {
        for client in listener.incoming().filter_map(Result::ok) {
            std::thread::spawn(move || {
                let _ = pass(&client, behind);
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    Ok((door, server))
}

/// Passes packets on, those of the answer changed; ends after it.
fn pass(client: &TcpStream, behind: SocketAddr) -> Result<()> {
    let server = TcpStream::connect(behind)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let (mut server, mut client) = (&server, client);
    let mut messages = 0;
    let mut passed = 0;
    while messages <= BEFORE_ANSWER {
        let mut packet = vec![0; 8];
        server.read_exact(&mut packet)?;
        let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
        if length < 8 {
            bail!("a packet of {length} bytes");
        }
        packet.resize(length, 0);
        server.read_exact(&mut packet[8..])?;
        let last = packet[1] & 1 != 0;
        if messages == BEFORE_ANSWER {
            change(&mut packet[8..], passed);
            passed += length - 8;
        }
        client.write_all(&packet)?;
        messages += usize::from(last);
    }
    Ok(())
}

fn change(payload: &mut [u8], passed: usize) {
    let changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    for change in changes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]) & 0xFFF);
        if let Some(byte) = place.checked_sub(passed).and_then(|at| payload.get_mut(at)) {
            *byte = change[2];
        }
    }
}
