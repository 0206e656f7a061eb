//! Durations and sizes, each with its unit.

use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const DAY: Duration = Duration::from_secs(86_400);
pub(super) const MIB: u64 = 1 << 20;

/// Parses `250ms`, `10s`, `5m`, `2h` or `1d`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let value: f64 = number
        .parse()
        .map_err(|_| "must be a number and a unit, such as \"10s\"".to_owned())?;
    let seconds = match unit {
        "ms" => value / 1e3,
        "s" => value,
        "m" | "min" => value * 60.0,
        "h" => value * 3600.0,
        "d" => value * 86400.0,
        "" => return Err("needs a unit: ms, s, m, h or d".to_owned()),
        other => return Err(format!("unknown unit {other:?}: use ms, s, m, h or d")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| "is out of range".to_owned())
}

/// Parses `512KiB`, `64MiB`, `2GiB`, `100MB` or `4096B`.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let value: u64 = number
        .parse()
        .map_err(|_| "must be a whole number and a unit, such as \"64MiB\"".to_owned())?;
    let factor: u64 = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "" => return Err("needs a unit: B, KiB, MiB or GiB".to_owned()),
        other => return Err(format!("unknown unit {other:?}: use B, KiB, MiB or GiB")),
    };
    value.checked_mul(factor).ok_or_else(|| "is out of range".to_owned())
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        assert!(parse_duration("10").is_err_and(|e| e.contains("needs a unit")));
        assert!(parse_duration("10 parsecs").is_err_and(|e| e.contains("unknown unit")));
        assert!(parse_duration("s").is_err());
        assert!(parse_duration("1e400d").is_err());
    }

    #[test]
    fn sizes_need_a_unit() {
        assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
        assert_eq!(parse_bytes("100MB"), Ok(100_000_000));
        assert!(parse_bytes("64").is_err_and(|e| e.contains("needs a unit")));
        assert!(parse_bytes("99999999999GiB").is_err());
    }
}
