//! The binder: names become columns, every expression gets its SQL Server type, and the result is SQLite SQL.
//!
//! Constants (literals, variables, parameters, folded expressions) stay values until they are needed in the SQL, where
//! they become bound parameters, converted to the type of what they are compared with, so that indexes are used.

mod call;
mod expr;
mod from;
mod literal;
mod predicate;
mod query;
mod scope;

use std::collections::HashMap;

use rusqlite::types::Value as Stored;

pub use literal::literal;
pub use query::{BoundQuery, OutputColumn};
pub use scope::{Scope, Source, SourceColumn};

use crate::{
    catalog::{Action, CatalogView, Table},
    context::StatementContext,
    error::{SqlResult, column_permission_denied, implicit_conversion, permission_denied, type_clash},
    functions::Argument,
    types::{Collation, code_of, convert, convert_styled, encode, implicit_allowed},
    value::{Length, SqlType, Value},
};

/// Declared variables and parameters: lower-case name with `@` → type and value.
pub type Variables = HashMap<String, (SqlType, Value)>;

/// A bound scalar expression.
#[derive(Debug, Clone)]
pub struct Bound {
    pub code: Code,
    pub ty: SqlType,
    pub nullable: bool,
    /// The column's name, for an expression that is one.
    pub name: Option<String>,
    /// A bare NULL, which takes any type.
    pub untyped: bool,
    /// Compare as bytes, under a binary or case-sensitive COLLATE.
    pub binary: bool,
    /// The collation of a column or a COLLATE clause; absent for the database's.
    pub collation: Option<Collation>,
}

/// An expression's form.
#[derive(Debug, Clone)]
pub enum Code {
    Const(Value),
    Sql(String),
}

impl Bound {
    /// A constant.
    pub fn constant(value: Value, ty: SqlType) -> Bound {
        Bound {
            nullable: value == Value::Null,
            code: Code::Const(value),
            ty,
            name: None,
            untyped: false,
            binary: false,
            collation: None,
        }
    }

    /// Generated SQL of a type.
    pub fn sql(sql: String, ty: SqlType, nullable: bool) -> Bound {
        Bound {
            code: Code::Sql(sql),
            ty,
            nullable,
            name: None,
            untyped: false,
            binary: false,
            collation: None,
        }
    }

    /// The value of a constant.
    pub fn value(&self) -> Option<&Value> {
        match &self.code {
            Code::Const(v) => Some(v),
            Code::Sql(_) => None,
        }
    }

    /// The expression as a function's argument is described.
    pub fn argument(&self) -> Argument {
        Argument {
            ty: self.ty,
            constant: self.value().cloned(),
        }
    }
}

/// Binds the parts of one statement.
pub struct Binder<'c> {
    pub ctx: &'c StatementContext,
    vars: &'c Variables,
    /// Values of `?1`, `?2`, … in the generated SQL.
    pub params: Vec<Stored>,
    /// Catalogue views that the statement reads, with the temporary tables that stand for them.
    pub views: Vec<(String, &'static CatalogView)>,
    ctes: Vec<query::CteFrame>,
    aliases: usize,
    /// Columns read so far, by table id; checked against the user's grants when the statement is bound.
    reads: HashMap<i64, Vec<i64>>,
    /// Volatile functions are called here and now: the statement's expressions are evaluated once.
    pub fold_volatile: bool,
    /// Within a branch of CASE: a constant that does not convert fails when it is reached, not when it is bound.
    lazy: u32,
    /// Constants stand in the SQL itself: it may be left out of the statement, and a parameter may not.
    inline: bool,
}

impl<'c> Binder<'c> {
    /// A binder for one statement.
    pub fn new(ctx: &'c StatementContext, vars: &'c Variables) -> Binder<'c> {
        Binder {
            ctx,
            vars,
            params: Vec::new(),
            views: Vec::new(),
            ctes: Vec::new(),
            aliases: 0,
            reads: HashMap::new(),
            fold_volatile: false,
            lazy: 0,
            inline: false,
        }
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    /// The expression in SQL; a constant becomes a parameter.
    pub fn emit(&mut self, bound: &Bound) -> String {
        match &bound.code {
            Code::Sql(sql) => sql.clone(),
            Code::Const(Value::Null) => "NULL".into(),
            Code::Const(Value::Int(n)) if *n >= 0 => n.to_string(),
            Code::Const(value) if self.inline => stored_literal(&encode(value)),
            Code::Const(value) => {
                let stored = encode(value);
                // The same constant is the same parameter, so that GROUP BY recognises its expressions.
                let at = self.params.iter().take(64).position(|p| *p == stored);
                let at = at.unwrap_or_else(|| {
                    self.params.push(stored);
                    self.params.len() - 1
                });
                format!("?{}", at + 1)
            }
        }
    }

