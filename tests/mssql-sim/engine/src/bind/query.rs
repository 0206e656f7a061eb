//! Queries: SELECT, set operations, CTEs, ORDER BY, TOP and OFFSET.

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, LimitClause, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, SetQuantifier, TopQuantity, Value as Literal,
};

use super::{Binder, Bound, Code, Scope, call::name_parts, predicate::collation, scope::find_source};
use crate::{
    catalog::same_name,
    error::{SqlResult, not_supported, sql_error, syntax_near},
    types::{Collation, common_type},
    value::{SqlType, Value},
};

/// A column of a query's result.
#[derive(Debug, Clone)]
pub struct OutputColumn {
    /// Empty for an expression without alias.
    pub name: String,
    pub ty: SqlType,
    pub nullable: bool,
    pub binary: bool,
    pub collation: Option<Collation>,
}

/// A bound query. Its SQL names its columns `c1`, `c2`, ….
#[derive(Debug, Clone)]
pub struct BoundQuery {
    pub sql: String,
    pub columns: Vec<OutputColumn>,
}

/// A common table expression in reach.
#[derive(Debug, Clone)]
pub(super) struct CteFrame {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    pub(super) query: Box<Query>,
    /// SQLite name and columns of one that refers to itself.
    pub(super) recursive: Option<(String, Vec<OutputColumn>)>,
}

/// Terms of one compound SELECT; SQLite takes 500.
const COMPOUND: usize = 400;

