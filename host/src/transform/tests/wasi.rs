//! Components that ask for WASI.

use super::*;
use crate::error::{Classify, ErrorKind};

/// The guest `upper`, with an import more. Sections of a component may stand in any order.
fn importing(bench: &Bench, import: &str) -> Vec<u8> {
    let mut component = std::fs::read(bench.path().join("upper.wasm")).unwrap();
    let types = wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
        .validate_all(&component)
        .unwrap();
    // One type, an instance without exports; then an import of that type.
    component.extend([7, 3, 1, 0x42, 0]);
    let mut body = vec![1, 0, u8::try_from(import.len()).unwrap()];
    body.extend(import.bytes());
    body.push(5);
    body.extend(leb(types.as_ref().component_type_count() as usize));
    component.extend([10, u8::try_from(body.len()).unwrap()]);
    component.extend(body);
    component
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn spec(plugin: &str, wasi: bool) -> TransformSpec {
    TransformSpec {
        plugin: plugin.into(),
        wasi,
        ..upper()
    }
}

#[test]
fn wasi_is_given_when_the_table_says_so() {
    let bench = Bench::own(&["upper"]);
    let component = importing(&bench, "wasi:cli/environment@0.2.9");
    std::fs::write(bench.path().join("runtime.wasm"), component).unwrap();
    let error = bench.fails(spec("runtime", false));
    assert_eq!(
        error.to_string(),
        "table dbo_people, transform 1 (`runtime`): the component imports `wasi:cli/environment@0.2.9`, as those of language \
         runtimes do; set `wasi = true` to give it an empty system"
    );
    assert_eq!(error.kind(), ErrorKind::Config);
    let with = bench.open(&[spec("runtime", true)], &[]).unwrap();
    // A component that asks for nothing takes no harm from it.
    let without = bench.open(&[spec("upper", true)], &[]).unwrap();
    assert_eq!(
        with.apply(&four()).unwrap().batch,
        without.apply(&four()).unwrap().batch
    );
}

#[test]
fn other_releases_and_packages_are_refused_by_name() {
    let bench = Bench::own(&["upper"]);
    for (import, file) in [
        ("wasi:cli/environment@0.3.0", "later"),
        ("wasi:keyvalue/store@0.2.0", "other"),
    ] {
        std::fs::write(bench.path().join(format!("{file}.wasm")), importing(&bench, import)).unwrap();
        let error = bench.fails(spec(file, true));
        assert!(
            error
                .to_string()
                .contains(&format!("imports `{import}`, which sluice does not offer")),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::ComponentRefused);
    }
}

#[test]
fn what_one_engine_compiled_another_one_takes_from_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    copy(&["upper"], dir.path());
    let code = dir.path().join("code");
    let opened = || {
        let cache = CacheSettings::At(code.clone());
        let engine = Engine::with(Some(dir.path().to_owned()), &[], Lookups::default(), cache).unwrap();
        let chain = Chain::open(&engine, &people(), &[upper()], &KeyRing::new(), &[]).unwrap();
        chain.apply(&four()).unwrap().batch
    };
    let entries = || {
        let mut entries: Vec<_> = std::fs::read_dir(&code)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        entries
    };
    let first = opened();
    let kept = entries();
    // The key and one component.
    assert_eq!(kept.len(), 2);
    assert_eq!(opened(), first);
    assert_eq!(entries(), kept);
    // A damaged entry costs a compilation, and nothing else.
    for file in kept.iter().filter(|file| file.extension().is_some()) {
        std::fs::write(file, b"damaged").unwrap();
    }
    assert_eq!(opened(), first);
    assert!(
        kept.iter()
            .all(|file| file.file_name() == Some("key".as_ref()) || file.metadata().unwrap().len() > 1000)
    );
}
