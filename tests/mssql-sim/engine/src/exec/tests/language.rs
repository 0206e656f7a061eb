//! The language: queries, DML, flow, transactions and errors.

use super::*;

#[test]
fn sp_executesql_has_its_own_variables_and_database() {
    let e = engine();
    let mut s = admin(&e);
    ok(&mut s, "CREATE TABLE t (id int NOT NULL)");
    let outer = "DECLARE @a int = 1, @b int; EXEC sp_executesql N'SET @x = @x + @y; SET @z = @x', N'@x int, @y int = 5, @z int OUTPUT', ";
    assert_eq!(
        one(
            &mut s,
            &format!("{outer} @x = @a, @y = 2, @z = @b OUTPUT; SELECT @b * 10 + @a")
        ),
        int(31)
    );
    assert_eq!(one(&mut s, &format!("{outer} 4, 3, @b OUTPUT; SELECT @b")), int(7));
    assert_eq!(
        one(&mut s, &format!("{outer} @x = 4, @z = @b OUTPUT; SELECT @b")),
        int(9),
        "the default"
    );
    // Without its value a parameter with none is missed by name; the batch's variables are not seen within.
    assert_eq!(error(&mut s, &format!("{outer} @y = 2, @z = @b OUTPUT")), 8178);
    assert_eq!(error(&mut s, &format!("{outer} @x = 1, @y = 1, @w = 1, @z = @b")), 8145);
    assert_eq!(
        error(&mut s, "DECLARE @a int = 1; EXEC sp_executesql N'SELECT @a'"),
        137
    );
    assert_eq!(error(&mut s, "EXEC sp_executesql"), 201);
    ok(&mut s, "EXEC sp_executesql N'USE master'; INSERT t VALUES (1)");
    assert_eq!(
        one(
            &mut s,
            "DECLARE @r int; EXEC @r = sp_executesql N'SELECT 1 AS n'; SELECT @r"
        ),
        int(0)
    );
    assert_eq!(
        one(
            &mut s,
            "EXEC sys.sp_executesql @stmt = N'SELECT @n + 1', @params = N'@n int', @n = 41"
        ),
        int(42)
    );
}

fn shop() -> (Arc<Engine>, Session) {
    let engine = engine();
    let mut s = admin(&engine);
    ok(
        &mut s,
        "CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, customer nvarchar(20) NULL, total decimal(10,2) NOT NULL DEFAULT 0, note varchar(10) NULL)
         CREATE TABLE dbo.lines (order_id int NOT NULL, line_no int NOT NULL, qty int NULL, CONSTRAINT pk_lines PRIMARY KEY CLUSTERED (order_id ASC, line_no))
         INSERT INTO dbo.orders (id, customer, total) VALUES (1, N'Ann', 10.50), (2, N'bob', 20), (3, NULL, 5.25)
         INSERT dbo.lines VALUES (1, 1, 3), (1, 2, 4), (2, 1, NULL)",
    );
    (engine, s)
}

