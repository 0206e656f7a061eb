//! Text comparison as `SQL_Latin1_General_CP1_CI_AS` has it: without case, with accents, without trailing blanks.
//!
//! The order of letters is that of their lower-case code points; SQL Server's own weights (which sort punctuation and
//! accents otherwise) are not reproduced.

use std::cmp::Ordering;

/// Compares two texts without case and trailing blanks.
pub fn compare_text(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_end_matches(' '), b.trim_end_matches(' '));
    if a.is_ascii() && b.is_ascii() {
        let lower = |s: &u8| s.to_ascii_lowercase();
        return a.bytes().map(|c| lower(&c)).cmp(b.bytes().map(|c| lower(&c)));
    }
    a.chars().map(fold).cmp(b.chars().map(fold))
}

/// The character without its case, when one lower-case character stands for it.
pub fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let mut lower = c.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// A compiled `LIKE` pattern.
pub struct Like(Vec<Piece>);

enum Piece {
    Any,
    One,
    Char(char),
    Set { negated: bool, ranges: Vec<(char, char)> },
}

impl Like {
    /// Compiles a pattern with `%`, `_`, `[a-z]`, `[^…]` and an escape character.
    pub fn new(pattern: &str, escape: Option<char>) -> Like {
        let chars: Vec<char> = pattern.chars().map(fold).collect();
        let escape = escape.map(fold);
        let mut pieces = Vec::new();
        let mut i = 0;
        while i < chars.len() {
            let c = chars[i];
            if Some(c) == escape && i + 1 < chars.len() {
                pieces.push(Piece::Char(chars[i + 1]));
                i += 2;
                continue;
            }
            match c {
                '%' => pieces.push(Piece::Any),
                '_' => pieces.push(Piece::One),
                '[' => {
                    if let Some(end) = chars[i + 1..].iter().position(|c| *c == ']') {
                        let mut set = &chars[i + 1..i + 1 + end];
                        let negated = set.first() == Some(&'^');
                        if negated {
                            set = &set[1..];
                        }
                        pieces.push(Piece::Set {
                            negated,
                            ranges: ranges(set),
                        });
                        i += end + 2;
                        continue;
                    }
                    pieces.push(Piece::Char('['));
                }
                other => pieces.push(Piece::Char(other)),
            }
            i += 1;
        }
        Like(pieces)
    }

    /// Whether the text matches, without case. Trailing blanks of the text may go unmatched, as in SQL Server.
    pub fn matches(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().map(fold).collect();
        if self.matches_from(&chars) {
            return true;
        }
        let blanks = chars.iter().rev().take_while(|c| **c == ' ').count();
        (1..=blanks).any(|n| self.matches_from(&chars[..chars.len() - n]))
    }

    fn matches_from(&self, text: &[char]) -> bool {
        let pieces = &self.0;
        let (mut p, mut t) = (0, 0);
        // The last `%` seen and the text position it has swallowed up to.
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let step = match pieces.get(p) {
                Some(Piece::Any) => {
                    retry = Some((p, t));
                    p += 1;
                    continue;
                }
                None if t == text.len() => return true,
                None => false,
                Some(piece) => text.get(t).is_some_and(|c| piece.takes(*c)),
            };
            if step {
                p += 1;
                t += 1;
            } else if let Some((at, swallowed)) = retry
                && swallowed < text.len()
            {
                retry = Some((at, swallowed + 1));
                p = at + 1;
                t = swallowed + 1;
            } else {
                return false;
            }
        }
    }
}

impl Piece {
    fn takes(&self, c: char) -> bool {
        match self {
            Piece::Any | Piece::One => true,
            Piece::Char(own) => *own == c,
            Piece::Set { negated, ranges } => ranges.iter().any(|(low, high)| *low <= c && c <= *high) != *negated,
        }
    }
}

fn ranges(set: &[char]) -> Vec<(char, char)> {
    let mut found = Vec::new();
    let mut i = 0;
    while i < set.len() {
        if i + 2 < set.len() && set[i + 1] == '-' {
            found.push((set[i], set[i + 2]));
            i += 3;
        } else {
            found.push((set[i], set[i]));
            i += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_trailing_blanks_do_not_count_and_accents_do() {
        assert_eq!(compare_text("ABC", "abc  "), Ordering::Equal);
        assert_eq!(compare_text("É", "é"), Ordering::Equal);
        assert_ne!(compare_text("e", "é"), Ordering::Equal);
        assert_eq!(compare_text("a", "B"), Ordering::Less);
    }

    #[test]
    fn like_knows_its_wildcards() {
        let like = |p: &str, t: &str| Like::new(p, None).matches(t);
        assert!(like("a%c", "ABBC"));
        assert!(like("%b%", "abc"));
        assert!(!like("a_c", "ac"));
        assert!(like("[a-c]x", "Bx"));
        assert!(!like("[^a-c]x", "bx"));
        assert!(like("abc", "abc  "));
        assert!(Like::new("50!%", Some('!')).matches("50%"));
        assert!(!Like::new("50!%", Some('!')).matches("505"));
    }
}
