//! `email`: a keyed hash in place of the local part of an address; the domain stays.

use sluice_plugin::{ApplyError, Column, Keyed, Utf8Builder, Utf8View};

use crate::canonical::{Normalize, normalize};
use crate::keyed::digests;

/// E-mail addresses are compared ignoring case and outer blanks, by everybody but the standard.
const NORMALIZE: [Normalize; 3] = [Normalize::Trim, Normalize::Lower, Normalize::Nfc];
const DIGITS: usize = 16;

#[derive(Debug)]
pub(crate) struct Email {
    pub key: String,
    pub context: String,
}

impl Email {
    pub(crate) fn column(&self, keys: &impl Keyed, values: Utf8View<'_>, rows: u32) -> Result<Column, ApplyError> {
        let count = values.len();
        let mut hidden = Utf8Builder::with_capacity(count, values.text().len());
        let mut domains = Utf8Builder::with_capacity(count, values.text().len());
        for value in values.iter() {
            let Some(value) = value else {
                hidden.push_null();
                domains.push_null();
                continue;
            };
            let address = normalize(value, &NORMALIZE);
            match split(&address) {
                Some((local, domain)) => {
                    hidden.push(local);
                    domains.push(domain);
                }
                None => {
                    hidden.push(&address);
                    domains.push_null();
                }
            }
        }
        let domains = domains.finish()?;
        let domains =
            Utf8View::new(&domains, count).ok_or_else(|| ApplyError::new("internal", "the domains are no column"))?;
        let digests = digests(keys, &self.key, &self.context, rows, hidden.finish()?)?;
        let mut emails = Utf8Builder::with_capacity(count, count * DIGITS + domains.text().len() + count);
        for (row, digest) in digests.chunks_exact(32).enumerate() {
            if values.get(row).is_none() {
                emails.push_null();
                continue;
            }
            emails.append_hex(digest, DIGITS);
            if let Some(domain) = domains.get(row) {
                emails.append("@");
                emails.append(domain);
            }
            emails.end_row();
        }
        emails.finish()
    }
}

/// The local part and the domain of an address; `None` for every text that is not plainly one. What is kept of a text
/// is shown to everybody, so doubt means hiding all of it.
fn split(address: &str) -> Option<(&str, &str)> {
    let (local, domain) = address.split_once('@')?;
    (!local.is_empty() && is_domain(domain)).then_some((local, domain))
}

/// Labels of letters, digits and inner hyphens, at least two of them; the last starts with a letter and has two or
/// more characters.
fn is_domain(domain: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|char| char.is_alphanumeric() || char == '-')
    };
    let Some((_, last)) = domain.rsplit_once('.') else {
        return false;
    };
    domain.len() <= 253
        && domain.split('.').all(label)
        && last.chars().count() >= 2
        && last.starts_with(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_address_keeps_its_domain() {
        for (address, local, domain) in [
            ("anna@example.com", "anna", "example.com"),
            ("a.b+c@mail.example.co.uk", "a.b+c", "mail.example.co.uk"),
            ("x@b\u{fc}cher.example", "x", "b\u{fc}cher.example"),
            ("x@xn--bcher-kva.xn--p1ai", "x", "xn--bcher-kva.xn--p1ai"),
            ("anna maria@example.com", "anna maria", "example.com"),
        ] {
            assert_eq!(split(address), Some((local, domain)));
        }
        for text in [
            "",
            "@",
            "anna",
            "anna@",
            "@example.com",
            "a@b@example.com",
            "\"a@b\"@example.com",
            "call me @ 555-1234",
            "anna@localhost",
            "anna@192.168.0.1",
            "anna@[10.0.0.1]",
            "anna@example.com.",
            "anna@.com",
            "anna@-a.com",
            "anna@a-.com",
            "anna@ex ample.com",
            "anna@example.com and more",
            "anna@a.c",
            "anna@a.1c",
            "anna@exa\u{0}mple.com",
            "anna@example.com,b",
        ] {
            assert_eq!(split(text), None, "{text}");
        }
    }
}
