//! T-SQL batches: statements with or without semicolons between them.
//!
//! Queries and expressions are read by `sqlparser`; the statements around them (procedural ones, DDL with T-SQL's
//! options, DML with TOP, OUTPUT and joins) are read here, token by token, over the same parser.

mod ddl;
mod dml;
mod security;

use sqlparser::{
    ast::{Expr, Ident, ObjectName, Query, SelectItem, TableWithJoins},
    dialect::MsSqlDialect,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan, Tokenizer},
};

pub use ddl::{AlterTable, ColumnSpec, KeySpec, NewTable};
pub use dml::{Delete, Insert, InsertSource, Update};
pub use security::{GrantSpec, SecurityStatement};

use crate::{
    error::{SqlResult, sql_error, syntax_near},
    result::SqlError,
};

/// A statement and the line on which it begins.
#[derive(Debug, Clone)]
pub struct Statement {
    pub line: u32,
    pub kind: Kind,
}

/// What a statement does.
#[derive(Debug, Clone)]
pub enum Kind {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Truncate(Vec<String>),
    /// `EXEC [@result =] procedure arguments`.
    Execute {
        result: Option<String>,
        procedure: Vec<String>,
        arguments: Vec<ExecArgument>,
    },
    /// `EXEC (text)`.
    ExecuteText(Expr),
    /// Name, type text, initial value.
    Declare(Vec<(String, String, Option<Expr>)>),
    SetVariable {
        name: String,
        value: Expr,
    },
    /// `SET NOCOUNT ON` and its like, in upper case.
    SetOption {
        name: String,
        value: String,
    },
    If {
        condition: Expr,
        then: Box<Statement>,
        otherwise: Option<Box<Statement>>,
    },
    While {
        condition: Expr,
        body: Box<Statement>,
    },
    Block(Vec<Statement>),
    Try {
        body: Vec<Statement>,
        catch: Vec<Statement>,
    },
    Print(Expr),
    Begin,
    Commit,
    /// With the name of a savepoint or transaction.
    Rollback(Option<String>),
    Save(String),
    Return,
    Break,
    Continue,
    /// Time of day or span, and whether it is a span.
    WaitFor {
        delay: bool,
        time: Expr,
    },
    /// Text, severity, state.
    RaiseError(Vec<Expr>),
    Throw(Vec<Expr>),
    Use(String),
    CreateDatabase(String),
    DropDatabase {
        names: Vec<String>,
        if_exists: bool,
    },
    CreateSchema(String),
    DropSchema {
        name: String,
        if_exists: bool,
    },
    CreateTable(Box<NewTable>),
    DropTable {
        names: Vec<Vec<String>>,
        if_exists: bool,
    },
    AlterTable {
        table: Vec<String>,
        change: AlterTable,
        text: String,
    },
    CreateIndex {
        name: String,
        table: Vec<String>,
        key: KeySpec,
    },
    DropIndex {
        name: String,
        table: Vec<String>,
    },
    Security(SecurityStatement),
    /// Accepted, and of no consequence here (`ALTER DATABASE … SET RECOVERY`, `CHECKPOINT`).
    Nothing,
}

/// An argument of EXEC.
#[derive(Debug, Clone)]
pub struct ExecArgument {
    /// With `@`.
    pub name: Option<String>,
    /// `None` for DEFAULT.
    pub value: Option<Expr>,
    pub output: bool,
}

/// Parses a batch.
///
/// # Errors
/// 102 with the line and the token for bad syntax; 105 for an unclosed quote. Nothing of the batch runs then.
pub fn parse_batch(sql: &str) -> SqlResult<Vec<Statement>> {
    let dialect = MsSqlDialect {};
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().map_err(|e| {
        let mut error = if e.message.contains("Unterminated") {
            sql_error(105, 15, format!("Unclosed quotation mark after the character string '{}'.", ""))
        } else {
            sql_error(102, 15, format!("Incorrect syntax near '{}'.", e.message))
        };
        error.line = e.location.line as u32;
        error
    })?;
    let mut batch = Batch {
        p: Parser::new(&dialect).with_recursion_limit(200).with_tokens_with_locations(with_delimiters(tokens)),
        sql,
    };
    batch.statements(false)
}

