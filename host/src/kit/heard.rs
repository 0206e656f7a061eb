//! What a component said during a check, as the few lines that stand under it when it failed. Rows of a check are made up
//! or the fixture's own, so a message may have their values.

use crate::transform::{Said, listen};

/// Messages that are told: the last ones.
const MESSAGES: usize = 4;
/// Lines of one message that are told: the first and the last ones.
const FIRST_LINES: usize = 3;
const LAST_LINES: usize = 5;
/// Characters of a line that are told.
const LINE: usize = 240;
/// What the engine says of a call that it ended; the check says the same in better words.
const OF_THE_ENGINE: &str = "failure";

/// Does some work, and gives what components said in it.
pub(crate) fn hear<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let (done, said) = listen(work);
    (done, lines(&said))
}

fn lines(said: &[Said]) -> Vec<String> {
    let words = |said: &&Said| !said.text.trim().is_empty();
    let own: Vec<&Said> = said
        .iter()
        .filter(words)
        .filter(|said| said.what != OF_THE_ENGINE)
        .collect();
    let told = match own.is_empty() {
        false => own,
        // Places in a component without names say nothing.
        true => said
            .iter()
            .filter(words)
            .filter(|said| !said.text.contains("<wasm function"))
            .collect(),
    };
    // A chunk is tried twice, and some say the same to the log and in the error.
    let mut each: Vec<&Said> = Vec::new();
    for said in told {
        if !each.iter().any(|other| other.text == said.text) {
            each.push(said);
        }
    }
    let left_out = each.len().saturating_sub(MESSAGES);
    let mut lines = Vec::new();
    if left_out > 0 {
        lines.push(format!("… ({left_out} earlier)"));
    }
    for said in &each[left_out..] {
        lines.extend(message(said));
    }
    lines
}

fn message(said: &Said) -> Vec<String> {
    let all: Vec<&str> = said.text.trim_end().lines().collect();
    let mut told: Vec<String> = if all.len() <= FIRST_LINES + LAST_LINES {
        all.iter().map(|line| shown(line)).collect()
    } else {
        let first = all[..FIRST_LINES].iter().map(|line| shown(line));
        let last = all[all.len() - LAST_LINES..].iter().map(|line| shown(line));
        first.chain(["…".to_owned()]).chain(last).collect()
    };
    if let Some(first) = told.first_mut() {
        *first = format!("{}: {first}", said.what);
    }
    for line in told.iter_mut().skip(1) {
        line.insert_str(0, "  ");
    }
    told
}

/// A line that does to a terminal nothing but stand there.
fn shown(line: &str) -> String {
    let mut text = String::new();
    for char in line.chars().take(LINE) {
        if char.is_control() {
            text.extend(char.escape_default());
        } else if turns_text(char) {
            text.extend(char.escape_unicode());
        } else {
            text.push(char);
        }
    }
    if line.chars().nth(LINE).is_some() {
        text.push('…');
    }
    text
}

/// Characters that are not seen, or that change the direction of what is around them.
fn turns_text(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(what: &'static str, text: &str) -> Said {
        Said {
            what,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_message_is_told_once_with_its_level_and_nothing_that_a_terminal_obeys() {
        let trap = "error while executing at wasm backtrace:\n 0: 0x17 - <unknown>!<wasm function 3>: unreachable";
        let found = lines(&[
            said("debug", "\n"),
            said("error", "a\u{1b}[31m\u{202e}b\ncause"),
            said("failure", trap),
            said("error", "a\u{1b}[31m\u{202e}b\ncause"),
            said("apply-error", "a\u{1b}[31m\u{202e}b\ncause"),
        ]);
        assert_eq!(found, ["error: a\\u{1b}[31m\\u{202e}b", "  cause"]);
        assert!(lines(&[said("failure", trap)]).is_empty());
        assert_eq!(lines(&[said("failure", "no such string")]), ["failure: no such string"]);
    }

    #[test]
    fn of_many_messages_and_lines_a_few_are_told() {
        let many: Vec<Said> = (0..9).map(|number| said("info", &format!("n{number}"))).collect();
        assert_eq!(
            lines(&many),
            ["… (5 earlier)", "info: n5", "info: n6", "info: n7", "info: n8"]
        );
        let trace: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        let found = lines(&[said("error", &trace.join("\n"))]);
        assert_eq!(found.len(), FIRST_LINES + 1 + LAST_LINES);
        assert_eq!(
            (found[0].as_str(), found[3].as_str(), found[8].as_str()),
            ("error: line 0", "  …", "  line 19")
        );
        let long = lines(&[said("error", &"ä".repeat(1000))]);
        assert_eq!(long[0].chars().count(), "error: ".len() + LINE + 1);
    }
}
