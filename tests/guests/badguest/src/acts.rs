//! What a guest should not do instead of coming back.

use std::hint::black_box;

use sluice_plugin::{Batch, Column, DigestText, HostKeys, Keyed};

use crate::{Behave, buffers};

/// Executes `unreachable`.
pub(crate) fn trap() -> ! {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    std::process::abort();
}

#[allow(clippy::panic)]
pub(crate) fn panic_with(value: &str) -> ! {
    panic!("cannot work with {value}");
}

pub(crate) fn spin() -> ! {
    let mut count = 0_u64;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

/// Takes and touches memory until none is given; Rust then aborts, which is a trap.
pub(crate) fn eat_memory() -> ! {
    let mut taken = Vec::new();
    loop {
        taken.push(black_box(vec![1_u8; 4 << 20]));
    }
}

/// More at once than the default limit allows; Rust aborts without having touched a byte of it.
pub(crate) fn huge_allocation() {
    black_box(vec![1_u8; 1 << 30]);
}

/// Takes and touches memory, and forgets it.
pub(crate) fn leak_memory(bytes: usize) {
    black_box(vec![1_u8; bytes].leak());
}

/// Traps where the column read has the value `trap`.
pub(crate) fn trap_at_word(batch: &Batch) {
    let values = batch.utf8(0).ok();
    if values.is_some_and(|values| values.iter().flatten().any(|value| value == "trap")) {
        trap();
    }
}

/// The names, of those that a key could have, that the host has a key for.
pub(crate) fn keys() -> String {
    let nothing = || Column {
        validity: None,
        offsets: vec![0],
        values: Vec::new(),
    };
    let names = ["pii", "PII", " pii", "pii\0", "", "*", "../pii", "keys/pii", "v3"];
    let answered: Vec<&str> = names
        .into_iter()
        .filter(|name| HostKeys.hmac_sha256(name, "", 0, nothing()).is_ok())
        .collect();
    format!("keys: {}", answered.join(","))
}

/// Recurses until the engine's stack is exhausted: the frames have nothing in linear memory, whose own stack would
/// otherwise run out first.
pub(crate) fn recurse() {
    black_box(deeper(black_box(1)));
}

#[inline(never)]
fn deeper(depth: u64) -> u64 {
    if depth == 0 {
        return 1;
    }
    deeper(depth.wrapping_add(1)).rotate_left(7) ^ depth
}

pub(crate) fn flood(value: &str) {
    let long = value.repeat(1_000);
    for _ in 0..10_000 {
        sluice_plugin::log::error(&long);
    }
}

/// Eight million NULLs are 33 MB of offsets in the guest, and would be 256 MB of tags from the host.
pub(crate) fn keyed_flood() {
    let rows = 8_000_000;
    let nulls = Column {
        validity: Some(vec![0; rows / 8]),
        offsets: vec![0; rows + 1],
        values: Vec::new(),
    };
    let tags = HostKeys.hmac_sha256("pii", "flood", rows as u32, nulls);
    black_box(tags.map(|tags| tags.len()).ok());
}

/// Has the host make a column, and gives what stands for it.
pub(crate) fn hashed(behave: Behave, rows: usize) -> Column {
    let make = |place, rows: usize, validity| {
        let values = Column {
            validity,
            ..buffers::text(rows)
        };
        let text = DigestText::Hex(64);
        HostKeys.hash_output(place, "pii", "", &text, rows as u32, values)
    };
    let made = match behave {
        Behave::HashedShort => make(0, rows.saturating_sub(1), None),
        Behave::HashedNull => make(0, rows, Some(vec![0; rows.div_ceil(8)])),
        Behave::HashedBeyond => {
            for place in 1..10_000 {
                black_box(make(place, rows, None).is_ok());
            }
            make(u32::MAX as usize, rows, None)
        }
        Behave::HashedAndRejected => {
            // All but the first.
            let mut validity = vec![0xff; rows.div_ceil(8)];
            validity[0] = 0xfe;
            make(0, rows, Some(validity))
        }
        Behave::HashedFlood => loop {
            if let Err(error) = make(0, rows, None) {
                break Err(error);
            }
        },
        Behave::Hashed => make(0, rows, Some(vec![0; rows.div_ceil(8)])).and_then(|_| make(0, rows, None)),
        _ => make(0, rows, None),
    };
    match (behave, made) {
        (Behave::HashedAndReturned, Ok(_)) => buffers::text(rows),
        (_, made) => made.unwrap_or_default(),
    }
}
