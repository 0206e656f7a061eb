//! The workload `shop`: customers, orders and order items that look like personal data and are none.
//!
//! A seed decides every value and every statement. All of it is T-SQL text that goes through the engine like a client's,
//! so that capture sees what it would see from an application.

mod people;
mod plan;
mod schema;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mssql_sim_engine::result::SqlError;
use mssql_sim_engine::value::Value;
use mssql_sim_engine::{Engine, Session};

use crate::script;
use plan::{Live, Planner, Size};

/// The database of the workload, unless the options name another.
pub const SHOP_DATABASE: &str = "shop";

/// Who makes the changes, where, and which.
#[derive(Clone)]
pub struct WorkloadOptions {
    /// The same seed makes the same changes on the same data.
    pub seed: u64,
    /// A login that may create databases.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The database, which is made when it is not there.
    pub database: String,
}

impl WorkloadOptions {
    /// Seed 7 in [`SHOP_DATABASE`].
    pub fn new(user: &str, password: &str) -> WorkloadOptions {
        WorkloadOptions {
            seed: 7,
            user: user.to_owned(),
            password: password.to_owned(),
            database: SHOP_DATABASE.to_owned(),
        }
    }
}

impl std::fmt::Debug for WorkloadOptions {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("WorkloadOptions")
            .field("seed", &self.seed)
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// A statement of the workload that failed.
#[derive(Debug, thiserror::Error)]
#[error("the workload in database {database} failed: {source}")]
pub struct WorkloadError {
    database: String,
    source: SqlError,
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows that capture records: one for an insert or delete, two for an update.
    pub change_rows: u64,
    /// Transactions that changed something and were committed.
    pub commits: u64,
}

/// A session that makes changes.
pub struct ShopWorkload {
    session: Session,
    planner: Planner,
    database: String,
}

impl ShopWorkload {
    /// Logs in and makes the database, its tables and their capture instances as far as they are missing. On existing
    /// data it goes on where that ends.
    pub fn open(engine: &Arc<Engine>, options: WorkloadOptions) -> Result<ShopWorkload, WorkloadError> {
        let database = options.database.clone();
        let failed = |source| WorkloadError {
            database: database.clone(),
            source,
        };
        let mut session = engine.login(&options.user, &options.password, None).map_err(failed)?;
        script::run(&mut session, &schema::database(&options.database)).map_err(failed)?;
        let mut session = engine
            .login(&options.user, &options.password, Some(&options.database))
            .map_err(failed)?;
        script::run(&mut session, schema::ENABLE_DATABASE).map_err(failed)?;
        for table in schema::TABLES {
            script::run(&mut session, &schema::table(table)).map_err(failed)?;
        }
        script::query(&mut session, "SET XACT_ABORT ON").map_err(failed)?;
        let live = read_live(&mut session).map_err(failed)?;
        Ok(ShopWorkload {
            session,
            planner: Planner::new(options.seed, live),
            database,
        })
    }

    /// Makes about `rows` change rows, and at least that many: mostly inserts, 15 % updates, 3 % key updates, 5 %
    /// deletes, in transactions of all sizes.
    pub fn fill(&mut self, rows: u64) -> Result<Done, WorkloadError> {
        let mut done = Done::default();
        while done.change_rows < rows {
            let size = self.planner.fill_size(rows - done.change_rows);
            self.step(size, &mut done)?;
        }
        Ok(done)
    }

    /// Makes about `changes_per_second` until `quit` is set. It catches up when the server was slow.
    pub fn run(&mut self, changes_per_second: f64, quit: &AtomicBool) -> Result<Done, WorkloadError> {
        let started = Instant::now();
        let mut done = Done::default();
        while !quit.load(Ordering::Acquire) {
            let due = Duration::try_from_secs_f64(done.change_rows as f64 / changes_per_second.max(1e-9));
            let wait = due.unwrap_or(Duration::MAX).saturating_sub(started.elapsed());
            if !wait.is_zero() {
                std::thread::sleep(wait.min(Duration::from_millis(20)));
                continue;
            }
            let size = self.planner.run_size(changes_per_second);
            self.step(size, &mut done)?;
        }
        Ok(done)
    }

    /// Makes `count` tables `dbo.small_0001`, … with three rows each, under CDC; those that are there already stay.
    pub fn fill_small_tables(&mut self, count: u32) -> Result<(), WorkloadError> {
        for number in 1..=count {
            let result = script::run(&mut self.session, &schema::small_table(number));
            result.map_err(|source| self.failed(source))?;
        }
        Ok(())
    }

    fn step(&mut self, size: Size, done: &mut Done) -> Result<(), WorkloadError> {
        let transaction = self.planner.next(size);
        script::query(&mut self.session, &transaction.batch()).map_err(|source| self.failed(source))?;
        done.change_rows += transaction.change_rows;
        done.commits += u64::from(transaction.change_rows > 0);
        Ok(())
    }

    fn failed(&self, source: SqlError) -> WorkloadError {
        WorkloadError {
            database: self.database.clone(),
            source,
        }
    }
}

/// The keys that are there.
fn read_live(session: &mut Session) -> Result<Live, SqlError> {
    let mut keys = |sql: &str| -> Result<Vec<Vec<i64>>, SqlError> {
        let rows = script::query(session, sql)?;
        let number = |value: &Value| if let Value::Int(number) = value { *number } else { 0 };
        Ok(rows.iter().map(|row| row.iter().map(number).collect()).collect())
    };
    let first = |rows: Vec<Vec<i64>>| rows.into_iter().filter_map(|row| row.first().copied()).collect();
    let customers = first(keys("SELECT id FROM dbo.customers ORDER BY id")?);
    let orders = first(keys("SELECT id FROM dbo.orders ORDER BY id")?);
    let items = keys("SELECT order_id, line_no FROM dbo.order_items ORDER BY order_id, line_no")?;
    Ok(Live::new(
        customers,
        orders,
        items
            .into_iter()
            .filter_map(|row| Some((*row.first()?, *row.get(1)?)))
            .collect(),
    ))
}
