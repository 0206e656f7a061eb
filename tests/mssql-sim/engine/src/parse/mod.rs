//! T-SQL batches: statements with or without semicolons between them.
//!
//! Queries and expressions are read by `sqlparser`; the statements around them (procedural ones, DDL with T-SQL's
//! options, DML with TOP, OUTPUT and joins) are read here, token by token, over the same parser.

mod ddl;
mod delimiters;
mod dml;
mod flow;
mod security;

use sqlparser::{
    ast::{Expr, Query, SelectItem, TableWithJoins},
    dialect::MsSqlDialect,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, Tokenizer},
};

pub use ddl::{AlterTable, CheckSpec, ColumnSpec, DefaultSpec, KeySpec, NewTable};
pub use dml::{Delete, Insert, InsertSource, Update};
pub use security::{GrantSpec, SecurityStatement};

use self::delimiters::{STARTERS, syntax_error, with_delimiters};
use crate::error::{SqlResult, sql_error, syntax_near};

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
    /// An option of `ALTER DATABASE … SET` that has consequences here.
    AlterDatabase {
        name: String,
        option: String,
        on: bool,
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
            sql_error(
                105,
                15,
                format!("Unclosed quotation mark after the character string '{}'.", ""),
            )
        } else {
            sql_error(102, 15, format!("Incorrect syntax near '{}'.", e.message))
        };
        error.line = e.location.line as u32;
        error
    })?;
    let mut batch = Batch {
        p: Parser::new(&dialect)
            .with_recursion_limit(200)
            .with_tokens_with_locations(with_delimiters(tokens)),
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
        let text = if token.token == Token::EOF {
            String::new()
        } else {
            token.token.to_string()
        };
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
                Ok(Kind::If {
                    condition,
                    then,
                    otherwise,
                })
            }
            "WHILE" => {
                self.p.advance_token();
                let condition = self.expr()?;
                Ok(Kind::While {
                    condition,
                    body: Box::new(self.statement()?),
                })
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
                Ok(Kind::WaitFor {
                    delay,
                    time: self.expr()?,
                })
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
                if matches!(self.p.peek_token_ref().token, Token::SemiColon | Token::EOF) || self.peek_word(0) == "END"
                {
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
}

/// Words that end an argument list because they begin the next statement or a clause.
fn is_reserved(word: &str) -> bool {
    STARTERS.contains(&word)
        || matches!(
            word,
            "SELECT"
                | "INSERT"
                | "UPDATE"
                | "DELETE"
                | "SET"
                | "CREATE"
                | "ALTER"
                | "DROP"
                | "WITH"
                | "ELSE"
                | "END"
                | "OPTION"
                | "MERGE"
                | "FROM"
                | "WHERE"
                | "AND"
                | "OR"
                | "NOT"
                | "NULL"
                | "DEFAULT"
                | "VALUES"
                | "ORDER"
                | "GROUP"
                | "BY"
                | "AS"
                | "TABLE"
                | "INTO"
        )
}
