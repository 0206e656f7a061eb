//! The built-in patterns. Each is one pass over the text, in time that grows with its length alone. In doubt they find
//! more rather than less: what is not found stays in the clear.

use std::net::Ipv6Addr;

use serde::Deserialize;

use super::numbers::{Groups, card, ipv4, is_blank, is_hyphen, phone, ssn};

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
            Pattern::Iban => return iban(text, found),
            Pattern::Ip => ipv6(text, &mut found),
            Pattern::Phone | Pattern::Card | Pattern::Ssn => {}
        }
        if !self.grouped {
            self.groups.read(text);
            self.grouped = true;
        }
        for run in self.groups.runs() {
            match pattern {
                Pattern::Phone => phone(text, run, &mut found),
                Pattern::Card => card(text, run, &mut found),
                Pattern::Ip => ipv4(text, run, &mut found),
                Pattern::Ssn => ssn(text, run, &mut found),
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

/// Around each `@`: what can be a local part, and a domain with a letter. What stands between two `@` may be either.
fn email(text: &str, mut found: impl FnMut(usize, usize)) {
    let mut from = 0;
    // Where the local part before the last `@` began.
    let mut chain = None;
    while let Some((at, sign)) = text[from..].char_indices().find(|(_, char)| is_at(*char)) {
        let at = from + at;
        let start = match local_start(text, from, at) {
            start if start == from => chain.unwrap_or(start),
            start => start,
        };
        from = at + sign.len_utf8();
        let rest = &text[from..];
        let domain = rest.trim_start_matches(is_domain);
        let domain = rest[..rest.len() - domain.len()].trim_end_matches(['.', '\u{ff0e}', '-']);
        chain = (start < at).then_some(start);
        if start < at && domain.contains(char::is_alphabetic) {
            found(start, from + domain.len());
        }
    }
}

/// Where the local part that ends at `at` starts. Only one in quotes may reach back over `from`, the end of the last `@`.
fn local_start(text: &str, from: usize, at: usize) -> usize {
    // Bytes of a local part in quotes that are looked at: four times what a mail server takes.
    const LONGEST: usize = 256;
    let Some(inside) = text[..at].strip_suffix('"') else {
        return from + text[from..at].trim_end_matches(is_local).len();
    };
    let least = (inside.len().saturating_sub(LONGEST)..=inside.len())
        .find(|&least| inside.is_char_boundary(least))
        .unwrap_or(inside.len());
    let mut quotes = inside[least..].rmatch_indices('"').map(|(quote, _)| least + quote);
    match quotes.find(|&quote| !inside[..quote].ends_with('\\')) {
        Some(quote) => quote,
        // It was never opened, and is no more than a stray character at the end.
        None => {
            let local = text.get(from..inside.len()).unwrap_or_default();
            let before = local.trim_end_matches(is_local);
            if before == local { at } else { from + before.len() }
        }
    }
}

/// `@`, also as wide as a Chinese character or small.
fn is_at(char: char) -> bool {
    matches!(char, '@' | '\u{ff20}' | '\u{fe6b}')
}

fn is_local(char: char) -> bool {
    char.is_alphanumeric() || ".!#$%&'*+/=?^_`{|}~-\u{ff0e}".contains(char) || is_mark(char)
}

fn is_domain(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '.' | '\u{ff0e}' | '-') || is_mark(char)
}

/// The combining accents of texts in NFD.
fn is_mark(char: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&char)
}