#[test]
fn queries_filter_join_group_and_order() {
    let (_e, mut s) = shop();
    assert_eq!(
        rows(
            &mut s,
            "SELECT o.id, l.qty FROM dbo.orders o JOIN lines AS l ON l.order_id = o.id WHERE o.id BETWEEN 1 AND 2 ORDER BY o.id DESC, l.line_no"
        ),
        vec![vec![int(2), Value::Null], vec![int(1), int(3)], vec![int(1), int(4)]]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT order_id, SUM(qty) AS q, COUNT(*) FROM lines GROUP BY order_id HAVING COUNT(*) > 1"
        ),
        vec![vec![int(1), int(7), int(2)]]
    );
    assert_eq!(
        rows(&mut s, "SELECT id FROM orders WHERE customer = 'ANN  '"),
        vec![vec![int(1)]]
    );
    assert_eq!(
        rows(&mut s, "SELECT TOP (2) id FROM orders ORDER BY total DESC"),
        vec![vec![int(2)], vec![int(1)]]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT id FROM orders ORDER BY id OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY"
        ),
        vec![vec![int(2)]]
    );
    assert_eq!(
        one(&mut s, "SELECT COUNT(*) FROM orders WHERE customer LIKE N'[a-b]%'"),
        int(2)
    );
    assert_eq!(one(&mut s, "SELECT SUM(total) FROM orders"), Value::Decimal(3575));
    assert_eq!(one(&mut s, "SELECT AVG(total) FROM orders"), Value::Decimal(11_916_666));
    assert_eq!(
        rows(
            &mut s,
            "WITH big AS (SELECT id, total FROM orders WHERE total > 6) SELECT id FROM big ORDER BY 1"
        ),
        vec![vec![int(1)], vec![int(2)]]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT id, ROW_NUMBER() OVER (ORDER BY total DESC) AS r FROM orders ORDER BY id"
        ),
        vec![vec![int(1), int(2)], vec![int(2), int(1)], vec![int(3), int(3)]]
    );
    assert_eq!(
        rows(
            &mut s,
            "WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 4) SELECT SUM(i) FROM n OPTION (MAXRECURSION 0)"
        ),
        vec![vec![int(10)]]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT id, CASE WHEN EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id) THEN 'y' ELSE 'no' END FROM orders o ORDER BY id"
        ),
        vec![
            vec![int(1), text("y")],
            vec![int(2), text("y")],
            vec![int(3), text("no")]
        ]
    );
    assert_eq!(
        rows(&mut s, "SELECT DISTINCT order_id FROM lines ORDER BY order_id"),
        vec![vec![int(1)], vec![int(2)]]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT N'a' AS x, MAX(id) FROM orders UNION ALL SELECT N'bcd', COUNT(*) FROM lines"
        ),
        vec![vec![text("a"), int(3)], vec![text("bcd"), int(3)]]
    );
    assert_eq!(
        one(
            &mut s,
            "SELECT COUNT(*) FROM orders WHERE id IN (SELECT order_id FROM lines)"
        ),
        int(2)
    );
    assert_eq!(
        one(
            &mut s,
            "SELECT (SELECT MAX(qty) FROM lines WHERE order_id = o.id) FROM orders o WHERE o.id = 1"
        ),
        int(4)
    );
    assert_eq!(error(&mut s, "SELECT (SELECT qty FROM lines)"), 512);
}

#[test]
fn columns_have_names_and_types() {
    let (_e, mut s) = shop();
    let a = ok(
        &mut s,
        "SELECT id, total * 2, customer AS who, COUNT_BIG(*) OVER () FROM orders",
    );
    let names: Vec<_> = a.columns[0].iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["id", "", "who", ""]);
    use crate::value::{Length, SqlType};
    assert_eq!(a.columns[0][0].ty, SqlType::Int);
    assert_eq!(
        a.columns[0][1].ty,
        SqlType::Decimal {
            precision: 21,
            scale: 2
        }
    );
    assert_eq!(a.columns[0][2].ty, SqlType::NVarChar(Length::Limited(20)));
    assert_eq!(a.columns[0][3].ty, SqlType::BigInt);
    assert!(!a.columns[0][0].nullable && a.columns[0][2].nullable);
}

