//! From a recipe and the table to what computes a column, and to the field that the plan says.

use std::borrow::Cow;

use sluice_plugin::config::nearest;
use sluice_plugin::{Column, ComputedField, DataType, OpenError, SourceField, Table};

use crate::cast::Cast;
use crate::concat::{self, Concat};
use crate::convert::supported;
use crate::literal;
use crate::pipeline::{Input, Pipeline, Step};
use crate::recipe::{Nulls, Part, Recipe, Source};
use crate::rejects::Rejects;
use crate::step_config::{Written, WrittenStep};

/// The metadata columns. A column of the table that has such a name cannot be read under it.
const METADATA: [&str; 6] = [
    "_capture_instance",
    "_start_lsn",
    "_seqval",
    "_operation",
    "_command_id",
    "_commit_ts",
];

/// What an output column becomes in the plan.
pub(crate) enum Bound {
    /// The host moves the column of this name.
    Pass(String),
    Computed(Pipeline, ComputedField),
}

/// The columns that the plan reads, each once.
#[derive(Debug, Default)]
pub(crate) struct Reads(pub Vec<String>);

impl Reads {
    fn position(&mut self, name: &str) -> usize {
        let known = self.0.iter().position(|read| read == name);
        known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }
}

/// Binds a recipe; `own` is the column of the table that it is about, and absent for a new one.
pub(crate) fn bind(
    table: &Table,
    own: Option<&SourceField>,
    recipe: &Recipe,
    reads: &mut Reads,
) -> Result<Bound, OpenError> {
    let mut binding = Binding::start(table, own, recipe)?;
    for written in &recipe.steps {
        binding.add(written)?;
    }
    binding.finish(reads)
}

/// A column on its way through the recipe.
struct Binding<'a> {
    start: Start<'a>,
    /// Whether this is a new column.
    added: bool,
    data_type: DataType,
    nullable: bool,
    steps: Vec<Step>,
    how: Vec<String>,
}

