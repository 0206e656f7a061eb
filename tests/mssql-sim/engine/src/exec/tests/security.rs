//! Logins and permissions.

use super::*;

#[test]
fn logins_and_databases() {
    let e = engine();
    let mut s = admin(&e);
    assert_eq!(e.login("sa", "wrong", None).err().unwrap().number, 18456);
    assert_eq!(e.login("nobody", "x", None).err().unwrap().number, 18456);
    assert_eq!(e.login("sa", "secret", Some("nowhere")).err().unwrap().number, 4060);
    ok(&mut s, "CREATE LOGIN reader WITH PASSWORD = 'pw', CHECK_POLICY = OFF");
    assert_eq!(e.login("reader", "pw", Some("shop")).err().unwrap().number, 4060);
    ok(&mut s, "CREATE USER reader FOR LOGIN reader");
    let mut r = e.login("READER", "pw", Some("shop")).unwrap();
    assert_eq!(one(&mut r, "SELECT USER_NAME()"), text("reader"));
    assert_eq!(error(&mut r, "CREATE LOGIN x WITH PASSWORD = 'y'"), 15247);
    assert_eq!(error(&mut r, "CREATE TABLE t (a int)"), 262);
    assert_eq!(error(&mut s, "USE master; DROP DATABASE shop"), 3702);
}

#[test]
fn grants_open_tables_and_columns() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE a (id int PRIMARY KEY, secret int NULL); CREATE TABLE b (id int PRIMARY KEY); INSERT a VALUES (1, 2)
         CREATE LOGIN reader WITH PASSWORD = 'pw'; CREATE USER reader FOR LOGIN reader
         EXEC sys.sp_cdc_enable_db
         EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'a', @role_name = NULL
         INSERT a VALUES (2, 3)",
    );
    let mut r = e.login("reader", "pw", Some("shop")).unwrap();
    let a = run(&mut r, "SELECT id FROM dbo.a");
    assert_eq!(a.errors[0].number, 229);
    assert_eq!(
        a.errors[0].message,
        "The SELECT permission was denied on the object 'a', database 'shop', schema 'dbo'."
    );
    assert_eq!(one(&mut r, "SELECT COUNT(*) FROM sys.tables WHERE name = 'a'"), int(0));
    assert_eq!(
        one(&mut r, "SELECT sys.fn_cdc_get_min_lsn('dbo_a')"),
        Value::Bytes(vec![0; 10])
    );
    assert_eq!(
        error(
            &mut r,
            "EXEC sys.sp_cdc_get_captured_columns @capture_instance = N'dbo_a'"
        ),
        22981
    );
    ok(&mut s, "GRANT SELECT ON OBJECT::dbo.a (id) TO reader");
    assert_eq!(rows(&mut r, "SELECT id FROM a").len(), 2);
    assert_eq!(error(&mut r, "SELECT secret FROM a"), 230);
    assert_eq!(error(&mut r, "SELECT * FROM a"), 230);
    ok(&mut s, "GRANT SELECT ON dbo.a TO reader");
    assert_ne!(
        one(&mut r, "SELECT sys.fn_cdc_get_min_lsn('dbo_a')"),
        Value::Bytes(vec![0; 10])
    );
    assert_eq!(rows(&mut r, "EXEC sys.sp_cdc_help_change_data_capture").len(), 1);
    // The change table needs a grant of its own; the mapping needs none.
    assert_eq!(error(&mut r, "SELECT COUNT(*) FROM cdc.dbo_a_CT"), 229);
    assert_eq!(
        one(
            &mut r,
            "SELECT HAS_PERMS_BY_NAME(N'[cdc].[dbo_a_CT]', N'OBJECT', N'SELECT')"
        ),
        int(0)
    );
    assert_eq!(
        one(
            &mut r,
            "SELECT HAS_PERMS_BY_NAME(N'[cdc].[nowhere_CT]', N'OBJECT', N'SELECT')"
        ),
        Value::Null
    );
    assert_eq!(rows(&mut r, "SELECT start_lsn FROM cdc.lsn_time_mapping").len(), 2);
    ok(&mut s, "GRANT SELECT ON cdc.dbo_a_CT TO reader");
    assert_eq!(one(&mut r, "SELECT COUNT(*) FROM cdc.dbo_a_CT"), int(1));
    assert_eq!(
        one(
            &mut r,
            "SELECT HAS_PERMS_BY_NAME(N'[cdc].[dbo_a_CT]', N'OBJECT', N'SELECT')"
        ),
        int(1)
    );
    assert_eq!(error(&mut r, "INSERT a VALUES (9, 9)"), 229);
    ok(&mut s, "REVOKE SELECT ON dbo.a FROM reader");
    assert_eq!(error(&mut r, "SELECT id FROM a"), 229);
    ok(&mut s, "ALTER ROLE db_owner ADD MEMBER reader");
    assert_eq!(rows(&mut r, "SELECT * FROM b").len(), 0);
    ok(&mut r, "INSERT b VALUES (1)");
}

#[test]
fn a_login_without_a_user_comes_in_as_guest_where_guest_may_connect() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE a (id int PRIMARY KEY); CREATE LOGIN reader WITH PASSWORD = 'pw'; GRANT CONNECT TO guest",
    );
    assert_eq!(error(&mut s, "CREATE USER guest FOR LOGIN reader"), 15023);
    let mut r = e.login("reader", "pw", Some("shop")).unwrap();
    assert_eq!(one(&mut r, "SELECT USER_NAME()"), text("guest"));
    assert_eq!(one(&mut r, "SELECT DATABASE_PRINCIPAL_ID()"), int(2));
    assert_eq!(one(&mut r, "SELECT DATABASE_PRINCIPAL_ID(N'guest')"), int(2));
    assert_eq!(error(&mut r, "SELECT id FROM a"), 229);
    ok(
        &mut s,
        "CREATE USER reader FOR LOGIN reader; GRANT SELECT ON a TO reader",
    );
    assert_eq!(one(&mut r, "SELECT USER_NAME()"), text("reader"));
    assert_eq!(rows(&mut r, "SELECT id FROM a").len(), 0);
    ok(&mut s, "DROP USER reader; REVOKE CONNECT FROM guest");
    assert_eq!(e.login("reader", "pw", Some("shop")).err().unwrap().number, 4060);
}
