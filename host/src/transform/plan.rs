//! What a component says will come out, checked against what goes in.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use arrow::datatypes::DataType;

use super::bindings::v0_3::exports::sluice::transform::transform as wit;
use super::columns::arrow_type;
use crate::shape::{META_AFTER, META_BEFORE};

/// More output columns than any table has.
const MAX_OUTPUTS: usize = 10_000;
/// The longest `how` that is taken, in bytes.
const MAX_HOW_BYTES: usize = 16 << 10;
/// Characters of a `how` that are kept.
const MAX_HOW_CHARS: usize = 120;
/// Characters that Delta refuses in a column name.
const REFUSED_IN_NAMES: &[char] = &[' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];

/// Why a plan does not hold together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// Too many output columns.
    #[error("it has {0} output columns")]
    TooMany(usize),
    /// It passes a column that is not there.
    #[error("output column `{output}` passes a column that the input does not have")]
    UnknownPass {
        /// The output column.
        output: String,
    },
    /// It says more of a column than there is to say.
    #[error("output column `{output}` has {count} {what}, and may have {most}")]
    TooMuch {
        /// The output column.
        output: String,
        /// Of what: `sources`, `keys` or `bytes of how`.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// It reads more columns than there are.
    #[error("it reads {0} columns, which is more than there are")]
    TooManyReads(usize),
    /// It says that a column is made of one that is not there.
    #[error("output column `{output}` is made of a column that the input does not have")]
    UnknownSource {
        /// The output column.
        output: String,
    },
    /// It makes a column with a key that is not granted.
    #[error(
        "output column `{output}`: the key `{key}` is not granted to this transform; {}add it to the transform's `keys`",
        nearest.as_ref().map(|nearest| format!("did you mean `{nearest}`? else ")).unwrap_or_default()
    )]
    UngrantedKey {
        /// The output column.
        output: String,
        /// The key that it names.
        key: String,
        /// The granted key that is nearest to it.
        nearest: Option<String>,
    },
    /// It reads a column that is not there.
    #[error("read {position} is no column of the input, nor a metadata column")]
    UnknownRead {
        /// Position in the list, from 1.
        position: usize,
    },
    /// It reads a column twice.
    #[error("it reads column `{0}` twice")]
    ReadTwice(String),
    /// Two output columns have one name, to Delta's eyes.
    #[error("output column `{0}` has the name of another one (upper and lower case are the same here)")]
    Twice(String),
    /// An output column has the name of a metadata column.
    #[error("output column `{0}` has the name of a column of sluice's own; rename it")]
    Metadata(String),
    /// Delta refuses the name.
    #[error(
        "output column `{0}` has an empty name, or one with a character that Delta refuses (space `,;{{}}()=`, tab or line break); rename it"
    )]
    Name(String),
    /// A decimal whose precision is not 1 to 38, or whose scale is larger than that.
    #[error("output column `{0}` has no valid decimal type")]
    Decimal(String),
}

/// A plan that holds together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) outputs: Vec<Output>,
    pub(crate) reads: Vec<Read>,
    /// How many outputs are computed.
    pub(crate) computed: usize,
}

/// One output column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
    pub(crate) from: From,
}

/// Where an output column comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum From {
    /// The input column of this position.
    Pass(usize),
    /// The next column of the component's answer.
    Computed {
        /// Positions of the input columns that it is made of; metadata columns are left out.
        sources: Vec<usize>,
        how: String,
        /// Versions of the keys that it is made with, by name; a component of 0.1.0 names none.
        keys: BTreeMap<String, String>,
    },
}

/// A column that the component sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Read {
    /// Position among [`META_BEFORE`].
    Meta(usize),
    /// Position among the input columns.
    Input(usize),
}

/// One column that goes into a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Input {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
    /// The declared SQL Server type, or the name of the type of a computed column.
    pub(crate) source_type: String,
    pub(crate) key: Option<u32>,
}

