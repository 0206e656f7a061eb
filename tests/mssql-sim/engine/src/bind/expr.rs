//! Scalar expressions.

use sqlparser::ast::{BinaryOperator, CaseWhen, CastKind, Expr, TrimWhereField, UnaryOperator};

use super::{Binder, Bound, Code, Scope, literal::literal};
use crate::{
    error::{SqlResult, not_supported, sql_error},
    functions::{Func, branch_type, cast_type},
    types::{Arithmetic, Collation, arithmetic, arithmetic_type, code_of, negate},
    value::{SqlType, Value},
};

impl Binder<'_> {
    /// Binds a scalar expression.
    ///
    /// # Errors
    /// SQL Server's, for unknown names, wrong types and conversions of constants that fail.
    pub fn expr(&mut self, expr: &Expr, scope: &Scope<'_>) -> SqlResult<Bound> {
        let grouped = !scope.free.get() && scope.groups.borrow().iter().any(|(e, _)| e == expr);
        if grouped {
            scope.free.set(true);
            let bound = self.expr_inner(expr, scope);
            scope.free.set(false);
            return bound;
        }
        self.expr_inner(expr, scope)
    }

    fn expr_inner(&mut self, expr: &Expr, scope: &Scope<'_>) -> SqlResult<Bound> {
        match expr {
            Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.starts_with('@') => {
                self.variable(&ident.value)
            }
            Expr::Identifier(ident) => self.column(scope, &ident.value),
            Expr::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| p.value.clone()).collect();
                self.qualified(scope, &parts)
            }
            Expr::Value(value) => literal(&value.value),
            Expr::Nested(inner) => self.expr(inner, scope),
            Expr::UnaryOp {
                op: UnaryOperator::Plus,
                expr,
            } => self.expr(expr, scope),
            Expr::UnaryOp {
                op: UnaryOperator::Minus,
                expr,
            } => {
                let inner = self.expr(expr, scope)?;
                if !inner.ty.is_number() {
                    return Err(sql_error(
                        8117,
                        16,
                        format!("Operand data type {} is invalid for minus operator.", inner.ty),
                    ));
                }
                let ty = if matches!(inner.ty, SqlType::TinyInt | SqlType::Bit) {
                    SqlType::SmallInt
                } else {
                    inner.ty
                };
                match &inner.code {
                    Code::Const(value) => Ok(Bound::constant(negate(value, ty)?, ty)),
                    Code::Sql(sql) => Ok(Bound::sql(format!("tneg({sql}, {})", code_of(ty)), ty, inner.nullable)),
                }
            }
            Expr::UnaryOp {
                op: UnaryOperator::BitwiseNot,
                expr,
            } => {
                let inner = self.expr(expr, scope)?;
                if !inner.ty.is_integer() {
                    return Err(sql_error(
                        8117,
                        16,
                        format!("Operand data type {} is invalid for '~' operator.", inner.ty),
                    ));
                }
                let sql = self.emit(&inner);
                let mask = match inner.ty {
                    SqlType::Bit => 1,
                    SqlType::TinyInt => 255,
                    _ => -1,
                };
                Ok(Bound::sql(format!("((~{sql}) & {mask})"), inner.ty, inner.nullable))
            }
            Expr::BinaryOp { left, op, right } => {
                let op = match op {
                    BinaryOperator::Plus => Arithmetic::Add,
                    BinaryOperator::Minus => Arithmetic::Subtract,
                    BinaryOperator::Multiply => Arithmetic::Multiply,
                    BinaryOperator::Divide => Arithmetic::Divide,
                    BinaryOperator::Modulo => Arithmetic::Modulo,
                    BinaryOperator::BitwiseAnd => Arithmetic::BitAnd,
                    BinaryOperator::BitwiseOr => Arithmetic::BitOr,
                    BinaryOperator::BitwiseXor => Arithmetic::BitXor,
                    other => return Err(not_an_expression(&other.to_string())),
                };
                let (left, right) = (self.expr(left, scope)?, self.expr(right, scope)?);
                self.arithmetic(op, left, right)
            }
            Expr::Cast {
                kind, expr, data_type, ..
            } => {
                let to = cast_type(&data_type.to_string())?;
                let inner = self.expr(expr, scope)?;
                self.explicit(inner, to, 0, *kind == CastKind::TryCast)
            }
            Expr::Convert {
                is_try,
                expr,
                data_type,
                styles,
                ..
            } => {
                let Some(data_type) = data_type else {
                    return Err(not_supported("USING"));
                };
                let to = cast_type(&data_type.to_string())?;
                let inner = self.expr(expr, scope)?;
                let style = match styles.first() {
                    Some(style) => match self.expr(style, scope)?.value() {
                        Some(Value::Int(n)) => *n,
                        _ => return Err(not_supported("CONVERT")),
                    },
                    None => 0,
                };
                self.explicit(inner, to, style, *is_try)
            }
            Expr::Case {
                operand,
                conditions,
                else_result,
                ..
            } => self.case(operand.as_deref(), conditions, else_result.as_deref(), scope),
            Expr::Function(function) => self.function(function, scope),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => {
                let mut args = vec![self.expr(expr, scope)?];
                for part in [substring_from, substring_for].into_iter().flatten() {
                    args.push(self.expr(part, scope)?);
                }
                self.pure_call("SUBSTRING", args)
            }
            Expr::Trim {
                expr,
                trim_where,
                trim_what: None,
                trim_characters: None,
            } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "LTRIM",
                    Some(TrimWhereField::Trailing) => "RTRIM",
                    _ => "TRIM",
                };
                let inner = self.expr(expr, scope)?;
                self.pure_call(name, vec![inner])
            }
            Expr::Floor { expr, .. } => {
                let inner = self.expr(expr, scope)?;
                self.pure_call("FLOOR", vec![inner])
            }
            Expr::Ceil { expr, .. } => {
                let inner = self.expr(expr, scope)?;
                self.pure_call("CEILING", vec![inner])
            }
            Expr::Collate { expr, collation } => {
                let mut inner = self.expr(expr, scope)?;
                let name = collation.to_string().to_uppercase();
                if !inner.ty.is_text() {
                    return Err(sql_error(
                        447,
                        16,
                        format!("Expression type {} is invalid for COLLATE clause.", inner.ty),
                    ));
                }
                inner.binary = name.contains("_BIN") || name.contains("_CS");
                inner.collation = Collation::of_name(&name).or(inner.collation);
                Ok(inner)
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                let inner = self.expr(timestamp, scope)?;
                let zone = self.expr(time_zone, scope)?;
                self.call(Func::AtTimeZone, vec![inner, zone])
            }
            Expr::Subquery(query) => {
                let bound = self.query(query, Some(scope))?;
                let [column] = bound.columns.as_slice() else {
                    return Err(sql_error(
                        116,
                        16,
                        "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
                    ));
                };
                // A second row is error 512, which SQLite would pass over.
                let sql = format!("(SELECT tsingle(c1) FROM ({}))", bound.sql);
                Ok(Bound::sql(sql, column.ty, true))
            }
            other => Err(not_an_expression(&other.to_string())),
        }
    }

    /// A binary operator on two bound operands.
    pub(super) fn arithmetic(&mut self, op: Arithmetic, left: Bound, right: Bound) -> SqlResult<Bound> {
        let (left, right) = untype(left, right);
        let ty = arithmetic_type(op, left.ty, right.ty)?;
        let nullable = left.nullable || right.nullable;
        if let (Code::Const(a), Code::Const(b)) = (&left.code, &right.code) {
            match arithmetic(op, (a, left.ty), (b, right.ty), ty) {
                Ok(value) => return Ok(Bound::constant(value, ty)),
                Err(_) if self.lazy > 0 => {}
                Err(error) => return Err(error),
            }
        }
        let (a, b) = (self.emit(&left), self.emit(&right));
        let sql = format!(
            "tarith({}, {a}, {}, {b}, {}, {})",
            op.code(),
            code_of(left.ty),
            code_of(right.ty),
            code_of(ty)
        );
        Ok(Bound::sql(sql, ty, nullable))
    }

    fn explicit(&mut self, inner: Bound, to: SqlType, style: i64, attempt: bool) -> SqlResult<Bound> {
        let (from, untyped) = (inner.ty, inner.untyped);
        let clash = !untyped
            && (from.is_number()
                && matches!(
                    to,
                    SqlType::Date | SqlType::Time(_) | SqlType::DateTime2(_) | SqlType::DateTimeOffset(_)
                )
                || from == SqlType::Date && to.is_number()
                || from == SqlType::UniqueIdentifier && (to.is_number() || to.is_temporal()));
        if clash {
            return Err(crate::error::explicit_conversion(&from.to_string(), &to.to_string()));
        }
        let mut bound = self.cast(inner, to, style, attempt)?;
        bound.name = None;
        Ok(bound)
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        whens: &[CaseWhen],
        otherwise: Option<&Expr>,
        scope: &Scope<'_>,
    ) -> SqlResult<Bound> {
        self.lazy += 1;
        let bound = self.case_branches(operand, whens, otherwise, scope);
        self.lazy -= 1;
        bound
    }

    fn case_branches(
        &mut self,
        operand: Option<&Expr>,
        whens: &[CaseWhen],
        otherwise: Option<&Expr>,
        scope: &Scope<'_>,
    ) -> SqlResult<Bound> {
        let operand = operand.map(|o| self.expr(o, scope)).transpose()?;
        let mut branches = Vec::with_capacity(whens.len() + 1);
        for when in whens {
            let condition = match &operand {
                Some(left) => {
                    let right = self.expr(&when.condition, scope)?;
                    self.compare("=", left.clone(), right)?
                }
                None => self.predicate(&when.condition, scope)?,
            };
            branches.push((Some(condition), self.expr(&when.result, scope)?));
        }
        match otherwise {
            Some(e) => branches.push((None, self.expr(e, scope)?)),
            None => branches.push((None, literal(&sqlparser::ast::Value::Null)?)),
        }
        self.branches(branches)
    }

    /// CASE from bound branches; the last has no condition.
    pub(super) fn branches(&mut self, branches: Vec<(Option<String>, Bound)>) -> SqlResult<Bound> {
        let typed = branches.iter().filter(|(_, b)| !b.untyped).map(|(_, b)| b.ty);
        let Some(ty) = branch_type(typed) else {
            return Err(sql_error(
                8133,
                16,
                "At least one of the result expressions in a CASE specification must be an expression other than the NULL constant.",
            ));
        };
        let nullable = branches.iter().any(|(_, b)| b.nullable);
        let mut sql = "CASE".to_owned();
        for (condition, result) in branches {
            // A branch that is never taken may hold a constant that does not convert: it fails when it is reached.
            let result = match self.coerce(result.clone(), ty) {
                Ok(bound) => self.emit(&bound),
                Err(error) if matches!(result.code, Code::Const(_)) && error.number != 206 && error.number != 257 => {
                    let raw = self.emit(&result);
                    format!("tcast({raw}, {}, {}, 0, 0)", code_of(result.ty), code_of(ty))
                }
                Err(error) => return Err(error),
            };
            match condition {
                Some(c) => sql.push_str(&format!(" WHEN {c} THEN {result}")),
                None => sql.push_str(&format!(" ELSE {result}")),
            }
        }
        sql.push_str(" END");
        Ok(Bound::sql(sql, ty, nullable))
    }
}

/// A bare NULL takes the type of its neighbour.
pub(super) fn untype(mut left: Bound, mut right: Bound) -> (Bound, Bound) {
    if left.untyped && !right.untyped {
        left.ty = right.ty;
    } else if right.untyped && !left.untyped {
        right.ty = left.ty;
    }
    (left, right)
}

fn not_an_expression(text: &str) -> crate::result::SqlError {
    let word = text.split_whitespace().next().unwrap_or(text);
    crate::error::syntax_near(word)
}
