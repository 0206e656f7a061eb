//! Which components are taken, and how their configuration is answered.

use super::*;
use crate::error::{Classify, ErrorKind};

#[test]
fn the_configuration_is_answered_in_words() {
    let bench = Bench::new(&["badguest", "mask", "upper"]);
    let key = TransformSpec {
        keys: vec!["nope".into()],
        ..upper()
    };
    let unlisted = with_config("mask", serde_json::json!({ "columns": { "id": "pass" } }));
    let missing = with_config(
        "mask",
        serde_json::json!({ "unlisted": "pass", "columns": { "nope": "drop" } }),
    );
    let misspelt = TransformSpec {
        config: serde_json::json!({ "unlisted": "pass", "columns": { "name": { "method": "hash", "key": "pi" } } }),
        ..hash()
    };
    // Where the last section of a file is `[table.transform.config.columns]`.
    let misplaced = with_config(
        "mask",
        serde_json::json!({ "unlisted": "pass", "columns": { "on_transform_change": "continue" } }),
    );
    for (spec, expected) in [
        (bad("config-error"), "config at `behave`: "),
        (bad("nonsense"), "config at `behave`: "),
        (
            unlisted,
            "the configuration does not say what to do with columns `name`, `note`; ",
        ),
        (
            missing,
            "the configuration names column `nope`, which the table does not have",
        ),
        (key, "there is no key `nope`; keys are `pii`"),
        (
            misspelt,
            "the key `pi` is not granted to this transform; add it to the transform's `keys`; did you mean `pii`?",
        ),
        (
            misplaced,
            "; `on_transform_change` is a setting of [[table]]: it has to stand above the first [[table.transform]]",
        ),
        (TransformSpec::new("nope"), "there is no plugin `nope` in "),
    ] {
        let error = bench.fails(spec);
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.kind(), ErrorKind::Config);
    }
}

#[test]
fn foreign_components_are_refused_by_name() {
    let bench = Bench::new(&["unknown-import", "not-a-plugin"]);
    for (plugin, expected) in [
        (
            "unknown-import",
            "unknown-import.wasm: the component imports `test:unknown/secrets`, which sluice does not offer; it may import \
             `sluice:transform/log@0.3.0`, `sluice:transform/keyed@0.3.0`, `sluice:transform/lookup@0.3.0`, \
             `sluice:transform/log@0.2.0`, `sluice:transform/keyed@0.2.0`, `sluice:transform/lookup@0.2.0`, \
             `sluice:transform/log@0.1.0`, `sluice:transform/keyed@0.1.0`",
        ),
        (
            "not-a-plugin",
            "not-a-plugin.wasm: the component does not export `sluice:transform/transform@0.3.0`, so it is no sluice \
             transform",
        ),
    ] {
        let error = bench.fails(TransformSpec::new(plugin));
        assert!(error.to_string().ends_with(expected), "{error}");
        assert_eq!(error.kind(), ErrorKind::ComponentRefused);
    }
}

#[test]
fn another_version_of_the_contract_is_refused_by_name() {
    let bench = Bench::own(&["upper"]);
    let component = std::fs::read(bench.path().join("upper.wasm")).unwrap();
    // Names have a length before them, so a version of the same length can stand in for a later one.
    let later = replaced(&component, &newest("transform"), b"transform@9.1.0");
    std::fs::write(bench.path().join("later.wasm"), later).unwrap();
    let error = bench.fails(TransformSpec::new("later"));
    assert!(
        error
            .to_string()
            .contains("the component is written for sluice:transform@9.1.0, and this sluice knows 0.3.0, 0.2.0, 0.1.0"),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::ComponentRefused);
}

