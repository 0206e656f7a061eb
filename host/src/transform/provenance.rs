//! The record of what made a batch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sha256;

/// One transform of a chain, as commits, facts and pins record it. Field order and names are a format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The plugin's name, without a version.
    pub plugin: String,
    /// The component's version.
    pub version: String,
    /// SHA-256 of its file, lower-case hex.
    pub sha256: String,
    /// The version of `sluice:transform` that it is written for.
    pub wit: String,
    /// SHA-256 of its configuration in canonical form, lower-case hex.
    pub config_sha256: String,
    /// Version of each granted key.
    pub keys: BTreeMap<String, String>,
    /// SHA-256 of the file of each granted reference table, lower-case hex. Left out when there is none, as it was before
    /// there were reference tables, so that the digest of a chain without them stays.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lookups: BTreeMap<String, String>,
}

/// SHA-256 over the JSON form of a chain's provenance, lower-case hex. Equal chains have equal digests.
pub(crate) fn digest(provenance: &[Provenance]) -> String {
    let mut text = String::from("[");
    for (index, step) in provenance.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let mut members = serde_json::json!({
            "plugin": step.plugin,
            "version": step.version,
            "sha256": step.sha256,
            "wit": step.wit,
            "config_sha256": step.config_sha256,
            "keys": step.keys,
        });
        if !step.lookups.is_empty() {
            members["lookups"] = serde_json::json!(step.lookups);
        }
        text += &canonical_json(&members);
    }
    text.push(']');
    sha256::hex(text.as_bytes())
}

/// The digest of a chain as commits and facts record it; `None` when the text is no such record.
pub(crate) fn digest_of(provenance: &str) -> Option<String> {
    let provenance: Vec<Provenance> = serde_json::from_str(provenance).ok()?;
    Some(digest(&provenance))
}

/// JSON text without blanks and with the keys of every object in byte order. It is what the component gets, so the digest
/// is of what it saw, however the user ordered the file and whatever features other crates turn on in `serde_json`.
pub(crate) fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            let members: Vec<String> = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical_json(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical_json).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_does_not_depend_on_order() {
        let a: Value = serde_json::from_str(r#"{"b": [1, {"y": null, "x": "\"ä"}], "a": 1.5}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a": 1.5, "b": [1, {"x": "\"ä", "y": null}]}"#).unwrap();
        assert_eq!(canonical_json(&a), r#"{"a":1.5,"b":[1,{"x":"\"ä","y":null}]}"#);
        assert_eq!(canonical_json(&a), canonical_json(&b));
    }

    #[test]
    fn provenance_has_the_form_of_the_contract() {
        let step = Provenance {
            plugin: "mask".into(),
            version: "1".into(),
            sha256: "aa".into(),
            wit: "0.1.0".into(),
            config_sha256: "bb".into(),
            keys: BTreeMap::from([("pii".into(), "v3".into())]),
            lookups: BTreeMap::new(),
        };
        let json =
            r#"{"plugin":"mask","version":"1","sha256":"aa","wit":"0.1.0","config_sha256":"bb","keys":{"pii":"v3"}}"#;
        assert_eq!(serde_json::to_string(&step).unwrap(), json);
        let mut other = step.clone();
        other.keys.insert("pii".into(), "v4".into());
        assert_ne!(digest(std::slice::from_ref(&step)), digest(&[other]));
        assert_eq!(digest(&[]), sha256::hex(b"[]"));
        assert_ne!(
            digest(std::slice::from_ref(&step)),
            digest(&[step.clone(), step.clone()])
        );

        let looking = Provenance {
            lookups: BTreeMap::from([("countries".into(), "cc".into())]),
            ..step.clone()
        };
        let with_lookups = json.replace("}}", r#"},"lookups":{"countries":"cc"}}"#);
        assert_eq!(serde_json::to_string(&looking).unwrap(), with_lookups);
        for (step, json) in [(&step, json), (&looking, with_lookups.as_str())] {
            assert_eq!(serde_json::from_str::<Provenance>(json).unwrap(), *step);
            let record = format!("[{json}]");
            assert_eq!(digest_of(&record).unwrap(), digest(std::slice::from_ref(step)));
        }
        assert_ne!(digest(std::slice::from_ref(&step)), digest(&[looking]));
    }

    /// The digest that commits of the first version of sluice have for this chain: from Python,
    /// `sha256(json.dumps(chain, separators=(",", ":"), sort_keys=True))`.
    #[test]
    fn the_digest_of_a_chain_without_lookups_is_what_it_was() {
        let json =
            r#"[{"plugin":"mask","version":"1","sha256":"aa","wit":"0.1.0","config_sha256":"bb","keys":{"pii":"v3"}}]"#;
        assert_eq!(
            digest_of(json).unwrap(),
            "d9ffc9bcc97d7a43ffd6d10d14588cacd97262f602db292bb150be209cade368"
        );
    }
}
