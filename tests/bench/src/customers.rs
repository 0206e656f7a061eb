//! The table whose rows are masked: customers, made up, the same in every run, as rows of a chunk and as statements for a
//! server.

use std::sync::Arc;

use anyhow::Result;
use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, TimeUnit};
use arrow::temporal_conversions::{date32_to_datetime, timestamp_us_to_datetime};
use serde_json::{Value, json};
use sluice::identity::CaptureInstance;
use sluice::shape::{ColumnShape, META_BEFORE, Recorded, TableShape};

use crate::server::Table;

/// The columns that the mask changes.
pub(crate) const MASKED: [&str; 3] = ["email", "phone", "birth_date"];
/// The key's name, for both sides.
pub(crate) const KEY: &str = "benchmark";

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

/// What stands in `sluice.toml` under `config` of the mask, which makes its two keyed hashes by `method`.
pub(crate) fn mask_config(method: &str) -> Value {
    json!({
        "unlisted": "pass",
        "columns": {
            "email": { "method": method, "key": KEY, "normalize": ["trim", "lower"] },
            "phone": { "method": method, "key": KEY },
            "birth_date": { "method": "date", "truncate": "year" },
        },
    })
}

pub(crate) fn shape() -> TableShape {
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

/// The table on a server.
pub(crate) fn table() -> Table {
    let TableShape { table, columns, .. } = shape();
    let definition = |column: ColumnShape| {
        let more = column.key.map_or("NULL", |_| "NOT NULL PRIMARY KEY");
        format!("{} {} {more}", column.name, column.source_type)
    };
    Table {
        name: table,
        columns: columns.into_iter().map(definition).collect::<Vec<_>>().join(", "),
        row: sql,
    }
}

/// A customer. E-mail addresses are 23 to 44 bytes, phone numbers 14; one phone number of 17 and one e-mail address of 50 is
/// NULL.
struct Customer {
    id: i64,
    name: String,
    email: Option<String>,
    phone: Option<String>,
    /// Days since 1970.
    birth_date: i32,
    street: String,
    city: &'static str,
    /// In 1/10,000.
    amount: i128,
    visits: i32,
    /// Microseconds since 1970, whole milliseconds.
    changed_at: i64,
}

impl Customer {
    fn of(row: u64) -> Customer {
        let mixed = mix(row);
        let (first, last) = (pick(&FIRST_NAMES, mixed), pick(&LAST_NAMES, mixed >> 8));
        let ascii = |name: &str| name.chars().filter(char::is_ascii).collect::<String>();
        let domain = pick(&DOMAINS, mixed >> 16);
        Customer {
            id: row as i64,
            name: format!("{first} {last}"),
            email: (!row.is_multiple_of(50))
                .then(|| format!("{}.{}{}@{domain}", ascii(first), ascii(last), mixed % 100_000)),
            phone: (!row.is_multiple_of(17))
                .then(|| format!("+{} {}", 30 + mixed % 69, 1_000_000_000 + mixed % 8_999_999_999)),
            // From 1940 on, for 70 years.
            birth_date: ((mixed >> 24) % 25_567) as i32 - 10_957,
            street: format!("{} {}", pick(&STREETS, mixed >> 32), mixed % 200),
            city: pick(&CITIES, mixed >> 40),
            amount: i128::from(mixed % 10_000_000_000),
            visits: (mixed % 500) as i32,
            changed_at: 1_700_000_000_000_000 + (mixed % 10_000_000_000) as i64 * 1_000,
        }
    }
}

/// A customer's values in an INSERT.
fn sql(row: u64) -> String {
    let customer = Customer::of(row);
    let text = |text: Option<&str>| text.map_or_else(|| "NULL".to_owned(), |text| format!("N'{text}'"));
    let date = date32_to_datetime(customer.birth_date).map(|date| date.format("%Y-%m-%d").to_string());
    let time =
        timestamp_us_to_datetime(customer.changed_at).map(|time| time.format("%Y-%m-%dT%H:%M:%S%.3f").to_string());
    format!(
        "{},{},{},{},{},{},{},{}.{:04},{},{}",
        customer.id,
        text(Some(&customer.name)),
        text(customer.email.as_deref()),
        text(customer.phone.as_deref()),
        text(date.as_deref()),
        text(Some(&customer.street)),
        text(Some(customer.city)),
        customer.amount / 10_000,
        customer.amount % 10_000,
        customer.visits,
        text(time.as_deref()),
    )
}

/// Inserts of so many customers.
pub(crate) fn chunk(rows: usize) -> Result<RecordBatch> {
    let customers: Vec<Customer> = (0..rows as u64).map(Customer::of).collect();
    let lsns: StringArray = (0..rows).map(|row| Some(format!("0x{:020X}", row / 50))).collect();
    let seqvals: StringArray = (0..rows).map(|row| Some(format!("0x{row:020X}"))).collect();
    let instances: DictionaryArray<Int32Type> = std::iter::repeat_n("dbo_customers", rows).collect();
    let meta: [ArrayRef; 6] = [
        Arc::new(instances),
        Arc::new(lsns),
        Arc::new(seqvals),
        Arc::new(Int32Array::from(vec![2; rows])),
        Arc::new(Int32Array::from(vec![1; rows])),
        Arc::new(TimestampMicrosecondArray::from(vec![1_709_251_200_000_000; rows]).with_timezone("UTC")),
    ];
    let text =
        |of: fn(&Customer) -> Option<&str>| -> ArrayRef { Arc::new(customers.iter().map(of).collect::<StringArray>()) };
    let captured: [ArrayRef; 10] = [
        Arc::new(Int64Array::from_iter_values(
            customers.iter().map(|customer| customer.id),
        )),
        text(|customer| Some(&customer.name)),
        text(|customer| customer.email.as_deref()),
        text(|customer| customer.phone.as_deref()),
        Arc::new(Date32Array::from_iter_values(
            customers.iter().map(|customer| customer.birth_date),
        )),
        text(|customer| Some(&customer.street)),
        text(|customer| Some(customer.city)),
        Arc::new(
            Decimal128Array::from_iter_values(customers.iter().map(|customer| customer.amount))
                .with_precision_and_scale(18, 4)?,
        ),
        Arc::new(Int32Array::from_iter_values(
            customers.iter().map(|customer| customer.visits),
        )),
        Arc::new(TimestampMicrosecondArray::from_iter_values(
            customers.iter().map(|customer| customer.changed_at),
        )),
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

fn pick(from: &[&'static str], number: u64) -> &'static str {
    from[(number % from.len() as u64) as usize]
}

/// A number that looks like chance and is always the same for a row: the finaliser of SplitMix64.
fn mix(row: u64) -> u64 {
    let n = row.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}
