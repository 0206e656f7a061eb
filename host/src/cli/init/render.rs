//! The text of a first configuration for a server.

use std::fmt::Write as _;
use std::path::Path;

use super::guess::{Column, Guess, guess};
use crate::config::{OnlySource, SOURCE_SECRETS};
use crate::source::{SurveyedColumn, SurveyedTable};

/// What is written besides what the server said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'a> {
    /// The environment variable of the key.
    pub(super) key_env: &'a str,
    /// The folder that the configuration will be in.
    pub(super) folder: &'a Path,
}

/// Column at which comments begin, where a line is not longer.
const COMMENT_AT: usize = 72;

/// The configuration, with a mask for every table that lists every column.
pub(super) fn render(source: &OnlySource, database: &str, tables: &[SurveyedTable], options: Options<'_>) -> String {
    let sections: Vec<Section> = tables.iter().map(Section::of).collect();
    let mut text = format!(
        "# Written by `sluice init --from-server` from the catalog of database {}; no row was read.\n\
         # The masks are guesses by the names and declared types of columns. Look at each, above all at what passes\n\
         # and at what is said to be in doubt. Then: `sluice check`, and `sluice run --once`.\n\n",
        comment(database)
    );
    text.push_str(&source_section(source, options.folder));
    if sections.iter().any(|section| section.keyed) {
        let _ = write!(
            text,
            "\n[keys]\n{}# used by the host; no component sees it. `openssl rand -hex 32` makes one\n",
            padded(&format!(
                "pii = {{ env = {}, version = \"v1\" }}",
                quoted(options.key_env)
            ))
        );
    }
    text.push_str(DEFAULTS);
    for section in &sections {
        text.push('\n');
        text.push_str(&section.text);
    }
    text
}

const DEFAULTS: &str = r#"
[defaults]
target        = "lake/bronze/{ci}"
app_id        = "{ci}-v1"
checkpoint    = "lake/checkpoints/{ci}"
facts_table   = "lake/ops/ingestion_facts"
control_table = "lake/ops/table_finalization"
trigger       = "10s"
"#;

