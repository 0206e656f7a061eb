//! DDL without what may be data: it is shown in events and facts, and a default can be a value of a row.

use std::iter::Peekable;
use std::str::Chars;

/// Stands for a literal, and for all that follows where it is not sure where one ends.
const HIDDEN: char = '…';

/// A statement in one line, without comments, and with `…` for each of its literals: text, and numbers that a DEFAULT, a CHECK
/// or a computed column has. From a quote or comment on that does not close, nothing is shown.
pub(super) fn without_literals(statement: &str) -> String {
    let mut out = String::with_capacity(statement.len());
    let mut rest = statement.chars().peekable();
    // How deep the brackets are in which an expression began that can hold values.
    let mut expression = None;
    let mut depth = 0usize;
    let mut word = String::new();
    while let Some(character) = rest.next() {
        if !is_of_word(character) {
            if matches!(word.as_str(), "DEFAULT" | "CHECK" | "AS") {
                expression = Some(expression.map_or(depth, |began: usize| began.min(depth)));
            }
            word.clear();
        }
        match character {
            '\'' => {
                // One that does not close takes all that is left.
                quoted(&mut rest, '\'');
                out.push(HIDDEN);
            }
            // With QUOTED_IDENTIFIER OFF, text.
            '"' if expression.is_some() => {
                quoted(&mut rest, '"');
                out.push(HIDDEN);
            }
            '[' | '"' => match quoted(&mut rest, if character == '[' { ']' } else { '"' }) {
                Some(name) => {
                    out.push(character);
                    out.push_str(&name);
                }
                None => out.push(HIDDEN),
            },
            '-' if rest.next_if_eq(&'-').is_some() => {
                if !skip_line(&mut rest) {
                    out.push(HIDDEN);
                    break;
                }
            }
            '/' if rest.next_if_eq(&'*').is_some() => {
                space(&mut out);
                if !skip_comment(&mut rest) {
                    out.push(HIDDEN);
                }
            }
            '(' => {
                depth += 1;
                out.push(character);
            }
            ')' => {
                depth = depth.saturating_sub(1);
                expression = expression.filter(|began| depth >= *began);
                out.push(character);
            }
            ',' => {
                expression = expression.filter(|began| depth > *began);
                out.push(character);
            }
            digit if expression.is_some() && digit.is_ascii_digit() && word.is_empty() => {
                while rest.next_if(|next| is_of_word(*next) || *next == '.').is_some() {}
                out.push(HIDDEN);
            }
            blank if blank.is_whitespace() => space(&mut out),
            other => {
                if is_of_word(other) {
                    word.push(other.to_ascii_uppercase());
                }
                out.push(other);
            }
        }
    }
    out.trim().to_owned()
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// One blank, where there is none.
fn space(out: &mut String) {
    if !out.ends_with(' ') {
        out.push(' ');
    }
}

/// Takes everything up to and with a closing mark, which stands doubled inside; what was taken. `None`: it does not close.
fn quoted(rest: &mut Peekable<Chars<'_>>, close: char) -> Option<String> {
    let mut taken = String::new();
    while let Some(inner) = rest.next() {
        taken.push(inner);
        if inner == close {
            match rest.next_if_eq(&close) {
                Some(doubled) => taken.push(doubled),
                None => return Some(taken),
            }
        }
    }
    None
}

/// Takes the rest of a comment, with those inside of it: they nest in T-SQL. Whether it closes.
fn skip_comment(rest: &mut Peekable<Chars<'_>>) -> bool {
    let mut open = 1usize;
    while let Some(inner) = rest.next() {
        match inner {
            '*' if rest.next_if_eq(&'/').is_some() => open -= 1,
            '/' if rest.next_if_eq(&'*').is_some() => open += 1,
            _ => {}
        }
        if open == 0 {
            return true;
        }
    }
    false
}

/// Takes the rest of a line. `false` where its end is not sure: Microsoft's page says "newline", which a carriage return
/// alone may be or not.
fn skip_line(rest: &mut Peekable<Chars<'_>>) -> bool {
    while let Some(inner) = rest.next_if(|next| *next != '\n') {
        if inner == '\r' && rest.peek().is_some_and(|next| *next != '\n') {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_shown_without_its_literals() {
        for (statement, shown) in [
            (
                "ALTER TABLE dbo.t\n  ADD note nvarchar(50) NULL",
                "ALTER TABLE dbo.t ADD note nvarchar(50) NULL",
            ),
            (
                "ALTER TABLE [dbo].[it's] ADD mail varchar(80) NOT NULL DEFAULT 'ann''s@example.com'",
                "ALTER TABLE [dbo].[it's] ADD mail varchar(80) NOT NULL DEFAULT …",
            ),
            (
                "ALTER TABLE t ADD n decimal(9,2) DEFAULT (12.50), b2 int",
                "ALTER TABLE t ADD n decimal(9,2) DEFAULT (…), b2 int",
            ),
            (
                "ALTER TABLE t ALTER COLUMN amount decimal(18, 4)",
                "ALTER TABLE t ALTER COLUMN amount decimal(18, 4)",
            ),
            (
                "ALTER TABLE t ADD bin varbinary(4) DEFAULT 0xC0FFEE",
                "ALTER TABLE t ADD bin varbinary(4) DEFAULT …",
            ),
        ] {
            assert_eq!(without_literals(statement), shown);
        }
    }

    #[test]
    fn comments_are_left_out_whatever_quotes_they_have() {
        for (statement, shown) in [
            (
                "ALTER TABLE t ADD a int -- it's\r\nNULL, b int",
                "ALTER TABLE t ADD a int NULL, b int",
            ),
            (
                "ALTER TABLE t ADD a int NULL /* it's */ DEFAULT 'x'",
                "ALTER TABLE t ADD a int NULL DEFAULT …",
            ),
            (
                "ALTER TABLE t ADD a int NULL /* /* a */ it's */ DEFAULT 'ann@example.com'",
                "ALTER TABLE t ADD a int NULL DEFAULT …",
            ),
            ("ALTER TABLE t /*/*/ it's **/*/ ADD a int", "ALTER TABLE t ADD a int"),
            (
                "ALTER TABLE t ADD a int DEFAULT/**/5",
                "ALTER TABLE t ADD a int DEFAULT …",
            ),
        ] {
            assert_eq!(without_literals(statement), shown, "{statement}");
        }
    }

    #[test]
    fn nothing_is_shown_from_a_quote_or_comment_on_that_does_not_close() {
        for (statement, shown) in [
            (
                "ALTER TABLE t ADD a int DEFAULT 'x''",
                "ALTER TABLE t ADD a int DEFAULT …",
            ),
            (
                "ALTER TABLE t ADD a int DEFAULT \"x",
                "ALTER TABLE t ADD a int DEFAULT …",
            ),
            ("ALTER TABLE [t ADD a int DEFAULT 'x'", "ALTER TABLE …"),
            ("ALTER TABLE \"t ADD a int DEFAULT 'x'", "ALTER TABLE …"),
            ("ALTER TABLE t /* /* a */ DEFAULT 'x'", "ALTER TABLE t …"),
            // Nobody says whether the comment ends with the carriage return.
            ("ALTER TABLE t -- it's\rADD a int DEFAULT 'x'", "ALTER TABLE t …"),
        ] {
            assert_eq!(without_literals(statement), shown, "{statement}");
        }
    }
}
