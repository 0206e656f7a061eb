//! `redact`: patterns inside free text replaced, by a constant or by a keyed token of what stood there.

mod numbers;
mod patterns;

use regex_lite::{Regex, RegexBuilder};
use serde::Deserialize;
use sluice_plugin::{ApplyError, Column, Keyed, OpenError, Utf8Builder, Utf8View};

use crate::canonical::{Normalize, normalize};
use crate::keyed::digests;
use crate::token::{self, Token};
pub(crate) use patterns::Pattern;
use patterns::{Scanner, Span};

/// Compiled, an expression may have this many bytes.
const EXPRESSION_BYTES: usize = 1 << 20;
const MOST_EXPRESSIONS: usize = 100;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    #[serde(default)]
    pub patterns: Vec<Pattern>,
    #[serde(default)]
    pub expressions: Vec<String>,
    pub replacement: Option<String>,
    pub key: Option<String>,
    pub context: Option<String>,
    pub prefix: Option<String>,
    pub length: Option<usize>,
    pub normalize: Option<Vec<Normalize>>,
}

impl Options {
    pub(crate) fn check(&self, path: &str) -> Result<(), OpenError> {
        if self.patterns.is_empty() && self.expressions.is_empty() {
            return Err(OpenError::config(path, "`redact` needs `patterns` or `expressions`"));
        }
        for (index, pattern) in self.patterns.iter().enumerate() {
            if self.patterns[..index].contains(pattern) {
                return Err(OpenError::config(
                    format!("{path}.patterns[{index}]"),
                    "it stands there twice",
                ));
            }
        }
        if self.expressions.len() > MOST_EXPRESSIONS {
            return Err(OpenError::config(
                format!("{path}.expressions"),
                format!("expected at most {MOST_EXPRESSIONS}"),
            ));
        }
        for (index, text) in self.expressions.iter().enumerate() {
            let path = || format!("{path}.expressions[{index}]");
            match expression(text) {
                Err(error) => return Err(OpenError::config(path(), error.to_string())),
                Ok(regex) if regex.is_match("") => {
                    return Err(OpenError::config(
                        path(),
                        "it matches the empty text, and so everywhere",
                    ));
                }
                Ok(_) => {}
            }
        }
        match self.token() {
            Some(_) if self.replacement.is_some() => Err(OpenError::config(
                format!("{path}.replacement"),
                "what is found becomes a token, as there is a `key`; give one of the two",
            )),
            Some(token) => token.check(path),
            None => self.check_without_key(path),
        }
    }

    fn check_without_key(&self, path: &str) -> Result<(), OpenError> {
        let given = [
            ("context", self.context.is_some()),
            ("prefix", self.prefix.is_some()),
            ("length", self.length.is_some()),
            ("normalize", self.normalize.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(OpenError::config(
                format!("{path}.{name}"),
                "it goes with `key`, which is missing",
            )),
            None => Ok(()),
        }
    }

    /// How tokens are made, where there is a key.
    fn token(&self) -> Option<Token> {
        Some(Token {
            key: self.key.clone()?,
            context: self.context.clone().unwrap_or_default(),
            prefix: self.prefix.clone().unwrap_or_default(),
            length: self.length.unwrap_or_else(token::length),
            normalize: self.normalize.clone().unwrap_or_default(),
        })
    }
}

/// Time that grows with the text alone: no expression backtracks.
fn expression(text: &str) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(text).size_limit(EXPRESSION_BYTES).build()
}

#[derive(Debug)]
pub(crate) struct Redact {
    patterns: Vec<Pattern>,
    expressions: Vec<Regex>,
    replacement: Option<String>,
    token: Option<Token>,
}

impl Redact {
    pub(crate) fn new(options: &Options) -> Self {
        let mut patterns = options.patterns.clone();
        // Of two names for one find that of the narrower pattern stands.
        patterns.sort_by_key(|pattern| *pattern == Pattern::Phone);
        Self {
            patterns,
            // Each was compiled before, by `check`.
            expressions: options.expressions.iter().flat_map(|text| expression(text)).collect(),
            replacement: options.replacement.clone(),
            token: options.token(),
        }
    }

    pub(crate) fn how(&self) -> String {
        let mut names: Vec<&str> = self.patterns.iter().map(|pattern| pattern.name()).collect();
        if !self.expressions.is_empty() {
            names.push("own expressions");
        }
        let what = if self.token.is_some() {
            "keyed token"
        } else {
            "constant"
        };
        format!("{} replaced inside text by a {what}", names.join(", "))
    }

    pub(crate) fn column(&self, keys: &impl Keyed, values: Utf8View<'_>) -> Result<Column, ApplyError> {
        match &self.token {
            Some(token) => self.tokens(token, keys, values),
            None => self.constants(values),
        }
    }

    fn constants(&self, values: Utf8View<'_>) -> Result<Column, ApplyError> {
        let mut redacted = Utf8Builder::with_capacity(values.len(), values.text().len());
        let mut scanner = Scanner::default();
        for value in values.iter() {
            let Some(value) = value else {
                redacted.push_null();
                continue;
            };
            let mut from = 0;
            for span in self.spans(&mut scanner, value) {
                redacted.append(&value[from..span.start]);
                match (&self.replacement, span.pattern) {
                    (Some(replacement), _) => redacted.append(replacement),
                    (None, Some(pattern)) => {
                        redacted.append("[");
                        redacted.append(pattern.name());
                        redacted.append("]");
                    }
                    (None, None) => redacted.append("[redacted]"),
                }
                from = span.end;
            }
            redacted.append(&value[from..]);
            redacted.end_row();
        }
        redacted.finish()
    }

    fn tokens(&self, token: &Token, keys: &impl Keyed, values: Utf8View<'_>) -> Result<Column, ApplyError> {
        let mut scanner = Scanner::default();
        let mut found = Utf8Builder::with_capacity(0, 0);
        let mut spans: Vec<(usize, Span)> = Vec::new();
        for (row, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            for span in self.spans(&mut scanner, value) {
                found.push(&normalize(&value[span.start..span.end], &token.normalize));
                spans.push((row, *span));
            }
        }
        let count = u32::try_from(spans.len())
            .map_err(|_| ApplyError::new("redact-too-many", "there are more finds than 32 bits count"))?;
        let digests = if count == 0 {
            Vec::new()
        } else {
            digests(keys, &token.key, &token.context, count, found.finish()?)?
        };
        let text = token.text();
        let mut spans = spans.iter().zip(digests.chunks_exact(32)).peekable();
        let mut redacted = Utf8Builder::with_capacity(values.len(), values.text().len());
        for (row, value) in values.iter().enumerate() {
            let Some(value) = value else {
                redacted.push_null();
                continue;
            };
            let mut from = 0;
            while let Some(((_, span), digest)) = spans.next_if(|((of, _), _)| *of == row) {
                redacted.append(&value[from..span.start]);
                text.append(&mut redacted, digest);
                from = span.end;
            }
            redacted.append(&value[from..]);
            redacted.end_row();
        }
        redacted.finish()
    }

    /// What is found in a text, in order and apart from one another.
    fn spans<'a>(&self, scanner: &'a mut Scanner, text: &str) -> &'a [Span] {
        scanner.start();
        for pattern in &self.patterns {
            scanner.find(*pattern, text);
        }
        for expression in &self.expressions {
            for found in expression.find_iter(text).filter(|found| !found.is_empty()) {
                scanner.add(found.start(), found.end(), None);
            }
        }
        scanner.finish()
    }
}