#[test]
fn errors_have_their_numbers() {
    let (_e, mut s) = shop();
    for (sql, number) in [
        ("SELEC * FROM orders", 102),
        ("SELEC 1", 2812),
        ("SELECT FROM orders", 156),
        ("SELECT * FROM nowhere", 208),
        ("SELECT nothing FROM orders", 207),
        ("SELECT x.id FROM orders", 4104),
        ("SELECT id FROM orders o, lines WHERE order_id = 1 AND nope = 1", 207),
        ("SELECT customer, COUNT(*) FROM orders", 8120),
        ("SELECT wibble(1)", 195),
        ("SELECT @x", 137),
        ("SELECT 1/0", 8134),
        ("SELECT CAST('abc' AS int)", 245),
        ("SELECT CAST(300 AS tinyint)", 220),
        ("SELECT 2147483647 + 1", 8115),
        ("INSERT orders (id) VALUES (1)", 2627),
        ("INSERT orders (customer) VALUES ('x')", 515),
        ("INSERT orders (id, note) VALUES (9, '12345678901')", 2628),
        ("INSERT orders (id, nope) VALUES (9, 1)", 207),
        ("UPDATE orders SET id = NULL", 515),
        ("EXEC nosuch", 2812),
        ("ROLLBACK", 3903),
        ("COMMIT", 3902),
        ("CREATE TABLE orders (a int)", 2714),
        ("SELECT id FROM orders WHERE id", 4145),
        ("SELECT 'a' + 1", 245),
        ("USE nowhere", 911),
        ("SELECT CAST(1 AS date)", 529),
        ("SELECT 'unclosed", 105),
    ] {
        assert_eq!(error(&mut s, sql), number, "{sql}");
    }
    // A statement's error does not end the batch; the next statement runs.
    let a = run(&mut s, "INSERT orders (id) VALUES (1); SELECT 7");
    assert_eq!((a.errors.len(), &a.sets[0][0][0]), (1, &int(7)));
    assert_eq!(a.infos[0].number, 3621);
    // A bad conversion does.
    let a = run(&mut s, "SELECT CAST('x' AS int); SELECT 7");
    assert_eq!((a.errors.len(), a.sets.len()), (1, 0));
    let a = run(&mut s, "SELECT 1\n\nSELECT * FROM nowhere");
    assert_eq!(a.errors[0].line, 3);
}

#[test]
fn dml_changes_rows() {
    let (_e, mut s) = shop();
    assert_eq!(
        ok(&mut s, "UPDATE orders SET total += 1, note = 'n' WHERE id < 3").done,
        vec![Some(2)]
    );
    assert_eq!(one(&mut s, "SELECT SUM(total) FROM orders"), Value::Decimal(3775));
    ok(
        &mut s,
        "UPDATE o SET o.note = N'joined' FROM orders AS o JOIN lines l ON l.order_id = o.id WHERE l.line_no = 2",
    );
    assert_eq!(one(&mut s, "SELECT note FROM orders WHERE id = 1"), text("joined"));
    // Every key moves onto its neighbour's: unique as a whole.
    assert_eq!(ok(&mut s, "UPDATE orders SET id = id + 1").done, vec![Some(3)]);
    assert_eq!(error(&mut s, "UPDATE orders SET id = 2"), 2627);
    assert_eq!(one(&mut s, "SELECT MIN(id) FROM orders"), int(2));
    assert_eq!(
        ok(&mut s, "DELETE FROM orders WHERE id = 4; SELECT @@ROWCOUNT").sets[0][0][0],
        int(1)
    );
    assert_eq!(
        rows(
            &mut s,
            "DELETE TOP (1) FROM lines OUTPUT deleted.order_id WHERE order_id = 2"
        ),
        vec![vec![int(2)]]
    );
    ok(&mut s, "INSERT INTO lines (order_id, line_no) SELECT id, 9 FROM orders");
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM lines"), int(4));
    ok(
        &mut s,
        "CREATE TABLE seq (id int IDENTITY(10, 5) PRIMARY KEY, v int NULL)",
    );
    assert_eq!(
        rows(&mut s, "INSERT seq (v) OUTPUT inserted.id VALUES (1), (2)"),
        vec![vec![int(10)], vec![int(15)]]
    );
    assert_eq!(one(&mut s, "SELECT CAST(SCOPE_IDENTITY() AS int)"), int(15));
    assert_eq!(error(&mut s, "INSERT seq (id, v) VALUES (1, 1)"), 544);
    ok(
        &mut s,
        "SET IDENTITY_INSERT dbo.seq ON; INSERT seq (id, v) VALUES (100, 9); SET IDENTITY_INSERT dbo.seq OFF; INSERT seq (v) VALUES (3)",
    );
    assert_eq!(one(&mut s, "SELECT MAX(id) FROM seq"), int(105));
    ok(&mut s, "CREATE UNIQUE INDEX ux ON seq (v)");
    assert_eq!(error(&mut s, "INSERT seq (v) VALUES (3)"), 2601);
    ok(&mut s, "INSERT seq (v) VALUES (NULL)");
    assert_eq!(error(&mut s, "INSERT seq (v) VALUES (NULL)"), 2601);
}

