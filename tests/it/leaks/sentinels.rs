//! Values that nobody has by chance, two in each type of SQL Server: one that sorts first and one that sorts last. Each
//! type with a mask of its own.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// A column whose two values are looked for.
struct Sentinel {
    name: &'static str,
    sql: &'static str,
    /// As `peers/sentinels/forms.py` has them.
    kind: &'static str,
    /// What `mask` does with it.
    mask: &'static str,
    values: [&'static str; 2],
    /// What stands around the value in its cell.
    around: [&'static str; 2],
    /// How often the value stands in its cell.
    times: usize,
}

const fn of(
    name: &'static str,
    sql: &'static str,
    kind: &'static str,
    mask: &'static str,
    values: [&'static str; 2],
) -> Sentinel {
    Sentinel {
        name,
        sql,
        kind,
        mask,
        values,
        around: ["", ""],
        times: 1,
    }
}

impl Sentinel {
    const fn inside(mut self, before: &'static str, after: &'static str) -> Sentinel {
        self.around = [before, after];
        self
    }

    const fn times(mut self, times: usize) -> Sentinel {
        self.times = times;
        self
    }

    /// A value as T-SQL has it.
    fn literal(&self, at: usize) -> String {
        let value = self.values[at];
        let [before, after] = self.around;
        match self.kind {
            "boolean" | "integer" | "decimal" | "float32" | "float64" => value.to_owned(),
            "binary" => format!("0x{}", value.repeat(self.times)),
            "text" => format!("N'{before}{}{after}'", value.replace('\'', "''")),
            _ => format!("'{value}'"),
        }
    }
}

/// Its values are the server's own.
pub(super) const ROW_VERSION: &str = "c_rowversion";

const HASH: &str = r#"{ method = "hash", key = "pii" }"#;
const TOKEN: &str = r#"{ method = "token", key = "pii" }"#;
const YEAR: &str = r#"{ method = "date", truncate = "year" }"#;
const MONTH: &str = r#"{ method = "date", truncate = "month" }"#;
const SHIFT: &str = r#"{ method = "date_shift", key = "pii", days = 20, by = "id" }"#;
const NOISE: &str = r#"{ method = "noise", key = "pii", within = 900 }"#;
const BUCKET: &str = r#"{ method = "bucket", width = 10000 }"#;
const KEEP: &str = r#"{ method = "keep", first = 1, last = 1 }"#;
const FPE: &str = r#"{ method = "fpe", key = "pii", alphabet = "digits" }"#;
const EMAIL: &str = r#"{ method = "email", key = "pii" }"#;
const PSEUDONYM: &str = r#"{ method = "pseudonym", key = "pii", values = ["Ada", "Ben", "Cleo"] }"#;
const CONSTANT: &str = r#"{ method = "constant", value = "XX" }"#;
const NULL: &str = r#""null""#;
const DROP: &str = r#""drop""#;

/// The first is the one that a component reads which reads one text. Its values could be codes.
const SENTINELS: &[Sentinel] = &[
    of(
        "c_nvarchar",
        "nvarchar(40)",
        "text",
        HASH,
        ["aardvark-lodestone-7281", "zymurgy-palisade-5519"],
    ),
    of(
        "c_wide",
        "nvarchar(40)",
        "text",
        TOKEN,
        ["A\"aż'ółć-6172", "Źdźbło-😀-8853"],
    ),
    of(
        "c_email",
        "nvarchar(60)",
        "text",
        EMAIL,
        ["aalii.lodestone.2718", "zyzzyva.palisade.3141"],
    )
    .inside("", "@mail.test"),
    of(
        "c_varchar",
        "varchar(40)",
        "text",
        PSEUDONYM,
        ["abacus-éclair-4471", "zucchini-€-2236"],
    ),
    of(
        "c_digits",
        "varchar(20)",
        "text",
        FPE,
        ["0013572468135724", "9981726354817263"],
    ),
    of(
        "c_char",
        "char(24)",
        "text",
        NULL,
        ["abalone-tessera-1193", "zeppelin-tessera-7720"],
    ),
    of(
        "c_nchar",
        "nchar(24)",
        "text",
        KEEP,
        ["abbey-ŧessera-3381", "zephyr-ŧessera-9914"],
    ),
    of(
        "c_varchar_max",
        "varchar(max)",
        "text",
        CONSTANT,
        ["acacia-quorum-5102", "zodiac-quorum-6643"],
    ),
    of(
        "c_nvarchar_max",
        "nvarchar(max)",
        "text",
        DROP,
        ["acanthus-quorum-8815", "zither-quorum-1277"],
    ),
    of(
        "c_text",
        "text",
        "text",
        NULL,
        ["acorn-marzipan-4409", "zircon-marzipan-3352"],
    ),
    of(
        "c_ntext",
        "ntext",
        "text",
        HASH,
        ["acrobat-marzipan-7006", "zinnia-marzipan-9918"],
    ),
    of(
        "c_xml",
        "xml",
        "text",
        DROP,
        ["adagio-filigree-2291", "zigzag-filigree-6180"],
    )
    .inside("<a>", "</a>"),
    of(
        "c_json",
        "json",
        "text",
        NULL,
        ["adobe-filigree-5573", "zenith-filigree-8846"],
    )
    .inside("{\"a\":\"", "\"}"),
    of("c_vector", "vector(3)", "text", HASH, ["-8271634.5", "8172635.5"]).inside("[", ", 0, 0]"),
    of(
        "c_uuid",
        "uniqueidentifier",
        "uuid",
        HASH,
        [
            "0011A2B3-7C5D-4E6F-8A9B-1C2D3E4F5061",
            "FEDA9182-7364-4556-8A7B-3C4D5E6F7081",
        ],
    ),
    of("c_bit", "bit", "boolean", NULL, ["0", "1"]),
    of("c_tinyint", "tinyint", "integer", HASH, ["3", "217"]),
    of("c_smallint", "smallint", "integer", BUCKET, ["-31873", "32411"]),
    of("c_int", "int", "integer", NOISE, ["-2147481357", "2147480291"]),
    of(
        "c_bigint",
        "bigint",
        "integer",
        HASH,
        ["-9223372036801357913", "9223372036790284671"],
    ),
    of("c_real", "real", "float32", NULL, ["-3.2817E38", "3.1973E38"]),
    of(
        "c_float",
        "float",
        "float64",
        HASH,
        ["-1.7381946273519E308", "1.6927384651928E308"],
    ),
    of(
        "c_decimal",
        "decimal(38,10)",
        "decimal",
        TOKEN,
        [
            "-9182736450918273645091827364.5091827364",
            "8172635490817263549081726354.9081726354",
        ],
    ),
    of(
        "c_decimal9",
        "decimal(9,2)",
        "decimal",
        NOISE,
        ["-9281736.45", "9172635.48"],
    ),
    of(
        "c_numeric",
        "numeric(19,4)",
        "decimal",
        NULL,
        ["-918273645091827.3645", "817263549081726.3549"],
    ),
    of(
        "c_money",
        "money",
        "decimal",
        NOISE,
        ["-922337180685477.1907", "922337190685477.2808"],
    ),
    of(
        "c_smallmoney",
        "smallmoney",
        "decimal",
        HASH,
        ["-198273.6451", "207364.5182"],
    ),
    of("c_date", "date", "date", YEAR, ["0007-03-17", "9987-11-23"]),
    of(
        "c_datetime",
        "datetime",
        "timestamp",
        MONTH,
        ["1753-02-03T04:05:06.790", "9986-10-21T19:37:41.993"],
    ),
    of(
        "c_smalldatetime",
        "smalldatetime",
        "timestamp",
        SHIFT,
        ["1900-02-23T04:07:00", "2078-05-04T21:43:00"],
    ),
    of(
        "c_datetime2",
        "datetime2(7)",
        "timestamp",
        YEAR,
        ["0011-04-19T05:23:47.1357913", "9985-09-18T22:41:53.8642097"],
    ),
    of(
        "c_datetime2_0",
        "datetime2(0)",
        "timestamp",
        HASH,
        ["0012-06-13T07:29:51", "9984-08-16T20:47:59"],
    ),
    of(
        "c_datetimeoffset",
        "datetimeoffset(7)",
        "timestamp_utc",
        MONTH,
        ["0013-05-21T06:29:53.2468135+05:00", "9983-05-21T22:29:53.8135246-07:00"],
    ),
    of(
        "c_time",
        "time(7)",
        "time",
        HASH,
        ["00:02:43.7182818", "23:57:31.4159265"],
    ),
    of("c_time3", "time(3)", "time", KEEP, ["00:14:47.719", "23:41:53.283"]),
    of("c_time0", "time(0)", "time", NULL, ["00:19:57", "23:23:29"]),
    of(
        "c_binary",
        "binary(16)",
        "binary",
        HASH,
        ["00a1b2c3d4e5f60718293a4b5c6d7e8f", "fff1e2d3c4b5a69788796a5b4c3d2e1f"],
    ),
    of(
        "c_varbinary",
        "varbinary(32)",
        "binary",
        NULL,
        ["0019283746556473829100aabbccdd01", "fe5a4b3c2d1e0f9182736455463728ab"],
    ),
    of(
        "c_varbinary_max",
        "varbinary(max)",
        "binary",
        DROP,
        ["002b3c4d5e6f708192a3b4c5d6e7f809", "fd8a7b6c5d4e3f20114253647586978a"],
    )
    .times(1 << 16),
    of(
        "c_image",
        "image",
        "binary",
        HASH,
        ["003d4e5f60718293a4b5c6d7e8f90a1b", "fc9a8b7c6d5e4f30213243546576879a"],
    ),
];

/// The columns of a table of all types: its key, a number that nobody minds, the sentinels, and a row version, whose values
/// the server makes.
pub(super) fn columns() -> String {
    let mut columns = "id int NOT NULL PRIMARY KEY, plain int NULL".to_owned();
    for sentinel in SENTINELS {
        let _ = write!(columns, ", {} {} NULL", sentinel.name, sentinel.sql);
    }
    let _ = write!(columns, ", {ROW_VERSION} rowversion");
    columns
}

/// Inserts a row with the first or the last of all values.
pub(super) fn insert(table: &str, id: i32, at: usize) -> String {
    let names: Vec<&str> = SENTINELS.iter().map(|sentinel| sentinel.name).collect();
    let values: Vec<String> = SENTINELS.iter().map(|sentinel| sentinel.literal(at)).collect();
    format!(
        "INSERT INTO dbo.{table} (id, plain, {}) VALUES ({id}, 1, {})",
        names.join(", "),
        values.join(", ")
    )
}

/// Sets every column of a row to the first or the last of all values.
pub(super) fn update(table: &str, id: i32, at: usize) -> String {
    let sets: Vec<String> = SENTINELS
        .iter()
        .map(|sentinel| format!("{} = {}", sentinel.name, sentinel.literal(at)))
        .collect();
    format!("UPDATE dbo.{table} SET {} WHERE id = {id}", sets.join(", "))
}

/// `protect` with all of them.
pub(super) fn protect() -> String {
    let names: Vec<String> = SENTINELS
        .iter()
        .map(|sentinel| format!("\"{}\", ", sentinel.name))
        .collect();
    format!("protect = [{}\"{ROW_VERSION}\"]\n", names.concat())
}

/// The mask of all of them. `unlisted` is for columns that a component before it made.
pub(super) fn mask(unlisted: &str) -> String {
    let mut text = format!(
        "[[table.transform]]\nplugin = \"mask\"\nkeys = [\"pii\"]\n[table.transform.config]\nunlisted = \"{unlisted}\"\n\
         [table.transform.config.columns]\nid = \"pass\"\nplain = \"pass\"\n"
    );
    for sentinel in SENTINELS {
        let _ = writeln!(text, "{} = {}", sentinel.name, sentinel.mask);
    }
    let _ = writeln!(text, "{ROW_VERSION} = {NULL}");
    text
}

/// What `peers/sentinels` takes. `versions` are the row versions, in hex.
pub(super) fn described(versions: &[String]) -> Value {
    let mut all: Vec<Value> = SENTINELS
        .iter()
        .map(|sentinel| json!({"name": sentinel.name, "kind": sentinel.kind, "values": sentinel.values}))
        .collect();
    if !versions.is_empty() {
        all.push(json!({"name": ROW_VERSION, "kind": "rowversion", "values": versions}));
    }
    all.into()
}
