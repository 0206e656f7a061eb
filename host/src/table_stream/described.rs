//! Chains in words: what runs, and in what one differs from another.

use std::collections::{BTreeMap, BTreeSet};

use crate::transform::Provenance;

/// `mask@0.1.0`.
pub(crate) fn plugin_name(provenance: &Provenance) -> String {
    format!("{}@{}", provenance.plugin, provenance.version)
}

/// A chain in one line, with what its digest depends on.
pub(super) fn describe(provenance: &[Provenance]) -> String {
    if provenance.is_empty() {
        return "no transform".to_owned();
    }
    let steps: Vec<String> = provenance
        .iter()
        .map(|step| {
            let keys: Vec<String> = step
                .keys
                .iter()
                .map(|(name, version)| format!("{name}={version}"))
                .collect();
            let lookups: Vec<String> = step
                .lookups
                .iter()
                .map(|(name, sha256)| format!("{name}={sha256:.12}"))
                .collect();
            format!(
                "{} (component {:.12}, configuration {:.12}{}{}{}{})",
                plugin_name(step),
                step.sha256,
                step.config_sha256,
                if keys.is_empty() { "" } else { ", keys " },
                keys.join(" "),
                if lookups.is_empty() { "" } else { ", lookups " },
                lookups.join(" ")
            )
        })
        .collect();
    steps.join(" → ")
}

pub(super) fn describe_json(provenance: &str) -> String {
    match steps(provenance) {
        Some(steps) => describe(&steps),
        None => "a chain that this version cannot read".to_owned(),
    }
}

pub(super) fn steps(provenance: &str) -> Option<Vec<Provenance>> {
    serde_json::from_str(provenance).ok()
}

/// ` (the configuration of mask, key pii of mask)`: what is another in a chain of the same plugins; else nothing, because
/// the two chains say it.
pub(super) fn what_changed(was: &Option<Vec<Provenance>>, now: &[Provenance]) -> String {
    let Some(was) = was else { return String::new() };
    let same_plugins = was
        .iter()
        .map(|step| &step.plugin)
        .eq(now.iter().map(|step| &step.plugin));
    if !same_plugins {
        return String::new();
    }
    let mut changed = Vec::new();
    for (was, now) in was.iter().zip(now) {
        if was.sha256 != now.sha256 {
            changed.push(format!("the component of {}", now.plugin));
        }
        changed.extend(set_otherwise(was, now));
    }
    match changed.is_empty() {
        true => String::new(),
        false => format!(" ({})", changed.join(", ")),
    }
}

/// `initials@0.1.0 → initials@0.2.0`: from one chain to another, in a few words.
pub(super) fn from_to(was: &Option<Vec<Provenance>>, now: &[Provenance]) -> String {
    let names = |steps: &[Provenance]| match steps {
        [] => "no transform".to_owned(),
        steps => steps.iter().map(plugin_name).collect::<Vec<_>>().join(", "),
    };
    let Some(was) = was else {
        return format!("a chain that this version cannot read → {}", names(now));
    };
    let plugins = |steps: &[Provenance]| steps.iter().map(|step| step.plugin.clone()).collect::<Vec<_>>();
    let mut changed = Vec::new();
    if plugins(was) == plugins(now) {
        for (was, now) in was.iter().zip(now) {
            if was.version != now.version {
                changed.push(format!("{} → {}", plugin_name(was), plugin_name(now)));
            } else if was.sha256 != now.sha256 {
                let (was, is) = (&was.sha256, &now.sha256);
                changed.push(format!("the component of {} ({was:.12} → {is:.12})", plugin_name(now)));
            }
            changed.extend(set_otherwise(was, now));
        }
    }
    match changed.is_empty() {
        true => format!("{} → {}", names(was), names(now)),
        false => changed.join(", "),
    }
}

/// What is another in a step beside its component.
fn set_otherwise(was: &Provenance, now: &Provenance) -> Vec<String> {
    let mut changed = Vec::new();
    if was.config_sha256 != now.config_sha256 {
        changed.push(format!("the configuration of {}", now.plugin));
    }
    let keys = differing(&was.keys, &now.keys);
    changed.extend(keys.map(|name| format!("key {name} of {}", now.plugin)));
    let lookups = differing(&was.lookups, &now.lookups);
    changed.extend(lookups.map(|name| format!("lookup {name} of {}", now.plugin)));
    changed
}

/// The names that do not mean the same in both.
fn differing<'a>(
    was: &'a BTreeMap<String, String>,
    now: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = &'a String> {
    let names: BTreeSet<&String> = was.keys().chain(now.keys()).collect();
    names.into_iter().filter(|name| was.get(*name) != now.get(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_said_where_the_plugins_are_the_same() {
        let step = |sha256: &str, config: &str, key: &str| Provenance {
            plugin: "mask".into(),
            version: "1".into(),
            sha256: sha256.into(),
            wit: "0.1.0".into(),
            config_sha256: config.into(),
            keys: [("pii".to_owned(), key.to_owned())].into(),
            lookups: BTreeMap::new(),
        };
        let looking = |sha256: &str| Provenance {
            lookups: [("countries".to_owned(), sha256.to_owned())].into(),
            ..step("aa", "bb", "v1")
        };
        let was = Some(vec![step("aa", "bb", "v1")]);
        let said = |now: &[Provenance]| what_changed(&was, now);
        assert_eq!(said(&[step("aa", "cc", "v1")]), " (the configuration of mask)");
        assert_eq!(
            said(&[step("ab", "bb", "v2")]),
            " (the component of mask, key pii of mask)"
        );
        assert_eq!(said(&[looking("cc")]), " (lookup countries of mask)");
        let looked = Some(vec![looking("cc")]);
        assert_eq!(what_changed(&looked, &[looking("dd")]), " (lookup countries of mask)");
        assert_eq!(what_changed(&looked, &[looking("cc")]), "");
        assert!(
            describe(&[looking("0123456789abcdef")]).ends_with(", keys pii=v1, lookups countries=0123456789ab)"),
            "{}",
            describe(&[looking("0123456789abcdef")])
        );
        assert_eq!(said(&[]), "");
        assert_eq!(what_changed(&None, &[]), "");
    }

    #[test]
    fn a_change_is_told_in_a_few_words() {
        let step = |plugin: &str, version: &str, sha256: &str, config: &str| Provenance {
            plugin: plugin.into(),
            version: version.into(),
            sha256: sha256.into(),
            wit: "0.2.0".into(),
            config_sha256: config.into(),
            keys: BTreeMap::new(),
            lookups: BTreeMap::new(),
        };
        let mask = step("mask", "1", "aa", "bb");
        let was = Some(vec![step("initials", "0.1.0", "07", "c"), mask.clone()]);
        let told = |now: &[Provenance]| from_to(&was, now);
        assert_eq!(
            told(&[step("initials", "0.2.0", "7a", "c"), mask.clone()]),
            "initials@0.1.0 → initials@0.2.0"
        );
        assert_eq!(
            told(&[step("initials", "0.1.0", "7a", "c"), step("mask", "1", "aa", "other")]),
            "the component of initials@0.1.0 (07 → 7a), the configuration of mask"
        );
        assert_eq!(told(&[mask]), "initials@0.1.0, mask@1 → mask@1");
        assert_eq!(told(&[]), "initials@0.1.0, mask@1 → no transform");
        assert_eq!(
            from_to(&None, &[]),
            "a chain that this version cannot read → no transform"
        );
    }
}
