//! Where a login goes: sent on by the server, or to the port of a named instance.

use std::net::{TcpListener, UdpSocket};

use super::{both, fault, fill, keys, keys_at, logins, project, set_up};
use crate::harness::{Project, Server, ids, insert};

/// Two servers with the same tables; the first sends logins on to the second.
async fn gateway(times: u32) -> (Server, Server, Project) {
    let (gateway, target) = (Server::signed(&[]), Server::signed(&[]));
    for server in [&gateway, &target] {
        fill(server).await;
    }
    insert(&target, 2..=3).await;
    let mut project = project(&gateway).await;
    let bundle = [&gateway, &target].map(|server| std::fs::read_to_string(server.authority()).expect("readable"));
    std::fs::write(project.path().join("bundle.pem"), bundle.concat()).expect("written");
    project.source(
        &keys(&gateway, "ca_file = \"bundle.pem\"\napplication_intent = \"ReadOnly\"")
            .replace("127.0.0.1", "localhost"),
    );
    let to = format!(", @host = N'127.0.0.1', @port = {}, @times = {times}", target.port);
    fault(&gateway, "redirect", &to).await;
    (gateway, target, project)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_sent_on_is_followed_and_names_the_first_server() {
    let (_gateway, target, project) = gateway(1000).await;
    project.once().ok();
    assert_eq!(ids(&project), [2, 3]);
    let logins = logins(&target).await;
    assert!(logins.len() >= 2, "both drivers: {logins:?}");
    for login in logins {
        assert_eq!(login.server, "localhost", "{login:?}");
        assert!(login.read_only && login.application == "sluice", "{login:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_driver_follows_by_itself_when_any_certificate_is_taken() {
    let (gateway, target, mut project) = gateway(1000).await;
    project.source(&keys(&gateway, "trust_server_certificate = true").replace("127.0.0.1", "localhost"));
    let (asks, streams) = both(&project).await;
    asks.expect("tiberius follows");
    streams.expect("mssql-tds follows");
    let logins = logins(&target).await;
    assert_eq!(logins.len(), 2);
    assert!(logins.iter().all(|login| login.server == "localhost"), "{logins:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_not_sent_round_for_ever() {
    let (server, mut project) = set_up().await;
    project.source(&keys(&server, "trust_server_certificate = true"));
    let round = format!(", @host = N'127.0.0.1', @port = {}, @times = 1000", server.port);
    fault(&server, "redirect", &round).await;
    let (asks, streams) = both(&project).await;
    let (asks, streams) = (asks.expect_err("tiberius ends"), streams.expect_err("mssql-tds ends"));
    assert!(asks.to_string().contains("sent on more than 10 times"), "{asks}");
    assert!(streams.to_string().contains("redirection"), "{streams}");
}

/// A port where nobody listens.
fn closed_port(host: &str) -> u16 {
    let listener = TcpListener::bind((host, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_refuses_connections_says_who_sent_the_login_there() {
    let (server, project) = set_up().await;
    let port = closed_port("127.0.0.1");
    fault(&server, "redirect", &format!(", @host = N'127.0.0.1', @port = {port}")).await;
    let (asks, _) = both(&project).await;
    let error = asks.expect_err("nobody listens there").to_string();
    for words in [
        format!("cannot connect to 127.0.0.1,{port}"),
        format!("sent there by {}", server.address()),
    ] {
        assert!(error.contains(&words), "{words}: {error}");
    }
}

/// An address of this machine that no other test has: the Browser's port is one for all.
fn own_address(last: u8) -> String {
    let process = std::process::id();
    format!("127.{}.{}.{last}", 1 + process % 200, process / 200 % 250)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_instance_is_found_through_the_browser() {
    let host = own_address(77);
    let server = Server::listening(&host, &["--instance", "SALES"]);
    fill(&server).await;
    let mut project = project(&server).await;
    let named = |instance: &str| {
        keys(
            &server,
            &format!("server_certificate = \"{}\"", server.certificate().display()),
        )
        .replace(&format!("{host},{}", server.port), &format!("{host}\\\\{instance}"))
    };
    project.source(&named("sales"));
    project.once().ok();
    assert_eq!(ids(&project), [1]);
    // With a port, nobody is asked.
    project.source(&named(&format!("nosuch,{}", server.port)));
    project.run("check", &[]).ok();
    project.source(&named("nosuch"));
    let check = project.run("check", &[]);
    assert_eq!(check.code, 3, "{}", check.stderr);
    assert!(
        check.stderr.contains("SQL Server Browser") && check.stderr.contains("instance nosuch"),
        "{}",
        check.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_refuses_connections_is_not_said_to_be_a_route() {
    let (_server, mut project) = set_up().await;
    let host = own_address(78);
    let port = closed_port(&host);
    let browser = UdpSocket::bind((host.as_str(), 1434)).expect("the Browser's port");
    std::thread::spawn(move || {
        let text = format!("ServerName;H;InstanceName;SALES;IsClustered;No;Version;16.0.1000.6;tcp;{port};;");
        let mut answer = vec![5];
        answer.extend((text.len() as u16).to_le_bytes());
        answer.extend(text.as_bytes());
        while let Ok((_, from)) = browser.recv_from(&mut [0; 64]) {
            let _ = browser.send_to(&answer, from);
        }
    });
    project.source(&keys_at(&format!("{host}\\\\SALES"), "trust_server_certificate = true"));
    let check = project.run("check", &[]);
    assert_eq!(check.code, 3, "{}", check.stderr);
    assert!(
        check.stderr.contains(&format!("cannot connect to {host},{port}: ")) && !check.stderr.contains("sent there"),
        "{}",
        check.stderr
    );
}
