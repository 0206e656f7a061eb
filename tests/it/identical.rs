//! A batch that is replayed has the bytes that it had: files and quarantine of random rows, through every method of `mask` and
//! what `map` computes, by processes in other surroundings, with components that are compiled anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::harness::{Project, Server, commits, rows_of, sales_of, scratch};
use crate::schedules::random::Random;

const COLUMNS: &str = "id int NOT NULL PRIMARY KEY, number int NULL, amount decimal(12,2) NULL, ratio float NULL, small real NULL, \
                       flag bit NULL, born date NULL, seen datetime2(3) NULL, moment datetimeoffset(7) NULL, name nvarchar(60) NULL, \
                       email nvarchar(80) NULL, phone varchar(40) NULL, card varchar(40) NULL, code char(8) NULL, \
                       note nvarchar(max) NULL, bytes varbinary(40) NULL, guid uniqueidentifier NULL, extra money NULL, gone xml NULL";

/// Every method of `mask`, some of which reject rows.
const MASK: &str = r#"
protect = ["card", "email"]
[[table.transform]]
plugin = "mask"
keys = ["pii"]
on_error = "quarantine"
[table.transform.config.columns]
id = "pass"
number = { method = "noise", key = "pii", within = 1000 }
amount = { method = "noise", key = "pii", percent = 10, by = "name" }
ratio = { method = "noise", key = "pii", within = 0.5 }
small = { method = "bucket", width = 10 }
flag = { method = "hash", key = "pii" }
born = { method = "date_shift", key = "pii", days = 30, by = "id" }
seen = { method = "date", truncate = "month" }
moment = { method = "date_shift", key = "pii", days = 900, by = "name" }
name = { method = "pseudonym", key = "pii", values = ["Ada", "Ben", "Cleo"], normalize = ["trim", "lower", "nfc"] }
email = { method = "email", key = "pii" }
phone = { method = "keep", last = 3 }
card = { method = "fpe", key = "pii", alphabet = "digits", others = "keep" }
code = { method = "token", key = "pii", prefix = "c-", normalize = ["nfc", "lower"] }
note = { method = "redact", patterns = ["email", "phone", "iban", "card"], key = "pii" }
bytes = { method = "hash", key = "pii", length = 32 }
guid = { method = "constant", value = "XX" }
extra = "null"
gone = "drop"
"#;

/// What `map` computes, twice, of which some is rejected; and a mask of what it made.
const MAP: &str = r#"
[[table.transform]]
plugin = "map"
on_error = "quarantine"
[table.transform.config]
order = ["card"]
[table.transform.config.columns]
gone = { drop = true }
number = { cast = "string", default = "none" }
amount = { cast = "double" }
ratio = { cast = "string" }
small = { cast = "double" }
seen = { cast = "string" }
card = { steps = ["trim", { split = " ", part = 1 }], cast = "bigint" }
code = { rename = "status", steps = ["trim", "upper", { values = { A = "active" }, else = "other" }] }
[table.transform.config.add]
all = { concat = ["name", "moment", "ratio", "flag", "extra"], separator = "|", nulls = "skip" }
area = { from = "phone", steps = [{ split = " ", part = -1 }], default = "0" }

[[table.transform]]
plugin = "mask"
keys = ["pii"]
[table.transform.config]
unlisted = "pass"
[table.transform.config.columns]
all = { method = "hash", key = "pii" }
amount = { method = "bucket", edges = [0, 100.5] }
"#;

const NAMES: [&str; 8] = ["Anna", " ANNA", "Zoë", "Zoe\u{308}", "İpek", "straße", "", "O'Brien 😀"];
const NUMBERS: [&str; 6] = ["0", "-1", "17", "2147483647", "-2147483648", "1000000"];
const AMOUNTS: [&str; 5] = ["0", "-0.05", "12.50", "9999999999.99", "100.5"];
const RATIOS: [&str; 6] = ["0", "-0.0", "0.1", "1E16", "-2.5E-10", "1.7976931348623157E308"];
const DAYS: [&str; 5] = ["0001-01-01", "9999-12-31", "2024-02-29", "1970-01-01", "2001-05-06"];
const TIMES: [&str; 4] = ["00:00:00", "23:59:59.997", "07:08:09.1", "12:00:00"];
const CARDS: [&str; 6] = [
    "4111 1111-1111 1111",
    "123456",
    "12345",
    "none",
    "0013572468135724",
    " 42 ",
];
const NOTES: [&str; 6] = [
    "call +41 79 123 45 67 or anna@example.com",
    "DE89 3704 0044 0532 0130 00, card 4111111111111111",
    "nothing here",
    "",
    "＠ é ＠ b@c.example a@b@c.example",
    "{\"a\": [1, 2.50, null]}",
];

