//! `[[table]]` with a pattern: every capture instance that it fits is a table of its own, with the same settings.

use wildmatch::WildMatch;

use crate::identity::CaptureInstance;

use super::locations::Places;
use super::section::Section;
use super::table::{CI, Shared, parse_table};
use super::{ConfigError, Settings, TableSettings, locations, weights};
use crate::lake::LakeError;

/// What stands for an instance while none is known. No table is called so: it is for checks alone.
const NOBODY: &str = "pattern";

/// A `[[table]]` whose `capture_instance` has `*` or `?`.
#[derive(Clone, Debug)]
pub struct TablePattern {
    /// As it stands in the file.
    pub pattern: String,
    /// Instances that are not meant, by name or pattern.
    pub exclude: Vec<String>,
    /// What stands under it, as of an instance that is not known yet.
    pub settings: TableSettings,
    path: String,
    section: toml::Table,
}

/// The patterns of a configuration, and what it takes to make tables of them.
#[derive(Clone, Debug)]
pub(super) struct Patterns {
    pub(super) all: Vec<TablePattern>,
    pub(super) defaults: Shared,
    pub(super) places: Places,
    /// `[weights]`, which may name tables that are not known yet.
    pub(super) weights: Option<toml::Table>,
    /// `--table`.
    pub(super) selected: Vec<String>,
}

/// Whether a name is a pattern.
pub(super) fn is_pattern(capture_instance: &str) -> bool {
    capture_instance.contains(['*', '?'])
}

impl TablePattern {
    pub(super) fn parse(
        path: String,
        mut section: toml::Table,
        defaults: &Shared,
        places: &Places,
        known: super::table::Known<'_>,
    ) -> Result<TablePattern, ConfigError> {
        let (pattern, exclude) = {
            let mut keys = Section::new(path.clone(), &section);
            let pattern = keys.required_string("capture_instance")?.to_owned();
            let exclude = keys.strings("exclude")?.unwrap_or_default();
            for key in ["target", "app_id", "checkpoint"] {
                if keys.string(key)?.is_some_and(|value| !value.contains(CI)) {
                    return Err(keys.error(
                        key,
                        "must contain {ci}, which becomes the capture instance: every table of a pattern needs its own",
                    ));
                }
            }
            (pattern, exclude)
        };
        section.remove("exclude");
        let settings = table_of(&path, &section, NOBODY, defaults, places, known)?;
        Ok(TablePattern {
            pattern,
            exclude,
            settings,
            path,
            section,
        })
    }

    /// Whether an instance is meant.
    pub fn fits(&self, capture_instance: &CaptureInstance) -> bool {
        let is = |pattern: &str| TablePattern::is(pattern, capture_instance);
        is(&self.pattern) && !self.exclude.iter().any(|excluded| is(excluded))
    }

    /// Whether a name fits a pattern, ignoring case.
    pub(crate) fn is(pattern: &str, capture_instance: &CaptureInstance) -> bool {
        WildMatch::new_case_insensitive(pattern).matches(&capture_instance.0)
    }

    /// The instances that have a folder where their checkpoints would be. Blocks.
    ///
    /// # Errors
    /// When what is there cannot be listed.
    pub fn on_disk(&self) -> Result<Vec<CaptureInstance>, LakeError> {
        let checkpoint = &self.settings.checkpoint;
        let Some((parent, template)) = std::iter::once(checkpoint.clone())
            .chain(checkpoint.ancestors())
            .find_map(|place| {
                let name = place.name().filter(|name| name.contains(NOBODY))?;
                Some((place.parent()?, name.to_owned()))
            })
        else {
            return Ok(Vec::new());
        };
        let Some((before, after)) = template.split_once(NOBODY) else {
            return Ok(Vec::new());
        };
        let mut found: Vec<CaptureInstance> = parent
            .names()?
            .into_iter()
            .filter_map(|name| Some(name.strip_prefix(before)?.strip_suffix(after)?.to_owned()))
            .map(CaptureInstance)
            .filter(|name| self.fits(name))
            .collect();
        found.sort();
        Ok(found)
    }
}

fn table_of(
    path: &str,
    section: &toml::Table,
    capture_instance: &str,
    defaults: &Shared,
    places: &Places,
    known: super::table::Known<'_>,
) -> Result<TableSettings, ConfigError> {
    let mut section = section.clone();
    section.insert("capture_instance".to_owned(), capture_instance.into());
    parse_table(Section::new(path, &section), defaults, places, known)
}

impl Settings {
    /// Those of `[[table]]` that are patterns. Their tables are known when the server was asked, or the disk.
    pub fn patterns(&self) -> &[TablePattern] {
        &self.patterns.all
    }

