//! Tables by a pattern, and shares of them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::{Project, Run, rows_of, sales};

fn tables(run: &Run) -> BTreeSet<String> {
    let name = |event: &Value| event["capture_instance"].as_str().expect("a name").to_owned();
    run.of_type("table").iter().map(name).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_is_every_table_that_fits_and_one_that_is_named_is_its_own() {
    let server = sales(&["orders", "order_items", "people", "tmp_1"]).await;
    for table in ["orders", "order_items", "people", "tmp_1"] {
        server
            .exec("sales", &format!("INSERT INTO dbo.{table} VALUES (1, N'v')"))
            .await;
    }
    let project = Project::new(&server, "sales")
        .table("dbo_*", "exclude = [\"dbo_tmp_*\"]")
        .table("dbo_people", "granularity = \"day\"");
    let checked = project.run("check", &["--json"]).ok();
    assert_eq!(checked.of_type("checked").len(), 3, "{checked:#?}");
    // Nothing has begun: without the server, only the table that is named is known.
    assert_eq!(project.run("status", &["--json"]).ok().of_type("status").len(), 1);
    let run = project.once().ok();
    assert_eq!(tables(&run), set(&["dbo_orders", "dbo_order_items", "dbo_people"]));
    assert_eq!(project.run("status", &["--json"]).ok().of_type("status").len(), 3);
    let one = project.run("run", &["--json", "--once", "--table", "DBO_ORDERS"]).ok();
    assert_eq!(tables(&one), set(&["dbo_orders"]));
    project.run("doctor", &[]).ok();

    // A table that CDC is enabled on later joins with the next start; a second instance of one is no table more.
    server.table("sales", "later", "id int NOT NULL PRIMARY KEY").await;
    server.exec("sales", "INSERT INTO dbo.later VALUES (7)").await;
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders', @role_name = NULL, \
             @capture_instance = N'dbo_orders_v2'; GRANT SELECT ON [cdc].[dbo_orders_v2_CT] TO [reader]; \
             INSERT INTO dbo.orders VALUES (2, N'v')",
        )
        .await;
    let run = project.once().ok();
    assert_eq!(
        tables(&run),
        set(&["dbo_later", "dbo_orders", "dbo_order_items", "dbo_people"])
    );
    // The first instance goes away: the stream goes on under the name that it began with.
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'orders', @capture_instance = N'dbo_orders'; \
             INSERT INTO dbo.orders VALUES (3, N'v')",
        )
        .await;
    let run = project.once().ok();
    assert_eq!(
        tables(&run),
        set(&["dbo_later", "dbo_orders", "dbo_order_items", "dbo_people"])
    );
    let ids = rows_of(&project.bronze("dbo_orders"), &["id"])
        .expect("bronze")
        .numbers("id");
    assert_eq!(ids, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_a_pattern_that_is_not_seen_any_more_is_not_left_out_in_silence() {
    let server = sales(&["a", "b"]).await;
    let mut project = Project::new(&server, "sales").table("dbo_*", "");
    project.once().ok();
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'b', @capture_instance = N'dbo_b'",
        )
        .await;
    let run = project.once();
    assert_eq!(run.code, 2, "{run:#?}");
    assert!(
        run.failure("dbo_b")["error"]
            .as_str()
            .expect("a text")
            .contains("dbo_b")
    );
    assert_eq!(tables(&run), set(&["dbo_a"]));
    project.edit(
        "capture_instance = \"dbo_*\"",
        "capture_instance = \"dbo_*\"\nexclude = [\"dbo_b\"]",
    );
    assert_eq!(tables(&project.once().ok()), set(&["dbo_a"]));
    assert!(
        project
            .run("check", &[])
            .ok()
            .stdout
            .contains("\"dbo_b\" of \"dbo_*\" fits no capture instance")
    );
    project.edit("dbo_*", "nobody_*");
    assert!(project.run("status", &[]).stderr.contains("nothing was run so far"));
    let none = project.once();
    assert_eq!(none.code, 2);
    assert!(none.stderr.contains("no capture instance fits them"), "{}", none.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_have_every_table_once_and_a_table_that_moves_keeps_its_progress() {
    let names: Vec<String> = (0..8).map(|i| format!("t{i}")).collect();
    let server = sales(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for name in &names {
        server
            .exec("sales", &format!("INSERT INTO dbo.{name} VALUES (1, N'v')"))
            .await;
    }
    let project = Project::new(&server, "sales").table("dbo_*", "");
    let share = |share: &str| project.run("run", &["--json", "--once", "--shard", share]).ok();
    let (first, second, third) = (tables(&share("1/3")), tables(&share("2/3")), tables(&share("3/3")));
    let all: BTreeSet<String> = names.iter().map(|name| format!("dbo_{name}")).collect();
    assert_eq!(
        first.len() + second.len() + third.len(),
        8,
        "{first:?} {second:?} {third:?}"
    );
    assert_eq!(&(&first | &second) | &third, all);
    // With another number of shares, all begin where they ended, wherever they are.
    let mut rows = 0;
    for of_two in ["1/2", "2/2"] {
        for table in share(of_two).of_type("table") {
            rows += table["rows"].as_u64().expect("a number");
        }
    }
    assert_eq!(rows, 0, "nothing is read twice");
    let wrong = project.run("run", &["--once", "--shard", "3/2"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("2/8"), "{wrong:#?}");
}
