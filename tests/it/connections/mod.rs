//! Both drivers log in, or are refused, in the same way: tiberius asks, mssql-tds streams, and a run needs both.

mod away;
mod certificates;
mod deadlines;
mod routes;
mod strings;
mod tokens;

use sluice::config::Settings;
use sluice::source::{Asker, SourceError, StreamPool};

use crate::harness::{PASSWORD, Project, Server, insert, sales};

/// A server with `dbo.t`, which has one row, and a project that reads it.
async fn set_up() -> (Server, Project) {
    let server = sales(&["t"]).await;
    let project = project(&server).await;
    (server, project)
}

/// The same on a server that is there.
async fn project(server: &Server) -> Project {
    insert(server, 1..=1).await;
    Project::new(server, "sales").table("dbo_t", "")
}

/// The tables of [`sales`] on a server that was started in its own way.
async fn fill(server: &Server) {
    server.database("sales").await;
    server
        .table("sales", "t", "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL")
        .await;
}

/// The keys of `[source]` for a SQL login, with more of them.
fn keys(server: &Server, more: &str) -> String {
    format!(
        "server = \"{},{}\"\ndatabase = \"sales\"\nuser = \"reader\"\npassword = {{ file = \"password\" }}\n{more}",
        server.host, server.port
    )
}

/// Logs in with each driver by itself.
async fn both(project: &Project) -> (Result<(), SourceError>, Result<(), SourceError>) {
    let settings = Settings::load(&project.config()).expect("a configuration");
    let asks = Asker::new(settings.source.clone()).connect().await;
    // Each for itself: what one has learned is not to help the other.
    let settings = Settings::load(&project.config()).expect("a configuration");
    let streams = StreamPool::new(settings.source, 1).warm_up().await;
    (asks, streams)
}

/// Both drivers have to be refused, in these words.
async fn both_refused(project: &Project, words: &[&str]) {
    let (asks, streams) = both(project).await;
    for (driver, result) in [("tiberius", asks), ("mssql-tds", streams)] {
        let Err(error) = result else {
            panic!("{driver} logs in, and should be refused with {words:?}")
        };
        let text = error.to_string();
        for part in words {
            assert!(text.contains(part), "{driver}: {text}");
        }
        assert!(!text.contains(PASSWORD), "{driver}: {text}");
    }
}

/// Both drivers have to come in.
async fn both_in(project: &Project) {
    let (asks, streams) = both(project).await;
    asks.unwrap_or_else(|error| panic!("tiberius: {error}"));
    streams.unwrap_or_else(|error| panic!("mssql-tds: {error}"));
}

/// One login that the server has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Login {
    user: String,
    server: String,
    application: String,
    read_only: bool,
    token: bool,
}

/// The logins of everybody but the administrator, the oldest first.
async fn logins(server: &Server) -> Vec<Login> {
    let text = |row: &tiberius::Row, column: &str| row.get::<&str, _>(column).unwrap_or_default().to_owned();
    server
        .query("master", "EXEC sim.logins")
        .await
        .iter()
        .map(|row| Login {
            user: text(row, "login_name"),
            server: text(row, "server_name"),
            application: text(row, "application_name"),
            read_only: row.get::<i32, _>("read_only") == Some(1),
            token: row.get::<i32, _>("token") == Some(1),
        })
        .filter(|login| login.user != "sa")
        .collect()
}

/// A fault for `reader`.
async fn fault(server: &Server, kind: &str, rest: &str) {
    server
        .exec(
            "master",
            &format!("EXEC sim.fault @kind = N'{kind}', @login = N'reader'{rest}"),
        )
        .await;
}
