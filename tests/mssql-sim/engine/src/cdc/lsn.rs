//! Log sequence numbers: virtual log file (4 bytes), block (4), slot (2), big-endian, strictly rising.

use std::fmt;

/// A log sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub [u8; 10]);

impl Lsn {
    /// `0x00000000000000000000`.
    pub const ZERO: Lsn = Lsn([0; 10]);

    /// An LSN from bytes; shorter ones are padded on the right, as `binary(10)` pads.
    pub fn of(bytes: &[u8]) -> Lsn {
        let mut lsn = [0; 10];
        for (to, from) in lsn.iter_mut().zip(bytes) {
            *to = *from;
        }
        Lsn(lsn)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02X}"))
    }
}

/// Gives out LSNs as a log would: records of one block share it, a full block begins the next, a full file the next file.
#[derive(Debug)]
pub struct LsnClock {
    file: u32,
    block: u32,
    slot: u16,
    /// Records in the open block.
    filled: u16,
}

/// Sectors that a virtual log file holds here.
const BLOCKS: u32 = 0x0002_0000;
/// Records that a block takes before the next begins.
const RECORDS: u16 = 60;

impl LsnClock {
    /// A clock that goes on after an LSN, in a new virtual log file, as after a restart.
    pub fn after(last: Lsn) -> LsnClock {
        let file = u32::from_be_bytes([last.0[0], last.0[1], last.0[2], last.0[3]]);
        LsnClock {
            file: file.max(0x29) + 1,
            block: 0x10,
            slot: 0,
            filled: 0,
        }
    }

    /// The LSN of the next log record.
    pub fn record(&mut self) -> Lsn {
        if self.filled == RECORDS {
            self.end_block();
        }
        self.slot += 1;
        self.filled += 1;
        let mut bytes = [0; 10];
        bytes[..4].copy_from_slice(&self.file.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.block.to_be_bytes());
        bytes[8..].copy_from_slice(&self.slot.to_be_bytes());
        Lsn(bytes)
    }

    /// The LSN of a commit: the block is written to disk with it, so the next record begins a block.
    pub fn commit(&mut self) -> Lsn {
        let lsn = self.record();
        self.end_block();
        lsn
    }

    fn end_block(&mut self) {
        // Blocks are counted in sectors of 512 bytes; a record takes about 120.
        self.block += 1 + u32::from(self.filled) * 120 / 512;
        self.slot = 0;
        self.filled = 0;
        if self.block >= BLOCKS {
            self.file += 1;
            self.block = 0x10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_only_rise_and_look_like_a_log() {
        let mut clock = LsnClock::after(Lsn::ZERO);
        assert_eq!(clock.record().to_string(), "0x0000002A000000100001");
        let mut last = Lsn::ZERO;
        for i in 0..1_000_000 {
            let next = if i % 7 == 0 { clock.commit() } else { clock.record() };
            assert!(next > last);
            last = next;
        }
        assert!(LsnClock::after(last).record() > last);
    }
}
