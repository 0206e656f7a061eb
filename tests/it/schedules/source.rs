//! What is written on the source, drawn so that it can be done.

use std::collections::BTreeSet;

use super::fates::{BAD, WORSE};
use super::random::Random;

/// The rows that a table of the source has.
#[derive(Clone, Debug, Default)]
pub struct Source {
    ids: BTreeSet<u64>,
    newest: u64,
    texts: u64,
    /// Whether there are values that a component rejects.
    has_bad: bool,
}

/// One to five commits, each a statement or a transaction.
pub fn draw_commits(random: &mut Random, rows: &mut [Source]) -> Vec<String> {
    let commits = random.between(1, 5);
    let drawn = (0..commits).map(|_| {
        let table = random.between(0, rows.len() as u64 - 1) as usize;
        let source = &mut rows[table];
        // What goes together is in one transaction.
        if random.chance(if source.has_bad { 45 } else { 25 }) {
            let statements: Vec<String> = (0..random.between(2, 3)).map(|_| source.draw(random, table)).collect();
            format!("BEGIN TRANSACTION; {}; COMMIT", statements.join("; "))
        } else {
            source.draw(random, table)
        }
    });
    drawn.collect()
}

impl Source {
    pub fn new(has_bad: bool) -> Source {
        Source {
            has_bad,
            ..Source::default()
        }
    }

    /// A statement on `{0}` or `{1}`, the tables. Where a value can be rejected, also a row that goes and comes back.
    fn draw(&mut self, random: &mut Random, table: usize) -> String {
        self.texts += 1;
        match random.between(0, if self.has_bad { 11 } else { 9 }) {
            6..=7 if !self.ids.is_empty() => self.update(random, table),
            8..=9 if self.ids.len() > 3 => {
                let ids = self.some(random);
                self.ids.retain(|id| !ids.contains(id));
                format!("DELETE FROM {{{table}}} WHERE id IN ({})", listed(&ids))
            }
            10 if !self.ids.is_empty() => self.update(random, table),
            11 if !self.ids.is_empty() => {
                let ids = self.some(random);
                let delete = format!("DELETE FROM {{{table}}} WHERE id IN ({})", listed(&ids));
                format!("{delete}; {}", self.insert(random, table, "w", &ids))
            }
            _ => {
                let first = self.newest + 1;
                self.newest += random.between(1, 4);
                self.ids.extend(first..=self.newest);
                let ids: Vec<u64> = (first..=self.newest).collect();
                self.insert(random, table, "v", &ids)
            }
        }
    }

    fn update(&self, random: &mut Random, table: usize) -> String {
        let ids = self.some(random);
        let kind = self.kind(random);
        format!(
            "UPDATE {{{table}}} SET v = N'{kind}u{}' WHERE id IN ({})",
            self.texts,
            listed(&ids)
        )
    }

    fn insert(&self, random: &mut Random, table: usize, letter: &str, ids: &[u64]) -> String {
        let values: Vec<String> = ids
            .iter()
            .map(|id| format!("({id}, N'{}{letter}{id}')", self.kind(random)))
            .collect();
        format!("INSERT INTO {{{table}}} VALUES {}", values.join(", "))
    }

    /// One to three rows that are there.
    fn some(&self, random: &mut Random) -> Vec<u64> {
        let skip = random.between(0, self.ids.len() as u64 - 1) as usize;
        let take = random.between(1, 3) as usize;
        self.ids.iter().copied().skip(skip).take(take).collect()
    }

    /// What a value begins with: mostly nothing.
    fn kind(&self, random: &mut Random) -> &'static str {
        if !self.has_bad {
            return "";
        }
        match random.between(0, 99) {
            0..=15 => BAD,
            16..=23 => WORSE,
            _ => "",
        }
    }
}

fn listed(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