    /// Converts without being asked, as a comparison, an operator or an assignment does.
    ///
    /// # Errors
    /// 206 and 257 where T-SQL wants an explicit conversion, and the errors of converting a constant.
    pub fn coerce(&mut self, bound: Bound, to: SqlType) -> SqlResult<Bound> {
        if bound.ty != to && !bound.untyped && !implicit_allowed(bound.ty, to) {
            let (from, target) = (bound.ty.to_string(), to.to_string());
            let explicit =
                (bound.ty.is_text() || bound.ty.is_bytes()) && (to.is_bytes() || to.is_text() || to.is_number());
            return Err(if explicit {
                implicit_conversion(&from, &target)
            } else {
                type_clash(&from, &target)
            });
        }
        self.cast(bound, to, 0, false)
    }

    /// CAST or CONVERT.
    ///
    /// # Errors
    /// Those of converting a constant, unless `attempt` (TRY_CAST) makes them NULL.
    pub fn cast(&mut self, bound: Bound, to: SqlType, style: i64, attempt: bool) -> SqlResult<Bound> {
        if bound.ty == to && style == 0 {
            return Ok(Bound {
                untyped: false,
                ..bound
            });
        }
        let nullable = bound.nullable || attempt;
        let name = bound.name.clone();
        let binary = bound.binary;
        let collation = bound.collation;
        let made = |code, nullable| Bound {
            code,
            ty: to,
            nullable,
            name,
            untyped: false,
            binary,
            collation,
        };
        match &bound.code {
            Code::Const(value) => match convert_styled(value, bound.ty, to, style) {
                Ok(value) => {
                    let nullable = value == Value::Null;
                    Ok(made(Code::Const(value), nullable))
                }
                Err(_) if attempt => Ok(made(Code::Const(Value::Null), true)),
                Err(_) if self.lazy > 0 => {
                    let value = self.emit(&bound);
                    let call = format!("tcast({value}, {}, {}, {style}, 0)", code_of(bound.ty), code_of(to));
                    Ok(made(Code::Sql(call), nullable))
                }
                Err(error) => Err(error),
            },
            Code::Sql(sql) => {
                if style == 0 && same_storage(bound.ty, to) {
                    return Ok(made(Code::Sql(sql.clone()), nullable));
                }
                let call = format!(
                    "tcast({sql}, {}, {}, {style}, {})",
                    code_of(bound.ty),
                    code_of(to),
                    i64::from(attempt)
                );
                Ok(made(Code::Sql(call), nullable))
            }
        }
    }

    /// Notes that columns of a table are read.
    pub fn note_read(&mut self, table: i64, column: Option<i64>) {
        let columns = self.reads.entry(table).or_default();
        if let Some(id) = column
            && !columns.contains(&id)
        {
            columns.push(id);
        }
    }

    /// Checks every noted read against the user's grants.
    ///
    /// # Errors
    /// 229 when the user may read nothing of a table, 230 for a column of one that it may read in part; 3952 under SNAPSHOT
    /// isolation in a database that does not allow it.
    pub fn check_reads(&self) -> SqlResult<()> {
        if self.ctx.snapshot_refused && !self.reads.is_empty() {
            return Err(crate::error::snapshot_not_allowed(&self.ctx.database.name));
        }
        if self.ctx.admin {
            return Ok(());
        }
        for (id, columns) in &self.reads {
            if let Some(table) = self.ctx.catalog.tables.get(id) {
                check(self.ctx, Action::Select, table, columns)?;
            }
        }
        Ok(())
    }

    /// A variable's or a global variable's value.
    pub fn variable(&self, name: &str) -> SqlResult<Bound> {
        if name.starts_with("@@") {
            return match crate::context::global(self.ctx, name) {
                Some((value, ty)) => Ok(Bound::constant(value, ty)),
                None => Err(crate::error::undeclared(name)),
            };
        }
        match self.vars.get(&name.to_lowercase()) {
            Some((ty, value)) => Ok(Bound::constant(value.clone(), *ty)),
            None => Err(crate::error::undeclared(name)),
        }
    }
}

