//! Where a statement ends, and what the parser says when it cannot go on.

use sqlparser::{
    parser::ParserError,
    tokenizer::{Token, TokenWithSpan},
};

use crate::{
    error::{sql_error, syntax_near},
    result::SqlError,
};

/// Reserved words that begin a statement and nothing else; a semicolon before them ends the statement before, which
/// may end in what could have an alias.
pub(super) const STARTERS: &[&str] = &[
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVE",
    "PRINT",
    "WAITFOR",
    "GRANT",
    "REVOKE",
    "DENY",
    "USE",
    "DECLARE",
    "EXEC",
    "EXECUTE",
    "RAISERROR",
    "THROW",
    "RETURN",
    "BREAK",
    "CONTINUE",
    "WHILE",
    "IF",
    "TRUNCATE",
    "CHECKPOINT",
];

pub(super) fn with_delimiters(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut depth = 0_i32;
    let mut last_word = String::new();
    let mut tokens = tokens
        .into_iter()
        .filter(|t| !matches!(t.token, Token::Whitespace(_)))
        .peekable();
    while let Some(token) = tokens.next() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(word) if word.quote_style.is_none() => {
                let upper = word.value.to_ascii_uppercase();
                // A query's OPTION (…) holds hints, which change nothing here.
                if upper == "OPTION" && depth == 0 && tokens.peek().is_some_and(|t| t.token == Token::LParen) {
                    let mut inner = 0;
                    for skipped in tokens.by_ref() {
                        match skipped.token {
                            Token::LParen => inner += 1,
                            Token::RParen => inner -= 1,
                            _ => {}
                        }
                        if inner == 0 {
                            break;
                        }
                    }
                    continue;
                }
                let starts = depth == 0
                    && STARTERS.contains(&upper.as_str())
                    && !matches!(
                        last_word.as_str(),
                        "WITH" | "AS" | "EXISTS" | "." | "INSERT" | "TO" | "TABLE" | "DATABASE" | "INTO"
                    )
                    && !(upper == "IF"
                        && matches!(
                            last_word.as_str(),
                            "TABLE"
                                | "DATABASE"
                                | "SCHEMA"
                                | "INDEX"
                                | "USER"
                                | "LOGIN"
                                | "ROLE"
                                | "COLUMN"
                                | "CONSTRAINT"
                        ))
                    && !(matches!(upper.as_str(), "EXEC" | "EXECUTE")
                        && matches!(last_word.as_str(), "INSERT" | "GRANT" | "," | ")" | "REVOKE" | "DENY"))
                    && !matches!(last_word.as_str(), "GRANT" | "REVOKE" | "DENY" | ",");
                if starts && !out.is_empty() {
                    out.push(TokenWithSpan::new(Token::SemiColon, token.span));
                }
                last_word = upper;
                out.push(token);
                continue;
            }
            _ => {}
        }
        last_word.clear();
        match token.token {
            Token::Comma => last_word.push(','),
            Token::Period => last_word.push('.'),
            Token::RParen => last_word.push(')'),
            _ => {}
        }
        out.push(token);
    }
    out
}

/// 102 (or 156) from the parser's own words, which end in the token that it found and its place.
pub(super) fn syntax_error(error: &ParserError) -> SqlError {
    let text = match error {
        ParserError::ParserError(t) | ParserError::TokenizerError(t) => t.as_str(),
        ParserError::RecursionLimitExceeded => {
            return sql_error(
                191,
                15,
                "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries.",
            );
        }
    };
    let (head, place) = text.rsplit_once(" at Line: ").unwrap_or((text, "1"));
    let token = head.rsplit_once("found: ").map_or(head, |(_, t)| t);
    let token = if token == "EOF" { "" } else { token };
    let keyword = token.len() > 1 && token.bytes().all(|b| b.is_ascii_uppercase());
    let mut found = if keyword {
        sql_error(156, 15, format!("Incorrect syntax near the keyword '{token}'."))
    } else {
        syntax_near(token)
    };
    found.line = place.split(',').next().and_then(|l| l.trim().parse().ok()).unwrap_or(1);
    found
}
