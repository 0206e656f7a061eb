//! The last hour of a table, in points.

use std::collections::VecDeque;
use std::time::Duration;

/// From one point to the next.
pub const STEP: Duration = Duration::from_secs(10);
/// Points that are kept: an hour.
pub const POINTS: usize = 360;

/// The newest points.
#[derive(Default)]
pub(super) struct Ring {
    points: VecDeque<(Option<f32>, f32)>,
}

impl Ring {
    pub(super) fn push(&mut self, point: (Option<f32>, f32)) {
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Oldest first.
    pub(super) fn points(&self) -> Vec<(Option<f32>, f32)> {
        self.points.iter().copied().collect()
    }
}