/// Parses one expression, as a stored default.
///
/// # Errors
/// 102.
pub fn parse_expression(text: &str) -> SqlResult<Expr> {
    let dialect = MsSqlDialect {};
    let mut parser = Parser::new(&dialect).try_with_sql(text).map_err(|e| syntax_error(&e))?;
    parser.parse_expr().map_err(|e| syntax_error(&e))
}

/// The parser with what T-SQL adds.
struct Batch<'a> {
    p: Parser<'a>,
    sql: &'a str,
}

/// Reserved words that begin a statement and nothing else; a semicolon before them ends the statement before, which
/// may end in what could have an alias.
const STARTERS: &[&str] = &[
    "BEGIN", "COMMIT", "ROLLBACK", "SAVE", "PRINT", "WAITFOR", "GRANT", "REVOKE", "DENY", "USE", "DECLARE", "EXEC", "EXECUTE", "RAISERROR",
    "THROW", "RETURN", "BREAK", "CONTINUE", "WHILE", "IF", "TRUNCATE", "CHECKPOINT",
];

fn with_delimiters(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut depth = 0_i32;
    let mut last_word = String::new();
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(word) if word.quote_style.is_none() => {
                let upper = word.value.to_ascii_uppercase();
                let starts = depth == 0
                    && STARTERS.contains(&upper.as_str())
                    && !matches!(last_word.as_str(), "WITH" | "AS" | "EXISTS" | "." | "INSERT" | "TO" | "TABLE" | "DATABASE" | "INTO")
                    && !(upper == "IF" && matches!(last_word.as_str(), "TABLE" | "DATABASE" | "SCHEMA" | "INDEX" | "USER" | "LOGIN" | "ROLE" | "COLUMN" | "CONSTRAINT"))
                    && !(matches!(upper.as_str(), "EXEC" | "EXECUTE") && matches!(last_word.as_str(), "INSERT" | "GRANT" | "," | ")" | "REVOKE" | "DENY"))
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
        last_word = token.token.to_string();
        out.push(token);
    }
    out
}

