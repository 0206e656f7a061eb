//! The database that most tests change: `sales`, with tables of an id and a short text.

use std::ops::RangeInclusive;

use super::lake::rows_of;
use super::project::Project;
use super::server::Server;

/// A server with the database and these tables in schema `dbo`, each with a capture instance of its own.
pub async fn sales(tables: &[&str]) -> Server {
    sales_on(Server::start(&[]), tables).await
}

/// The same on a server that was started with arguments of the test's own.
pub async fn sales_on(server: Server, tables: &[&str]) -> Server {
    server.database("sales").await;
    for table in tables {
        server
            .table("sales", table, "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL")
            .await;
    }
    server
}

/// A server with the database and `dbo.t` of these columns, captured.
pub async fn sales_of(columns: &str) -> Server {
    let server = Server::start(&[]);
    server.database("sales").await;
    server.table("sales", "t", columns).await;
    server
}

/// Rows of `dbo.t`, each in a commit of its own: `(3, 'v3')`.
pub async fn insert(server: &Server, ids: RangeInclusive<i64>) {
    for id in ids {
        server
            .exec("sales", &format!("INSERT INTO dbo.t VALUES ({id}, N'v{id}')"))
            .await;
    }
}

/// The ids in the bronze table of `dbo_t`, in commit order.
pub fn ids(project: &Project) -> Vec<i64> {
    const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];
    rows_of(&project.bronze("dbo_t"), &ORDER).map_or_else(Vec::new, |rows| rows.numbers("id"))
}
