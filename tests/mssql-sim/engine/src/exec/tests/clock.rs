//! The server's clock: its zone, and what it is set to.

use super::*;
use crate::{Zone, error::SqlResult, types::round_to_datetime, value::SqlType};

fn berlin() -> (Arc<Engine>, Session) {
    let engine = Engine::open(EngineOptions {
        time_zone: Zone::named("W. Europe Standard Time").unwrap(),
        ..options()
    })
    .unwrap();
    // What is made first is older than what the tests do: 2026-01-01.
    engine.clock().freeze();
    engine.clock().set_unix_ms(1_767_225_600_000);
    let mut s = admin(&engine);
    ok(
        &mut s,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY); EXEC sys.sp_cdc_enable_db;
         EXEC sys.sp_cdc_enable_table N'dbo', N't', NULL",
    );
    (engine, s)
}

fn at(text: &str) -> Value {
    let parsed: SqlResult<Value> = crate::types::convert(
        &Value::Text(text.into()),
        SqlType::VarChar(crate::value::Length::Max),
        SqlType::DateTime2(7),
    );
    match parsed.unwrap() {
        Value::DateTime(ticks) => Value::DateTime(round_to_datetime(ticks)),
        other => other,
    }
}

#[test]
fn an_hour_is_told_twice_and_lsns_rise() {
    let (_engine, mut s) = berlin();
    ok(&mut s, "EXEC sim.clock @utc = N'2026-10-25T00:30:00Z', @frozen = 1");
    ok(&mut s, "INSERT t VALUES (1)");
    assert_eq!(one(&mut s, "SELECT GETDATE()"), at("2026-10-25T02:30:00"));
    assert_eq!(one(&mut s, "SELECT GETUTCDATE()"), at("2026-10-25T00:30:00"));
    assert_eq!(one(&mut s, "SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET())"), int(120));
    ok(&mut s, "EXEC sim.clock @advance_ms = 3600000; INSERT t VALUES (2)");
    assert_eq!(one(&mut s, "SELECT SYSDATETIME()"), at("2026-10-25T02:30:00"));
    assert_eq!(one(&mut s, "SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET())"), int(60));
    ok(&mut s, "EXEC sim.clock @advance_ms = 600000; INSERT t VALUES (3)");
    assert_eq!(
        rows(
            &mut s,
            "SELECT c.id, m.tran_end_time, m.tran_begin_time FROM cdc.dbo_t_CT c JOIN cdc.lsn_time_mapping m
             ON m.start_lsn = c.[__$start_lsn] ORDER BY m.start_lsn"
        ),
        [
            vec![int(1), at("2026-10-25T02:30:00"), at("2026-10-25T02:30:00")],
            vec![int(2), at("2026-10-25T02:30:00"), at("2026-10-25T02:30:00")],
            vec![int(3), at("2026-10-25T02:40:00"), at("2026-10-25T02:40:00")],
        ]
    );
    // Both passes of the hour are there; the mapping functions know local time alone.
    let id = |s: &mut Session, relation: &str| {
        one(
            s,
            &format!(
                "SELECT id FROM cdc.dbo_t_CT WHERE [__$start_lsn] = sys.fn_cdc_map_time_to_lsn('{relation}', '2026-10-25T02:30:00')"
            ),
        )
    };
    assert_eq!(id(&mut s, "smallest greater than or equal"), int(1));
    assert_eq!(id(&mut s, "largest less than or equal"), int(2));
    assert_eq!(id(&mut s, "smallest greater than"), int(3));
}

