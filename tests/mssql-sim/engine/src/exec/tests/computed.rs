//! Computed columns and CHECK constraints.

use super::*;

#[test]
fn a_computed_column_is_read_and_never_written_or_captured() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE items (id int NOT NULL PRIMARY KEY, price decimal(9,2) NOT NULL, n int NOT NULL,
            total AS price * n, label AS CONCAT('#', id) PERSISTED NOT NULL)
         EXEC sys.sp_cdc_enable_db
         EXEC sys.sp_cdc_enable_table N'dbo', N'items', NULL
         INSERT items VALUES (1, 2.50, 4), (2, 1.00, 1)
         INSERT items (id, price, n) SELECT id + 10, price, n FROM items WHERE total > 5",
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT id, total, i.label FROM items AS i WHERE total >= 10 ORDER BY total DESC, id"
        ),
        [
            vec![int(1), Value::Decimal(1000), text("#1")],
            vec![int(11), Value::Decimal(1000), text("#11")],
        ]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT SUM(total), total FROM items GROUP BY total ORDER BY total"
        ),
        [
            vec![Value::Decimal(100), Value::Decimal(100)],
            vec![Value::Decimal(2000), Value::Decimal(1000)],
        ]
    );
    ok(
        &mut s,
        "UPDATE items SET n = 5 WHERE total = 1; DELETE items WHERE label = '#11'",
    );
    assert_eq!(one(&mut s, "SELECT total FROM items WHERE id = 2"), Value::Decimal(500));
    let changes = rows(
        &mut s,
        "SELECT [__$operation], [__$update_mask], id, n, total, label FROM cdc.dbo_items_CT ORDER BY [__$start_lsn], [__$command_id], [__$operation]",
    );
    assert_eq!(changes.len(), 6);
    assert!(
        changes.iter().all(|row| row[4] == Value::Null && row[5] == Value::Null),
        "{changes:?}"
    );
    assert_eq!(changes[4][..4], [int(4), Value::Bytes(vec![4]), int(2), int(5)]);
    assert_eq!(
        error(&mut s, "INSERT items (id, price, n, total) VALUES (3, 1, 1, 1)"),
        271
    );
    assert_eq!(error(&mut s, "UPDATE items SET label = 'x'"), 271);
    assert_eq!(error(&mut s, "ALTER TABLE items DROP COLUMN n"), 5074);
    assert_eq!(error(&mut s, "ALTER TABLE items ALTER COLUMN total int"), 4928);
    assert_eq!(error(&mut s, "CREATE TABLE bad (a int, b AS c + 1)"), 207);
    assert_eq!(
        rows(&mut s, "SELECT name FROM sys.computed_columns ORDER BY column_id"),
        [vec![text("total")], vec![text("label")]]
    );
    assert_eq!(
        one(
            &mut s,
            "SELECT COUNT(*) FROM cdc.captured_columns WHERE is_computed = 1"
        ),
        int(2)
    );
    ok(
        &mut s,
        "ALTER TABLE items ADD twice AS total_less * 2, total_less int NULL",
    );
    assert_eq!(one(&mut s, "SELECT twice FROM items WHERE id = 1"), Value::Null);
}

#[test]
fn a_reader_of_a_computed_column_needs_no_more_than_that_column() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL, secret int NOT NULL, half AS secret / 2); INSERT t VALUES (1, 8);
         CREATE LOGIN reader WITH PASSWORD = 'x'; CREATE USER reader FOR LOGIN reader; GRANT SELECT (id, half) ON t TO reader",
    );
    let mut reader = e.login("reader", "x", Some("shop")).unwrap();
    assert_eq!(one(&mut reader, "SELECT half FROM t"), int(4));
    assert_eq!(error(&mut reader, "SELECT secret FROM t"), 230);
}

#[test]
fn a_default_is_a_constraint_of_its_own() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NOT NULL CONSTRAINT df_n DEFAULT 7, m int NULL DEFAULT (1)); INSERT t (id) VALUES (1)",
    );
    assert_eq!(rows(&mut s, "SELECT n, m FROM t"), [vec![int(7), int(1)]]);
    let refused = run(&mut s, "ALTER TABLE t DROP COLUMN n");
    assert_eq!(refused.errors[0].number, 5074);
    assert!(refused.errors[0].message.contains("'df_n'"), "{:?}", refused.errors);
    assert_eq!(
        error(&mut s, "ALTER TABLE t ADD CONSTRAINT df_again DEFAULT 8 FOR n"),
        1781
    );
    ok(&mut s, "ALTER TABLE t DROP CONSTRAINT df_n");
    assert_eq!(error(&mut s, "INSERT t (id) VALUES (2)"), 515);
    ok(
        &mut s,
        "ALTER TABLE t ADD CONSTRAINT df_again DEFAULT 8 FOR n; INSERT t (id) VALUES (2)",
    );
    assert_eq!(one(&mut s, "SELECT n FROM t WHERE id = 2"), int(8));
    ok(
        &mut s,
        "ALTER TABLE t DROP CONSTRAINT df_again; ALTER TABLE t DROP COLUMN n",
    );
}

#[test]
fn checks_hold_for_a_statement_as_a_whole() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY, n int NULL CHECK (n > 0), m int NOT NULL DEFAULT 1,
            CONSTRAINT ck_order CHECK (m <= n OR n IS NULL))",
    );
    ok(&mut s, "INSERT t VALUES (1, 5, 2), (2, NULL, 9)");
    let refused = run(&mut s, "INSERT t (id, n) VALUES (3, 4), (4, 0)");
    assert_eq!(refused.errors[0].number, 547);
    assert!(
        refused.errors[0].message.contains("CHECK constraint"),
        "{:?}",
        refused.errors
    );
    assert_eq!(
        one(&mut s, "SELECT COUNT(*) FROM t"),
        int(2),
        "nothing of the statement stays"
    );
    let refused = run(&mut s, "UPDATE t SET m = 6 WHERE id = 1");
    assert!(
        refused.errors[0].message.contains("\"ck_order\""),
        "{:?}",
        refused.errors
    );
    ok(
        &mut s,
        "ALTER TABLE t DROP CONSTRAINT ck_order; UPDATE t SET m = 6 WHERE id = 1",
    );
    assert_eq!(
        error(&mut s, "ALTER TABLE t ADD CONSTRAINT ck_again CHECK (m < 6)"),
        547
    );
    assert_eq!(error(&mut s, "ALTER TABLE t DROP COLUMN n"), 5074);
}
