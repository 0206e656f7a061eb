//! Function calls: scalar, of the context, aggregates and window functions.

use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, ObjectNamePart,
    OrderByExpr, WindowFrameBound, WindowSpec, WindowType,
};

use super::{Binder, Bound, Scope, predicate::collation};
use crate::{
    context::ContextFunc,
    error::{SqlResult, argument_count, not_supported, sql_error, unknown_function},
    functions::{DatePart, Func, aggregate_type},
    types::code_of,
    value::{Length, SqlType, Value},
    version::ServerVersion,
};

impl Binder<'_> {
    /// Binds a call.
    ///
    /// # Errors
    /// 195 for an unknown function, 174 for a wrong number of arguments, and those of the arguments.
    pub(super) fn function(&mut self, function: &Function, scope: &Scope<'_>) -> SqlResult<Bound> {
        let parts = name_parts(&function.name);
        let name = parts.last().map_or("", String::as_str);
        let upper = name.to_ascii_uppercase();
        let cdc = upper.starts_with("FN_CDC_");
        let schema_fits = match parts.as_slice() {
            [_] => !cdc,
            [schema, _] => cdc && schema.eq_ignore_ascii_case("sys"),
            [_, schema, _] => cdc && schema.eq_ignore_ascii_case("sys"),
            _ => false,
        };
        if !schema_fits {
            return Err(if parts.len() > 1 {
                sql_error(
                    4121,
                    16,
                    format!(
                        "Cannot find either column \"{}\" or the user-defined function or aggregate \"{}\", or the name is ambiguous.",
                        parts[0],
                        parts.join(".")
                    ),
                )
            } else {
                unknown_function(name)
            });
        }
        let (args, distinct, star) = arguments(function)?;
        if matches!(
            upper.as_str(),
            "COUNT"
                | "COUNT_BIG"
                | "SUM"
                | "AVG"
                | "MIN"
                | "MAX"
                | "STRING_AGG"
                | "ROW_NUMBER"
                | "RANK"
                | "DENSE_RANK"
                | "NTILE"
                | "LAG"
                | "LEAD"
                | "FIRST_VALUE"
                | "LAST_VALUE"
        ) {
            if upper == "STRING_AGG" && self.ctx.engine.options.version < ServerVersion::V2017 {
                return Err(unknown_function(name));
            }
            return self.aggregate(&upper, &args, distinct, star, function, scope);
        }
        if star || distinct || function.over.is_some() {
            return Err(unknown_function(name));
        }
        let lazy = u32::from(matches!(upper.as_str(), "COALESCE" | "IIF" | "CHOOSE"));
        self.lazy += lazy;
        let bound = self.scalar(name, &upper, &args, scope);
        self.lazy -= lazy;
        bound
    }

    fn scalar(&mut self, name: &str, upper: &str, args: &[&Expr], scope: &Scope<'_>) -> SqlResult<Bound> {
        let exactly = |n: usize| {
            if args.len() == n {
                Ok(())
            } else {
                Err(argument_count(&name.to_lowercase(), n))
            }
        };
        match upper {
            "ISNULL" => {
                exactly(2)?;
                let first = self.expr(args[0], scope)?;
                let second = self.expr(args[1], scope)?;
                let ty = if first.untyped { second.ty } else { first.ty };
                let nullable = first.nullable && second.nullable;
                let (first, second) = (self.coerce(first, ty)?, self.coerce(second, ty)?);
                if let Some(value) = first.value() {
                    return Ok(if *value == Value::Null { second } else { first });
                }
                let (a, b) = (self.emit(&first), self.emit(&second));
                Ok(Bound::sql(format!("ifnull({a}, {b})"), ty, nullable))
            }
            "COALESCE" => {
                if args.is_empty() {
                    return Err(argument_count("coalesce", 2));
                }
                let bound: SqlResult<Vec<Bound>> = args.iter().map(|a| self.expr(a, scope)).collect();
                let mut bound = bound?;
                let Some(last) = bound.pop() else {
                    return Err(argument_count("coalesce", 2));
                };
                let mut branches = Vec::new();
                for b in bound {
                    let sql = self.emit(&b);
                    branches.push((Some(format!("{sql} IS NOT NULL")), b));
                }
                branches.push((None, last));
                self.branches(branches)
            }
            "NULLIF" => {
                exactly(2)?;
                let (a, b) = (self.expr(args[0], scope)?, self.expr(args[1], scope)?);
                let condition = self.compare("=", a.clone(), b)?;
                let sql = self.emit(&a);
                Ok(Bound::sql(
                    format!("CASE WHEN {condition} THEN NULL ELSE {sql} END"),
                    a.ty,
                    true,
                ))
            }
            "IIF" => {
                exactly(3)?;
                let condition = self.predicate(args[0], scope)?;
                let (yes, no) = (self.expr(args[1], scope)?, self.expr(args[2], scope)?);
                self.branches(vec![(Some(condition), yes), (None, no)])
            }
            "CHOOSE" => {
                let index = self.expr(args.first().ok_or_else(|| argument_count("choose", 2))?, scope)?;
                let mut branches = Vec::new();
                for (i, arg) in args[1..].iter().enumerate() {
                    let item = self.expr(arg, scope)?;
                    let position = Bound::constant(Value::Int(i as i64 + 1), SqlType::Int);
                    branches.push((Some(self.compare("=", index.clone(), position)?), item));
                }
                branches.push((None, super::literal::literal(&sqlparser::ast::Value::Null)?));
                self.branches(branches)
            }
            "YEAR" | "MONTH" | "DAY" => {
                exactly(1)?;
                let part = DatePart::by_name(upper, name)?;
                let value = self.expr(args[0], scope)?;
                self.call(
                    Func::DatePart,
                    vec![Bound::constant(Value::Int(part as i64), SqlType::Int), value],
                )
            }
            "DATEADD" | "DATEDIFF" | "DATEPART" | "DATENAME" => {
                let Some((Expr::Identifier(part), rest)) = args.split_first().map(|(p, r)| (*p, r)) else {
                    return Err(sql_error(
                        1023,
                        15,
                        format!("Invalid parameter 1 specified for {}.", name.to_lowercase()),
                    ));
                };
                let part = DatePart::by_name(&part.value, name)?;
                let mut bound = vec![Bound::constant(Value::Int(part as i64), SqlType::Int)];
                for arg in rest {
                    bound.push(self.expr(arg, scope)?);
                }
                self.pure_call(upper, bound)
            }
            _ => {
                let bound: SqlResult<Vec<Bound>> = args.iter().map(|a| self.expr(a, scope)).collect();
                let bound = bound?;
                let version = self.ctx.engine.options.version;
                if let Some((func, ty)) = ContextFunc::by_name(upper, bound.len(), version)? {
                    return self.context_call(func, ty, &bound);
                }
                self.pure_call(upper, bound)
            }
        }
    }

    fn context_call(&mut self, func: ContextFunc, ty: SqlType, args: &[Bound]) -> SqlResult<Bound> {
        let described: Vec<_> = args.iter().map(Bound::argument).collect();
        if func.foldable(&described) {
            let values: Vec<(Value, SqlType)> = described
                .into_iter()
                .filter_map(|a| Some((a.constant?, a.ty)))
                .collect();
            let mut bound = Bound::constant(func.answer(self.ctx, &values)?, ty);
            bound.nullable = true;
            return Ok(bound);
        }
        let list = self.argument_list(args);
        Ok(Bound::sql(
            format!("tctx({}, {}{list})", func as i64, code_of(ty)),
            ty,
            true,
        ))
    }

    /// A call of a function by name.
    pub(super) fn pure_call(&mut self, name: &str, args: Vec<Bound>) -> SqlResult<Bound> {
        match Func::by_name(name, args.len(), self.ctx.engine.options.version)? {
            Some(func) => self.call(func, args),
            None => Err(unknown_function(name)),
        }
    }

    /// A call of a function; folded when its arguments are constants.
    pub(super) fn call(&mut self, func: Func, args: Vec<Bound>) -> SqlResult<Bound> {
        let described: Vec<_> = args.iter().map(Bound::argument).collect();
        let ty = func.result_type(&described)?;
        if (!func.is_volatile() || self.fold_volatile) && described.iter().all(|a| a.constant.is_some()) {
            let values: Vec<(Value, SqlType)> = described
                .into_iter()
                .filter_map(|a| Some((a.constant?, a.ty)))
                .collect();
            return Ok(Bound::constant(func.call(&values, ty)?, ty));
        }
        let list = self.argument_list(&args);
        let entry = if func.is_volatile() { "tvol" } else { "tfunc" };
        Ok(Bound::sql(
            format!("{entry}({}, {}{list})", func as i64, code_of(ty)),
            ty,
            true,
        ))
    }

    fn argument_list(&mut self, args: &[Bound]) -> String {
        let mut list = String::new();
        for arg in args {
            let sql = self.emit(arg);
            list.push_str(&format!(", {sql}, {}", code_of(arg.ty)));
        }
        list
    }

    fn aggregate(
        &mut self,
        name: &str,
        args: &[&Expr],
        distinct: bool,
        star: bool,
        function: &Function,
        scope: &Scope<'_>,
    ) -> SqlResult<Bound> {
        let windowed = function.over.is_some();
        let ranking = !matches!(
            name,
            "COUNT" | "COUNT_BIG" | "SUM" | "AVG" | "MIN" | "MAX" | "STRING_AGG"
        );
        if ranking && !windowed {
            return Err(sql_error(
                10753,
                15,
                format!("The function '{name}' must have an OVER clause."),
            ));
        }
        // Within an aggregate any column may stand; within a window function what grouping leaves.
        let before = scope.free.get();
        if !windowed {
            if before && scope.aggregates.get() {
                return Err(sql_error(
                    130,
                    15,
                    "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.",
                ));
            }
            scope.aggregates.set(true);
            scope.free.set(true);
        }
        let bound: SqlResult<Vec<Bound>> = args.iter().map(|a| self.expr(a, scope)).collect();
        scope.free.set(before);
        let bound = bound?;
        let over = match &function.over {
            Some(WindowType::WindowSpec(spec)) => self.window(spec, scope)?,
            Some(WindowType::NamedWindow(_)) => return Err(not_supported("WINDOW")),
            None => String::new(),
        };
        let first = bound.first();
        let word = if distinct { "DISTINCT " } else { "" };
        match name {
            "COUNT" | "COUNT_BIG" => {
                let ty = if name == "COUNT" { SqlType::Int } else { SqlType::BigInt };
                if star {
                    return Ok(Bound::sql(format!("count(*){over}"), ty, false));
                }
                let Some(arg) = first else {
                    return Err(argument_count(&name.to_lowercase(), 1));
                };
                let sql = self.emit(arg);
                Ok(Bound::sql(
                    format!("count({word}{sql}{}){over}", collation(arg.ty, arg.binary)),
                    ty,
                    false,
                ))
            }
            "MIN" | "MAX" | "SUM" | "AVG" => {
                let [arg] = bound.as_slice() else {
                    return Err(argument_count(&name.to_lowercase(), 1));
                };
                let ty = aggregate_type(name, arg.ty)?;
                let sql = self.emit(arg);
                let call = if name == "MIN" || name == "MAX" {
                    format!("{}({sql}{}){over}", name.to_lowercase(), collation(arg.ty, arg.binary))
                } else if distinct {
                    // SQLite takes DISTINCT with one argument only, and tsum has two.
                    return Err(not_supported("DISTINCT"));
                } else {
                    format!("t{}({sql}, {}){over}", name.to_lowercase(), code_of(arg.ty))
                };
                Ok(Bound::sql(call, ty, true))
            }
            "STRING_AGG" => {
                let [text, separator] = bound.as_slice() else {
                    return Err(argument_count("string_agg", 2));
                };
                let (text, separator) = (text.clone(), separator.clone());
                let target = SqlType::NVarChar(Length::Max);
                let (text, separator) = (
                    self.cast(text, target, 0, false)?,
                    self.cast(separator, target, 0, false)?,
                );
                let (a, b) = (self.emit(&text), self.emit(&separator));
                let mut order = String::new();
                if !function.within_group.is_empty() {
                    let was = scope.free.replace(true);
                    order = format!(" ORDER BY {}", self.order_list(&function.within_group, scope)?);
                    scope.free.set(was);
                }
                Ok(Bound::sql(format!("string_agg({a}, {b}{order}){over}"), target, true))
            }
            "ROW_NUMBER" | "RANK" | "DENSE_RANK" => Ok(Bound::sql(
                format!("{}(){over}", name.to_lowercase()),
                SqlType::BigInt,
                true,
            )),
            "NTILE" => {
                let arg = first.ok_or_else(|| argument_count("ntile", 1))?;
                let sql = self.emit(arg);
                Ok(Bound::sql(format!("ntile({sql}){over}"), SqlType::BigInt, true))
            }
            _ => {
                let arg = first.ok_or_else(|| argument_count(&name.to_lowercase(), 1))?.clone();
                let mut list = self.emit(&arg);
                if let Some(offset) = bound.get(1) {
                    list.push_str(&format!(", {}", self.emit(offset)));
                }
                if let Some(default) = bound.get(2) {
                    let default = self.coerce(default.clone(), arg.ty)?;
                    list.push_str(&format!(", {}", self.emit(&default)));
                }
                Ok(Bound::sql(
                    format!("{}({list}){over}", name.to_lowercase()),
                    arg.ty,
                    true,
                ))
            }
        }
    }

    fn window(&mut self, spec: &WindowSpec, scope: &Scope<'_>) -> SqlResult<String> {
        let mut parts = Vec::new();
        if !spec.partition_by.is_empty() {
            let mut list = Vec::new();
            for e in &spec.partition_by {
                let bound = self.expr(e, scope)?;
                let sql = self.comparable(&bound);
                list.push(format!("{sql}{}", collation(bound.ty, bound.binary)));
            }
            parts.push(format!("PARTITION BY {}", list.join(", ")));
        }
        if !spec.order_by.is_empty() {
            parts.push(format!("ORDER BY {}", self.order_list(&spec.order_by, scope)?));
        }
        if let Some(frame) = &spec.window_frame {
            let bound = |b: &WindowFrameBound| -> SqlResult<String> {
                let n = |e: &Expr| match e {
                    Expr::Value(v) => Ok(v.to_string()),
                    _ => Err(not_supported("ROWS")),
                };
                Ok(match b {
                    WindowFrameBound::CurrentRow => "CURRENT ROW".into(),
                    WindowFrameBound::Preceding(None) => "UNBOUNDED PRECEDING".into(),
                    WindowFrameBound::Following(None) => "UNBOUNDED FOLLOWING".into(),
                    WindowFrameBound::Preceding(Some(e)) => format!("{} PRECEDING", n(e)?),
                    WindowFrameBound::Following(Some(e)) => format!("{} FOLLOWING", n(e)?),
                })
            };
            let start = bound(&frame.start_bound)?;
            parts.push(match &frame.end_bound {
                Some(end) => format!("{} BETWEEN {start} AND {}", frame.units, bound(end)?),
                None => format!("{} {start}", frame.units),
            });
        }
        Ok(format!(" OVER ({})", parts.join(" ")))
    }

    /// A list of ordering expressions.
    pub(super) fn order_list(&mut self, list: &[OrderByExpr], scope: &Scope<'_>) -> SqlResult<String> {
        let mut sql = Vec::with_capacity(list.len());
        for item in list {
            let bound = self.expr(&item.expr, scope)?;
            if bound.value().is_some() {
                // ORDER BY (SELECT NULL) and its like order by nothing.
                sql.push("NULL".to_owned());
                continue;
            }
            let e = self.comparable(&bound);
            let direction = if item.options.asc == Some(false) { " DESC" } else { "" };
            sql.push(format!("{e}{}{direction}", collation(bound.ty, bound.binary)));
        }
        Ok(sql.join(", "))
    }
}

/// The parts of a name.
pub(super) fn name_parts(name: &ObjectName) -> Vec<String> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => ident.value.clone(),
            ObjectNamePart::Function(f) => f.name.value.clone(),
        })
        .collect()
}

/// Arguments, whether DISTINCT stands before them, and whether they are `*`.
fn arguments(function: &Function) -> SqlResult<(Vec<&Expr>, bool, bool)> {
    let list = match &function.args {
        FunctionArguments::None => return Ok((Vec::new(), false, false)),
        FunctionArguments::Subquery(_) => return Err(not_supported("SELECT")),
        FunctionArguments::List(list) => list,
    };
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let mut args = Vec::with_capacity(list.args.len());
    let mut star = false;
    for arg in &list.args {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => args.push(e),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => star = true,
            other => return Err(not_supported(&other.to_string())),
        }
    }
    Ok((args, distinct, star))
}
