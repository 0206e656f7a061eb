//! Two capture instances of one table, and what happens to them when the table changes.

use super::*;

fn tracked(engine: &Engine) -> Session {
    let mut s = admin(engine);
    ok(
        &mut s,
        "CREATE TABLE orders (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL, price decimal(9,2) NULL)
         EXEC sys.sp_cdc_enable_db
         EXEC sys.sp_cdc_enable_table N'dbo', N'orders', NULL, N'v1'",
    );
    s
}

/// One column of a procedure's answer.
fn column(answers: &Answers, name: &str) -> Vec<Value> {
    let columns = answers.columns.last().unwrap();
    let at = columns
        .iter()
        .position(|c| c.name == name)
        .unwrap_or_else(|| panic!("no column {name} in {columns:?}"));
    answers.sets.last().unwrap().iter().map(|row| row[at].clone()).collect()
}

#[test]
fn an_instance_has_no_start_until_capture_has_reached_it() {
    let e = engine();
    let mut s = tracked(&e);
    ok(
        &mut s,
        "INSERT orders VALUES (1, N'a', 1); EXEC sim.capture @runs = 0; ALTER TABLE orders ADD note nvarchar(10) NULL;
         EXEC sys.sp_cdc_enable_table N'dbo', N'orders', N'gate', N'v2', 1; INSERT orders VALUES (2, N'b', 2, N'x')",
    );
    let help = ok(&mut s, "EXEC sys.sp_cdc_help_change_data_capture N'dbo', N'orders'");
    assert_eq!(column(&help, "capture_instance"), [text("v1"), text("v2")]);
    assert_eq!(column(&help, "role_name"), [Value::Null, text("gate")]);
    assert_eq!(column(&help, "supports_net_changes"), [int(1), int(1)]);
    assert_eq!(column(&help, "index_column_list"), [text("[id]"), text("[id]")]);
    assert_eq!(
        column(&help, "captured_column_list"),
        [text("[id], [name], [price]"), text("[id], [name], [price], [note]")]
    );
    assert!(matches!(&column(&help, "create_date")[..], [Value::DateTime(a), Value::DateTime(b)] if a <= b));
    let starts = column(&help, "start_lsn");
    assert!(matches!(starts[0], Value::Bytes(_)));
    assert_eq!(starts[1], Value::Null);
    assert_eq!(
        one(&mut s, "SELECT sys.fn_cdc_get_min_lsn(N'v2')"),
        Value::Bytes(vec![0; 10])
    );
    ok(&mut s, "EXEC sim.capture @runs = 1");
    let help = ok(&mut s, "EXEC sys.sp_cdc_help_change_data_capture");
    let starts = column(&help, "start_lsn");
    assert_eq!(one(&mut s, "SELECT sys.fn_cdc_get_min_lsn(N'v2')"), starts[1]);
    // From its start on, every commit is in both.
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.v1_CT"), int(2));
    assert_eq!(
        rows(&mut s, "SELECT id, note FROM cdc.v2_CT"),
        [vec![int(2), text("x")]]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT [__$start_lsn], [__$seqval], [__$operation] FROM cdc.v1_CT WHERE id = 2"
        ),
        rows(
            &mut s,
            "SELECT [__$start_lsn], [__$seqval], [__$operation] FROM cdc.v2_CT"
        )
    );
    assert_eq!(
        error(&mut s, "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', NULL, N'v3'"),
        22962
    );
    ok(
        &mut s,
        "EXEC sys.sp_cdc_disable_table N'dbo', N'orders', N'v1'; INSERT orders VALUES (3, N'c', 3, NULL)",
    );
    assert_eq!(error(&mut s, "SELECT * FROM cdc.v1_CT"), 208);
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.v2_CT"), int(2));
    ok(&mut s, "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', NULL, N'v3'");
}

