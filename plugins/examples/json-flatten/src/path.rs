//! Paths such as `$.order.lines[0]."unit price"`.

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A member of an object, by its exact name.
    Name(String),
    /// An item of an array, from 0.
    Item(usize),
}

/// Reads a path: `$`, then `.name`, `."any name"` or `[number]`.
///
/// # Errors
/// A sentence: what is wrong.
pub(crate) fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut rest = text.strip_prefix('$').ok_or("a path begins with `$`, the whole text")?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix(".\"") {
            let (name, after) = quoted.split_once('"').ok_or("a quotation mark is not closed")?;
            steps.push(Step::Name(name.to_owned()));
            rest = after;
        } else if let Some(named) = rest.strip_prefix('.') {
            let end = named.find(['.', '[']).unwrap_or(named.len());
            let (name, after) = named.split_at(end);
            if name.is_empty() || name.contains([']', '"', '*', ' ']) {
                return Err(format!("`{name}` is no plain name; write other names as `.\"name\"`"));
            }
            steps.push(Step::Name(name.to_owned()));
            rest = after;
        } else if let Some(numbered) = rest.strip_prefix('[') {
            let (number, after) = numbered.split_once(']').ok_or("a bracket is not closed")?;
            let digits = number.bytes().all(|byte| byte.is_ascii_digit());
            let item = number.parse().ok().filter(|_| digits);
            steps.push(Step::Item(
                item.ok_or_else(|| format!("`[{number}]` is no position, from 0"))?,
            ));
            rest = after;
        } else {
            return Err(format!("`{rest}` is neither `.name` nor `[number]`"));
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_names_and_positions() {
        let name = |name: &str| Step::Name(name.to_owned());
        assert_eq!(parse("$"), Ok(vec![]));
        assert_eq!(
            parse("$.a.lines[10][0].\"unit. price\".é"),
            Ok(vec![
                name("a"),
                name("lines"),
                Step::Item(10),
                Step::Item(0),
                name("unit. price"),
                name("é")
            ])
        );
    }

    #[test]
    fn what_is_no_path_is_answered_with_why() {
        for (path, words) in [
            ("", "begins with `$`"),
            ("a.b", "begins with `$`"),
            ("$a", "neither"),
            ("$.", "`` is no plain name"),
            ("$.a..b", "`` is no plain name"),
            ("$.*", "`*` is no plain name"),
            ("$.\"a", "not closed"),
            ("$.a[0", "not closed"),
            ("$.a[-1]", "`[-1]` is no position"),
            ("$.a[+1]", "`[+1]` is no position"),
            ("$.a[]", "`[]` is no position"),
        ] {
            let error = parse(path).unwrap_err();
            assert!(error.contains(words), "{path}: {error}");
        }
    }
}
