//! The guide for authors of components leads to one that works.

use super::*;

#[test]
fn the_guides_component_does_what_the_guide_says() {
    let guide = sluice_test_guests::Guide::read();
    let built = guide.build();
    let settings: toml::Value = toml::from_str(&guide.settings).unwrap();
    let transform = &settings["table"][0]["transform"][0];
    let plugin = transform["plugin"].as_str().unwrap();
    let config = serde_json::to_value(&transform["config"]).unwrap();

    let mut table = people();
    table.columns[1].name = config["column"].as_str().unwrap().into();
    let column = table.columns[1].name.clone();
    let rows = batch(
        &[2, 2],
        vec![
            ("id", Arc::new(Int32Array::from(vec![1, 2]))),
            (&column, Arc::new(StringArray::from(vec![Some("Malmö"), None]))),
            ("note", Arc::new(StringArray::from(vec!["a", "b"]))),
        ],
    );
    // The module is what cargo alone makes, the component what the builder makes of it.
    for (file, version) in [(&built.path, "1.0.0"), (&built.module, "unversioned")] {
        let bench = Bench::own(&[]);
        std::fs::copy(file, bench.path().join(format!("{plugin}.wasm"))).unwrap();
        let open = |config: serde_json::Value| {
            let specs = [with_config(plugin, config)];
            Chain::open(&bench.engine, &table, &specs, &KeyRing::new(), &[])
        };
        let chain = open(config.clone()).unwrap();
        let applied = chain.apply(&rows).unwrap().batch;
        assert_eq!(texts(&applied, &column), [Some("MALMÖ".into()), None]);
        assert_eq!(texts(&applied, "note"), some(&["a", "b"]));
        assert_eq!(chain.provenance()[0].version, version);
        for (wrong, expected) in [
            (serde_json::json!({ "column": "nowhere" }), "`nowhere`"),
            (serde_json::json!({ "colum": "city" }), "did you mean `column`?"),
        ] {
            let error = open(wrong).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
