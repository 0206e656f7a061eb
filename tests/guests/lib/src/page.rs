//! A page of `docs/guides` as its reader follows it: commands, files, and what is to be seen.
//!
//! What a block is for, the page says itself:
//!
//! * ` ```sh ` has commands for the terminal;
//! * ` ```console ` has commands that a test carries out in a way of its own: one for a second terminal, which stays, or
//!   some that fetch packages;
//! * ` ```text ` has the lines that the commands before it print, with `…` for what differs, and a line `…` for lines that
//!   are left out. Where one of them says that something failed, the commands have to;
//! * a block after a paragraph that begins with "Write `FILE`" is that file;
//! * any other block is there to be read.

use std::fs;

use crate::repository;

/// One thing that a page has its reader do or see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Commands, one a line.
    Run(String),
    /// Commands that a test carries out in a way of its own.
    Beside(String),
    /// A file, relative to the folder that the terminal is in.
    Write {
        /// Its path.
        file: String,
        /// Its content.
        text: String,
    },
    /// Lines that the commands before have printed; `…` stands for any number of them.
    Shows(Vec<String>),
}

impl Step {
    /// Whether it shows that the commands before it failed: as a test runner says it, or as `sluice` names its errors.
    pub fn shows_failure(&self) -> bool {
        let failure = |line: &String| line.starts_with("FAILED") || line.starts_with("sluice: ");
        matches!(self, Step::Shows(lines) if lines.iter().any(failure))
    }
}

/// The steps of a page, by its path in the repository.
///
/// # Panics
/// When there is no such page.
#[allow(clippy::panic)]
pub fn steps_of(page: &str) -> Vec<Step> {
    let path = repository().join(page);
    match fs::read_to_string(&path) {
        Ok(text) => steps(&text),
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut paragraph = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            steps.extend(step(language, &block, &paragraph));
            paragraph.clear();
        } else if !line.is_empty() {
            paragraph.push_str(line);
            paragraph.push('\n');
        } else if !lines.peek().is_some_and(|next| next.starts_with("```")) {
            paragraph.clear();
        }
    }
    steps
}

fn step(language: &str, block: &[&str], paragraph: &str) -> Option<Step> {
    let text: String = block.iter().map(|line| format!("{line}\n")).collect();
    let file = paragraph
        .strip_prefix("Write `")
        .and_then(|rest| rest.split_once('`'))
        .map(|(file, _)| file.to_owned());
    match (language, file) {
        ("sh", _) => Some(Step::Run(text)),
        ("console", _) => Some(Step::Beside(text)),
        ("text", _) => {
            let lines = block.iter().map(|line| line.trim().to_owned());
            Some(Step::Shows(lines.filter(|line| !line.is_empty()).collect()))
        }
        (_, Some(file)) => Some(Step::Write { file, text }),
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_in_the_order_in_which_it_is_followed() {
        let page = "# A page\n\nDo this:\n\n```sh\nmkdir a\ncd a\n```\n\n```text\nmade …\n\n  a\n  …\n```\n\n\
             For example:\n\n```toml\nno = \"file\"\n```\n\nWrite `b/c.toml`, in place of\nwhat is there:\n\n\
             ```toml\nis = \"one\"\n\n[more]\n```\nIn a second terminal:\n```console\nserve\n```\n\
             Write `x` is far away.\n\nNothing to write:\n\n```rust\nfn main() {}\n```\n";
        let expected = [
            Step::Run("mkdir a\ncd a\n".to_owned()),
            Step::Shows(vec!["made …".to_owned(), "a".to_owned(), "…".to_owned()]),
            Step::Write {
                file: "b/c.toml".to_owned(),
                text: "is = \"one\"\n\n[more]\n".to_owned(),
            },
            Step::Beside("serve\n".to_owned()),
        ];
        assert_eq!(steps(page), expected);
    }
    #[test]
    fn a_failure_is_shown_by_the_line_that_says_so() {
        for (line, expected) in [
            ("FAILED (failures=4)", true),
            ("FAILED   golden: row 4", true),
            ("sluice: 1 of 1 tables cannot run: dbo_customers", true),
            ("sluice.lock is as it was", false),
            ("10 checks, 0 failed", false),
            ("…", false),
        ] {
            let step = Step::Shows(vec!["customers".to_owned(), line.to_owned()]);
            assert_eq!(step.shows_failure(), expected, "{line}");
        }
        assert!(!Step::Run("echo FAILED\n".to_owned()).shows_failure());
    }
}
