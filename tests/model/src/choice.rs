//! Who decides: a seed, or a script that tries everything.

/// Picks one of several ways on.
pub trait Choose {
    /// An index whose weight is not 0.
    fn pick(&mut self, weights: &[u32]) -> usize;

    /// Whether what was picked last was played before, and something that follows too.
    fn replays(&self) -> bool {
        false
    }
}

/// Picks at random, the same for the same seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// From a seed.
    pub fn new(seed: u64) -> Seeded {
        Seeded(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635)
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed % u64::from(bound.max(1))) as u32
    }
}

impl Choose for Seeded {
    fn pick(&mut self, weights: &[u32]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        0
    }
}

/// Follows a script and, after its end, takes the first way; notes how many ways there were.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    /// What was picked, and the ways that were open.
    pub picks: Vec<(usize, Vec<usize>)>,
    /// How far the script was followed.
    pub at: usize,
}

impl Scripted {
    /// The script of the next way, depth first: whether there is one.
    pub fn advance(&mut self) -> bool {
        self.picks.truncate(self.at);
        self.at = 0;
        while let Some((taken, ways)) = self.picks.pop() {
            if taken + 1 < ways.len() {
                self.picks.push((taken + 1, ways));
                return true;
            }
        }
        false
    }
}

impl Choose for Scripted {
    fn pick(&mut self, weights: &[u32]) -> usize {
        let ways: Vec<usize> = (0..weights.len()).filter(|index| weights[*index] > 0).collect();
        if ways.len() == 1 {
            return ways[0];
        }
        if self.at == self.picks.len() {
            self.picks.push((0, ways));
        }
        self.at += 1;
        let (taken, ways) = &self.picks[self.at - 1];
        ways[*taken]
    }

    fn replays(&self) -> bool {
        self.at < self.picks.len()
    }
}
