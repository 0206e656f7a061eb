//! Logins, users, roles and grants.

use sqlparser::tokenizer::Token;

use super::{Batch, Kind};
use crate::error::{SqlResult, not_supported};

/// A statement about who may do what.
#[derive(Debug, Clone)]
pub enum SecurityStatement {
    CreateLogin {
        name: String,
        password: String,
    },
    AlterLogin {
        name: String,
        password: Option<String>,
    },
    DropLogin(String),
    CreateUser {
        name: String,
        login: Option<String>,
    },
    DropUser {
        name: String,
        if_exists: bool,
    },
    CreateRole(String),
    DropRole(String),
    /// Role, member, whether it joins.
    Membership {
        role: String,
        member: String,
        add: bool,
    },
    Grant(GrantSpec),
}

/// GRANT, DENY or REVOKE.
#[derive(Debug, Clone)]
pub struct GrantSpec {
    /// `GRANT`, `DENY` or `REVOKE`.
    pub verb: String,
    /// Permission and its column list.
    pub permissions: Vec<(String, Vec<String>)>,
    /// `OBJECT`, `SCHEMA`, `DATABASE`, or empty for none given.
    pub class: String,
    pub securable: Vec<String>,
    pub grantees: Vec<String>,
}

impl Batch<'_> {
    pub(super) fn principal(&mut self) -> SqlResult<Kind> {
        let (verb, object) = (self.peek_word(0), self.peek_word(1));
        self.skip(2);
        let statement = match (verb.as_str(), object.as_str()) {
            ("CREATE", "LOGIN") => {
                let name = self.identifier()?;
                if !self.words(&["WITH", "PASSWORD"]) {
                    return self.unexpected();
                }
                self.expect(&Token::Eq)?;
                let password = self.string()?;
                self.rest_of_statement();
                SecurityStatement::CreateLogin { name, password }
            }
            ("ALTER", "LOGIN") => {
                let name = self.identifier()?;
                let mut password = None;
                if self.words(&["WITH", "PASSWORD"]) {
                    self.expect(&Token::Eq)?;
                    password = Some(self.string()?);
                }
                self.rest_of_statement();
                SecurityStatement::AlterLogin { name, password }
            }
            ("DROP", "LOGIN") => SecurityStatement::DropLogin(self.identifier()?),
            ("CREATE", "USER") => {
                let name = self.identifier()?;
                let login = if self.words(&["FOR", "LOGIN"]) || self.words(&["FROM", "LOGIN"]) {
                    Some(self.identifier()?)
                } else if self.words(&["WITHOUT", "LOGIN"]) {
                    None
                } else {
                    Some(name.clone())
                };
                self.rest_of_statement();
                SecurityStatement::CreateUser { name, login }
            }
            ("DROP", "USER") => {
                let if_exists = self.words(&["IF", "EXISTS"]);
                SecurityStatement::DropUser {
                    name: self.identifier()?,
                    if_exists,
                }
            }
            ("CREATE", "ROLE") => {
                let name = self.identifier()?;
                self.rest_of_statement();
                SecurityStatement::CreateRole(name)
            }
            ("DROP", "ROLE") => SecurityStatement::DropRole(self.identifier()?),
            ("ALTER", "ROLE") => {
                let role = self.identifier()?;
                let add = self.word("ADD");
                if !add {
                    self.expect_word("DROP")?;
                }
                self.expect_word("MEMBER")?;
                SecurityStatement::Membership {
                    role,
                    member: self.identifier()?,
                    add,
                }
            }
            _ => return Err(not_supported(&format!("{verb} {object}"))),
        };
        Ok(Kind::Security(statement))
    }

    pub(super) fn permission(&mut self) -> SqlResult<Kind> {
        let verb = self.peek_word(0);
        self.p.advance_token();
        self.words(&["GRANT", "OPTION", "FOR"]);
        let mut permissions = Vec::new();
        loop {
            // A permission may be of several words (VIEW DATABASE STATE).
            let mut name = self.identifier()?;
            while !matches!(self.peek_word(0).as_str(), "ON" | "TO" | "FROM" | "") {
                name = format!("{name} {}", self.identifier()?);
            }
            permissions.push((name.to_ascii_uppercase(), self.column_list()?));
            if !self.token(&Token::Comma) {
                break;
            }
        }
        let (mut class, mut securable) = (String::new(), Vec::new());
        if self.word("ON") {
            class = "OBJECT".into();
            securable = self.name()?;
            if self.token(&Token::DoubleColon) {
                class = securable.join(".").to_ascii_uppercase();
                securable = self.name()?;
            }
            // Columns may follow the object too.
            let columns = self.column_list()?;
            if !columns.is_empty() {
                permissions.iter_mut().for_each(|(_, c)| c.clone_from(&columns));
            }
        }
        if !self.word("TO") {
            self.expect_word("FROM")?;
        }
        let mut grantees = vec![self.identifier()?];
        while self.token(&Token::Comma) {
            grantees.push(self.identifier()?);
        }
        self.words(&["WITH", "GRANT", "OPTION"]);
        self.word("CASCADE");
        Ok(Kind::Security(SecurityStatement::Grant(GrantSpec {
            verb,
            permissions,
            class,
            securable,
            grantees,
        })))
    }

    fn column_list(&mut self) -> SqlResult<Vec<String>> {
        let mut columns = Vec::new();
        if self.token(&Token::LParen) {
            loop {
                columns.push(self.identifier()?);
                if !self.token(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        }
        Ok(columns)
    }
}
