//! Conditions, which T-SQL does not let stand where a value is wanted.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value as Literal};

use super::{Binder, Bound, Scope, expr::untype, literal::literal};
use crate::{
    error::{SqlResult, not_supported, sql_error},
    types::common_type,
    value::{Length, SqlType, Value},
};

impl Binder<'_> {
    /// Binds a condition to SQL that is 1, 0 or NULL.
    ///
    /// # Errors
    /// 4145 for an expression that is no condition, and those of its parts.
    pub fn predicate(&mut self, expr: &Expr, scope: &Scope<'_>) -> SqlResult<String> {
        match expr {
            Expr::Nested(inner) => Ok(format!("({})", self.predicate(inner, scope)?)),
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => Ok(format!("(NOT {})", self.predicate(expr, scope)?)),
            Expr::BinaryOp {
                left,
                op: op @ (BinaryOperator::And | BinaryOperator::Or),
                right,
            } => {
                // A long chain of ANDs is a deep left spine: walk it without recursion.
                let mut parts = vec![right.as_ref()];
                let mut rest = left.as_ref();
                while let Expr::BinaryOp { left, op: inner, right } = rest
                    && inner == op
                {
                    parts.push(right);
                    rest = left;
                }
                parts.push(rest);
                let word = if *op == BinaryOperator::And { " AND " } else { " OR " };
                let bound: SqlResult<Vec<String>> = parts.iter().rev().map(|p| self.predicate(p, scope)).collect();
                Ok(format!("({})", bound?.join(word)))
            }
            Expr::BinaryOp { left, op, right } => {
                let word = match op {
                    BinaryOperator::Eq => "=",
                    BinaryOperator::NotEq => "<>",
                    BinaryOperator::Lt => "<",
                    BinaryOperator::LtEq => "<=",
                    BinaryOperator::Gt => ">",
                    BinaryOperator::GtEq => ">=",
                    _ => return Err(not_a_condition(expr)),
                };
                let (left, right) = (self.expr(left, scope)?, self.expr(right, scope)?);
                self.compare(word, left, right)
            }
            Expr::IsNull(inner) => {
                let bound = self.expr(inner, scope)?;
                Ok(format!("({} IS NULL)", self.emit(&bound)))
            }
            Expr::IsNotNull(inner) => {
                let bound = self.expr(inner, scope)?;
                Ok(format!("({} IS NOT NULL)", self.emit(&bound)))
            }
            Expr::IsDistinctFrom(a, b) | Expr::IsNotDistinctFrom(a, b) => {
                let word = if matches!(expr, Expr::IsDistinctFrom(..)) {
                    "IS NOT"
                } else {
                    "IS"
                };
                let (a, b) = (self.expr(a, scope)?, self.expr(b, scope)?);
                self.compare(word, a, b)
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let value = self.expr(expr, scope)?;
                let (low, high) = (self.expr(low, scope)?, self.expr(high, scope)?);
                let from = self.compare(">=", value.clone(), low)?;
                let to = self.compare("<=", value, high)?;
                Ok(if *negated {
                    format!("(NOT ({from} AND {to}))")
                } else {
                    format!("({from} AND {to})")
                })
            }
            Expr::InList { expr, list, negated } => {
                let value = self.expr(expr, scope)?;
                let mut items = Vec::with_capacity(list.len());
                for item in list {
                    items.push(self.expr(item, scope)?);
                }
                // One common type for the value and all items, so that it is one indexable IN.
                let ty = items
                    .iter()
                    .filter(|i| !i.untyped)
                    .map(|i| i.ty)
                    .fold(value.ty, common_type);
                let left = self.coerce(value, ty)?;
                let binary = left.binary;
                let left = self.comparable(&left);
                let mut sql = Vec::with_capacity(items.len());
                for item in items {
                    let item = self.coerce(item, ty)?;
                    sql.push(self.comparable(&item));
                }
                let collate = collation(ty, binary);
                let word = if *negated { "NOT IN" } else { "IN" };
                Ok(format!("(({left}{collate}) {word} ({}))", sql.join(", ")))
            }
            Expr::InSubquery {
                expr,
                subquery,
                negated,
            } => {
                let value = self.expr(expr, scope)?;
                let query = self.query(subquery, Some(scope))?;
                let [column] = query.columns.as_slice() else {
                    return Err(sql_error(
                        116,
                        16,
                        "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
                    ));
                };
                let ty = if value.untyped {
                    column.ty
                } else {
                    common_type(value.ty, column.ty)
                };
                let item = Bound::sql("c1".into(), column.ty, true);
                let item = self.coerce(item, ty)?;
                let item = self.comparable(&item);
                let left = self.coerce(value, ty)?;
                let collate = collation(ty, left.binary);
                let left = self.comparable(&left);
                let word = if *negated { "NOT IN" } else { "IN" };
                Ok(format!(
                    "(({left}{collate}) {word} (SELECT {item} FROM ({})))",
                    query.sql
                ))
            }
            Expr::Exists { subquery, negated } => {
                let query = self.query(subquery, Some(scope))?;
                let word = if *negated { "NOT EXISTS" } else { "EXISTS" };
                Ok(format!("({word} ({}))", query.sql))
            }
            Expr::Like {
                negated,
                expr,
                pattern,
                escape_char,
                ..
            } => {
                let text = SqlType::NVarChar(Length::Max);
                let value = self.expr(expr, scope)?;
                let value = self.coerce(value, text)?;
                let pattern = self.expr(pattern, scope)?;
                let pattern = self.coerce(pattern, text)?;
                let escape = match escape_char {
                    Some(e) => match &e.value {
                        Literal::SingleQuotedString(t) | Literal::NationalStringLiteral(t) => {
                            Bound::constant(Value::Text(t.clone()), text)
                        }
                        other => literal(other)?,
                    },
                    None => Bound::constant(Value::Null, text),
                };
                let (v, p, e) = (self.emit(&value), self.emit(&pattern), self.emit(&escape));
                let not = if *negated { "NOT " } else { "" };
                Ok(format!("({not}tlike({v}, {p}, {e}))"))
            }
            other => Err(not_a_condition(other)),
        }
    }

    /// A comparison of two bound operands under their common type.
    ///
    /// # Errors
    /// Those of bringing them to it.
    pub fn compare(&mut self, word: &str, left: Bound, right: Bound) -> SqlResult<String> {
        let (left, right) = untype(left, right);
        let ty = common_type(left.ty, right.ty);
        let binary = left.binary || right.binary;
        let left = self.coerce(left, ty)?;
        let right = self.coerce(right, ty)?;
        let (a, b) = (self.comparable(&left), self.comparable(&right));
        Ok(format!("({a}{} {word} {b})", collation(ty, binary)))
    }

    /// The form under which stored values of the type compare: instants without their offset.
    pub(super) fn comparable(&mut self, bound: &Bound) -> String {
        let sql = self.emit(bound);
        if matches!(bound.ty, SqlType::DateTimeOffset(_)) {
            format!("substr({sql}, 1, 8)")
        } else {
            sql
        }
    }
}

/// The COLLATE clause that comparing texts takes.
pub(super) fn collation(ty: SqlType, binary: bool) -> &'static str {
    match (ty.is_text(), binary) {
        (true, false) => " COLLATE TSQL",
        (true, true) => " COLLATE BINARY",
        (false, _) => "",
    }
}

fn not_a_condition(expr: &Expr) -> crate::result::SqlError {
    if matches!(expr, Expr::AnyOp { .. } | Expr::AllOp { .. }) {
        return not_supported("ANY");
    }
    sql_error(
        4145,
        15,
        format!(
            "An expression of non-boolean type specified in a context where a condition is expected, near '{expr}'."
        ),
    )
}