impl Plan {
    /// Checks `plan` against the columns that go in and the versions of the granted keys. Names that only the lake would refuse are checked by
    /// [`Plan::check_names`], on the last step of a chain: an earlier step may well pass on what a later one renames.
    pub(crate) fn new(
        plan: &wit::Plan,
        inputs: &[Input],
        granted: &BTreeMap<String, String>,
    ) -> Result<Plan, PlanFault> {
        if plan.outputs.len() > MAX_OUTPUTS {
            return Err(PlanFault::TooMany(plan.outputs.len()));
        }
        let mut positions = HashMap::with_capacity(inputs.len());
        for (position, input) in inputs.iter().enumerate() {
            positions.entry(input.name.as_str()).or_insert(position);
        }
        let position = |name: &str| positions.get(name).copied();
        let at_most = |output: &str, what: &'static str, count: usize, most: usize| match count > most {
            true => Err(PlanFault::TooMuch {
                output: shown(output),
                what,
                count,
                most,
            }),
            false => Ok(()),
        };
        let mut names = HashSet::new();
        let mut computed = 0;
        let mut outputs = Vec::with_capacity(plan.outputs.len());
        for output in &plan.outputs {
            let name = &output.name;
            if !names.insert(name.as_str()) {
                return Err(PlanFault::Twice(shown(name)));
            }
            let checked = match &output.source {
                wit::OutputSource::Pass(source) => {
                    let source = position(source).ok_or_else(|| PlanFault::UnknownPass { output: shown(name) })?;
                    Output {
                        name: name.clone(),
                        data_type: inputs[source].data_type.clone(),
                        nullable: inputs[source].nullable,
                        from: From::Pass(source),
                    }
                }
                wit::OutputSource::Computed(field) => {
                    computed += 1;
                    check_name(name)?;
                    at_most(name, "sources", field.sources.len(), inputs.len() + META_BEFORE.len())?;
                    at_most(name, "bytes of how", field.how.len(), MAX_HOW_BYTES)?;
                    // Each once, however often it is named.
                    let mut sources = BTreeSet::new();
                    for source in &field.sources {
                        match position(source) {
                            Some(position) => {
                                sources.insert(position);
                            }
                            None if META_BEFORE.contains(&source.as_str()) => {}
                            None => return Err(PlanFault::UnknownSource { output: shown(name) }),
                        }
                    }
                    // After what is not granted, which is the better reason.
                    let keys = keys(name, &field.keys, granted)?;
                    at_most(name, "keys", field.keys.len(), granted.len())?;
                    Output {
                        name: name.clone(),
                        data_type: arrow_type(field.data_type).ok_or_else(|| PlanFault::Decimal(shown(name)))?,
                        nullable: field.nullable,
                        from: From::Computed {
                            sources: sources.into_iter().collect(),
                            how: one_line(&field.how, MAX_HOW_CHARS),
                            keys,
                        },
                    }
                }
            };
            outputs.push(checked);
        }
        Ok(Plan {
            outputs,
            reads: reads(&plan.reads, inputs)?,
            computed,
        })
    }

    /// Whether every output column has a name that Delta takes and no other column has.
    pub(crate) fn check_names(&self) -> Result<(), PlanFault> {
        let mut names = HashSet::new();
        for output in &self.outputs {
            check_name(&output.name)?;
            if !names.insert(output.name.to_lowercase()) {
                return Err(PlanFault::Twice(shown(&output.name)));
            }
        }
        Ok(())
    }

    /// Whether the component has to be called for a batch at all.
    pub(crate) fn needs_call(&self) -> bool {
        self.computed > 0 || !self.reads.is_empty()
    }

    /// What goes into the next step.
    pub(crate) fn next_inputs(&self, inputs: &[Input]) -> Vec<Input> {
        self.outputs
            .iter()
            .map(|output| {
                let (source_type, key) = match &output.from {
                    From::Pass(source) => (inputs[*source].source_type.clone(), inputs[*source].key),
                    From::Computed { .. } => {
                        let name = super::columns::wire_type(&output.data_type)
                            .map(|wire| super::columns::wire_name(&wire))
                            .unwrap_or_default();
                        (name, None)
                    }
                };
                Input {
                    name: output.name.clone(),
                    data_type: output.data_type.clone(),
                    nullable: output.nullable,
                    source_type,
                    key,
                }
            })
            .collect()
    }
}

/// Text of a component on one line of at most `max` characters, for people.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    text.chars()
        .take(max)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// The keys of an output column, each once, with their versions.