enum Start<'a> {
    Column(&'a SourceField),
    Constant(Column),
    Concat {
        parts: Vec<ConcatPart<'a>>,
        separator: &'a str,
        nulls: Nulls,
    },
    Coalesce(Vec<&'a SourceField>),
}

enum ConcatPart<'a> {
    Text(&'a str),
    Column(&'a SourceField),
}

impl<'a> Binding<'a> {
    fn start(table: &'a Table, own: Option<&'a SourceField>, recipe: &'a Recipe) -> Result<Self, OpenError> {
        let path = &recipe.path;
        let (start, data_type, nullable, how) = match &recipe.source {
            Source::Own => {
                let field =
                    own.ok_or_else(|| OpenError::config(path, "a new column needs something that it is made of"))?;
                (Start::Column(field), field.data_type, field.nullable, None)
            }
            Source::Column(name) => {
                let field = find(table, name, &format!("{path}.from"))?;
                (Start::Column(field), field.data_type, field.nullable, Some("copy"))
            }
            Source::Constant(value) => {
                let constant = literal::natural(value);
                let (column, data_type) =
                    constant.map_err(|reason| OpenError::config(format!("{path}.value"), reason))?;
                (Start::Constant(column), data_type, false, Some("constant"))
            }
            Source::Concat {
                parts,
                separator,
                nulls,
            } => {
                let parts = parts.iter().enumerate().map(|(index, part)| match part {
                    Part::Text(text) => Ok(ConcatPart::Text(text)),
                    Part::Column(name) => {
                        let path = format!("{path}.concat[{index}]");
                        find(table, name, &path).map(ConcatPart::Column)
                    }
                });
                let parts = parts.collect::<Result<Vec<_>, _>>()?;
                let can_be_null = |part: &ConcatPart| matches!(part, ConcatPart::Column(field) if field.nullable);
                let nullable = *nulls == Nulls::Null && parts.iter().any(can_be_null);
                let start = Start::Concat {
                    parts,
                    separator,
                    nulls: *nulls,
                };
                (start, DataType::Utf8, nullable, Some("concat"))
            }
            Source::Coalesce(names) => {
                let fields = coalesced(table, names, &format!("{path}.coalesce"))?;
                let data_type = fields.first().map_or(DataType::Utf8, |field| field.data_type);
                let nullable = fields.iter().all(|field| field.nullable);
                (Start::Coalesce(fields), data_type, nullable, Some("coalesce"))
            }
        };
        Ok(Self {
            start,
            added: own.is_none(),
            data_type,
            nullable,
            steps: Vec::new(),
            how: how.map(str::to_owned).into_iter().collect(),
        })
    }

    fn add(&mut self, written: &Written) -> Result<(), OpenError> {
        match &written.step {
            WrittenStep::Trim(sides) => self.text_step("trim", written, Step::Trim(*sides), false),
            WrittenStep::Case(case) => self.text_step("letter case", written, Step::Case(*case), false),
            WrittenStep::Split { separator, part } => {
                let step = Step::Split {
                    separator: separator.clone(),
                    part: *part,
                };
                self.text_step("split", written, step, true)
            }
            WrittenStep::Json(json) => self.text_step("json", written, Step::Json(json.clone()), true),
            WrittenStep::Values(values) => {
                let nullable = values.can_be_null();
                self.text_step("values", written, Step::Values(values.clone()), nullable)
            }
            WrittenStep::Cast(to) => self.cast(written, *to),
            WrittenStep::Default(value) => {
                let constant = literal::of_type(value, self.data_type)
                    .map_err(|reason| OpenError::config(&written.path, reason))?;
                if self.nullable {
                    self.how.push("default for NULL".to_owned());
                    self.push(written, Step::Default(constant, self.data_type))?;
                    self.nullable = false;
                }
                Ok(())
            }
        }
    }

    fn text_step(&mut self, name: &str, written: &Written, step: Step, nullable: bool) -> Result<(), OpenError> {
        if self.data_type != DataType::Utf8 {
            return Err(OpenError::config(
                &written.path,
                format!(
                    "{name} works on text, and the column is {} here; put `{{ cast = \"string\" }}` before it",
                    self.data_type
                ),
            ));
        }
        self.how.push(name.to_owned());
        self.push(written, step)?;
        // The one row of a constant has told already.
        if !matches!(self.start, Start::Constant(_)) {
            self.nullable |= nullable;
        }
        Ok(())
    }

    fn cast(&mut self, written: &Written, to: DataType) -> Result<(), OpenError> {
        let from = self.data_type;
        if from == to {
            return Ok(());
        }
        if !supported(from, to) {
            return Err(match self.start {
                Start::Column(field) if self.steps.is_empty() => {
                    OpenError::unsupported(&field.name, format!("it is {from}, which cannot be cast to {to}"))
                }
                _ => OpenError::config(
                    &written.path,
                    format!("the column is {from} here, which cannot be cast to {to}"),
                ),
            });
        }
        self.how.push(format!("cast from {from} to {to}"));
        self.push(written, Step::Cast(Cast { from, to }))?;
        self.data_type = to;
        Ok(())
    }

    /// Adds a step; on a constant it is done here and now.
    fn push(&mut self, written: &Written, step: Step) -> Result<(), OpenError> {
        let Start::Constant(constant) = &mut self.start else {
            self.steps.push(step);
            return Ok(());
        };
        let mut rejects = Vec::new();
        let changed = step
            .apply(Cow::Borrowed(&*constant), 1, &mut Rejects::new("", &mut rejects))
            .map_err(|error| OpenError::config(&written.path, error.code))?
            .into_owned();
        if let Some(reject) = rejects.first() {
            return Err(OpenError::config(
                &written.path,
                format!("the constant does not get through this step ({})", reject.code),
            ));
        }
        self.nullable = changed.validity.is_some();
        *constant = changed;
        Ok(())
    }

    fn finish(self, reads: &mut Reads) -> Result<Bound, OpenError> {
        if let Start::Column(field) = self.start
            && self.steps.is_empty()
            // Two columns of one position in the key would make another key for the next transform.
            && !(self.added && field.key.is_some())
        {
            return Ok(Bound::Pass(field.name.clone()));
        }
        let fields = self.start.fields();
        let mut sources: Vec<String> = Vec::with_capacity(fields.len());
        for field in fields {
            if METADATA.contains(&field.name.as_str()) {
                return Err(OpenError::unsupported(
                    &field.name,
                    "it has the name of one of sluice's own columns and can only be passed, renamed or dropped; to compute \
                     with it rename it by a `map` before this one",
                ));
            }
            if !sources.contains(&field.name) {
                sources.push(field.name.clone());
            }
        }
        let field = computed(self.data_type, self.nullable, sources, self.how.join(", "));
        let pipeline = Pipeline {
            column: field.sources.first().cloned().unwrap_or_default(),
            input: self.start.input(self.data_type, reads),
            steps: self.steps,
        };
        Ok(Bound::Computed(pipeline, field))
    }
}

impl Start<'_> {
    fn fields(&self) -> Vec<&SourceField> {
        match self {
            Self::Column(field) => vec![field],
            Self::Constant(_) => Vec::new(),
            Self::Concat { parts, .. } => {
                let columns = parts.iter().filter_map(|part| match part {
                    ConcatPart::Column(field) => Some(*field),
                    ConcatPart::Text(_) => None,
                });
                columns.collect()
            }
            Self::Coalesce(fields) => fields.clone(),
        }
    }

    fn input(self, constant_type: DataType, reads: &mut Reads) -> Input {
        match self {
            Self::Column(field) => Input::Read(reads.position(&field.name)),
            Self::Constant(column) => Input::Constant(column, constant_type),
            Self::Concat {
                parts,
                separator,
                nulls,
            } => {
                let parts = parts.into_iter().map(|part| match part {
                    ConcatPart::Text(text) => concat::Part::Text(text.to_owned()),
                    ConcatPart::Column(field) => concat::Part::Column {
                        read: reads.position(&field.name),
                        name: field.name.clone(),
                        data_type: field.data_type,
                    },
                });
                Input::Concat(Concat {
                    parts: parts.collect(),
                    separator: separator.to_owned(),
                    nulls,
                })
            }
            Self::Coalesce(fields) => {
                let data_type = fields.first().map_or(constant_type, |field| field.data_type);
                let indexes = fields.iter().map(|field| reads.position(&field.name));
                Input::Coalesce(indexes.collect(), data_type)
            }
        }
    }
}

fn coalesced<'a>(table: &'a Table, names: &[String], path: &str) -> Result<Vec<&'a SourceField>, OpenError> {
    let mut fields: Vec<&SourceField> = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let field = find(table, name, &path)?;
        if let Some(first) = fields.first()
            && first.data_type != field.data_type
        {
            return Err(OpenError::config(
                path,
                format!(
                    "`{}` is {} and `{}` is {}; columns of one type are needed, cast them by a `map` before this one",
                    first.name, first.data_type, field.name, field.data_type
                ),
            ));
        }
        fields.push(field);
    }
    Ok(fields)
}

/// The column of the table that a recipe names.
fn find<'a>(table: &'a Table, name: &str, path: &str) -> Result<&'a SourceField, OpenError> {
    let exact = table.fields.iter().find(|field| field.name == name);
    let reason = match (exact, table.find(name).as_slice()) {
        (Some(field), _) => return Ok(field),
        (None, [index]) => return Ok(&table.fields[*index]),
        (None, []) => match nearest(name, table.fields.iter().map(|field| field.name.as_str())) {
            Some(meant) => format!("the table has no column `{name}`, did you mean `{meant}`?"),
            None => format!("the table has no column `{name}`"),
        },
        (None, _) => format!("the table has more than one column `{name}`, ignoring case; write it as the table does"),
    };
    Err(OpenError::config(path, reason))
}

/// The field of a computed column, which no key has a part in.
fn computed(data_type: DataType, nullable: bool, sources: Vec<String>, how: String) -> ComputedField {
    ComputedField::new(data_type, nullable, sources, how)
}
