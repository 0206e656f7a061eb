//! All tables that CDC captures and that this login sees, with their columns, for a first configuration. No row is read,
//! and no statement is sent that opening the tables would not send.

use super::ask::Asker;
use super::catalog::Catalog;
use super::error::SourceError;
use super::grants;
use super::listing::{self, Listed};
use super::table::CapturedColumn;
use crate::identity::CaptureInstance;

const DOING: &str = "listing the captured columns";

/// A table that CDC captures.
#[derive(Debug, Clone)]
pub struct SurveyedTable {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// Its oldest capture instance: a stream goes on from it to those after it.
    pub capture_instance: CaptureInstance,
    /// Its other instances, in the order in which they were made.
    pub later: Vec<CaptureInstance>,
    /// The columns of all of them, in the order in which they come up.
    pub columns: Vec<SurveyedColumn>,
    /// Why the columns cannot be listed, where they cannot.
    pub hidden: Option<String>,
}

/// A captured column.
#[derive(Debug, Clone, PartialEq)]
pub struct SurveyedColumn {
    /// Its name.
    pub name: String,
    /// Its declared type, as in T-SQL.
    pub source_type: String,
    /// The type of its values here; `None`: it cannot be read.
    pub data_type: Option<arrow::datatypes::DataType>,
    /// Whether it belongs to the key.
    pub key: bool,
}

/// Lists the tables, by schema and name.
pub async fn survey(catalog: &Catalog, asker: &mut Asker) -> Result<Vec<SurveyedTable>, SourceError> {
    let mut listed: Vec<&Listed> = catalog.listed().iter().collect();
    listed.sort_by(|a, b| place(a).cmp(&place(b)));
    let mut tables: Vec<SurveyedTable> = Vec::new();
    for one in listed {
        let name = &one.instance.name;
        let same = |table: &&mut SurveyedTable| table.schema == one.schema && table.table == one.table;
        let table = match tables.last_mut().filter(same) {
            Some(table) => {
                table.later.push(name.clone());
                table
            }
            None => {
                tables.push(SurveyedTable {
                    schema: one.schema.clone(),
                    table: one.table.clone(),
                    capture_instance: name.clone(),
                    later: Vec::new(),
                    columns: Vec::new(),
                    hidden: None,
                });
                // It was pushed just now.
                let Some(table) = tables.last_mut() else { continue };
                table
            }
        };
        let rows = asker.batch(&listing::captured_columns(name), DOING).await?;
        let columns = rows
            .iter()
            .flatten()
            .zip(1..)
            .map(|(row, position)| listing::column(row, position))
            .collect::<Result<Vec<CapturedColumn>, _>>()?;
        if columns.is_empty() {
            let hidden = grants::columns_hidden(name, (&one.schema, &one.table), &asker.user());
            table.hidden.get_or_insert_with(|| hidden.to_string());
        }
        for column in columns {
            if !table.columns.iter().any(|known| known.name == column.name) {
                table.columns.push(SurveyedColumn {
                    key: one.instance.key.contains(&column.name),
                    name: column.name,
                    source_type: column.source_type,
                    data_type: column.data_type,
                });
            }
        }
    }
    Ok(tables)
}

/// By table, and within it by when an instance was made.
fn place(listed: &Listed) -> (&str, &str, i64, &str) {
    (
        &listed.schema,
        &listed.table,
        listed.instance.created,
        &listed.instance.name.0,
    )
}
