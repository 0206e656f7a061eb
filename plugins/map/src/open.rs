//! From the configuration and the table to the plan and the casts that compute it.

use std::collections::HashMap;

use sluice_plugin::config::nearest;
use sluice_plugin::{ComputedField, DataType, OpenError, OutputColumn, Plan, SourceField, Table};

use crate::cast::Cast;
use crate::config::{Config, Mapping, Unlisted};
use crate::convert::supported;

pub(crate) fn open(table: &Table, config: &str) -> Result<(Vec<Cast>, Plan), OpenError> {
    let config = Config::read(config)?;
    let mappings = assign(table, &config)?;
    let mut unlisted = Vec::new();
    let mut outputs = Vec::new();
    for (field, mapping) in table.fields.iter().zip(mappings) {
        match (mapping, config.unlisted) {
            (Some(Mapping::Drop), _) | (None, Unlisted::Drop) => {}
            (Some(Mapping::Keep { rename, cast }), _) => {
                let name = rename.as_deref().unwrap_or(&field.name);
                outputs.push(Output {
                    name: name.to_owned(),
                    field,
                    cast: cast.filter(|to| *to != field.data_type),
                });
            }
            (None, Unlisted::Pass) => outputs.push(Output {
                name: field.name.clone(),
                field,
                cast: None,
            }),
            (None, Unlisted::Fail) => unlisted.push(field.name.clone()),
        }
    }
    if !unlisted.is_empty() {
        return Err(OpenError::Unlisted(unlisted));
    }
    check_names(&outputs)?;
    order(&mut outputs, &config.order)?;
    let mut plan = Plan::default();
    let mut casts = Vec::new();
    for output in outputs {
        output.plan(&mut plan, &mut casts)?;
    }
    Ok((casts, plan))
}

/// One output column, before it is planned.
struct Output<'a> {
    name: String,
    field: &'a SourceField,
    cast: Option<DataType>,
}

impl Output<'_> {
    fn plan(self, plan: &mut Plan, casts: &mut Vec<Cast>) -> Result<(), OpenError> {
        let Some(to) = self.cast else {
            plan.outputs.push(OutputColumn::pass(&self.name, &self.field.name));
            return Ok(());
        };
        let (column, from) = (&self.field.name, self.field.data_type);
        if !supported(from, to) {
            return Err(OpenError::unsupported(
                column,
                format!("it is {from}, which cannot be cast to {to}"),
            ));
        }
        plan.reads.push(column.clone());
        plan.outputs.push(OutputColumn::computed(
            &self.name,
            ComputedField {
                data_type: to,
                nullable: self.field.nullable,
                sources: vec![column.clone()],
                how: format!("cast from {from} to {to}"),
            },
        ));
        casts.push(Cast {
            column: column.clone(),
            from,
            to,
        });
        Ok(())
    }
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
    let mut seen: HashMap<String, &str> = HashMap::new();
    for output in outputs {
        let column = output.field.name.as_str();
        if let Some(other) = seen.insert(output.name.to_lowercase(), column) {
            return Err(OpenError::config(
                "columns",
                format!(
                    "the columns `{other}` and `{column}` would both be named `{}` (names are compared ignoring case); rename or drop one",
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
            let names = outputs.iter().map(|output| output.name.as_str());
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
