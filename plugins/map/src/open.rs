//! From the configuration and the table to the plan and what computes it.

use std::collections::HashMap;

use sluice_plugin::config::nearest;
use sluice_plugin::{OpenError, OutputColumn, Plan, SourceField, Table};

use crate::bind::{Bound, Reads, bind};
use crate::config::{Config, Mapping, Unlisted};
use crate::pipeline::Pipeline;
use crate::recipe::Recipe;

pub(crate) fn open(table: &Table, config: &str) -> Result<(Vec<Pipeline>, Plan), OpenError> {
    let config = Config::read(config)?;
    let mappings = assign(table, &config)?;
    let own = Recipe::own();
    let mut unlisted = Vec::new();
    let mut outputs = Vec::new();
    for (field, mapping) in table.fields.iter().zip(mappings) {
        let (name, recipe) = match (mapping, config.unlisted) {
            (Some(Mapping::Drop), _) | (None, Unlisted::Drop) => continue,
            (Some(Mapping::Keep { rename, recipe }), _) => (rename.as_ref().unwrap_or(&field.name), recipe),
            (None, Unlisted::Pass) => (&field.name, &own),
            (None, Unlisted::Fail) => {
                unlisted.push(field.name.clone());
                continue;
            }
        };
        outputs.push(Output {
            name,
            field: Some(field),
            recipe,
        });
    }
    if !unlisted.is_empty() {
        return Err(OpenError::Unlisted(unlisted));
    }
    outputs.extend(config.add.iter().map(|(name, recipe)| Output {
        name,
        field: None,
        recipe,
    }));
    check_names(&outputs)?;
    order(&mut outputs, &config.order)?;
    let mut plan = Plan::default();
    let mut reads = Reads::default();
    let mut pipelines = Vec::new();
    for output in outputs {
        plan.outputs
            .push(match bind(table, output.field, output.recipe, &mut reads)? {
                Bound::Pass(source) => OutputColumn::pass(output.name, &source),
                Bound::Computed(pipeline, field) => {
                    pipelines.push(pipeline);
                    OutputColumn::computed(output.name, field)
                }
            });
    }
    plan.reads = reads.0;
    Ok((pipelines, plan))
}

/// One output column, before it is planned.
struct Output<'a> {
    name: &'a str,
    /// The column of the table that it is; absent for a new one.
    field: Option<&'a SourceField>,
    recipe: &'a Recipe,
}

/// What the configuration says about each column of the table.
fn assign<'a>(table: &Table, config: &'a Config) -> Result<Vec<Option<&'a Mapping>>, OpenError> {
    let mut mappings = vec![None; table.fields.len()];
    let mut missing = Vec::new();
    for (name, mapping) in &config.columns {
        match table.find(name).as_slice() {
            [] => missing.push(name.clone()),
            [index] => mappings[*index] = Some(mapping),
            _ => {
                return Err(OpenError::config(
                    format!("columns.{name}"),
                    "the table has more than one column of this name, ignoring case; map cannot tell which is meant",
                ));
            }
        }
    }
    if missing.is_empty() {
        Ok(mappings)
    } else {
        Err(OpenError::Missing(missing))
    }
}

fn check_names(outputs: &[Output<'_>]) -> Result<(), OpenError> {
    let mut seen: HashMap<String, &Output<'_>> = HashMap::new();
    for output in outputs {
        if let Some(other) = seen.insert(output.name.to_lowercase(), output) {
            // New columns come last and differ among each other, so the other one is of the table.
            let column = other.field.map_or(other.name, |field| &field.name);
            let (path, both) = match output.field {
                Some(field) => (
                    "columns".to_owned(),
                    format!("the columns `{column}` and `{}`", field.name),
                ),
                None => (
                    format!("add.{}", output.name),
                    format!("the column `{column}` and this new one"),
                ),
            };
            return Err(OpenError::config(
                path,
                format!(
                    "{both} would both be named `{}` (names are compared ignoring case); rename or drop one",
                    output.name
                ),
            ));
        }
    }
    Ok(())
}

/// Puts the named outputs first; the others follow in their order.
fn order(outputs: &mut [Output<'_>], order: &[String]) -> Result<(), OpenError> {
    let mut ranks: HashMap<String, usize> = HashMap::new();
    for (rank, name) in order.iter().enumerate() {
        let path = || format!("order[{rank}]");
        let lower = name.to_lowercase();
        if !outputs.iter().any(|output| output.name.to_lowercase() == lower) {
            let names = outputs.iter().map(|output| output.name);
            let reason = match nearest(name, names) {
                Some(meant) => format!("no output is named `{name}`, did you mean `{meant}`?"),
                None => format!("no output is named `{name}`"),
            };
            return Err(OpenError::config(path(), reason));
        }
        if ranks.insert(lower, rank).is_some() {
            return Err(OpenError::config(path(), format!("`{name}` stands there twice")));
        }
    }
    // A stable sort keeps the order of those that are not named.
    let rank = |output: &Output<'_>| ranks.get(&output.name.to_lowercase()).copied();
    outputs.sort_by_key(|output| rank(output).unwrap_or(usize::MAX));
    Ok(())
}
