//! The guides in docs/guides, followed word by word: each command is run as the page has it, each file is written, and what
//! it prints is what the page shows. The recipes of the masking guide are tables that start.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sluice_test_guests::{Step, steps_of};
use tempfile::TempDir;

use crate::harness::{Project, Rows, Server, python_environment, rows_of, scratch, sluice_binary};

/// Where the pages have the stand-in listen. Tests run beside one another, so here it takes a free port.
const ADDRESS: &str = "127.0.0.1,14330";
/// Where the pages have their reader work.
const WORK: &str = "first-component";

/// Somebody at a terminal.
struct Reader {
    dir: TempDir,
    path: OsString,
    server: Option<(Child, String)>,
    /// What the last commands printed.
    printed: String,
}

/// How a page ended.
enum End {
    /// At its end.
    Followed(Reader),
    /// Where this machine lacks what the page asks for.
    Lacking(String),
}

impl Reader {
    /// In an empty folder, with `sluice` and `mssql-sim` on the path.
    fn new() -> Reader {
        let dir = scratch();
        let programs = dir.path().join("bin");
        std::fs::create_dir(&programs).expect("created");
        let sluice = sluice_binary();
        for (name, program) in [
            ("sluice", sluice.clone()),
            ("mssql-sim", sluice.with_file_name("mssql-sim")),
        ] {
            assert!(
                program.is_file(),
                "{} is missing: run cargo build --workspace --bins",
                program.display()
            );
            std::os::unix::fs::symlink(program, programs.join(name)).expect("linked");
        }
        let mut path = programs.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let reader = Reader {
            dir,
            path,
            server: None,
            printed: String::new(),
        };
        let home = reader.dir.path().display();
        std::fs::write(reader.state(), format!("cd '{home}'\n")).expect("written");
        reader
    }

    /// A script that brings a shell to where the terminal is: its folder and its environment.
    fn state(&self) -> PathBuf {
        self.dir.path().join("terminal")
    }

    /// Runs commands in the terminal, the next one only if the one before went well; how they ended.
    fn run(&mut self, commands: &str) -> i32 {
        let state = self.state();
        let state = state.display();
        let script = format!(
            "exec 2>&1\n. '{state}'\ntrap 'code=$?; {{ echo \"cd \\\"$PWD\\\"\"; export -p; }} > '\"'{state}'\"'; exit $code' EXIT\nset -e\n{commands}"
        );
        let output = Command::new("sh")
            .args(["-c", &script])
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .output()
            .expect("a shell starts");
        self.printed = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.code().unwrap_or(-1)
    }

    /// Does what a page has done in a second terminal, or by a registry of packages.
    fn aside(&mut self, commands: &str) {
        match commands.strip_prefix("python3 -m venv ") {
            Some(rest) => self.environment(rest.lines().next().unwrap_or_default()),
            None => self.beside(commands),
        }
    }

    /// Puts the Python environment of the tests where a page makes one: the packages are there already.
    fn environment(&mut self, place: &str) {
        let venv = python_environment().canonicalize().expect("a folder");
        let link = format!("ln -s '{}' {place}", venv.display());
        assert_eq!(self.run(&link), 0, "{}", self.printed);
    }

