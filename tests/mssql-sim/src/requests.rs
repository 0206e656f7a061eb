//! The log of requests (`--requests FILE`): what clients asked, word for word, without the values that they bound.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::wire::login7::Login7;

/// How a text came.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Came {
    /// As a SQL batch.
    Batch,
    /// With a call of a procedure: `sp_executesql`, `sp_prepare`, one by its name.
    Rpc,
}

/// Appends a line of JSON for each request, before it is answered.
#[derive(Debug)]
pub(crate) struct Requests(Mutex<File>);

impl Requests {
    /// Opens the file; what is in it stays. The error names it.
    pub(crate) fn open(path: &Path) -> io::Result<Requests> {
        let file = File::options().create(true).append(true).open(path).map_err(|error| {
            let text = format!("cannot write requests to {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        })?;
        Ok(Requests(Mutex::new(file)))
    }

    /// Notes a request: `login`, `application`, `kind`, `text`, and `parameters` as they were declared.
    pub(crate) fn note(&self, login: &Login7, came: Came, text: &str, parameters: &str) {
        let mut line = serde_json::json!({
            "login": login.user,
            "application": login.application,
            "kind": match came {
                Came::Batch => "batch",
                Came::Rpc => "rpc",
            },
            "text": text,
            "parameters": parameters,
        })
        .to_string();
        line.push('\n');
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One write a line: whoever reads meanwhile sees whole lines.
        if let Err(error) = file.write_all(line.as_bytes()) {
            eprintln!("mssql-sim: cannot write the log of requests: {error}");
        }
    }
}
