//! A table with a column of every type, and what its rows are, in one text form that all clients are compared in.

/// A column: its name, its type, three literals, and what these read back as.
pub struct Column {
    pub name: &'static str,
    pub ty: &'static str,
    literals: [&'static str; 2],
    /// As text; `None` is NULL.
    pub expected: [&'static str; 2],
}

const fn column(
    name: &'static str,
    ty: &'static str,
    literals: [&'static str; 2],
    expected: [&'static str; 2],
) -> Column {
    Column {
        name,
        ty,
        literals,
        expected,
    }
}

/// Every type at its ends. Binary is in hexadecimal; `char` and `binary` come back padded.
pub const COLUMNS: &[Column] = &[
    column("c_bit", "bit", ["1", "0"], ["1", "0"]),
    column("c_tinyint", "tinyint", ["255", "0"], ["255", "0"]),
    column("c_smallint", "smallint", ["32767", "-32768"], ["32767", "-32768"]),
    column(
        "c_int",
        "int",
        ["2147483647", "-2147483648"],
        ["2147483647", "-2147483648"],
    ),
    column(
        "c_bigint",
        "bigint",
        ["9223372036854775807", "-9223372036854775808"],
        ["9223372036854775807", "-9223372036854775808"],
    ),
    column("c_real", "real", ["1.5E9", "-0.25"], ["1500000000", "-0.25"]),
    column(
        "c_float",
        "float",
        ["1.7976931348623157E308", "-0.1"],
        ["1.7976931348623157e308", "-0.1"],
    ),
    column(
        "c_dec38_10",
        "decimal(38,10)",
        [
            "9999999999999999999999999999.9999999999",
            "-9999999999999999999999999999.9999999999",
        ],
        [
            "9999999999999999999999999999.9999999999",
            "-9999999999999999999999999999.9999999999",
        ],
    ),
    column(
        "c_dec38_0",
        "decimal(38,0)",
        [
            "99999999999999999999999999999999999999",
            "-99999999999999999999999999999999999999",
        ],
        [
            "99999999999999999999999999999999999999",
            "-99999999999999999999999999999999999999",
        ],
    ),
    column(
        "c_dec9_2",
        "decimal(9,2)",
        ["9999999.99", "-0.01"],
        ["9999999.99", "-0.01"],
    ),
    column(
        "c_numeric",
        "numeric(19,4)",
        ["999999999999999.9999", "0"],
        ["999999999999999.9999", "0.0000"],
    ),
    column(
        "c_money",
        "money",
        ["922337203685477.5807", "-922337203685477.5808"],
        ["922337203685477.5807", "-922337203685477.5808"],
    ),
    column(
        "c_smallmoney",
        "smallmoney",
        ["214748.3647", "-214748.3648"],
        ["214748.3647", "-214748.3648"],
    ),
    column(
        "c_date",
        "date",
        ["'9999-12-31'", "'0001-01-01'"],
        ["9999-12-31", "0001-01-01"],
    ),
    column(
        "c_time7",
        "time(7)",
        ["'23:59:59.9999999'", "'00:00:00'"],
        ["23:59:59.9999999", "00:00:00.0000000"],
    ),
    column(
        "c_time0",
        "time(0)",
        ["'23:59:58'", "'00:00:00'"],
        ["23:59:58.0000000", "00:00:00.0000000"],
    ),
    column(
        "c_datetime",
        "datetime",
        ["'9999-12-31T23:59:59.997'", "'1753-01-01T00:00:00.003'"],
        ["9999-12-31 23:59:59.997", "1753-01-01 00:00:00.003"],
    ),
    column(
        "c_smalldatetime",
        "smalldatetime",
        ["'2079-06-06 23:59'", "'1900-01-01 00:00'"],
        ["2079-06-06 23:59:00", "1900-01-01 00:00:00"],
    ),
    column(
        "c_datetime2",
        "datetime2(7)",
        ["'9999-12-31 23:59:59.9999999'", "'0001-01-01 00:00:00'"],
        ["9999-12-31 23:59:59.9999999", "0001-01-01 00:00:00.0000000"],
    ),
    column(
        "c_datetime2_3",
        "datetime2(3)",
        ["'2024-02-29 12:34:56.789'", "'1969-12-31 23:59:59.999'"],
        ["2024-02-29 12:34:56.7890000", "1969-12-31 23:59:59.9990000"],
    ),
    column("c_char", "char(5)", ["'é€x'", "''"], ["é€x  ", "     "]),
    column("c_varchar", "varchar(20)", ["'it''s Ÿ'", "''"], ["it's Ÿ", ""]),
    column(
        "c_varcharmax",
        "varchar(max)",
        ["REPLICATE(CAST('ä' AS varchar(max)), 9000)", "''"],
        ["ä*9000", ""],
    ),
    column("c_nchar", "nchar(4)", ["N'漢😀'", "N'a'"], ["漢😀 ", "a   "]),
    column(
        "c_nvarchar",
        "nvarchar(30)",
        ["N'𝒜 ''q'' \"d\" 漢字'", "N''"],
        ["𝒜 'q' \"d\" 漢字", ""],
    ),
    column(
        "c_nvarcharmax",
        "nvarchar(max)",
        ["REPLICATE(CAST(N'漢' AS nvarchar(max)), 20000)", "N''"],
        ["漢*20000", ""],
    ),
    column("c_binary", "binary(4)", ["0x00FF", "0x"], ["00FF0000", "00000000"]),
    column(
        "c_varbinary",
        "varbinary(16)",
        ["0xDEADBEEF00", "0x"],
        ["DEADBEEF00", ""],
    ),
    column(
        "c_varbinarymax",
        "varbinary(max)",
        ["0x0102030405", "0x"],
        ["0102030405", ""],
    ),
    column(
        "c_guid",
        "uniqueidentifier",
        [
            "'00112233-4455-6677-8899-AABBCCDDEEFF'",
            "'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFE'",
        ],
        [
            "00112233-4455-6677-8899-AABBCCDDEEFF",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFE",
        ],
    ),
    column("c_text", "text", ["'it''s Ÿ'", "''"], ["it's Ÿ", ""]),
    column(
        "c_ntext",
        "ntext",
        ["REPLICATE(CAST(N'漢' AS nvarchar(max)), 20000)", "N''"],
        ["漢*20000", ""],
    ),
    column("c_image", "image", ["0xDEADBEEF00", "0x"], ["DEADBEEF00", ""]),
    column(
        "c_xml",
        "xml",
        ["N'<a b=\"1\">é😀</a>'", "N''"],
        ["<a b=\"1\">é😀</a>", ""],
    ),
    column(
        "c_datetimeoffset",
        "datetimeoffset(7)",
        [
            "'9999-12-31 23:59:59.9999999 +14:00'",
            "'0001-01-01 00:00:00.0000001 -14:00'",
        ],
        [
            "9999-12-31 23:59:59.9999999 +14:00",
            "0001-01-01 00:00:00.0000001 -14:00",
        ],
    ),
    column(
        "c_datetimeoffset_3",
        "datetimeoffset(3)",
        ["'2024-02-29 12:34:56.789 -05:30'", "'1969-12-31 23:59:59.999 +00:00'"],
        [
            "2024-02-29 12:34:56.7890000 -05:30",
            "1969-12-31 23:59:59.9990000 +00:00",
        ],
    ),
    column(
        "c_json",
        "json",
        ["N'{\"a\":[1,\"é\"]}'", "N'[]'"],
        ["{\"a\":[1,\"é\"]}", "[]"],
    ),
    column(
        "c_vector",
        "vector(3)",
        ["N'[1, -0.5, 0.25]'", "N'[0, 0, 0]'"],
        ["[1.0,-0.5,0.25]", "[0.0,0.0,0.0]"],
    ),
];

/// Each `rowversion` of [`create_script`], whose values the server makes, and its text by the server.
pub const SELECT_VERSIONS: &str =
    "SELECT version, CONVERT(varchar(16), version, 2) AS shown FROM dbo.row_versions ORDER BY id";

/// Makes `dbo.every_type` (all columns nullable) and `dbo.every_type_nn` (none), and fills both: row 1 has the first
/// literals, row 2 the second, and row 3 of the nullable one has NULLs. `dbo.row_versions` has two rows.
pub fn create_script() -> String {
    let mut script = String::new();
    for (table, null) in [("every_type", "NULL"), ("every_type_nn", "NOT NULL")] {
        let columns: Vec<String> = COLUMNS
            .iter()
            .map(|column| format!("{} {} {null}", column.name, column.ty))
            .collect();
        script.push_str(&format!(
            "CREATE TABLE dbo.{table} (id int NOT NULL PRIMARY KEY, {})\nGO\n",
            columns.join(", ")
        ));
        for row in 0..2 {
            let values: Vec<&str> = COLUMNS.iter().map(|column| column.literals[row]).collect();
            script.push_str(&format!(
                "INSERT INTO dbo.{table} VALUES ({}, {})\nGO\n",
                row + 1,
                values.join(", ")
            ));
        }
    }
    script.push_str(
        "INSERT INTO dbo.every_type (id) VALUES (3)\nGO\n\
         CREATE TABLE dbo.row_versions (id int NOT NULL PRIMARY KEY, version rowversion)\nGO\n\
         INSERT INTO dbo.row_versions (id) VALUES (1), (2)\nGO\n",
    );
    script
}

/// The query for a table of [`create_script`].
pub fn select(table: &str) -> String {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    format!("SELECT {} FROM dbo.{table} ORDER BY id", names.join(", "))
}

/// The rows that a Python peer printed: cells behind `=`, or NULL.
pub fn rows(out: &str) -> Vec<Vec<Option<String>>> {
    out.lines()
        .filter_map(|line| line.strip_prefix("row\t"))
        .map(|line| {
            line.split('\t')
                .map(|cell| cell.strip_prefix('=').map(str::to_owned))
                .collect()
        })
        .collect()
}

/// `ä*9000` stands for 9,000 of them.
pub fn expand(expected: &str) -> String {
    match expected.split_once('*') {
        Some((unit, count)) => unit.repeat(count.parse().unwrap()),
        None => expected.to_owned(),
    }
}

/// Compares rows in text form; `adjust` takes an expected text to what a client can hold of it.
pub fn check(rows: &[Vec<Option<String>>], nullable: bool, adjust: impl Fn(&Column, String) -> String) {
    assert_eq!(rows.len(), if nullable { 3 } else { 2 });
    for (at, column) in COLUMNS.iter().enumerate() {
        for (row, (found, expected)) in rows.iter().zip(column.expected).enumerate() {
            let expected = adjust(column, expand(expected));
            assert_eq!(
                found[at].as_deref(),
                Some(expected.as_str()),
                "{} of row {}",
                column.name,
                row + 1
            );
        }
        if nullable {
            assert_eq!(rows[2][at], None, "{} of row 3", column.name);
        }
    }
}

/// The rows of [`SELECT_VERSIONS`]: eight bytes each, and the second is the newer one.
pub fn check_versions(rows: &[Vec<Option<String>>]) {
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row[0], row[1]);
        assert_eq!(row[0].as_ref().map(String::len), Some(16), "{row:?}");
    }
    assert!(rows[0][0] < rows[1][0], "{rows:?}");
}

/// What Python's times can hold of a text: they end at the microsecond.
pub fn to_the_microsecond(column: &Column, expected: String) -> String {
    let digits = "0001-01-01 00:00:00.000000".len();
    match column.ty {
        "time(7)" | "time(0)" | "datetime2(7)" | "datetime2(3)" => expected[..expected.len() - 1].to_owned(),
        // The offset stands behind it.
        "datetimeoffset(7)" | "datetimeoffset(3)" => format!("{}{}", &expected[..digits], &expected[digits + 1..]),
        _ => expected,
    }
}

/// What a client that does not know of collations in UTF-8 reads: it takes them for code page 1252.
pub fn in_code_page_1252(expected: &str) -> String {
    expected.replace('é', "Ã©")
}

/// An integer with a decimal point `scale` digits from its end.
pub fn with_scale(value: i128, scale: u8) -> String {
    let scale = usize::from(scale);
    let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if value < 0 { "-" } else { "" };
    if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

/// `HH:MM:SS.fffffff` of a number of 100 ns units.
pub fn time_text(units: u64) -> String {
    let seconds = units / 10_000_000;
    format!(
        "{:02}:{:02}:{:02}.{:07}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        units % 10_000_000
    )
}

/// `YYYY-MM-DD` of a number of days since 0001-01-01.
pub fn date_text(days: u32) -> String {
    let first = chrono::NaiveDate::from_ymd_opt(1, 1, 1).unwrap();
    first
        .checked_add_days(chrono::Days::new(u64::from(days)))
        .unwrap()
        .format("%Y-%m-%d")
        .to_string()
}

/// `YYYY-MM-DD HH:MM:SS.fffffff +HH:MM` of days and 100 ns units in UTC, and the minutes that local time is ahead of it.
pub fn offset_text(days: u32, units: u64, minutes: i16) -> String {
    const UNITS_A_MINUTE: i64 = 600_000_000;
    const UNITS_A_DAY: i64 = 1440 * UNITS_A_MINUTE;
    let utc = i64::from(days) * UNITS_A_DAY + i64::try_from(units).unwrap();
    let local = utc + i64::from(minutes) * UNITS_A_MINUTE;
    let sign = if minutes < 0 { '-' } else { '+' };
    let ahead = minutes.unsigned_abs();
    format!(
        "{} {} {sign}{:02}:{:02}",
        date_text(u32::try_from(local.div_euclid(UNITS_A_DAY)).unwrap()),
        time_text(local.rem_euclid(UNITS_A_DAY).unsigned_abs()),
        ahead / 60,
        ahead % 60
    )
}
