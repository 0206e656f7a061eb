//! Who may look.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Form, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;

use crate::config::Secret;
use crate::sha256;

const LOGIN: &str = include_str!("assets/login.html");
const MESSAGE: &str = "<!--MESSAGE-->";
const COOKIE: &str = "sluice";

/// Who may look.
pub(super) struct Access {
    /// SHA-256 of the token, and of what a browser that gave it keeps; `None`: whoever reaches the page by a loopback name.
    token: Option<(String, String)>,
}

impl Access {
    pub(super) fn loopback() -> Access {
        Access { token: None }
    }

    pub(super) fn token(token: &Secret) -> Access {
        let session = session_of(token.reveal());
        Access {
            // Digests are compared, so that the time that it takes says nothing of the token.
            token: Some((digest(token.reveal()), digest(&session))),
        }
    }

    fn allows(&self, headers: &HeaderMap) -> bool {
        let Some((token, session)) = &self.token else {
            return is_loopback_name(headers);
        };
        let bearer = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "));
        let cookie = headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        bearer.is_some_and(|given| digest(given.trim()) == *token)
            || cookie.is_some_and(|given| digest(given) == *session)
    }
}

/// What a browser keeps: not the token, so that it cannot be read from the browser's files.
fn session_of(token: &str) -> String {
    digest(&format!("session of the status page {token}"))
}

fn digest(text: &str) -> String {
    sha256::hex(text.as_bytes())
}

fn is_loopback_name(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let Some(authority) = host.and_then(|host| host.parse::<Authority>().ok()) else {
        return false;
    };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Lets through who may look. A browser is led to where it signs in.
pub(super) async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    if access.allows(request.headers()) {
        return next.run(request).await;
    }
    if access.token.is_none() {
        let words = "this page is for this machine alone: open it as http://127.0.0.1 or http://localhost\n";
        return (StatusCode::FORBIDDEN, words).into_response();
    }
    match request.uri().path() {
        "/" => Redirect::to("/login").into_response(),
        _ => {
            let how = [(header::WWW_AUTHENTICATE, "Bearer")];
            (
                StatusCode::UNAUTHORIZED,
                how,
                "a token is needed: Authorization: Bearer …\n",
            )
                .into_response()
        }
    }
}

pub(super) async fn login() -> Html<String> {
    Html(LOGIN.replace(MESSAGE, ""))
}

#[derive(Deserialize)]
pub(super) struct Given {
    token: String,
}

pub(super) async fn sign_in(State(access): State<Arc<Access>>, Form(given): Form<Given>) -> Response {
    let given = given.token.trim();
    match &access.token {
        Some((token, _)) if digest(given) == *token => {
            let cookie = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", session_of(given));
            ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Some(_) => {
            let page = LOGIN.replace(MESSAGE, "That is not the token.");
            (StatusCode::UNAUTHORIZED, Html(page)).into_response()
        }
        None => Redirect::to("/").into_response(),
    }
}

pub(super) async fn sign_out() -> Response {
    let cookie = format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    ([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn without_a_token_only_names_of_this_machine_are_answered() {
        let access = Access::loopback();
        for (host, allowed) in [
            ("127.0.0.1:9464", true),
            ("localhost:9464", true),
            ("[::1]:9464", true),
            ("LOCALHOST", true),
            ("evil.example:9464", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(access.allows(&with(header::HOST, host)), allowed, "{host}");
        }
        assert!(!access.allows(&HeaderMap::new()));
    }

    #[test]
    fn a_token_is_asked_for_in_either_form_and_nothing_else_will_do() {
        let access = Access::token(&Secret::new("0123456789abcdef"));
        let session = session_of("0123456789abcdef");
        for (name, value, allowed) in [
            (header::AUTHORIZATION, "Bearer 0123456789abcdef".to_owned(), true),
            (header::AUTHORIZATION, "Bearer 0123456789abcdeF".to_owned(), false),
            (header::AUTHORIZATION, "Bearer ".to_owned(), false),
            (header::AUTHORIZATION, format!("Bearer {session}"), false),
            (header::COOKIE, format!("a=b; sluice={session}"), true),
            (header::COOKIE, "sluice=0123456789abcdef".to_owned(), false),
            (header::HOST, "localhost".to_owned(), false),
        ] {
            assert_eq!(access.allows(&with(name.clone(), &value)), allowed, "{name}: {value}");
        }
    }
}
