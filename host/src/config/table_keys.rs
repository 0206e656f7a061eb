//! The names of a table's settings, to know one that stands where it does not belong.

/// The keys that may stand under `[[table]]`.
const KEYS: [&str; 22] = [
    "app_id",
    "capture_instance",
    "capture_stalled_after",
    "checkpoint",
    "columns",
    "control_table",
    "exclude",
    "facts_table",
    "granularity",
    "idle_interval",
    "leak_check",
    "max_commits_per_batch",
    "max_quarantined",
    "num_partitions",
    "on_data_loss",
    "on_transform_change",
    "protect",
    "quarantine_retention",
    "schema_change_policy",
    "starting_lsn",
    "target",
    "trigger",
];

/// Whether it is a setting of a table. At the end of a file such a key lands in the section of whatever stands there.
pub(crate) fn is_table_setting(key: &str) -> bool {
    KEYS.contains(&key)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Settings;

    #[test]
    fn they_are_those_of_the_page() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/configuration.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, rest) = page.split_once("## `[defaults]` and `[[table]]`\n").unwrap();
        let (of_tables, _) = rest.split_once("### `[[table.transform]]`").unwrap();
        let rows = of_tables.lines().filter_map(|line| line.strip_prefix("| `"));
        let mut documented: Vec<&str> = rows.filter_map(|row| Some(row.split_once('`')?.0)).collect();
        documented.sort_unstable();
        assert_eq!(documented, KEYS);
    }

    #[test]
    fn a_table_takes_each_of_them() {
        let source = "[source]\nserver = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = \"p\"\n";
        for key in KEYS {
            let instance = match key {
                "capture_instance" => "",
                _ => "capture_instance = \"a\"\n",
            };
            // None of them can be true.
            let text = format!("{source}[[table]]\n{instance}{key} = true\n");
            let error = Settings::parse(&text, Path::new("/"), Path::new("s.toml")).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("table[1].{key} ")),
                "{key}: {error}"
            );
        }
    }
}