#[test]
fn batches_flow() {
    let (_e, mut s) = shop();
    let a = ok(
        &mut s,
        "DECLARE @i int = 0, @t nvarchar(50)
         WHILE @i < 10 BEGIN SET @i += 1 IF @i = 3 CONTINUE IF @i = 5 BREAK END
         IF EXISTS (SELECT 1 FROM orders) SET @t = N'some' ELSE SET @t = N'none'
         SELECT @i, @t
         SELECT @i = COUNT(*) FROM orders
         PRINT @t
         EXEC sp_executesql N'SELECT @a * 2 AS d', N'@a int', @a = @i
         BEGIN TRY SELECT 1/0 END TRY BEGIN CATCH SELECT N'caught' END CATCH",
    );
    assert_eq!(a.sets[0], vec![vec![int(5), text("some")]]);
    assert_eq!(a.sets[1], vec![vec![int(6)]]);
    assert_eq!(*a.sets.last().unwrap(), vec![vec![text("caught")]]);
    assert_eq!(a.infos[0].message, "some");
    assert_eq!(a.statuses, vec![0]);
    assert_eq!(one(&mut s, "EXEC('SELECT 42')"), int(42));
    let a = ok(&mut s, "USE master");
    assert_eq!(a.databases, vec![("shop".to_string(), "master".to_string())]);
}

#[test]
fn set_options_and_use_of_dynamic_sql_end_with_it() {
    let (_e, mut s) = shop();
    ok(&mut s, "SET LOCK_TIMEOUT 10");
    for inner in [
        "EXEC sp_executesql N'SET LOCK_TIMEOUT 20; SELECT @@LOCK_TIMEOUT'",
        "EXEC(N'SET LOCK_TIMEOUT 20; SELECT @@LOCK_TIMEOUT')",
    ] {
        assert_eq!(one(&mut s, inner), int(20));
        assert_eq!(one(&mut s, "SELECT @@LOCK_TIMEOUT"), int(10), "{inner}");
    }
    let caught =
        "BEGIN TRY EXEC(N'SET LOCK_TIMEOUT 20; SELECT 1/0') END TRY BEGIN CATCH SELECT @@LOCK_TIMEOUT END CATCH";
    assert_eq!(one(&mut s, caught), int(10));
    let a = ok(&mut s, "EXEC sp_executesql N'USE master'");
    let to_and_back = [("shop", "master"), ("master", "shop")];
    assert_eq!(
        a.databases,
        to_and_back.map(|(old, new)| (old.to_owned(), new.to_owned()))
    );
    assert_eq!(one(&mut s, "SELECT DB_NAME()"), text("shop"));
}

