//! What the tests share: a server, a project with a configuration, and a reader of what it wrote. With `SLUICE_TEST_MSSQL`
//! the server is not the stand-in but one that is there already (`real`).

mod held;
mod lake;
mod project;
mod python;
mod real;
mod running;
mod sales;
mod server;
mod stand_in;
mod stores;

pub use held::Held;
pub use lake::{Rows, commits, files_under, rows_of};
pub use project::{KEY, Project, Run, copy_folder, finish, sluice_binary, wait_for};
pub use python::{python, python_environment};
pub use running::Running;
pub use sales::{ids, insert, sales, sales_of, sales_on};
pub use server::{PASSWORD, Server};
pub use stand_in::{
    PLAN, POLL, READ, clear_faults, fault, logins, until_blocked, until_no_fault_waits, with_the_next_read,
};

pub use stores::{Gate, Kind, Mirror, Store};

/// A place under `target`, gone when the test ends well.
pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("sluice-it-")
        .tempdir()
        .expect("a temporary directory")
}
