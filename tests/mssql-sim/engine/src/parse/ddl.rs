//! CREATE, ALTER and DROP of databases, schemas, tables and indexes.

use sqlparser::tokenizer::Token;

use super::{Batch, Kind};
use crate::error::{SqlResult, not_supported};

/// A table to create.
#[derive(Debug, Clone)]
pub struct NewTable {
    pub name: Vec<String>,
    pub columns: Vec<ColumnSpec>,
    pub keys: Vec<KeySpec>,
    pub checks: Vec<CheckSpec>,
}

/// A CHECK constraint.
#[derive(Debug, Clone)]
pub struct CheckSpec {
    pub name: Option<String>,
    /// The condition as T-SQL.
    pub text: String,
}

/// A constraint of a table.
enum TableConstraint {
    Key(KeySpec),
    Check(CheckSpec),
    Default(DefaultSpec),
}

/// A DEFAULT constraint that is added to a column.
#[derive(Debug, Clone)]
pub struct DefaultSpec {
    pub name: Option<String>,
    /// The value as T-SQL.
    pub text: String,
    pub column: String,
}

/// A column of one.
#[derive(Debug, Clone, Default)]
pub struct ColumnSpec {
    pub name: String,
    pub ty: String,
    /// As written; absent means nullable unless a key says otherwise.
    pub nullable: Option<bool>,
    pub default: Option<String>,
    pub default_name: Option<String>,
    /// Seed and increment.
    pub identity: Option<(i64, i64)>,
    /// As written.
    pub collation: Option<String>,
    pub keys: Vec<KeySpec>,
    pub checks: Vec<CheckSpec>,
    /// T-SQL of a computed column, which has no type of its own here.
    pub computed: Option<String>,
}

/// A key or an index.
#[derive(Debug, Clone, Default)]
pub struct KeySpec {
    pub name: Option<String>,
    pub columns: Vec<String>,
    pub unique: bool,
    pub primary: bool,
    pub constraint: bool,
    /// As written.
    pub clustered: Option<bool>,
}

/// A change of a table.
#[derive(Debug, Clone)]
pub enum AlterTable {
    AddColumns(Vec<ColumnSpec>),
    AddKey(KeySpec),
    AddCheck(CheckSpec),
    AddDefault(DefaultSpec),
    DropColumns(Vec<String>),
    DropConstraint(String),
    AlterColumn(ColumnSpec),
    /// `ENABLE CHANGE_TRACKING`, `SET (…)`, `CHECK CONSTRAINT`.
    Nothing,
}

