//! The workload, and what capture makes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mssql_sim::engine::Session;
use mssql_sim::engine::value::Value;
use mssql_sim::script;
use mssql_sim::workload::{SHOP_DATABASE, ShopWorkload, WorkloadOptions};

use crate::harness::{PASSWORD, Sim, USER};

const TABLES: [&str; 3] = ["customers", "orders", "order_items"];

fn session(sim: &Sim) -> Session {
    sim.server.engine().login(USER, PASSWORD, Some(SHOP_DATABASE)).unwrap()
}

fn open(sim: &Sim, seed: u64) -> ShopWorkload {
    let options = WorkloadOptions {
        seed,
        ..WorkloadOptions::new(USER, PASSWORD)
    };
    ShopWorkload::open(sim.server.engine(), options).unwrap()
}

fn number(session: &mut Session, sql: &str) -> i64 {
    match script::query(session, sql).unwrap()[0][0] {
        Value::Int(number) => number,
        ref other => panic!("{sql}: {other:?}"),
    }
}

/// Change rows by operation, over all tables.
fn operations(session: &mut Session) -> BTreeMap<i64, i64> {
    let mut found = BTreeMap::new();
    for table in TABLES {
        let sql = format!("SELECT [__$operation], COUNT(*) FROM cdc.dbo_{table}_CT GROUP BY [__$operation]");
        for row in script::query(session, &sql).unwrap() {
            let (Value::Int(operation), Value::Int(count)) = (&row[0], &row[1]) else {
                panic!("{row:?}")
            };
            *found.entry(*operation).or_default() += count;
        }
    }
    found
}

#[test]
fn a_fill_makes_the_change_rows_and_commits_that_it_counted() {
    let sim = Sim::start();
    let mut workload = open(&sim, 7);
    let mut session = session(&sim);
    let entries = "SELECT COUNT(*) FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00";
    let before = number(&mut session, entries);
    let done = workload.fill(5000).unwrap();
    assert!((5000..6500).contains(&done.change_rows), "{done:?}");
    let found = operations(&mut session);
    assert_eq!(found.values().sum::<i64>(), i64::try_from(done.change_rows).unwrap());
    // Each update is a before and an after; key updates may be recorded either way.
    assert_eq!(found[&3], found[&4]);
    assert!(found[&2] > found[&4] && found[&1] > 100, "{found:?}");
    let commits = number(&mut session, entries) - before;
    assert_eq!(commits, i64::try_from(done.commits).unwrap());

    // It goes on where it ended, also from a new start.
    drop(workload);
    let again = open(&sim, 7).fill(1000).unwrap();
    assert_eq!(
        operations(&mut session).values().sum::<i64>(),
        i64::try_from(done.change_rows + again.change_rows).unwrap()
    );
}

#[test]
fn a_seed_makes_the_same_rows_on_every_server() {
    let state = |seed| {
        let sim = Sim::start();
        open(&sim, seed).fill(1500).unwrap();
        let mut session = session(&sim);
        let mut state = Vec::new();
        for (table, order) in TABLES.iter().zip(["id", "id", "order_id, line_no"]) {
            state.push(script::query(&mut session, &format!("SELECT * FROM dbo.{table} ORDER BY {order}")).unwrap());
        }
        state
    };
    let first = state(11);
    assert_eq!(first, state(11));
    assert_ne!(first, state(12));
    assert!(first.iter().all(|rows| rows.len() > 50));
}

#[test]
fn a_steady_rate_is_kept_and_ends_when_asked() {
    let sim = Sim::start();
    let mut workload = open(&sim, 3);
    let quit = Arc::new(AtomicBool::new(false));
    let working = std::thread::spawn({
        let quit = Arc::clone(&quit);
        move || workload.run(100.0, &quit).unwrap()
    });
    std::thread::sleep(Duration::from_secs(3));
    quit.store(true, Ordering::Release);
    let done = working.join().unwrap();
    assert!((100..800).contains(&done.change_rows), "{done:?}");
}

#[test]
fn many_small_tables_are_made_once() {
    let sim = Sim::start();
    let mut workload = open(&sim, 7);
    workload.fill_small_tables(5).unwrap();
    workload.fill_small_tables(6).unwrap();
    let mut session = session(&sim);
    let tracked = "SELECT COUNT(*) FROM sys.tables WHERE name LIKE 'small[_]%' AND is_tracked_by_cdc = 1";
    assert_eq!(number(&mut session, tracked), 6);
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM cdc.dbo_small_0006_CT"), 3);
}