#[test]
fn two_instances_of_one_transaction_have_one_start() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE orders (id int NOT NULL PRIMARY KEY); EXEC sys.sp_cdc_enable_db;
         BEGIN TRAN; EXEC sys.sp_cdc_enable_table N'dbo', N'orders', NULL, N'v1';
         EXEC sys.sp_cdc_enable_table N'dbo', N'orders', NULL, N'v2'; COMMIT; INSERT orders VALUES (1)",
    );
    let help = ok(&mut s, "EXEC sys.sp_cdc_help_change_data_capture");
    let starts = column(&help, "start_lsn");
    assert!(starts[0] != Value::Null && starts[0] == starts[1]);
    let ids = column(&help, "object_id");
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn a_column_that_was_dropped_and_added_again_is_another_one() {
    let e = engine();
    let mut s = tracked(&e);
    ok(
        &mut s,
        "INSERT orders VALUES (1, N'a', 1); ALTER TABLE orders DROP COLUMN name; INSERT orders VALUES (2, 2);
         ALTER TABLE orders ADD name int NULL; INSERT orders VALUES (3, 3, 33);
         EXEC sys.sp_cdc_enable_table N'dbo', N'orders', NULL, N'v2'; INSERT orders VALUES (4, 4, 44)",
    );
    assert_eq!(
        rows(&mut s, "SELECT id, name FROM cdc.v1_CT ORDER BY [__$start_lsn]"),
        [
            vec![int(1), text("a")],
            vec![int(2), Value::Null],
            vec![int(3), Value::Null],
            vec![int(4), Value::Null],
        ]
    );
    assert_eq!(rows(&mut s, "SELECT id, name FROM cdc.v2_CT"), [vec![int(4), int(44)]]);
    let old = ok(&mut s, "EXEC sys.sp_cdc_get_captured_columns N'v1'");
    assert_eq!(column(&old, "column_name"), [text("id"), text("name"), text("price")]);
    assert_eq!(column(&old, "column_id"), [int(1), int(2), int(3)]);
    assert_eq!(column(&old, "ordinal_position"), [int(1), int(2), int(3)]);
    assert_eq!(
        column(&old, "data_type"),
        [text("int"), text("nvarchar"), text("decimal")]
    );
    assert_eq!(column(&old, "numeric_precision_radix"), [int(10), Value::Null, int(10)]);
    let new = ok(&mut s, "EXEC sys.sp_cdc_get_captured_columns N'v2'");
    assert_eq!(column(&new, "column_name"), [text("id"), text("price"), text("name")]);
    assert_eq!(column(&new, "column_id"), [int(1), int(3), int(4)]);
    assert_eq!(column(&new, "ordinal_position"), [int(1), int(2), int(3)]);
}

#[test]
fn a_type_change_converts_both_change_tables_and_is_in_both_histories() {
    let e = engine();
    let mut s = tracked(&e);
    ok(
        &mut s,
        "INSERT orders VALUES (1, N'a', 1.25);
         EXEC sys.sp_cdc_enable_table N'dbo', N'orders', NULL, N'v2', 1, NULL, N'[id], [price]';
         ALTER TABLE orders ALTER COLUMN price decimal(18,4) NULL;
         ALTER TABLE orders ADD note int NULL;
         INSERT orders VALUES (2, N'b', 2.5, 7)",
    );
    for (instance, before) in [("v1", 1), ("v2", 0)] {
        let answers = ok(&mut s, &format!("SELECT price FROM cdc.{instance}_CT ORDER BY id"));
        assert_eq!(
            answers.columns[0][0].ty,
            crate::value::SqlType::Decimal {
                precision: 18,
                scale: 4
            }
        );
        let mut wanted = vec![vec![Value::Decimal(12_500)], vec![Value::Decimal(25_000)]];
        assert_eq!(answers.sets[0], wanted.split_off(1 - before));
        let history = ok(&mut s, &format!("EXEC sys.sp_cdc_get_ddl_history N'{instance}'"));
        assert_eq!(column(&history, "source_schema"), [text("dbo"), text("dbo")]);
        assert_eq!(column(&history, "source_table"), [text("orders"), text("orders")]);
        assert_eq!(column(&history, "capture_instance"), [text(instance), text(instance)]);
        assert_eq!(column(&history, "required_column_update"), [int(1), int(0)]);
        assert_eq!(
            column(&history, "ddl_command"),
            [
                text("ALTER TABLE orders ALTER COLUMN price decimal(18,4) NULL"),
                text("ALTER TABLE orders ADD note int NULL")
            ]
        );
        assert!(
            column(&history, "ddl_time")
                .iter()
                .all(|at| matches!(at, Value::DateTime(_))),
            "{history:?}",
            history = history.sets
        );
        for lsn in column(&history, "ddl_lsn") {
            let Value::Bytes(lsn) = lsn else { panic!("no LSN") };
            let hex: String = lsn.iter().map(|b| format!("{b:02X}")).collect();
            let commits = one(
                &mut s,
                &format!("SELECT COUNT(*) FROM cdc.lsn_time_mapping WHERE start_lsn = 0x{hex}"),
            );
            assert_eq!(commits, int(0), "it is no commit's");
        }
    }
    ok(&mut s, "EXEC sys.sp_cdc_disable_table N'dbo', N'orders', N'v1'");
    assert_eq!(
        one(&mut s, "SELECT COUNT(*) FROM cdc.ddl_history"),
        int(2),
        "those of v2"
    );
}