#[test]
fn a_core_module_with_metadata_is_made_a_component() {
    let bench = Bench::own(&["upper", "unknown-import"]);
    let write = |name: &str, module: &[u8]| std::fs::write(bench.path().join(name), module).unwrap();
    let upper_of = |plugin: &str| TransformSpec {
        plugin: plugin.into(),
        ..upper()
    };
    let bare = core_module(&bench, "upper");
    let module = with_metadata(bare.clone());
    write("core.wasm", &module);
    let chain = bench.open(&[upper_of("core")], &[]).unwrap();
    let plain = bench.open(&[upper()], &[]).unwrap();
    assert_eq!(chain.apply(&four()).unwrap().batch, plain.apply(&four()).unwrap().batch);
    // The version came with the component's section, which a core module does not have.
    assert_eq!(chain.provenance()[0].version, "unversioned");

    write("bare.wasm", &bare);
    let error = bench.fails(upper_of("bare"));
    assert!(
        error.to_string().contains("a core module without WIT metadata"),
        "{error}"
    );
    write(
        "later.wasm",
        &replaced(&module, &newest("transform"), b"transform@9.1.0"),
    );
    let error = bench.fails(upper_of("later"));
    assert!(
        error.to_string().contains("written for sluice:transform@9.1.0"),
        "{error}"
    );
    // Packages that refer to each other in a circle would make `wit-component` recurse without end.
    let once = memchr::memmem::find(&module, &newest("types")).unwrap();
    let mut circle = module.clone();
    circle[once..once + 11].copy_from_slice(b"types@0.1.0");
    write("circle.wasm", &circle);
    let error = bench.fails(upper_of("circle"));
    assert_eq!(error.kind(), ErrorKind::ComponentRefused, "{error}");

    let foreign = core_module(&bench, "unknown-import");
    write("foreign.wasm", &with_metadata(foreign));
    let error = bench.fails(upper_of("foreign"));
    assert!(
        error
            .to_string()
            .contains("the component imports `test:unknown/secrets`"),
        "{error}"
    );
}

/// The name of an interface in the version that the SDK writes.
fn newest(interface: &str) -> Vec<u8> {
    format!("{interface}@{}", bindings::VERSIONS[0]).into_bytes()
}

/// The first core module inside a guest.
fn core_module(bench: &Bench, guest: &str) -> Vec<u8> {
    let component = std::fs::read(bench.path().join(format!("{guest}.wasm"))).unwrap();
    let inside = wasmparser::Parser::new(0)
        .parse_all(&component)
        .find_map(|payload| match payload.unwrap() {
            wasmparser::Payload::ModuleSection { unchecked_range, .. } => Some(unchecked_range),
            _ => None,
        });
    component[inside.unwrap()].to_vec()
}

/// The module with the metadata of world `plugin`, as `wit-bindgen` leaves it.
fn with_metadata(mut module: Vec<u8>) -> Vec<u8> {
    let mut resolve = wit_parser::Resolve::default();
    let wit = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../wit")
        .join(bindings::VERSIONS[0]);
    let (id, _) = resolve.push_dir(wit).unwrap();
    let world = resolve.select_world(&[id], Some("plugin")).unwrap();
    wit_component::embed_component_metadata(&mut module, &resolve, world, wit_component::StringEncoding::UTF8).unwrap();
    module
}

#[test]
fn asynchronous_exports_are_refused() {
    let bench = Bench::own(&[]);
    // An empty component with one canonical function: lift core function 0 as type 0, with the one option `async`.
    let component = b"\0asm\x0d\0\x01\0\x08\x07\x01\x00\x00\x00\x01\x06\x00";
    std::fs::write(bench.path().join("later.wasm"), component).unwrap();
    let error = bench.fails(TransformSpec::new("later"));
    assert!(
        error
            .to_string()
            .contains("the component exports asynchronous functions"),
        "{error}"
    );
}

