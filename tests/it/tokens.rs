//! Equal values have equal tokens: in any table, in any type that SQL Server compares as equal, on any path that a row can
//! take to bronze. What the tokens are was computed by Python.

use std::collections::BTreeSet;
use std::path::Path;

use crate::harness::{Project, Server, python, rows_of};

/// Columns of `dbo.wide`, all of one value.
const NUMBERS: [(&str, &str); 15] = [
    ("n_bit", "bit"),
    ("n_tiny", "tinyint"),
    ("n_small", "smallint"),
    ("n_int", "int"),
    ("n_big", "bigint"),
    ("n_decimal", "decimal(9,2)"),
    ("n_numeric", "numeric(38,0)"),
    ("n_fraction", "decimal(38,30)"),
    ("n_money", "money"),
    ("n_smallmoney", "smallmoney"),
    ("n_float", "float"),
    ("n_real", "real"),
    ("n_varchar", "varchar(10)"),
    ("n_nvarchar", "nvarchar(10)"),
    ("n_char", "char(6)"),
];
const DAYS: [(&str, &str); 6] = [
    ("d_date", "date"),
    ("d_datetime", "datetime"),
    ("d_datetime2", "datetime2(7)"),
    ("d_smalldatetime", "smalldatetime"),
    ("d_varchar", "varchar(10)"),
    ("d_nchar", "nchar(20)"),
];
const DAY: &str = "2024-02-29";
const ADDRESS: &str = "anna@example.com";

/// Rows whose `gate` is not listed go into quarantine.
const GATE: &str = "[[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\n\
                    config = { columns = { gate = { steps = [{ values = { open = \"open\" } }] } } }\n";

/// `mask` with a method on each of the columns; the others pass.
fn mask(columns: impl IntoIterator<Item = (String, &'static str)>) -> String {
    let mut text = String::from(
        "[[table.transform]]\nplugin = \"mask\"\nkeys = [\"pii\"]\n[table.transform.config]\nunlisted = \"pass\"\n\
         [table.transform.config.columns]\n",
    );
    for (column, method) in columns {
        text.push_str(&format!("{column} = {method}\n"));
    }
    text
}

const HASH: &str = r#"{ method = "hash", key = "pii", normalize = ["trim"] }"#;
const TOKEN: &str = r#"{ method = "token", key = "pii", normalize = ["trim"] }"#;
const FOUND: &str = r#"{ method = "redact", patterns = ["email"], key = "pii", normalize = ["trim", "lower"] }"#;
const ADDRESS_TOKEN: &str = r#"{ method = "token", key = "pii", normalize = ["trim", "lower"] }"#;
const SHIFT: &str = r#"{ method = "date_shift", key = "pii", days = 90, by = "n_int" }"#;
const SHIFT_BY_TEXT: &str = r#"{ method = "date_shift", key = "pii", days = 90, by = "who" }"#;
const NAMES: &str = r#"{ method = "pseudonym", key = "pii", values = ["Ada", "Ben", "Cleo", "Dan"] }"#;

/// `dbo.wide` has a value in many types, `dbo.slim` in two others.
async fn server() -> Server {
    let server = Server::start(&[]);
    server.database("sales").await;
    let wide: Vec<String> = NUMBERS
        .iter()
        .chain(&DAYS)
        .map(|(name, sql)| format!("{name} {sql} NULL"))
        .collect();
    let wide = format!(
        "id int NOT NULL PRIMARY KEY, touched int NULL, born date NULL, {}",
        wide.join(", ")
    );
    server.table("sales", "wide", &wide).await;
    let slim = "id bigint NOT NULL PRIMARY KEY, gate nvarchar(10) NULL, who varchar(20) NULL, what decimal(5,1) NULL, \
                born datetime2(0) NULL, pet int NULL, address nvarchar(60) NULL, note nvarchar(200) NULL";
    server.table("sales", "slim", slim).await;
    server
}

fn project(server: &Server, chunk_rows: u32) -> Project {
    let numbers = NUMBERS.iter().map(|(name, _)| ((*name).to_owned(), HASH));
    let days = DAYS.iter().map(|(name, _)| ((*name).to_owned(), HASH));
    let wide = mask(numbers.chain(days).chain([("born".to_owned(), SHIFT)]));
    let slim = mask([
        ("who".to_owned(), HASH),
        ("what".to_owned(), TOKEN),
        ("born".to_owned(), SHIFT_BY_TEXT),
        ("pet".to_owned(), NAMES),
        ("address".to_owned(), ADDRESS_TOKEN),
        ("note".to_owned(), FOUND),
    ]);
    let mut project = Project::new(server, "sales")
        .table("dbo_wide", &wide)
        .table("dbo_slim", &format!("on_transform_change = \"continue\"\n{GATE}{slim}"));
    project.edit("chunk_rows = 1000", &format!("chunk_rows = {chunk_rows}"));
    project
}

fn insert_wide(id: u32, value: &str) -> String {
    let number = |(_, sql): &(&str, &str)| {
        if sql.contains("char") {
            format!("'{value}'")
        } else {
            value.to_owned()
        }
    };
    let numbers: Vec<String> = NUMBERS.iter().map(number).collect();
    let days: Vec<String> = DAYS.iter().map(|_| format!("'{DAY}'")).collect();
    let (numbers, days) = (numbers.join(", "), days.join(", "));
    format!("INSERT INTO dbo.wide VALUES ({id}, 0, '2001-05-06', {numbers}, {days})")
}

fn insert_slim(id: u32, gate: &str, value: &str) -> String {
    format!(
        "INSERT INTO dbo.slim VALUES ({id}, N'{gate}', '{value}', {value}.0, '2001-05-06T07:08:09', {value}, N' {} ', \
         N'write to {ADDRESS}, she said')",
        ADDRESS.to_uppercase()
    )
}

/// All texts of a column.
fn texts(table: &Path, column: &str) -> BTreeSet<Option<String>> {
    rows_of(table, &["_start_lsn"])
        .expect("rows")
        .texts(column)
        .into_iter()
        .collect()
}

fn only(text: &str) -> BTreeSet<Option<String>> {
    BTreeSet::from([Some(text.to_owned())])
}

/// HMAC-SHA-256 of texts under an empty context, in hexadecimal digits, and the first sixteen letters of the alphabet of
/// tokens.
fn computed(texts: &[&str]) -> Vec<(String, String)> {
    const SCRIPT: &str = "import hashlib, hmac, sys
for text in sys.argv[2:]:
    digest = hmac.new(sys.argv[1].encode(), b'\\0' + text.encode(), hashlib.sha256).digest()
    bits = int.from_bytes(digest, 'big') >> (256 - 80)
    letters = ['0123456789abcdefghjkmnpqrstvwxyz'[bits >> 5 * (15 - at) & 31] for at in range(16)]
    print(digest.hex(), ''.join(letters))";
    let arguments = ["-c", SCRIPT, crate::harness::KEY]
        .into_iter()
        .chain(texts.iter().copied());
    let said = python(arguments);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout)
        .expect("UTF-8")
        .lines()
        .map(|line| {
            let (hash, token) = line.split_once(' ').expect("two words");
            (hash.to_owned(), token.to_owned())
        })
        .collect()
}

