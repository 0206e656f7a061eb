//! Where each column of the source ends up, followed through all steps of a chain.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::DataType;

use super::plan::{self, Plan};

/// A captured column after the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    /// Its name in the lake.
    pub name: String,
    /// Its Arrow type.
    pub data_type: DataType,
    /// Whether it may hold NULL.
    pub nullable: bool,
    /// Where it comes from.
    pub from: Route,
}

/// Where an output column comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// It is a source column, untouched.
    Passed {
        /// That column.
        source: String,
    },
    /// Components made it.
    Computed {
        /// The source columns that it is made of, as the components say.
        sources: Vec<String>,
        /// How, step by step, in the components' words.
        how: String,
        /// The keys that it is made with, in all steps, each with its version. A component of 0.1.0 names none.
        keys: BTreeMap<String, String>,
    },
}

/// What a source column is made into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Computation {
    /// The output column.
    pub column: String,
    /// How, and with which keys: `keyed hash (pii v3)`.
    pub how: String,
}

/// What happens to a source column. With both lists empty, it is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRoute {
    /// Its name on the source.
    pub column: String,
    /// The output columns that are this one, untouched.
    pub passed_as: Vec<String>,
    /// The output columns that are made of it.
    pub computed_into: Vec<Computation>,
}

impl Route {
    /// How a computed column is made, and with which keys: `keyed hash (pii v3)`. `None` of one that passes.
    pub fn how(&self) -> Option<String> {
        let Route::Computed { how, keys, .. } = self else {
            return None;
        };
        if keys.is_empty() {
            return Some(how.clone());
        }
        let keys: Vec<String> = keys.iter().map(|(name, version)| format!("{name} {version}")).collect();
        Some(format!("{how} ({})", keys.join(", ")))
    }
}

impl SourceRoute {
    /// Whether nothing of it is in the output.
    pub fn is_dropped(&self) -> bool {
        self.passed_as.is_empty() && self.computed_into.is_empty()
    }
}

/// What a column in the middle of a chain is made of. Numbers are positions among the source's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lineage {
    Source(usize),
    Computed {
        sources: BTreeSet<usize>,
        /// Of the sources, those that only went through steps that mask nothing.
        unmasked: BTreeSet<usize>,
        how: Vec<String>,
        keys: BTreeMap<String, String>,
    },
}

/// Earlier computations that are told of a column, at most.
const MAX_STEPS_TOLD: usize = 8;

impl Lineage {
    /// Before the first step.
    pub(crate) fn of_sources(count: usize) -> Vec<Lineage> {
        (0..count).map(Lineage::Source).collect()
    }

    /// After a step with `plan`; `masks` says whether what it computes may be taken for masked.
    pub(crate) fn follow(before: &[Lineage], plan: &Plan, masks: bool) -> Vec<Lineage> {
        plan.outputs
            .iter()
            .map(|output| match &output.from {
                plan::From::Pass(source) => before[*source].clone(),
                plan::From::Computed { sources, how, keys } => match masks {
                    true => Lineage::computed(before, sources, how, keys),
                    false => Lineage::computed(before, sources, how, keys).showing(before, sources),
                },
            })
            .collect()
    }

    fn computed(before: &[Lineage], from: &[usize], how: &str, keys: &BTreeMap<String, String>) -> Lineage {
        let mut sources = BTreeSet::new();
        let mut keys = keys.clone();
        let mut steps: Vec<String> = Vec::new();
        for position in from {
            match &before[*position] {
                Lineage::Source(source) => {
                    sources.insert(*source);
                }
                Lineage::Computed {
                    sources: earlier,
                    how,
                    keys: used,
                    ..
                } => {
                    sources.extend(earlier);
                    // In one process a key has one version.
                    keys.extend(used.iter().map(|(name, version)| (name.clone(), version.clone())));
                    for step in how {
                        if !steps.contains(step) {
                            steps.push(step.clone());
                        }
                    }
                }
            }
        }
        // What a column is made of is for reading; a chain cannot make it grow without end.
        if steps.len() > MAX_STEPS_TOLD {
            steps.truncate(MAX_STEPS_TOLD);
            steps.push("…".to_owned());
        }
        steps.push(how.to_owned());
        Lineage::Computed {
            sources,
            unmasked: BTreeSet::new(),
            how: steps,
            keys,
        }
    }

