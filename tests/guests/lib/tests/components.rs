//! Each guest is built, is a valid component, and has the imports and exports that it is there for.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use sluice_component_build::{BuildRequest, build_component, plugin_info};
use sluice_test_guests::{GUESTS, Guide, built};
use wit_component::DecodedWasm;

const TRANSFORM: &str = "sluice:transform/transform@0.3.0";
const TYPES: &str = "sluice:transform/types@0.3.0";
const KEYED: &str = "sluice:transform/keyed@0.3.0";
const LOG: &str = "sluice:transform/log@0.3.0";

/// One interface of the contract in a version.
fn of(version: &str, interface: &str) -> String {
    format!("sluice:transform/{interface}@{version}")
}

/// The names of imports and exports of a component, in that order.
fn world(bytes: &[u8]) -> (BTreeSet<String>, BTreeSet<String>) {
    // Decoding validates first.
    let DecodedWasm::Component(resolve, world) = wit_component::decode(bytes).unwrap() else {
        panic!("it is a WIT package, not a component");
    };
    let world = &resolve.worlds[world];
    let names = |items: Vec<&wit_parser::WorldKey>| {
        let names = items.into_iter().map(|key| resolve.name_world_key(key));
        names.collect()
    };
    (
        names(world.imports.keys().collect()),
        names(world.exports.keys().collect()),
    )
}

#[test]
fn every_guest_is_a_component_with_the_imports_it_needs() {
    for (guest, _) in GUESTS {
        let built = built(guest);
        let bytes = std::fs::read(&built.path).unwrap();
        let (imports, exports) = world(&bytes);
        let (expected_imports, expected_export) = match guest {
            // The SDK logs what a panic says, so that all that is written with it imports `log`.
            "map" | "upper" => (vec![TYPES, LOG], TRANSFORM),
            "mask" | "badguest" => (vec![TYPES, KEYED, LOG], TRANSFORM),
            "v0-1" | "asker" => continue,
            "unknown-import" => (
                vec!["sluice:transform/types@0.1.0", "test:unknown/secrets"],
                "sluice:transform/transform@0.1.0",
            ),
            "not-a-plugin" => (vec![], "greet"),
            other => panic!("what does {other} import?"),
        };
        let expected: BTreeSet<String> = expected_imports.into_iter().map(str::to_owned).collect();
        assert_eq!(imports, expected, "{guest}");
        assert_eq!(exports, BTreeSet::from([expected_export.to_owned()]), "{guest}");
        let info = plugin_info(&bytes).unwrap();
        assert_eq!(info, built.info);
        assert!(info.name.starts_with("sluice-"), "{}", info.name);
        assert!(built.inputs.iter().any(|path| path.ends_with("src/lib.rs")), "{guest}");
        assert!(built.inputs.iter().all(|path| path.is_file()), "{:?}", built.inputs);
        for place in ["/root/", "/home/", env!("CARGO_MANIFEST_DIR")] {
            let found = bytes.windows(place.len()).any(|window| window == place.as_bytes());
            assert!(!found, "{guest} carries a path of this machine ({place})");
        }
    }
}

/// They are built without the SDK, each against a folder of `wit/`.
#[test]
fn the_guests_of_a_version_have_its_imports_and_exports() {
    for (guest, version, interfaces) in [
        ("v0-1", "0.1.0", &["types", "keyed", "log"]),
        ("asker", "0.2.0", &["types", "keyed", "lookup"]),
    ] {
        let built = built(guest);
        let (imports, exports) = world(&std::fs::read(&built.path).unwrap());
        let expected: BTreeSet<String> = interfaces.iter().map(|interface| of(version, interface)).collect();
        assert_eq!(imports, expected, "{guest}");
        assert_eq!(exports, BTreeSet::from([of(version, "transform")]), "{guest}");
    }
}

/// The compiled crates are in another folder the second time, and the bytes the same.
#[test]
fn a_component_is_the_same_bytes_wherever_it_is_built() {
    let first = built("not-a-plugin");
    let (_, folder) = GUESTS.iter().find(|(guest, _)| *guest == "not-a-plugin").unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let target = std::env::temp_dir().join(format!("sluice-guests-{}", std::process::id()));
    let second = build_component(&BuildRequest::new(root.join(folder), &target)).unwrap();
    std::fs::remove_dir_all(&target).unwrap();
    assert_eq!(first.sha256, second.sha256);
}

/// Who reads the one and continues with the other finds the same transform.
#[test]
fn the_sdks_example_is_the_guides() {
    let sdk = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../plugins/sdk/src/lib.rs");
    let sdk = std::fs::read_to_string(sdk).unwrap();
    let text: String = sdk
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect();
    let example = text.split("```\n").nth(1).unwrap();
    let guide = Guide::read();
    let (_, guide) = guide.source.split_once("\n\n").unwrap();
    // The page goes on with a test of its own.
    let (guide, _) = guide.split_once("\n#[cfg(test)]\n").unwrap();
    assert_eq!(example, guide);
}
