//! The search itself: it finds what other writers left in every place and form.

use std::collections::BTreeSet;

use super::scan::{self, Found, is_sentinel};
use super::sentinels::described;
use crate::harness::scratch;

#[test]
fn a_value_of_each_type_is_found_in_each_form_and_place_in_which_another_writer_left_it() {
    let (files, folder) = (scratch(), scratch());
    let sentinels = described(&[]);
    let file = scan::write(&sentinels, files.path());
    let place = folder.path().join("planted");
    let planted = scan::run("plant.py", vec![file.clone().into(), place.clone().into()]);
    let planted: Vec<(String, usize, String, String)> = serde_json::from_value(planted).expect("what was planted");
    let found = Found::scan(&file, &[&place]);
    let missed: Vec<_> = planted
        .iter()
        .filter(|(name, value, form, place)| !found.has((name.as_str(), *value), form, place))
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
    for place in ["bytes", "cells", "footer", "log", "checkpoint", "pieces", "name"] {
        assert!(planted.iter().any(|(_, _, _, at)| at == place), "{place}");
    }
    // Of each value there is a cell, and of each column a bound.
    let all = scan::all(&sentinels);
    assert_eq!(found.places("cells"), all);
    let bounds: BTreeSet<&String> = found.bounds.iter().filter(|column| is_sentinel(column)).collect();
    let names: BTreeSet<&String> = all.iter().map(|(name, _)| name).collect();
    assert_eq!(bounds, names);

    // Where nothing was left, nothing is found: not even the folders' own names and times.
    let empty = scratch();
    std::fs::write(
        empty.path().join("a.log"),
        "2026-11-30T17:29:35.123456Z INFO 8192 rows in 12 ms, id 7",
    )
    .expect("written");
    let found = Found::scan(&file, &[empty.path()]);
    assert_eq!((found.files, found.places("bytes")), (1, BTreeSet::new()));
}
