//! From the configuration and the table to the plan and the steps that compute it.

use sluice_plugin::{
    Column, ComputedField, DataType, Keyed, KeyedError, OpenError, OutputColumn, Plan, SourceField, Table,
};

use crate::config::{Config, Method, Unlisted};
use crate::constant::Literal;
use crate::dates::Unit;
use crate::email::Email;
use crate::keep::Keep;
use crate::keyed_hash::Hash;

/// How one output column is computed.
#[derive(Debug)]
pub(crate) struct Step {
    /// The source column.
    pub column: String,
    /// Its type.
    pub data_type: DataType,
    /// Its position among the columns that the plan reads; of no meaning to a constant.
    pub read: usize,
    pub computation: Computation,
}

#[derive(Debug)]
pub(crate) enum Computation {
    Constant(Literal),
    Keep(Keep),
    Hash(Hash),
    Email(Email),
    Truncate(Unit),
}

pub(crate) fn open(table: &Table, config: &str, keys: &impl Keyed) -> Result<(Vec<Step>, Plan), OpenError> {
    let config = Config::read(config)?;
    let methods = assign(table, &config)?;
    let mut unlisted = Vec::new();
    let mut plan = Plan::default();
    let mut steps = Vec::new();
    for (field, method) in table.fields.iter().zip(methods) {
        let method = match (method, config.unlisted) {
            (Some((written, method)), _) => {
                check_key(keys, written, method)?;
                method
            }
            (None, Unlisted::Drop) => &Method::Drop,
            (None, Unlisted::Null) => &Method::Null,
            (None, Unlisted::Pass) => &Method::Pass,
            (None, Unlisted::Fail) => {
                unlisted.push(field.name.clone());
                continue;
            }
        };
        let Some(planned) = planned(field, method)? else {
            match method {
                Method::Drop => {}
                _ => plan.outputs.push(OutputColumn::pass(&field.name, &field.name)),
            }
            continue;
        };
        let read = plan.reads.len();
        if !matches!(planned.computation, Computation::Constant(_)) {
            plan.reads.push(field.name.clone());
        }
        plan.outputs.push(OutputColumn::computed(
            &field.name,
            ComputedField::new(
                planned.data_type,
                planned.nullable,
                vec![field.name.clone()],
                planned.how,
            )
            .with_keys(method.key()),
        ));
        steps.push(Step {
            column: field.name.clone(),
            data_type: field.data_type,
            read,
            computation: planned.computation,
        });
    }
    if unlisted.is_empty() {
        Ok((steps, plan))
    } else {
        Err(OpenError::Unlisted(unlisted))
    }
}

type Assigned<'a> = Vec<Option<(&'a str, &'a Method)>>;

/// The method of each column of the table, with the name under which the configuration has it.
fn assign<'a>(table: &Table, config: &'a Config) -> Result<Assigned<'a>, OpenError> {
    let mut methods = vec![None; table.fields.len()];
    let mut missing = Vec::new();
    for (name, method) in &config.columns {
        match table.find(name).as_slice() {
            [] => missing.push(name.clone()),
            [index] => methods[*index] = Some((name.as_str(), method)),
            _ => {
                return Err(OpenError::config(
                    format!("columns.{name}"),
                    "the table has more than one column of this name, ignoring case; mask cannot tell which is meant",
                ));
            }
        }
    }
    if missing.is_empty() {
        Ok(methods)
    } else {
        Err(OpenError::Missing(missing))
    }
}

/// A computed output.
struct Planned {
    computation: Computation,
    data_type: DataType,
    nullable: bool,
    how: String,
}

/// `None` for the methods that compute nothing.
fn planned(field: &SourceField, method: &Method) -> Result<Option<Planned>, OpenError> {
    let unsupported = |reason: &str| {
        let reason = format!("`{}` {reason}; it is {}", method.name(), field.data_type);
        OpenError::unsupported(&field.name, reason)
    };
    let text = || match field.data_type {
        DataType::Utf8 => Ok(()),
        _ => Err(unsupported("works on text columns only")),
    };
    let (computation, data_type, nullable, how) = match method {
        Method::Pass | Method::Drop => return Ok(None),
        Method::Null => (
            Computation::Constant(Literal::Null),
            field.data_type,
            true,
            "null".to_owned(),
        ),
        Method::Constant { value } => {
            let literal = Literal::of(value, field.data_type).map_err(|reason| unsupported(&reason))?;
            let nullable = literal == Literal::Null;
            (
                Computation::Constant(literal),
                field.data_type,
                nullable,
                "constant".to_owned(),
            )
        }
        Method::Keep { first, last, mask } => {
            text()?;
            let keep = Keep {
                first: *first,
                last: *last,
                mask: *mask,
            };
            let how = keep.how();
            (Computation::Keep(keep), DataType::Utf8, field.nullable, how)
        }
        Method::Hash(options) => {
            let how = "keyed hash".to_owned();
            (
                Computation::Hash(Hash::new(options)),
                DataType::Utf8,
                field.nullable,
                how,
            )
        }
        Method::Email { key, context } => {
            text()?;
            let email = Email {
                key: key.clone(),
                context: context.clone(),
            };
            let how = "keyed hash of the local part, domain kept".to_owned();
            (Computation::Email(email), DataType::Utf8, field.nullable, how)
        }
        Method::Date { truncate } => {
            truncate.check(field.data_type).map_err(unsupported)?;
            (
                Computation::Truncate(*truncate),
                field.data_type,
                field.nullable,
                format!("cut to the {truncate}"),
            )
        }
    };
    Ok(Some(Planned {
        computation,
        data_type,
        nullable,
        how,
    }))
}

/// Asks for the hash of no rows, so that a key that is not granted stops the table at its start and not in the middle.
fn check_key(keys: &impl Keyed, written: &str, method: &Method) -> Result<(), OpenError> {
    let Some(key) = method.key() else {
        return Ok(());
    };
    let nothing = Column {
        offsets: vec![0],
        ..Column::default()
    };
    match keys.hmac_sha256(key, "", 0, nothing) {
        Err(KeyedError::NotGranted) => Err(OpenError::config(
            format!("columns.{written}.key"),
            format!("the key `{key}` is not granted to this transform; add it to the transform's `keys`"),
        )),
        _ => Ok(()),
    }
}
