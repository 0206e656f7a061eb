//! Reads `EXEC procedure @name = literal, …`: the few procedures that the wire answers itself.

use mssql_sim_engine::value::Value;

/// A call with literal arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExecCall {
    /// Names with their `@`.
    pub(crate) arguments: Vec<(String, Value)>,
}

impl ExecCall {
    /// An argument by its name, ignoring case.
    pub(crate) fn argument(&self, name: &str) -> Option<&Value> {
        self.arguments
            .iter()
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Whether `name` (as a client wrote it, maybe with brackets) is `procedure`.
pub(crate) fn names(name: &str, procedure: &str) -> bool {
    name.replace(['[', ']'], "").trim().eq_ignore_ascii_case(procedure)
}

/// Reads a batch that consists of one call of `procedure`. `None` when it is anything else; an error when it is such a
/// call with arguments that are no named literals.
pub(crate) fn parse(sql: &str, procedure: &str) -> Option<Result<ExecCall, String>> {
    let rest = sql.trim_start();
    let verb_end = rest.find(char::is_whitespace)?;
    if !["exec", "execute"].contains(&rest[..verb_end].to_ascii_lowercase().as_str()) {
        return None;
    }
    let rest = rest[verb_end..].trim_start();
    let name_end = rest.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(rest.len());
    if !names(&rest[..name_end], procedure) {
        return None;
    }
    Some(arguments(&rest[name_end..], procedure))
}

fn arguments(text: &str, procedure: &str) -> Result<ExecCall, String> {
    let mut rest = text.trim_start();
    let mut arguments = Vec::new();
    loop {
        rest = rest.trim_start_matches(';').trim_start();
        if rest.is_empty() {
            return Ok(ExecCall { arguments });
        }
        let explain = || format!("{procedure}: write its arguments as @name = literal, and nothing behind them");
        let (name, after) = rest.split_once('=').ok_or_else(explain)?;
        let name = name.trim();
        if !name.starts_with('@') || name.contains(char::is_whitespace) {
            return Err(explain());
        }
        let (value, after) = literal(after.trim_start()).ok_or_else(explain)?;
        arguments.push((name.to_owned(), value));
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.trim_start_matches(';').trim().is_empty() => rest = "",
            None => return Err(explain()),
        }
    }
}

fn literal(text: &str) -> Option<(Value, &str)> {
    let quoted = text.strip_prefix(['N', 'n']).unwrap_or(text);
    if let Some(inside) = quoted.strip_prefix('\'') {
        let mut value = String::new();
        let mut rest = inside;
        loop {
            let (head, tail) = rest.split_once('\'')?;
            value.push_str(head);
            match tail.strip_prefix('\'') {
                Some(after) => {
                    value.push('\'');
                    rest = after;
                }
                None => return Some((Value::Text(value), tail)),
            }
        }
    }
    let end = text
        .find(|c: char| c == ',' || c == ';' || c.is_whitespace())
        .unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    if word.eq_ignore_ascii_case("null") {
        return Some((Value::Null, rest));
    }
    word.parse().ok().map(|number| (Value::Int(number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_with_its_literals() {
        let call = parse(
            "  EXECUTE [sim].[fault] @a = N'it''s, ok', @b=-3,\n @c = NULL ;",
            "sim.fault",
        )
        .unwrap()
        .unwrap();
        assert_eq!(call.argument("@A"), Some(&Value::Text("it's, ok".into())));
        assert_eq!(call.argument("@b"), Some(&Value::Int(-3)));
        assert_eq!(call.argument("@c"), Some(&Value::Null));
    }

    #[test]
    fn other_batches_are_not_touched() {
        assert_eq!(parse("SELECT 1", "sim.fault"), None);
        assert_eq!(parse("EXEC sim.faulty", "sim.fault"), None);
        assert_eq!(parse("EXEC", "sim.fault"), None);
        assert!(parse("EXEC sim.fault @a = GETDATE()", "sim.fault").unwrap().is_err());
        assert!(parse("EXEC sim.fault @a = 1 SELECT 2", "sim.fault").unwrap().is_err());
        assert!(parse("EXEC sim.fault 'x'", "sim.fault").unwrap().is_err());
    }
}
