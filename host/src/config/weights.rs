//! `[weights]`: groups of tables that get more, or less, of what all tables share.

use std::num::NonZeroU32;

use wildmatch::WildMatch;

use super::patterns::is_pattern;
use super::section::Section;
use super::{ConfigError, TableSettings};

/// The heaviest group.
const MOST: i64 = 1000;

/// Gives each table the weight of its group. A table belongs to one group at most. A name that is no table's is refused, unless
/// there may be more tables than are known; a pattern may fit none.
pub(super) fn apply(section: &Section<'_>, tables: &mut [TableSettings], may_be_more: bool) -> Result<(), ConfigError> {
    for (group, value) in section.entries() {
        let name = format!("weights.{group}");
        let error = |problem: &str| ConfigError::Key {
            key: name.clone(),
            problem: problem.to_owned(),
        };
        let shape = "must be a group such as { tables = [\"dbo_orders\", \"dbo_order_*\"], weight = 4 }";
        let table = value.as_table().ok_or_else(|| error(shape))?;
        let mut group_section = Section::new(name.clone(), table);
        let weight = group_section.integer("weight", 1..=MOST)?.ok_or_else(|| error(shape))?;
        let weight = u32::try_from(weight)
            .ok()
            .and_then(NonZeroU32::new)
            .ok_or_else(|| error(shape))?;
        let names = group_section.strings("tables")?.ok_or_else(|| error(shape))?;
        group_section.finish()?;
        for wanted in names {
            let pattern = WildMatch::new_case_insensitive(&wanted);
            let mut found = false;
            for table in tables
                .iter_mut()
                .filter(|table| pattern.matches(&table.capture_instance.0))
            {
                found = true;
                match &table.group {
                    Some(other) if other != group => {
                        return Err(error(&format!(
                            "has {}, which is in the group {other} too: a table has one weight",
                            table.capture_instance
                        )));
                    }
                    _ => {
                        table.group = Some(group.to_owned());
                        table.weight = weight;
                    }
                }
            }
            if !found && !may_be_more && !is_pattern(&wanted) {
                return Err(error(&format!(
                    "names {wanted}, which is no table of the configuration"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Settings;

    fn parse(weights: &str) -> Result<Vec<(String, Option<String>, u32)>, String> {
        let text = format!(
            "[source]\nserver = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = {{ command = [\"printf\", \"x\"] }}\n\
             [weights]\n{weights}\n[defaults]\ntarget = \"t/{{ci}}\"\napp_id = \"{{ci}}\"\ncheckpoint = \"c/{{ci}}\"\n\
             facts_table = \"f\"\ncontrol_table = \"v\"\n[[table]]\ncapture_instance = \"dbo_orders\"\n\
             [[table]]\ncapture_instance = \"dbo_order_items\"\n[[table]]\ncapture_instance = \"dbo_log\"\n"
        );
        let settings =
            Settings::parse(&text, Path::new("/"), Path::new("s.toml")).map_err(|error| error.to_string())?;
        let of = |table: &crate::config::TableSettings| {
            (
                table.capture_instance.0.clone(),
                table.group.clone(),
                table.weight.get(),
            )
        };
        Ok(settings.tables.iter().map(of).collect())
    }

    #[test]
    fn groups_are_by_name_or_pattern_and_others_weigh_one() {
        let tables = parse("gold = { tables = [\"DBO_ORDER*\"], weight = 4 }").unwrap();
        let gold = Some("gold".to_owned());
        assert_eq!(
            tables,
            [
                ("dbo_orders".to_owned(), gold.clone(), 4),
                ("dbo_order_items".to_owned(), gold, 4),
                ("dbo_log".to_owned(), None, 1)
            ]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (weights, words) in [
            ("gold = 4", "weights.gold must be a group such as"),
            (
                "gold = { tables = [\"dbo_orders\"] }",
                "weights.gold must be a group such as",
            ),
            (
                "gold = { tables = [\"dbo_orders\"], weight = 0 }",
                "weights.gold.weight must be a whole number from 1",
            ),
            (
                "gold = { tables = [\"dbo_ordrs\"], weight = 2 }",
                "weights.gold names dbo_ordrs, which is no table",
            ),
            (
                "gold = { tables = [\"*\"], weight = 2, x = 1 }",
                "unknown key weights.gold.x",
            ),
            (
                "a = { tables = [\"dbo_orders\"], weight = 2 }\nb = { tables = [\"*\"], weight = 3 }",
                "has dbo_orders, which is in the group a too",
            ),
        ] {
            let error = parse(weights).unwrap_err();
            assert!(error.contains(words), "{weights}: {error}");
        }
    }
}
