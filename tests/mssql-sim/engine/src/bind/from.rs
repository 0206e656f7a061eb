//! FROM: tables, catalogue views, derived tables, CTEs, the change functions, and joins.

use std::sync::Arc;

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Join, JoinConstraint, JoinOperator, TableAlias, TableFactor, TableWithJoins,
};

use super::{Binder, Bound, Scope, Source, SourceColumn, call::name_parts, query::CteFrame};
use crate::{
    catalog::{CatalogView, Instance, Storage, Table, same_name, system_view},
    cdc::Lsn,
    error::{SqlResult, invalid_object, not_supported, other_database, sql_error},
    parse::parse_expression,
    value::{SqlType, Value},
};

impl Binder<'_> {
    /// Binds a FROM clause: its SQL and its sources.
    ///
    /// # Errors
    /// 208 for an unknown object, and those of join conditions and derived tables.
    pub fn from(&mut self, from: &[TableWithJoins], outer: Option<&Scope<'_>>) -> SqlResult<(String, Vec<Source>)> {
        let mut sources: Vec<Source> = Vec::new();
        let mut items = Vec::new();
        for item in from {
            items.push(self.table_with_joins(item, outer, &mut sources)?);
        }
        for (i, source) in sources.iter().enumerate() {
            let twin = sources[..i].iter().any(|s| {
                same_name(&s.name, &source.name)
                    && s.schema
                        .as_deref()
                        .zip(source.schema.as_deref())
                        .is_none_or(|(a, b)| same_name(a, b))
            });
            if twin {
                return Err(sql_error(
                    1011,
                    15,
                    format!(
                        "The correlation name '{}' is specified multiple times in a FROM clause.",
                        source.name
                    ),
                ));
            }
        }
        Ok((items.join(", "), sources))
    }

    fn table_with_joins(
        &mut self,
        item: &TableWithJoins,
        outer: Option<&Scope<'_>>,
        sources: &mut Vec<Source>,
    ) -> SqlResult<String> {
        let first = sources.len();
        let mut sql = self.factor(&item.relation, outer, sources)?;
        for join in &item.joins {
            self.join(join, outer, sources, first, &mut sql)?;
        }
        Ok(sql)
    }

    fn join(
        &mut self,
        join: &Join,
        outer: Option<&Scope<'_>>,
        sources: &mut Vec<Source>,
        first: usize,
        sql: &mut String,
    ) -> SqlResult<()> {
        let (word, constraint) = match &join.join_operator {
            JoinOperator::Join(c) | JoinOperator::Inner(c) => ("JOIN", Some(c)),
            JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => ("LEFT JOIN", Some(c)),
            JoinOperator::Right(c) | JoinOperator::RightOuter(c) => ("RIGHT JOIN", Some(c)),
            JoinOperator::FullOuter(c) => ("FULL JOIN", Some(c)),
            JoinOperator::CrossJoin(_) => ("CROSS JOIN", None),
            _ => return Err(not_supported("APPLY")),
        };
        let at = sources.len();
        let right = self.factor(&join.relation, outer, sources)?;
        let (left_null, right_null) = match word {
            "LEFT JOIN" => (false, true),
            "RIGHT JOIN" => (true, false),
            "FULL JOIN" => (true, true),
            _ => (false, false),
        };
        for (i, source) in sources.iter_mut().enumerate().skip(first) {
            if if i < at { left_null } else { right_null } {
                source.columns.iter_mut().for_each(|c| c.nullable = true);
            }
        }
        sql.push_str(&format!(" {word} {right}"));
        match constraint {
            None => {}
            Some(JoinConstraint::On(on)) => {
                let scope = Scope::new(sources.clone(), outer);
                let on = self.predicate(on, &scope)?;
                sql.push_str(&format!(" ON {on}"));
            }
            Some(_) => return Err(crate::error::syntax_near("JOIN")),
        }
        Ok(())
    }

    fn factor(
        &mut self,
        factor: &TableFactor,
        outer: Option<&Scope<'_>>,
        sources: &mut Vec<Source>,
    ) -> SqlResult<String> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                version: None,
                sample: None,
                ..
            } => {
                let parts = name_parts(name);
                match args {
                    Some(args) => self.table_function(&parts, &args.args, alias.as_ref(), outer, sources),
                    None => self.named(&parts, alias.as_ref(), sources),
                }
            }
            TableFactor::Derived {
                subquery,
                alias,
                lateral: false,
                ..
            } => {
                let bound = self.query(subquery, outer)?;
                let Some(alias) = alias else {
                    return Err(crate::error::syntax_near(")"));
                };
                self.derived(&bound.sql, &bound.columns, alias, sources)
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => Ok(format!(
                "({})",
                self.table_with_joins(table_with_joins, outer, sources)?
            )),
            other => Err(not_supported(&other.to_string())),
        }
    }

    fn derived(
        &mut self,
        sql: &str,
        columns: &[super::OutputColumn],
        alias: &TableAlias,
        sources: &mut Vec<Source>,
    ) -> SqlResult<String> {
        let x = self.alias();
        let mut made = Vec::with_capacity(columns.len());
        for (i, column) in columns.iter().enumerate() {
            let name = alias.columns.get(i).map_or(&column.name, |c| &c.name.value);
            if name.is_empty() {
                return Err(sql_error(
                    8155,
                    16,
                    format!(
                        "No column name was specified for column {} of '{}'.",
                        i + 1,
                        alias.name.value
                    ),
                ));
            }
            made.push(SourceColumn {
                name: name.clone(),
                ty: column.ty,
                nullable: column.nullable,
                sql: format!("{x}.c{}", i + 1),
                id: 0,
                collation: column.collation,
            });
        }
        sources.push(Source {
            name: alias.name.value.clone(),
            schema: None,
            columns: made,
            table: None,
            sql_alias: x.clone(),
        });
        Ok(format!("({sql}) AS {x}"))
    }

    fn named(&mut self, parts: &[String], alias: Option<&TableAlias>, sources: &mut Vec<Source>) -> SqlResult<String> {
        if let [name] = parts
            && let Some(at) = self.ctes.iter().rposition(|c| same_name(&c.name, name))
        {
            return self.cte(at, name, alias, sources);
        }
        let full = parts.join(".");
        let (database, schema, name) = split(parts).ok_or_else(|| invalid_object(&full))?;
        let elsewhere = database.is_some_and(|db| !same_name(db, &self.ctx.database.name));
        if let Some(view) = system_view(schema, name) {
            if view.is_cdc() && !self.ctx.catalog.settings.cdc {
                return Err(invalid_object(&full));
            }
            // Views of another database show that one; only the server's are the same everywhere.
            if elsewhere && !same_name(view.name, "databases") {
                return Err(other_database(self.ctx.engine.options.version, &full));
            }
            return Ok(self.view(view, alias, sources));
        }
        if elsewhere && self.ctx.engine.options.version.is_azure() {
            return Err(other_database(self.ctx.engine.options.version, &full));
        }
        if elsewhere {
            return Err(match database.and_then(|db| self.ctx.engine.database(db)) {
                Some(_) => not_supported(&full),
                None => sql_error(
                    911,
                    16,
                    format!(
                        "Database '{}' does not exist. Make sure that the name is entered correctly.",
                        database.unwrap_or("")
                    ),
                ),
            });
        }
        let Some(table) = self.ctx.catalog.table(schema, name).cloned() else {
            return Err(invalid_object(&full));
        };
        let x = self.alias();
        self.note_read(table.id, None);
        sources.push(self.source(&table, &x, alias.map(|a| a.name.value.as_str()))?);
        Ok(format!("{} AS {x}", self.rows_of(&table)))
    }

    /// What generated SQL reads for a table: all of it, or of CDC's tables what an older copy of the database has.
    fn rows_of(&self, table: &Table) -> String {
        let lsn_column = if same_name(&table.name, "ddl_history") { 5 } else { 1 };
        match self.ctx.as_of {
            Some(lsn) if table.storage == Storage::Cdc => {
                let hex: String = lsn.0.iter().map(|b| format!("{b:02X}")).collect();
                format!("(SELECT * FROM {} WHERE c{lsn_column} <= X'{hex}')", table.sql_name())
            }
            _ => table.sql_name(),
        }
    }

    /// A table as a FROM item under an alias of generated SQL; its computed columns become their expressions.
    ///
    /// # Errors
    /// Those of the expressions, which were bound once when the table was made.
    pub fn source(&mut self, table: &Arc<Table>, x: &str, alias: Option<&str>) -> SqlResult<Source> {
        let mut source = read_table(table, x, alias, self.ctx.catalog.schema_name(table.schema_id));
        for at in 0..table.columns.len() {
            if let Some(text) = &table.columns[at].computed {
                let bound = self.computed(table, x, text)?;
                let before = std::mem::replace(&mut self.inline, true);
                source.columns[at].sql = format!("({})", self.emit(&bound));
                self.inline = before;
            }
        }
        Ok(source)
    }

    /// The expression of a computed column over the table's other columns.
    ///
    /// # Errors
    /// 207 for a name that is no stored column of the table, and the others of an expression.
    pub fn computed(&mut self, table: &Arc<Table>, x: &str, text: &str) -> SqlResult<Bound> {
        let mut stored = read_table(table, x, None, "");
        stored
            .columns
            .retain(|c| table.column_by_id(c.id).is_some_and(|c| c.computed.is_none()));
        // Whoever may read the computed column may read it, whatever it is made of.
        stored.table = None;
        let scope = Scope::new(vec![stored], None);
        scope.free.set(true);
        let before = std::mem::replace(&mut self.inline, true);
        let bound = parse_expression(text).and_then(|expr| self.expr(&expr, &scope));
        self.inline = before;
        bound
    }

    fn view(&mut self, view: &'static CatalogView, alias: Option<&TableAlias>, sources: &mut Vec<Source>) -> String {
        let table = match self.views.iter().find(|(_, v)| std::ptr::eq(*v, view)) {
            Some((name, _)) => name.clone(),
            None => {
                let name = format!("view{}", self.views.len());
                self.views.push((name.clone(), view));
                name
            }
        };
        let x = self.alias();
        sources.push(Source {
            name: alias.map_or_else(|| view.name.to_owned(), |a| a.name.value.clone()),
            schema: alias.is_none().then(|| view.schema.to_owned()),
            columns: view
                .columns
                .iter()
                .enumerate()
                .map(|(i, (name, ty, nullable))| SourceColumn {
                    name: (*name).to_owned(),
                    ty: *ty,
                    nullable: *nullable,
                    sql: format!("{x}.c{}", i + 1),
                    id: 0,
                    collation: None,
                })
                .collect(),
            table: None,
            sql_alias: x.clone(),
        });
        format!("temp.{table} AS {x}")
    }

    fn cte(
        &mut self,
        at: usize,
        name: &str,
        alias: Option<&TableAlias>,
        sources: &mut Vec<Source>,
    ) -> SqlResult<String> {
        let frame: CteFrame = self.ctes[at].clone();
        let renamed = |columns: &[super::OutputColumn]| -> Vec<super::OutputColumn> {
            columns
                .iter()
                .enumerate()
                .map(|(i, c)| super::OutputColumn {
                    name: frame.columns.get(i).unwrap_or(&c.name).clone(),
                    ..c.clone()
                })
                .collect()
        };
        let own;
        let alias = match alias {
            Some(a) => a,
            None => {
                own = TableAlias {
                    explicit: false,
                    name: sqlparser::ast::Ident::new(name),
                    columns: Vec::new(),
                    at: None,
                };
                &own
            }
        };
        if let Some((sql_name, columns)) = &frame.recursive {
            // Within and after a recursive CTE its SQLite name stands for it, and SQLite wants it bare in FROM.
            let columns = renamed(columns);
            let whole = self.derived("", &columns, alias, sources)?;
            let x = whole.rsplit(' ').next().unwrap_or("x");
            return Ok(format!("{sql_name} AS {x}"));
        }
        // A CTE sees those before it, not itself.
        let hidden = self.ctes.split_off(at);
        let bound = self.query(&frame.query, None);
        self.ctes.extend(hidden);
        let bound = bound?;
        let columns = renamed(&bound.columns);
        self.derived(&bound.sql, &columns, alias, sources)
    }

    fn table_function(
        &mut self,
        parts: &[String],
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
        outer: Option<&Scope<'_>>,
        sources: &mut Vec<Source>,
    ) -> SqlResult<String> {
        let full = parts.join(".");
        let unknown = || invalid_object(&full);
        let [.., schema, name] = parts else {
            return Err(unknown());
        };
        let lower = name.to_lowercase();
        let Some(instance) = lower
            .strip_prefix("fn_cdc_get_all_changes_")
            .filter(|_| same_name(schema, "cdc"))
        else {
            return Err(unknown());
        };
        let Some(instance) = self.ctx.catalog.instance(instance).cloned() else {
            return Err(unknown());
        };
        let empty = Scope::new(Vec::new(), outer);
        let mut values = Vec::new();
        for arg in args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = arg else {
                return Err(not_supported(&full));
            };
            values.push(self.constant(e, &empty)?);
        }
        let insufficient = || {
            sql_error(
                313,
                16,
                format!("An insufficient number of arguments were supplied for the procedure or function {full} ... ."),
            )
        };
        let [from, to, filter] = values.as_slice() else {
            return Err(insufficient());
        };
        self.all_changes(&instance, (from, to, filter), alias, sources, insufficient)
    }

    fn constant(&mut self, e: &Expr, scope: &Scope<'_>) -> SqlResult<(Value, SqlType)> {
        let bound = self.expr(e, scope)?;
        match bound.value() {
            Some(v) => Ok((v.clone(), bound.ty)),
            None => Err(not_supported(&e.to_string())),
        }
    }

    /// `cdc.fn_cdc_get_all_changes_<instance>`: an error 313 for a range outside the timeline, as there.
    #[allow(clippy::type_complexity)]
    fn all_changes(
        &mut self,
        instance: &Instance,
        (from, to, filter): (&(Value, SqlType), &(Value, SqlType), &(Value, SqlType)),
        alias: Option<&TableAlias>,
        sources: &mut Vec<Source>,
        refused: impl Fn() -> crate::result::SqlError,
    ) -> SqlResult<String> {
        let lsn = |(value, ty): &(Value, SqlType)| -> SqlResult<Lsn> {
            match super::converted(value, *ty, SqlType::Binary(10))? {
                Value::Bytes(b) => Ok(Lsn::of(&b)),
                _ => Err(refused()),
            }
        };
        let (low, high) = (lsn(from)?, lsn(to)?);
        let state = self.ctx.database.cdc.lock();
        let start = state.starts.get(&instance.id).copied();
        drop(state);
        let end = self.ctx.max_lsn();
        if !crate::context::may_read_instance(self.ctx, instance)
            || start.is_none_or(|s| low < s)
            || end.is_none_or(|e| high > e)
            || low > high
        {
            return Err(refused());
        }
        let old = match &filter.0 {
            Value::Text(t) if t.trim().eq_ignore_ascii_case("all") => false,
            Value::Text(t) if t.trim().eq_ignore_ascii_case("all update old") => true,
            _ => return Err(refused()),
        };
        let Some(table) = self.ctx.catalog.tables.get(&instance.id).cloned() else {
            return Err(refused());
        };
        let shown: Vec<_> = table
            .columns
            .iter()
            .filter(|c| c.name != "__$end_lsn" && c.name != "__$command_id")
            .collect();
        let list: Vec<String> = shown
            .iter()
            .enumerate()
            .map(|(i, c)| format!("c{} AS c{}", c.id, i + 1))
            .collect();
        let bound = |l: Lsn| super::Bound::constant(Value::Bytes(l.0.to_vec()), SqlType::Binary(10));
        let (low, high) = (self.emit(&bound(low)), self.emit(&bound(high)));
        let only = if old { "" } else { " AND c4 <> 3" };
        let sql = format!(
            "SELECT {} FROM {} WHERE c1 >= {low} AND c1 <= {high}{only}",
            list.join(", "),
            table.sql_name()
        );
        let columns: Vec<super::OutputColumn> = shown
            .iter()
            .map(|c| super::OutputColumn {
                name: c.name.clone(),
                ty: c.ty,
                nullable: c.nullable,
                binary: false,
                collation: c.collation.is_some().then(|| c.collation()),
            })
            .collect();
        let own;
        let alias = match alias {
            Some(a) => a,
            None => {
                own = TableAlias {
                    explicit: false,
                    name: sqlparser::ast::Ident::new(format!("fn_cdc_get_all_changes_{}", instance.name)),
                    columns: Vec::new(),
                    at: None,
                };
                &own
            }
        };
        self.derived(&sql, &columns, alias, sources)
    }
}

/// A table's stored columns as a FROM item under an alias of generated SQL.
fn read_table(table: &Arc<Table>, x: &str, alias: Option<&str>, schema: &str) -> Source {
    Source {
        name: alias.unwrap_or(&table.name).to_owned(),
        schema: alias.is_none().then(|| schema.to_owned()),
        columns: table
            .columns
            .iter()
            .map(|c| SourceColumn {
                name: c.name.clone(),
                ty: c.ty,
                nullable: c.nullable,
                sql: format!("{x}.c{}", c.id),
                id: c.id,
                collation: c.collation.is_some().then(|| c.collation()),
            })
            .collect(),
        table: Some(Arc::clone(table)),
        sql_alias: x.to_owned(),
    }
}

/// Database, schema and name of a name of one to three parts; an empty schema (`db..t`) is none.
pub(crate) fn split(parts: &[String]) -> Option<(Option<&str>, Option<&str>, &str)> {
    match parts {
        [name] => Some((None, None, name)),
        [schema, name] => Some((None, Some(schema.as_str()).filter(|s| !s.is_empty()), name)),
        [database, schema, name] => Some((Some(database), Some(schema.as_str()).filter(|s| !s.is_empty()), name)),
        _ => None,
    }
}