    /// The same, when the step leaves every value that it was made of to be seen.
    fn showing(mut self, before: &[Lineage], from: &[usize]) -> Lineage {
        if let Lineage::Computed { unmasked, .. } = &mut self {
            for position in from {
                match &before[*position] {
                    Lineage::Source(source) => {
                        unmasked.insert(*source);
                    }
                    Lineage::Computed { unmasked: earlier, .. } => unmasked.extend(earlier),
                }
            }
        }
        self
    }

    pub(crate) fn route(&self, names: &[String]) -> Route {
        match self {
            Lineage::Source(source) => Route::Passed {
                source: names[*source].clone(),
            },
            Lineage::Computed { sources, how, keys, .. } => Route::Computed {
                sources: sources.iter().map(|source| names[*source].clone()).collect(),
                how: how.join(", then "),
                keys: keys.clone(),
            },
        }
    }
}

/// The routes of all source columns, in their order.
pub(crate) fn source_routes(names: &[String], output: &[OutputColumn]) -> Vec<SourceRoute> {
    names
        .iter()
        .map(|name| {
            let mut route = SourceRoute {
                column: name.clone(),
                passed_as: Vec::new(),
                computed_into: Vec::new(),
            };
            for column in output {
                match &column.from {
                    Route::Passed { source } if source == name => route.passed_as.push(column.name.clone()),
                    Route::Computed { sources, .. } if sources.contains(name) => {
                        route.computed_into.push(Computation {
                            column: column.name.clone(),
                            how: column.from.how().unwrap_or_default(),
                        });
                    }
                    _ => {}
                }
            }
            route
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::plan::{From, Output};

    fn plan(from: From) -> Plan {
        Plan {
            outputs: vec![Output {
                name: "a".to_owned(),
                data_type: DataType::Utf8,
                nullable: true,
                from,
            }],
            reads: Vec::new(),
            computed: 1,
        }
    }

    fn made(how: &str, keys: &[(&str, &str)]) -> Plan {
        let keys = keys
            .iter()
            .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()));
        plan(From::Computed {
            sources: vec![0],
            how: how.to_owned(),
            keys: keys.collect(),
        })
    }

    #[test]
    fn the_keys_of_every_step_are_told() {
        let mut lineage = Lineage::of_sources(1);
        for step in [
            made("trimmed", &[]),
            made("keyed hash", &[("pii", "v3")]),
            plan(From::Pass(0)),
            made("pseudonym", &[("names", "v1")]),
        ] {
            lineage = Lineage::follow(&lineage, &step, true);
        }
        let route = lineage[0].route(&["email".to_owned()]);
        assert_eq!(
            route.how().unwrap(),
            "trimmed, then keyed hash, then pseudonym (names v1, pii v3)"
        );
        let output = [OutputColumn {
            name: "a".to_owned(),
            data_type: DataType::Utf8,
            nullable: true,
            from: route,
        }];
        let routes = source_routes(&["email".to_owned()], &output);
        assert!(routes[0].computed_into[0].how.ends_with("(names v1, pii v3)"));

        let plain = Lineage::follow(&Lineage::of_sources(1), &made("cut", &[]), true);
        assert_eq!(plain[0].route(&["email".to_owned()]).how().unwrap(), "cut");
        assert_eq!(Lineage::Source(0).route(&["email".to_owned()]).how(), None);
    }

    #[test]
    fn a_source_is_unmasked_until_a_step_that_masks() {
        let unmasked = |steps: &[bool]| {
            let mut lineage = Lineage::of_sources(1);
            for masks in steps {
                lineage = Lineage::follow(&lineage, &made("step", &[]), *masks);
            }
            match &lineage[0] {
                Lineage::Computed { unmasked, .. } => unmasked.contains(&0),
                Lineage::Source(_) => panic!("computed"),
            }
        };
        assert!(unmasked(&[false]));
        assert!(unmasked(&[false, false]));
        for masked in [&[true][..], &[true, false], &[false, true], &[false, true, false]] {
            assert!(!unmasked(masked), "{masked:?}");
        }
    }
}
