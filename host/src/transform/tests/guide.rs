//! The guide for authors of components leads to one that works.

use super::*;

#[test]
fn the_guides_component_does_what_the_guide_says() {
    let guide = sluice_test_guests::Guide::read();
    let built = guide.build();
    let settings: toml::Value = toml::from_str(&guide.settings).unwrap();
    let transform = &settings["table"][0]["transform"][0];
    let plugin = transform["plugin"].as_str().unwrap();
    assert_eq!(plugin, guide.name);
    let config = serde_json::to_value(&transform["config"]).unwrap();

    let mut table = people();
    for (column, name) in table.columns[1..].iter_mut().zip(config["columns"].as_array().unwrap()) {
        column.name = name.as_str().unwrap().into();
    }
    let [first, last] = [1, 2].map(|column: usize| table.columns[column].name.clone());
    let rows = batch(
        &[2, 2],
        vec![
            ("id", Arc::new(Int32Array::from(vec![1, 2]))),
            (&first, Arc::new(StringArray::from(vec![Some("Åsa Maria"), None]))),
            (&last, Arc::new(StringArray::from(vec!["Ek-Lund", "Ö"]))),
        ],
    );
    // The module is what cargo alone makes, the component what the builder makes of it.
    for (file, version) in [(&built.path, "0.1.0"), (&built.module, "unversioned")] {
        let bench = Bench::own(&[]);
        std::fs::copy(file, bench.path().join(format!("{plugin}.wasm"))).unwrap();
        let open = |config: serde_json::Value| {
            let specs = [with_config(plugin, config)];
            Chain::open(&bench.engine, &table, &specs, &KeyRing::new(), &[])
        };
        let chain = open(config.clone()).unwrap();
        let applied = chain.apply(&rows).unwrap().batch;
        assert_eq!(texts(&applied, &first), [Some("Å* M*".into()), None]);
        assert_eq!(texts(&applied, &last), some(&["E*", "*"]));
        assert_eq!(chain.provenance()[0].version, version);
        for (wrong, expected) in [
            (serde_json::json!({ "columns": ["nowhere"] }), "`nowhere`"),
            (serde_json::json!({ "colums": [] }), "did you mean `columns`?"),
        ] {
            let error = open(wrong).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