#[test]
fn an_hour_is_left_out_in_spring_and_the_clock_steps_back() {
    let (engine, mut s) = berlin();
    ok(
        &mut s,
        "EXEC sim.clock @utc = N'2026-03-29T00:59:59Z', @frozen = 1; INSERT t VALUES (1)",
    );
    assert_eq!(one(&mut s, "SELECT GETDATE()"), at("2026-03-29T01:59:59"));
    ok(&mut s, "EXEC sim.clock @advance_ms = 1000; INSERT t VALUES (2)");
    assert_eq!(one(&mut s, "SELECT GETDATE()"), at("2026-03-29T03:00:00"));
    // Somebody sets the clock back by ten minutes.
    ok(&mut s, "EXEC sim.clock @advance_ms = -600000; INSERT t VALUES (3)");
    assert_eq!(
        rows(
            &mut s,
            "SELECT c.id, sys.fn_cdc_map_lsn_to_time(c.[__$start_lsn]) FROM cdc.dbo_t_CT c ORDER BY c.[__$start_lsn]"
        ),
        [
            vec![int(1), at("2026-03-29T01:59:59")],
            vec![int(2), at("2026-03-29T03:00:00")],
            vec![int(3), at("2026-03-29T01:50:00")],
        ]
    );
    ok(&mut s, "EXEC sim.clock @utc = N'2030-01-01T00:00:00Z'");
    assert_eq!(
        one(&mut s, "SELECT GETDATE()"),
        at("2030-01-01T01:00:00"),
        "it stands still"
    );
    ok(&mut s, "EXEC sim.clock @frozen = 0");
    assert_eq!(one(&mut s, "SELECT YEAR(GETDATE())"), int(2030));
    engine.clock().reset();
    assert_ne!(one(&mut s, "SELECT YEAR(GETDATE())"), int(2030));
}

#[test]
fn the_clock_is_the_administrators_and_says_what_it_takes() {
    let (engine, mut s) = berlin();
    ok(
        &mut s,
        "CREATE LOGIN reader WITH PASSWORD = 'x'; CREATE USER reader FOR LOGIN reader",
    );
    let mut reader = engine.login("reader", "x", Some("shop")).unwrap();
    assert_eq!(error(&mut reader, "EXEC sim.clock @reset = 1"), 229);
    assert_eq!(error(&mut s, "EXEC sim.clock"), 50000);
    assert_eq!(error(&mut s, "EXEC sim.clock @utc = N'tomorrow'"), 241);
    assert_eq!(
        one(&mut s, "SELECT CURRENT_TIMEZONE_ID()"),
        text("W. Europe Standard Time")
    );
    assert_eq!(
        one(&mut s, "SELECT CURRENT_TIMEZONE()"),
        text("(UTC+01:00) W. Europe Standard Time")
    );
}

#[test]
fn at_time_zone_knows_windows_zones() {
    let (_engine, mut s) = berlin();
    let offset = |s: &mut Session, sql: &str| one(s, &format!("SELECT CONVERT(varchar(40), {sql})"));
    assert_eq!(
        offset(
            &mut s,
            "CAST('2026-10-25T02:30:00' AS datetime2(0)) AT TIME ZONE 'W. Europe Standard Time'"
        ),
        text("2026-10-25 02:30:00 +02:00")
    );
    assert_eq!(
        offset(
            &mut s,
            "CAST('2026-10-25T02:30:00' AS datetime2(0)) AT TIME ZONE 'UTC' AT TIME ZONE 'India Standard Time'"
        ),
        text("2026-10-25 08:00:00 +05:30")
    );
    assert_eq!(error(&mut s, "SELECT GETDATE() AT TIME ZONE 'Europe/Berlin'"), 9820);
}

#[test]
fn a_fixed_offset_has_the_name_of_a_zone_that_keeps_it() {
    let engine = Engine::open(EngineOptions {
        time_zone: Zone::fixed(-420),
        ..options()
    })
    .unwrap();
    let mut s = admin(&engine);
    assert_eq!(
        one(&mut s, "SELECT CURRENT_TIMEZONE_ID()"),
        text("US Mountain Standard Time")
    );
    assert_eq!(one(&mut s, "SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET())"), int(-420));
    assert_eq!(
        one(&mut s, "SELECT DATEDIFF(minute, GETUTCDATE(), GETDATE())"),
        int(-420)
    );
}
