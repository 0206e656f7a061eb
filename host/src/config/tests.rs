//! The file as a whole.

use super::*;
use crate::storage::Place;

const BASE: &str = r#"
[source]
server = "sqlhost,1433"
database = "sales"
user = "cdc_reader"
password = { command = ["printf", "secret"] }

[keys]
pii = { command = ["printf", "0123456789abcdef0123"], version = "v3" }

[defaults]
target = "lake/bronze/{ci}"
app_id = "{ci}-v1"
checkpoint = "lake/checkpoints/{ci}"
facts_table = "lake/ops/ingestion_facts"
control_table = "lake/ops/table_finalization"
"#;

fn parse(extra: &str) -> Result<Settings, String> {
    Settings::parse(&format!("{BASE}{extra}"), Path::new("/base"), Path::new("sluice.toml"))
        .map_err(|error| error.to_string())
}

#[test]
fn a_table_takes_the_defaults_and_says_where_each_setting_is_from() {
    let settings =
        parse("trigger = \"250ms\"\n[[table]]\ncapture_instance = \"dbo_orders\"\ngranularity = \"day\"\n").unwrap();
    let table = &settings.tables[0];
    assert_eq!(table.target, Place::local("/base/lake/bronze/dbo_orders"));
    assert_eq!(table.app_id.0, "dbo_orders-v1");
    assert_eq!(table.trigger, Trigger::Every(Duration::from_millis(250)));
    assert_eq!(table.origins["trigger"], Origin::Defaults);
    assert_eq!(table.origins["granularity"], Origin::Table);
    assert_eq!(table.origins["max_commits_per_batch"], Origin::BuiltIn);
    assert_eq!(settings.poll_interval(), Duration::from_millis(250));
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    let error = parse("[[table]]\ncapture_instance = \"dbo_orders\"\ngranularty = \"day\"\n").unwrap_err();
    assert_eq!(error, "unknown key table[1].granularty; did you mean granularity?");
    let error = Settings::parse("[source]\nservr = \"x\"\n", Path::new("/"), Path::new("s.toml")).unwrap_err();
    assert!(error.to_string().contains("source.server is required"), "{error}");
}

#[test]
fn a_setting_of_a_table_in_another_section_is_told_where_to_stand() {
    let error = parse(
        "[[table]]\ncapture_instance = \"dbo_orders\"\n[[table.transform]]\nplugin = \"mask\"\n\
             on_transform_change = \"continue\"\n",
    )
    .unwrap_err();
    assert_eq!(
        error,
        "unknown key table[1].transform[1].on_transform_change; on_transform_change is a setting of [[table]]: it has to \
             stand above the first [[table.transform]]"
    );
    let error = parse("[limits]\ntrigger = \"10s\"\n").unwrap_err();
    assert_eq!(
        error,
        "unknown key limits.trigger; trigger is a setting of [[table]]: it has to stand under [[table]]"
    );
    // What a table alone may have is no default.
    let error = parse("protect = [\"email\"]\n[[table]]\ncapture_instance = \"a\"\n").unwrap_err();
    assert!(
        error.starts_with("unknown key defaults.protect; protect is a setting of"),
        "{error}"
    );
}

#[test]
fn templates_without_ci_are_refused_when_tables_would_share_them() {
    for key in ["target", "app_id", "checkpoint"] {
        let text = BASE.replace(&format!("{key} = "), &format!("{key} = \"same\" # "));
        let error = Settings::parse(
            &format!("{text}\n[[table]]\ncapture_instance = \"a\"\n"),
            Path::new("/"),
            Path::new("s.toml"),
        )
        .unwrap_err();
        assert!(error.to_string().contains("{ci}"), "{error}");
    }
}

#[test]
fn a_table_may_not_stand_twice_whatever_its_case() {
    let error =
        parse("[[table]]\ncapture_instance = \"dbo_a\"\n[[table]]\ncapture_instance = \"DBO_A\"\n").unwrap_err();
    assert!(error.contains("table[2]") && error.contains("twice"), "{error}");
}

#[test]
fn a_transform_may_only_use_keys_that_exist() {
    let error = parse("[[table]]\ncapture_instance = \"a\"\n[[table.transform]]\nplugin = \"mask\"\nkeys = [\"pi\"]\n")
        .unwrap_err();
    assert!(
        error.contains("\"pi\"") && error.contains("did you mean pii"),
        "{error}"
    );
}

