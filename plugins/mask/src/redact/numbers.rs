//! Patterns that are made of digits in groups: telephone and card numbers, IPv4 addresses, US social security numbers.
//!
//! Groups with separators between them are a run. A find never ends the search in its run: what is found from one group may have
//! taken the head of what stands beside it. Finds that overlap are made one by the scanner.

/// Digits that stand together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    start: usize,
    end: usize,
    before: Between,
}

/// What stands between a group and the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// Something that joins no numbers.
    Apart,
    Blank,
    Hyphen,
    Point,
    Slash,
    /// Two separators or three, or a parenthesis.
    Several,
}

impl Group {
    fn digits(self) -> usize {
        self.end - self.start
    }

    fn value(self, text: &str) -> u32 {
        let digits = text[self.start..self.end].bytes();
        digits.fold(0, |sum: u32, digit| {
            sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
        })
    }
}

/// The groups of digits of a text.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

/// As many separators may stand between two groups: `) (`.
const MOST_SEPARATORS: usize = 3;

impl Groups {
    pub(super) fn read(&mut self, text: &str) {
        self.0.clear();
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(next) = bytes[at..].iter().position(u8::is_ascii_digit) {
            let start = at + next;
            let length = bytes[start..].iter().position(|byte| !byte.is_ascii_digit());
            let end = length.map_or(text.len(), |length| start + length);
            let before = match self.0.is_empty() {
                true => Between::Apart,
                false => between(&text[at..start]),
            };
            self.0.push(Group { start, end, before });
            at = end;
        }
    }

    /// Groups that are joined, together.
    pub(super) fn runs(&self) -> impl Iterator<Item = &[Group]> {
        self.0.chunk_by(|_, next| next.before != Between::Apart)
    }
}

fn between(text: &str) -> Between {
    let kind = |char| match char {
        '.' => Some(Between::Point),
        '/' => Some(Between::Slash),
        '(' | ')' => Some(Between::Several),
        _ if is_blank(char) => Some(Between::Blank),
        _ if is_hyphen(char) => Some(Between::Hyphen),
        _ => None,
    };
    let mut joined = Between::Apart;
    for (index, char) in text.chars().enumerate() {
        joined = match kind(char) {
            Some(kind) if index == 0 => kind,
            Some(_) if index < MOST_SEPARATORS => Between::Several,
            _ => return Between::Apart,
        };
    }
    joined
}