/// Two letters and two digits, then 11 to 30 letters and digits in groups or not, whose check digits are right (ISO
/// 13616: the remainder by 97 is 1). Of several ends the last.
fn iban(text: &str, mut found: impl FnMut(usize, usize)) {
    const LEAST: usize = 11;
    const MOST: usize = 30;
    let bytes = text.as_bytes();
    let is_word = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    // A find does not end the search: by chance its check digits may be right beyond its end, in the next one's head.
    for start in 0..bytes.len().saturating_sub(3 + LEAST) {
        let head = &bytes[start..start + 4];
        let starts = head[..2].iter().all(u8::is_ascii_alphabetic)
            && head[2..].iter().all(u8::is_ascii_digit)
            && !start.checked_sub(1).is_some_and(is_word);
        if !starts {
            continue;
        }
        let tail = head.iter().fold(0, remainder);
        let (mut rest, mut count, mut at, mut end) = (0, 0, start + 4, None);
        while count < MOST {
            match bytes.get(at) {
                Some(byte) if byte.is_ascii_alphanumeric() => {
                    rest = remainder(rest, byte);
                    count += 1;
                    at += 1;
                }
                // After letters and digits of ASCII a character begins.
                Some(_) => match text[at..].chars().next() {
                    Some(char) if (is_blank(char) || is_hyphen(char)) && is_word(at + char.len_utf8()) => {
                        at += char.len_utf8();
                    }
                    _ => break,
                },
                None => break,
            }
            // The head goes behind the rest: two letters of two digits each, and two digits.
            if !is_word(at) && count >= LEAST && (rest * 1_000_000 + tail) % 97 == 1 {
                end = Some(at);
            }
        }
        if let Some(end) = end {
            found(start, end);
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
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    let bytes = text.as_bytes();
    let mut start = 0;
    while let Some(next) = bytes[start..].iter().position(is_part) {
        start += next;
        let length = bytes[start..].iter().position(|byte| !is_part(byte));
        let end = length.map_or(bytes.len(), |length| start + length);
        if bytes[start..end].iter().filter(|byte| **byte == b':').count() >= 2 {
            ipv6_within(text, start, end, found);
        }
        start = end;
    }
}

/// The addresses in a run of hexadecimal digits, colons and points.
fn ipv6_within(text: &str, start: usize, end: usize, found: &mut impl FnMut(usize, usize)) {
    const LEAST: usize = 3;
    const LONGEST: usize = 45;
    let bytes = text.as_bytes();
    let is_word = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    // A word and a colon may lead to an address: `src:fe80::1`.
    let can_start = |at: usize| match at.checked_sub(1) {
        Some(before) => matches!(bytes[before], b':' | b'.') || at == start && !is_word(before),
        None => true,
    };
    // A sentence may end in a point after it, with or without a blank before the next, or in a colon.
    let can_end = |at: usize| match bytes.get(at) {
        Some(b'.') => true,
        Some(b':') => at + 1 == end,
        _ => at == end && !is_word(at),
    };
    let mut from = start;
    while from < end {
        let ends = (from + LEAST..=end.min(from + LONGEST)).rev();
        let address = ends
            .filter(|&at| can_start(from) && can_end(at))
            .find(|&at| text[from..at].parse::<Ipv6Addr>().is_ok());
        match address {
            Some(at) => {
                found(from, at);
                from = at;
            }
            None => from += 1,
        }
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
            ("a@b.example@c.example", &["a@b.example@c.example"]),
            ("x@anna.smith@example.com", &["x@anna.smith@example.com"]),
            (
                "anna@1@example.com, @anna@example.com",
                &["anna@1@example.com", "anna@example.com"],
            ),
            (
                r#"to "john smith"@example.com, "a@\"b"@example.org"#,
                &[r#""john smith"@example.com"#, r#""a@\"b"@example.org"#],
            ),
            (r#"john"@example.com"#, &[r#"john"@example.com"#]),
            (r#""@example.com"#, &[]),
            (
                "anna\u{ff20}example\u{ff0e}com, b\u{fe6b}c.example",
                &["anna\u{ff20}example\u{ff0e}com", "b\u{fe6b}c.example"],
            ),
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
            (
                "DE89\u{a0}3704\u{a0}0044\u{202f}0532\u{2011}0130\u{2013}00\u{a0}",
                &["DE89\u{a0}3704\u{a0}0044\u{202f}0532\u{2011}0130\u{2013}00"],
            ),
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
            (
                "fe80::1.The next, fe80::2.Bad fe80::3.fe80::4 fe80::5:up",
                &["fe80::1", "fe80::2", "fe80::3", "fe80::4", "fe80::5"],
            ),
            ("::ffff:10.0.0.1.Then", &["::ffff:10.0.0.1"]),
            ("ip:fe80::1 src:fe80::2", &["fe80::1", "fe80::2"]),
            ("256.1.1.1 1.2.3 12:30:45 std::abc 00:1a:2b:3c:4d:5e", &[]),
        ] {
            assert_eq!(all(Pattern::Ip, text), found, "{text}");
        }
    }

    #[test]
    fn time_grows_with_the_text_alone() {
        let started = std::time::Instant::now();
        for (pattern, text) in [
            (Pattern::Email, r#"a"@"#.repeat(100_000)),
            (
                Pattern::Email,
                format!("{}{}", "\"\\".repeat(50_000), "@\"".repeat(50_000)),
            ),
            (Pattern::Iban, "DE89 ".repeat(50_000)),
            (Pattern::Ip, ":.".repeat(50_000)),
            (Pattern::Ip, "1:".repeat(100_000)),
            (Pattern::Ip, "fe80::1.".repeat(20_000)),
            (Pattern::Ip, "1.".repeat(100_000)),
        ] {
            all(pattern, &text);
        }
        assert!(started.elapsed().as_secs() < 20);
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
