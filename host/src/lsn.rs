//! Log sequence numbers and the position of a stream.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A SQL Server log sequence number: 10 bytes, ordered as bytes. Text form: `0x` and 20 upper-case hex digits, so that
/// string order is LSN order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub [u8; 10]);

/// Length of the text form in bytes.
pub const LSN_TEXT_LEN: usize = 22;

const UPPER_HEX: &[u8; 16] = b"0123456789ABCDEF";

impl Lsn {
    /// What `sys.fn_cdc_get_min_lsn` answers when it has none. Never a position.
    pub const ZERO: Lsn = Lsn([0; 10]);
    /// Above every LSN of a log.
    pub const MAX: Lsn = Lsn([0xFF; 10]);

    /// From the wire's `binary(10)`.
    pub fn from_bytes(bytes: &[u8]) -> Option<Lsn> {
        <[u8; 10]>::try_from(bytes).ok().map(Lsn)
    }

    /// Whether this is all zeros, which SQL Server uses for "none".
    pub fn is_zero(&self) -> bool {
        *self == Lsn::ZERO
    }

    /// The smallest LSN above this one (`sys.fn_cdc_increment_lsn`); [`Lsn::MAX`] stays.
    pub fn next(self) -> Lsn {
        let mut bytes = self.0;
        for byte in bytes.iter_mut().rev() {
            let (value, overflow) = byte.overflowing_add(1);
            *byte = value;
            if !overflow {
                return Lsn(bytes);
            }
        }
        Lsn::MAX
    }

    /// The largest LSN below this one (`sys.fn_cdc_decrement_lsn`); [`Lsn::ZERO`] stays.
    pub fn previous(self) -> Lsn {
        let mut bytes = self.0;
        for byte in bytes.iter_mut().rev() {
            let (value, borrow) = byte.overflowing_sub(1);
            *byte = value;
            if !borrow {
                return Lsn(bytes);
            }
        }
        Lsn::ZERO
    }

    /// The text form, without an allocation.
    pub fn text(&self) -> [u8; LSN_TEXT_LEN] {
        let mut out = *b"0x00000000000000000000";
        for (i, byte) in self.0.iter().enumerate() {
            out[2 + i * 2] = UPPER_HEX[usize::from(byte >> 4)];
            out[3 + i * 2] = UPPER_HEX[usize::from(byte & 15)];
        }
        out
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is no LSN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an LSN: expected 0x and 20 hex digits")]
pub struct ParseLsnError;

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Lsn, ParseLsnError> {
        let digits = text
            .strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .ok_or(ParseLsnError)?;
        if digits.len() != 20 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ParseLsnError);
        }
        let mut bytes = [0; 10];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[i * 2..i * 2 + 2], 16).map_err(|_| ParseLsnError)?;
        }
        Ok(Lsn(bytes))
    }
}

impl Serialize for Lsn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Lsn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lsn, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// An instant in UTC, in microseconds since 1970-01-01. Serialised as ISO-8601 with milliseconds and `Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcMicros(pub i64);

impl UtcMicros {
    /// The clock's now.
    pub fn now() -> UtcMicros {
        UtcMicros(chrono::Utc::now().timestamp_micros())
    }

    /// Rounded down to a multiple of `period_us` since the epoch.
    pub fn truncated(self, period_us: i64) -> UtcMicros {
        UtcMicros(self.0.div_euclid(period_us) * period_us)
    }
}

impl fmt::Display for UtcMicros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match chrono::DateTime::from_timestamp_micros(self.0) {
            Some(instant) => write!(f, "{}", instant.format("%Y-%m-%dT%H:%M:%S%.3fZ")),
            None => write!(f, "{} us", self.0),
        }
    }
}

impl Serialize for UtcMicros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UtcMicros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UtcMicros, D::Error> {
        let text = String::deserialize(deserializer)?;
        chrono::DateTime::parse_from_rfc3339(&text)
            .map(|instant| UtcMicros(instant.timestamp_micros()))
            .map_err(|_| serde::de::Error::custom("not an ISO-8601 instant"))
    }
}

/// The position of a stream: the last commit that it has processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// Its LSN.
    pub lsn: Lsn,
    /// When it was committed.
    pub commit_ts: UtcMicros,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_is_upper_case() {
        let lsn: Lsn = "0x0000002a000001e80003".parse().unwrap();
        assert_eq!(lsn.to_string(), "0x0000002A000001E80003");
        assert_eq!(&lsn.text(), b"0x0000002A000001E80003");
        for bad in [
            "",
            "0x",
            "0000002A000001E80003",
            "0x0000002A000001E8000",
            "0x0000002A000001E8000G",
        ] {
            assert!(bad.parse::<Lsn>().is_err(), "{bad}");
        }
    }

    #[test]
    fn next_and_previous_carry() {
        let lsn: Lsn = "0x000000000000000000FF".parse().unwrap();
        assert_eq!(lsn.next().to_string(), "0x00000000000000000100");
        assert_eq!(lsn.next().previous(), lsn);
        assert_eq!(Lsn::MAX.next(), Lsn::MAX);
        assert_eq!(Lsn::ZERO.previous(), Lsn::ZERO);
    }

    #[test]
    fn an_offset_has_the_form_of_the_contract() {
        let offset = Offset {
            lsn: "0x0000002A000001E80003".parse().unwrap(),
            commit_ts: UtcMicros(1_700_000_000_123_456),
        };
        let json = serde_json::to_string(&offset).unwrap();
        assert_eq!(
            json,
            r#"{"lsn":"0x0000002A000001E80003","commit_ts":"2023-11-14T22:13:20.123Z"}"#
        );
    }

    #[test]
    fn truncation_goes_down_before_the_epoch_too() {
        assert_eq!(UtcMicros(-1).truncated(1000), UtcMicros(-1000));
        assert_eq!(UtcMicros(1999).truncated(1000), UtcMicros(1000));
    }
}
