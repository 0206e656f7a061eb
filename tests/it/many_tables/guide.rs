//! docs/guides/many-tables.md: each of its examples is run.

use std::path::Path;
use std::time::Duration;

use sluice::config::Settings;

use crate::harness::{Project, Run, Running, finish, rows_of, sales, sluice_binary, wait_for};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The program of the page, between the two marks.
async fn program(path: &Path, time: Duration) -> Outcome {
    // Begins.
    use sluice::fanout::{StartOptions, start_many};

    let settings = Settings::load(path)?;
    let mut streams = start_many(&settings, StartOptions::default()).await?;
    let failed = streams.await_all(Some(time)).await;
    for (table, error) in &failed {
        if error.is_data_loss() || error.is_schema_changed() {
            // A person decides.
        } else {
            streams.restart(table)?;
        }
    }
    streams.stop_all();
    streams.await_all(None).await;
    // Ends.
    Ok(())
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guides/many-tables.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    blocks
        .map(|block| block.split_once("```").expect("an end").0.to_owned())
        .collect()
}

/// Words, however lines are broken.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// The source of a project, with what the page says beside it.
fn write(project: &Project, text: &str) -> Settings {
    let base = std::fs::read_to_string(project.config()).expect("a configuration");
    let (source, _) = base.split_once("[plugins]").expect("the next section");
    std::fs::write(project.config(), format!("{source}{text}")).expect("written");
    Settings::load(&project.config()).expect("valid")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_of_the_page_runs() {
    let server = sales(&["orders", "order_items", "customers"]).await;
    let tables = ["dbo_orders", "dbo_order_items", "dbo_customers"];
    for table in ["orders", "order_items", "customers"] {
        server
            .exec("sales", &format!("INSERT INTO dbo.{table} VALUES (1, N'v')"))
            .await;
    }
    let page = page();
    let project = Project::new(&server, "sales");
    let [together, options, weights, ownership] =
        <[String; 4]>::try_from(blocks(&page, "toml")).expect("four examples");
    let settings = write(&project, &format!("[plugins]\n{together}"));
    assert_eq!(settings.tables.len(), 3);

    let mut ran = 0;
    for line in blocks(&page, "sh")
        .iter()
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
    {
        let command = line.split('#').next().unwrap_or_default().trim().to_owned();
        ran += 1;
        if command.starts_with("kill -USR1 ") {
            again(&server, &project).await;
            continue;
        }
        let arguments: Vec<&str> = command.split(' ').collect();
        let ["sluice", arguments @ ..] = arguments.as_slice() else {
            panic!("{command}");
        };
        // Those that would run for ever, or for hours.
        let ends = arguments.contains(&"--once") || arguments[0] == "status";
        let mut arguments: Vec<&str> = arguments
            .iter()
            .map(|word| if *word == "4h" { "2s" } else { *word })
            .collect();
        if !ends && !arguments.contains(&"--for") {
            arguments.extend(["--for", "2s"]);
        }
        let run = run(&project, &arguments);
        assert_eq!(run.code, 0, "{command}: {run:#?}");
    }
    assert_eq!(ran, 9, "commands of the page");
    for table in tables {
        assert_eq!(
            rows_of(&project.bronze(table), &["id"]).expect("bronze").numbers("id")[0],
            1,
            "{table}"
        );
    }

    // The settings of single tables override the defaults.
    let (defaults, _) = together.split_once("[[table]]").expect("tables");
    let settings = write(&project, &format!("[plugins]\n{defaults}{options}{weights}"));
    let orders = &settings.tables[0];
    assert_eq!((orders.max_commits_per_batch, orders.weight.get()), (500, 4));
    assert_eq!(orders.reading.num_partitions.resolve(16).get(), 8);
    assert_eq!(settings.tables[1].reading.num_partitions.resolve(16).get(), 1);
    assert_eq!(run(&project, &["run", "--once"]).code, 0);
    // The lock that a run had before is no lease: a new place for what it keeps.
    let elsewhere = defaults.replace("lake/", "shared/");
    let ownership = ownership.replace("lake/", "shared/");
    write(&project, &format!("[plugins]\n{ownership}{elsewhere}{options}"));
    let shares = ["1/2", "2/2"].map(|share| run(&project, &["run", "--once", "--shard", share]));
    assert!(shares.iter().all(|run| run.code == 0), "{shares:#?}");
    write(&project, &format!("[plugins]\n{together}"));

    let [shown] = <[String; 1]>::try_from(blocks(&page, "rust,ignore")).expect("one program");
    let source = include_str!("guide.rs");
    let (_, rest) = source.split_once("// Begins.").expect("a mark");
    let (body, _) = rest.split_once("// Ends.").expect("a mark");
    let shown = shown
        .replace("use std::time::Duration;\nuse sluice::config::Settings;\n", "")
        .replace("\"sluice.toml\".as_ref()", "path")
        .replace("Duration::from_secs(4 * 3600)", "time");
    assert_eq!(
        words(&shown),
        words(body),
        "the program of the page is the one that runs here"
    );
    program(&project.config(), Duration::from_secs(2))
        .await
        .expect("it runs");
}

fn run(project: &Project, arguments: &[&str]) -> Run {
    let output = std::process::Command::new(sluice_binary())
        .args(arguments)
        .current_dir(project.path())
        .output()
        .expect("it starts");
    finish(output)
}

/// A table fails, is mended and starts again, in the process that runs.
async fn again(server: &crate::harness::Server, project: &Project) {
    server
        .exec("sales", "REVOKE SELECT ON [dbo].[orders] FROM [reader]")
        .await;
    let mut running = Running::start(project, &[]);
    running.until_type("failed");
    server.grant("sales", "orders").await;
    running.signal("USR1");
    server.exec("sales", "INSERT INTO dbo.orders VALUES (2, N'v')").await;
    running.until("batch of dbo_orders", |event| {
        event["type"] == "batch" && event["capture_instance"] == "dbo_orders"
    });
    running.terminate();
    assert_eq!(running.code(), Some(0));
    assert!(wait_for(
        || rows_of(&project.bronze("dbo_orders"), &["id"]).is_some_and(|rows| rows.len() == 2)
    ));
}
