//! EXEC: `sp_executesql`, role membership, and the procedures of CDC and of the stand-in itself.

use super::{Frame, Run, Session, control::Flow};
use crate::{
    cdc::procedures,
    error::{SqlResult, sql_error},
    parse::{ExecArgument, parse_expression},
    result::{ColumnMeta, Param, ResultSink},
    types::{convert, parse_type},
    value::{Length, SqlType, Value},
};

/// The arguments of a call, by the order of the procedure's parameters.
pub(crate) struct Arguments(Vec<Option<(Value, SqlType)>>);

impl Arguments {
    /// Whether an argument was not given at all (NULL counts as given).
    pub(crate) fn absent(&self, at: usize) -> bool {
        self.0.get(at).is_none_or(Option::is_none)
    }

    /// An argument as text; `None` for NULL and for one not given.
    pub(crate) fn text(&self, at: usize) -> SqlResult<Option<String>> {
        match self.0.get(at) {
            Some(Some((value, ty))) => match convert(value, *ty, SqlType::NVarChar(Length::Max))? {
                Value::Text(t) => Ok(Some(t)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// An argument as a number.
    pub(crate) fn int(&self, at: usize) -> SqlResult<Option<i64>> {
        match self.0.get(at) {
            Some(Some((value, ty))) => match convert(value, *ty, SqlType::BigInt)? {
                Value::Int(n) => Ok(Some(n)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// An argument that names a moment, as ticks of UTC. Without an offset it is UTC.
    pub(crate) fn utc_ticks(&self, at: usize) -> SqlResult<Option<i64>> {
        match self.0.get(at) {
            Some(Some((value, ty))) => match convert(value, *ty, SqlType::DateTimeOffset(7))? {
                Value::DateTimeOffset(utc, _) => Ok(Some(utc)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// An argument as an LSN.
    pub(crate) fn lsn(&self, at: usize) -> SqlResult<Option<crate::cdc::Lsn>> {
        match self.0.get(at) {
            Some(Some((value, ty))) => match convert(value, *ty, SqlType::Binary(10))? {
                Value::Bytes(b) => Ok(Some(crate::cdc::Lsn::of(&b))),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

impl Session {
    /// Runs a procedure.
    pub(crate) fn execute_procedure(
        &mut self,
        procedure: &[String],
        arguments: &[ExecArgument],
        result: Option<&str>,
        frame: &mut Frame,
        sink: &mut dyn ResultSink,
    ) -> Run<Flow> {
        let name = procedure.last().map_or("", String::as_str).to_lowercase();
        let schema = match procedure {
            [.., schema, _] => schema.to_lowercase(),
            _ => String::new(),
        };
        let status = match (schema.as_str(), name.as_str()) {
            ("" | "sys" | "dbo", "sp_executesql") => self.execute_sql(arguments, frame, sink)?,
            ("" | "sys" | "dbo", "sp_addrolemember" | "sp_droprolemember") => {
                let args = self.arguments(&name, &[("@rolename", true), ("@membername", true)], arguments, frame)?;
                let (role, member) = (args.text(0)?.unwrap_or_default(), args.text(1)?.unwrap_or_default());
                if !self.context()?.is_owner() {
                    return Err(sql_error(15247, 16, "User does not have permission to perform this action.").into());
                }
                self.membership(&role, &member, name == "sp_addrolemember")?;
                0
            }
            ("" | "sys" | "dbo", "sp_rename") => {
                let parameters = [("@objname", true), ("@newname", true), ("@objtype", false)];
                let args = self.arguments(&name, &parameters, arguments, frame)?;
                let (old, new) = (args.text(0)?.unwrap_or_default(), args.text(1)?.unwrap_or_default());
                self.rename(&old, &new, args.text(2)?.as_deref())?;
                sink.info(&super::rename::caution())?;
                0
            }
            (schema, name) => match procedures::find(schema, name, self.engine.options.version) {
                Some(found) => {
                    let args = self.arguments(name, found.parameters, arguments, frame)?;
                    procedures::run(self, found, &args, sink)?
                }
                None => {
                    let mut error = sql_error(
                        2812,
                        16,
                        format!("Could not find stored procedure '{}'.", procedure.join(".")),
                    );
                    error.state = 62;
                    return Err(error.into());
                }
            },
        };
        if let Some(variable) = result {
            let key = variable.to_lowercase();
            if !frame.vars.contains_key(&key) {
                return Err(crate::error::undeclared(variable).into());
            }
            frame.vars.insert(key, (SqlType::Int, Value::Int(status)));
        }
        sink.return_status(status as i32)?;
        Ok(Flow::Next)
    }

    /// Puts arguments in the order of a procedure's parameters (name, whether it must be given).
    fn arguments(
        &mut self,
        procedure: &str,
        parameters: &[(&str, bool)],
        given: &[ExecArgument],
        frame: &Frame,
    ) -> SqlResult<Arguments> {
        let mut values: Vec<Option<(Value, SqlType)>> = vec![None; parameters.len()];
        for (i, argument) in given.iter().enumerate() {
            let at = match &argument.name {
                Some(name) => parameters
                    .iter()
                    .position(|(p, _)| p.eq_ignore_ascii_case(name))
                    .ok_or_else(|| {
                        let mut error = sql_error(
                            8145,
                            16,
                            format!("{name} is not a parameter for procedure {procedure}."),
                        );
                        error.procedure = procedure.to_owned();
                        error
                    })?,
                None => i,
            };
            if at >= parameters.len() {
                return Err(sql_error(
                    8144,
                    16,
                    format!("Procedure or function {procedure} has too many arguments specified."),
                ));
            }
            if let Some(expr) = &argument.value {
                values[at] = Some(self.scalar(expr, frame)?);
            }
        }
        for ((name, required), value) in parameters.iter().zip(&values) {
            if *required && value.is_none() {
                let mut error = sql_error(
                    201,
                    16,
                    format!("Procedure or function '{procedure}' expects parameter '{name}', which was not supplied."),
                );
                error.state = 4;
                error.procedure = procedure.to_owned();
                return Err(error);
            }
        }
        Ok(Arguments(values))
    }

    /// `sp_executesql @stmt, @params, values…`
    fn execute_sql(&mut self, arguments: &[ExecArgument], frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<i64> {
        let mut positional = Vec::new();
        let mut named = Vec::new();
        for argument in arguments {
            match argument.name.as_deref() {
                None => positional.push(argument),
                Some(n)
                    if (n.eq_ignore_ascii_case("@stmt") || n.eq_ignore_ascii_case("@statement"))
                        && positional.is_empty() =>
                {
                    positional.push(argument)
                }
                Some(n) if n.eq_ignore_ascii_case("@params") && positional.len() == 1 => positional.push(argument),
                Some(n) => named.push((n.to_owned(), argument)),
            }
        }
        let mut positional = positional.into_iter();
        let Some(statement) = positional.next().and_then(|a| a.value.as_ref()) else {
            return Err(sql_error(
                201,
                16,
                "Procedure or function 'sp_executesql' expects parameter '@statement', which was not supplied.",
            )
            .into());
        };
        let statement = self.text(statement, frame)?;
        let declared = match positional.next().and_then(|a| a.value.as_ref()) {
            Some(list) => declarations(&self.text(list, frame)?)?,
            None => Vec::new(),
        };
        let rest: Vec<_> = positional.collect();
        let mut params = Vec::new();
        let mut outputs = Vec::new();
        for (i, (name, ty, default)) in declared.iter().enumerate() {
            let argument = named
                .iter()
                .find(|(n, _)| n.eq_ignore_ascii_case(name))
                .map(|(_, a)| *a)
                .or_else(|| rest.get(i).copied());
            let value = match argument.and_then(|a| a.value.as_ref()) {
                Some(expr) => {
                    let (value, from) = self.scalar(expr, frame)?;
                    super::control::variable_value(&value, from, *ty)?
                }
                None if default.is_some() => {
                    let text = default.as_deref().unwrap_or_default();
                    let (value, from) = self.scalar(&parse_expression(text)?, &Frame::new(&[]))?;
                    super::control::variable_value(&value, from, *ty)?
                }
                None => {
                    let mut error = sql_error(
                        8178,
                        16,
                        format!(
                            "The parameterized query '{}' expects the parameter '{name}', which was not supplied.",
                            statement.chars().take(60).collect::<String>()
                        ),
                    );
                    error.state = 1;
                    return Err(error.into());
                }
            };
            if let Some(a) = argument
                && a.output
                && let Some(sqlparser::ast::Expr::Identifier(target)) = &a.value
            {
                outputs.push((name.clone(), target.value.clone()));
            }
            params.push(Param {
                name: name.clone(),
                ty: *ty,
                value,
            });
        }
        if let Some((name, _)) = named
            .iter()
            .find(|(n, _)| !declared.iter().any(|(d, ..)| d.eq_ignore_ascii_case(n)))
        {
            return Err(sql_error(
                8145,
                16,
                format!("{name} is not a parameter for procedure sp_executesql."),
            )
            .into());
        }
        let mut inner = Frame::new(&params);
        self.scoped(&statement, &mut inner, sink)?;
        for (from, to) in outputs {
            if let Some((ty, value)) = inner.vars.get(&from.to_lowercase()) {
                frame.vars.insert(to.to_lowercase(), (*ty, value.clone()));
            }
        }
        Ok(0)
    }

    /// Answers a result set of a procedure.
    pub(crate) fn answer(
        &mut self,
        columns: &[(&str, SqlType, bool)],
        rows: &[Vec<Value>],
        sink: &mut dyn ResultSink,
    ) -> Run<()> {
        let meta: Vec<ColumnMeta> = columns
            .iter()
            .map(|(name, ty, nullable)| ColumnMeta {
                name: (*name).to_owned(),
                ty: *ty,
                nullable: *nullable,
                collation: None,
            })
            .collect();
        sink.columns(&meta)?;
        for row in rows {
            sink.row(row)?;
        }
        self.row_count = rows.len() as i64;
        sink.statement_done((!self.settings.nocount).then_some(rows.len() as u64))?;
        Ok(())
    }
}

/// `@a int, @b decimal(10,2) = 1 OUTPUT` as names, types and the texts of defaults.
fn declarations(text: &str) -> SqlResult<Vec<(String, SqlType, Option<String>)>> {
    let mut found = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    let mut parts = Vec::new();
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    for part in parts.into_iter().map(str::trim).filter(|p| !p.is_empty()) {
        let Some((name, rest)) = part.split_once(char::is_whitespace) else {
            return Err(crate::error::syntax_near(part));
        };
        // The type ends before OUTPUT, READONLY or a default.
        let mut ty = rest.trim();
        for word in ["OUTPUT", "OUT", "READONLY"] {
            let upper = ty.to_ascii_uppercase();
            if let Some(head) = upper.strip_suffix(word)
                && head.ends_with(char::is_whitespace)
            {
                ty = ty[..head.len()].trim_end();
            }
        }
        let (ty, default) = match ty.split_once('=') {
            Some((ty, default)) => (ty.trim(), Some(default.trim().to_owned())),
            None => (ty, None),
        };
        let ty = ty.strip_prefix("AS ").or_else(|| ty.strip_prefix("as ")).unwrap_or(ty);
        found.push((name.to_owned(), parse_type(ty)?, default));
    }
    Ok(found)
}
