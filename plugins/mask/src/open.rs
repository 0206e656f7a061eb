//! From the configuration and the table to the plan and the steps that compute it.

use sluice_plugin::config::nearest;
use sluice_plugin::{
    Column, ComputedField, DataType, Keyed, KeyedError, OpenError, OutputColumn, Plan, SourceField, Table,
};

use crate::bucket::Bucket;
use crate::config::{Config, Method, Unlisted};
use crate::constant::Literal;
use crate::date_shift::DateShift;
use crate::dates::Unit;
use crate::email::Email;
use crate::fpe::Fpe;
use crate::keep::Keep;
use crate::keyed::By;
use crate::keyed_hash::Hash;
use crate::noise::Noise;
use crate::pseudonym::Pseudonym;
use crate::redact::Redact;
use crate::token::Token;

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
    Token(Token),
    Fpe(Fpe),
    Pseudonym(Pseudonym),
    DateShift(DateShift),
    Noise(Noise),
    Bucket(Bucket),
    Redact(Redact),
}

pub(crate) fn open(table: &Table, config: &str, keys: &impl Keyed) -> Result<(Vec<Step>, Plan), OpenError> {
    let config = Config::read(config)?;
    let methods = assign(table, &config)?;
    let mut unlisted = Vec::new();
    let mut plan = Plan::default();
    let mut steps = Vec::new();
    for (field, method) in table.fields.iter().zip(methods) {
        let (method, by) = match (method, config.unlisted) {
            (Some((written, method)), _) => {
                check_key(keys, written, method)?;
                (method, by(table, &mut plan, field, written, method)?)
            }
            (None, Unlisted::Drop) => (&Method::Drop, None),
            (None, Unlisted::Null) => (&Method::Null, None),
            (None, Unlisted::Pass) => (&Method::Pass, None),
            (None, Unlisted::Fail) => {
                unlisted.push(field.name.clone());
                continue;
            }
        };
        let mut sources = vec![field.name.clone()];
        sources.extend(by.as_ref().map(|by| by.column.clone()));
        let Some(planned) = planned(field, method, by)? else {
            match method {
                Method::Drop => {}
                _ => plan.outputs.push(OutputColumn::pass(&field.name, &field.name)),
            }
            continue;
        };
        let read = match planned.computation {
            Computation::Constant(_) => 0,
            _ => read(&mut plan, &field.name),
        };
        plan.outputs.push(OutputColumn::computed(
            &field.name,
            ComputedField::new(planned.data_type, planned.nullable, sources, planned.how).with_keys(method.key()),
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
fn planned(field: &SourceField, method: &Method, by: Option<By>) -> Result<Option<Planned>, OpenError> {
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
        Method::Token(token) => (
            Computation::Token(token.clone()),
            DataType::Utf8,
            field.nullable,
            "keyed token".to_owned(),
        ),
        Method::Fpe(options) => {
            text()?;
            let fpe = Fpe::new(options);
            let how = fpe.how();
            (Computation::Fpe(fpe), DataType::Utf8, field.nullable, how)
        }
        Method::Pseudonym(pseudonym) => (
            Computation::Pseudonym(pseudonym.clone()),
            DataType::Utf8,
            field.nullable,
            pseudonym.how(),
        ),
        Method::DateShift(options) => {
            let is_date = matches!(
                field.data_type,
                DataType::Date | DataType::Timestamp | DataType::TimestampNtz
            );
            let by = by.filter(|_| is_date);
            let by = by.ok_or_else(|| unsupported("works on date and timestamp columns only"))?;
            let shift = DateShift::new(options, by);
            let how = shift.how();
            (Computation::DateShift(shift), field.data_type, field.nullable, how)
        }
        Method::Noise(options) => {
            let noise = Noise::new(options, &field.name, field.data_type, by).map_err(unsupported)?;
            let how = noise.how();
            (Computation::Noise(noise), field.data_type, field.nullable, how)
        }
        Method::Bucket(options) => {
            let bucket = Bucket::new(options, field.data_type).map_err(unsupported)?;
            let (how, data_type) = (bucket.how().to_owned(), bucket.data_type(field.data_type));
            (Computation::Bucket(bucket), data_type, field.nullable, how)
        }
        Method::Redact(options) => {
            text()?;
            let redact = Redact::new(options);
            let how = redact.how();
            (Computation::Redact(redact), DataType::Utf8, field.nullable, how)
        }
    };
    Ok(Some(Planned {
        computation,
        data_type,
        nullable,
        how,
    }))
}

/// The column that a method goes by, among those that are read.
fn by(
    table: &Table,
    plan: &mut Plan,
    field: &SourceField,
    written: &str,
    method: &Method,
) -> Result<Option<By>, OpenError> {
    let Some(name) = method.by() else {
        return Ok(None);
    };
    let problem = |reason: String| Err(OpenError::config(format!("columns.{written}.by"), reason));
    let found = table.find(name);
    let [index] = found.as_slice() else {
        let names = table.fields.iter().map(|field| field.name.as_str());
        return problem(match nearest(name, names) {
            _ if found.len() > 1 => {
                format!("the table has more than one column `{name}`, ignoring case; mask cannot tell which is meant")
            }
            Some(meant) => format!("the table has no column `{name}`, did you mean `{meant}`?"),
            None => format!("the table has no column `{name}`"),
        });
    };
    let other = &table.fields[*index];
    if other.name == field.name {
        return problem("it is the column itself; name the column of the row's key".to_owned());
    }
    Ok(Some(By {
        column: other.name.clone(),
        read: read(plan, &other.name),
        data_type: other.data_type,
        normalize: method.normalize().to_vec(),
    }))
}

/// The position of a column among those that are read.
fn read(plan: &mut Plan, column: &str) -> usize {
    match plan.reads.iter().position(|read| read == column) {
        Some(position) => position,
        None => {
            plan.reads.push(column.to_owned());
            plan.reads.len() - 1
        }
    }
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
