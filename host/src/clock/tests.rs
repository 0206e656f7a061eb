//! Against the zone database: every instant of several zones and years comes back from its local time.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::batch::CommitTimes;

const ZONES: [Tz; 9] = [
    Tz::Europe__Berlin,
    Tz::America__New_York,
    Tz::America__Sao_Paulo,
    Tz::Asia__Kolkata,
    Tz::Australia__Lord_Howe,
    Tz::Australia__Sydney,
    Tz::Africa__Casablanca,
    Tz::Pacific__Chatham,
    Tz::UTC,
];
const HOUR: i64 = 3600 * MICROS_PER_SECOND;

fn lsn(n: u64) -> Lsn {
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&n.to_be_bytes());
    Lsn(bytes)
}

fn utc(text: &str) -> UtcMicros {
    UtcMicros(chrono::DateTime::parse_from_rfc3339(text).unwrap().timestamp_micros())
}

fn local(tz: Tz, at: UtcMicros) -> i64 {
    at.0 + offset_micros(offset_at(tz, at))
}

/// What asking the server for the second pass finds: the largest fall of local time in the hour.
fn second_passes(clock: Clock, commits: &[(Lsn, i64)]) -> Repeated {
    let mut repeated = Repeated::default();
    for (_, at) in commits {
        let Instants::Two { hour, .. } = clock.instants(*at) else {
            continue;
        };
        if repeated.knows(hour) {
            continue;
        }
        let inside: Vec<&(Lsn, i64)> = commits
            .iter()
            .filter(|(_, local)| (hour.from_local..hour.to_local).contains(local))
            .collect();
        let fall = inside
            .windows(2)
            .filter(|pair| pair[1].1 < pair[0].1 - 60 * MICROS_PER_SECOND)
            .min_by_key(|pair| pair[1].1 - pair[0].1)
            .map(|pair| pair[1].0);
        repeated.note(hour, fall);
    }
    repeated
}

#[test]
fn utc_times_are_those_of_the_zone_database_over_years_and_changes_of_the_clock() {
    let seed = std::env::var("SLUICE_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(20_261_130);
    println!("SLUICE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for tz in ZONES {
        let clock = Clock::Zone(tz);
        // Idle entries, at most five minutes apart, and commits between them, over ten years around every change.
        let (mut at, end) = (utc("2017-01-01T00:00:00Z").0, utc("2027-01-01T00:00:00Z").0);
        let mut commits = Vec::new();
        while at < end {
            commits.push((lsn(commits.len() as u64 + 1), UtcMicros(at)));
            let near = [-2, 0, 2]
                .iter()
                .any(|hours| offset_at(tz, UtcMicros(at + hours * HOUR)) != offset_at(tz, UtcMicros(at + 2 * HOUR)));
            at += match near {
                true => random.random_range(1..=300 * MICROS_PER_SECOND),
                false => random.random_range(HOUR / 2..=HOUR),
            };
        }
        let rows: Vec<(Lsn, i64)> = commits.iter().map(|(lsn, at)| (*lsn, local(tz, *at))).collect();
        let repeated = second_passes(clock, &rows);
        let times = CommitTimes::new(rows, clock, &repeated, None);
        let mut cursor = 0;
        for (lsn, at) in &commits {
            assert_eq!(times.find(*lsn, &mut cursor), Some(*at), "{tz} {at}");
        }
    }
}

#[test]
fn the_repeated_hour_is_told_apart_by_lsn_order() {
    let clock = Clock::Zone(Tz::Europe__Berlin);
    // 25 October 2026: 03:00 becomes 02:00 at 01:00 UTC.
    let two_thirty = local(Tz::Europe__Berlin, utc("2026-10-25T00:30:00Z"));
    let Instants::Two { first, second, hour } = clock.instants(two_thirty) else {
        panic!("half past two is there twice");
    };
    assert_eq!(
        (first, second),
        (utc("2026-10-25T00:30:00Z"), utc("2026-10-25T01:30:00Z"))
    );
    assert_eq!(hour.change, utc("2026-10-25T01:00:00Z"));
    assert_eq!((hour.to_local - hour.from_local) / HOUR, 1);
    let mut repeated = Repeated::default();
    // Nothing tells: the first pass.
    assert_eq!(clock.instant(lsn(7), two_thirty, &repeated), first);
    repeated.note(hour, Some(lsn(7)));
    assert_eq!(clock.instant(lsn(6), two_thirty, &repeated), first);
    assert_eq!(clock.instant(lsn(7), two_thirty, &repeated), second);
    // The fall of another year says nothing of this one.
    let other = RepeatedHour {
        change: utc("2025-10-26T01:00:00Z"),
        ..hour
    };
    assert!(!repeated.is_second_pass(lsn(9), other));
}

#[test]
fn a_time_that_was_left_out_is_taken_by_the_distance_before() {
    // 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC; 02:30 never was.
    let local = local(Tz::Europe__Berlin, utc("2026-03-29T00:59:00Z")) + 31 * 60 * MICROS_PER_SECOND;
    assert_eq!(
        Clock::Zone(Tz::Europe__Berlin).instants(local),
        Instants::One(utc("2026-03-29T01:30:00Z"))
    );
}

#[test]
fn half_an_hour_is_repeated_on_lord_howe_island() {
    let clock = Clock::Zone(Tz::Australia__Lord_Howe);
    // 5 April 2026: 02:00 becomes 01:30 at 15:00 UTC of the day before.
    let at = utc("2026-04-04T14:45:00Z");
    let Instants::Two { first, second, hour } = clock.instants(local(Tz::Australia__Lord_Howe, at)) else {
        panic!("a quarter to two is there twice");
    };
    assert_eq!((first, second), (at, utc("2026-04-04T15:15:00Z")));
    assert_eq!(hour.to_local - hour.from_local, HOUR / 2);
}

#[test]
fn a_fixed_distance_has_no_changes() {
    let noon = utc("2026-10-25T02:30:00Z").0;
    assert_eq!(
        Clock::Fixed(-420).instants(noon),
        Instants::One(utc("2026-10-25T09:30:00Z"))
    );
}

#[test]
fn second_passes_survive_the_plan_of_a_batch() {
    let clock = Clock::Zone(Tz::America__New_York);
    let Instants::Two { hour, .. } = clock.instants(utc("2026-11-01T01:30:00Z").0) else {
        panic!("half past one is there twice");
    };
    let mut repeated = Repeated::default();
    repeated.note(hour, Some(lsn(5)));
    let json = serde_json::to_string(&repeated).unwrap();
    assert_eq!(
        json,
        r#"[{"change":"2026-11-01T06:00:00.000Z","from":"0x00000000000000000005"}]"#
    );
    assert_eq!(serde_json::from_str::<Repeated>(&json).unwrap(), repeated);
}
