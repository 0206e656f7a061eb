//! The lake by its claims, on real tables in temporary folders.

mod commits;
mod compact;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, DictionaryArray, Int32Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use serde_json::{Value, json};

use super::log::Put;
use super::*;
use crate::error::{Classify as _, ErrorKind};
use crate::identity::{AppId, BatchId, CaptureInstance};
use crate::shape::META_BEFORE;
use crate::storage::Place;
use crate::verdict::ControlTable;

fn spec(app_id: &str, columns: &[(&str, DataType)]) -> BronzeSpec {
    BronzeSpec {
        capture_instance: CaptureInstance("dbo_orders".into()),
        app_id: AppId(app_id.into()),
        columns: columns
            .iter()
            .map(|(name, data_type)| Column::new(*name, data_type.clone(), format!("source column {name}")))
            .collect(),
        omitted: false,
    }
}

fn id_and_note(app_id: &str) -> BronzeSpec {
    let mut spec = spec(app_id, &[("id", DataType::Int32), ("note", DataType::Utf8)]);
    spec.columns[0].statistics = true;
    spec.columns[1].statistics = true;
    spec
}

async fn open(folder: &Path, spec: BronzeSpec) -> Result<BronzeTable, LakeError> {
    BronzeTable::open(&Place::from(folder), spec).await
}

/// A chunk with the six metadata columns and these.
fn chunk(captured: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let rows = captured[0].1.len();
    let lsns: StringArray = (0..rows).map(|i| Some(format!("0x{:020X}", 4096 + i))).collect();
    let instance: DictionaryArray<Int32Type> = std::iter::repeat_n("dbo_orders", rows).collect();
    let meta: [ArrayRef; 6] = [
        Arc::new(instance),
        Arc::new(lsns.clone()),
        Arc::new(lsns),
        Arc::new(Int32Array::from_value(2, rows)),
        Arc::new(Int32Array::from_value(1, rows)),
        Arc::new(TimestampMicrosecondArray::from_value(1_700_000_000_123_456, rows)),
    ];
    let all: Vec<(&str, ArrayRef)> = META_BEFORE.into_iter().zip(meta).chain(captured).collect();
    let fields: Vec<Field> = all
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        all.into_iter().map(|(_, array)| array).collect(),
    )
    .unwrap()
}

fn rows(ids: &[i32]) -> RecordBatch {
    let notes: StringArray = ids.iter().map(|id| Some(format!("note {id}"))).collect();
    chunk(vec![
        ("id", Arc::new(Int32Array::from(ids.to_vec()))),
        ("note", Arc::new(notes)),
    ])
}

async fn stage(table: &BronzeTable, n: i64, ids: &[i32]) -> StagedFiles {
    let mut staged = table.stage(BatchId(n), 0).await.unwrap();
    tokio::task::block_in_place(|| staged.write(&rows(ids))).unwrap();
    staged
}

async fn append(table: &BronzeTable, n: i64, ids: &[i32]) -> CommitOutcome {
    let staged = stage(table, n, ids).await;
    table.commit(staged, None, json!({"batch_id": n})).await.unwrap()
}

async fn log_of(folder: &Path) -> DeltaLog {
    DeltaLog::open(&Place::from(folder)).await.unwrap().unwrap()
}

/// The `id` column as readers see it, sorted.
async fn ids(folder: &Path) -> Vec<i32> {
    let (batches, _) = read_all(&log_of(folder).await).await.unwrap();
    let mut ids = Vec::new();
    for batch in batches {
        ids.extend(batch.column_by_name("id").unwrap().as_primitive::<Int32Type>().values());
    }
    ids.sort_unstable();
    ids
}

fn parquet_files(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".parquet")).count()
}