impl Batch<'_> {
    pub(super) fn ddl(&mut self) -> SqlResult<Kind> {
        let verb = self.peek_word(0);
        let object = self.peek_word(1);
        match (verb.as_str(), object.as_str()) {
            ("CREATE", "DATABASE") => {
                self.skip(2);
                let name = self.identifier()?;
                self.rest_of_statement();
                Ok(Kind::CreateDatabase(name))
            }
            ("DROP", "DATABASE") => {
                self.skip(2);
                let if_exists = self.words(&["IF", "EXISTS"]);
                let mut names = vec![self.identifier()?];
                while self.token(&Token::Comma) {
                    names.push(self.identifier()?);
                }
                Ok(Kind::DropDatabase { names, if_exists })
            }
            ("ALTER", "DATABASE") => {
                self.skip(2);
                let name = self.identifier()?;
                let option = if self.peek_word(0) == "SET" {
                    self.peek_word(1)
                } else {
                    String::new()
                };
                let on = self.peek_word(2) == "ON";
                self.rest_of_statement();
                Ok(match option.as_str() {
                    "ALLOW_SNAPSHOT_ISOLATION" | "READ_COMMITTED_SNAPSHOT" => Kind::AlterDatabase { name, option, on },
                    _ => Kind::Nothing,
                })
            }
            ("CREATE", "SCHEMA") => {
                self.skip(2);
                let name = self.identifier()?;
                if self.word("AUTHORIZATION") {
                    self.identifier()?;
                }
                Ok(Kind::CreateSchema(name))
            }
            ("DROP", "SCHEMA") => {
                self.skip(2);
                let if_exists = self.words(&["IF", "EXISTS"]);
                Ok(Kind::DropSchema {
                    name: self.identifier()?,
                    if_exists,
                })
            }
            ("CREATE", "TABLE") => {
                self.skip(2);
                self.create_table()
            }
            ("DROP", "TABLE") => {
                self.skip(2);
                let if_exists = self.words(&["IF", "EXISTS"]);
                let mut names = vec![self.name()?];
                while self.token(&Token::Comma) {
                    names.push(self.name()?);
                }
                Ok(Kind::DropTable { names, if_exists })
            }
            ("ALTER", "TABLE") => self.alter_table(),
            ("CREATE", "INDEX" | "UNIQUE" | "CLUSTERED" | "NONCLUSTERED") => {
                self.skip(1);
                let unique = self.word("UNIQUE");
                let clustered = self.clustered();
                self.expect_word("INDEX")?;
                let name = self.identifier()?;
                self.expect_word("ON")?;
                let table = self.name()?;
                let columns = self.key_columns()?;
                self.rest_of_statement();
                let key = KeySpec {
                    name: Some(name),
                    columns,
                    unique,
                    primary: false,
                    constraint: false,
                    clustered,
                };
                Ok(Kind::CreateIndex { table, key })
            }
            ("DROP", "INDEX") => {
                self.skip(2);
                self.words(&["IF", "EXISTS"]);
                let name = self.identifier()?;
                self.expect_word("ON")?;
                Ok(Kind::DropIndex {
                    name,
                    table: self.name()?,
                })
            }
            (_, "LOGIN" | "USER" | "ROLE") => self.principal(),
            (_, other) => Err(not_supported(other)),
        }
    }

    pub(super) fn skip(&mut self, tokens: usize) {
        (0..tokens).for_each(|_| self.p.advance_token());
    }

    /// Options that change nothing here (`ON [PRIMARY]`, `WITH (…)`, `SET RECOVERY SIMPLE`), up to the semicolon.
    pub(super) fn rest_of_statement(&mut self) {
        while !matches!(self.p.peek_token_ref().token, Token::SemiColon | Token::EOF)
            && !matches!(
                self.peek_word(0).as_str(),
                "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "CREATE" | "ALTER" | "DROP" | "END" | "ELSE"
            )
        {
            self.p.advance_token();
        }
    }

    fn clustered(&mut self) -> Option<bool> {
        if self.word("CLUSTERED") {
            Some(true)
        } else if self.word("NONCLUSTERED") {
            Some(false)
        } else {
            None
        }
    }

    fn create_table(&mut self) -> SqlResult<Kind> {
        let name = self.name()?;
        if name.last().is_some_and(|n| n.starts_with('#')) {
            return Err(not_supported("#"));
        }
        self.expect(&Token::LParen)?;
        let (mut columns, mut keys, mut checks) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            if self.p.peek_token_ref().token == Token::RParen && !columns.is_empty() {
                break;
            }
            match self.peek_word(0).as_str() {
                "CONSTRAINT" | "PRIMARY" | "UNIQUE" | "FOREIGN" | "CHECK" | "INDEX" => match self.table_constraint()? {
                    TableConstraint::Key(key) => keys.push(key),
                    TableConstraint::Check(check) => checks.push(check),
                    TableConstraint::Default(_) => return self.unexpected(),
                },
                _ => columns.push(self.column_spec()?),
            }
            if !self.token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)?;
        self.storage_options()?;
        Ok(Kind::CreateTable(Box::new(NewTable {
            name,
            columns,
            keys,
            checks,
        })))
    }

    /// `ON filegroup`, `TEXTIMAGE_ON filegroup`, `WITH (…)`.
    fn storage_options(&mut self) -> SqlResult<()> {
        loop {
            if self.word("ON") || self.word("TEXTIMAGE_ON") {
                self.identifier()?;
            } else if self.peek_word(0) == "WITH" && self.p.peek_nth_token_ref(1).token == Token::LParen {
                self.p.advance_token();
                self.skip_parentheses()?;
            } else {
                return Ok(());
            }
        }
    }

    fn column_spec(&mut self) -> SqlResult<ColumnSpec> {
        let name = self.identifier()?;
        if self.word("AS") {
            return self.computed_column(name);
        }
        let mut column = ColumnSpec {
            name,
            ty: self.type_text()?,
            ..ColumnSpec::default()
        };
        loop {
            let constraint = if self.word("CONSTRAINT") {
                Some(self.identifier()?)
            } else {
                None
            };
            if self.words(&["NOT", "NULL"]) {
                column.nullable = Some(false);
            } else if self.word("NULL") {
                column.nullable = Some(true);
            } else if self.word("DEFAULT") {
                let result = self.p.parse_prefix();
                column.default = Some(self.ok(result)?.to_string());
                column.default_name = constraint;
            } else if self.word("IDENTITY") {
                column.identity = Some((1, 1));
                if self.token(&Token::LParen) {
                    let seed = self.integer()?;
                    self.expect(&Token::Comma)?;
                    column.identity = Some((seed, self.integer()?));
                    self.expect(&Token::RParen)?;
                }
            } else if self.word("COLLATE") {
                column.collation = Some(self.identifier()?);
            } else if self.word("ROWGUIDCOL") || self.word("SPARSE") || self.words(&["NOT", "FOR", "REPLICATION"]) {
            } else if matches!(self.peek_word(0).as_str(), "PRIMARY" | "UNIQUE") {
                let mut key = self.key(constraint)?;
                if key.columns.is_empty() {
                    key.columns.push(column.name.clone());
                }
                column.keys.push(key);
            } else if self.peek_word(0) == "CHECK" {
                column.checks.push(self.check(constraint)?);
            } else if matches!(self.peek_word(0).as_str(), "REFERENCES" | "FOREIGN") {
                return Err(not_supported(&self.peek_word(0)));
            } else {
                return Ok(column);
            }
        }
    }

    /// `expression [PERSISTED [NOT NULL]]`.
    fn computed_column(&mut self, name: String) -> SqlResult<ColumnSpec> {
        let text = self.expr()?.to_string();
        let persisted = self.word("PERSISTED");
        let not_null = persisted && self.words(&["NOT", "NULL"]);
        if matches!(
            self.peek_word(0).as_str(),
            "PRIMARY" | "UNIQUE" | "CONSTRAINT" | "CHECK" | "REFERENCES" | "FOREIGN"
        ) {
            return Err(not_supported("constraint of a computed column"));
        }
        Ok(ColumnSpec {
            name,
            nullable: not_null.then_some(false),
            computed: Some(text),
            ..ColumnSpec::default()
        })
    }

    /// `CHECK [NOT FOR REPLICATION] (condition)`.
    fn check(&mut self, name: Option<String>) -> SqlResult<CheckSpec> {
        self.expect_word("CHECK")?;
        self.words(&["NOT", "FOR", "REPLICATION"]);
        self.expect(&Token::LParen)?;
        let text = self.expr()?.to_string();
        self.expect(&Token::RParen)?;
        Ok(CheckSpec { name, text })
    }

    fn integer(&mut self) -> SqlResult<i64> {
        let negative = self.token(&Token::Minus);
        match &self.p.peek_token_ref().token {
            Token::Number(n, _) => match n.parse::<i64>() {
                Ok(n) => {
                    self.p.advance_token();
                    Ok(if negative { -n } else { n })
                }
                Err(_) => self.unexpected(),
            },
            _ => self.unexpected(),
        }
    }

    fn table_constraint(&mut self) -> SqlResult<TableConstraint> {
        let name = if self.word("CONSTRAINT") {
            Some(self.identifier()?)
        } else {
            None
        };
        match self.peek_word(0).as_str() {
            "PRIMARY" | "UNIQUE" => Ok(TableConstraint::Key(self.key(name)?)),
            "CHECK" => Ok(TableConstraint::Check(self.check(name)?)),
            "DEFAULT" => {
                self.p.advance_token();
                let result = self.p.parse_prefix();
                let text = self.ok(result)?.to_string();
                self.expect_word("FOR")?;
                let column = self.identifier()?;
                Ok(TableConstraint::Default(DefaultSpec { name, text, column }))
            }
            "INDEX" => {
                self.p.advance_token();
                let name = self.identifier()?;
                let unique = self.word("UNIQUE");
                let clustered = self.clustered();
                let columns = self.key_columns()?;
                Ok(TableConstraint::Key(KeySpec {
                    name: Some(name),
                    columns,
                    unique,
                    primary: false,
                    constraint: false,
                    clustered,
                }))
            }
            other => Err(not_supported(other)),
        }
    }

    fn key(&mut self, name: Option<String>) -> SqlResult<KeySpec> {
        let primary = self.words(&["PRIMARY", "KEY"]);
        if !primary {
            self.expect_word("UNIQUE")?;
        }
        let clustered = self.clustered();
        let columns = if self.p.peek_token_ref().token == Token::LParen {
            self.key_columns()?
        } else {
            Vec::new()
        };
        self.storage_options()?;
        Ok(KeySpec {
            name,
            columns,
            unique: true,
            primary,
            constraint: true,
            clustered,
        })
    }

    fn key_columns(&mut self) -> SqlResult<Vec<String>> {
        self.expect(&Token::LParen)?;
        let mut columns = Vec::new();
        loop {
            columns.push(self.identifier()?);
            if !self.word("ASC") {
                self.word("DESC");
            }
            if !self.token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)?;
        Ok(columns)
    }

    fn alter_table(&mut self) -> SqlResult<Kind> {
        let start = self.p.peek_token_ref().span.start;
        self.skip(2);
        let table = self.name()?;
        self.words(&["WITH", "CHECK"]);
        self.words(&["WITH", "NOCHECK"]);
        let change = match self.peek_word(0).as_str() {
            "ADD" => {
                self.p.advance_token();
                if matches!(
                    self.peek_word(0).as_str(),
                    "CONSTRAINT" | "PRIMARY" | "UNIQUE" | "FOREIGN" | "CHECK" | "DEFAULT"
                ) {
                    match self.table_constraint()? {
                        TableConstraint::Key(key) => AlterTable::AddKey(key),
                        TableConstraint::Check(check) => AlterTable::AddCheck(check),
                        TableConstraint::Default(default) => AlterTable::AddDefault(default),
                    }
                } else {
                    let mut columns = vec![self.column_spec()?];
                    while self.token(&Token::Comma) {
                        columns.push(self.column_spec()?);
                    }
                    AlterTable::AddColumns(columns)
                }
            }
            "DROP" => {
                self.p.advance_token();
                if self.word("COLUMN") {
                    self.words(&["IF", "EXISTS"]);
                    let mut names = vec![self.identifier()?];
                    while self.token(&Token::Comma) {
                        names.push(self.identifier()?);
                    }
                    AlterTable::DropColumns(names)
                } else {
                    self.word("CONSTRAINT");
                    self.words(&["IF", "EXISTS"]);
                    AlterTable::DropConstraint(self.identifier()?)
                }
            }
            "ALTER" => {
                self.p.advance_token();
                self.expect_word("COLUMN")?;
                AlterTable::AlterColumn(self.column_spec()?)
            }
            "ENABLE" | "SET" | "CHECK" | "NOCHECK" | "REBUILD" => {
                self.rest_of_statement();
                AlterTable::Nothing
            }
            _ => return self.unexpected(),
        };
        let text = self.text_since(start.line, start.column);
        Ok(Kind::AlterTable { table, change, text })
    }

    /// The batch's text from a place up to the next token, for the DDL history.
    fn text_since(&self, line: u64, column: u64) -> String {
        let end = self.p.peek_token_ref();
        let offset = |line: u64, column: u64| -> usize {
            let mut at = 0;
            for (i, text) in self.sql.split_inclusive('\n').enumerate() {
                if i as u64 + 1 == line {
                    return at
                        + text
                            .chars()
                            .take(column.saturating_sub(1) as usize)
                            .map(char::len_utf8)
                            .sum::<usize>();
                }
                at += text.len();
            }
            self.sql.len()
        };
        let from = offset(line, column);
        let to = if end.token == Token::EOF {
            self.sql.len()
        } else {
            offset(end.span.start.line, end.span.start.column)
        };
        self.sql
            .get(from..to.max(from))
            .unwrap_or("")
            .trim()
            .trim_end_matches(';')
            .to_owned()
    }
}
