//! The built-in patterns. Each is one pass over the text, in time that grows with its length alone. In doubt they find
//! more rather than less: what is not found stays in the clear.

use std::net::Ipv6Addr;

use serde::Deserialize;

use super::numbers::{Groups, card, ipv4, phone, ssn};

/// What to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pattern {
    Email,
    Phone,
    Iban,
    Card,
    Ip,
    Ssn,
}

impl Pattern {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Iban => "iban",
            Self::Card => "card",
            Self::Ip => "ip",
            Self::Ssn => "ssn",
        }
    }
}

/// Bytes of a text that are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub start: usize,
    pub end: usize,
    /// What was found; `None` by an own expression.
    pub pattern: Option<Pattern>,
}

/// Finds the spans of one text after the other, in memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    groups: Groups,
    grouped: bool,
    spans: Vec<Span>,
}

impl Scanner {
    /// Forgets the text before.
    pub(super) fn start(&mut self) {
        self.spans.clear();
        self.grouped = false;
    }

    pub(super) fn add(&mut self, start: usize, end: usize, pattern: Option<Pattern>) {
        self.spans.push(Span { start, end, pattern });
    }

    pub(super) fn find(&mut self, pattern: Pattern, text: &str) {
        let spans = &mut self.spans;
        let mut found = |start, end| {
            spans.push(Span {
                start,
                end,
                pattern: Some(pattern),
            });
        };
        match pattern {
            Pattern::Email => return email(text, found),
            Pattern::Iban => return iban(text.as_bytes(), found),
            Pattern::Ip => ipv6(text, &mut found),
            Pattern::Phone | Pattern::Card | Pattern::Ssn => {}
        }
        if !self.grouped {
            self.groups.read(text.as_bytes());
            self.grouped = true;
        }
        for run in self.groups.runs() {
            match pattern {
                Pattern::Phone => phone(text.as_bytes(), run, &mut found),
                Pattern::Card => card(text.as_bytes(), run, &mut found),
                Pattern::Ip => ipv4(text.as_bytes(), run, &mut found),
                Pattern::Ssn => ssn(text.as_bytes(), run, &mut found),
                Pattern::Email | Pattern::Iban => {}
            }
        }
    }

    /// The spans in order; where two overlap, one that covers both under the name of the first.
    pub(super) fn finish(&mut self) -> &[Span] {
        if self.spans.len() > 1 {
            self.spans.sort_by_key(|span| (span.start, usize::MAX - span.end));
            self.spans.dedup_by(|next, span| {
                let overlaps = next.start < span.end;
                if overlaps {
                    span.end = span.end.max(next.end);
                }
                overlaps
            });
        }
        &self.spans
    }
}

/// Around each `@`: what can be a local part, and a domain with a letter.
fn email(text: &str, mut found: impl FnMut(usize, usize)) {
    let mut from = 0;
    while let Some(at) = text[from..].find('@').map(|at| from + at) {
        let local = text[from..at].trim_end_matches(is_local);
        let start = from + local.len();
        let rest = &text[at + 1..];
        let domain = rest.trim_start_matches(is_domain);
        let domain = rest[..rest.len() - domain.len()].trim_end_matches(['.', '-']);
        from = at + 1;
        if start < at && domain.contains(char::is_alphabetic) {
            from += domain.len();
            found(start, from);
        }
    }
}

fn is_local(char: char) -> bool {
    char.is_alphanumeric() || ".!#$%&'*+/=?^_`{|}~-".contains(char) || is_mark(char)
}

fn is_domain(char: char) -> bool {
    char.is_alphanumeric() || char == '.' || char == '-' || is_mark(char)
}

/// The combining accents of texts in NFD.
fn is_mark(char: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&char)
}

/// Two letters and two digits, then 11 to 30 letters and digits in groups or not, whose check digits are right (ISO
/// 13616: the remainder by 97 is 1). Of several ends the last.
fn iban(text: &[u8], mut found: impl FnMut(usize, usize)) {
    const LEAST: usize = 11;
    const MOST: usize = 30;
    let mut start = 0;
    while start + 4 + LEAST <= text.len() {
        let head = &text[start..start + 4];
        let starts = head[..2].iter().all(u8::is_ascii_alphabetic)
            && head[2..].iter().all(u8::is_ascii_digit)
            && !start
                .checked_sub(1)
                .is_some_and(|before| text[before].is_ascii_alphanumeric());
        if !starts {
            start += 1;
            continue;
        }
        let tail = head.iter().fold(0, remainder);
        let (mut rest, mut count, mut at, mut end) = (0, 0, start + 4, None);
        while count < MOST {
            match text.get(at) {
                Some(byte) if byte.is_ascii_alphanumeric() => {
                    rest = remainder(rest, byte);
                    count += 1;
                    at += 1;
                }
                Some(b' ' | b'-') if text.get(at + 1).is_some_and(u8::is_ascii_alphanumeric) => at += 1,
                _ => break,
            }
            let whole = !text.get(at).is_some_and(u8::is_ascii_alphanumeric);
            // The head goes behind the rest: two letters of two digits each, and two digits.
            if whole && count >= LEAST && (rest * 1_000_000 + tail) % 97 == 1 {
                end = Some(at);
            }
        }
        match end {
            Some(end) => {
                found(start, end);
                start = end;
            }
            None => start += 1,
        }
    }
}