fn log_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder.join("_delta_log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            text += &std::fs::read_to_string(path).unwrap();
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_table_has_the_contract_columns_types_and_comments() {
    let folder = tempfile::tempdir().unwrap();
    let types: Vec<(&str, DataType)> = vec![
        ("flag", DataType::Boolean),
        ("small", DataType::Int16),
        ("id", DataType::Int32),
        ("big", DataType::Int64),
        ("r", DataType::Float32),
        ("f", DataType::Float64),
        ("price", DataType::Decimal128(19, 4)),
        ("day", DataType::Date32),
        ("at", TIMESTAMP_NTZ),
        (
            "at_utc",
            DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into())),
        ),
        ("note", DataType::Utf8),
        ("blob", DataType::Binary),
        ("é.x", DataType::Utf8),
    ];
    let mut spec = spec("orders", &types);
    spec.omitted = true;
    open(folder.path(), spec).await.unwrap();
    let text = std::fs::read_to_string(folder.path().join("_delta_log/00000000000000000000.json")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let protocol = lines.iter().find_map(|line| line.get("protocol")).unwrap();
    assert_eq!(
        protocol,
        &json!({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]})
    );
    let metadata = lines.iter().find_map(|line| line.get("metaData")).unwrap();
    assert_eq!(metadata["configuration"], json!({"sluice.schema_version": "1"}));
    assert!(metadata["description"].as_str().unwrap().contains("dbo_orders"));
    let schema: Value = serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
    let fields = schema["fields"].as_array().unwrap();
    for field in fields {
        assert_eq!(field["nullable"], true, "{field}");
        assert!(!field["metadata"]["comment"].as_str().unwrap().is_empty(), "{field}");
    }
    let columns: Vec<(String, String)> = fields
        .iter()
        .map(|field| {
            let name = field["name"].as_str().unwrap().to_owned();
            (
                name,
                field["type"]
                    .as_str()
                    .map_or_else(|| field["type"]["type"].as_str().unwrap().to_owned(), str::to_owned),
            )
        })
        .collect();
    let wanted = [
        ("_capture_instance", "string"),
        ("_start_lsn", "string"),
        ("_seqval", "string"),
        ("_operation", "integer"),
        ("_command_id", "integer"),
        ("_commit_ts", "timestamp_ntz"),
        ("flag", "boolean"),
        ("small", "short"),
        ("id", "integer"),
        ("big", "long"),
        ("r", "float"),
        ("f", "double"),
        ("price", "decimal(19,4)"),
        ("day", "date"),
        ("at", "timestamp_ntz"),
        ("at_utc", "timestamp"),
        ("note", "string"),
        ("blob", "binary"),
        ("é.x", "string"),
        ("_batch_id", "integer"),
        ("_snapshot", "string"),
        ("_chunk", "integer"),
        ("_omitted", "array"),
    ];
    assert_eq!(
        columns,
        wanted.map(|(name, data_type)| (name.to_owned(), data_type.to_owned()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn new_columns_come_in_the_commit_of_their_first_rows() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    append(&table, 0, &[1]).await;
    let wider = spec(
        "orders",
        &[
            ("id", DataType::Int32),
            ("note", DataType::Utf8),
            ("vat", DataType::Decimal128(9, 2)),
        ],
    );
    let table = open(folder.path(), wider).await.unwrap();
    let vat = arrow::array::Decimal128Array::from(vec![1999])
        .with_precision_and_scale(9, 2)
        .unwrap();
    let wide = chunk(vec![
        ("id", Arc::new(Int32Array::from(vec![2]))),
        ("note", Arc::new(StringArray::from(vec!["b"]))),
        ("vat", Arc::new(vat)),
    ]);
    let mut staged = table.stage(BatchId(1), 0).await.unwrap();
    tokio::task::block_in_place(|| staged.write(&wide)).unwrap();
    assert_eq!(
        table.commit(staged, None, json!({})).await.unwrap(),
        CommitOutcome::Committed { version: 2 }
    );
    let log = log_of(folder.path()).await;
    let names: Vec<&str> = log.schema().fields().map(|field| field.name().as_str()).collect();
    assert_eq!(names[6..], ["id", "note", "vat", "_batch_id", "_snapshot", "_chunk"]);
    assert!(
        std::fs::read_to_string(folder.path().join("_delta_log/00000000000000000002.json"))
            .unwrap()
            .contains("metaData")
    );
    assert_eq!(ids(folder.path()).await, [1, 2]);

    // The stream that still has the narrow shape goes on, with NULL in the new column.
    let narrow = open(folder.path(), id_and_note("orders")).await.unwrap();
    append(&narrow, 2, &[3]).await;
    let retyped = spec("orders", &[("id", DataType::Int64), ("note", DataType::Utf8)]);
    let error = open(folder.path(), retyped).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::SchemaChanged);
    let text = error.to_string();
    assert!(
        text.contains("column id") && text.contains("integer") && text.contains("long"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("t");
    for (columns, part) in [
        (vec!["order no"], "' '"),
        (vec!["a=b"], "'='"),
        (vec!["Id", "ID"], "has the name of column Id"),
        (vec!["_Commit_TS"], "sluice's own column _commit_ts"),
        (vec!["_omitted"], "sluice's own column _omitted"),
    ] {
        let columns: Vec<_> = columns.into_iter().map(|name| (name, DataType::Int32)).collect();
        let error = open(&place, spec("orders", &columns)).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(
            error.to_string().contains(part) && error.to_string().contains("map"),
            "{error}"
        );
    }
    let error = open(&place, spec("orders", &[("x", DataType::UInt64)]))
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("column x") && error.contains("UInt64"), "{error}");
    assert!(!place.exists());
}

/// Appends a commit with this metadata or protocol, as another program would.
async fn reconfigure(folder: &Path, change: impl Fn(&mut Value)) {
    let log = log_of(folder).await;
    let first = std::fs::read_to_string(folder.join("_delta_log/00000000000000000000.json")).unwrap();
    let mut entry = String::new();
    for line in first.lines().skip(1) {
        let mut line: Value = serde_json::from_str(line).unwrap();
        change(&mut line);
        entry += &format!("{line}\n");
    }
    assert_eq!(log.put(None, entry.as_bytes()).await.unwrap(), Put::Written);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_not_ours_or_cannot_be_written_are_refused_by_name() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str, ErrorKind); 5] = [
        (unmark, "did not make", ErrorKind::State),
        (
            |line| set(line, "sluice.min_version", "2"),
            "upgrade sluice",
            ErrorKind::State,
        ),
        (
            |line| set(line, "delta.columnMapping.mode", "name"),
            "column mapping",
            ErrorKind::Config,
        ),
        (|line| feature(line, "typeWidening"), "type widening", ErrorKind::Config),
        (|line| feature(line, "rowTracking"), "rowTracking", ErrorKind::Config),
    ];
    for (change, part, kind) in cases {
        let folder = tempfile::tempdir().unwrap();
        let table = open(folder.path(), id_and_note("orders")).await.unwrap();
        let staged = stage(&table, 0, &[1]).await;
        reconfigure(folder.path(), change).await;
        let error = open(folder.path(), id_and_note("orders")).await.err().unwrap();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.kind(), kind);
        // A table that became so under a running stream is not written either.
        let error = table.commit(staged, None, json!({})).await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(parquet_files(folder.path()), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_another_kind_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [bronze, facts, control] = ["bronze", "facts", "control"].map(|name| folder.path().join(name));
    let place = |path: &Path| Place::from(path);
    open(&bronze, id_and_note("orders")).await.unwrap();
    crate::facts::FactsTable::open_or_create(&place(&facts)).await.unwrap();
    crate::verdict::ControlTable::open_or_create(&place(&control))
        .await
        .unwrap();
    for path in [&bronze, &facts, &control] {
        let mut refused = Vec::new();
        if path != &bronze {
            refused.extend(open(path, id_and_note("orders")).await.err());
        }
        if path != &facts {
            refused.extend(crate::facts::FactsTable::open_or_create(&place(path)).await.err());
        }
        if path != &control {
            refused.extend(crate::verdict::ControlTable::open_or_create(&place(path)).await.err());
        }
        assert_eq!(refused.len(), 2);
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::State);
            assert!(error.to_string().contains("of another kind"), "{error}");
        }
        assert_eq!(log_of(path).await.version(), 0, "nothing was committed");
    }
}

