//! TLS: what one driver takes the other takes, and what one refuses the other refuses.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::{both_in, both_refused, fill, keys, keys_at, project, set_up};
use crate::harness::{Server, ids};

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_an_authority_is_taken_by_both() {
    let server = Server::signed(&[]);
    fill(&server).await;
    let mut project = project(&server).await;
    let authority = server.authority();
    for more in [
        format!("ca_file = \"{}\"", authority.display()),
        format!("ca_file = \"{}\"\nencrypt = \"strict\"", authority.display()),
        format!("server_certificate = \"{}\"", server.certificate().display()),
        format!(
            "server_certificate = \"{}\"\nencrypt = \"strict\"",
            server.certificate().display()
        ),
        "trust_server_certificate = true".to_owned(),
        "encrypt = false".to_owned(),
    ] {
        project.source(&keys(&server, &more));
        both_in(&project).await;
    }
    // A bundle: one of its authorities signed.
    let other = Server::signed(&[]);
    let bundle = [other.authority(), authority].map(|path| std::fs::read_to_string(path).expect("readable"));
    std::fs::write(project.path().join("bundle.pem"), bundle.concat()).expect("written");
    project.source(&keys(&server, "ca_file = \"bundle.pem\""));
    project.once().ok();
    assert_eq!(ids(&project), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_vouches_for_is_refused_by_both() {
    let server = Server::signed(&[]);
    fill(&server).await;
    let mut project = project(&server).await;
    let other = Server::signed(&[]);
    for (more, words) in [
        (String::new(), "source.ca_file"),
        ("encrypt = \"strict\"".to_owned(), "source.ca_file"),
        (
            format!("ca_file = \"{}\"", other.authority().display()),
            "source.ca_file",
        ),
        (
            format!("server_certificate = \"{}\"", other.certificate().display()),
            "source.server_certificate",
        ),
        (
            format!(
                "ca_file = \"{}\"\nhost_name_in_certificate = \"other.example\"",
                server.authority().display()
            ),
            "source.host_name_in_certificate",
        ),
    ] {
        project.source(&keys(&server, &more));
        both_refused(&project, &["cannot make a TLS connection", words]).await;
    }
    // The authority's own certificate is no server's.
    project.source(&keys(
        &server,
        &format!("server_certificate = \"{}\"", server.authority().display()),
    ));
    both_refused(&project, &["cannot make a TLS connection"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_name_needs_that_name() {
    let server = Server::signed(&["--cert-name", "sql.example"]);
    fill(&server).await;
    let mut project = project(&server).await;
    let authority = format!("ca_file = \"{}\"", server.authority().display());
    project.source(&keys(&server, &authority));
    both_refused(&project, &["source.host_name_in_certificate"]).await;
    project.source(&keys(
        &server,
        &format!("{authority}\nhost_name_in_certificate = \"sql.example\""),
    ));
    both_in(&project).await;
    // The very certificate is its own proof.
    project.source(&keys(
        &server,
        &format!("server_certificate = \"{}\"", server.certificate().display()),
    ));
    both_in(&project).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_has_expired_is_refused_by_both() {
    let server = Server::signed(&["--cert-expired"]);
    fill(&server).await;
    let mut project = project(&server).await;
    for more in [
        format!("ca_file = \"{}\"", server.authority().display()),
        format!("server_certificate = \"{}\"", server.certificate().display()),
    ] {
        project.source(&keys(&server, &more));
        both_refused(&project, &["expired", "the server needs a new certificate"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_would_not_be_made_is_not_promised() {
    let (server, mut project) = set_up().await;
    for key in ["ca_file", "server_certificate"] {
        project.source(&keys(&server, &format!("encrypt = false\n{key} = \"x.pem\"")));
        let check = project.run("check", &[]);
        assert_eq!(check.code, 2, "{}", check.stderr);
        assert!(check.stderr.contains("checks no certificate"), "{}", check.stderr);
    }
}

/// The answers to the option ENCRYPTION of a prelogin ([MS-TDS] 2.2.6.5) that promise no TLS.
const OFF: u8 = 0;
const NOT_SUPPORTED: u8 = 2;

/// A server that answers a prelogin, and listens to what it is sent then.
struct Unencrypted {
    address: String,
    /// Of each connection that has ended, what came after its prelogin.
    heard: Receiver<Vec<u8>>,
}

impl Unencrypted {
    fn start(encryption: u8) -> Unencrypted {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (sender, heard) = channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let prelogin = packet(&mut stream);
                assert_eq!(prelogin, 0x12, "a prelogin comes first");
                stream.write_all(&answer(encryption)).expect("written");
                let mut rest = Vec::new();
                let _ = stream.read_to_end(&mut rest);
                if sender.send(rest).is_err() {
                    return;
                }
            }
        });
        Unencrypted {
            address: format!("127.0.0.1,{port}"),
            heard,
        }
    }

    /// The next connection has to send nothing after its prelogin.
    fn hears_no_more(&self, from: &str) {
        let heard = self.heard.recv_timeout(Duration::from_secs(60));
        let heard = heard.unwrap_or_else(|error| panic!("{from} does not end its connection: {error}"));
        assert!(heard.is_empty(), "{from} goes on: {heard:02X?}");
    }
}

/// Reads a packet: its type.
fn packet(stream: &mut TcpStream) -> u8 {
    let mut header = [0; 8];
    stream.read_exact(&mut header).expect("a header");
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let mut body = vec![0; length - header.len()];
    stream.read_exact(&mut body).expect("a body");
    header[0]
}

/// An answer to a prelogin, in its packet.
fn answer(encryption: u8) -> Vec<u8> {
    // Options, each with the offset and the length of its value: VERSION, ENCRYPTION, INSTOPT, THREADID, MARS.
    let options: [[u8; 5]; 5] = [
        [0, 0, 26, 0, 6],
        [1, 0, 32, 0, 1],
        [2, 0, 33, 0, 1],
        [3, 0, 34, 0, 0],
        [4, 0, 34, 0, 1],
    ];
    let values: [u8; 9] = [16, 0, 0x10, 0x27, 0, 0, encryption, 0, 0];
    let mut packet: Vec<u8> = vec![0x04, 0x01, 0, 43, 0, 0, 1, 0];
    packet.extend(options.as_flattened());
    packet.push(0xFF);
    packet.extend(values);
    assert_eq!(packet.len(), 43);
    packet
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_offers_no_encryption_gets_no_login_from_either_driver() {
    let (_server, mut project) = set_up().await;
    for encryption in [NOT_SUPPORTED, OFF] {
        let server = Unencrypted::start(encryption);
        for more in ["", "trust_server_certificate = true", "encrypt = false"] {
            project.source(&keys_at(&server.address, more));
            both_refused(
                &project,
                &["cannot make a TLS connection", "the server offers no encryption"],
            )
            .await;
            for driver in ["tiberius", "mssql-tds"] {
                server.hears_no_more(&format!("{driver}, with {more:?}"));
            }
            // No server to wait for, but one to mend.
            let run = project.once();
            assert_eq!(run.code, 2, "{}", run.stderr);
            server.hears_no_more(&format!("a run, with {more:?}"));
        }
    }
}
