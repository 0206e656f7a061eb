//! Where each column of the source ends up, followed through all steps of a chain.

use std::collections::BTreeSet;

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
    },
}

/// What happens to a source column. With both lists empty, it is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRoute {
    /// Its name on the source.
    pub column: String,
    /// The output columns that are this one, untouched.
    pub passed_as: Vec<String>,
    /// The output columns that are made of it, each with how.
    pub computed_into: Vec<(String, String)>,
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
    Computed { sources: BTreeSet<usize>, how: Vec<String> },
}

/// Earlier computations that are told of a column, at most.
const MAX_STEPS_TOLD: usize = 8;

impl Lineage {
    /// Before the first step.
    pub(crate) fn of_sources(count: usize) -> Vec<Lineage> {
        (0..count).map(Lineage::Source).collect()
    }

    /// After a step with `plan`.
    pub(crate) fn follow(before: &[Lineage], plan: &Plan) -> Vec<Lineage> {
        plan.outputs
            .iter()
            .map(|output| match &output.from {
                plan::From::Pass(source) => before[*source].clone(),
                plan::From::Computed { sources, how } => Lineage::computed(before, sources, how),
            })
            .collect()
    }

    fn computed(before: &[Lineage], from: &[usize], how: &str) -> Lineage {
        let mut sources = BTreeSet::new();
        let mut steps: Vec<String> = Vec::new();
        for position in from {
            match &before[*position] {
                Lineage::Source(source) => {
                    sources.insert(*source);
                }
                Lineage::Computed { sources: earlier, how } => {
                    sources.extend(earlier);
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
        Lineage::Computed { sources, how: steps }
    }

    pub(crate) fn route(&self, names: &[String]) -> Route {
        match self {
            Lineage::Source(source) => Route::Passed {
                source: names[*source].clone(),
            },
            Lineage::Computed { sources, how } => Route::Computed {
                sources: sources.iter().map(|source| names[*source].clone()).collect(),
                how: how.join(", then "),
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
                    Route::Computed { sources, how } if sources.contains(name) => {
                        route.computed_into.push((column.name.clone(), how.clone()));
                    }
                    _ => {}
                }
            }
            route
        })
        .collect()
}