#[test]
fn transactions_nest_and_roll_back() {
    let (e, mut s) = shop();
    ok(&mut s, "BEGIN TRAN; BEGIN TRAN; DELETE lines; COMMIT");
    assert_eq!(one(&mut s, "SELECT @@TRANCOUNT"), int(1));
    let mut other = admin(&e);
    assert_eq!(one(&mut other, "SELECT COUNT(*) FROM lines"), int(3));
    ok(&mut s, "ROLLBACK");
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM lines"), int(3));
    // A failed statement leaves the transaction and its own work undone.
    let a = run(
        &mut s,
        "BEGIN TRAN INSERT lines VALUES (7, 1, 1) INSERT lines VALUES (8, 1, 1), (7, 1, 1) COMMIT",
    );
    assert_eq!(a.errors[0].number, 2627);
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM lines"), int(4));
    let a = run(
        &mut s,
        "SET XACT_ABORT ON BEGIN TRAN INSERT lines VALUES (9, 1, 1) INSERT lines VALUES (7, 1, 1) COMMIT",
    );
    assert_eq!(a.errors.len(), 1);
    assert_eq!(one(&mut s, "SELECT COUNT(*) + @@TRANCOUNT FROM lines"), int(4));
    ok(
        &mut s,
        "BEGIN TRAN; DELETE lines WHERE order_id = 7; SAVE TRAN a; DELETE lines; ROLLBACK TRAN a; COMMIT",
    );
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM lines"), int(3));
    // Writers wait, with a timeout when one is set.
    ok(&mut s, "SET XACT_ABORT OFF BEGIN TRAN; DELETE lines WHERE order_id = 1");
    assert_eq!(error(&mut other, "SET LOCK_TIMEOUT 50; DELETE lines"), 1222);
    drop(s);
    assert_eq!(one(&mut other, "SELECT COUNT(*) FROM lines"), int(3));
}

#[test]
fn ddl_changes_tables() {
    let (_e, mut s) = shop();
    ok(
        &mut s,
        "ALTER TABLE orders ADD flag bit NOT NULL DEFAULT 1, extra nvarchar(max) NULL",
    );
    assert_eq!(one(&mut s, "SELECT flag FROM orders WHERE id = 1"), int(1));
    ok(&mut s, "ALTER TABLE orders ALTER COLUMN total decimal(18,4) NOT NULL");
    assert_eq!(
        one(&mut s, "SELECT total FROM orders WHERE id = 1"),
        Value::Decimal(105_000)
    );
    ok(&mut s, "ALTER TABLE orders DROP COLUMN note");
    assert_eq!(error(&mut s, "SELECT note FROM orders"), 207);
    ok(
        &mut s,
        "BEGIN TRAN; CREATE TABLE temp1 (a int); DROP TABLE lines; ROLLBACK",
    );
    assert_eq!(error(&mut s, "SELECT * FROM temp1"), 208);
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM lines"), int(3));
    ok(
        &mut s,
        "CREATE SCHEMA sales; CREATE TABLE sales.[odd ]]name] ([a b] int); INSERT sales.[odd ]]name] VALUES (1)",
    );
    assert_eq!(one(&mut s, "SELECT [a b] FROM sales.[odd ]]name]"), int(1));
    assert_eq!(
        rows(
            &mut s,
            "SELECT s.name, t.name FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id ORDER BY t.name"
        ),
        vec![
            vec![text("dbo"), text("lines")],
            vec![text("sales"), text("odd ]name")],
            vec![text("dbo"), text("orders")]
        ]
    );
    assert_eq!(
        rows(
            &mut s,
            "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'orders' AND ORDINAL_POSITION = 2"
        ),
        vec![vec![text("customer"), text("nvarchar"), int(20)]]
    );
    assert_ne!(one(&mut s, "SELECT OBJECT_ID(N'[dbo].[orders]')"), Value::Null);
    ok(&mut s, "DROP TABLE IF EXISTS nosuch, lines");
    ok(&mut s, "USE master; DROP DATABASE shop");
}

