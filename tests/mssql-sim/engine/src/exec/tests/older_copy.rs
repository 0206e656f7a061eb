//! An older copy of the database, isolation levels, and locks.

use std::time::Duration;

use super::*;

#[test]
fn a_login_is_shown_an_older_copy_of_cdc() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY); EXEC sys.sp_cdc_enable_db;
         EXEC sys.sp_cdc_enable_table N'dbo', N't', NULL;
         CREATE LOGIN reader WITH PASSWORD = 'x'; CREATE USER reader FOR LOGIN reader; ALTER ROLE db_owner ADD MEMBER reader;
         INSERT t VALUES (1); INSERT t VALUES (2); ALTER TABLE t ADD n int NULL; INSERT t VALUES (3, 3)",
    );
    let newest = one(&mut s, "SELECT sys.fn_cdc_get_max_lsn()");
    ok(&mut s, "EXEC sim.replica_lag @login = N'Reader', @entries = 2");
    let mut reader = e.login("reader", "x", Some("shop")).unwrap();
    let older = one(&mut reader, "SELECT sys.fn_cdc_get_max_lsn()");
    assert_ne!(older, newest);
    assert_eq!(rows(&mut reader, "SELECT id FROM cdc.dbo_t_CT"), [vec![int(1)]]);
    assert_eq!(
        one(&mut reader, "SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping"),
        older
    );
    assert_eq!(
        one(
            &mut reader,
            "SELECT sys.fn_cdc_map_time_to_lsn('largest less than', '9999-01-01')"
        ),
        older
    );
    assert!(ok(&mut reader, "EXEC sys.sp_cdc_get_ddl_history N'dbo_t'").sets[0].is_empty());
    // Another login sees what there is, and so does this one again.
    assert_eq!(one(&mut s, "SELECT sys.fn_cdc_get_max_lsn()"), newest);
    ok(&mut s, "EXEC sim.replica_lag @login = N'reader'");
    assert_eq!(one(&mut reader, "SELECT sys.fn_cdc_get_max_lsn()"), newest);
    ok(&mut s, "EXEC sim.replica_lag @login = N'reader', @entries = 100");
    assert_eq!(one(&mut reader, "SELECT sys.fn_cdc_get_max_lsn()"), Value::Null);
    assert_eq!(error(&mut reader, "EXEC sim.replica_lag @login = N'reader'"), 229);
}

#[test]
fn snapshot_isolation_has_to_be_allowed() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY); INSERT t VALUES (1)",
    );
    let shown = "SELECT snapshot_isolation_state, is_read_committed_snapshot_on FROM sys.databases WHERE name = 'shop'";
    assert_eq!(rows(&mut s, shown), [vec![int(0), int(0)]]);
    ok(&mut s, "SET TRANSACTION ISOLATION LEVEL SNAPSHOT");
    assert_eq!(error(&mut s, "SELECT * FROM t"), 3952);
    assert_eq!(error(&mut s, "UPDATE t SET id = 2"), 3952);
    assert_eq!(one(&mut s, "SELECT 1"), int(1), "it touches no data");
    let mut other = e.login("sa", "secret", None).unwrap();
    ok(
        &mut other,
        "ALTER DATABASE shop SET ALLOW_SNAPSHOT_ISOLATION ON; ALTER DATABASE [shop] SET READ_COMMITTED_SNAPSHOT ON",
    );
    assert_eq!(
        error(&mut other, "ALTER DATABASE nothing SET ALLOW_SNAPSHOT_ISOLATION ON"),
        5011
    );
    assert_eq!(rows(&mut s, shown), [vec![int(1), int(1)]]);
    ok(&mut s, "BEGIN TRAN");
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM t"), int(1));
    ok(&mut other, "USE shop; INSERT t VALUES (2)");
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM t"), int(1), "it reads one state");
    assert_eq!(error(&mut s, "UPDATE t SET id = 3 WHERE id = 2"), 3960);
    ok(&mut s, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM t"), int(2));
}

