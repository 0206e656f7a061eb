//! Both drivers log in, or are refused, in the same way: tiberius asks, mssql-tds streams, and a run needs both.

mod authorities;
mod away;
mod certificates;
mod cut;
mod deadlines;
mod routes;
mod strings;
mod tokens;

use sluice::config::Settings;
use sluice::scheduler::Scheduler;
use sluice::source::{Asker, SourceError, StreamPool};

use crate::harness::{PASSWORD, Project, Server, fault, insert, logins, sales};

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
    keys_at(&server.address(), more)
}

/// The same for whoever listens at an address.
fn keys_at(address: &str, more: &str) -> String {
    format!(
        "server = \"{address}\"\ndatabase = \"sales\"\nuser = \"reader\"\npassword = {{ file = \"password\" }}\n{more}"
    )
}

/// Logs in with each driver by itself.
async fn both(project: &Project) -> (Result<(), SourceError>, Result<(), SourceError>) {
    let settings = Settings::load(&project.config()).expect("a configuration");
    let asks = Asker::new(settings.source.clone()).connect().await;
    // Each for itself: what one has learned is not to help the other.
    let settings = Settings::load(&project.config()).expect("a configuration");
    let streams = StreamPool::new(settings.source, &Scheduler::new(&settings.limits))
        .warm_up()
        .await;
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
