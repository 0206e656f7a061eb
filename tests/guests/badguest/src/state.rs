//! What a guest could know of the calls before, if its instance had seen any.

use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::acts;

/// Calls of `apply` so far.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// Calls of `open` so far.
static OPENED: AtomicU32 = AtomicU32::new(0);
static TRIED: AtomicBool = AtomicBool::new(false);

pub(crate) fn calls_before() -> u32 {
    CALLS.fetch_add(1, Ordering::Relaxed)
}

/// A second call of the same instance would get through.
pub(crate) fn trap_once() {
    if !TRIED.swap(true, Ordering::Relaxed) {
        acts::trap();
    }
}

/// A column name of how often the instance was opened, where its heap and its stack lie, and what Rust takes for
/// randomness.
pub(crate) fn of_the_moment() -> String {
    let opened = OPENED.fetch_add(1, Ordering::Relaxed);
    let heap = black_box(vec![opened; 100]);
    let stack = black_box([0_u8; 16]);
    let random = RandomState::new().hash_one(opened);
    format!("made_{opened}_{:p}_{:p}_{random:x}", heap.as_ptr(), stack.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else the tests that see the same every time would see nothing.
    #[test]
    fn an_instance_that_is_used_again_can_tell() {
        assert_eq!((calls_before(), calls_before()), (0, 1));
        assert_ne!(of_the_moment(), of_the_moment());
    }
}