fn unmark(line: &mut Value) {
    if let Some(metadata) = line.get_mut("metaData") {
        metadata["configuration"] = json!({});
    }
}

fn set(line: &mut Value, key: &str, value: &str) {
    if let Some(metadata) = line.get_mut("metaData") {
        metadata["configuration"][key] = value.into();
    }
}

fn feature(line: &mut Value, name: &str) {
    if let Some(protocol) = line.get_mut("protocol") {
        protocol["writerFeatures"].as_array_mut().unwrap().push(name.into());
        if name == "typeWidening" {
            protocol["readerFeatures"].as_array_mut().unwrap().push(name.into());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_and_no_bytes_of_a_row_are_in_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec(
        "orders",
        &[
            ("id", DataType::Int32),
            ("email", DataType::Utf8),
            ("blob", DataType::Binary),
        ],
    );
    spec.columns.iter_mut().for_each(|column| column.statistics = true);
    let table = open(folder.path(), spec).await.unwrap();
    let mut staged = table.stage(BatchId(0), 0).await.unwrap();
    let rows = chunk(vec![
        ("id", Arc::new(Int32Array::from(vec![-5, 77, 3]))),
        (
            "email",
            Arc::new(StringArray::from(vec!["AAAA-first", "middle", "zzzz-last"])),
        ),
        (
            "blob",
            Arc::new(BinaryArray::from(vec![
                b"\0blob-first" as &[u8],
                b"m",
                &[0xFF; 1 << 20],
            ])),
        ),
    ]);
    tokio::task::block_in_place(|| staged.write(&rows)).unwrap();
    let secret = json!({"app_id": "orders", "batch_id": 0});
    table.commit(staged, None, secret).await.unwrap();
    let text = log_text(folder.path());
    for sentinel in ["AAAA-first", "zzzz-last", "middle", "blob-first"] {
        assert!(!text.contains(sentinel), "{sentinel} is in the log");
    }
    let entry = std::fs::read_to_string(folder.path().join("_delta_log/00000000000000000001.json")).unwrap();
    assert!(entry.len() < 4096, "a small commit: {} bytes", entry.len());
    let add: Value = entry
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line.get("add").is_some())
        .unwrap();
    let stats: Value = serde_json::from_str(add["add"]["stats"].as_str().unwrap()).unwrap();
    assert_eq!(stats["numRecords"], 3);
    assert_eq!(stats["minValues"]["id"], -5);
    assert_eq!(stats["maxValues"]["id"], 77);
    assert_eq!(stats["maxValues"]["_start_lsn"], "0x00000000000000001002");
    assert_eq!(stats["minValues"]["_commit_ts"], "2023-11-14T22:13:20.123456");
    assert_eq!(stats["nullCount"]["_snapshot"], 3);
    assert!(stats["minValues"].get("email").is_none() && stats["maxValues"].get("blob").is_none());

    let path = folder.path().join(add["add"]["path"].as_str().unwrap());
    let reader = parquet::file::reader::SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let footer = parquet::file::reader::FileReader::metadata(&reader);
    for column in footer.row_group(0).columns() {
        let name = column.column_path().string();
        let has = column
            .statistics()
            .is_some_and(|statistics| statistics.min_bytes_opt().is_some());
        assert_eq!(
            has,
            matches!(
                name.as_str(),
                "_start_lsn" | "_operation" | "_commit_ts" | "_batch_id" | "id"
            ),
            "{name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_given_up_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    let mut staged = stage(&table, 0, &[1]).await;
    staged.finish().await.unwrap();
    assert_eq!((parquet_files(folder.path()), staged.rows()), (1, 1));
    drop(staged);
    assert_eq!(parquet_files(folder.path()), 0);
    let staged = stage(&table, 0, &[1]).await;
    staged.abort().await;
    let mut staged = table.stage(BatchId(0), 0).await.unwrap();
    let error = staged
        .write(&chunk(vec![("id", Arc::new(Int32Array::from(vec![1])))]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("no column note"), "{error}");
    let wrong = chunk(vec![
        ("id", Arc::new(StringArray::from(vec!["1"]))),
        ("note", Arc::new(StringArray::from(vec!["x"]))),
    ]);
    let error = staged.write(&wrong).unwrap_err().to_string();
    assert!(error.contains("its column id is Utf8 instead of Int32"), "{error}");
    for _ in 0..100 {
        if parquet_files(folder.path()) == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("files are left");
}

/// Work of the Delta kernel waits for files on threads of the kind that it runs on itself.
#[test]
fn many_logs_at_once_do_not_take_all_threads_from_each_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(20)
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tables = runtime.block_on(async {
        let tables = (0..60).map(|i| {
            let location = Place::from(folder.path().join(format!("t{i}")));
            tokio::spawn(async move { ControlTable::open_or_create(&location).await.map(|_| location) })
        });
        futures::future::join_all(tables).await
    });
    let locations: Vec<Place> = tables.into_iter().map(|table| table.unwrap().unwrap()).collect();
    let read = runtime.block_on(async {
        let read = locations
            .into_iter()
            .map(|location| tokio::spawn(async move { ControlTable::read(&location).await }));
        futures::future::join_all(read).await
    });
    for rows in read {
        assert!(rows.unwrap().unwrap().is_empty());
    }
}