/// Each of these would make a parser or validator recurse until the process dies.
#[test]
fn deep_types_are_refused_before_anything_recurses() {
    let bench = Bench::own(&["upper"]);
    let component = std::fs::read(bench.path().join("upper.wasm")).unwrap();
    let module = with_metadata(core_module(&bench, "upper"));
    let with = |bytes: &[u8], more: &[u8]| [bytes, more].concat();
    let many = 100_000;
    let cases = [
        ("deep-components", with(&component, &deep(0x41, many))),
        ("deep-instances", with(&component, &deep(0x42, many))),
        ("deep-inside", with(&component, &inner(&deep(0x41, many)))),
        ("deep-chain", with(&component, &inner(&chain_of_types(many)))),
        ("deep-exports", with(&component, &inner(&chain_of_instances(many)))),
        ("deep-nest", with(&component, &nest(2_000))),
        ("deep-metadata", with(&module, &metadata(&deep(0x41, many)))),
        ("deep-metadata-chain", with(&module, &metadata(&chain_of_types(many)))),
    ];
    for (name, bytes) in cases {
        std::fs::write(bench.path().join(format!("{name}.wasm")), bytes).unwrap();
        let error = bench.fails(TransformSpec::new(name));
        let text = error.to_string();
        assert!(
            text.contains(&format!("{name}.wasm: it holds more than 1000 component types")),
            "{text}"
        );
        assert!(text.ends_with("build it again from its sources, with fewer"), "{text}");
        assert_eq!(error.kind(), ErrorKind::ComponentRefused);
    }
}

/// As deep as it may be: the thread's stack suffices, whatever the answer is.
#[test]
fn deep_types_within_the_bound_do_not_end_the_process() {
    let bench = Bench::own(&["upper"]);
    let component = std::fs::read(bench.path().join("upper.wasm")).unwrap();
    let module = with_metadata(core_module(&bench, "upper"));
    for (name, bytes, opens) in [
        ("deep-components", [&component[..], &deep(0x41, 900)].concat(), true),
        ("deep-instances", [&component[..], &deep(0x42, 900)].concat(), true),
        ("deep-nest", [&component[..], &nest(900)].concat(), true),
        // A chain of this length is more than `wasmparser` can note down, which it finds out by a panic.
        (
            "deep-chain",
            [&component[..], &inner(&chain_of_types(900))].concat(),
            false,
        ),
        (
            "deep-exports",
            [&component[..], &inner(&chain_of_instances(900))].concat(),
            false,
        ),
        (
            "deep-metadata",
            [&module[..], &metadata(&deep(0x41, 900))].concat(),
            false,
        ),
    ] {
        std::fs::write(bench.path().join(format!("{name}.wasm")), bytes).unwrap();
        let spec = with_config(name, serde_json::json!({ "columns": ["name"] }));
        match bench.open(&[spec], &[]) {
            Ok(_) => assert!(opens, "{name}"),
            Err(error) => {
                println!("{name}: {error}");
                assert!(!opens, "{error}");
                assert_eq!(error.kind(), ErrorKind::ComponentRefused, "{error}");
            }
        }
    }
}

/// A type section whose one type holds a type, and so on for `levels`, of the kind component (0x41) or instance (0x42).
fn deep(kind: u8, levels: usize) -> Vec<u8> {
    section(7, &[&[1, kind][..], &[1, 1, kind].repeat(levels), &[0]].concat())
}

/// A type section of instance types, each of which exports an instance of the one before.
fn chain_of_types(length: usize) -> Vec<u8> {
    let mut body = leb(length);
    body.extend([0x42, 0]);
    for before in 0..length - 1 {
        body.extend([0x42, 2, 2, 3, 2, 1]);
        body.extend(leb(before));
        body.extend([4, 0, 1, b'x', 5, 0]);
    }
    section(7, &body)
}

/// An instance section in which each instance exports the one before.
fn chain_of_instances(length: usize) -> Vec<u8> {
    let mut body = leb(length);
    body.extend([1, 0]);
    for before in 0..length - 1 {
        body.extend([1, 1, 0, 1, b'x', 5]);
        body.extend(leb(before));
    }
    section(5, &body)
}

