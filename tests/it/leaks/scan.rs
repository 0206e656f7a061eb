//! What `peers/sentinels` found.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::python;

/// A sentinel and the number of its value.
pub(super) type Which = (String, usize);

/// What a search came to.
#[derive(Debug)]
pub(super) struct Found {
    /// Files that were looked through.
    pub(super) files: u64,
    /// Rows of Parquet files that were looked through.
    pub(super) rows: u64,
    /// Columns of which a smallest or largest value is recorded anywhere.
    pub(super) bounds: BTreeSet<String>,
    /// Each find: the sentinel, the number of its value, its form, the kind of place, the file.
    finds: Vec<(String, usize, String, String, String)>,
}

impl Found {
    /// Looks through folders for the values that a file of sentinels describes.
    pub(super) fn scan(sentinels: &Path, folders: &[&Path]) -> Found {
        let mut arguments: Vec<OsString> = vec![sentinels.into()];
        arguments.extend(folders.iter().map(|folder| OsString::from(*folder)));
        let mut told = run("scan.py", arguments);
        let number = |name: &str| told[name].as_u64().expect("a number");
        Found {
            files: number("files"),
            rows: number("rows"),
            bounds: serde_json::from_value(told["bounds"].take()).expect("columns"),
            finds: serde_json::from_value(told["found"].take()).expect("finds"),
        }
    }

    /// Nothing was found, in files of which there have to be some, and no column with sentinels has a bound.
    pub(super) fn expect_nothing(&self, what: &str) {
        assert!(self.finds.is_empty(), "{what}: {:?}", self.finds);
        assert!(self.files > 5, "{what}: {} files", self.files);
        self.expect_no_bounds(what);
    }

    /// No column with sentinels has a smallest or largest value anywhere, masked or not.
    pub(super) fn expect_no_bounds(&self, what: &str) {
        let bounds: Vec<&String> = self.bounds.iter().filter(|column| is_sentinel(column)).collect();
        assert!(bounds.is_empty(), "{what}: {bounds:?}");
    }

    /// What was found in a kind of place, in whatever form.
    pub(super) fn places(&self, place: &str) -> BTreeSet<Which> {
        self.of(|_, at| at == place)
    }

    /// What was found in files whose names have this in them.
    pub(super) fn files_like(&self, part: &str) -> BTreeSet<Which> {
        self.of(|file, _| file.contains(part))
    }

    fn of(&self, fits: impl Fn(&str, &str) -> bool) -> BTreeSet<Which> {
        let fitting = self.finds.iter().filter(|(_, _, _, place, file)| fits(file, place));
        fitting.map(|(name, value, ..)| (name.clone(), *value)).collect()
    }

    /// Whether a value was found in a form and a kind of place.
    pub(super) fn has(&self, (name, value): (&str, usize), form: &str, place: &str) -> bool {
        self.finds.iter().any(|(found_name, found_value, found_form, at, _)| {
            found_name == name && *found_value == value && found_form == form && at == place
        })
    }
}

/// Whether it is a column of sentinels, or one inside of a structure.
pub(super) fn is_sentinel(column: &str) -> bool {
    column.rsplit('.').next().is_some_and(|name| name.starts_with("c_"))
}

/// Every value of a description.
pub(super) fn all(sentinels: &Value) -> BTreeSet<Which> {
    let each = sentinels.as_array().expect("a list").iter();
    each.flat_map(|sentinel| {
        let name = sentinel["name"].as_str().expect("a name").to_owned();
        let values = sentinel["values"].as_array().expect("values").len();
        (0..values).map(move |at| (name.clone(), at))
    })
    .collect()
}

/// Runs a script of `peers/sentinels`. What it printed.
pub(super) fn run(script: &str, arguments: Vec<OsString>) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/it/peers/sentinels");
    // `-B`: it writes nothing beside its scripts.
    let mut all = vec![OsString::from("-B"), folder.join(script).into()];
    all.extend(arguments);
    let output = python(all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Writes a description into a folder.
pub(super) fn write(sentinels: &Value, folder: &Path) -> PathBuf {
    let file = folder.join("sentinels.json");
    std::fs::write(&file, sentinels.to_string()).expect("written");
    file
}