#[test]
fn a_writer_waits_as_long_as_its_lock_timeout_and_goes_on() {
    let e = engine();
    let mut holder = admin(&e);
    ok(
        &mut holder,
        "CREATE TABLE t (id int NOT NULL); BEGIN TRAN; INSERT t VALUES (1)",
    );
    let mut waiting = admin(&e);
    ok(&mut waiting, "SET LOCK_TIMEOUT 20");
    assert_eq!(one(&mut waiting, "SELECT @@LOCK_TIMEOUT"), int(20));
    let refused = run(&mut waiting, "INSERT t VALUES (2)");
    assert_eq!((refused.errors[0].number, refused.errors[0].class), (1222, 16));
    waiting.reset("shop").unwrap();
    assert_eq!(one(&mut waiting, "SELECT @@LOCK_TIMEOUT"), int(-1));
    ok(&mut holder, "COMMIT");
    ok(&mut waiting, "INSERT t VALUES (2)");
}

#[test]
fn what_runs_long_ends_when_the_client_wants_no_more() {
    /// A sink whose client sends an attention as soon as something runs.
    struct Impatient(Answers);

    impl ResultSink for Impatient {
        fn columns(&mut self, columns: &[ColumnMeta]) -> Result<(), SinkClosed> {
            self.0.columns(columns)
        }
        fn row(&mut self, row: &[Value]) -> Result<(), SinkClosed> {
            self.0.row(row)
        }
        fn statement_done(&mut self, rows: Option<u64>) -> Result<(), SinkClosed> {
            self.0.statement_done(rows)
        }
        fn info(&mut self, message: &SqlError) -> Result<(), SinkClosed> {
            self.0.info(message)
        }
        fn error(&mut self, error: &SqlError) -> Result<(), SinkClosed> {
            self.0.error(error)
        }
        fn database_changed(&mut self, _: &str, _: &str) -> Result<(), SinkClosed> {
            Ok(())
        }
        fn return_status(&mut self, status: i32) -> Result<(), SinkClosed> {
            self.0.return_status(status)
        }
        fn still_wanted(&mut self) -> Result<(), SinkClosed> {
            Err(SinkClosed::Cancelled)
        }
    }

    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE t (n int NOT NULL); CREATE TABLE copy (n int NOT NULL)",
    );
    let numbers: Vec<String> = (0..500).map(|n| format!("({n})")).collect();
    ok(&mut s, &format!("INSERT t VALUES {}", numbers.join(",")));
    // A tenth of a billion pairs and more: hours of work without a row.
    let endless = "FROM t a, t b, t c, t d WHERE a.n + b.n + c.n + d.n < 0";
    let mut holder = admin(&e);
    ok(&mut s, "BEGIN TRAN; INSERT copy VALUES (1)");
    s.watch(Arc::new(|| true)).unwrap();
    for sql in [
        format!("SELECT a.n {endless}"),
        format!("SELECT COUNT(*) {endless}"),
        format!("INSERT copy SELECT a.n {endless}"),
        format!("UPDATE copy SET n = 2 WHERE n = (SELECT COUNT(*) {endless})"),
        format!("DECLARE @n int; SELECT @n = a.n {endless}"),
        format!("IF EXISTS (SELECT 1 {endless}) PRINT 'x'"),
        format!("BEGIN TRY SELECT a.n {endless} END TRY BEGIN CATCH PRINT 'caught' END CATCH"),
        "WAITFOR DELAY '10:00:00'".to_owned(),
        "WHILE 1 = 1 BEGIN DECLARE @i int END".replace("DECLARE @i int", "PRINT 'x'"),
    ] {
        let mut sink = Impatient(Answers::default());
        assert!(
            matches!(s.execute(&sql, &[], &mut sink), Err(SinkClosed::Cancelled)),
            "{sql}"
        );
        assert!(sink.0.errors.is_empty(), "{sql}");
        assert_eq!(s.open_transactions(), 1, "the transaction stays open: {sql}");
    }
    s.watch(Arc::new(|| false)).unwrap();
    ok(&mut s, "COMMIT");
    assert_eq!(rows(&mut s, "SELECT n FROM copy"), [vec![int(1)]]);
    // Who waits for a lock is let go as well.
    ok(&mut holder, "BEGIN TRAN; INSERT copy VALUES (3)");
    s.watch(Arc::new(|| true)).unwrap();
    let mut sink = Impatient(Answers::default());
    assert!(matches!(
        s.execute("INSERT copy VALUES (4)", &[], &mut sink),
        Err(SinkClosed::Cancelled)
    ));
    assert_eq!(s.lock_timeout(), None::<Duration>);
}
