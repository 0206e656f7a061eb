//! Patterns that are made of digits in groups: telephone and card numbers, IPv4 addresses, US social security numbers.

/// Digits that stand together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    start: usize,
    end: usize,
    /// Whether it goes on from the group before, with separators between them.
    joined: bool,
}

impl Group {
    fn digits(self) -> usize {
        self.end - self.start
    }
}

/// The groups of digits of a text.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

/// As many separators may stand between two groups: `) (`.
const MOST_SEPARATORS: usize = 3;

impl Groups {
    pub(super) fn read(&mut self, text: &[u8]) {
        self.0.clear();
        let mut at = 0;
        while let Some(next) = text[at..].iter().position(u8::is_ascii_digit) {
            let start = at + next;
            let length = text[start..].iter().position(|byte| !byte.is_ascii_digit());
            let end = length.map_or(text.len(), |length| start + length);
            let between = &text[at..start];
            let joined = !self.0.is_empty()
                && (1..=MOST_SEPARATORS).contains(&between.len())
                && between.iter().all(|byte| b" -./()".contains(byte));
            self.0.push(Group { start, end, joined });
            at = end;
        }
    }

    /// Groups that are joined, together.
    pub(super) fn runs(&self) -> impl Iterator<Item = &[Group]> {
        self.0.chunk_by(|_, next| next.joined)
    }
}

/// What stands between a group and the next.
fn separator<'a>(text: &'a [u8], run: &[Group], index: usize) -> &'a [u8] {
    match run.get(index..index + 2) {
        Some([group, next]) => &text[group.end..next.start],
        _ => &[],
    }
}

/// 13 to 19 digits with single blanks, hyphens or points between groups, whose check digit is right (Luhn).
pub(super) fn card(text: &[u8], run: &[Group], found: &mut impl FnMut(usize, usize)) {
    let mut first = 0;
    while first < run.len() {
        let (mut digits, mut end) = (0, None);
        for (index, group) in run.iter().enumerate().skip(first) {
            let apart = index > first && !matches!(separator(text, run, index - 1), b" " | b"-" | b".");
            digits += group.digits();
            if apart || digits > 19 {
                break;
            }
            if digits >= 13 && luhn(&text[run[first].start..group.end]) {
                end = Some(index);
            }
        }
        match end {
            Some(last) => {
                found(run[first].start, run[last].end);
                first = last + 1;
            }
            None => first += 1,
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
pub(super) fn ipv4(text: &[u8], run: &[Group], found: &mut impl FnMut(usize, usize)) {
    let is_octet = |group: &Group| {
        let digits = &text[group.start..group.end];
        digits.len() <= 3 && digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')) <= 255
    };
    let mut first = 0;
    while let Some(octets) = run.get(first..first + 4) {
        let points = (first..first + 3).all(|index| separator(text, run, index) == b".");
        if points && octets.iter().all(is_octet) {
            found(octets[0].start, octets[3].end);
            first += 4;
        } else {
            first += 1;
        }
    }
}

/// Three, two and four digits with hyphens or blanks between them.
pub(super) fn ssn(text: &[u8], run: &[Group], found: &mut impl FnMut(usize, usize)) {
    for (first, groups) in run.windows(3).enumerate() {
        let lengths = [groups[0].digits(), groups[1].digits(), groups[2].digits()];
        let apart = |index| matches!(separator(text, run, index), b"-" | b" ");
        if lengths == [3, 2, 4] && apart(first) && apart(first + 1) {
            found(groups[0].start, groups[2].end);
        }
    }
}

/// 7 to 15 digits that begin as telephone numbers do: with `+`, with 0, with an area code in parentheses; or three,
/// three and four digits, as in North America.
pub(super) fn phone(text: &[u8], run: &[Group], found: &mut impl FnMut(usize, usize)) {
    const LEAST: usize = 7;
    const MOST: usize = 15;
    let mut first = 0;
    while first < run.len() {
        let (mut digits, mut last) = (0, first);
        for (index, group) in run.iter().enumerate().skip(first) {
            digits += group.digits();
            if digits > MOST {
                digits -= group.digits();
                break;
            }
            last = index;
        }
        if digits >= LEAST
            && let Some(start) = number_start(text, run, first)
        {
            found(start, run[last].end);
            first = last + 1;
        } else {
            first += 1;
        }
    }
}

/// Where the number that begins with this group starts; `None` where none does.
fn number_start(text: &[u8], run: &[Group], first: usize) -> Option<usize> {
    let group = run[first];
    let before = |back: usize| group.start.checked_sub(back).map(|at| text[at]);
    let plus = match (before(2), before(1)) {
        (_, Some(b'+')) => Some(1),
        (Some(b'+'), Some(b'(' | b' ')) => Some(2),
        _ => None,
    };
    if let Some(back) = plus {
        return Some(group.start - back);
    }
    let in_parentheses = before(1) == Some(b'(') && text.get(group.end) == Some(&b')');
    if in_parentheses && (2..=5).contains(&group.digits()) {
        return Some(group.start - 1);
    }
    let lengths = |expected: &[usize]| {
        let groups = run.get(first..first + expected.len());
        groups.is_some_and(|groups| groups.iter().map(|group| group.digits()).eq(expected.iter().copied()))
    };
    // 01.02.2024 is a day, and 0.12345678 a fraction.
    let national = text[group.start] == b'0' && group.digits() >= 2 && !lengths(&[2, 2, 4]);
    (national || lengths(&[3, 3, 4])).then_some(group.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Find = fn(&[u8], &[Group], &mut dyn FnMut(usize, usize));

    fn all(find: Find, text: &str) -> Vec<&str> {
        let mut groups = Groups::default();
        groups.read(text.as_bytes());
        let mut found = Vec::new();
        for run in groups.runs() {
            find(text.as_bytes(), run, &mut |start, end| found.push(&text[start..end]));
        }
        found
    }

    #[test]
    fn cards_have_a_right_check_digit() {
        for (text, found) in [
            ("card 4111 1111 1111 1111.", &["4111 1111 1111 1111"][..]),
            ("1 4111-1111-1111-1111 2", &["4111-1111-1111-1111"]),
            (
                "378282246310005,6011111111111117",
                &["378282246310005", "6011111111111117"],
            ),
            ("4111 1111 1111 1112", &[]),
            ("411111111111", &[]),
            ("41111111111111111111111111111111", &[]),
        ] {
            assert_eq!(
                all(|text, run, mut found| card(text, run, &mut found), text),
                found,
                "{text}"
            );
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
            assert_eq!(
                all(|text, run, mut found| phone(text, run, &mut found), text),
                found,
                "{text}"
            );
        }
    }

    #[test]
    fn social_security_numbers() {
        for (text, found) in [
            ("ssn 078-05-1120, 078 05 1120", &["078-05-1120", "078 05 1120"][..]),
            ("0078-05-1120 078-05-11200 078.05.1120", &[]),
        ] {
            assert_eq!(
                all(|text, run, mut found| ssn(text, run, &mut found), text),
                found,
                "{text}"
            );
        }
    }

    #[test]
    fn time_grows_with_the_text_alone() {
        let text = "1 ".repeat(200_000);
        let started = std::time::Instant::now();
        assert!(all(|text, run, mut found| phone(text, run, &mut found), &text).is_empty());
        all(|text, run, mut found| card(text, run, &mut found), &text);
        assert!(started.elapsed().as_secs() < 10);
    }
}