#[test]
fn queries_of_many_shapes() {
    let (_e, mut s) = shop();
    for (sql, expected) in [
        (
            "SELECT TOP 1 * FROM shop.dbo.lines ORDER BY order_id, line_no",
            vec![vec![int(1), int(1), int(3)]],
        ),
        (
            "SELECT l.line_no FROM shop..lines l WHERE l.order_id = 2",
            vec![vec![int(1)]],
        ),
        (
            "SELECT COUNT(DISTINCT order_id), MAX(line_no) FROM lines",
            vec![vec![int(2), int(2)]],
        ),
        (
            "SELECT MAX(customer), MIN(customer) FROM orders",
            vec![vec![text("bob"), text("Ann")]],
        ),
        ("SELECT id FROM orders WHERE customer NOT IN (N'ann', NULL)", vec![]),
        (
            "SELECT id AS x FROM orders ORDER BY x DESC",
            vec![vec![int(3)], vec![int(2)], vec![int(1)]],
        ),
        ("SELECT COUNT(*) FROM orders HAVING COUNT(*) > 5", vec![]),
        (
            "SELECT x.n FROM (SELECT COUNT(*) AS n FROM (SELECT id FROM orders WHERE id > 1) AS y) AS x",
            vec![vec![int(2)]],
        ),
        (
            "SELECT LOWER(customer) AS c, COUNT(*) FROM orders WHERE customer IS NOT NULL GROUP BY LOWER(customer) ORDER BY c",
            vec![vec![text("ann"), int(1)], vec![text("bob"), int(1)]],
        ),
        (
            "SELECT o.id FROM orders o LEFT JOIN lines l ON l.order_id = o.id WHERE l.order_id IS NULL",
            vec![vec![int(3)]],
        ),
        ("SELECT 1 WHERE 'a' = 'A ' AND N'é' <> N'e'", vec![vec![int(1)]]),
        (
            "SELECT 1 UNION SELECT 1 UNION SELECT 2 ORDER BY 1",
            vec![vec![int(1)], vec![int(2)]],
        ),
        ("SELECT 1 EXCEPT SELECT 2", vec![vec![int(1)]]),
        (
            "SELECT SUM(qty) OVER (PARTITION BY order_id ORDER BY line_no) FROM lines WHERE qty IS NOT NULL ORDER BY 1",
            vec![vec![int(3)], vec![int(7)]],
        ),
        (
            "SELECT name FROM master.sys.databases WHERE name = N'SHOP'",
            vec![vec![text("shop")]],
        ),
        (
            "SELECT a.v FROM (VALUES (1, N'x'), (2, N'yy')) AS a (k, v) WHERE a.k = 2",
            vec![vec![text("yy")]],
        ),
        (
            "SELECT STRING_AGG(customer, N'-') WITHIN GROUP (ORDER BY id DESC) FROM orders",
            vec![vec![text("bob-Ann")]],
        ),
        (
            "SELECT id FROM orders WHERE total > 10 AND (customer LIKE '%o%' OR id = 1) ORDER BY id",
            vec![vec![int(1)], vec![int(2)]],
        ),
        (
            "SELECT CASE WHEN 1 = 0 THEN CAST('x' AS int) ELSE 2 END",
            vec![vec![int(2)]],
        ),
    ] {
        assert_eq!(rows(&mut s, sql), expected, "{sql}");
    }
    let union: Vec<String> = (0..1200)
        .map(|i| format!("SELECT {i} AS n, N'table_{i}' AS t"))
        .collect();
    assert_eq!(rows(&mut s, &union.join(" UNION ALL ")).len(), 1200);
    ok(
        &mut s,
        "INSERT lines SELECT order_id + 100, line_no, qty FROM lines; UPDATE orders SET total = (SELECT COUNT(*) FROM lines l WHERE l.order_id = orders.id)",
    );
    assert_eq!(one(&mut s, "SELECT SUM(total) FROM orders"), Value::Decimal(300));
    assert_eq!(one(&mut s, "SELECT COUNT(*) FROM lines"), int(6));
    assert_eq!(error(&mut s, "SELECT id FROM orders o JOIN lines o ON 1 = 1"), 1011);
    assert_eq!(
        error(&mut s, "MERGE orders USING lines ON 1 = 1 WHEN MATCHED THEN DELETE;"),
        156
    );
}