/// A row's values, as T-SQL has them.
fn values(random: &mut Random, id: u64) -> String {
    let mut fields = vec![id.to_string()];
    let field = |random: &mut Random, text: String| if random.chance(15) { "NULL".to_owned() } else { text };
    let quoted = |text: &str| format!("N'{}'", text.replace('\'', "''"));
    let one = |random: &mut Random, texts: &[&'static str]| quoted(random.one_of::<&str>(texts));
    let day = |random: &mut Random| (*random.one_of(&DAYS)).to_owned();
    let drawn = [
        (*random.one_of(&NUMBERS)).to_owned(),
        (*random.one_of(&AMOUNTS)).to_owned(),
        (*random.one_of(&RATIOS)).to_owned(),
        format!("{}.5", random.between(0, 40)),
        random.between(0, 1).to_string(),
        quoted(&day(random)),
        quoted(&format!("{} {}", day(random), random.one_of(&TIMES))),
        quoted(&format!(
            "{} {} +02:00",
            random.one_of(&DAYS[2..]),
            random.one_of(&TIMES)
        )),
        one(random, &NAMES),
        quoted(&format!("Person{}@Mail.example", random.between(0, 5))),
        quoted(&format!("+41 79 {}", random.between(1_000_000, 9_999_999))),
        one(random, &CARDS),
        one(random, &["a", "A ", "b", "é"]),
        one(random, &NOTES),
        format!("0x{:016X}", random.next()),
        quoted("6F9619FF-8B86-D011-B42D-00C04FC964FF"),
        format!("{}.25", random.between(0, 900)),
        quoted("<a>b</a>"),
    ];
    for text in drawn {
        fields.push(field(random, text));
    }
    format!("({})", fields.join(", "))
}

/// Transactions of inserts, updates and deletes.
async fn write(server: &Server, random: &mut Random, ids: &mut BTreeSet<u64>, transactions: u64) {
    for _ in 0..transactions {
        let mut statements = Vec::new();
        for _ in 0..random.between(1, 4) {
            let some = ids.iter().next().copied().filter(|_| random.chance(40));
            match some {
                Some(id) if random.chance(60) => {
                    let name = random.one_of(&NAMES).replace('\'', "''");
                    let card = random.one_of(&CARDS);
                    statements.push(format!(
                        "UPDATE dbo.t SET name = N'{name}', card = '{card}' WHERE id = {id}"
                    ));
                }
                Some(id) => {
                    ids.remove(&id);
                    statements.push(format!("DELETE dbo.t WHERE id = {id}"));
                }
                None => {
                    let id = ids.last().map_or(1, |last| last + 1) + random.between(0, 1) * 100;
                    ids.insert(id);
                    statements.push(format!("INSERT INTO dbo.t VALUES {}", values(random, id)));
                }
            }
        }
        let sql = format!("BEGIN TRANSACTION; {}; COMMIT", statements.join("; "));
        server.exec("sales", &sql).await;
    }
}

/// The data files in the table's folder, whoever left them there.
fn data_files(project: &Project) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(project.bronze("dbo_t")).into_iter().flatten();
    let files = entries.map(|entry| entry.expect("readable").path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "parquet"))
        .collect()
}

/// The data files of the table's first commit that has any.
fn committed(project: &Project) -> Vec<PathBuf> {
    let table = project.bronze("dbo_t");
    let added = |commit: Vec<serde_json::Value>| -> Vec<PathBuf> {
        let paths = commit.iter().filter_map(|action| action["add"]["path"].as_str());
        paths.map(|path| table.join(path)).collect()
    };
    let mut commits = commits(&table).into_iter().map(added);
    commits.find(|files| !files.is_empty()).expect("a commit with rows")
}

