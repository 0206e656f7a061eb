//! The table whose rows are masked: customers, made up, the same in every run.

use std::sync::Arc;

use anyhow::Result;
use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, TimeUnit};
use serde_json::{Value, json};
use sluice::identity::CaptureInstance;
use sluice::shape::{ColumnShape, META_BEFORE, Recorded, TableShape};

/// The columns that the mask changes.
pub(super) const MASKED: [&str; 3] = ["email", "phone", "birth_date"];
/// The key's name, for both sides.
pub(super) const KEY: &str = "benchmark";

const FIRST_NAMES: [&str; 16] = [
    "Anna",
    "Béla",
    "Chloé",
    "Dmitri",
    "Emre",
    "Fatima",
    "Giulia",
    "Hans",
    "Ines",
    "Jürgen",
    "Katarzyna",
    "Liam",
    "María",
    "Nguyễn",
    "Olga",
    "Paul",
];
const LAST_NAMES: [&str; 16] = [
    "Adams",
    "Brown",
    "Costa",
    "Dubois",
    "Eriksson",
    "Fischer",
    "García",
    "Horváth",
    "Ivanova",
    "Jansen",
    "Kowalski",
    "Lefèvre",
    "Müller",
    "Novák",
    "Öztürk",
    "Papadopoulos",
];
const DOMAINS: [&str; 4] = ["example.com", "example.org", "mail.example.net", "post.example.de"];
const STREETS: [&str; 4] = ["High Street", "Lindenallee", "Rue de la Paix", "Calle Mayor"];
const CITIES: [&str; 4] = ["Berlin", "Budapest", "Lyon", "Sevilla"];

/// What stands in `sluice.toml` under `config` of the mask.
pub(super) fn mask_config() -> Value {
    json!({
        "unlisted": "pass",
        "columns": {
            "email": { "method": "hash", "key": KEY, "normalize": ["trim", "lower"] },
            "phone": { "method": "hash", "key": KEY },
            "birth_date": { "method": "date", "truncate": "year" },
        },
    })
}

pub(super) fn shape() -> TableShape {
    let columns: [(&str, &str, DataType); 10] = [
        ("id", "bigint", DataType::Int64),
        ("name", "nvarchar(100)", DataType::Utf8),
        ("email", "nvarchar(200)", DataType::Utf8),
        ("phone", "varchar(30)", DataType::Utf8),
        ("birth_date", "date", DataType::Date32),
        ("street", "nvarchar(100)", DataType::Utf8),
        ("city", "nvarchar(60)", DataType::Utf8),
        ("amount", "decimal(18,4)", DataType::Decimal128(18, 4)),
        ("visits", "int", DataType::Int32),
        (
            "changed_at",
            "datetime2(3)",
            DataType::Timestamp(TimeUnit::Microsecond, None),
        ),
    ];
    TableShape {
        schema: "dbo".to_owned(),
        table: "customers".to_owned(),
        capture_instance: CaptureInstance("dbo_customers".to_owned()),
        has_command_id: true,
        columns: columns
            .into_iter()
            .map(|(name, source_type, data_type)| ColumnShape {
                name: name.to_owned(),
                source_type: source_type.to_owned(),
                data_type,
                key: (name == "id").then_some(1),
                recorded: Recorded::Always,
            })
            .collect(),
    }
}

/// Inserts of so many customers. E-mail addresses are 20 to 40 bytes, phone numbers 13 to 16; one phone number of 17 and one
/// e-mail address of 50 is NULL.
pub(super) fn chunk(rows: usize) -> Result<RecordBatch> {
    let numbers = || (0..rows as u64).map(|row| (row, mix(row)));
    let lsns: ArrayRef = Arc::new(
        numbers()
            .map(|(row, _)| Some(format!("0x{:020X}", row / 50)))
            .collect::<StringArray>(),
    );
    let seqvals: StringArray = numbers().map(|(row, _)| Some(format!("0x{row:020X}"))).collect();
    let instances: DictionaryArray<Int32Type> = std::iter::repeat_n("dbo_customers", rows).collect();
    let meta: [ArrayRef; 6] = [
        Arc::new(instances),
        lsns,
        Arc::new(seqvals),
        Arc::new(Int32Array::from(vec![2; rows])),
        Arc::new(Int32Array::from(vec![1; rows])),
        Arc::new(TimestampMicrosecondArray::from(vec![1_709_251_200_000_000; rows]).with_timezone("UTC")),
    ];
    let text = |of: &dyn Fn(u64, u64) -> Option<String>| -> ArrayRef {
        Arc::new(numbers().map(|(row, mixed)| of(row, mixed)).collect::<StringArray>())
    };
    let captured: [ArrayRef; 10] = [
        Arc::new(Int64Array::from_iter_values(numbers().map(|(row, _)| row as i64))),
        text(&|_, mixed| {
            Some(format!(
                "{} {}",
                pick(&FIRST_NAMES, mixed),
                pick(&LAST_NAMES, mixed >> 8)
            ))
        }),
        text(&|row, mixed| {
            let (first, last) = (pick(&FIRST_NAMES, mixed), pick(&LAST_NAMES, mixed >> 8));
            let ascii = |name: &str| name.chars().filter(char::is_ascii).collect::<String>();
            let domain = pick(&DOMAINS, mixed >> 16);
            (row % 50 != 0).then(|| format!("{}.{}{}@{domain}", ascii(first), ascii(last), mixed % 100_000))
        }),
        text(&|row, mixed| {
            (row % 17 != 0).then(|| format!("+{} {}", 30 + mixed % 69, 1_000_000_000 + mixed % 8_999_999_999))
        }),
        Arc::new(Date32Array::from_iter_values(
            // From 1940 on, for 70 years.
            numbers().map(|(_, mixed)| ((mixed >> 24) % 25_567) as i32 - 10_957),
        )),
        text(&|_, mixed| Some(format!("{} {}", pick(&STREETS, mixed >> 32), mixed % 200))),
        text(&|_, mixed| Some((*pick(&CITIES, mixed >> 40)).to_owned())),
        Arc::new(
            Decimal128Array::from_iter_values(numbers().map(|(_, mixed)| i128::from(mixed % 10_000_000_000)))
                .with_precision_and_scale(18, 4)?,
        ),
        Arc::new(Int32Array::from_iter_values(
            numbers().map(|(_, mixed)| (mixed % 500) as i32),
        )),
        Arc::new(TimestampMicrosecondArray::from_iter_values(numbers().map(
            |(_, mixed)| 1_700_000_000_000_000 + (mixed % 10_000_000_000) as i64 * 1_000,
        ))),
    ];
    let names = META_BEFORE.into_iter().map(str::to_owned);
    let names = names.chain(shape().columns.into_iter().map(|column| column.name));
    let columns: Vec<ArrayRef> = meta.into_iter().chain(captured).collect();
    let fields: Vec<Field> = names
        .zip(&columns)
        .map(|(name, array)| Field::new(name, array.data_type().clone(), true))
        .collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

fn pick<T>(from: &[T], number: u64) -> &T {
    &from[(number % from.len() as u64) as usize]
}

/// A number that looks like chance and is always the same for a row: the finaliser of SplitMix64.
fn mix(row: u64) -> u64 {
    let n = row.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}