    /// The settings of a table of a pattern.
    pub(crate) fn table_of(
        &self,
        pattern: &TablePattern,
        capture_instance: &CaptureInstance,
    ) -> Result<TableSettings, ConfigError> {
        let (defaults, places) = (&self.patterns.defaults, &self.patterns.places);
        let known = (&self.keys[..], &self.lookups[..]);
        table_of(
            &pattern.path,
            &pattern.section,
            &capture_instance.0,
            defaults,
            places,
            known,
        )
    }

    /// The same settings with these tables beside those that are named, and without patterns.
    pub(crate) fn with_tables(&self, more: Vec<TableSettings>) -> Result<Settings, ConfigError> {
        let mut settings = self.clone();
        let patterns = self.patterns.clone();
        settings.patterns.all.clear();
        settings.patterns.weights = None;
        settings.patterns.selected.clear();
        settings.tables.extend(more);
        locations::expect_disjoint(&settings.tables)?;
        settings.ownership.expect_apart(&settings.tables)?;
        settings.ownership.expect_lease_for(settings.tables.iter())?;
        if let Some(weights) = &patterns.weights {
            // A table that is not there yet has its weight when it is.
            weights::apply(&Section::new("weights", weights), &mut settings.tables, true)?;
        }
        settings.select(&patterns.selected)?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::storage::Place;

    const HEAD: &str = "[source]\nserver = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = { command = [\"printf\", \"x\"] }\n\
                        [defaults]\ntarget = \"t/{ci}\"\napp_id = \"{ci}\"\ncheckpoint = \"c/x-{ci}.d\"\nfacts_table = \"f\"\n\
                        control_table = \"v\"\n";

    fn parse(base: &Path, tables: &str) -> Result<Settings, String> {
        Settings::parse(&format!("{HEAD}{tables}"), base, Path::new("s.toml")).map_err(|error| error.to_string())
    }

    fn named(name: &str) -> CaptureInstance {
        CaptureInstance(name.to_owned())
    }

    #[test]
    fn a_pattern_is_every_instance_that_it_fits() {
        let folder = tempfile::tempdir().unwrap();
        let tables = "[[table]]\ncapture_instance = \"dbo_*\"\nexclude = [\"dbo_tmp_*\", \"dbo_log\"]\ngranularity = \"day\"\n\
                      [weights]\ngold = { tables = [\"dbo_o*\"], weight = 3 }\n";
        let mut settings = parse(folder.path(), tables).unwrap();
        let pattern = settings.patterns()[0].clone();
        for (name, fits) in [
            ("dbo_orders", true),
            ("DBO_X", true),
            ("dbo_tmp_1", false),
            ("Dbo_Log", false),
            ("s_a", false),
        ] {
            assert_eq!(pattern.fits(&named(name)), fits, "{name}");
        }
        for name in ["x-dbo_orders.d", "x-dbo_tmp_1.d", "dbo_b", "x-dbo_a.d"] {
            std::fs::create_dir_all(folder.path().join("c").join(name)).unwrap();
        }
        assert_eq!(pattern.on_disk().unwrap(), [named("dbo_a"), named("dbo_orders")]);
        settings.select(&["DBO_orders".to_owned()]).unwrap();
        let tables = ["dbo_orders", "dbo_a"].map(|name| settings.table_of(&pattern, &named(name)).unwrap());
        let settings = settings.with_tables(tables.into()).unwrap();
        let [orders] = settings.tables.as_slice() else {
            panic!("{:?}", settings.tables);
        };
        assert_eq!(orders.checkpoint, Place::from(folder.path()).join("c/x-dbo_orders.d"));
        assert_eq!(
            (orders.weight.get(), orders.granularity),
            (3, crate::verdict::Granularity::Day)
        );
    }

    #[test]
    fn what_cannot_be_a_pattern_is_refused_before_anything_is_asked() {
        let base = Path::new("/");
        for (tables, words) in [
            (
                "[[table]]\ncapture_instance = \"dbo_*\"\ntarget = \"one\"\n",
                "table[1].target must contain {ci}",
            ),
            (
                "[[table]]\ncapture_instance = \"dbo_*\"\ngranularty = \"day\"\n",
                "unknown key table[1].granularty; did you mean granularity?",
            ),
            (
                "[[table]]\ncapture_instance = \"dbo_a\"\nexclude = [\"x\"]\n",
                "table[1].exclude needs a pattern",
            ),
        ] {
            let error = parse(base, tables).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let mut settings = parse(base, "[[table]]\ncapture_instance = \"dbo_*\"\n").unwrap();
        let error = settings.select(&["hr_people".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("names no [[table]]"), "{error}");
    }
}
