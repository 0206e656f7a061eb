//! Whole chains with real components. Here is what the tests share.

mod capabilities;
mod chains;
mod components;
mod guide;
mod isolation;
mod misbehaviour;
mod quarantine;
mod refusals;
mod taken;
mod versions;
mod wasi;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};

use super::*;
use crate::identity::CaptureInstance;
use crate::shape::{ColumnShape, META_BEFORE, Recorded, TableShape};

/// The secret of key `pii`, and its tag of `anna` under an empty context:
/// `hmac.new(b"0123456789abcdef", b"\0anna", "sha256").hexdigest()` in Python.
const SECRET: &[u8] = b"0123456789abcdef";
const TAG_OF_ANNA: &str = "2c7e090d4e901cde2fe3094fdbc526911b4ab0a2927b3b789c9159bf59c02330";

/// An engine over a directory with components under their own names.
struct Bench {
    dir: PathBuf,
    engine: Arc<Engine>,
    /// Removes a directory of its own.
    _own: Option<tempfile::TempDir>,
}

/// The engine that most tests share, so that a component is compiled once, and the guests that it has already.
static SHARED: Mutex<Option<(tempfile::TempDir, Arc<Engine>)>> = Mutex::new(None);

impl Bench {
    /// The shared engine, with these guests among others.
    fn new(guests: &[&str]) -> Bench {
        let mut shared = SHARED.lock().unwrap();
        let (dir, engine) = shared.get_or_insert_with(|| {
            let dir = tempfile::tempdir().unwrap();
            let engine = Engine::new(Some(dir.path().to_owned()), &[]).unwrap();
            (dir, engine)
        });
        copy(guests, dir.path());
        Bench {
            dir: dir.path().to_owned(),
            engine: Arc::clone(engine),
            _own: None,
        }
    }

    /// An engine and a directory that no other test sees.
    fn own(guests: &[&str]) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        copy(guests, dir.path());
        Bench {
            dir: dir.path().to_owned(),
            engine: Engine::new(Some(dir.path().to_owned()), &[]).unwrap(),
            _own: Some(dir),
        }
    }

    fn path(&self) -> &Path {
        &self.dir
    }

    fn open(&self, specs: &[TransformSpec], protect: &[&str]) -> Result<Chain, TransformError> {
        let protect: Vec<String> = protect.iter().map(|name| (*name).to_owned()).collect();
        let mut keys = KeyRing::new();
        keys.insert("pii", "v3", SECRET.to_vec()).unwrap();
        Chain::open(&self.engine, &people(), specs, &keys, &protect)
    }

    /// The error of opening a chain of one transform, or of applying it to [`four`] rows.
    fn fails(&self, spec: TransformSpec) -> TransformError {
        match self.open(&[spec], &[]) {
            Ok(chain) => chain.apply(&four()).unwrap_err(),
            Err(error) => error,
        }
    }
}

/// Renames into place, because other tests may be looking.
fn copy(guests: &[&str], dir: &Path) {
    for guest in guests {
        let file = dir.join(format!("{guest}.wasm"));
        if !file.exists() {
            let partial = dir.join(format!("{guest}.partial"));
            std::fs::copy(sluice_test_guests::component(guest), &partial).unwrap();
            std::fs::rename(partial, file).unwrap();
        }
    }
}

fn people() -> TableShape {
    let column = |name: &str, source_type: &str, data_type, key| ColumnShape {
        name: name.into(),
        source_type: source_type.into(),
        data_type,
        key,
        recorded: Recorded::Always,
    };
    TableShape {
        schema: "dbo".into(),
        table: "people".into(),
        capture_instance: CaptureInstance("dbo_people".into()),
        has_command_id: true,
        columns: vec![
            column("id", "int", DataType::Int32, Some(1)),
            column("name", "nvarchar(100)", DataType::Utf8, None),
            column("note", "nvarchar(100)", DataType::Utf8, None),
        ],
    }
}

fn with_config(plugin: &str, config: serde_json::Value) -> TransformSpec {
    TransformSpec {
        config,
        ..TransformSpec::new(plugin)
    }
}

/// The misbehaving guest, which adds a column `made` when it does behave.
fn bad(behave: &str) -> TransformSpec {
    with_config("badguest", serde_json::json!({ "behave": behave }))
}

/// Upper-cases the ASCII letters of `name`.
fn upper() -> TransformSpec {
    with_config("upper", serde_json::json!({ "columns": ["name"] }))
}

/// A hash in place of `name`, with the key granted.
fn hash() -> TransformSpec {
    let config = serde_json::json!({
        "unlisted": "pass",
        "columns": { "name": { "method": "hash", "key": "pii" } },
    });
    TransformSpec {
        keys: vec!["pii".into()],
        ..with_config("mask", config)
    }
}

/// Metadata for the given operations; the two rows of an update share their LSN and seqval, which count from 1.
fn meta(operations: &[i32]) -> Vec<(&'static str, ArrayRef)> {
    let mut change = 0;
    let lsns: Vec<String> = operations
        .iter()
        .map(|operation| {
            change += i32::from(*operation != 4);
            format!("0x{change:020X}")
        })
        .collect();
    let rows = operations.len();
    let lsns: ArrayRef = Arc::new(StringArray::from(lsns));
    let instance: DictionaryArray<Int32Type> = std::iter::repeat_n("dbo_people", rows).collect();
    let columns: [ArrayRef; 6] = [
        Arc::new(instance),
        Arc::clone(&lsns),
        lsns,
        Arc::new(Int32Array::from(operations.to_vec())),
        Arc::new(Int32Array::from(vec![1; rows])),
        Arc::new(TimestampMicrosecondArray::from(vec![0; rows])),
    ];
    META_BEFORE.into_iter().zip(columns).collect()
}

fn batch(operations: &[i32], columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let all: Vec<(&str, ArrayRef)> = meta(operations).into_iter().chain(columns).collect();
    let fields: Vec<Field> = all
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = all.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn people_batch(operations: &[i32], names: Vec<Option<&str>>) -> RecordBatch {
    let rows = i32::try_from(operations.len()).unwrap();
    let notes = (0..rows).map(|row| format!("note {row}"));
    batch(
        operations,
        vec![
            ("id", Arc::new(Int32Array::from_iter_values(0..rows))),
            ("name", Arc::new(StringArray::from(names))),
            ("note", Arc::new(StringArray::from_iter_values(notes))),
        ],
    )
}

/// An insert, an update and a delete.
fn four() -> RecordBatch {
    people_batch(&[2, 3, 4, 1], vec![Some("anna"), None, Some("béla"), Some("")])
}

fn texts(batch: &RecordBatch, column: &str) -> Vec<Option<String>> {
    let array = batch.column_by_name(column).unwrap().as_string::<i32>();
    array.iter().map(|value| value.map(str::to_owned)).collect()
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}
