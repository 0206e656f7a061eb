//! Masks columns of text: some are hidden, of some the first character is kept, some are upper-cased.
//!
//! The configuration names columns and what to do with each:
//!
//! ```json
//! { "columns": { "email": "hide", "last_name": "initial", "country": "upper" } }
//! ```
//!
//! Columns that it does not name pass as they are. Protect those that must not (`protect` in `sluice.toml`).

use serde::Deserialize;
use sluice_plugin::config::Entries;
use sluice_plugin::{
    ApplyError, Batch, Column, ComputedField, DataType, OpenError, Outcome, OutputColumn, Plan, Table, Transform,
    Utf8Builder,
};

/// What stands in place of what is hidden. Its length says nothing about the value's.
const HIDDEN: &str = "***";

/// What stands under `config` in `sluice.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    columns: Entries<Method>,
}

/// What happens to the values of a column. NULL stays NULL.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Method {
    /// `***`, whatever the value is.
    Hide,
    /// The first character and `***`. A value of one character is hidden.
    Initial,
    /// Upper case.
    Upper,
}

impl Method {
    /// A few words for `sluice check`.
    fn describe(self) -> &'static str {
        match self {
            Method::Hide => "hidden",
            Method::Initial => "first character kept",
            Method::Upper => "upper case",
        }
    }

    fn apply(self, value: &str) -> String {
        match self {
            Method::Hide => HIDDEN.to_owned(),
            Method::Initial => {
                let mut chars = value.chars();
                match (chars.next(), chars.next()) {
                    (Some(first), Some(_)) => format!("{first}{HIDDEN}"),
                    _ => HIDDEN.to_owned(),
                }
            }
            Method::Upper => value.to_uppercase(),
        }
    }
}

/// The transform. sluice makes a fresh one for every chunk of rows.
pub struct Mask {
    /// What to do with each column that is read, in the order of the plan's `reads`.
    methods: Vec<Method>,
}

impl Transform for Mask {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        let config: Config = sluice_plugin::config::parse(config)?;
        let missing: Vec<String> = config
            .columns
            .0
            .iter()
            .filter(|(name, _)| table.find(name).is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        if !missing.is_empty() {
            return Err(OpenError::Missing(missing));
        }
        let mut plan = Plan::default();
        let mut methods = Vec::new();
        for field in &table.fields {
            let named = |(name, _): &&(String, Method)| name.to_lowercase() == field.name.to_lowercase();
            let Some((_, method)) = config.columns.0.iter().find(named) else {
                plan.outputs.push(OutputColumn::pass(&field.name, &field.name));
                continue;
            };
            if field.data_type != DataType::Utf8 {
                return Err(OpenError::unsupported(&field.name, "it is not text"));
            }
            let computed = ComputedField::new(
                DataType::Utf8,
                field.nullable,
                vec![field.name.clone()],
                method.describe(),
            );
            plan.reads.push(field.name.clone());
            plan.outputs.push(OutputColumn::computed(&field.name, computed));
            methods.push(*method);
        }
        Ok((Mask { methods }, plan))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let masked = |(index, method): (usize, &Method)| -> Result<Column, ApplyError> {
            let values = batch.utf8(index)?;
            let mut builder = Utf8Builder::with_capacity(values.len(), values.text().len());
            for value in values.iter() {
                builder.push_option(value.map(|value| method.apply(value)).as_deref());
            }
            builder.finish()
        };
        let columns = self.methods.iter().enumerate().map(masked);
        Ok(Outcome::of(columns.collect::<Result<_, _>>()?))
    }
}

sluice_plugin::export_transform!(Mask);

/// They run natively: `cargo test`.
#[cfg(test)]
mod tests {
    use sluice_plugin::{OutputSource, SourceField, Utf8View};

    use super::*;

    fn customers() -> Table {
        let field = |name: &str, data_type, source_type: &str| SourceField {
            name: name.to_owned(),
            data_type,
            nullable: true,
            source_type: source_type.to_owned(),
            key: None,
        };
        Table {
            schema: "dbo".to_owned(),
            name: "customers".to_owned(),
            capture_instance: "dbo_customers".to_owned(),
            fields: vec![
                field("id", DataType::Int32, "int"),
                field("email", DataType::Utf8, "nvarchar(100)"),
            ],
        }
    }

    #[test]
    fn each_method_does_what_it_says() {
        assert_eq!(Method::Hide.apply("anna@example.org"), "***");
        assert_eq!(Method::Initial.apply("Ödön"), "Ö***");
        assert_eq!(Method::Initial.apply("Ö"), "***");
        assert_eq!(Method::Upper.apply("győr"), "GYŐR");
    }

    #[test]
    fn a_named_column_is_computed_and_the_others_pass() {
        let (_, plan) = Mask::open(&customers(), r#"{ "columns": { "EMAIL": "hide" } }"#).unwrap();
        assert_eq!(plan.reads, ["email"]);
        assert!(matches!(&plan.outputs[0].source, OutputSource::Pass(source) if source == "id"));
        assert!(matches!(&plan.outputs[1].source, OutputSource::Computed(field) if field.how == "hidden"));
    }

    #[test]
    fn null_stays_null() {
        let (mut mask, _) = Mask::open(&customers(), r#"{ "columns": { "email": "hide" } }"#).unwrap();
        let mut email = Utf8Builder::with_capacity(2, 0);
        email.push_option(Some("anna@example.org"));
        email.push_option(None);
        let batch = Batch {
            rows: 2,
            operations: vec![2, 2],
            columns: vec![email.finish().unwrap()],
        };
        let outcome = mask.apply(&batch).unwrap();
        let masked = Utf8View::new(&outcome.columns[0], 2).unwrap();
        assert_eq!(masked.iter().collect::<Vec<_>>(), [Some("***"), None]);
    }

    #[test]
    fn mistakes_in_the_configuration_are_named() {
        let refused = |config: &str| Mask::open(&customers(), config).err().unwrap().to_string();
        assert!(refused(r#"{ "columns": { "email": "hid" } }"#).contains("did you mean `hide`"));
        assert!(refused(r#"{ "columns": { "mail": "hide" } }"#).contains("no column mail"));
        assert!(refused(r#"{ "columns": { "id": "hide" } }"#).contains("not text"));
    }
}
