//! Transactions, variables, SET and EXEC.

use sqlparser::{
    ast::{Expr, Ident},
    keywords::Keyword,
    tokenizer::Token,
};

use super::{Batch, ExecArgument, Kind, is_reserved};
use crate::error::{SqlResult, syntax_near};

impl Batch<'_> {
    pub(super) fn begin(&mut self) -> SqlResult<Kind> {
        self.p.advance_token();
        if self.word("TRY") {
            let body = self.statements(true)?;
            self.expect_word("TRY")?;
            self.semicolons();
            if !self.words(&["BEGIN", "CATCH"]) {
                return self.unexpected();
            }
            let catch = self.statements(true)?;
            self.expect_word("CATCH")?;
            return Ok(Kind::Try { body, catch });
        }
        if matches!(self.peek_word(0).as_str(), "TRAN" | "TRANSACTION" | "DISTRIBUTED") {
            self.transaction_name();
            if self.word("WITH") {
                self.expect_word("MARK")?;
                if matches!(self.p.peek_token_ref().token, Token::SingleQuotedString(_)) {
                    self.p.advance_token();
                }
            }
            return Ok(Kind::Begin);
        }
        Ok(Kind::Block(self.statements(true)?))
    }

    /// `[TRAN[SACTION]] [name]`.
    pub(super) fn transaction_name(&mut self) -> Option<String> {
        self.word("DISTRIBUTED");
        let spelled = self.word("TRAN") || self.word("TRANSACTION");
        if !spelled {
            self.word("WORK");
            return None;
        }
        match &self.p.peek_token_ref().token {
            Token::Word(w)
                if w.quote_style.is_some()
                    || (!is_reserved(&w.value.to_ascii_uppercase()) && !w.value.eq_ignore_ascii_case("WITH")) =>
            {
                let name = w.value.clone();
                self.p.advance_token();
                Some(name)
            }
            _ => None,
        }
    }

    pub(super) fn declare(&mut self) -> SqlResult<Kind> {
        self.p.advance_token();
        let mut list = Vec::new();
        loop {
            let name = self.identifier()?;
            if !name.starts_with('@') {
                return Err(syntax_near(&name));
            }
            self.word("AS");
            if self.peek_word(0) == "TABLE" {
                return Err(crate::error::not_supported("TABLE"));
            }
            let ty = self.type_text()?;
            let value = if self.token(&Token::Eq) {
                Some(self.expr()?)
            } else {
                None
            };
            list.push((name, ty, value));
            if !self.token(&Token::Comma) {
                return Ok(Kind::Declare(list));
            }
        }
    }

    pub(super) fn set(&mut self) -> SqlResult<Kind> {
        self.p.advance_token();
        let name = self.identifier()?;
        if name.starts_with('@') {
            let op = self.assignment_operator()?;
            let value = self.expr()?;
            let value = match op {
                None => value,
                Some(op) => Expr::BinaryOp {
                    left: Box::new(Expr::Identifier(Ident::new(name.clone()))),
                    op,
                    right: Box::new(Expr::Nested(Box::new(value))),
                },
            };
            return Ok(Kind::SetVariable { name, value });
        }
        let upper = name.to_ascii_uppercase();
        let mut words = Vec::new();
        let option = match upper.as_str() {
            "TRANSACTION" => {
                if !self.words(&["ISOLATION", "LEVEL"]) {
                    return self.unexpected();
                }
                words.push(self.identifier()?);
                if matches!(words[0].to_ascii_uppercase().as_str(), "READ" | "REPEATABLE") {
                    words.push(self.identifier()?);
                }
                "ISOLATION".to_owned()
            }
            "IDENTITY_INSERT" => {
                words.push(self.name()?.join("."));
                words.push(self.identifier()?);
                upper
            }
            _ => {
                // SET ANSI_NULLS, QUOTED_IDENTIFIER ON: several options at once.
                let mut names = vec![upper];
                while self.token(&Token::Comma) {
                    names.push(self.identifier()?.to_ascii_uppercase());
                }
                if names[0] == "STATISTICS" {
                    names.push(self.identifier()?);
                }
                let negative = self.token(&Token::Minus);
                match &self.p.peek_token_ref().token {
                    Token::Number(n, _) => words.push(format!("{}{n}", if negative { "-" } else { "" })),
                    Token::Word(w) => words.push(w.value.clone()),
                    Token::SingleQuotedString(t) | Token::NationalStringLiteral(t) => words.push(t.clone()),
                    _ => return self.unexpected(),
                }
                self.p.advance_token();
                names.join(",")
            }
        };
        Ok(Kind::SetOption {
            name: option,
            value: words.join(" ").to_ascii_uppercase(),
        })
    }

    /// `=`, or `+=` and its like as the operator.
    pub(super) fn assignment_operator(&mut self) -> SqlResult<Option<sqlparser::ast::BinaryOperator>> {
        use sqlparser::ast::BinaryOperator as Op;
        if self.token(&Token::Eq) {
            return Ok(None);
        }
        let op = match &self.p.peek_token_ref().token {
            Token::Plus => Op::Plus,
            Token::Minus => Op::Minus,
            Token::Mul => Op::Multiply,
            Token::Div => Op::Divide,
            Token::Mod => Op::Modulo,
            Token::Ampersand => Op::BitwiseAnd,
            Token::Pipe => Op::BitwiseOr,
            Token::Caret => Op::BitwiseXor,
            _ => return self.unexpected(),
        };
        self.p.advance_token();
        self.expect(&Token::Eq)?;
        Ok(Some(op))
    }

    pub(super) fn execute(&mut self) -> SqlResult<Kind> {
        self.p.advance_token();
        if self.token(&Token::LParen) {
            let text = self.expr()?;
            self.expect(&Token::RParen)?;
            return Ok(Kind::ExecuteText(text));
        }
        self.call()
    }

    pub(super) fn call(&mut self) -> SqlResult<Kind> {
        let mut procedure = self.name()?;
        let mut result = None;
        if procedure.len() == 1 && procedure[0].starts_with('@') && self.token(&Token::Eq) {
            result = procedure.pop();
            procedure = self.name()?;
        }
        let mut arguments = Vec::new();
        while !matches!(self.p.peek_token_ref().token, Token::SemiColon | Token::EOF)
            && !is_reserved(&self.peek_word(0))
            || self.peek_word(0) == "NULL"
            || self.peek_word(0) == "DEFAULT"
        {
            let named = matches!(&self.p.peek_token_ref().token, Token::Word(w) if w.value.starts_with('@'))
                && self.p.peek_nth_token_ref(1).token == Token::Eq;
            let name = if named {
                let name = self.identifier()?;
                self.p.advance_token();
                Some(name)
            } else {
                None
            };
            let value = if self.word("DEFAULT") {
                None
            } else if let Token::Word(w) = &self.p.peek_token_ref().token
                && !w.value.starts_with('@')
                && w.keyword != Keyword::NULL
            {
                // A bare word is text.
                let text = w.value.clone();
                self.p.advance_token();
                Some(Expr::Value(sqlparser::ast::Value::NationalStringLiteral(text).into()))
            } else {
                let result = self.p.parse_prefix();
                Some(self.ok(result)?)
            };
            let output = self.word("OUTPUT") || self.word("OUT");
            arguments.push(ExecArgument { name, value, output });
            if !self.token(&Token::Comma) {
                break;
            }
        }
        Ok(Kind::Execute {
            result,
            procedure,
            arguments,
        })
    }
}
