//! Scripts: batches with lines that say `GO` between them, run on the engine without a wire.

use mssql_sim_engine::Session;
use mssql_sim_engine::result::{ColumnMeta, ResultSink, SinkClosed, SqlError};
use mssql_sim_engine::value::Value;

/// Splits a script at its `GO` lines.
pub fn batches(script: &str) -> Vec<String> {
    let mut batches = vec![String::new()];
    for line in script.lines() {
        if line.trim().eq_ignore_ascii_case("go") {
            batches.push(String::new());
        } else if let Some(batch) = batches.last_mut() {
            batch.push_str(line);
            batch.push('\n');
        }
    }
    batches.retain(|batch| !batch.trim().is_empty());
    batches
}

/// Runs a script and stops at the first error, which is returned.
pub fn run(session: &mut Session, script: &str) -> Result<(), SqlError> {
    batches(script)
        .iter()
        .try_for_each(|batch| query(session, batch).map(|_| ()))
}

/// Runs one batch and returns the rows of all its result sets, one after another; the first error ends it.
pub fn query(session: &mut Session, batch: &str) -> Result<Vec<Vec<Value>>, SqlError> {
    let mut answer = Answer::default();
    // A collecting sink never closes.
    let _ = session.execute(batch, &[], &mut answer);
    match answer.error {
        Some(error) => Err(error),
        None => Ok(answer.rows),
    }
}

#[derive(Default)]
struct Answer {
    rows: Vec<Vec<Value>>,
    error: Option<SqlError>,
}

impl ResultSink for Answer {
    fn columns(&mut self, _: &[ColumnMeta]) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn row(&mut self, row: &[Value]) -> Result<(), SinkClosed> {
        self.rows.push(row.to_vec());
        Ok(())
    }

    fn statement_done(&mut self, _: Option<u64>) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn info(&mut self, _: &SqlError) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn error(&mut self, error: &SqlError) -> Result<(), SinkClosed> {
        self.error.get_or_insert_with(|| error.clone());
        Ok(())
    }

    fn database_changed(&mut self, _: &str, _: &str) -> Result<(), SinkClosed> {
        Ok(())
    }

    fn return_status(&mut self, _: i32) -> Result<(), SinkClosed> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::batches;

    #[test]
    fn a_script_is_split_at_go_lines_only() {
        assert_eq!(
            batches("SELECT 1\n go \nSELECT 'GO'\nGO\n\nGO\n"),
            ["SELECT 1\n", "SELECT 'GO'\n"]
        );
    }
}