/// The remainder by 97 with one more digit, or a letter as two (A is 10). Letters count in either case.
fn remainder(rest: u64, byte: &u8) -> u64 {
    match byte {
        b'0'..=b'9' => (rest * 10 + u64::from(byte - b'0')) % 97,
        _ => (rest * 100 + u64::from(byte.to_ascii_uppercase().saturating_sub(b'A')) + 10) % 97,
    }
}

/// Hexadecimal digits and colons that are an IPv6 address, with an IPv4 one at its end or not.
fn ipv6(text: &str, found: &mut impl FnMut(usize, usize)) {
    const LONGEST: usize = 45;
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let bytes = text.as_bytes();
    let mut start = 0;
    while let Some(next) = bytes[start..].iter().position(is_part) {
        start += next;
        let length = bytes[start..].iter().position(|byte| !is_part(byte));
        let end = length.map_or(bytes.len(), |length| start + length);
        let colons = bytes[start..end].iter().filter(|byte| **byte == b':').count();
        let word_before = start
            .checked_sub(1)
            .is_some_and(|before| bytes[before].is_ascii_alphanumeric());
        let word_after = bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
        if colons >= 2 && !word_after {
            // A sentence may end in a point or a colon after the address.
            let run = text[start..end].trim_end_matches('.');
            // A word and a colon may lead to it: `src:fe80::1`.
            let after_colons = run.match_indices(':').map(|(at, _)| at + 1);
            let starts = (!word_before).then_some(0).into_iter().chain(after_colons);
            let address = starts.map(|at| (at, &run[at..])).find_map(|(at, rest)| {
                let shorter = rest.strip_suffix(':').unwrap_or(rest);
                let is_address = |text: &&str| (3..=LONGEST).contains(&text.len()) && text.parse::<Ipv6Addr>().is_ok();
                let address = [rest, shorter].into_iter().find(is_address)?;
                Some((start + at, start + at + address.len()))
            });
            if let Some((start, end)) = address {
                found(start, end);
            }
        }
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pattern: Pattern, text: &str) -> Vec<&str> {
        let mut scanner = Scanner::default();
        scanner.start();
        scanner.find(pattern, text);
        scanner
            .finish()
            .iter()
            .map(|span| &text[span.start..span.end])
            .collect()
    }

    #[test]
    fn addresses_inside_text() {
        for (text, found) in [
            ("write to anna@example.com.", &["anna@example.com"][..]),
            (
                "<o'brien+x@mail.example.co.uk>, b@c",
                &["o'brien+x@mail.example.co.uk", "b@c"],
            ),
            ("Zoe\u{308}@b\u{fc}cher.example!", &["Zoe\u{308}@b\u{fc}cher.example"]),
            ("a@b.example@c.example", &["a@b.example"]),
            ("50@10, @handle, a @ b, @@@", &[]),
            ("", &[]),
        ] {
            assert_eq!(all(Pattern::Email, text), found, "{text}");
        }
    }

    /// The examples of the IBAN registry.
    #[test]
    fn ibans_have_right_check_digits() {
        for (text, found) in [
            ("IBAN DE89370400440532013000, bitte", &["DE89370400440532013000"][..]),
            ("DE89 3704 0044 0532 0130 00 BITTE", &["DE89 3704 0044 0532 0130 00"]),
            ("gb29 nwbk 6016 1331 9268 19", &["gb29 nwbk 6016 1331 9268 19"]),
            ("NO9386011117947", &["NO9386011117947"]),
            ("MT84MALT011000012345MTLCAST001S.", &["MT84MALT011000012345MTLCAST001S"]),
            ("DE88370400440532013000", &[]),
            ("XDE89370400440532013000", &[]),
        ] {
            assert_eq!(all(Pattern::Iban, text), found, "{text}");
        }
    }

    #[test]
    fn network_addresses() {
        for (text, found) in [
            ("from 192.168.0.1:80", &["192.168.0.1"][..]),
            (
                "fe80::1. and 2001:db8::8a2e:370:7334: up",
                &["fe80::1", "2001:db8::8a2e:370:7334"],
            ),
            ("::ffff:10.0.0.1", &["::ffff:10.0.0.1"]),
            ("ip:fe80::1 src:fe80::2", &["fe80::1", "fe80::2"]),
            ("256.1.1.1 1.2.3 12:30:45 std::abc 00:1a:2b:3c:4d:5e", &[]),
        ] {
            assert_eq!(all(Pattern::Ip, text), found, "{text}");
        }
    }

    #[test]
    fn overlapping_finds_are_one() {
        let mut scanner = Scanner::default();
        scanner.start();
        scanner.add(5, 9, None);
        scanner.add(1, 4, Some(Pattern::Card));
        scanner.add(3, 6, Some(Pattern::Phone));
        scanner.add(9, 10, None);
        let spans = scanner.finish();
        assert_eq!(spans.len(), 2);
        assert_eq!(
            (spans[0].start, spans[0].end, spans[0].pattern),
            (1, 9, Some(Pattern::Card))
        );
        assert_eq!((spans[1].start, spans[1].end), (9, 10));
    }
}
