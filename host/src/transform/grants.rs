//! What one transform may have the host use on its behalf: the keys and the reference tables that its table's
//! configuration names, and no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::ConfigFault;
use super::keys::{Key, KeyRing};
use super::lookup::{LookupTable, Lookups};
use super::spec::TransformSpec;

/// The grants of one transform.
#[derive(Default)]
pub(crate) struct Grants {
    keys: BTreeMap<String, Key>,
    lookups: BTreeMap<String, Arc<LookupTable>>,
}

impl Grants {
    /// What `spec` names.
    ///
    /// # Errors
    /// A name that is not there, and a reference table that cannot be read.
    pub(crate) fn new(spec: &TransformSpec, ring: &KeyRing, lookups: &Lookups) -> Result<Grants, ConfigFault> {
        let mut grants = Grants::default();
        for name in &spec.keys {
            let key = ring.get(name).ok_or_else(|| ConfigFault::UnknownKey {
                key: name.clone(),
                known: ring.versions().map(|(name, _)| name.to_owned()).collect(),
            })?;
            grants.keys.insert(name.clone(), key.clone());
        }
        for name in &spec.lookups {
            let table = lookups.get(name)?.ok_or_else(|| ConfigFault::UnknownLookup {
                lookup: name.clone(),
                known: lookups.names().map(str::to_owned).collect(),
            })?;
            grants.lookups.insert(name.clone(), table);
        }
        Ok(grants)
    }

    pub(crate) fn key(&self, name: &str) -> Option<&Key> {
        self.keys.get(name)
    }

    pub(crate) fn lookup(&self, name: &str) -> Option<&LookupTable> {
        self.lookups.get(name).map(Arc::as_ref)
    }

    /// Versions of the keys by name, as provenance records them.
    pub(crate) fn versions(&self) -> BTreeMap<String, String> {
        self.keys
            .iter()
            .map(|(name, key)| (name.clone(), key.version.clone()))
            .collect()
    }

    /// SHA-256 of each reference table's file by name, as provenance records them.
    pub(crate) fn lookup_digests(&self) -> BTreeMap<String, String> {
        self.lookups
            .iter()
            .map(|(name, table)| (name.clone(), table.sha256().to_owned()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_keys_and_lookups_are_granted() {
        let mut ring = KeyRing::new();
        ring.insert("pii", "v1", vec![7; 16]).unwrap();
        ring.insert("other", "v9", vec![7; 16]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "key\na\n").unwrap();
            (name.to_owned(), path)
        };
        let lookups = Lookups::new([file("countries"), file("cities")]);
        let spec = |keys: &[&str], tables: &[&str]| TransformSpec {
            keys: keys.iter().map(|name| (*name).to_owned()).collect(),
            lookups: tables.iter().map(|name| (*name).to_owned()).collect(),
            ..TransformSpec::new("mask")
        };
        let grants = Grants::new(&spec(&["pii"], &["cities"]), &ring, &lookups).unwrap();
        assert!(grants.key("pii").is_some() && grants.key("other").is_none());
        assert!(grants.lookup("cities").is_some() && grants.lookup("countries").is_none());
        assert_eq!(grants.versions(), BTreeMap::from([("pii".into(), "v1".into())]));
        assert_eq!(grants.lookup_digests()["cities"], crate::sha256::hex(b"key\na\n"));

        let fault = |spec| match Grants::new(&spec, &ring, &lookups) {
            Ok(_) => panic!("granted"),
            Err(fault) => fault.to_string(),
        };
        assert_eq!(
            fault(spec(&["absent"], &[])),
            "there is no key `absent`; keys are `other`, `pii`"
        );
        assert_eq!(
            fault(spec(&[], &["absent"])),
            "there is no lookup `absent`; lookups are `cities`, `countries`"
        );
    }
}