/// A stored value as SQLite's SQL writes it.
fn stored_literal(value: &Stored) -> String {
    match value {
        Stored::Null => "NULL".into(),
        Stored::Integer(n) => format!("({n})"),
        Stored::Real(x) => format!("({x:e})"),
        Stored::Text(text) => format!("'{}'", text.replace('\'', "''")),
        Stored::Blob(bytes) => {
            let hex: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
            format!("X'{hex}'")
        }
    }
}

/// Checks one kind of access to some columns of a table.
///
/// # Errors
/// 229 or 230.
pub fn check(ctx: &StatementContext, action: Action, table: &Table, columns: &[i64]) -> SqlResult<()> {
    if ctx.admin {
        return Ok(());
    }
    let schema = ctx.catalog.schema_name(table.schema_id);
    if columns.is_empty() {
        // COUNT(*) names no column: any one of them will do.
        let any =
            ctx.allows(action, table, None) || table.columns.iter().any(|c| ctx.allows(action, table, Some(&[c.id])));
        return if any {
            Ok(())
        } else {
            Err(permission_denied(
                action.name(),
                &table.name,
                &ctx.database.name,
                schema,
            ))
        };
    }
    let refused = columns.iter().find(|id| !ctx.allows(action, table, Some(&[**id])));
    let Some(refused) = refused else {
        return Ok(());
    };
    let partly = table.columns.iter().any(|c| ctx.allows(action, table, Some(&[c.id])));
    if partly {
        let column = table.column_by_id(*refused).map_or("", |c| c.name.as_str());
        return Err(column_permission_denied(
            action.name(),
            column,
            &table.name,
            &ctx.database.name,
            schema,
        ));
    }
    Err(permission_denied(
        action.name(),
        &table.name,
        &ctx.database.name,
        schema,
    ))
}

/// Whether a value of one type is stored as it would be under the other, so that no conversion is needed.
pub fn same_storage(from: SqlType, to: SqlType) -> bool {
    let order = |ty: SqlType| match ty {
        SqlType::TinyInt => Some(1),
        SqlType::SmallInt => Some(2),
        SqlType::Int => Some(3),
        SqlType::BigInt => Some(4),
        _ => None,
    };
    if let (Some(a), Some(b)) = (order(from), order(to)) {
        // A bit is stored the same too, but a tinyint does not fit in it.
        return a <= b;
    }
    let room = |ty: SqlType| match ty {
        SqlType::VarChar(Length::Limited(n))
        | SqlType::NVarChar(Length::Limited(n))
        | SqlType::Char(n)
        | SqlType::NChar(n) => u32::from(n),
        SqlType::VarBinary(Length::Limited(n)) | SqlType::Binary(n) => u32::from(n),
        _ => u32::MAX,
    };
    match (from, to) {
        (SqlType::Bit, SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt) => true,
        (SqlType::Real, SqlType::Float) => true,
        (SqlType::Decimal { precision: p, scale: s }, SqlType::Decimal { precision, scale }) => {
            s == scale && p - s <= precision - scale
        }
        (SqlType::SmallMoney, SqlType::Money) => true,
        (SqlType::SmallMoney, SqlType::Decimal { precision, scale: 4 }) => precision >= 10,
        (SqlType::Money, SqlType::Decimal { precision, scale: 4 }) => precision >= 19,
        (SqlType::DateTime, SqlType::DateTime2(n)) => n >= 3,
        (SqlType::SmallDateTime, SqlType::DateTime2(_) | SqlType::DateTime) => true,
        (SqlType::DateTime2(a), SqlType::DateTime2(b)) | (SqlType::Time(a), SqlType::Time(b)) => a <= b,
        (SqlType::DateTimeOffset(a), SqlType::DateTimeOffset(b)) => a <= b,
        (SqlType::Char(_) | SqlType::VarChar(_), SqlType::VarChar(_))
        | (SqlType::VarBinary(_) | SqlType::Binary(_), SqlType::VarBinary(_)) => room(from) <= room(to),
        (_, SqlType::NVarChar(_)) if from.is_text() => room(from) <= room(to),
        _ => false,
    }
}

/// A value for `to`, converted as [`convert`] does.
///
/// # Errors
/// As [`convert`].
pub fn converted(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    convert(value, from, to)
}
