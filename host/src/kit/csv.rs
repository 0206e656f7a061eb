//! The CSV of fixtures. An empty field is NULL; an empty text is written `""`. Otherwise as RFC 4180 has it: a field with a
//! comma, a quote or a line break stands in quotes, and a quote in it is doubled.

/// A cell; `None` is NULL.
pub(crate) type Cell = Option<String>;

/// The records of a text, each with the line that it begins on (from 1). Empty lines between records are skipped.
///
/// # Errors
/// A sentence: the line and what is wrong there.
pub(crate) fn parse(text: &str) -> Result<Vec<(usize, Vec<Cell>)>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Vec::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    while let Some(first) = chars.peek() {
        if matches!(first, '\n' | '\r') {
            line += usize::from(*first == '\n');
            chars.next();
            continue;
        }
        let began = line;
        let mut record = Vec::new();
        loop {
            record.push(field(&mut chars, &mut line)?);
            match chars.next() {
                Some(',') => {}
                Some('\n') => {
                    line += 1;
                    break;
                }
                None => break,
                Some(_) => return Err(format!("line {line}: a quoted field ends before the next comma")),
            }
        }
        records.push((began, record));
    }
    Ok(records)
}

fn field(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, line: &mut usize) -> Result<Cell, String> {
    let mut value = String::new();
    if chars.next_if_eq(&'"').is_some() {
        let began = *line;
        loop {
            match chars.next() {
                Some('"') if chars.next_if_eq(&'"').is_some() => value.push('"'),
                Some('"') => break,
                Some(char) => {
                    *line += usize::from(char == '\n');
                    value.push(char);
                }
                None => return Err(format!("line {began}: a quote is opened and never closed")),
            }
        }
        // The carriage return of a line's end.
        chars.next_if_eq(&'\r');
        return Ok(Some(value));
    }
    while let Some(char) = chars.next_if(|char| !matches!(char, ',' | '\n')) {
        if char == '"' {
            return Err(format!(
                "line {line}: a quote inside a field; put the field in quotes and double the quote"
            ));
        }
        value.push(char);
    }
    if value.ends_with('\r') {
        value.pop();
    }
    Ok((!value.is_empty()).then_some(value))
}

/// Appends a record and a line break.
pub(crate) fn write(out: &mut String, record: &[Cell]) {
    for (position, cell) in record.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        let Some(cell) = cell else {
            continue;
        };
        let blank = |char: char| char.is_whitespace();
        if cell.is_empty() || cell.contains([',', '"', '\n', '\r']) || cell.starts_with(blank) || cell.ends_with(blank)
        {
            out.push('"');
            out.push_str(&cell.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(cell);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(values: &[Option<&str>]) -> Vec<Cell> {
        values.iter().map(|value| value.map(str::to_owned)).collect()
    }

    #[test]
    fn null_and_empty_text_are_told_apart() {
        let records = parse("a,b\r\n,\"\"\n\"\",\n").unwrap();
        assert_eq!(records[0], (1, cells(&[Some("a"), Some("b")])));
        assert_eq!(records[1], (2, cells(&[None, Some("")])));
        assert_eq!(records[2], (3, cells(&[Some(""), None])));
    }

    #[test]
    fn whatever_is_written_is_read_again() {
        let hard = [
            Some("a,b"),
            None,
            Some(""),
            Some("say \"hi\""),
            Some("two\nlines"),
            Some(" x "),
            Some("\r"),
            Some("ä\u{1F600}"),
        ];
        let mut text = String::new();
        write(&mut text, &cells(&hard));
        write(&mut text, &cells(&[Some("next")]));
        let records = parse(&text).unwrap();
        assert_eq!(records[0].1, cells(&hard));
        // The line break inside a field counts as one.
        assert_eq!(records[1], (3, cells(&[Some("next")])));
    }

    #[test]
    fn mistakes_name_their_line() {
        assert!(parse("a\n\"b").unwrap_err().starts_with("line 2: a quote is opened"));
        assert!(parse("a\nb\"c").unwrap_err().starts_with("line 2: a quote inside"));
        assert!(parse("\"a\"b").unwrap_err().starts_with("line 1: a quoted field ends"));
        assert!(parse("\n\n").unwrap().is_empty());
    }
}
