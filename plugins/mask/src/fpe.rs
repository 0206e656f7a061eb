//! `fpe`: format-preserving encryption. The characters of an alphabet are encrypted, the others stay or are an error.

use serde::Deserialize;
use sluice_plugin::{ApplyError, Batch, Column, DataType, Ff1Status, Keyed, OpenError, Utf8Builder, Utf8View};

use crate::canonical::{self, Normalize};
use crate::keyed::{malformed, refused};
use crate::rejects::Rejects;

const TOO_SHORT: &str = "fpe-too-short";
const TOO_LONG: &str = "fpe-too-long";
const FOREIGN: &str = "fpe-foreign-character";
const MOST_TWEAK_BYTES: usize = 256;
const MOST_CHARACTERS: usize = 1 << 16;

const DIGITS: &str = "0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    pub key: String,
    #[serde(default)]
    pub context: String,
    pub alphabet: Option<Named>,
    pub characters: Option<String>,
    #[serde(default)]
    pub others: Others,
    #[serde(default)]
    pub normalize: Vec<Normalize>,
}

/// An alphabet with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Named {
    Digits,
    Lower,
    Upper,
    Letters,
    Alphanumeric,
}

/// What becomes of characters that are not in the alphabet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Others {
    Keep,
    #[default]
    Reject,
}

impl Named {
    fn characters(self) -> String {
        match self {
            Self::Digits => DIGITS.to_owned(),
            Self::Lower => LOWER.to_owned(),
            Self::Upper => UPPER.to_owned(),
            Self::Letters => [UPPER, LOWER].concat(),
            Self::Alphanumeric => [DIGITS, UPPER, LOWER].concat(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Lower => "lower-case letters",
            Self::Upper => "upper-case letters",
            Self::Letters => "letters",
            Self::Alphanumeric => "digits and letters",
        }
    }
}

impl Options {
    pub(crate) fn check(&self, path: &str) -> Result<(), OpenError> {
        if self.context.len() > MOST_TWEAK_BYTES {
            return Err(OpenError::config(
                format!("{path}.context"),
                format!("expected at most {MOST_TWEAK_BYTES} bytes"),
            ));
        }
        let Some(characters) = &self.characters else {
            return match self.alphabet {
                Some(_) => Ok(()),
                None => Err(OpenError::config(path, "`fpe` needs either `alphabet` or `characters`")),
            };
        };
        if self.alphabet.is_some() {
            return Err(OpenError::config(path, "`fpe` needs either `alphabet` or `characters`"));
        }
        let count = characters.chars().count();
        let mut sorted: Vec<char> = characters.chars().collect();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() == count && (2..=MOST_CHARACTERS).contains(&count) {
            return Ok(());
        }
        Err(OpenError::config(
            format!("{path}.characters"),
            format!("expected 2 to {MOST_CHARACTERS} characters, each once"),
        ))
    }
}

#[derive(Debug)]
pub(crate) struct Fpe {
    key: String,
    tweak: Vec<u8>,
    alphabet: String,
    members: Members,
    others: Others,
    normalize: Vec<Normalize>,
    how: String,
}

impl Fpe {
    pub(crate) fn new(options: &Options) -> Self {
        let (alphabet, name) = match (&options.characters, options.alphabet) {
            (Some(characters), _) => (characters.clone(), "an own alphabet"),
            (None, named) => {
                let named = named.unwrap_or(Named::Digits);
                (named.characters(), named.name())
            }
        };
        let others = match options.others {
            Others::Keep => ", other characters kept",
            Others::Reject => "",
        };
        Self {
            key: options.key.clone(),
            tweak: options.context.clone().into_bytes(),
            members: Members::of(&alphabet),
            alphabet,
            others: options.others,
            normalize: options.normalize.clone(),
            how: format!("format-preserving encryption of {name}{others}"),
        }
    }

    pub(crate) fn how(&self) -> String {
        self.how.clone()
    }

    pub(crate) fn column(
        &self,
        keys: &impl Keyed,
        batch: &Batch,
        read: usize,
        rejects: &mut Rejects<'_>,
    ) -> Result<Column, ApplyError> {
        let rows = batch.rows as usize;
        let texts = canonical::column(batch, read, DataType::Utf8, &self.normalize)?;
        let texts = Utf8View::new(&texts, rows).ok_or_else(malformed)?;
        let plain = self.plain(texts, rejects)?;
        let answer = keys
            .ff1_encrypt(&self.key, &self.tweak, &self.alphabet, batch.rows, plain)
            .map_err(refused)?;
        let encrypted = Utf8View::new(&answer.values, rows).ok_or_else(malformed)?;
        if answer.status.len() != rows {
            return Err(malformed());
        }
        let mut result = Utf8Builder::with_capacity(rows, texts.text().len());
        for (row, (text, status)) in texts.iter().zip(answer.status).enumerate() {
            let Some(text) = text else {
                result.push_null();
                continue;
            };
            let code = match status {
                Ff1Status::Done => None,
                Ff1Status::TooShort => Some(TOO_SHORT),
                Ff1Status::TooLong => Some(TOO_LONG),
                Ff1Status::ForeignCharacter => Some(FOREIGN),
            };
            if let Some(code) = code {
                rejects.push(row, code);
            }
            match encrypted.get(row) {
                Some(encrypted) => self.put_back(&mut result, text, encrypted),
                // Nothing stands in a row that is rejected, here or in `plain`.
                None => result.push(""),
            }
        }
        result.finish()
    }

    /// The characters that are encrypted; NULL where a row was rejected for the others.
    fn plain(&self, texts: Utf8View<'_>, rejects: &mut Rejects<'_>) -> Result<Column, ApplyError> {
        let mut plain = Utf8Builder::with_capacity(texts.len(), texts.text().len());
        for (row, text) in texts.iter().enumerate() {
            let Some(text) = text else {
                plain.push_null();
                continue;
            };
            if text.chars().all(|char| self.members.have(char)) {
                plain.push(text);
                continue;
            }
            if self.others == Others::Reject {
                rejects.push(row, FOREIGN);
                plain.push_null();
                continue;
            }
            text.split(|char| !self.members.have(char))
                .for_each(|piece| plain.append(piece));
            plain.end_row();
        }
        plain.finish()
    }

    /// Puts encrypted characters where those of the alphabet stood.
    fn put_back(&self, to: &mut Utf8Builder, text: &str, encrypted: &str) {
        let mut encrypted = encrypted.chars();
        let mut buffer = [0; 4];
        for char in text.chars() {
            let char = if self.members.have(char) {
                encrypted.next().unwrap_or_default()
            } else {
                char
            };
            to.append(char.encode_utf8(&mut buffer));
        }
        to.end_row();
    }
}

/// Which characters an alphabet has.
#[derive(Debug)]
struct Members {
    ascii: [bool; 128],
    /// The others, sorted.
    others: Vec<char>,
}

impl Members {
    fn of(alphabet: &str) -> Self {
        let mut members = Self {
            ascii: [false; 128],
            others: Vec::new(),
        };
        for char in alphabet.chars() {
            match members.ascii.get_mut(char as usize) {
                Some(member) => *member = true,
                None => members.others.push(char),
            }
        }
        members.others.sort_unstable();
        members
    }

    #[inline]
    fn have(&self, char: char) -> bool {
        match self.ascii.get(char as usize) {
            Some(member) => *member,
            None => self.others.binary_search(&char).is_ok(),
        }
    }
}