    /// Starts the server of the second terminal.
    fn beside(&mut self, command: &str) {
        let command = format!("exec {} --listen 127.0.0.1:0 --exit-with-parent", command.trim());
        let mut child = Command::new("sh")
            .args(["-c", &command])
            .current_dir(self.dir.path().join(WORK))
            .env("PATH", &self.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").map(|it| it.replace(':', ","));
        let address = address.unwrap_or_else(|| panic!("{command}: {line:?}"));
        // Keep the pipe empty, so that the server never waits for us.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        self.server = Some((child, address));
    }

    /// Writes a file where the terminal is.
    fn write(&mut self, file: &str, text: &str) {
        let text = match &self.server {
            Some((_, address)) => text.replace(ADDRESS, address),
            None => text.to_owned(),
        };
        assert!(!text.contains(ADDRESS), "{file} is written before the server runs");
        assert_eq!(self.run("pwd"), 0, "{}", self.printed);
        let path = Path::new(self.printed.trim()).join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        std::fs::write(path, text).expect("written");
    }

    /// A table of the project that the page leads to.
    fn bronze(&self, capture_instance: &str) -> Rows {
        let table = self
            .dir
            .path()
            .join(WORK)
            .join("project/lake/bronze")
            .join(capture_instance);
        rows_of(&table, &["_start_lsn", "_command_id", "_seqval", "_operation"]).expect("rows")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.server {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Does what a page says. `lacking` are words by which a command says that the machine lacks what the page asks for.
fn follow(page: &str, lacking: &[&str]) -> End {
    let mut reader = Reader::new();
    let steps = steps_of(page);
    let mut after = steps.iter().skip(1);
    for step in &steps {
        let next = after.next();
        match step {
            Step::Run(commands) => {
                // A page shows a failure where it means one.
                let fails = next.is_some_and(Step::shows_failure);
                let code = reader.run(commands);
                if code != 0 && lacking.iter().any(|words| reader.printed.contains(words)) {
                    return End::Lacking(reader.printed.clone());
                }
                assert_eq!(
                    code != 0,
                    fails,
                    "{page}: {commands}ended with {code}:\n{}",
                    reader.printed
                );
            }
            Step::Beside(commands) => reader.aside(commands),
            Step::Write { file, text } => reader.write(file, text),
            Step::Shows(lines) => {
                let missing = not_printed(&reader.printed, lines);
                assert!(
                    missing.is_none(),
                    "{page} shows {lines:#?}, and this was printed:\n{}\nWhat does not fit begins with {missing:#?}",
                    reader.printed
                );
            }
        }
    }
    End::Followed(reader)
}

/// Of the lines that a page shows, the first ones that were not printed like that: in this order, with nothing before,
/// between or after them but where the page has a line `…`. Empty lines do not count.
fn not_printed<'a>(printed: &str, shown: &'a [String]) -> Option<&'a [String]> {
    let printed: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let parts: Vec<&[String]> = shown.split(|line| line == "…").collect();
    let mut rest = printed.as_slice();
    for (number, part) in parts.iter().copied().enumerate() {
        let Some(end) = rest.len().checked_sub(part.len()) else {
            return Some(part);
        };
        // The first lines begin what was printed, and the last ones end it.
        let least = if number + 1 == parts.len() { end } else { 0 };
        let most = if number == 0 { 0 } else { end };
        let fits_at = |at: &usize| part.iter().zip(&rest[*at..]).all(|(shown, line)| fits(line, shown));
        let Some(at) = (least..=most).find(fits_at) else {
            return Some(part);
        };
        rest = &rest[at + part.len()..];
    }
    None
}

/// Whether a line is the one of a page, where `…` stands for anything.
fn fits(line: &str, shown: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn what_a_page_leaves_out_of_a_line_may_be_anything() {
    for (line, shown, expected) in [
        ("wrote it", "wrote it", true),
        ("wrote it", "wrote", false),
        ("in 1.5 s", "in … s", true),
        ("in 1.5 ms of 2", "in … s", false),
        (
            "./a.wasm: a 0.1.0, 9 kB, in 3 s",
            "./a.wasm: a 0.1.0, … kB, in … s",
            true,
        ),
        (
            "./a.wasm: a 0.1.0, 9 MB, in 3 s",
            "./a.wasm: a 0.1.0, … kB, in … s",
            false,
        ),
        ("anything", "…", true),
    ] {
        assert_eq!(fits(line, shown), expected, "{line:?} under {shown:?}");
    }
}

#[test]
fn a_page_says_where_it_leaves_lines_out() {
    let printed = "one\n\n  two\nthree 3\nfour\n";
    for (shown, expected) in [
        ("one/two/three …/four", None),
        ("…", None),
        ("…/four", None),
        ("one/…", None),
        ("one/…/three …/…/four", None),
        ("…/two/three 3/…", None),
        ("one/two/three 3/four/…", None),
        ("one/…/four/…", None),
        ("one/two/three 3", Some("one/two/three 3")),
        ("two/…", Some("two")),
        ("…/three 3", Some("three 3")),
        ("one/three 3/four", Some("one/three 3/four")),
        ("…/one/three 3/…", Some("one/three 3")),
        ("…/three 3/…/two/…", Some("two")),
        ("one/…/five/…", Some("five")),
    ] {
        let shown: Vec<String> = shown.split('/').map(str::to_owned).collect();
        let missing = not_printed(printed, &shown).map(|lines| lines.join("/"));
        assert_eq!(missing.as_deref(), expected, "{shown:?}");
    }
    assert_eq!(not_printed("", &["…".to_owned()]), None);
}

#[test]
fn the_guide_in_rust_leads_from_nothing_to_a_masked_table() {
    let End::Followed(reader) = follow("docs/guides/writing-a-component.md", &[]) else {
        panic!("nothing is known to be lacking");
    };
    let rows = reader.bronze("dbo_customers");
    assert!(rows.len() > 5, "{} rows", rows.len());
    for column in ["first_name", "last_name"] {
        let names = rows.texts(column);
        for name in &names {
            let name = name.as_deref().expect("the shop's customers have names");
            let initial = |word: &str| word.ends_with('*') && word.chars().count() <= 2;
            // Some have an empty one.
            assert!(name.is_empty() || name.split(' ').all(initial), "{column}: {name}");
        }
        assert!(names.iter().flatten().any(|name| !name.is_empty()), "{column} is empty");
    }
}

#[test]
fn the_guide_in_python_leads_from_nothing_to_a_masked_table() {
    let lacking = [
        "could not reach",
        "was not found, and",
        "python3: not found",
        "ensurepip is not available",
    ];
    let reader = match follow("docs/guides/writing-a-component-in-python.md", &lacking) {
        End::Followed(reader) => reader,
        End::Lacking(what) => {
            println!("skipped: the guide needs Python 3.10 with venv, and PyPI: {what}");
            return;
        }
    };
    let phones = reader.bronze("dbo_customers").texts("phone");
    let phones: Vec<String> = phones.into_iter().flatten().collect();
    assert!(!phones.is_empty(), "the shop has numbers that can be read");
    for phone in phones {
        let digits = phone.chars().filter(char::is_ascii_digit).count();
        assert!(
            phone.starts_with('+') && phone.contains("****") && digits <= 7,
            "{phone}"
        );
    }
}

/// The tables of the masking guide's recipes, with rows that each of them has to do with.
const SCHEMA: [(&str, &str, &str); 4] = [
    (
        "customers",
        "id int NOT NULL PRIMARY KEY, email nvarchar(100) NULL, phone varchar(30) NULL, notes nvarchar(max) NULL",
        "(1, N'Anna@Example.org', '+41 79 123 45 67', N'write to anna@example.org or call +41 79 123 45 67'), \
         (2, NULL, NULL, NULL), (3, N'b@example.net', '030 1234567', N'nothing')",
    ),
    (
        "newsletter",
        "id int NOT NULL PRIMARY KEY, address nvarchar(100) NULL",
        "(7, N' anna@example.org'), (8, NULL)",
    ),
    (
        "patients",
        "id int NOT NULL PRIMARY KEY, birth_date date NULL, admitted date NULL, discharged date NULL, \
         weight_kg decimal(5, 1) NULL",
        "(1, '1990-05-17', '2024-01-01', '2024-01-11', 71.5), (2, '1980-02-03', '2024-03-01', NULL, NULL)",
    ),
    (
        "cards",
        "id int NOT NULL PRIMARY KEY, number varchar(30) NULL",
        "(1, '4111 1111 1111 1111'), (2, '123'), (3, NULL)",
    ),
];

/// The recipes of the masking guide: blocks with tables, each as its page has it.
fn recipes() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/masking.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let blocks = page.split("```toml\n").skip(1);
    let blocks = blocks.filter_map(|rest| Some(rest.split_once("```")?.0.to_owned()));
    blocks.filter(|block| block.contains("[[table]]")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipes_of_the_masking_guide_mask_what_they_protect() {
    let server = Server::start(&[]);
    server.database("sales").await;
    for (table, columns, rows) in SCHEMA {
        server.table("sales", table, columns).await;
        server
            .exec("sales", &format!("INSERT INTO dbo.{table} VALUES {rows}"))
            .await;
    }
    let recipes = recipes();
    assert_eq!(recipes.len(), 6, "recipes");
    for recipe in recipes {
        let mut project = Project::new(&server, "sales");
        project.edit(
            "pii = { file = \"pii\", version = \"v1\" }",
            "pii = { file = \"pii\", version = \"v1\" }\npii_2 = { file = \"pii_2\", version = \"v1\" }",
        );
        std::fs::write(project.path().join("pii_2"), "another key, as long as the other").expect("written");
        let mut tables = Vec::new();
        for table in recipe.split("[[table]]\n").skip(1) {
            let rest = table.strip_prefix("capture_instance = \"").expect("its first key");
            let (capture_instance, rest) = rest.split_once("\"\n").expect("a name");
            project = project.table(capture_instance, rest);
            tables.push(capture_instance.to_owned());
        }
        project.run("check", &[]).ok();
        project.once().ok();
        let quarantined = project
            .run("quarantine", &["list", "--json"])
            .ok()
            .of_type("quarantined");
        let codes: Vec<&str> = quarantined.iter().filter_map(|row| row["code"].as_str()).collect();
        for table in &tables {
            let rows = rows_of(&project.bronze(table), &["_start_lsn", "_command_id", "_seqval"]).expect("rows");
            match table.as_str() {
                "dbo_cards" => {
                    assert_eq!(codes, ["fpe-too-short"]);
                    let number = rows.texts("number").swap_remove(0).expect("a number");
                    let blanks: Vec<usize> = number.match_indices(' ').map(|(at, _)| at).collect();
                    assert_eq!((number.len(), blanks), (19, vec![4, 9, 14]), "{number}");
                    assert_ne!(number, "4111 1111 1111 1111");
                }
                "dbo_newsletter" => {
                    // The one of the other table, which is written otherwise there.
                    let of_customers = rows_of(&project.bronze("dbo_customers"), &["id"]).expect("rows");
                    assert_eq!(rows.texts("address")[0], of_customers.texts("email")[0]);
                }
                _ => assert!(codes.is_empty(), "{table}: {codes:?}"),
            }
        }
    }
}