/// Checks what both tables of a project have, whatever way it came there. `rows` of `dbo_slim`.
fn check(project: &Project, rows: usize) {
    let [one, day, address] = <[_; 3]>::try_from(computed(&["1", DAY, ADDRESS])).expect("three");
    let (wide, slim) = (project.bronze("dbo_wide"), project.bronze("dbo_slim"));
    for (column, _) in NUMBERS {
        assert_eq!(texts(&wide, column), only(&one.0), "{column}");
    }
    for (column, _) in DAYS {
        assert_eq!(texts(&wide, column), only(&day.0), "{column}");
    }
    assert_eq!(rows_of(&slim, &["_start_lsn"]).expect("rows").len(), rows);
    assert_eq!(texts(&slim, "who"), only(&one.0));
    assert_eq!(texts(&slim, "what"), only(&one.1));
    assert_eq!(texts(&slim, "address"), only(&address.1));
    assert_eq!(texts(&slim, "note"), only(&format!("write to {}, she said", address.1)));
    assert_eq!(texts(&slim, "pet").len(), 1);
    // The same key moves a day of either table by as many days, and the time of day stays.
    let days: Vec<Option<String>> = texts(&wide, "born").into_iter().collect();
    let [Some(shifted)] = &days[..] else {
        panic!("{days:?} are not one day");
    };
    assert_ne!(shifted, "2001-05-06");
    assert_eq!(texts(&slim, "born"), only(&format!("{shifted}T07:08:09")));
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_values_have_equal_tokens_across_tables_types_and_paths() {
    let server = server().await;
    let exec = async |sql: &str| server.exec("sales", sql).await;
    exec(&insert_wide(1, "1")).await;
    exec(&insert_wide(2, "1")).await;
    exec(&insert_slim(1, "open", "1")).await;
    exec(&insert_slim(2, "shut", "1")).await;
    exec("UPDATE dbo.wide SET touched = 1 WHERE id = 1").await;
    exec("UPDATE dbo.slim SET gate = NULL WHERE id = 1").await;
    exec("DELETE dbo.wide WHERE id = 2").await;

    // As a replay of what was killed, in small chunks, and in quarantine at first.
    let mut first = project(&server, 1);
    assert!(first.kill_at("files-staged"));
    let run = first.once().ok();
    assert_eq!(run.table("dbo_slim")["quarantined"], 1);
    check(&first, 3);
    first.edit(GATE, "");
    first.run("quarantine", &["retry", "--json"]).ok();
    check(&first, 4);
    // Rows that come later, through the chain without the gate.
    exec(&insert_wide(3, "1")).await;
    exec(&insert_slim(3, "open", "1")).await;
    first.once().ok();
    check(&first, 5);

    // Another project, with everything in one chunk.
    let second = project(&server, 1000);
    second.once().ok();
    check(&second, 4);
    let tokens = |project: &Project, column| texts(&project.bronze("dbo_slim"), column);
    for column in ["who", "what", "born", "pet", "address", "note"] {
        assert_eq!(tokens(&first, column), tokens(&second, column), "{column}");
    }

    // Another value has other ones: what is equal above is so for its values.
    exec(&insert_wide(4, "0")).await;
    exec(&insert_slim(4, "open", "0")).await;
    second.once().ok();
    for (table, column) in [
        ("dbo_wide", "n_bit"),
        ("dbo_wide", "n_float"),
        ("dbo_slim", "who"),
        ("dbo_slim", "what"),
    ] {
        assert_eq!(texts(&second.bronze(table), column).len(), 2, "{column}");
    }
}
