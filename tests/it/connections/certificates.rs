//! TLS: what one driver takes the other takes, and what one refuses the other refuses.

use super::{both_in, both_refused, fill, keys, project, set_up};
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
