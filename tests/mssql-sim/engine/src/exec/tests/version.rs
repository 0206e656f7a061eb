//! What differs from one version of SQL Server to the next, and in Azure SQL Database.

use std::time::{Duration, Instant};

use super::*;
use crate::{ServerVersion, Zone};

fn as_version(version: ServerVersion) -> Arc<Engine> {
    Engine::open(EngineOptions { version, ..options() }).unwrap()
}

#[test]
fn each_version_says_what_it_is() {
    for (version, product, edition, level, year) in [
        (ServerVersion::V2016, "13.", 3, 130, "SQL Server 2016"),
        (ServerVersion::V2017, "14.", 3, 140, "SQL Server 2017"),
        (ServerVersion::V2019, "15.", 3, 150, "SQL Server 2019"),
        (ServerVersion::V2022, "16.", 3, 160, "SQL Server 2022"),
        (ServerVersion::V2025, "17.", 3, 170, "SQL Server 2025"),
        (ServerVersion::Azure, "12.", 5, 170, "SQL Azure"),
    ] {
        let e = as_version(version);
        let mut s = e.login("sa", "secret", None).unwrap();
        let Value::Text(found) = one(&mut s, "SELECT SERVERPROPERTY('ProductVersion')") else {
            panic!("no text")
        };
        assert!(found.starts_with(product), "{found}");
        assert_eq!(
            one(&mut s, "SELECT CAST(SERVERPROPERTY('EngineEdition') AS int)"),
            int(edition)
        );
        let Value::Text(banner) = one(&mut s, "SELECT @@VERSION") else {
            panic!("no text")
        };
        assert!(banner.contains(year) && banner.contains(product), "{banner}");
        assert_eq!(
            one(
                &mut s,
                "SELECT compatibility_level FROM sys.databases WHERE name = 'master'"
            ),
            int(level)
        );
    }
}

#[test]
fn functions_come_with_their_version() {
    for (sql, since) in [
        ("SELECT CURRENT_TIMEZONE_ID()", ServerVersion::V2022),
        ("SELECT CURRENT_TIMEZONE()", ServerVersion::V2019),
        ("SELECT TRIM(' a ')", ServerVersion::V2017),
        ("SELECT CONCAT_WS(',', 'a', 'b')", ServerVersion::V2017),
        ("SELECT STRING_AGG(name, ',') FROM sys.databases", ServerVersion::V2017),
    ] {
        for version in [
            ServerVersion::V2016,
            ServerVersion::V2017,
            ServerVersion::V2019,
            ServerVersion::V2022,
            ServerVersion::V2025,
            ServerVersion::Azure,
        ] {
            let e = as_version(version);
            let mut s = e.login("sa", "secret", None).unwrap();
            let errors: Vec<i32> = run(&mut s, sql).errors.iter().map(|e| e.number).collect();
            let wanted: &[i32] = if version < since { &[195] } else { &[] };
            assert_eq!(errors, wanted, "{sql} on {version:?}");
        }
    }
}

#[test]
fn azure_has_no_agent_and_no_way_to_another_database() {
    let e = as_version(ServerVersion::Azure);
    let mut master = e.login("sa", "secret", None).unwrap();
    ok(
        &mut master,
        "CREATE DATABASE shop; CREATE DATABASE other; CREATE LOGIN reader WITH PASSWORD = 'x'",
    );
    assert_eq!(
        rows(&mut master, "SELECT name FROM sys.databases ORDER BY database_id").len(),
        6,
        "master shows all"
    );
    let mut s = e.login("sa", "secret", Some("shop")).unwrap();
    assert_eq!(
        rows(&mut s, "SELECT name FROM sys.databases ORDER BY name"),
        [vec![text("master")], vec![text("shop")]]
    );
    assert_eq!(error(&mut s, "USE other"), 40508);
    ok(&mut s, "USE shop");
    assert_eq!(error(&mut s, "SELECT * FROM other.dbo.t"), 40515);
    assert_eq!(error(&mut s, "INSERT other.dbo.t VALUES (1)"), 40515);
    assert_eq!(error(&mut s, "CREATE LOGIN second WITH PASSWORD = 'x'"), 5001);
    assert_eq!(one(&mut s, "SELECT CURRENT_TIMEZONE_ID()"), text("UTC"));
    // An owner of the database may enable CDC there, without being a sysadmin.
    ok(
        &mut s,
        "CREATE USER reader FOR LOGIN reader; ALTER ROLE db_owner ADD MEMBER reader",
    );
    let mut owner = e.login("reader", "x", Some("shop")).unwrap();
    ok(&mut owner, "EXEC sys.sp_cdc_enable_db");
    for procedure in ["sp_cdc_start_job", "sp_cdc_stop_job"] {
        assert_eq!(
            error(&mut s, &format!("EXEC sys.{procedure} @job_type = N'capture'")),
            2812
        );
    }
    assert!(
        Engine::open(EngineOptions {
            version: ServerVersion::Azure,
            time_zone: Zone::fixed(60),
            ..options()
        })
        .is_err()
    );
}

#[test]
fn azure_captures_by_itself_and_on_demand() {
    let e = as_version(ServerVersion::Azure);
    assert_eq!(e.capture_lag(), Duration::from_secs(20));
    let lagging = Engine::open(EngineOptions {
        version: ServerVersion::Azure,
        capture_lag: Some(Duration::from_millis(200)),
        ..options()
    })
    .unwrap();
    for (engine, scan) in [(e, true), (lagging, false)] {
        let mut master = engine.login("sa", "secret", None).unwrap();
        ok(&mut master, "CREATE DATABASE shop");
        let mut s = engine.login("sa", "secret", Some("shop")).unwrap();
        ok(
            &mut s,
            "CREATE TABLE t (id int NOT NULL PRIMARY KEY); EXEC sys.sp_cdc_enable_db;
             EXEC sys.sp_cdc_enable_table N'dbo', N't', NULL; INSERT t VALUES (1)",
        );
        assert_eq!(one(&mut s, "SELECT COUNT(*) FROM cdc.dbo_t_CT"), int(0));
        if scan {
            ok(&mut s, "EXEC sys.sp_cdc_scan");
        }
        let patience = Instant::now() + Duration::from_secs(15);
        while one(&mut s, "SELECT COUNT(*) FROM cdc.dbo_t_CT") != int(1) {
            assert!(!scan && Instant::now() < patience);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
