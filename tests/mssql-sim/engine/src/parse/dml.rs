//! INSERT, UPDATE and DELETE.

use sqlparser::{
    ast::{Expr, Ident, Query, SelectItem, TableWithJoins, Value as Literal},
    keywords::Keyword,
    tokenizer::Token,
};

use super::{Batch, Kind};
use crate::error::{SqlResult, not_supported};

/// `INSERT [TOP (n)] [INTO] table [(columns)] [OUTPUT …] source`.
#[derive(Debug, Clone)]
pub struct Insert {
    pub table: Vec<String>,
    pub columns: Option<Vec<String>>,
    pub output: Vec<SelectItem>,
    pub source: InsertSource,
}

/// Where the rows come from.
#[derive(Debug, Clone)]
pub enum InsertSource {
    /// `None` stands for DEFAULT.
    Values(Vec<Vec<Option<Expr>>>),
    Query(Box<Query>),
    DefaultValues,
}

/// `UPDATE [TOP (n)] target SET … [OUTPUT …] [FROM …] [WHERE …]`.
#[derive(Debug, Clone)]
pub struct Update {
    pub target: Vec<String>,
    pub top: Option<Expr>,
    /// Column, value; `None` is DEFAULT.
    pub assignments: Vec<(Vec<String>, Option<Expr>)>,
    pub output: Vec<SelectItem>,
    pub from: Vec<TableWithJoins>,
    pub filter: Option<Expr>,
}

/// `DELETE [TOP (n)] [FROM] target [OUTPUT …] [FROM …] [WHERE …]`.
#[derive(Debug, Clone)]
pub struct Delete {
    pub target: Vec<String>,
    pub top: Option<Expr>,
    pub output: Vec<SelectItem>,
    pub from: Vec<TableWithJoins>,
    pub filter: Option<Expr>,
}

