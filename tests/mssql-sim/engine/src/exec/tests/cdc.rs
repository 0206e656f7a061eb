//! Change data capture, through SQL.

use std::time::{Duration, Instant};

use super::*;

fn bytes(v: &Value) -> Vec<u8> {
    match v {
        Value::Bytes(b) => b.clone(),
        other => panic!("{other:?} are no bytes"),
    }
}

fn tracked(engine: &Engine) -> Session {
    let mut s = admin(engine);
    ok(
        &mut s,
        "CREATE TABLE orders (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL, body nvarchar(max) NULL, n int NOT NULL)
         EXEC sys.sp_cdc_enable_db
         EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders', @role_name = NULL",
    );
    s
}

/// Operation, mask, id, name, body, n, command of the change rows in order.
fn changes(s: &mut Session) -> Vec<Vec<Value>> {
    rows(
        s,
        "SELECT [__$operation], [__$update_mask], id, name, body, n, [__$command_id] FROM [cdc].[dbo_orders_CT]
         ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]",
    )
}

fn short(rows: Vec<Vec<Value>>) -> Vec<(i64, i64)> {
    rows.iter()
        .map(|r| match (&r[0], &r[2]) {
            (Value::Int(op), Value::Int(id)) => (*op, *id),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn changes_are_recorded_with_masks_and_images() {
    let e = engine();
    let mut s = tracked(&e);
    ok(&mut s, "INSERT orders VALUES (1, N'a', N'long', 5)");
    ok(&mut s, "UPDATE orders SET n = 6");
    ok(&mut s, "UPDATE orders SET body = N'other', name = N'a'");
    ok(&mut s, "UPDATE orders SET n = 6");
    ok(&mut s, "DELETE orders");
    let mask = |m: u8| Value::Bytes(vec![m]);
    let null = Value::Null;
    assert_eq!(
        changes(&mut s),
        vec![
            vec![int(2), mask(15), int(1), text("a"), text("long"), int(5), int(1)],
            vec![int(3), mask(8), int(1), text("a"), null.clone(), int(5), int(1)],
            vec![int(4), mask(8), int(1), text("a"), text("long"), int(6), int(1)],
            vec![int(3), mask(4), int(1), text("a"), text("long"), int(6), int(1)],
            vec![int(4), mask(4), int(1), text("a"), text("other"), int(6), int(1)],
            vec![int(1), mask(15), int(1), text("a"), text("other"), int(6), int(1)],
        ]
    );
    // One entry for the enabling transaction, one for each that changed something.
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.lsn_time_mapping"), int(5));
    assert_eq!(
        one(
            &mut s,
            "SELECT COUNT(*) FROM cdc.dbo_orders_CT c JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.__$start_lsn"
        ),
        int(6)
    );
    assert_eq!(
        one(
            &mut s,
            "SELECT CASE WHEN MAX(start_lsn) = sys.fn_cdc_get_max_lsn() THEN 1 ELSE 0 END FROM cdc.lsn_time_mapping"
        ),
        int(1)
    );
    assert_eq!(
        one(
            &mut s,
            "DECLARE @a binary(10) = sys.fn_cdc_get_min_lsn('dbo_orders'), @b binary(10) = sys.fn_cdc_get_max_lsn()
                     SELECT COUNT(*) FROM cdc.fn_cdc_get_all_changes_dbo_orders(@a, @b, N'all')"
        ),
        int(4)
    );
    assert_eq!(
        error(
            &mut s,
            "SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_orders(0x00, 0x01, N'all')"
        ),
        313
    );
    assert_eq!(
        one(&mut s, "SELECT sys.fn_cdc_increment_lsn(0x000000000000000000FF)"),
        Value::Bytes(vec![0, 0, 0, 0, 0, 0, 0, 0, 1, 0])
    );
    assert_ne!(
        one(&mut s, "SELECT sys.fn_cdc_map_lsn_to_time(sys.fn_cdc_get_max_lsn())"),
        Value::Null
    );
    assert_eq!(
        one(
            &mut s,
            "SELECT CASE WHEN sys.fn_cdc_map_time_to_lsn('largest less than or equal', '9999-01-01') = sys.fn_cdc_get_max_lsn() THEN 1 END"
        ),
        int(1)
    );
}

#[test]
fn a_transaction_is_one_commit_and_a_rollback_none() {
    let e = engine();
    let mut s = tracked(&e);
    ok(&mut s, "BEGIN TRAN; INSERT orders VALUES (1, NULL, NULL, 1); ROLLBACK");
    let a = run(
        &mut s,
        "BEGIN TRAN
         INSERT orders VALUES (1, NULL, NULL, 1), (2, NULL, NULL, 2)
         INSERT orders VALUES (3, NULL, NULL, 3), (1, NULL, NULL, 1)
         UPDATE orders SET n = n + 1
         DELETE orders WHERE id = 2
         COMMIT",
    );
    assert_eq!(a.errors[0].number, 2627);
    let found = changes(&mut s);
    assert_eq!(
        short(found.clone()),
        vec![(2, 1), (2, 2), (3, 1), (4, 1), (3, 2), (4, 2), (1, 2)]
    );
    let commands: Vec<&Value> = found.iter().map(|r| &r[6]).collect();
    assert_eq!(
        commands,
        [&int(1), &int(2), &int(3), &int(3), &int(4), &int(4), &int(5)]
    );
    assert_eq!(
        one(
            &mut s,
            "SELECT COUNT(*) FROM (SELECT DISTINCT __$start_lsn AS l FROM cdc.dbo_orders_CT) AS x"
        ),
        int(1)
    );
    let seqvals = rows(
        &mut s,
        "SELECT __$seqval, __$start_lsn FROM cdc.dbo_orders_CT ORDER BY __$command_id, __$operation",
    );
    assert!(seqvals.windows(2).all(|w| bytes(&w[0][0]) <= bytes(&w[1][0])));
    assert!(seqvals.iter().all(|r| bytes(&r[0]) < bytes(&r[1])));
}

#[test]
fn key_updates_are_recorded_in_each_form() {
    let e = engine();
    let mut s = tracked(&e);
    ok(
        &mut s,
        "INSERT orders VALUES (1, N'a', NULL, 1), (2, N'b', NULL, 2), (3, N'c', NULL, 3)",
    );
    ok(&mut s, "UPDATE orders SET id = 10 WHERE id = 1");
    assert_eq!(short(changes(&mut s))[3..], [(1, 1), (2, 10)]);
    // 2 -> 3, 3 -> 4: the meeting of delete and insert on key 3 is an update of it.
    ok(&mut s, "UPDATE orders SET id = id + 1 WHERE id < 10");
    assert_eq!(short(changes(&mut s))[5..], [(1, 2), (3, 3), (4, 3), (2, 4)]);
    ok(&mut s, "EXEC sim.key_update @form = N'before_after'");
    ok(&mut s, "UPDATE orders SET id = 20 WHERE id = 10");
    assert_eq!(short(changes(&mut s))[9..], [(3, 10), (4, 20)]);
}

#[test]
fn two_instances_and_their_columns() {
    let e = engine();
    let mut s = tracked(&e);
    ok(&mut s, "INSERT orders VALUES (1, N'a', NULL, 1)");
    ok(&mut s, "ALTER TABLE orders ADD extra decimal(9,2) NULL");
    ok(
        &mut s,
        "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', N'gate', @capture_instance = N'orders_v2', @captured_column_list = N'id, [extra]'",
    );
    ok(&mut s, "INSERT orders VALUES (2, N'b', NULL, 2, 1.25)");
    assert_eq!(short(changes(&mut s)), vec![(2, 1), (2, 2)]);
    assert_eq!(
        rows(&mut s, "SELECT id, extra FROM cdc.orders_v2_CT"),
        vec![vec![int(2), Value::Decimal(125)]]
    );
    assert_eq!(
        error(&mut s, "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', NULL, N'third'"),
        22962
    );
    assert_eq!(
        error(&mut s, "EXEC sys.sp_cdc_enable_table N'dbo', N'nowhere', NULL"),
        22931
    );
    assert_eq!(error(&mut s, "EXEC sys.sp_cdc_get_captured_columns N'nowhere'"), 22981);
    assert_eq!(
        error(&mut s, "EXEC sys.sp_cdc_disable_table N'dbo', N'orders', N'nowhere'"),
        22960
    );
    assert_eq!(error(&mut s, "TRUNCATE TABLE orders"), 4711);
    let columns = rows(
        &mut s,
        "EXEC sys.sp_cdc_get_captured_columns @capture_instance = N'orders_v2'",
    );
    assert_eq!(
        columns[1][3..=8],
        [text("extra"), int(5), int(2), text("decimal"), Value::Null, int(9)]
    );
    let help = ok(&mut s, "EXEC sys.sp_cdc_help_change_data_capture");
    let row = help.sets[0].iter().find(|r| r[2] == text("orders_v2")).unwrap();
    assert_eq!(
        (&row[9], &row[13], &row[14]),
        (&text("gate"), &text("[id]"), &text("[id], [extra]"))
    );
    // An altered column converts the change table in place; a dropped one stays captured as NULL.
    ok(&mut s, "ALTER TABLE orders ALTER COLUMN extra decimal(18,4) NULL");
    assert_eq!(
        rows(&mut s, "SELECT extra FROM cdc.orders_v2_CT"),
        vec![vec![Value::Decimal(12_500)]]
    );
    ok(
        &mut s,
        "ALTER TABLE orders DROP COLUMN name; INSERT orders VALUES (3, NULL, 3, NULL)",
    );
    assert_eq!(changes(&mut s)[2][3], Value::Null);
    let history = rows(
        &mut s,
        "EXEC sys.sp_cdc_get_ddl_history @capture_instance = N'orders_v2'",
    );
    assert_eq!(history.len(), 2);
    assert_eq!(
        history[0][3..5],
        [int(1), text("ALTER TABLE orders ALTER COLUMN extra decimal(18,4) NULL")]
    );
    ok(&mut s, "EXEC sys.sp_cdc_disable_table N'dbo', N'orders', N'all'");
    assert_eq!(error(&mut s, "SELECT * FROM cdc.orders_v2_CT"), 208);
    assert_eq!(
        one(&mut s, "SELECT is_tracked_by_cdc FROM sys.tables WHERE name = 'orders'"),
        int(0)
    );
    ok(&mut s, "EXEC sys.sp_cdc_disable_db");
    assert_eq!(
        one(
            &mut s,
            "SELECT is_cdc_enabled FROM sys.databases WHERE database_id = DB_ID()"
        ),
        int(0)
    );
    assert_eq!(error(&mut s, "EXEC sys.sp_cdc_help_change_data_capture"), 22901);
    assert_eq!(error(&mut s, "SELECT sys.fn_cdc_get_max_lsn()"), 208);
    ok(&mut s, "INSERT orders VALUES (4, NULL, 3, NULL)");
}

#[test]
fn capture_can_lag_and_stop_and_idle() {
    let e = Engine::open(EngineOptions {
        capture_lag: Some(Duration::from_millis(300)),
        ..options()
    })
    .unwrap();
    let mut s = tracked(&e);
    assert_eq!(one(&mut s, "SELECT sys.fn_cdc_get_max_lsn()"), Value::Null);
    assert_eq!(
        one(&mut s, "SELECT sys.fn_cdc_get_min_lsn('dbo_orders')"),
        Value::Bytes(vec![0; 10])
    );
    let until = |s: &mut Session, sql: &str, wanted: Value| {
        let start = Instant::now();
        while one(s, sql) != wanted {
            assert!(start.elapsed() < Duration::from_secs(10), "{sql}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    ok(&mut s, "INSERT orders VALUES (1, N'a', NULL, 1)");
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.dbo_orders_CT"), int(0));
    until(&mut s, "SELECT COUNT(*) FROM cdc.dbo_orders_CT", int(1));
    ok(
        &mut s,
        "EXEC sys.sp_cdc_stop_job @job_type = N'capture'; INSERT orders VALUES (2, N'a', NULL, 1)",
    );
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.dbo_orders_CT"), int(1));
    assert_eq!(error(&mut s, "EXEC sim.idle_entry"), 50000);
    ok(&mut s, "EXEC sys.sp_cdc_start_job @job_type = N'capture'");
    until(&mut s, "SELECT COUNT(*) FROM cdc.dbo_orders_CT", int(2));
    let before = bytes(&one(&mut s, "SELECT sys.fn_cdc_get_max_lsn()"));
    ok(&mut s, "EXEC sim.idle_entry");
    assert!(bytes(&one(&mut s, "SELECT sys.fn_cdc_get_max_lsn()")) > before);
    assert_eq!(
        one(
            &mut s,
            "SELECT tran_id FROM cdc.lsn_time_mapping WHERE start_lsn = sys.fn_cdc_get_max_lsn()"
        ),
        Value::Bytes(vec![0])
    );
}

#[test]
fn cleanup_moves_the_low_endpoint_and_deletes() {
    let e = engine();
    let mut s = tracked(&e);
    for id in 1..=6 {
        ok(&mut s, &format!("INSERT orders VALUES ({id}, N'a', NULL, 1)"));
    }
    let lsns = rows(
        &mut s,
        "SELECT __$start_lsn FROM cdc.dbo_orders_CT ORDER BY __$start_lsn",
    );
    let mark = bytes(&lsns[3][0]);
    let hex: String = mark.iter().map(|b| format!("{b:02X}")).collect();
    ok(
        &mut s,
        &format!(
            "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_orders', @low_water_mark = 0x{hex}, @threshold = 1"
        ),
    );
    assert_eq!(bytes(&one(&mut s, "SELECT sys.fn_cdc_get_min_lsn('dbo_orders')")), mark);
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.dbo_orders_CT"), int(3));
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.lsn_time_mapping"), int(3));
    assert_eq!(
        error(&mut s, "EXEC sys.sp_cdc_cleanup_change_table N'dbo_orders', 0xFF"),
        22957
    );
    ok(
        &mut s,
        "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 0; WAITFOR DELAY '00:00:00.020'; EXEC sys.sp_cdc_start_job @job_type = N'cleanup'",
    );
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.dbo_orders_CT"), int(1));
    assert_eq!(
        one(
            &mut s,
            "SELECT CASE WHEN sys.fn_cdc_get_min_lsn('dbo_orders') = sys.fn_cdc_get_max_lsn() THEN 1 END"
        ),
        int(1)
    );
}

#[test]
fn state_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        Engine::open(EngineOptions {
            data_dir: Some(dir.path().to_owned()),
            ..options()
        })
        .unwrap()
    };
    let (max, min) = {
        let e = open();
        let mut s = tracked(&e);
        ok(
            &mut s,
            "CREATE LOGIN reader WITH PASSWORD = 'pw'; INSERT orders VALUES (1, N'a', NULL, 1)",
        );
        (
            bytes(&one(&mut s, "SELECT sys.fn_cdc_get_max_lsn()")),
            bytes(&one(&mut s, "SELECT sys.fn_cdc_get_min_lsn('dbo_orders')")),
        )
    };
    let e = open();
    let mut s = admin(&e);
    assert_eq!(bytes(&one(&mut s, "SELECT sys.fn_cdc_get_max_lsn()")), max);
    assert_eq!(bytes(&one(&mut s, "SELECT sys.fn_cdc_get_min_lsn('dbo_orders')")), min);
    assert_eq!(short(changes(&mut s)), vec![(2, 1)]);
    ok(&mut s, "UPDATE orders SET n = 2");
    assert!(bytes(&one(&mut s, "SELECT sys.fn_cdc_get_max_lsn()")) > max);
    assert!(e.login("reader", "pw", None).is_ok());
}

#[test]
fn readers_go_on_while_one_writes() {
    let e = engine();
    let mut s = tracked(&e);
    ok(&mut s, "BEGIN TRAN; INSERT orders VALUES (1, N'a', NULL, 1)");
    let mut r = admin(&e);
    assert_eq!(one(&mut r, "SELECT COUNT(*) FROM orders"), int(0));
    assert_eq!(one(&mut r, "SELECT COUNT(*) FROM cdc.dbo_orders_CT"), int(0));
    ok(&mut s, "COMMIT");
    assert_eq!(one(&mut r, "SELECT COUNT(*) FROM cdc.dbo_orders_CT"), int(1));
    let writers: Vec<_> = (0..4)
        .map(|w| {
            let mut own = admin(&e);
            std::thread::spawn(move || {
                for i in 0..25 {
                    ok(
                        &mut own,
                        &format!("INSERT orders VALUES ({}, N'w', NULL, 1)", 100 + w * 100 + i),
                    );
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.dbo_orders_CT"), int(101));
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.lsn_time_mapping"), int(102));
}

#[test]
fn the_readers_statements_answer() {
    let e = engine();
    let mut s = tracked(&e);
    ok(
        &mut s,
        "INSERT orders VALUES (1, N'a', NULL, 1); INSERT orders VALUES (2, N'a', NULL, 1)",
    );
    for sql in [
        "SELECT sys.fn_cdc_get_min_lsn(N'dbo_orders') AS a, sys.fn_cdc_get_min_lsn(N'dbo_x') AS b",
        "SELECT SYSDATETIMEOFFSET(), CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)), DB_NAME()",
        "SELECT name, is_cdc_enabled FROM sys.databases WHERE database_id = DB_ID()",
        "DECLARE @n int = 1, @from binary(10) = 0x00, @to binary(10) = sys.fn_cdc_get_max_lsn()
         SELECT MAX(start_lsn), COUNT_BIG(*) FROM (SELECT TOP (@n) start_lsn FROM cdc.lsn_time_mapping WHERE start_lsn > @from AND start_lsn <= @to ORDER BY start_lsn) AS t",
        "SELECT N'dbo_orders', MAX([__$start_lsn]) FROM cdc.[dbo_orders_CT] UNION ALL SELECT N'dbo_orders2', MAX([__$start_lsn]) FROM cdc.[dbo_orders_CT]",
        "SELECT TOP (1) [__$start_lsn] FROM cdc.dbo_orders_CT",
    ] {
        assert!(!rows(&mut s, sql).is_empty(), "{sql}");
    }
    // The ordered read needs no sort.
    let ordered =
        "SELECT [__$start_lsn], [id] FROM [cdc].[dbo_orders_CT] WHERE [__$start_lsn] >= 0x00 AND [__$start_lsn] <= 0xFF
                   ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]";
    assert_eq!(rows(&mut s, ordered).len(), 2);
    let ctx = s.context().unwrap();
    let table = ctx.catalog.table(Some("cdc"), "dbo_orders_CT").unwrap();
    let plan: Vec<String> = s
        .conn
        .prepare(&format!(
            "EXPLAIN QUERY PLAN SELECT c1 FROM {} AS x WHERE x.c1 >= ?1 AND x.c1 <= ?2 ORDER BY x.c1, x.c6, x.c3, x.c4",
            table.sql_name()
        ))
        .unwrap()
        .query_map([[0_u8].as_slice(), [255_u8].as_slice()], |r| r.get(3))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(plan, ["SEARCH x USING PRIMARY KEY (c1>? AND c1<?)"]);
}

#[test]
fn a_killed_server_loses_nothing_and_captures_the_rest() {
    let (live, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let lag = Duration::from_secs(3600);
    let dir = |d: &tempfile::TempDir| Some(d.path().to_owned());
    let e = Engine::open(EngineOptions {
        data_dir: dir(&live),
        capture_lag: Some(lag),
        ..options()
    })
    .unwrap();
    let mut s = tracked(&e);
    ok(&mut s, "INSERT orders VALUES (1, N'a', NULL, 1)");
    ok(&mut s, "BEGIN TRAN; INSERT orders VALUES (2, N'b', NULL, 1)");
    // What a kill leaves: the files as they are, an open transaction included.
    for entry in std::fs::read_dir(live.path()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let e2 = Engine::open(EngineOptions {
        data_dir: dir(&copy),
        ..options()
    })
    .unwrap();
    let mut s2 = admin(&e2);
    assert_eq!(one(&mut s2, "SELECT COUNT(*) FROM orders"), int(1));
    assert_eq!(short(changes(&mut s2)), vec![(2, 1)]);
    ok(&mut s2, "INSERT orders VALUES (3, N'c', NULL, 1)");
    assert_eq!(short(changes(&mut s2)), vec![(2, 1), (2, 3)]);
}