/// 102 (or 156) from the parser's own words, which end in the token that it found and its place.
pub(crate) fn syntax_error(error: &ParserError) -> SqlError {
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

impl<'a> Batch<'a> {
    fn ok<T>(&self, result: Result<T, ParserError>) -> SqlResult<T> {
        result.map_err(|e| syntax_error(&e))
    }

    fn line(&self) -> u32 {
        self.p.peek_token_ref().span.start.line as u32
    }

    /// 102 near the next token.
    fn unexpected<T>(&self) -> SqlResult<T> {
        let token = self.p.peek_token_ref();
        let text = if token.token == Token::EOF { String::new() } else { token.token.to_string() };
        let mut error = match &token.token {
            Token::Word(w) if w.keyword != Keyword::NoKeyword && w.quote_style.is_none() => {
                sql_error(156, 15, format!("Incorrect syntax near the keyword '{text}'."))
            }
            _ => syntax_near(&text),
        };
        error.line = token.span.start.line as u32;
        Err(error)
    }

    /// The next token's word in upper case, if it is an unquoted word.
    fn peek_word(&self, ahead: usize) -> String {
        match &self.p.peek_nth_token_ref(ahead).token {
            Token::Word(w) if w.quote_style.is_none() => w.value.to_ascii_uppercase(),
            _ => String::new(),
        }
    }

    /// Takes the next token if it is the word.
    fn word(&mut self, word: &str) -> bool {
        let hit = self.peek_word(0) == word;
        if hit {
            self.p.advance_token();
        }
        hit
    }

    /// Takes several words, all or none.
    fn words(&mut self, words: &[&str]) -> bool {
        let hit = words.iter().enumerate().all(|(i, w)| self.peek_word(i) == *w);
        if hit {
            words.iter().for_each(|_| self.p.advance_token());
        }
        hit
    }

    fn expect_word(&mut self, word: &str) -> SqlResult<()> {
        if self.word(word) { Ok(()) } else { self.unexpected() }
    }

    fn token(&mut self, token: &Token) -> bool {
        self.p.consume_token(token)
    }

    fn expect(&mut self, token: &Token) -> SqlResult<()> {
        if self.token(token) { Ok(()) } else { self.unexpected() }
    }

    fn identifier(&mut self) -> SqlResult<String> {
        match &self.p.peek_token_ref().token {
            Token::Word(w) => {
                let name = w.value.clone();
                self.p.advance_token();
                Ok(name)
            }
            Token::DoubleQuotedString(t) => {
                let name = t.clone();
                self.p.advance_token();
                Ok(name)
            }
            _ => self.unexpected(),
        }
    }

    /// A name of up to four parts; a part may be empty (`db..t`).
    fn name(&mut self) -> SqlResult<Vec<String>> {
        let mut parts = vec![self.identifier()?];
        while self.token(&Token::Period) {
            if self.p.peek_token_ref().token == Token::Period {
                parts.push(String::new());
            } else {
                parts.push(self.identifier()?);
            }
        }
        Ok(parts)
    }

    fn expr(&mut self) -> SqlResult<Expr> {
        let result = self.p.parse_expr();
        self.ok(result)
    }

    fn string(&mut self) -> SqlResult<String> {
        match &self.p.peek_token_ref().token {
            Token::SingleQuotedString(t) | Token::NationalStringLiteral(t) => {
                let text = t.clone();
                self.p.advance_token();
                Ok(text)
            }
            _ => self.unexpected(),
        }
    }

    /// The text of a type with its length: `nvarchar(max)`.
    fn type_text(&mut self) -> SqlResult<String> {
        let mut text = self.name()?.pop().unwrap_or_default();
        if text.eq_ignore_ascii_case("double") && self.word("PRECISION") {
            text.push_str(" precision");
        }
        if self.token(&Token::LParen) {
            text.push('(');
            loop {
                let token = self.p.next_token();
                match token.token {
                    Token::RParen => break,
                    Token::EOF => return self.unexpected(),
                    other => text.push_str(&other.to_string()),
                }
            }
            text.push(')');
        }
        Ok(text)
    }

    fn query(&mut self) -> SqlResult<Box<Query>> {
        let result = self.p.parse_query();
        self.ok(result)
    }

    fn tables(&mut self) -> SqlResult<Vec<TableWithJoins>> {
        let result = self.p.parse_comma_separated(Parser::parse_table_and_joins);
        self.ok(result)
    }

    fn select_items(&mut self) -> SqlResult<Vec<SelectItem>> {
        let result = self.p.parse_comma_separated(Parser::parse_select_item);
        self.ok(result)
    }

    fn semicolons(&mut self) {
        while self.token(&Token::SemiColon) {}
    }

    /// Statements to the end of the batch, or to END.
    fn statements(&mut self, block: bool) -> SqlResult<Vec<Statement>> {
        let mut all = Vec::new();
        loop {
            self.semicolons();
            if self.p.peek_token_ref().token == Token::EOF {
                return if block { self.unexpected() } else { Ok(all) };
            }
            if block && self.peek_word(0) == "END" {
                self.p.advance_token();
                return Ok(all);
            }
            all.push(self.statement()?);
        }
    }

    fn statement(&mut self) -> SqlResult<Statement> {
        self.semicolons();
        let line = self.line();
        let kind = self.kind()?;
        // OPTION (…) of a query is a hint.
        if self.peek_word(0) == "OPTION" {
            self.p.advance_token();
            self.skip_parentheses()?;
        }
        Ok(Statement { line, kind })
    }

    fn skip_parentheses(&mut self) -> SqlResult<()> {
        self.expect(&Token::LParen)?;
        let mut depth = 1;
        while depth > 0 {
            match self.p.next_token().token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                Token::EOF => return self.unexpected(),
                _ => {}
            }
        }
        Ok(())
    }

    fn kind(&mut self) -> SqlResult<Kind> {
        if self.p.peek_token_ref().token == Token::LParen {
            return Ok(Kind::Query(self.query()?));
        }
        let word = self.peek_word(0);
        match word.as_str() {
            "SELECT" => Ok(Kind::Query(self.query()?)),
            "WITH" => self.with(),
            "INSERT" => self.insert(),
            "UPDATE" => self.update(),
            "DELETE" => self.delete(),
            "TRUNCATE" => {
                self.p.advance_token();
                self.expect_word("TABLE")?;
                Ok(Kind::Truncate(self.name()?))
            }
            "EXEC" | "EXECUTE" => self.execute(),
            "DECLARE" => self.declare(),
            "SET" => self.set(),
            "IF" => {
                self.p.advance_token();
                let condition = self.expr()?;
                let then = Box::new(self.statement()?);
                // A semicolon may end the first branch; ELSE still belongs to this IF.
                let mut ahead = 0;
                while self.p.peek_nth_token_ref(ahead).token == Token::SemiColon {
                    ahead += 1;
                }
                let otherwise = if self.peek_word(ahead) == "ELSE" {
                    (0..=ahead).for_each(|_| self.p.advance_token());
                    Some(Box::new(self.statement()?))
                } else {
                    None
                };
                Ok(Kind::If { condition, then, otherwise })
            }
            "WHILE" => {
                self.p.advance_token();
                let condition = self.expr()?;
                Ok(Kind::While { condition, body: Box::new(self.statement()?) })
            }
            "BEGIN" => self.begin(),
            "COMMIT" => {
                self.p.advance_token();
                self.transaction_name();
                Ok(Kind::Commit)
            }
            "ROLLBACK" => {
                self.p.advance_token();
                Ok(Kind::Rollback(self.transaction_name()))
            }
            "SAVE" => {
                self.p.advance_token();
                match self.transaction_name() {
                    Some(name) => Ok(Kind::Save(name)),
                    None => self.unexpected(),
                }
            }
            "PRINT" => {
                self.p.advance_token();
                Ok(Kind::Print(self.expr()?))
            }
            "RETURN" => {
                self.p.advance_token();
                if matches!(self.p.peek_token_ref().token, Token::Number(..)) {
                    self.p.advance_token();
                }
                Ok(Kind::Return)
            }
            "BREAK" => {
                self.p.advance_token();
                Ok(Kind::Break)
            }
            "CONTINUE" => {
                self.p.advance_token();
                Ok(Kind::Continue)
            }
            "WAITFOR" => {
                self.p.advance_token();
                let delay = self.word("DELAY");
                if !delay {
                    self.expect_word("TIME")?;
                }
                Ok(Kind::WaitFor { delay, time: self.expr()? })
            }
            "RAISERROR" => {
                self.p.advance_token();
                self.expect(&Token::LParen)?;
                let result = self.p.parse_comma_separated(Parser::parse_expr);
                let args = self.ok(result)?;
                self.expect(&Token::RParen)?;
                if self.word("WITH") {
                    self.identifier()?;
                }
                Ok(Kind::RaiseError(args))
            }
            "THROW" => {
                self.p.advance_token();
                if matches!(self.p.peek_token_ref().token, Token::SemiColon | Token::EOF) || self.peek_word(0) == "END" {
                    return Ok(Kind::Throw(Vec::new()));
                }
                let result = self.p.parse_comma_separated(Parser::parse_expr);
                Ok(Kind::Throw(self.ok(result)?))
            }
            "USE" => {
                self.p.advance_token();
                Ok(Kind::Use(self.identifier()?))
            }
            "CREATE" | "ALTER" | "DROP" => self.ddl(),
            "GRANT" | "REVOKE" | "DENY" => self.permission(),
            "CHECKPOINT" => {
                self.p.advance_token();
                Ok(Kind::Nothing)
            }
            // A batch may begin with a procedure's name.
            "" => self.unexpected(),
            _ if self.p.index() <= 1 && !is_reserved(&word) => self.call(),
            _ => self.unexpected(),
        }
    }

    /// A statement after WITH: a query, or DML with CTEs.
    fn with(&mut self) -> SqlResult<Kind> {
        // The parser reads the CTEs and then a query, an INSERT, an UPDATE or a DELETE of its own grammar.
        let query = self.query()?;
        use sqlparser::ast::SetExpr;
        match query.body.as_ref() {
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(crate::error::not_supported("WITH"))
            }
            _ => Ok(Kind::Query(query)),
        }
    }

    fn begin(&mut self) -> SqlResult<Kind> {
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
    fn transaction_name(&mut self) -> Option<String> {
        self.word("DISTRIBUTED");
        let spelled = self.word("TRAN") || self.word("TRANSACTION");
        if !spelled {
            self.word("WORK");
            return None;
        }
        match &self.p.peek_token_ref().token {
            Token::Word(w) if w.quote_style.is_some() || (!is_reserved(&w.value.to_ascii_uppercase()) && !w.value.eq_ignore_ascii_case("WITH")) => {
                let name = w.value.clone();
                self.p.advance_token();
                Some(name)
            }
            _ => None,
        }
    }

    fn declare(&mut self) -> SqlResult<Kind> {
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
            let value = if self.token(&Token::Eq) { Some(self.expr()?) } else { None };
            list.push((name, ty, value));
            if !self.token(&Token::Comma) {
                return Ok(Kind::Declare(list));
            }
        }
    }

    fn set(&mut self) -> SqlResult<Kind> {
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
        Ok(Kind::SetOption { name: option, value: words.join(" ").to_ascii_uppercase() })
    }

    /// `=`, or `+=` and its like as the operator.
    fn assignment_operator(&mut self) -> SqlResult<Option<sqlparser::ast::BinaryOperator>> {
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

    fn execute(&mut self) -> SqlResult<Kind> {
        self.p.advance_token();
        if self.token(&Token::LParen) {
            let text = self.expr()?;
            self.expect(&Token::RParen)?;
            return Ok(Kind::ExecuteText(text));
        }
        self.call()
    }

    fn call(&mut self) -> SqlResult<Kind> {
        let mut procedure = self.name()?;
        let mut result = None;
        if procedure.len() == 1 && procedure[0].starts_with('@') && self.token(&Token::Eq) {
            result = procedure.pop();
            procedure = self.name()?;
        }
        let mut arguments = Vec::new();
        while !matches!(self.p.peek_token_ref().token, Token::SemiColon | Token::EOF) && !is_reserved(&self.peek_word(0)) || self.peek_word(0) == "NULL" || self.peek_word(0) == "DEFAULT" {
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
        Ok(Kind::Execute { result, procedure, arguments })
    }
}

/// Words that end an argument list because they begin the next statement or a clause.
fn is_reserved(word: &str) -> bool {
    STARTERS.contains(&word)
        || matches!(
            word,
            "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "SET" | "CREATE" | "ALTER" | "DROP" | "WITH" | "ELSE" | "END" | "OPTION" | "MERGE"
                | "FROM" | "WHERE" | "AND" | "OR" | "NOT" | "NULL" | "DEFAULT" | "VALUES" | "ORDER" | "GROUP" | "BY" | "AS" | "TABLE" | "INTO"
        )
}

/// The parts of a name of the parser's.
pub(crate) fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().map(|p| p.as_ident().map_or_else(|| p.to_string(), |i| i.value.clone())).collect()
}
