//! Why a component does not open: what it says of its configuration, as the user is told it, and what is meant where a name is
//! misspelt or a setting stands in the wrong place.

use std::collections::BTreeMap;

use super::bindings::v0_3::exports::sluice::transform::transform as wit;
use super::error::{ConfigFault, meant};
use super::plan::{Input, one_line};

/// Characters of a message of `open` that are shown.
const MAX_REASON_CHARS: usize = 500;
/// Column names of an answer of `open` that are shown.
const MAX_NAMES: usize = 100;

/// What the component says is wrong. It has seen names and types and its configuration, and no data, so its words may be shown,
/// cut to a line. `granted` are the transform's keys.
pub(super) fn open_fault(error: wit::OpenError, inputs: &[Input], granted: &BTreeMap<String, String>) -> ConfigFault {
    let reason = |text: &str| one_line(text, MAX_REASON_CHARS);
    let names = |names: Vec<String>| names.iter().take(MAX_NAMES).map(|name| one_line(name, 128)).collect();
    match error {
        wit::OpenError::Config(problem) => ConfigFault::Option {
            path: reason(&problem.path),
            reason: reason(&problem.reason) + &meant(meant_key(&problem.reason, granted).as_deref()),
        },
        wit::OpenError::Unlisted(columns) => ConfigFault::Unlisted(names(columns)),
        wit::OpenError::Missing(columns) => {
            let nearest = columns
                .first()
                .and_then(|name| crate::config::nearest(name, inputs.iter().map(|input| input.name.as_str())));
            ConfigFault::Missing {
                names: names(columns),
                nearest,
            }
        }
        wit::OpenError::Unsupported(problem) => ConfigFault::Unsupported {
            column: one_line(&problem.column, 128),
            reason: reason(&problem.reason),
        },
    }
}

/// The granted key that a component means which says that it was not granted another.
fn meant_key(reason: &str, granted: &BTreeMap<String, String>) -> Option<String> {
    let (_, rest) = reason.split_once("the key `")?;
    let (named, rest) = rest.split_once('`')?;
    let is_refused = rest.starts_with(" is not granted") && !granted.contains_key(named);
    is_refused.then(|| crate::config::nearest(named, granted.keys().map(String::as_str)))?
}

/// A fault that is about a setting of the table, which stands in the component's configuration by mistake, says so.
pub(super) fn misplaced(mut fault: ConfigFault, inputs: &[Input], config: &serde_json::Value) -> ConfigFault {
    let is_named = |name: &str| match &fault {
        // A setting that the component knows is its own, whatever is wrong with it.
        ConfigFault::Option { path, reason } => {
            reason.contains("unknown")
                && (path.rsplit('.').next() == Some(name) || reason.contains(&format!("`{name}`")))
        }
        ConfigFault::Missing { names, .. } => names.iter().any(|named| named == name),
        _ => false,
    };
    // Most components have `columns` of their own, and a column may have any name.
    let is_meant = |name: &&String| {
        crate::config::is_table_setting(name)
            && *name != "columns"
            && !inputs.iter().any(|input| input.name == **name)
            && is_named(name.as_str())
    };
    let Some(setting) = keys_in(config).into_iter().find(is_meant).cloned() else {
        return fault;
    };
    if let ConfigFault::Missing { nearest, .. } = &mut fault {
        *nearest = None;
    }
    ConfigFault::Misplaced {
        setting,
        fault: Box::new(fault),
    }
}

/// All keys of a configuration, those of its sections too.
fn keys_in(config: &serde_json::Value) -> Vec<&String> {
    let serde_json::Value::Object(members) = config else {
        return Vec::new();
    };
    let inner = members.values().flat_map(keys_in);
    members.keys().chain(inner).collect()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    fn inputs() -> Vec<Input> {
        ["email", "trigger"]
            .map(|name| Input {
                name: name.to_owned(),
                data_type: DataType::Utf8,
                nullable: true,
                source_type: "nvarchar(10)".to_owned(),
                key: None,
            })
            .into()
    }

    fn option(path: &str, reason: &str) -> ConfigFault {
        ConfigFault::Option {
            path: path.to_owned(),
            reason: reason.to_owned(),
        }
    }

    #[test]
    fn a_setting_of_the_table_at_the_end_of_the_file_is_told_where_to_stand() {
        let told =
            "`on_transform_change` is a setting of [[table]]: it has to stand above the first [[table.transform]]";
        let missing = ConfigFault::Missing {
            names: vec!["on_transform_change".to_owned()],
            nearest: Some("email".to_owned()),
        };
        for fault in [
            option("columns.on_transform_change", "unknown method `continue`"),
            option("", "unknown key `on_transform_change`"),
            missing,
        ] {
            let before = match &fault {
                ConfigFault::Option { reason, .. } => reason.clone(),
                other => other.to_string().replace("; did you mean `email`?", ""),
            };
            let config = serde_json::json!({ "columns": { "email": "pass", "on_transform_change": "continue" } });
            let text = misplaced(fault, &inputs(), &config).to_string();
            assert!(text.ends_with(&format!("{before}; {told}")), "{text}");
        }
    }

    #[test]
    fn what_is_no_setting_of_the_table_or_may_be_meant_is_told_as_the_component_says_it() {
        let config = serde_json::json!({ "columns": { "trigger": "10s", "city": 1 }, "protect": 1, "target": 2 });
        for fault in [
            // Its own setting, with a wrong value.
            option("target", "expected a text"),
            option("columns.city", "unknown method"),
            // A column of the table, and what a component may well have itself.
            option("columns.trigger", "unknown method `10s`"),
            option("", "unknown key `city`; known are `columns`"),
            // Not what the component complains of; not in the configuration.
            option("columns.city", "unknown method"),
            option("columns.max_quarantined", "unknown method"),
        ] {
            let before = fault.to_string();
            assert_eq!(misplaced(fault, &inputs(), &config).to_string(), before);
        }
    }

    #[test]
    fn a_key_that_is_misspelt_is_answered_with_the_one_that_is_granted() {
        let granted = BTreeMap::from([("pii".to_owned(), "v1".to_owned())]);
        let meant = |reason: &str| meant_key(reason, &granted);
        assert_eq!(
            meant("the key `pi` is not granted to this transform"),
            Some("pii".to_owned())
        );
        assert_eq!(meant("the key `other` is not granted to this transform"), None);
        assert_eq!(meant("the key `pii` is not granted to this transform"), None);
        assert_eq!(meant("the key `pi` is too long"), None);
        let fault = wit::OpenError::Config(wit::ConfigProblem {
            path: "columns.email.key".to_owned(),
            reason: "the key `pi` is not granted to this transform; add it".to_owned(),
        });
        assert_eq!(
            open_fault(fault, &inputs(), &granted).to_string(),
            "config at `columns.email.key`: the key `pi` is not granted to this transform; add it; did you mean `pii`?"
        );
    }
}