#[test]
fn lookups_are_files_and_a_transform_may_only_use_those_that_exist() {
    let lookups = "[lookups]\ncountries = { file = \"ref/countries.csv\" }\ncities = { file = \"/c.csv\" }\n";
    let table = |names: &str| {
        format!(
            "{lookups}[[table]]\ncapture_instance = \"a\"\n[[table.transform]]\nplugin = \"mask\"\nlookups = {names}\n"
        )
    };
    let settings = parse(&table(r#"["cities", "countries"]"#)).unwrap();
    let files: Vec<_> = settings
        .lookups
        .iter()
        .map(|lookup| (lookup.name.as_str(), lookup.file.as_path()))
        .collect();
    assert!(
        files.contains(&("countries", Path::new("/base/ref/countries.csv"))),
        "{files:?}"
    );
    assert!(files.contains(&("cities", Path::new("/c.csv"))), "{files:?}");
    assert_eq!(settings.tables[0].transforms[0].lookups, ["cities", "countries"]);
    let error = parse(&table(r#"["country"]"#)).unwrap_err();
    assert!(
        error.ends_with("lookups names \"country\", which [lookups] does not have; did you mean countries?"),
        "{error}"
    );
    for (wrong, expected) in [
        ("a = \"a.csv\"", "lookups.a must be { file = \"PATH\" }"),
        ("a = {}", "lookups.a.file is required"),
        ("a = { fil = \"a.csv\" }", "lookups.a.file is required"),
        ("a = { file = \"a.csv\", key = \"b\" }", "unknown key lookups.a.key"),
    ] {
        let error = parse(&format!("[lookups]\n{wrong}\n")).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_not_supported_yet_is_said_and_not_ignored() {
    let error = parse("[[table]]\ncapture_instance = \"a\"\non_data_loss = \"resnapshot\"\n").unwrap_err();
    assert!(error.contains("on_data_loss"), "{error}");
}

#[test]
fn what_may_go_into_quarantine_is_rows_or_a_share_of_the_batch() {
    use crate::transform::OnError;
    let table = "[[table]]\ncapture_instance = \"a\"\n";
    let of = |lines: &str| parse(&format!("{table}{lines}")).map(|settings| settings.tables[0].max_quarantined);
    assert_eq!(of(""), Ok(MaxQuarantined::Rows(1000)));
    assert_eq!(of("max_quarantined = 0\n"), Ok(MaxQuarantined::Rows(0)));
    assert_eq!(of("max_quarantined = \"0.5%\"\n"), Ok(MaxQuarantined::Percent(0.5)));
    for wrong in ["-1", "\"5\"", "\"101%\"", "\"x%\"", "\"NaN%\"", "1.5", "true"] {
        let error = of(&format!("max_quarantined = {wrong}\n")).unwrap_err();
        assert!(
            error.contains("table[1].max_quarantined must be a number of rows"),
            "{error}"
        );
    }
    let transform = |on_error: &str| {
        let lines = format!("{table}[[table.transform]]\nplugin = \"mask\"\n{on_error}");
        parse(&lines).map(|settings| settings.tables[0].transforms[0].on_error)
    };
    assert_eq!(transform(""), Ok(OnError::Fail));
    assert_eq!(transform("on_error = \"quarantine\"\n"), Ok(OnError::Quarantine));
    let error = transform("on_error = \"skip\"\n").unwrap_err();
    assert!(error.contains("on_error must be \"fail\" or \"quarantine\""), "{error}");
}

#[test]
fn how_much_is_looked_through_for_leaks_is_a_choice_of_three() {
    use crate::transform::LeakCheck;
    let table = "[[table]]\ncapture_instance = \"a\"\n";
    let of = |lines: &str| parse(lines).map(|settings| settings.tables[0].leak_check);
    assert_eq!(of(table), Ok(LeakCheck::Full));
    assert_eq!(of(&format!("{table}leak_check = \"off\"\n")), Ok(LeakCheck::Off));
    assert_eq!(
        of(&format!("leak_check = \"sampled\"\n{table}")),
        Ok(LeakCheck::Sampled)
    );
    let error = of(&format!("{table}leak_check = \"none\"\n")).unwrap_err();
    assert!(
        error.contains("table[1].leak_check must be \"full\" or \"sampled\" or \"off\""),
        "{error}"
    );
}

#[test]
fn a_syntax_error_does_not_quote_the_line() {
    let error = Settings::parse("[source]\npassword = hunter2\n", Path::new("/"), Path::new("s.toml")).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(error.to_string().contains("at line 2, column 12"), "{error}");
}

#[test]
fn nothing_shares_a_folder_that_should_not_or_lies_inside_another() {
    for (line, words) in [
        (
            "control_table = \"lake/ops/ingestion_facts\"",
            "is also the facts_table of a",
        ),
        (
            "target = \"lake/checkpoints/../checkpoints/a/\"",
            "is also the target of a",
        ),
        ("target = \"lake/ops/ingestion_facts\"", "is also the target of a"),
        ("target = \"lake\"", "lies inside the target of a"),
        (
            "checkpoint = \"lake/bronze/a/_checkpoint\"",
            "lies inside the target of a",
        ),
    ] {
        let error = parse(&format!("[[table]]\ncapture_instance = \"a\"\n{line}\n")).unwrap_err();
        assert!(error.contains(words) && error.contains("table[1]."), "{line}: {error}");
    }
    let error =
        parse("[[table]]\ncapture_instance = \"a\"\n[[table]]\ncapture_instance = \"b\"\ntarget = \"lake/bronze/a\"\n")
            .unwrap_err();
    assert!(
        error.contains("table[2].target") && error.contains("target of a"),
        "{error}"
    );
}

#[test]
fn locations_are_what_the_store_takes() {
    let table = "[[table]]\ncapture_instance = \"a\"\n";
    let settings = parse(&format!("{table}target = \"../x/./b/../a\"\n")).unwrap();
    assert_eq!(settings.tables[0].target, Place::local("/x/a"));
    for (line, words) in [
        (
            "target = \"50%41/a\"",
            "table[1].target is /base/50%41/a, with a percent sign",
        ),
        ("target = \"a\\nb\"", "table[1].target has a control character"),
        (
            "checkpoint = \"s3://bucket/a\"",
            "checkpoint of a is s3://bucket/a, in a bucket, where there is no lock",
        ),
    ] {
        let error = parse(&format!("{table}{line}\n")).unwrap_err();
        assert!(error.contains(words), "{line}: {error}");
    }
    assert!(parse(&format!("{table}target = \"100%/a\"\n")).is_ok());
    for name in ["../../evil", "a/b", "a\\b", ".."] {
        let error = parse(&format!("[[table]]\ncapture_instance = '{name}'\n")).unwrap_err();
        assert!(error.contains("table[1].target has {ci}"), "{error}");
    }
}

#[test]
fn limits_that_nothing_could_meet_are_refused() {
    let transform = "[[table]]\ncapture_instance = \"a\"\n[[table.transform]]\nplugin = \"mask\"\n";
    for (line, words) in [
        ("deadline = \"0s\"", "deadline must be from 10ms to"),
        ("memory = \"0B\"", "memory must be from 1 to 4096 MiB"),
        ("output = \"3GiB\"", "output must be from 1 to 2048 MiB"),
        ("config = { a = [1, nan] }", "config.a[2] must be finite"),
    ] {
        let error = parse(&format!("{transform}{line}\n")).unwrap_err();
        assert!(error.contains(words), "{line}: {error}");
    }
    let settings = parse(&format!(
        "{transform}output = \"512MiB\"\nconfig = {{ since = 2024-01-02 }}\n"
    ))
    .unwrap();
    assert_eq!(settings.tables[0].transforms[0].output_bytes, 512 << 20);
    assert_eq!(
        settings.tables[0].transforms[0].config,
        serde_json::json!({"since": "2024-01-02"})
    );
}

#[test]
fn language_runtimes_get_larger_limits_unless_the_table_says_otherwise() {
    let transform = "[[table]]\ncapture_instance = \"a\"\n[[table.transform]]\nplugin = \"mask\"\n";
    let limits = |lines: &str| {
        let settings = parse(&format!("{transform}{lines}\n")).unwrap();
        let transform = &settings.tables[0].transforms[0];
        (
            transform.wasi,
            transform.memory_bytes >> 20,
            transform.deadline.as_secs(),
        )
    };
    assert_eq!(limits(""), (false, 256, 10));
    assert_eq!(limits("wasi = false"), (false, 256, 10));
    assert_eq!(limits("wasi = true"), (true, 512, 60));
    assert_eq!(
        limits("wasi = true\nmemory = \"100MiB\"\ndeadline = \"5s\""),
        (true, 100, 5)
    );
}

#[test]
fn selecting_an_unknown_table_names_the_nearest() {
    let mut settings = parse("[[table]]\ncapture_instance = \"dbo_orders\"\n").unwrap();
    let error = settings.select(&["dbo_order".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("did you mean dbo_orders"), "{error}");
    settings.select(&["DBO_ORDERS".to_owned()]).unwrap();
    assert_eq!(settings.tables.len(), 1);
}