impl Binder<'_> {
    /// Binds a query.
    ///
    /// # Errors
    /// SQL Server's for whatever does not bind.
    pub fn query(&mut self, query: &Query, outer: Option<&Scope<'_>>) -> SqlResult<BoundQuery> {
        let depth = self.ctes.len();
        let mut with = String::new();
        if let Some(clause) = &query.with {
            for cte in &clause.cte_tables {
                let frame = CteFrame {
                    name: cte.alias.name.value.clone(),
                    columns: cte.alias.columns.iter().map(|c| c.name.value.clone()).collect(),
                    query: cte.query.clone(),
                    recursive: None,
                };
                self.ctes.push(frame);
                if let Some(sql) = self.recursive_cte(outer)? {
                    with = if with.is_empty() {
                        format!("WITH RECURSIVE {sql}")
                    } else {
                        format!("{with}, {sql}")
                    };
                }
            }
        }
        let bound = self.query_body(query, outer);
        self.ctes.truncate(depth);
        let mut bound = bound?;
        if !with.is_empty() {
            bound.sql = format!("{with} {}", bound.sql);
        }
        Ok(bound)
    }

    /// The CTE just pushed, if it is `anchor UNION ALL member` and the member refers to it.
    fn recursive_cte(&mut self, outer: Option<&Scope<'_>>) -> SqlResult<Option<String>> {
        let at = self.ctes.len() - 1;
        let frame = self.ctes[at].clone();
        let SetExpr::SetOperation {
            left,
            op: SetOperator::Union,
            set_quantifier: SetQuantifier::All,
            right,
        } = frame.query.body.as_ref()
        else {
            return Ok(None);
        };
        if !mentions(right, &frame.name) {
            return Ok(None);
        }
        let hidden = self.ctes.pop();
        let anchor = self.set_expr(left, outer);
        self.ctes.extend(hidden);
        let anchor = anchor?;
        let sql_name = self.alias();
        if let Some(frame) = self.ctes.last_mut() {
            frame.recursive = Some((sql_name.clone(), anchor.columns.clone()));
        }
        let member = self.set_expr(right, outer)?;
        for (a, b) in anchor.columns.iter().zip(&member.columns) {
            if a.ty != b.ty {
                return Err(sql_error(
                    240,
                    16,
                    format!(
                        "Types don't match between the anchor and the recursive part in column \"{}\" of recursive query \"{}\".",
                        a.name, frame.name
                    ),
                ));
            }
        }
        let list: Vec<String> = (1..=anchor.columns.len()).map(|i| format!("c{i}")).collect();
        Ok(Some(format!(
            "{sql_name}({}) AS ({} UNION ALL {})",
            list.join(", "),
            anchor.sql,
            member.sql
        )))
    }

    fn query_body(&mut self, query: &Query, outer: Option<&Scope<'_>>) -> SqlResult<BoundQuery> {
        if query.for_clause.is_some() {
            return Err(not_supported("FOR"));
        }
        let order: &[OrderByExpr] = match query.order_by.as_ref().map(|o| &o.kind) {
            Some(OrderByKind::Expressions(list)) => list,
            Some(OrderByKind::All(_)) => return Err(syntax_near("ALL")),
            None => &[],
        };
        let offset = match &query.limit_clause {
            Some(LimitClause::LimitOffset {
                limit: None,
                offset: Some(offset),
                limit_by,
            }) if limit_by.is_empty() => Some(&offset.value),
            Some(_) => return Err(syntax_near("LIMIT")),
            None => None,
        };
        let fetch = query.fetch.as_ref().map(|f| f.quantity.as_ref());
        if (offset.is_some() || fetch.is_some()) && order.is_empty() {
            return Err(syntax_near("OFFSET"));
        }
        let empty = Scope::new(Vec::new(), None);
        let skip = offset.map(|e| self.count(e, &empty)).transpose()?;
        let take = match fetch {
            Some(Some(e)) => Some(self.count(e, &empty)?),
            Some(None) => Some(1),
            None => None,
        };
        let limit = match (take, skip) {
            (Some(n), Some(m)) => format!(" LIMIT {n} OFFSET {m}"),
            (Some(n), None) => format!(" LIMIT {n}"),
            (None, Some(m)) => format!(" LIMIT -1 OFFSET {m}"),
            (None, None) => String::new(),
        };
        match query.body.as_ref() {
            SetExpr::Select(select) => {
                let mut bound = self.select(select, order, outer)?;
                bound.sql.push_str(&limit);
                Ok(bound)
            }
            body => {
                let mut bound = self.set_expr(body, outer)?;
                if !order.is_empty() || !limit.is_empty() {
                    let list = self.order_of_output(order, &bound.columns)?;
                    bound.sql = format!("SELECT * FROM ({}){list}{limit}", bound.sql);
                }
                Ok(bound)
            }
        }
    }

    /// A set operation, a SELECT or a parenthesised query.
    fn set_expr(&mut self, body: &SetExpr, outer: Option<&Scope<'_>>) -> SqlResult<BoundQuery> {
        match body {
            SetExpr::Select(select) => {
                let mut bound = self.select(select, &[], outer)?;
                if select.top.is_some() {
                    bound.sql = format!("SELECT * FROM ({})", bound.sql);
                }
                Ok(bound)
            }
            SetExpr::Query(query) => {
                let mut bound = self.query(query, outer)?;
                bound.sql = format!("SELECT * FROM ({})", bound.sql);
                Ok(bound)
            }
            SetExpr::SetOperation { op, set_quantifier, .. } => {
                // A long UNION ALL is a deep left spine: walk it without recursion.
                let mut parts = Vec::new();
                let mut rest = body;
                while let SetExpr::SetOperation {
                    left,
                    op: inner,
                    set_quantifier: q,
                    right,
                } = rest
                    && inner == op
                    && q == set_quantifier
                {
                    parts.push(right.as_ref());
                    rest = left;
                }
                parts.push(rest);
                parts.reverse();
                let all = *set_quantifier == SetQuantifier::All;
                let word = match (op, all) {
                    (SetOperator::Union, true) => " UNION ALL ",
                    (SetOperator::Union, false) => " UNION ",
                    (SetOperator::Except, false) => " EXCEPT ",
                    (SetOperator::Intersect, false) => " INTERSECT ",
                    _ => return Err(syntax_near("ALL")),
                };
                let bound: SqlResult<Vec<BoundQuery>> = parts.into_iter().map(|p| self.set_expr(p, outer)).collect();
                self.compound(bound?, word, all)
            }
            SetExpr::Values(values) => {
                let scope = Scope::new(Vec::new(), outer);
                let mut rows = Vec::new();
                for row in &values.rows {
                    let mut columns = Vec::new();
                    let mut list = Vec::new();
                    for (i, e) in row.content.iter().enumerate() {
                        let bound = self.expr(e, &scope)?;
                        let sql = self.emit(&bound);
                        list.push(format!("{sql} AS c{}", i + 1));
                        columns.push(OutputColumn {
                            name: String::new(),
                            ty: bound.ty,
                            nullable: bound.nullable,
                            binary: false,
                            collation: bound.collation,
                        });
                    }
                    rows.push(BoundQuery {
                        sql: format!("SELECT {}", list.join(", ")),
                        columns,
                    });
                }
                self.compound(rows, " UNION ALL ", true)
            }
            _ => Err(syntax_near("SELECT")),
        }
    }

    fn compound(&mut self, parts: Vec<BoundQuery>, word: &str, all: bool) -> SqlResult<BoundQuery> {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else {
            return Err(syntax_near("UNION"));
        };
        let mut columns = first.columns.clone();
        let parts: Vec<BoundQuery> = std::iter::once(first).chain(parts).collect();
        for part in &parts[1..] {
            if part.columns.len() != columns.len() {
                return Err(sql_error(
                    205,
                    16,
                    "All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions in their target lists.",
                ));
            }
            for (own, other) in columns.iter_mut().zip(&part.columns) {
                own.ty = common_type(own.ty, other.ty);
                own.nullable |= other.nullable;
            }
        }
        let mut sql = Vec::with_capacity(parts.len());
        for part in parts {
            let same = part
                .columns
                .iter()
                .zip(&columns)
                .all(|(a, b)| a.ty == b.ty || super::same_storage(a.ty, b.ty));
            if same && (all || !columns.iter().any(|c| c.ty.is_text())) {
                sql.push(part.sql);
                continue;
            }
            let mut list = Vec::new();
            for (i, (own, target)) in part.columns.iter().zip(&columns).enumerate() {
                let bound = Bound::sql(format!("c{}", i + 1), own.ty, own.nullable);
                let bound = self.coerce(bound, target.ty)?;
                let e = self.emit(&bound);
                list.push(format!(
                    "{e}{} AS c{}",
                    if all { "" } else { collation(target.ty, false) },
                    i + 1
                ));
            }
            sql.push(format!("SELECT {} FROM ({})", list.join(", "), part.sql));
        }
        let sql = if sql.len() > COMPOUND {
            let chunks: Vec<String> = sql
                .chunks(COMPOUND)
                .map(|c| format!("SELECT * FROM ({})", c.join(word)))
                .collect();
            chunks.join(word)
        } else {
            sql.join(word)
        };
        Ok(BoundQuery { sql, columns })
    }

    fn order_of_output(&mut self, order: &[OrderByExpr], columns: &[OutputColumn]) -> SqlResult<String> {
        let mut list = Vec::new();
        for item in order {
            let at = match &item.expr {
                Expr::Value(v) => match &v.value {
                    Literal::Number(n, _) => n.parse::<usize>().ok().filter(|n| (1..=columns.len()).contains(n)),
                    _ => None,
                },
                Expr::Identifier(name) => columns
                    .iter()
                    .position(|c| same_name(&c.name, &name.value))
                    .map(|i| i + 1),
                _ => None,
            };
            let Some(at) = at else {
                return Err(sql_error(
                    104,
                    15,
                    "ORDER BY items must appear in the select list if the statement contains a UNION, INTERSECT or EXCEPT operator.",
                ));
            };
            let column = &columns[at - 1];
            let direction = if item.options.asc == Some(false) { " DESC" } else { "" };
            list.push(format!("c{at}{}{direction}", collation(column.ty, column.binary)));
        }
        Ok(if list.is_empty() {
            String::new()
        } else {
            format!(" ORDER BY {}", list.join(", "))
        })
    }

    /// A row count of TOP, OFFSET or FETCH, which must be a constant of the statement.
    fn count(&mut self, expr: &Expr, scope: &Scope<'_>) -> SqlResult<i64> {
        let bound = self.expr(expr, scope)?;
        let bound = self.coerce(bound, SqlType::BigInt)?;
        match &bound.code {
            Code::Const(Value::Int(n)) if *n >= 0 => Ok(*n),
            Code::Const(Value::Int(_)) => Err(sql_error(
                1060,
                15,
                "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer.",
            )),
            _ => Err(not_supported(&expr.to_string())),
        }
    }

    fn select(&mut self, select: &Select, order: &[OrderByExpr], outer: Option<&Scope<'_>>) -> SqlResult<BoundQuery> {
        if select.into.is_some() {
            return Err(not_supported("INTO"));
        }
        let (from, sources) = self.from(&select.from, outer)?;
        let scope = Scope::new(sources, outer);
        // WHERE may use any column and no aggregate.
        scope.free.set(true);
        let filter = select
            .selection
            .as_ref()
            .map(|e| self.predicate(e, &scope))
            .transpose()?;
        if scope.aggregates.get() {
            return Err(sql_error(
                147,
                15,
                "An aggregate may not appear in the WHERE clause unless it is in a subquery contained in a HAVING clause or a select list, and the column being aggregated is an outer reference.",
            ));
        }
        let mut group = Vec::new();
        let GroupByExpr::Expressions(expressions, modifiers) = &select.group_by else {
            return Err(syntax_near("ALL"));
        };
        if !modifiers.is_empty() {
            return Err(not_supported("ROLLUP"));
        }
        for e in expressions {
            let bound = self.expr(e, &scope)?;
            let sql = self.comparable(&bound);
            group.push(format!("{sql}{}", collation(bound.ty, bound.binary)));
            let plain = self.emit(&bound);
            scope.groups.borrow_mut().push((e.clone(), plain));
        }
        scope.free.set(false);

        let mut items: Vec<(Bound, String)> = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(e) => {
                    let bound = self.expr(e, &scope)?;
                    let name = bound.name.clone().unwrap_or_default();
                    items.push((bound, name));
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    items.push((self.expr(expr, &scope)?, alias.value.clone()))
                }
                SelectItem::Wildcard(_) => {
                    if scope.sources.is_empty() {
                        return Err(sql_error(263, 16, "Must specify table to select from."));
                    }
                    for source in &scope.sources {
                        self.all_of(&scope, source, &mut items)?;
                    }
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let parts = name_parts(name);
                    let Some(source) = find_source(&scope, &parts) else {
                        return Err(sql_error(
                            107,
                            15,
                            format!(
                                "The column prefix '{}' does not match with a table name or alias name used in the query.",
                                parts.join(".")
                            ),
                        ));
                    };
                    self.all_of(&scope, source, &mut items)?;
                }
                other => return Err(syntax_near(&other.to_string())),
            }
        }
        let having = select.having.as_ref().map(|e| self.predicate(e, &scope)).transpose()?;
        let distinct = match &select.distinct {
            None | Some(Distinct::All) => false,
            Some(Distinct::Distinct) => true,
            Some(Distinct::On(_)) => return Err(syntax_near("ON")),
        };
        let order_sql = self.order_by(order, &scope, &items, distinct)?;

        let grouped = !group.is_empty() || scope.aggregates.get() || having.is_some();
        if grouped && let Some(column) = scope.bare.borrow().first() {
            return Err(sql_error(
                8120,
                16,
                format!(
                    "Column '{column}' is invalid in the select list because it is not contained in either an aggregate function or the GROUP BY clause."
                ),
            ));
        }
        let mut list = Vec::with_capacity(items.len());
        let mut columns = Vec::with_capacity(items.len());
        for (i, (bound, name)) in items.iter().enumerate() {
            let sql = self.emit(bound);
            let collate = if distinct {
                collation(bound.ty, bound.binary)
            } else {
                ""
            };
            list.push(format!("{sql}{collate} AS c{}", i + 1));
            columns.push(OutputColumn {
                name: name.clone(),
                ty: bound.ty,
                nullable: bound.nullable,
                binary: bound.binary,
                collation: bound.collation,
            });
        }
        let mut sql = format!("SELECT {}{}", if distinct { "DISTINCT " } else { "" }, list.join(", "));
        if !from.is_empty() {
            sql.push_str(&format!(" FROM {from}"));
        }
        if let Some(filter) = filter {
            sql.push_str(&format!(" WHERE {filter}"));
        }
        if !group.is_empty() {
            sql.push_str(&format!(" GROUP BY {}", group.join(", ")));
        }
        if let Some(having) = having {
            // SQLite wants a GROUP BY for HAVING; a constant one makes the one group.
            if group.is_empty() {
                sql.push_str(" GROUP BY NULL");
            }
            sql.push_str(&format!(" HAVING {having}"));
        }
        sql.push_str(&order_sql);
        if let Some(top) = &select.top {
            if top.with_ties || top.percent {
                return Err(not_supported(if top.percent { "PERCENT" } else { "TIES" }));
            }
            let n = match &top.quantity {
                Some(TopQuantity::Constant(n)) => i64::try_from(*n).unwrap_or(i64::MAX),
                Some(TopQuantity::Expr(e)) => {
                    let empty = Scope::new(Vec::new(), None);
                    self.count(e, &empty)?
                }
                None => return Err(syntax_near("TOP")),
            };
            sql.push_str(&format!(" LIMIT {n}"));
        }
        Ok(BoundQuery { sql, columns })
    }

    fn all_of(&mut self, scope: &Scope<'_>, source: &super::Source, items: &mut Vec<(Bound, String)>) -> SqlResult<()> {
        for column in &source.columns {
            let bound = match &source.schema {
                Some(schema) => self.qualified(scope, &[schema.clone(), source.name.clone(), column.name.clone()])?,
                None => self.qualified(scope, &[source.name.clone(), column.name.clone()])?,
            };
            items.push((bound, column.name.clone()));
        }
        Ok(())
    }

    fn order_by(
        &mut self,
        order: &[OrderByExpr],
        scope: &Scope<'_>,
        items: &[(Bound, String)],
        distinct: bool,
    ) -> SqlResult<String> {
        let mut list = Vec::new();
        for item in order {
            let position = match &item.expr {
                Expr::Value(v) => match &v.value {
                    Literal::Number(n, _) => {
                        let n = n.parse::<usize>().ok().filter(|n| (1..=items.len()).contains(n)).ok_or_else(|| {
                            sql_error(
                                108,
                                15,
                                format!("The ORDER BY position number {n} is out of range of the number of items in the select list."),
                            )
                        })?;
                        Some(n - 1)
                    }
                    _ => None,
                },
                Expr::Identifier(name) => items
                    .iter()
                    .position(|(_, alias)| !alias.is_empty() && same_name(alias, &name.value)),
                _ => None,
            };
            let bound = match position {
                Some(at) => items[at].0.clone(),
                None => self.expr(&item.expr, scope)?,
            };
            let sql = match (position, bound.value()) {
                // A constant orders nothing, and a number would be taken for a position.
                (_, Some(_)) => continue,
                _ => self.comparable(&bound),
            };
            if distinct
                && !items
                    .iter()
                    .any(|(b, _)| matches!((&b.code, &bound.code), (Code::Sql(a), Code::Sql(b)) if a == b))
            {
                return Err(sql_error(
                    145,
                    15,
                    "ORDER BY items must appear in the select list if SELECT DISTINCT is specified.",
                ));
            }
            let direction = if item.options.asc == Some(false) { " DESC" } else { "" };
            list.push(format!("{sql}{}{direction}", collation(bound.ty, bound.binary)));
        }
        Ok(if list.is_empty() {
            String::new()
        } else {
            format!(" ORDER BY {}", list.join(", "))
        })
    }
}

/// Whether a query reads a table of the name, in its FROM clauses or below.
fn mentions(body: &SetExpr, name: &str) -> bool {
    // The parser's own text form is the cheapest complete walk; a false hit only makes SQLite see a plain CTE.
    let text = body.to_string().to_lowercase();
    let name = name.to_lowercase();
    text.match_indices(&name).any(|(at, _)| {
        let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        edge(text[..at].chars().next_back()) && edge(text[at + name.len()..].chars().next())
    })
}
