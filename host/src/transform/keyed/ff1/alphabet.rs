//! Which character is which digit.

use std::collections::HashMap;

/// The radixes of FF1.
const RADIXES: std::ops::RangeInclusive<usize> = 2..=1 << 16;

/// The characters of an alphabet; the first is the digit 0.
pub(in crate::transform::keyed) struct Alphabet {
    characters: Vec<char>,
    /// The digits of the characters up to U+007F.
    ascii: [Option<u16>; 128],
    others: HashMap<char, u16>,
}

impl Alphabet {
    /// `None` when it does not have 2 to 65,536 characters, or has one twice.
    pub(in crate::transform::keyed) fn new(text: &str) -> Option<Alphabet> {
        // A text that is far too long is not read to its end.
        let characters: Vec<char> = text.chars().take(RADIXES.end() + 1).collect();
        if !RADIXES.contains(&characters.len()) {
            return None;
        }
        let mut ascii = [None; 128];
        let mut others = HashMap::new();
        for (digit, character) in characters.iter().enumerate() {
            let digit = u16::try_from(digit).ok()?;
            let earlier = match ascii.get_mut(*character as usize) {
                Some(place) => place.replace(digit),
                None => others.insert(*character, digit),
            };
            if earlier.is_some() {
                return None;
            }
        }
        Some(Alphabet {
            characters,
            ascii,
            others,
        })
    }

    /// 2 to 65,536.
    pub(super) fn radix(&self) -> u32 {
        // `new` has counted them.
        self.characters.len() as u32
    }

    pub(super) fn digit(&self, character: char) -> Option<u16> {
        match self.ascii.get(character as usize) {
            Some(digit) => *digit,
            None => self.others.get(&character).copied(),
        }
    }

    /// The character of a digit below the radix.
    pub(super) fn character(&self, digit: u16) -> char {
        self.characters[usize::from(digit)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alphabet_has_2_to_65536_different_characters() {
        let many = |count: u32| -> String { (0x10000..0x10000 + count).filter_map(char::from_u32).collect() };
        for bad in ["", "0", "00", "010", "αβα", "\u{1F600}\u{1F601}\u{1F600}"] {
            assert!(Alphabet::new(bad).is_none(), "{bad}");
        }
        assert_eq!(Alphabet::new("01").unwrap().radix(), 2);
        assert_eq!(Alphabet::new(&many(65_536)).unwrap().radix(), 65_536);
        assert!(Alphabet::new(&many(65_537)).is_none());
    }

    #[test]
    fn digits_and_characters_are_each_others() {
        let alphabet = Alphabet::new("0aé€\u{1F600}").unwrap();
        for (digit, character) in (0..).zip("0aé€\u{1F600}".chars()) {
            assert_eq!(alphabet.digit(character), Some(digit));
            assert_eq!(alphabet.character(digit), character);
        }
        for foreign in ['1', 'A', 'e', '\u{301}', '\u{1F601}'] {
            assert_eq!(alphabet.digit(foreign), None);
        }
    }
}