impl Batch<'_> {
    fn top(&mut self) -> SqlResult<Option<Expr>> {
        if !self.word("TOP") {
            return Ok(None);
        }
        self.expect(&Token::LParen)?;
        let n = self.expr()?;
        self.expect(&Token::RParen)?;
        if self.peek_word(0) == "PERCENT" {
            return Err(not_supported("PERCENT"));
        }
        Ok(Some(n))
    }

    fn output(&mut self) -> SqlResult<Vec<SelectItem>> {
        if !self.word("OUTPUT") {
            return Ok(Vec::new());
        }
        let items = self.select_items()?;
        if self.peek_word(0) == "INTO" {
            return Err(not_supported("INTO"));
        }
        Ok(items)
    }

    fn hints(&mut self) -> SqlResult<()> {
        if self.peek_word(0) == "WITH" && self.p.peek_nth_token_ref(1).token == Token::LParen {
            self.p.advance_token();
            self.skip_parentheses()?;
        }
        Ok(())
    }

    pub(super) fn insert(&mut self) -> SqlResult<Kind> {
        self.p.advance_token();
        if self.peek_word(0) == "TOP" {
            return Err(not_supported("TOP"));
        }
        self.word("INTO");
        let table = self.name()?;
        self.hints()?;
        let mut columns = None;
        if self.p.peek_token_ref().token == Token::LParen && self.peek_word(1) != "SELECT" {
            self.p.advance_token();
            let mut list = Vec::new();
            loop {
                list.push(self.name()?.pop().unwrap_or_default());
                if !self.token(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
            columns = Some(list);
        }
        let output = self.output()?;
        let source = match self.peek_word(0).as_str() {
            "VALUES" => {
                self.p.advance_token();
                InsertSource::Values(self.rows()?)
            }
            "DEFAULT" => {
                self.p.advance_token();
                self.expect_word("VALUES")?;
                InsertSource::DefaultValues
            }
            "SELECT" | "WITH" => InsertSource::Query(self.query()?),
            "EXEC" | "EXECUTE" => return Err(not_supported("EXEC")),
            "" if self.p.peek_token_ref().token == Token::LParen => InsertSource::Query(self.query()?),
            _ => return self.unexpected(),
        };
        Ok(Kind::Insert(Box::new(Insert {
            table,
            columns,
            output,
            source,
        })))
    }

    fn rows(&mut self) -> SqlResult<Vec<Vec<Option<Expr>>>> {
        let mut rows: Vec<Vec<Option<Expr>>> = Vec::new();
        loop {
            self.expect(&Token::LParen)?;
            let mut row = Vec::with_capacity(rows.first().map_or(8, Vec::len));
            loop {
                let value = match self.plain_literal() {
                    Some(literal) => Some(literal),
                    None if self.word("DEFAULT") => None,
                    None => Some(self.expr()?),
                };
                row.push(value);
                if !self.token(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
            rows.push(row);
            if !self.token(&Token::Comma) {
                return Ok(rows);
            }
        }
    }

    /// A literal that is a whole value of a row. Rows of a thousand values come this way; the general parser asks of each
    /// one whether it is a type, a function or an operand.
    fn plain_literal(&mut self) -> Option<Expr> {
        if !matches!(self.p.peek_nth_token_ref(1).token, Token::Comma | Token::RParen) {
            return None;
        }
        let token = self.p.peek_token_ref();
        let value = match &token.token {
            Token::Number(n, long) => Literal::Number(n.clone(), *long),
            Token::SingleQuotedString(t) => Literal::SingleQuotedString(t.clone()),
            Token::NationalStringLiteral(t) => Literal::NationalStringLiteral(t.clone()),
            Token::HexStringLiteral(t) => Literal::HexStringLiteral(t.clone()),
            Token::Word(w) if w.keyword == Keyword::NULL => Literal::Null,
            _ => return None,
        };
        let literal = Expr::Value(value.with_span(token.span));
        self.p.advance_token();
        Some(literal)
    }

    pub(super) fn update(&mut self) -> SqlResult<Kind> {
        self.p.advance_token();
        let top = self.top()?;
        let target = self.name()?;
        self.hints()?;
        self.expect_word("SET")?;
        let mut assignments = Vec::new();
        loop {
            let column = self.name()?;
            if column[0].starts_with('@') {
                return Err(not_supported(&column[0]));
            }
            let op = self.assignment_operator()?;
            let value = if self.word("DEFAULT") { None } else { Some(self.expr()?) };
            let value = match (op, value) {
                (Some(op), Some(value)) => Some(Expr::BinaryOp {
                    left: Box::new(Expr::CompoundIdentifier(
                        column.iter().map(|p| Ident::with_quote('[', p.clone())).collect(),
                    )),
                    op,
                    right: Box::new(Expr::Nested(Box::new(value))),
                }),
                (_, value) => value,
            };
            // A name of one part is a plain identifier, not a compound of one.
            let value = value.map(|v| match v {
                Expr::BinaryOp { left, op, right } => match *left {
                    Expr::CompoundIdentifier(mut parts) if parts.len() == 1 => Expr::BinaryOp {
                        left: Box::new(Expr::Identifier(parts.swap_remove(0))),
                        op,
                        right,
                    },
                    other => Expr::BinaryOp {
                        left: Box::new(other),
                        op,
                        right,
                    },
                },
                other => other,
            });
            assignments.push((column, value));
            if !self.token(&Token::Comma) {
                break;
            }
        }
        let output = self.output()?;
        let from = if self.word("FROM") { self.tables()? } else { Vec::new() };
        let filter = if self.word("WHERE") { Some(self.expr()?) } else { None };
        Ok(Kind::Update(Box::new(Update {
            target,
            top,
            assignments,
            output,
            from,
            filter,
        })))
    }

    pub(super) fn delete(&mut self) -> SqlResult<Kind> {
        self.p.advance_token();
        let top = self.top()?;
        self.word("FROM");
        let target = self.name()?;
        self.hints()?;
        let output = self.output()?;
        let from = if self.word("FROM") { self.tables()? } else { Vec::new() };
        let filter = if self.word("WHERE") { Some(self.expr()?) } else { None };
        Ok(Kind::Delete(Box::new(Delete {
            target,
            top,
            output,
            from,
            filter,
        })))
    }
}