#[test]
fn what_is_captured_is_not_renamed_and_not_truncated() {
    let e = engine();
    let mut s = tracked(&e);
    ok(
        &mut s,
        "ALTER TABLE orders ADD note int NULL; CREATE TABLE loose (a int NULL)",
    );
    assert_eq!(
        error(&mut s, "EXEC sp_rename N'dbo.orders.name', N'title', N'COLUMN'"),
        4928
    );
    assert_eq!(error(&mut s, "EXEC sp_rename N'dbo.orders', N'sales'"), 15051);
    assert_eq!(
        error(&mut s, "EXEC sp_rename N'dbo.orders.nothing', N'x', N'COLUMN'"),
        15248
    );
    assert_eq!(error(&mut s, "EXEC sp_rename N'dbo.nothing', N'x'"), 15225);
    assert_eq!(
        error(&mut s, "EXEC sp_rename N'dbo.orders.note', N'name', N'COLUMN'"),
        15335
    );
    assert_eq!(error(&mut s, "TRUNCATE TABLE orders"), 4711);
    let renamed = ok(&mut s, "EXEC sp_rename N'dbo.orders.note', N'remark', N'COLUMN'");
    assert_eq!(renamed.infos[0].number, 15477);
    ok(
        &mut s,
        "INSERT orders (id, remark) VALUES (1, 2); EXEC sp_rename N'[dbo].[loose]', N'free'; INSERT free VALUES (1)",
    );
    assert_eq!(error(&mut s, "SELECT * FROM loose"), 208);
}

#[test]
fn permissions_are_asked_by_name() {
    let e = engine();
    let mut s = tracked(&e);
    ok(
        &mut s,
        "CREATE LOGIN reader WITH PASSWORD = 'x'; CREATE USER reader FOR LOGIN reader; CREATE ROLE gate;
         GRANT SELECT (id, price) ON dbo.orders TO reader;
         EXEC sys.sp_cdc_enable_table N'dbo', N'orders', N'gate', N'v2', 1, NULL, N'[id], [price]'",
    );
    let mut reader = e.login("reader", "x", Some("shop")).unwrap();
    let may = |s: &mut Session, rest: &str| one(s, &format!("SELECT HAS_PERMS_BY_NAME({rest})"));
    assert_eq!(may(&mut reader, "N'dbo.orders', N'OBJECT', N'SELECT'"), int(0));
    assert_eq!(
        may(&mut reader, "N'dbo.orders', N'OBJECT', N'SELECT', N'price', N'COLUMN'"),
        int(1)
    );
    assert_eq!(
        may(&mut reader, "N'dbo.orders', N'OBJECT', N'SELECT', N'name', N'COLUMN'"),
        int(0)
    );
    assert_eq!(may(&mut reader, "N'dbo.nothing', N'OBJECT', N'SELECT'"), Value::Null);
    assert_eq!(may(&mut reader, "N'cdc.v1_CT', N'OBJECT', N'SELECT'"), int(0));
    assert_eq!(may(&mut reader, "NULL, N'DATABASE', N'ANY'"), int(1));
    // v1 captures a column that the reader may not read; v2 wants the role.
    assert_eq!(
        one(&mut reader, "SELECT sys.fn_cdc_get_min_lsn(N'v1')"),
        Value::Bytes(vec![0; 10])
    );
    assert_eq!(error(&mut reader, "EXEC sys.sp_cdc_get_captured_columns N'v1'"), 22981);
    assert_eq!(
        one(&mut reader, "SELECT sys.fn_cdc_get_min_lsn(N'v2')"),
        Value::Bytes(vec![0; 10])
    );
    assert_eq!(error(&mut reader, "EXEC sys.sp_cdc_get_captured_columns N'v2'"), 22981);
    ok(&mut s, "ALTER ROLE gate ADD MEMBER reader");
    assert_ne!(
        one(&mut reader, "SELECT sys.fn_cdc_get_min_lsn(N'v2')"),
        Value::Bytes(vec![0; 10])
    );
    ok(&mut reader, "EXEC sys.sp_cdc_get_captured_columns N'v2'");
    assert_eq!(error(&mut reader, "SELECT * FROM cdc.v2_CT"), 229);
    ok(&mut s, "GRANT SELECT ON cdc.v2_CT TO gate");
    ok(&mut reader, "SELECT * FROM cdc.v2_CT");
}
