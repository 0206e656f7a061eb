//! `shows` of a fixture: the output columns in which values of a column, or parts of them, come out on purpose.

use std::fmt;

use serde::Deserialize;

use crate::config::nearest;

/// All of a fixture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shows(Vec<Show>);

/// A column, and where it may show.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Show {
    column: String,
    outputs: Vec<String>,
}

/// As the fixture has it.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a column's name, or `{ column = \"NAME\", in = [\"OUTPUT\"] }`, is expected"
)]
pub(super) enum RawShow {
    /// In the output of the same name.
    Own(String),
    /// In these outputs.
    In(RawPlaces),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPlaces {
    column: String,
    #[serde(rename = "in")]
    outputs: Vec<String>,
}

impl RawShow {
    /// The table's column.
    pub(super) fn column(&self) -> &str {
        match self {
            RawShow::Own(column) => column,
            RawShow::In(places) => &places.column,
        }
    }
}

impl Shows {
    /// # Errors
    /// A sentence: a column that is to show nowhere.
    pub(super) fn new(raw: &[RawShow]) -> Result<Shows, String> {
        let mut shows = Shows::default();
        for show in raw {
            match show {
                RawShow::Own(column) => shows.add(column, column),
                RawShow::In(places) if places.outputs.is_empty() => {
                    return Err(format!(
                        "`shows`: `in` of column `{}` is empty; name the output columns in which its values may come out",
                        places.column
                    ));
                }
                RawShow::In(places) => places
                    .outputs
                    .iter()
                    .for_each(|output| shows.add(&places.column, output)),
            }
        }
        Ok(shows)
    }

    /// Lets values of a column come out in an output.
    pub(crate) fn add(&mut self, column: &str, output: &str) {
        if self.allows(column, output) {
            return;
        }
        match self.0.iter_mut().find(|show| show.column == column) {
            Some(show) => show.outputs.push(output.to_owned()),
            None => self.0.push(Show {
                column: column.to_owned(),
                outputs: vec![output.to_owned()],
            }),
        }
    }

    /// Whether values of a column may come out in an output.
    pub(crate) fn allows(&self, column: &str, output: &str) -> bool {
        self.0
            .iter()
            .any(|show| show.column == column && show.outputs.iter().any(|other| other == output))
    }

    /// What is wrong with it for a component that has these outputs: one that is not there. A name that nothing answers to
    /// would allow something as soon as there is such a column.
    pub(crate) fn unknown(&self, outputs: &[&str]) -> Option<String> {
        let mut named = self
            .0
            .iter()
            .flat_map(|show| show.outputs.iter().map(move |output| (&show.column, output)));
        let (column, output) = named.find(|(_, output)| !outputs.contains(&output.as_str()))?;
        let meant = match nearest(output, outputs.iter().copied()) {
            Some(meant) => {
                let meant = Show {
                    column: column.clone(),
                    outputs: vec![meant],
                };
                format!("did you mean `{meant}`?")
            }
            None => format!("there are `{}`", outputs.join("`, `")),
        };
        Some(format!(
            "`shows` lets column `{column}` come out in `{output}`, and there is no such output; {meant}"
        ))
    }
}

impl fmt::Display for Shows {
    /// As it is written in a fixture.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shows: Vec<String> = self.0.iter().map(Show::to_string).collect();
        write!(f, "shows = [{}]", shows.join(", "))
    }
}

impl fmt::Display for Show {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.outputs == [self.column.as_str()] {
            return write!(f, "{:?}", self.column);
        }
        let outputs: Vec<String> = self.outputs.iter().map(|output| format!("{output:?}")).collect();
        write!(f, "{{ column = {:?}, in = [{}] }}", self.column, outputs.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        shows: Vec<RawShow>,
    }

    fn shows(text: &str) -> Result<Shows, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        Shows::new(&file.shows)
    }

    #[test]
    fn a_bare_name_is_the_output_of_the_same_name_and_the_long_form_names_each() {
        let text = "shows = [\"country\", { column = \"email\", in = [\"domain\", \"host\"] }]";
        let found = shows(text).unwrap();
        for (column, output, allowed) in [
            ("country", "country", true),
            ("country", "domain", false),
            ("email", "domain", true),
            ("email", "host", true),
            ("email", "email", false),
        ] {
            assert_eq!(found.allows(column, output), allowed, "{column} in {output}");
        }
        // It reads back as it is written, and what is added stands with the rest of its column.
        assert_eq!(found.to_string(), text);
        let mut more = found;
        more.add("country", "region");
        more.add("email", "host");
        more.add("note", "note");
        assert_eq!(
            more.to_string(),
            "shows = [{ column = \"country\", in = [\"country\", \"region\"] }, \
             { column = \"email\", in = [\"domain\", \"host\"] }, \"note\"]"
        );
        assert_eq!(shows(&more.to_string()).unwrap(), more);
    }

    #[test]
    fn another_form_is_refused_with_the_one_that_is_meant() {
        for text in [
            "shows = [{ column = \"email\", into = [\"domain\"] }]",
            "shows = [{ column = \"email\" }]",
            "shows = [7]",
        ] {
            let error = shows(text).unwrap_err();
            assert!(error.contains("in = [\"OUTPUT\"]"), "{text}: {error}");
        }
        let error = shows("shows = [{ column = \"email\", in = [] }]").unwrap_err();
        assert!(error.contains("`in` of column `email` is empty"), "{error}");
    }

    #[test]
    fn an_output_that_is_not_there_is_named_with_the_nearest() {
        let outputs = ["id", "domain", "email_token"];
        let unknown = |text: &str| shows(text).unwrap().unknown(&outputs);
        assert_eq!(unknown("shows = [{ column = \"email\", in = [\"domain\"] }]"), None);
        assert_eq!(
            unknown("shows = [{ column = \"email\", in = [\"domian\"] }]").unwrap(),
            "`shows` lets column `email` come out in `domian`, and there is no such output; did you mean \
             `{ column = \"email\", in = [\"domain\"] }`?"
        );
        let bare = unknown("shows = [\"email\"]").unwrap();
        assert!(bare.contains("in = [\"email_token\"]"), "{bare}");
        let far = unknown("shows = [\"zzz\"]").unwrap();
        assert!(far.ends_with("there are `id`, `domain`, `email_token`"), "{far}");
    }
}