fn keys(
    output: &str,
    named: &[String],
    granted: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, PlanFault> {
    let mut keys = BTreeMap::new();
    // One more would be one twice.
    for name in named.iter().take(granted.len() + 1) {
        let version = granted.get(name).ok_or_else(|| PlanFault::UngrantedKey {
            output: shown(output),
            key: shown(name),
            nearest: crate::config::nearest(name, granted.keys().map(String::as_str)),
        })?;
        keys.insert(name.clone(), version.clone());
    }
    Ok(keys)
}

fn reads(names: &[String], inputs: &[Input]) -> Result<Vec<Read>, PlanFault> {
    if names.len() > inputs.len() + META_BEFORE.len() {
        return Err(PlanFault::TooManyReads(names.len()));
    }
    let mut seen = HashSet::new();
    let mut reads = Vec::with_capacity(names.len().min(inputs.len()));
    for (index, name) in names.iter().enumerate() {
        // A captured column with the name of a metadata column can be passed and renamed, not read.
        let meta = META_BEFORE.iter().position(|meta| meta == name).map(Read::Meta);
        let read = meta
            .or_else(|| inputs.iter().position(|input| input.name == *name).map(Read::Input))
            .ok_or(PlanFault::UnknownRead { position: index + 1 })?;
        if !seen.insert(read) {
            return Err(PlanFault::ReadTwice(name.clone()));
        }
        reads.push(read);
    }
    Ok(reads)
}

fn check_name(name: &str) -> Result<(), PlanFault> {
    let reserved = |meta: &&str| meta.eq_ignore_ascii_case(name);
    if META_BEFORE.iter().chain(&META_AFTER).any(reserved) || name.eq_ignore_ascii_case("_omitted") {
        return Err(PlanFault::Metadata(shown(name)));
    }
    if name.is_empty() || name.contains(REFUSED_IN_NAMES) || name.chars().any(char::is_control) {
        return Err(PlanFault::Name(shown(name)));
    }
    Ok(())
}

fn shown(name: &str) -> String {
    one_line(name, 128)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs() -> Vec<Input> {
        let input = |name: &str, data_type, key| Input {
            name: name.to_owned(),
            data_type,
            nullable: true,
            source_type: "nvarchar(10)".to_owned(),
            key,
        };
        vec![
            input("id", DataType::Int32, Some(1)),
            input("email", DataType::Utf8, None),
            input("first name", DataType::Utf8, None),
        ]
    }

    fn pass(name: &str, source: &str) -> wit::OutputColumn {
        wit::OutputColumn {
            name: name.to_owned(),
            source: wit::OutputSource::Pass(source.to_owned()),
        }
    }

    fn computed(name: &str, data_type: wit::DataType, sources: &[&str]) -> wit::OutputColumn {
        wit::OutputColumn {
            name: name.to_owned(),
            source: wit::OutputSource::Computed(wit::ComputedField {
                data_type,
                nullable: false,
                sources: sources.iter().map(|source| (*source).to_owned()).collect(),
                how: "by\nhand".to_owned(),
                keys: Vec::new(),
            }),
        }
    }

    fn with_keys(mut output: wit::OutputColumn, keys: &[&str]) -> wit::OutputColumn {
        if let wit::OutputSource::Computed(field) = &mut output.source {
            field.keys = keys.iter().map(|key| (*key).to_owned()).collect();
        }
        output
    }

    fn check(outputs: Vec<wit::OutputColumn>, reads: &[&str]) -> Result<Plan, PlanFault> {
        let plan = wit::Plan {
            outputs,
            reads: reads.iter().map(|read| (*read).to_owned()).collect(),
        };
        let granted = BTreeMap::from([("pii".to_owned(), "v3".to_owned()), ("x".to_owned(), "1".to_owned())]);
        let plan = Plan::new(&plan, &inputs(), &granted)?;
        plan.check_names()?;
        Ok(plan)
    }

    #[test]
    fn a_plan_is_resolved_to_positions() {
        let plan = check(
            vec![
                pass("id", "id"),
                pass("again", "id"),
                computed("email", wit::DataType::Utf8, &["email", "_start_lsn"]),
            ],
            &["email", "_operation"],
        )
        .unwrap();
        assert_eq!(plan.reads, [Read::Input(1), Read::Meta(3)]);
        assert_eq!(plan.outputs[1].from, From::Pass(0));
        let From::Computed { sources, how, keys } = &plan.outputs[2].from else {
            panic!("computed");
        };
        assert_eq!((sources.as_slice(), how.as_str()), (&[1][..], "by hand"));
        assert!(keys.is_empty());
        let next = plan.next_inputs(&inputs());
        assert_eq!((next[0].key, next[0].source_type.as_str()), (Some(1), "nvarchar(10)"));
        assert_eq!((next[2].key, next[2].source_type.as_str()), (None, "utf8"));
        assert!(plan.needs_call());
        assert!(!check(vec![pass("x", "id")], &[]).unwrap().needs_call());
    }

    #[test]
    fn the_keys_of_a_column_have_their_versions_and_must_be_granted() {
        let column = |keys: &[&str]| with_keys(computed("a", wit::DataType::Utf8, &[]), keys);
        let plan = check(vec![column(&["pii", "pii"])], &[]).unwrap();
        let From::Computed { keys, .. } = &plan.outputs[0].from else {
            panic!("computed");
        };
        assert_eq!(*keys, BTreeMap::from([("pii".to_owned(), "v3".to_owned())]));
        let error = check(vec![column(&["pii", "other"])], &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "output column `a`: the key `other` is not granted to this transform; add it to the transform's `keys`"
        );
        let error = check(vec![column(&["pi"])], &[]).unwrap_err();
        assert!(
            error.to_string().ends_with(
                "is not granted to this transform; did you mean `pii`? else add it to the transform's `keys`"
            ),
            "{error}"
        );
    }

    #[test]
    fn a_plan_may_not_say_more_than_there_is() {
        let text = |sources: &[&str]| computed("a", wit::DataType::Utf8, sources);
        let fault = |output| match check(vec![output], &[]).unwrap_err() {
            PlanFault::TooMuch { what, count, most, .. } => (what, count, most),
            other => panic!("{other}"),
        };
        // Three columns and six of metadata.
        assert!(check(vec![text(&["id"; 9])], &[]).is_ok());
        assert_eq!(fault(text(&["id"; 10])), ("sources", 10, 9));
        assert_eq!(fault(with_keys(text(&[]), &["pii"; 3])), ("keys", 3, 2));
        let mut told = text(&[]);
        if let wit::OutputSource::Computed(field) = &mut told.source {
            field.how = "x".repeat(16 * 1024 + 1);
        }
        assert_eq!(fault(told), ("bytes of how", 16_385, 16_384));
        assert_eq!(check(vec![], &["id"; 10]).unwrap_err(), PlanFault::TooManyReads(10));
    }

    #[test]
    fn plans_that_do_not_hold_together_are_refused() {
        use crate::transform::bindings::v0_3::sluice::transform::types::{
            self,
            DataType::{Decimal, Utf8},
        };
        let decimal = |precision, scale| Decimal(types::DecimalType { precision, scale });
        let cases = [
            (vec![pass("a", "nope")], vec![]),
            (vec![pass("a", "ID")], vec![]),
            (vec![pass("a", "_start_lsn")], vec![]),
            (vec![computed("a", Utf8, &["nope"])], vec![]),
            (vec![], vec!["nope"]),
            (vec![], vec!["id", "id"]),
            (vec![pass("a", "id"), pass("a", "email")], vec![]),
            (vec![pass("a", "id"), pass("A", "email")], vec![]),
            (vec![pass("ä", "id"), pass("Ä", "email")], vec![]),
            (vec![computed("_Start_LSN", Utf8, &[])], vec![]),
            (vec![pass("_batch_id", "id")], vec![]),
            (vec![pass("_omitted", "id")], vec![]),
            (vec![pass("", "id")], vec![]),
            (vec![pass("first name", "first name")], vec![]),
            (vec![pass("a=b", "id")], vec![]),
            (vec![computed("a", decimal(0, 0), &[])], vec![]),
            (vec![computed("a", decimal(39, 0), &[])], vec![]),
            (vec![computed("a", decimal(5, 6), &[])], vec![]),
            (vec![computed("a", decimal(38, 255), &[])], vec![]),
        ];
        for (outputs, reads) in cases {
            assert!(check(outputs.clone(), &reads).is_err(), "{outputs:?} {reads:?}");
        }
        assert!(check(vec![computed("a", decimal(38, 38), &[])], &[]).is_ok());
        assert!(check(vec![pass("first_name", "first name")], &[]).is_ok());
        assert!(check(vec![], &[]).is_ok());
    }
}
