//! Takes what is personal out of free text: mail addresses, long numbers, words of a list, and the names that stand in other
//! columns of the same row.
//!
//! ```json
//! { "columns": ["note"], "names": ["first_name", "last_name"], "words": ["Villa Rosa"], "digits": 7 }
//! ```
//!
//! `Called Anna Kiss, +36 30 123 4567` in the row of Anna Kiss becomes `Called [name] [name], +[number]`.

mod find;
mod fold;

use serde::Deserialize;
use sluice_plugin::config::nearest;
use sluice_plugin::{
    ApplyError, Batch, Column, ComputedField, DataType, OpenError, Outcome, OutputColumn, Plan, SourceField, Table,
    Transform, Utf8Builder, Utf8View,
};

use crate::find::{Kind, Needle, Rules};

/// What stands under `config` in `sluice.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    columns: Vec<String>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    words: Vec<String>,
    #[serde(default = "yes")]
    emails: bool,
    #[serde(default = "seven")]
    digits: usize,
    #[serde(default = "three")]
    shortest_name: usize,
    #[serde(default)]
    endings: bool,
    #[serde(default)]
    drop_names: bool,
}

fn yes() -> bool {
    true
}

fn seven() -> usize {
    7
}

fn three() -> usize {
    3
}

/// The transform. sluice makes a fresh one for every chunk of rows.
#[derive(Debug)]
pub struct Scrub {
    /// How many of the columns that are read are scrubbed; those with names follow.
    columns: usize,
    rules: Rules,
    shortest_name: usize,
}

impl Transform for Scrub {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        let config: Config = sluice_plugin::config::parse(config)?;
        if config.columns.is_empty() {
            return Err(OpenError::config("columns", "it lists no column to scrub"));
        }
        if config.digits != 0 && config.digits < 3 {
            return Err(OpenError::config(
                "digits",
                "0 (numbers stay) or 3 and more is expected",
            ));
        }
        let columns = select(table, "columns", &config.columns)?;
        let names = select(table, "names", &config.names)?;
        if let Some(both) = names.iter().find(|name| columns.contains(name)) {
            return Err(OpenError::config(
                "names",
                format!(
                    "`{}` is scrubbed itself, and cannot be a name as well",
                    table.fields[*both].name
                ),
            ));
        }
        let words = config.words.iter().enumerate().map(|(at, word)| {
            let needle = Needle::phrase(word, Kind::Word);
            needle.ok_or_else(|| OpenError::config(format!("words[{at}]"), "it has neither letters nor digits"))
        });
        let rules = Rules {
            emails: config.emails,
            digits: config.digits,
            words: words.collect::<Result<_, _>>()?,
            endings: config.endings,
        };
        let name_of = |index: &usize| table.fields[*index].name.clone();
        let plan = Plan {
            outputs: outputs(table, &columns, &names, config.drop_names),
            reads: columns.iter().chain(&names).map(name_of).collect(),
        };
        let scrub = Scrub {
            columns: columns.len(),
            rules,
            shortest_name: config.shortest_name,
        };
        Ok((scrub, plan))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let views = (0..batch.columns.len()).map(|index| batch.utf8(index));
        let views: Vec<Utf8View<'_>> = views.collect::<Result<_, _>>()?;
        let (texts, names) = views.split_at(self.columns.min(views.len()));
        let mut builders: Vec<Utf8Builder> = texts
            .iter()
            .map(|view| Utf8Builder::with_capacity(view.len(), view.text().len()))
            .collect();
        let mut needles = Vec::new();
        for row in 0..batch.rows as usize {
            needles.clear();
            let values = names.iter().filter_map(|view| view.get(row));
            needles.extend(values.flat_map(|value| Needle::each_word(value, self.shortest_name)));
            for (view, builder) in texts.iter().zip(&mut builders) {
                match view.get(row) {
                    Some(text) => {
                        self.rules.scrub(text, &needles, |piece| builder.append(piece));
                        builder.end_row();
                    }
                    None => builder.push_null(),
                }
            }
        }
        // The plan has the columns in the order of the table, and so has `reads`.
        let columns: Result<Vec<Column>, ApplyError> = builders.into_iter().map(Utf8Builder::finish).collect();
        Ok(Outcome::of(columns?))
    }
}

sluice_plugin::export_transform!(Scrub);

fn outputs(table: &Table, columns: &[usize], names: &[usize], drop_names: bool) -> Vec<OutputColumn> {
    let mut outputs = Vec::new();
    for (index, field) in table.fields.iter().enumerate() {
        if columns.contains(&index) {
            let sources = std::iter::once(&index).chain(names);
            let sources = sources.map(|index| table.fields[*index].name.clone()).collect();
            let computed = ComputedField::new(DataType::Utf8, field.nullable, sources, "free text, scrubbed");
            outputs.push(OutputColumn::computed(&field.name, computed));
        } else if !(drop_names && names.contains(&index)) {
            outputs.push(OutputColumn::pass(&field.name, &field.name));
        }
    }
    outputs
}

/// The positions of text columns, in the order of the table.
fn select(table: &Table, key: &str, names: &[String]) -> Result<Vec<usize>, OpenError> {
    let mut positions = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let problem = |reason: String| Err(OpenError::config(format!("{key}[{at}]"), reason));
        let index = match table.find(name).as_slice() {
            [index] => *index,
            [] => {
                let known = table.fields.iter().map(|field| field.name.as_str());
                let hint = nearest(name, known).map(|meant| format!(", did you mean `{meant}`?"));
                return problem(format!("the table has no column `{name}`{}", hint.unwrap_or_default()));
            }
            _ => return problem(format!("the table has more than one column `{name}`, ignoring case")),
        };
        let SourceField { name, data_type, .. } = &table.fields[index];
        if *data_type != DataType::Utf8 {
            return Err(OpenError::unsupported(
                name,
                format!("only texts are scrubbed, and this is {data_type}"),
            ));
        }
        if positions.contains(&index) {
            return problem(format!("`{name}` stands here twice"));
        }
        positions.push(index);
    }
    positions.sort_unstable();
    Ok(positions)
}

#[cfg(test)]
mod tests;
