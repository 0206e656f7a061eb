//! What a procedure call leaves behind, and what a batch does.

use tiberius::Client;
use tokio::net::TcpStream;
use tokio_util::compat::Compat;

use crate::harness::Sim;

async fn settings(client: &mut Client<Compat<TcpStream>>) -> (Option<i32>, Option<String>) {
    let stream = client.simple_query("SELECT @@LOCK_TIMEOUT, DB_NAME()").await.unwrap();
    let row = stream.into_row().await.unwrap().unwrap();
    (row.get(0), row.get::<&str, _>(1).map(str::to_owned))
}

#[tokio::test]
async fn what_a_batch_sets_stays_and_what_a_call_sets_ends_with_it() {
    let sim = Sim::with_probe();
    let mut client = sim.tiberius("master").await;
    assert_eq!(settings(&mut client).await, (Some(-1), Some("master".to_owned())));
    let set = client.simple_query("SET LOCK_TIMEOUT 10; USE probe").await.unwrap();
    set.into_results().await.unwrap();
    assert_eq!(settings(&mut client).await, (Some(10), Some("probe".to_owned())));
    // This goes out as a call of sp_executesql.
    client.execute("SET LOCK_TIMEOUT 20; USE master", &[]).await.unwrap();
    assert_eq!(settings(&mut client).await, (Some(10), Some("probe".to_owned())));
}