/// What quarantine has of the first batch, but for when.
fn quarantined(project: &Project) -> Vec<Vec<Option<String>>> {
    let order = ["batch_id", "_start_lsn", "_seqval", "_operation"];
    let Some(rows) = rows_of(&project.bronze("dbo_t__quarantine"), &order) else {
        return Vec::new();
    };
    let mut of_rows = Vec::new();
    for at in 0..rows.len() {
        let cells = [
            "batch_id",
            "attempt",
            "_start_lsn",
            "_seqval",
            "_operation",
            "column",
            "code",
            "state",
        ];
        of_rows.push(cells.map(|column| rows.texts(column)[at].clone()).to_vec());
    }
    of_rows.retain(|cells| cells[0].as_deref() == Some("0"));
    of_rows
}

/// The names of the columns that differ.
fn differing(one: &[u8], other: &[u8]) -> Vec<String> {
    let read = |bytes: &[u8]| {
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::copy_from_slice(bytes)).expect("Parquet");
        let mut batches = reader.with_batch_size(1 << 20).build().expect("a reader");
        batches.next().expect("rows").expect("a batch")
    };
    let (one, other) = (read(one), read(other));
    let schema = one.schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    names
        .filter(|name| one.column_by_name(name) != other.column_by_name(name))
        .collect()
}

/// The batch is begun three times and never ended, then ended elsewhere: each attempt leaves the same bytes. What they are.
async fn replayed(chain: &str, seed: u64) -> Vec<u8> {
    eprintln!("seed {seed}");
    let mut random = Random::new(seed);
    let mut ids = BTreeSet::new();
    let server = sales_of(COLUMNS).await;
    let mut project = Project::new(&server, "sales").table("dbo_t", &format!("max_commits_per_batch = 1000\n{chain}"));
    project.edit("chunk_rows = 1000", "chunk_rows = 7");
    write(&server, &mut random, &mut ids, 40).await;

    let mut staged = Vec::new();
    let mut known = data_files(&project);
    for failpoint in ["files-staged", "after-quarantine", "before-commit"] {
        assert!(project.kill_at(failpoint), "{failpoint} was not passed");
        let now = data_files(&project);
        let new: Vec<&PathBuf> = now.difference(&known).collect();
        assert_eq!(new.len(), 1, "a file of {failpoint}");
        staged.push(fs::read(new[0]).expect("readable"));
        known = now;
    }
    // As if on another machine, when the source has more.
    write(&server, &mut random, &mut ids, 5).await;
    let elsewhere = scratch();
    let folder = elsewhere.path().to_str().expect("UTF-8");
    let surroundings = [
        ("HOME", folder),
        ("TMPDIR", folder),
        ("XDG_CACHE_HOME", folder),
        ("TZ", "Pacific/Chatham"),
        ("LANG", "tr_TR.UTF-8"),
        ("LC_ALL", "tr_TR.UTF-8"),
        ("TOKIO_WORKER_THREADS", "1"),
    ];
    let before = quarantined(&project);
    let run = project.once_with(&surroundings).ok();
    assert_eq!(run.of_type("batch")[0]["replayed"], true, "{}", run.stdout);
    let files = committed(&project);
    assert_eq!(files.len(), 1);
    let last = fs::read(&files[0]).expect("readable");
    for bytes in &staged {
        assert!(*bytes == last, "columns {:?} differ", differing(bytes, &last));
    }
    assert!(before.len() > 3, "{before:?}");
    assert_eq!(quarantined(&project), before);
    assert!(run.of_type("batch")[0]["rows"].as_u64() > Some(10), "{}", run.stdout);
    last
}

fn seed() -> u64 {
    std::env::var("SLUICE_SEED").map_or(1, |seed| seed.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_through_every_method_of_mask_is_replayed_to_the_byte() {
    let seed = seed();
    let bytes = replayed(MASK, seed).await;
    // A column that is made in another way is seen.
    let other = replayed(
        &MASK.replace("key = \"pii\", percent = 10", "key = \"pii\", percent = 11"),
        seed,
    )
    .await;
    let differ = differing(&bytes, &other);
    assert!(
        differ.contains(&"amount".to_owned()) && !differ.contains(&"name".to_owned()),
        "{differ:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_through_what_map_computes_is_replayed_to_the_byte() {
    replayed(MAP, seed()).await;
}