/// `[source]` as it was given, without secrets that stood in it.
fn source_section(source: &OnlySource, folder: &Path) -> String {
    const FIRST: [&str; 4] = ["server", "database", "user", "password"];
    let rank = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
    let mut entries: Vec<(&String, &toml::Value)> = source.section.iter().collect();
    entries.sort_by_key(|(key, _)| (rank(key), (*key).clone()));
    let same_folder = source.base == folder;
    let mut text = "[source]\n".to_owned();
    for (name, value) in entries {
        let secret = SOURCE_SECRETS.contains(&name.as_str());
        let line = match value {
            toml::Value::String(_) if secret => {
                let variable = format!("SLUICE_{}", name.to_uppercase());
                format!(
                    "{}# it stood in the file as it is: set this variable",
                    padded(&format!("{name} = {{ env = {} }}", quoted(&variable)))
                )
            }
            value if same_folder => format!("{} = {}", key(name), inline(value)),
            toml::Value::String(path) if matches!(name.as_str(), "ca_file" | "server_certificate") => {
                format!("{name} = {}", quoted(&source.base.join(path).display().to_string()))
            }
            toml::Value::Table(table) if secret => {
                let mut table = table.clone();
                if let Some(toml::Value::String(path)) = table.get_mut("file") {
                    *path = source.base.join(&*path).display().to_string();
                }
                format!("{name} = {}", inline(&toml::Value::Table(table)))
            }
            value => format!("{} = {}", key(name), inline(value)),
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A `[[table]]`.
struct Section {
    text: String,
    /// A method of it uses the key.
    keyed: bool,
}

impl Section {
    fn of(table: &SurveyedTable) -> Section {
        let from = comment(&format!("{}.{}", table.schema, table.table));
        let head = format!(
            "[[table]]\n{}# {from}{}\n",
            padded(&format!("capture_instance = {}", quoted(&table.capture_instance.0))),
            match table.later.as_slice() {
                [] => String::new(),
                later => {
                    let names: Vec<&str> = later.iter().map(|name| name.0.as_str()).collect();
                    comment(&format!("; goes on to {} by itself", names.join(", ")))
                }
            }
        );
        let (readable, unreadable): (Vec<&SurveyedColumn>, Vec<&SurveyedColumn>) =
            table.columns.iter().partition(|column| column.data_type.is_some());
        if readable.is_empty() {
            let why = match &table.hidden {
                Some(hidden) => hidden.clone(),
                None => "none of its columns has a type that can be read".to_owned(),
            };
            // `sluice check` would refuse it.
            let mut text = format!("# Left out: {}\n", comment(&why));
            for line in head.lines() {
                let _ = writeln!(text, "# {line}");
            }
            return Section { text, keyed: false };
        }
        let mut columns = String::new();
        let mut protect = Vec::new();
        let mut keyed = false;
        for column in &readable {
            let Some(data_type) = &column.data_type else { continue };
            let guessed = guess(Column {
                table: &table.table,
                name: &column.name,
                source_type: &column.source_type,
                data_type,
                key: column.key,
            });
            let declared = match column.key {
                true => format!("{}, key", column.source_type),
                false => column.source_type.clone(),
            };
            let (method, why) = match guessed {
                Guess::Pass => ("\"pass\"".to_owned(), declared),
                Guess::Doubt(why) => ("\"pass\"".to_owned(), format!("{declared}; IN DOUBT: {why}")),
                Guess::Mask { method, because } => {
                    protect.push(quoted(&column.name));
                    keyed |= method.is_keyed();
                    (method.toml(), format!("{declared}; {because}"))
                }
            };
            let line = format!("    {} = {method}", key(&column.name));
            let _ = writeln!(columns, "{}# {}", padded(&line), comment(&why));
        }
        let mut text = head;
        if !unreadable.is_empty() {
            let names: Vec<String> = readable.iter().map(|column| quoted(&column.name)).collect();
            let left: Vec<String> = unreadable
                .iter()
                .map(|column| format!("{} {}", column.name, column.source_type))
                .collect();
            let _ = writeln!(text, "columns = [{}]", names.join(", "));
            let _ = writeln!(
                text,
                "# left out, because their types cannot be read: {}",
                comment(&left.join(", "))
            );
        }
        if !protect.is_empty() {
            let _ = writeln!(text, "protect = [{}]", protect.join(", "));
        }
        text.push_str("\n  [[table.transform]]\n  plugin = \"mask\"\n");
        if keyed {
            text.push_str("  keys = [\"pii\"]\n");
        }
        text.push_str("\n    [table.transform.config]\n");
        let _ = writeln!(
            text,
            "{}# a column that is not named here stops the table",
            padded("    unlisted = \"fail\"")
        );
        text.push_str("\n    [table.transform.config.columns]\n");
        text.push_str(&columns);
        Section { text, keyed }
    }
}

fn padded(line: &str) -> String {
    format!("{line:<COMMENT_AT$} ")
}

/// A text of the server's in a comment: one line, and no control character.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A key, bare where it can be.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// A basic string on one line. JSON's escapes are TOML's too, and TOML escapes DEL besides.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

fn inline(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => quoted(text),
        toml::Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        toml::Value::Table(table) => {
            let entries: Vec<String> = table
                .iter()
                .map(|(name, value)| format!("{} = {}", key(name), inline(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;
    use crate::config::Settings;
    use crate::identity::CaptureInstance;

    fn column(name: &str, source_type: &str, data_type: Option<DataType>, key: bool) -> SurveyedColumn {
        SurveyedColumn {
            name: name.to_owned(),
            source_type: source_type.to_owned(),
            data_type,
            key,
        }
    }

    fn table(name: &str, columns: Vec<SurveyedColumn>) -> SurveyedTable {
        SurveyedTable {
            schema: "dbo".to_owned(),
            table: name.to_owned(),
            capture_instance: CaptureInstance(format!("dbo_{name}")),
            later: Vec::new(),
            columns,
            hidden: None,
        }
    }

    fn source(section: &str) -> OnlySource {
        OnlySource::of(section.parse().unwrap(), "/base".into(), Vec::new()).unwrap()
    }

    fn rendered(section: &str, folder: &str, tables: &[SurveyedTable]) -> String {
        let options = Options {
            key_env: "PII_KEY",
            folder: Path::new(folder),
        };
        render(&source(section), "sales", tables, options)
    }

    const SOURCE: &str =
        "server = \"a\"\ndatabase = \"d\"\nuser = \"u\"\npassword = { command = [\"printf\", \"p\"] }\n";

    fn customers() -> SurveyedTable {
        table(
            "customers",
            vec![
                column("id", "int", Some(DataType::Int32), true),
                column("e-mail \"private\"", "nvarchar(80)", Some(DataType::Utf8), false),
                column("city", "nvarchar(80)", Some(DataType::Utf8), false),
                column("shape", "geography", None, false),
            ],
        )
    }

    #[test]
    fn every_column_is_listed_and_what_looks_personal_is_protected() {
        let text = rendered(
            SOURCE,
            "/base",
            &[
                customers(),
                table("t", vec![column("n", "int", Some(DataType::Int32), true)]),
            ],
        );
        let settings = Settings::parse(
            &text.replace("{ env = \"PII_KEY\"", "{ command = [\"printf\", \"0123456789abcdef\"]"),
            Path::new("/base"),
            Path::new("sluice.toml"),
        )
        .unwrap();
        let [customers, plain] = settings.tables.as_slice() else {
            panic!("{text}")
        };
        assert_eq!(customers.protect, ["e-mail \"private\""]);
        let readable = ["id", "e-mail \"private\"", "city"].map(str::to_owned);
        assert_eq!(customers.columns.as_deref(), Some(&readable[..]));
        assert_eq!(
            customers.transforms[0].config,
            serde_json::json!({
                "unlisted": "fail",
                "columns": {"id": "pass", "e-mail \"private\"": {"method": "email", "key": "pii"}, "city": "pass"},
            })
        );
        assert_eq!(customers.transforms[0].keys, ["pii"]);
        assert!(
            text.contains("nvarchar(80); IN DOUBT: ") && text.contains("shape geography"),
            "{text}"
        );
        // Every table stops at a column that is new.
        assert_eq!(plain.transforms[0].config["unlisted"], "fail");
        assert!(plain.protect.is_empty() && plain.transforms[0].keys.is_empty());
    }

    #[test]
    fn no_key_is_asked_for_where_none_is_used() {
        let text = rendered(
            SOURCE,
            "/base",
            &[table("t", vec![column("n", "int", Some(DataType::Int32), true)])],
        );
        assert!(!text.contains("[keys]"), "{text}");
    }

    #[test]
    fn a_table_whose_columns_are_hidden_is_left_out_and_said() {
        let mut hidden = table("secret", Vec::new());
        hidden.hidden = Some("no grant\n[[table]]".to_owned());
        let text = rendered(SOURCE, "/base", &[customers(), hidden]);
        assert!(
            text.contains("# Left out: no grant [[table]]\n# [[table]]\n# capture_instance = \"dbo_secret\""),
            "{text}"
        );
    }

    #[test]
    fn a_secret_that_stood_in_the_file_is_not_repeated_and_paths_stay_those_of_the_file() {
        let section = "server = \"a\"\ndatabase = \"d\"\nuser = \"u\"\npassword = \"hunter2\"\nencrypt = true\n";
        let text = rendered(section, "/base", &[customers()]);
        assert!(
            !text.contains("hunter2") && text.contains("password = { env = \"SLUICE_PASSWORD\" }"),
            "{text}"
        );
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("word"), "w").unwrap();
        let given: toml::Table = "server = \"a\"\ndatabase = \"d\"\nuser = \"u\"\npassword = { file = \"word\" }\n"
            .parse()
            .unwrap();
        let source = OnlySource::of(given, dir.path().to_owned(), Vec::new()).unwrap();
        assert!(source_section(&source, dir.path()).contains("password = { file = \"word\" }"));
        let elsewhere = source_section(&source, Path::new("/elsewhere"));
        let path = dir.path().join("word").display().to_string();
        assert!(elsewhere.contains(&format!("{{ file = \"{path}\" }}")), "{elsewhere}");
    }
}