/// The blanks of one line, of any width.
pub(super) fn is_blank(char: char) -> bool {
    matches!(
        char,
        ' ' | '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

/// Hyphens, dashes and the minus.
pub(super) fn is_hyphen(char: char) -> bool {
    matches!(char, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}')
}

/// 13 to 19 digits with single blanks, hyphens or points between groups, whose check digit is right (Luhn).
pub(super) fn card(text: &str, run: &[Group], found: &mut impl FnMut(usize, usize)) {
    for first in 0..run.len() {
        let (mut digits, mut end) = (0, None);
        for (index, group) in run[first..].iter().enumerate() {
            let apart = index > 0 && !matches!(group.before, Between::Blank | Between::Hyphen | Between::Point);
            digits += group.digits();
            if apart || digits > 19 {
                break;
            }
            if digits >= 13 && luhn(&text.as_bytes()[run[first].start..group.end]) {
                end = Some(group.end);
            }
        }
        if let Some(end) = end {
            found(run[first].start, end);
        }
    }
}

/// Whether the last digit is the check digit of the others. Other bytes than digits do not count.
fn luhn(text: &[u8]) -> bool {
    let digits = text.iter().rev().filter(|byte| byte.is_ascii_digit()).enumerate();
    let sum: u32 = digits
        .map(|(place, byte)| {
            let digit = u32::from(byte - b'0') << (place % 2);
            if digit > 9 { digit - 9 } else { digit }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Four numbers up to 255 with points between them.
pub(super) fn ipv4(text: &str, run: &[Group], found: &mut impl FnMut(usize, usize)) {
    for octets in run.windows(4) {
        let points = octets[1..].iter().all(|octet| octet.before == Between::Point);
        if points
            && octets
                .iter()
                .all(|octet| octet.digits() <= 3 && octet.value(text) <= 255)
        {
            found(octets[0].start, octets[3].end);
        }
    }
}

/// Three, two and four digits with hyphens or blanks between them.
pub(super) fn ssn(_: &str, run: &[Group], found: &mut impl FnMut(usize, usize)) {
    for groups in run.windows(3) {
        let apart = |group: &Group| matches!(group.before, Between::Hyphen | Between::Blank);
        if lengths(groups, &[3, 2, 4]) && groups[1..].iter().all(apart) {
            found(groups[0].start, groups[2].end);
        }
    }
}

/// 7 to 15 digits that begin as telephone numbers do: with `+`, with 0, with an area code in parentheses; or three,
/// three and four digits, as in North America. All that follows in the run belongs to it: an extension, or further numbers,
/// whose beginnings nothing tells from the first one's end.
pub(super) fn phone(text: &str, run: &[Group], found: &mut impl FnMut(usize, usize)) {
    let Some(last) = run.last() else { return };
    let mut first = 0;
    while let Some(rest) = run.get(first..).filter(|rest| !rest.is_empty()) {
        let day = is_day(text, rest);
        if has_enough_digits(rest)
            && let Some(start) = number_start(text, rest, day)
        {
            return found(start, last.end);
        }
        first += if day { 3 } else { 1 };
    }
}

fn has_enough_digits(groups: &[Group]) -> bool {
    const LEAST: usize = 7;
    const MOST: usize = 15;
    let mut digits = 0;
    for group in groups {
        if digits + group.digits() > MOST {
            break;
        }
        digits += group.digits();
    }
    digits >= LEAST
}

/// Where the number that begins with the first of these groups starts; `None` where none does.
fn number_start(text: &str, groups: &[Group], is_day: bool) -> Option<usize> {
    let group = groups.first()?;
    let before = &text[..group.start];
    let nearer = before
        .strip_suffix(|char| char == '(' || is_blank(char))
        .unwrap_or(before);
    for before in [before, nearer] {
        if let Some(number) = before.strip_suffix(['+', '\u{ff0b}']) {
            return Some(number.len());
        }
    }
    let is_zero = text.as_bytes()[group.start] == b'0';
    let area_code = (2..=5).contains(&group.digits()) || is_zero && group.digits() == 1;
    if area_code && before.ends_with('(') && text[group.end..].starts_with(')') {
        return Some(group.start - 1);
    }
    // 0.12345678 is a fraction, 0 171 1234567 a number whose 0 stands alone.
    let stands_alone = || groups.get(1).is_some_and(|next| next.before != Between::Point);
    let national = is_zero && !is_day && (group.digits() >= 2 || stands_alone());
    (national || lengths(groups, &[3, 3, 4])).then_some(group.start)
}

/// Whether the first three groups are a day: 01.02.2024, 1/2/2024, 2024-02-01.
fn is_day(text: &str, groups: &[Group]) -> bool {
    let Some([first, second, third]) = groups.first_chunk() else {
        return false;
    };
    let separator = second.before;
    let separated = matches!(separator, Between::Point | Between::Hyphen | Between::Slash)
        && third.before == separator
        // A fourth group in the same way makes it something else.
        && groups.get(3).is_none_or(|next| next.before != separator);
    let is_year = |group: &Group| group.digits() == 4 && (1000..3000).contains(&group.value(text));
    let is_part = |group: &Group, most| group.digits() <= 2 && (1..=most).contains(&group.value(text));
    let day_and_month = |a: &Group, b: &Group| is_part(a, 31) && is_part(b, 12) || is_part(a, 12) && is_part(b, 31);
    separated && (is_year(third) && day_and_month(first, second) || is_year(first) && day_and_month(second, third))
}

/// Whether the first groups have these numbers of digits.
fn lengths(groups: &[Group], expected: &[usize]) -> bool {
    let groups = groups.get(..expected.len());
    groups.is_some_and(|groups| groups.iter().map(|group| group.digits()).eq(expected.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Find = fn(&str, &[Group], &mut dyn FnMut(usize, usize));

    /// What is found, each find by itself.
    fn all(find: Find, text: &str) -> Vec<&str> {
        let mut groups = Groups::default();
        groups.read(text);
        let mut found = Vec::new();
        for run in groups.runs() {
            find(text, run, &mut |start, end| found.push(&text[start..end]));
        }
        found
    }

    /// The text with a `#` in place of each byte that is found.
    fn left(find: Find, text: &str) -> String {
        let mut groups = Groups::default();
        groups.read(text);
        let mut bytes = text.as_bytes().to_vec();
        for run in groups.runs() {
            find(text, run, &mut |start, end| bytes[start..end].fill(b'#'));
        }
        String::from_utf8(bytes).unwrap().replace('#', "")
    }

    const CARD: Find = |text, run, mut found| card(text, run, &mut found);
    const PHONE: Find = |text, run, mut found| phone(text, run, &mut found);
    const SSN: Find = |text, run, mut found| ssn(text, run, &mut found);
    const IPV4: Find = |text, run, mut found| ipv4(text, run, &mut found);

    #[test]
    fn cards_have_a_right_check_digit() {
        for (text, found) in [
            ("card 4111 1111 1111 1111.", &["4111 1111 1111 1111"][..]),
            ("1 4111-1111-1111-1111 4", &["4111-1111-1111-1111"]),
            (
                "378282246310005,6011111111111117",
                &["378282246310005", "6011111111111117"],
            ),
            ("4111 1111 1111 1112", &[]),
            ("411111111111", &[]),
            ("41111111111111111111111111111111", &[]),
        ] {
            assert_eq!(all(CARD, text), found, "{text}");
        }
    }

    #[test]
    fn telephone_numbers_begin_as_such() {
        for (text, found) in [
            ("call +49 (0) 171 1234567 now", &["+49 (0) 171 1234567"][..]),
            ("0171/1234567, 0049-30-123456", &["0171/1234567", "0049-30-123456"]),
            ("(415) 555-2671 or 415.555.2671", &["(415) 555-2671", "415.555.2671"]),
            ("+1 415 555 2671", &["+1 415 555 2671"]),
            ("on 01.02.2024 or 2024-02-29 at 0.12345678, order 12345678", &[]),
            ("+12 345", &[]),
        ] {
            assert_eq!(all(PHONE, text), found, "{text}");
        }
    }

    #[test]
    fn social_security_numbers() {
        for (text, found) in [
            ("ssn 078-05-1120, 078 05 1120", &["078-05-1120", "078 05 1120"][..]),
            ("078\u{a0}05\u{2011}1120", &["078\u{a0}05\u{2011}1120"]),
            ("0078-05-1120 078-05-11200 078.05.1120", &[]),
        ] {
            assert_eq!(all(SSN, text), found, "{text}");
        }
    }

    /// A number that begins in the digits before must not save the end of the one beside it.
    #[test]
    fn a_card_beside_other_digits_is_found_whole() {
        for (text, rest) in [
            ("12 4111 1111 1111 1111", "12 "),
            // 14 4111 1111 1111 has 14 digits, and its check digit is right too.
            ("14 4111 1111 1111 1111", ""),
            ("row 7 4111 1111 1111 1111 12", "row 7  12"),
            ("4111 1111 1111 1111 5500 0000 0000 0004", " "),
            (
                "4111\u{a0}1111\u{202f}1111\u{2011}1111, 4111\u{2013}1111\u{2013}1111\u{2013}1111",
                ", ",
            ),
        ] {
            assert_eq!(left(CARD, text), rest, "{text}");
        }
    }

    #[test]
    fn a_telephone_number_does_not_end_where_the_next_begins() {
        for (text, rest) in [
            ("0171 1234567 / 0172 7654321", ""),
            ("06 30 1234567 / 06 20 7654321", ""),
            ("020 7946 0018 / 020 7946 0999", ""),
            ("415-555-2671 / 415-555-9999", ""),
            ("0171 1234567 - 0172 7654321 - 0173 1111111.", "."),
            ("+49 30 12345678 - 123456", ""),
            ("(030) 1234567 / 7654321, then", ", then"),
            ("0171 1234567; 7654321", "; 7654321"),
            ("Called 03.05.2024 0171/1234567", "Called 03.05.2024 "),
            ("2024-05-03 08.15 0171/1234567", "2024-05-03 "),
            ("1/2/2024 - 03/04/2024", "1/2/2024 - 03/04/2024"),
        ] {
            assert_eq!(left(PHONE, text), rest, "{text}");
        }
    }

    #[test]
    fn a_zero_may_stand_alone_and_a_day_has_its_separators() {
        for (text, found) in [
            ("(0)171 1234567", &["(0)171 1234567"][..]),
            ("0 171 1234567 and 0-171-1234567", &["0 171 1234567", "0-171-1234567"]),
            ("01 23 4567, 01-23-4567", &["01 23 4567", "01-23-4567"]),
            ("01.23.45.67.89", &["01.23.45.67.89"]),
            ("01.02.2024.5", &["01.02.2024.5"]),
            ("01 02 2024", &["01 02 2024"]),
            (
                "+\u{a0}49\u{a0}171\u{202f}1234567",
                &["+\u{a0}49\u{a0}171\u{202f}1234567"],
            ),
            ("0171\u{2010}1234567", &["0171\u{2010}1234567"]),
            ("0171 \u{2013} 1234567", &["0171 \u{2013} 1234567"]),
            ("\u{ff0b}49 171 1234567", &["\u{ff0b}49 171 1234567"]),
            ("0.12345678, 0.5 - 1.5, 31.12.1999, 12/31/1999, 0 of 1234567", &[]),
        ] {
            assert_eq!(all(PHONE, text), found, "{text}");
        }
    }

    #[test]
    fn network_addresses_may_stand_in_a_longer_row() {
        assert_eq!(left(IPV4, "1.10.0.0.1.200"), "");
        assert_eq!(left(IPV4, "10.0.0.1 10.0.0.256 10.0.0.0001"), " 10.0.0.256 10.0.0.0001");
    }

    #[test]
    fn time_grows_with_the_text_alone() {
        let text = "1 ".repeat(200_000);
        let started = std::time::Instant::now();
        let cards = "4111111111111111 ".repeat(20_000);
        assert_eq!(all(CARD, &cards).len(), 20_000);
        assert_eq!(all(PHONE, &"0171 1234567 ".repeat(20_000)).len(), 1);
        assert!(all(PHONE, &text).is_empty());
        all(CARD, &text);
        assert!(started.elapsed().as_secs() < 10);
    }
}
