//! A key of which a part is masked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::scan::Which;
use super::world::{Cache, World};
use crate::harness::{Project, Server, rows_of};

const TENANTS: i64 = 3;
const PEOPLE: i64 = 7;

/// One that nobody has by chance.
fn email(tenant: i64, person: i64) -> String {
    format!("quagga-{tenant}-{person}-lodestone@mail.test")
}

/// `(_operation, tenant, email, note)` in bronze, in commit order.
fn bronze(project: &Project) -> Vec<(i64, i64, String, String)> {
    let order = ["_start_lsn", "_command_id", "_seqval", "_operation"];
    let rows = rows_of(&project.bronze("dbo_members"), &order).expect("rows");
    let text = |column: &str| rows.texts(column).into_iter().map(Option::unwrap_or_default);
    let numbers = rows.numbers("_operation").into_iter().zip(rows.numbers("tenant"));
    numbers
        .zip(text("c_email").zip(text("note")))
        .map(|((operation, tenant), (email, note))| (operation, tenant, email, note))
        .collect()
}

/// Field case 25, in a stream: with a key of a tenant and an e-mail, the latter masked, each row has a mask of its own, which
/// its update and its delete have too, and no raw key is in a plan, facts, an offset, quarantine or a path.
#[tokio::test(flavor = "multi_thread")]
async fn a_masked_part_of_a_key_is_one_for_each_row_and_the_raw_one_is_nowhere() {
    let server = Server::start(&[]);
    server.database("sales").await;
    let columns =
        "tenant int NOT NULL, c_email nvarchar(60) NOT NULL, note nvarchar(20) NULL, PRIMARY KEY (tenant, c_email)";
    server.table("sales", "members", columns).await;
    for tenant in 1..=TENANTS {
        let rows: Vec<String> = (1..=PEOPLE)
            .map(|person| format!("({tenant}, N'{}', N'{tenant}{person}')", email(tenant, person)))
            .collect();
        server
            .exec("sales", &format!("INSERT INTO dbo.members VALUES {}", rows.join(", ")))
            .await;
    }
    let values: Vec<String> = (1..=TENANTS)
        .flat_map(|tenant| (1..=PEOPLE).map(move |person| email(tenant, person)))
        .chain([email(9, 9)])
        .collect();
    let sentinels = json!([{"name": "c_email", "kind": "text", "values": values}]);
    let world = World::of(server, sentinels, Cache::Shared);

    // Rows whose note is no number go to quarantine with all changes of their key.
    let chain = "protect = [\"c_email\"]\n\
                 [[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\nconfig = { columns = { note = { cast = \"int\" } } }\n\
                 [[table.transform]]\nplugin = \"mask\"\nkeys = [\"pii\"]\n\
                 config = { columns = { tenant = \"pass\", note = \"pass\", c_email = { method = \"hash\", key = \"pii\" } } }\n";
    let mut project = world.project_of("dbo_members", chain);
    project.edit("chunk_rows = 1000", "chunk_rows = 7");
    world.run(&project, "check", &["--json"]).ok();
    world.once(&project).ok();
    // Each person is known by the note.
    let masks: BTreeMap<String, String> = bronze(&project)
        .into_iter()
        .map(|(_, _, email, note)| (note, email))
        .collect();
    let people = (TENANTS * PEOPLE) as usize;
    assert_eq!(masks.len(), people);
    assert_eq!(
        masks.values().collect::<BTreeSet<_>>().len(),
        people,
        "each has its own"
    );

    for statement in [
        format!("UPDATE dbo.members SET note = N'77' WHERE c_email = N'{}'", email(2, 3)),
        format!("DELETE dbo.members WHERE tenant = 1 AND c_email = N'{}'", email(1, 5)),
        // A new key: the old one goes.
        format!(
            "UPDATE dbo.members SET c_email = N'{}' WHERE c_email = N'{}'",
            email(9, 9),
            email(3, 1)
        ),
        format!(
            "UPDATE dbo.members SET note = N'none' WHERE c_email = N'{}'",
            email(2, 6)
        ),
    ] {
        world.server.exec("sales", &statement).await;
    }
    world.once(&project).ok();
    let rows = bronze(&project);
    let changes = &rows[people..];
    let is = |operation: i64, note: &str, person: &str| {
        let wanted = &masks[person];
        changes
            .iter()
            .any(|(found, _, email, text)| *found == operation && email == wanted && text == note)
    };
    assert!(
        is(3, "23", "23") && is(4, "77", "23"),
        "the update is of the row: {changes:?}"
    );
    assert!(is(1, "15", "15"), "the delete is of the row: {changes:?}");
    assert!(is(1, "31", "31"), "the old key goes: {changes:?}");
    let new: Vec<_> = changes.iter().filter(|(operation, ..)| *operation == 2).collect();
    assert!(
        matches!(&new[..], [(_, 3, email, _)] if masks.values().all(|mask| mask != email)),
        "{new:?}"
    );
    world.run(&project, "quarantine", &["retry", "--json"]).ok();
    let listed = world.run(&project, "quarantine", &["list", "--rows"]).ok();
    assert!(listed.stdout.contains("cast-invalid"), "{}", listed.stdout);
    for command in ["status", "doctor", "check"] {
        world.run(&project, command, &["--json"]).ok();
    }
    world.scan(&[&project]).expect_nothing("the key");

    let plain = world.project_of("dbo_members", "");
    world.once(&plain).ok();
    let missed: Vec<Which> = world
        .all()
        .difference(&world.scan(&[&plain]).places("cells"))
        .cloned()
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}