/// Components in components.
fn nest(levels: usize) -> Vec<u8> {
    (0..levels).fold(Vec::new(), |inside, _| inner(&inside))
}

/// A component section with a component of these sections.
fn inner(sections: &[u8]) -> Vec<u8> {
    section(4, &[b"\0asm\x0d\0\x01\0", sections].concat())
}

/// A metadata section with a component of these sections.
fn metadata(sections: &[u8]) -> Vec<u8> {
    section(0, &[b"\x0ecomponent-type\0asm\x0d\0\x01\0", sections].concat())
}

fn section(id: u8, body: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(body.len()), body].concat()
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

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&out[at..], from) {
        out[at + found..at + found + from.len()].copy_from_slice(to);
        at += found + from.len();
    }
    out
}

#[test]
fn cut_and_garbage_files_are_named() {
    let bench = Bench::own(&["upper"]);
    let whole = std::fs::read(bench.path().join("upper.wasm")).unwrap();
    let cuts: Vec<(String, &[u8])> = (0..40)
        .map(|part| (format!("cut-{part}"), &whole[..whole.len() * part / 40]))
        .collect();
    let garbage: [(String, &[u8]); 4] = [
        ("text".into(), b"hello"),
        ("header".into(), b"\0asm\x0d\0\x01\0"),
        ("module".into(), b"\0asm\x01\0\0\0"),
        ("late".into(), &whole[..whole.len() - 1]),
    ];
    for (name, bytes) in cuts.into_iter().chain(garbage) {
        std::fs::write(bench.path().join(format!("{name}.wasm")), bytes).unwrap();
        let error = bench.fails(TransformSpec::new(&name));
        assert!(error.to_string().contains(&format!("{name}.wasm")), "{error}");
        assert_eq!(error.kind(), ErrorKind::ComponentRefused, "{error}");
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let bench = Bench::own(&["upper"]);
    let whole = std::fs::read(bench.path().join("upper.wasm")).unwrap();
    for step in 0..16 {
        let mut flipped = whole.clone();
        let at = (step * 79_193) % flipped.len();
        flipped[at] ^= 0x55;
        let name = format!("flipped{step}");
        std::fs::write(bench.path().join(format!("{name}.wasm")), flipped).unwrap();
        let spec = with_config(&name, serde_json::json!({ "columns": ["name"] }));
        if let Ok(chain) = bench.open(&[spec], &[]) {
            let _ = chain.apply(&four());
        }
    }
}

#[test]
fn pins_and_versions_are_held() {
    let bench = Bench::new(&["upper"]);
    let pinned = |sha256: String| TransformSpec {
        sha256: Some(sha256),
        ..upper()
    };
    let error = bench.fails(pinned("00".repeat(32))).to_string();
    assert!(
        error.contains("upper.wasm has SHA-256") && error.contains("is pinned"),
        "{error}"
    );
    let provenance = bench.open(&[upper()], &[]).unwrap().provenance()[0].clone();
    assert!(bench.open(&[pinned(provenance.sha256.to_uppercase())], &[]).is_ok());
    // The version inside the component counts, and a file's name may not contradict it.
    let at = |version: &str| TransformSpec {
        plugin: format!("upper@{version}"),
        ..upper()
    };
    assert!(bench.open(&[at(&provenance.version)], &[]).is_ok());
    let error = bench.fails(at("7.7")).to_string();
    assert!(error.contains("and version 7.7 is asked for"), "{error}");
}

#[test]
fn the_same_bytes_are_compiled_once() {
    let bench = Bench::own(&["upper"]);
    let first = bench.engine.plugin("upper", None).unwrap();
    std::fs::copy(bench.path().join("upper.wasm"), bench.path().join("again.wasm")).unwrap();
    let second = bench.engine.plugin("again", None).unwrap();
    assert!(Arc::ptr_eq(&first.compiled, &second.compiled));
}
