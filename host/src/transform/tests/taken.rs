//! Which file of a plugin is in force, while files change under a running process.

use super::*;
use crate::transform::component::PluginError;

/// An engine over a directory of its own with `upper`, and that component's bytes.
fn set_up(lock: impl FnOnce(&[u8]) -> Option<Pins>, reload: bool) -> (tempfile::TempDir, Arc<Engine>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    copy(&["upper"], dir.path());
    let bytes = std::fs::read(dir.path().join("upper.wasm")).unwrap();
    let plugins = Plugins {
        dir: Some(dir.path().to_owned()),
        lock: lock(&bytes).map(|pins| Lock {
            path: "sluice.lock".into(),
            pins,
        }),
        reload,
    };
    (dir, Engine::new(plugins, &[]).unwrap(), bytes)
}

/// The same component with another digest: a custom section more, which is called `note`.
fn another(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0, 5, 4], b"note"].concat()
}

fn hex(bytes: &[u8]) -> String {
    crate::sha256::hex(bytes)
}

fn pins(bytes: &[u8]) -> Option<Pins> {
    let pin = Pin {
        file: "upper.wasm".into(),
        name: "upper".into(),
        version: "any".into(),
        sha256: hex(bytes),
    };
    Some([pin].into_iter().collect())
}

fn write(dir: &tempfile::TempDir, bytes: &[u8]) {
    std::fs::write(dir.path().join("upper.wasm"), bytes).unwrap();
}

#[test]
fn a_file_that_changes_is_taken_when_it_is_asked_for_anew_and_not_before() {
    let (dir, engine, bytes) = set_up(|_| None, true);
    let digest = |engine: &Engine| engine.plugin("upper", None).unwrap().compiled.sha256.clone();
    assert_eq!(digest(&engine), hex(&bytes));
    let now = another(&bytes);
    write(&dir, &now);
    assert_eq!(digest(&engine), hex(&bytes), "what was taken stays");
    let refreshed = engine.refresh("upper").unwrap();
    assert_eq!((refreshed.sha256, refreshed.refused), (hex(&now), None));
    assert_eq!(digest(&engine), hex(&now));
    // A pin in the table's configuration holds all the same.
    let pinned = engine.plugin("upper", Some(&hex(&bytes)));
    assert!(matches!(pinned, Err(PluginError::OtherDigest { .. })));
}

#[test]
fn a_file_that_is_half_written_or_gone_leaves_the_component_before_it_in_force() {
    let (dir, engine, bytes) = set_up(|_| None, true);
    engine.plugin("upper", None).unwrap();
    write(&dir, &bytes[..bytes.len() / 2]);
    let first = engine.refresh("upper").unwrap();
    assert_eq!(first.sha256, hex(&bytes));
    let refused = first.refused.expect("what is wrong");
    assert!(matches!(refused.1, PluginError::Damaged { .. }), "{}", refused.1);
    // The same file is told as the same, and another bad one as another.
    assert_eq!(engine.refresh("upper").unwrap().refused.as_ref(), Some(&refused));
    std::fs::remove_file(dir.path().join("upper.wasm")).unwrap();
    let gone = engine.refresh("upper").unwrap();
    assert_eq!(gone.sha256, hex(&bytes));
    assert!(matches!(gone.refused, Some((None, PluginError::Unknown { .. }))));
    assert!(engine.plugin("upper", None).is_ok());
    // Whole again.
    write(&dir, &another(&bytes));
    let whole = engine.refresh("upper").unwrap();
    assert_eq!((whole.sha256, whole.refused), (hex(&another(&bytes)), None));
}

#[test]
fn a_locked_file_is_never_exchanged_and_a_half_written_one_is_no_other_component() {
    let (dir, engine, bytes) = set_up(pins, true);
    engine.plugin("upper", None).unwrap();
    write(&dir, &bytes[..bytes.len() / 2]);
    let cut = engine.refresh("upper").unwrap();
    assert!(cut.sha256 == hex(&bytes) && cut.refused.is_some());
    write(&dir, &another(&bytes));
    let error = engine.refresh("upper").unwrap_err();
    assert!(matches!(error, PluginError::OtherThanLocked { .. }), "{error}");
    assert!(!engine.has_compiled(&hex(&another(&bytes))), "nobody accepted it");
    assert_eq!(engine.plugin("upper", None).unwrap().compiled.sha256, hex(&bytes));
}

#[test]
fn a_lock_file_refuses_what_it_does_not_have_before_it_is_looked_into() {
    let (_dir, engine, bytes) = set_up(|_| Some(Pins::default()), false);
    let error = engine.plugin("upper", None).map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, PluginError::NotLocked { found, .. } if *found == hex(&bytes)),
        "{error}"
    );
    let (_dir, engine, _) = set_up(|bytes| pins(&another(bytes)), false);
    let error = engine.plugin("upper", None).map(|_| ()).unwrap_err();
    assert!(matches!(error, PluginError::OtherThanLocked { .. }), "{error}");
    let (_dir, engine, bytes) = set_up(pins, false);
    let pin = engine.pin_of("upper", None).unwrap().expect("it is a file");
    assert_eq!(
        (pin.file.as_str(), pin.name.as_str(), pin.sha256),
        ("upper.wasm", "upper", hex(&bytes))
    );
}
