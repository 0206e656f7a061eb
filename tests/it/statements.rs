//! `docs/reference/t-sql.md` is what sluice sends: every text that arrives at the server from its login is on the page, and
//! every text on the page arrives.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::harness::{Project, Running, Server, scratch};

/// The columns of `dbo.orders`, without and with one whose values CDC records only where they change.
const PLAIN: &str = "id int NOT NULL PRIMARY KEY, customer int NULL";
const LONG: &str = "id int NOT NULL PRIMARY KEY, note nvarchar(max) NULL";

/// How a statement may begin that only reads, or sets what its session does.
const HARMLESS: [&str; 7] = [
    "SELECT ",
    "DECLARE @max binary(10) = sys.fn_cdc_get_max_lsn()",
    "EXEC sys.sp_cdc_help_change_data_capture",
    "EXEC sys.sp_cdc_get_",
    "SET LOCK_TIMEOUT ",
    "SET DEADLOCK_PRIORITY ",
    "SET LANGUAGE ",
];

/// A server with `sales`, `dbo.orders` in it, and a log of requests.
struct Listened {
    server: Server,
    log: PathBuf,
    _folder: TempDir,
}

impl Listened {
    async fn start(columns: &str, arguments: &[&str]) -> Listened {
        let folder = scratch();
        let log = folder.path().join("requests");
        let requests = ["--requests", log.to_str().expect("UTF-8")];
        // The page has what is sent to each version; one that names its zone is asked for it.
        let version: &[&str] = match arguments.contains(&"--version") {
            true => &[],
            false => &["--version", "2022"],
        };
        let server = Server::start(&[&requests[..], version, arguments].concat());
        server.database("sales").await;
        server.table("sales", "orders", columns).await;
        Listened {
            server,
            log,
            _folder: folder,
        }
    }

    fn project(&self, keys: &str) -> Project {
        Project::new(&self.server, "sales").table("dbo_orders", keys)
    }

    async fn exec(&self, sql: &str) {
        self.server.exec("sales", sql).await;
    }

    /// What arrived from sluice's login, each text once.
    fn heard(&self) -> BTreeSet<String> {
        let log = std::fs::read_to_string(&self.log).expect("a log");
        let heard: BTreeSet<String> = log
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
            .filter(|request| request["login"] == "reader")
            .map(|request| of_one_instance(&plain(request["text"].as_str().expect("a text"))))
            .collect();
        assert!(!heard.is_empty(), "something arrives");
        heard
    }
}

/// The text with single blanks: the page breaks lines where people want them.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is said of the second instance alone is what is said of the first. A read through it is its own: it has a column more.
fn of_one_instance(text: &str) -> String {
    let both = text.replace("dbo_orders_v2", "").contains("dbo_orders");
    match both || text.contains("[amount]") {
        true => text.to_owned(),
        false => text.replace("dbo_orders_v2", "dbo_orders"),
    }
}

/// The page's blocks of T-SQL.
fn page() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/t-sql.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = text.split("```sql\n").skip(1);
    blocks
        .map(|block| plain(block.split_once("```").expect("the end of a block").0))
        .collect()
}

/// A table is checked and read, a batch is read again, and a second instance with another column takes over.
async fn everyday() -> BTreeSet<String> {
    let listened = Listened::start(LONG, &[]).await;
    listened.exec("INSERT INTO dbo.orders VALUES (1, N'a')").await;
    listened.exec("INSERT INTO dbo.orders VALUES (2, N'b')").await;
    let project = listened.project("num_partitions = 2");
    project.run("check", &[]).ok();
    project.run("check", &["--grants"]).ok();
    project.once().ok();
    listened.exec("INSERT INTO dbo.orders VALUES (3, N'c')").await;
    assert!(project.kill_at("after-offset"), "a batch is planned");
    project.once().ok();

    listened.exec("INSERT INTO dbo.orders VALUES (4, N'd')").await;
    listened.exec("ALTER TABLE dbo.orders ADD amount int NULL").await;
    listened
        .exec(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders', @role_name = NULL, \
             @capture_instance = N'dbo_orders_v2'; GRANT SELECT ON [cdc].[dbo_orders_v2_CT] TO [reader]",
        )
        .await;
    listened.exec("INSERT INTO dbo.orders VALUES (5, N'e', 1)").await;
    project.once().ok();
    listened.heard()
}

/// Changes are cleaned up before they are read, and skipped.
async fn skipped() -> BTreeSet<String> {
    let listened = Listened::start(PLAIN, &[]).await;
    listened.exec("INSERT INTO dbo.orders VALUES (1, 1)").await;
    let project = listened.project("on_data_loss = \"skip\"");
    project.once().ok();
    for id in 2..=4 {
        listened
            .exec(&format!("INSERT INTO dbo.orders VALUES ({id}, {id})"))
            .await;
    }
    listened
        .server
        .cleanup("sales", "dbo_orders", "sys.fn_cdc_get_max_lsn()")
        .await;
    project.once().ok();
    listened.heard()
}

/// Commits of an hour that the server's clock repeats.
async fn repeated_hour() -> BTreeSet<String> {
    let listened = Listened::start(PLAIN, &["--time-zone", "Europe/Berlin"]).await;
    for (id, utc) in [(1, "2026-10-25T00:20:00Z"), (2, "2026-10-25T01:10:00Z")] {
        let clock = format!("EXEC sim.clock @utc = N'{utc}', @frozen = 1");
        listened.server.exec("master", &clock).await;
        listened
            .exec(&format!("INSERT INTO dbo.orders VALUES ({id}, {id})"))
            .await;
    }
    listened.project("").once().ok();
    listened.heard()
}

/// A change table without `__$command_id`, on a version that does not name its zone.
async fn old_build() -> BTreeSet<String> {
    let listened = Listened::start(PLAIN, &["--without-command-id", "--version", "2016"]).await;
    listened.exec("INSERT INTO dbo.orders VALUES (1, 1)").await;
    listened.project("").once().ok();
    listened.heard()
}

/// A grant is taken away while the table is followed.
async fn grant_taken_away() -> BTreeSet<String> {
    let listened = Listened::start(PLAIN, &[]).await;
    listened.exec("INSERT INTO dbo.orders VALUES (1, 1)").await;
    let project = listened.project("");
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    listened.exec("INSERT INTO dbo.orders VALUES (2, 2)").await;
    run.until_type("batch");
    listened.exec("REVOKE SELECT ON [dbo].[orders] FROM [reader]").await;
    run.until_type("failed");
    run.terminate();
    assert_eq!(run.code(), Some(2));
    listened.heard()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_has_every_statement_that_is_sent_and_no_other() {
    let mut sent = BTreeSet::new();
    for heard in [
        everyday().await,
        skipped().await,
        repeated_hour().await,
        old_build().await,
        grant_taken_away().await,
    ] {
        sent.extend(heard);
    }
    for statement in sent.iter().flat_map(|text| text.split(';')) {
        let statement = statement.trim();
        assert!(
            statement.is_empty() || HARMLESS.iter().any(|beginning| statement.starts_with(beginning)),
            "it does more than read: {statement}"
        );
    }
    let page = page();
    let list = |texts: Vec<&String>| {
        texts
            .iter()
            .map(|text| format!("\n```sql\n{text}\n```\n"))
            .collect::<String>()
    };
    let (missing, unheard) = (
        list(sent.difference(&page).collect()),
        list(page.difference(&sent).collect()),
    );
    assert!(
        missing.is_empty() && unheard.is_empty(),
        "docs/reference/t-sql.md\nis sent, and not on the page:\n{missing}\nis on the page, and was not sent:\n{unheard}"
    );
}
