//! Tables shared out between processes that know nothing of each other but how many they are.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::identity::AppId;

/// One of several shares of the tables: `2/8` is the second of eight.
///
/// Each table belongs to the share that scores highest for its `app_id` (rendezvous hashing), so that another number of shares
/// moves as few tables as can be. What a table has done is in its checkpoint: it goes on wherever it moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    number: u32,
    /// Of how many.
    of: u32,
}

/// Most shares.
const MOST: u32 = 10_000;

impl Shard {
    /// Whether a stream belongs to this share.
    pub fn has(self, app_id: &AppId) -> bool {
        let score = |number: u32| {
            let mut digest = Sha256::new();
            digest.update(app_id.0.as_bytes());
            digest.update(number.to_be_bytes());
            digest.finalize()
        };
        (1..=self.of).max_by_key(|number| score(*number)) == Some(self.number)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(number, of)| Some((number.trim().parse().ok()?, of.trim().parse().ok()?)));
        match parsed {
            Some((number, of)) if (1..=of).contains(&number) && of <= MOST => Ok(Shard { number, of }),
            _ => Err(format!(
                "must be one of several shares, such as 2/8: from 1 to the number of shares, which is at most {MOST}"
            )),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(of: u32) -> Vec<u32> {
        let shards: Vec<Shard> = (1..=of).map(|number| Shard { number, of }).collect();
        (0..1000)
            .map(|i| {
                let app_id = AppId(format!("dbo_t{i}-v1"));
                let having: Vec<u32> = shards
                    .iter()
                    .filter(|shard| shard.has(&app_id))
                    .map(|s| s.number)
                    .collect();
                let [one] = having.as_slice() else {
                    panic!("{app_id:?} is in {having:?}");
                };
                *one
            })
            .collect()
    }

    #[test]
    fn each_table_is_in_one_share_and_shares_are_alike() {
        let of_8 = shares(8);
        for number in 1..=8 {
            let count = of_8.iter().filter(|share| **share == number).count();
            assert!((90..=160).contains(&count), "{number}: {count}");
        }
        // One share more takes from the others what it gets, and nothing else moves.
        let of_9 = shares(9);
        assert!(
            of_8.iter()
                .zip(&of_9)
                .all(|(before, after)| before == after || *after == 9)
        );
        // For ever the same: a restart of one process must not move tables.
        let known = AppId("dbo_orders-v1".to_owned());
        let share = (1..=4).find(|number| Shard { number: *number, of: 4 }.has(&known));
        assert_eq!(share, Some(1));
    }

    #[test]
    fn a_share_is_written_as_a_fraction() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
        for wrong in ["0/8", "9/8", "8", "1/0", "a/b", "1/10001", ""] {
            assert!(wrong.parse::<Shard>().unwrap_err().contains("2/8"), "{wrong}");
        }
    }
}
