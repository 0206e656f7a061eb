//! Access tokens of Entra ID: where they come from, how long they serve, and when a new one is asked for.
//!
//! A token counts at login alone; a connection outlives it. So one token serves all logins until five minutes before it
//! ends, and is then replaced by whoever logs in next, once for all.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tokio::sync::Mutex;

use super::error::SourceError;
use crate::config::{Secret, SecretSource, TokenSource};

/// A token that ends sooner is not used for another login, if a new one can be had.
const MARGIN: Duration = Duration::from_secs(300);
/// How long a token serves that does not say when it ends.
const UNKNOWN_LIFE: Duration = Duration::from_secs(300);
/// Time for the token endpoint to answer.
const ENDPOINT_TIME: Duration = Duration::from_secs(30);
/// A longer answer is no token's.
const LONGEST_ANSWER: usize = 1 << 20;

/// The token in use.
#[derive(Debug, Default)]
pub(super) struct TokenCache(Mutex<Option<Token>>);

#[derive(Debug, Clone)]
struct Token {
    secret: Secret,
    /// Seconds since 1970.
    ends: u64,
}

/// A token for one login.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) secret: Secret,
    /// It was asked for just now: a server that refuses it would refuse the next one.
    pub(super) fresh: bool,
}

impl TokenCache {
    /// A token that is valid now. Those who wait meanwhile get the same one.
    pub(super) async fn get(&self, source: &TokenSource) -> Result<Issued, SourceError> {
        let mut kept = self.0.lock().await;
        let now = now();
        if let Some(token) = kept.as_ref().filter(|token| token.ends > now + MARGIN.as_secs()) {
            return Ok(Issued {
                secret: token.secret.clone(),
                fresh: false,
            });
        }
        match issue(source).await {
            Ok(token) if token.ends <= now => Err(failed(
                source,
                format!(
                    "it ended {} s ago; {}",
                    now - token.ends,
                    match source {
                        TokenSource::Secret(secret) if !secret.can_change() =>
                            "give a { command = […] } or { file = … } that brings a new one",
                        _ => "compare the clocks of both machines",
                    }
                ),
                // What brings tokens may be a little late with the next one.
                !matches!(source, TokenSource::Secret(secret) if !secret.can_change()),
            )),
            Ok(token) => {
                let secret = token.secret.clone();
                *kept = Some(token);
                Ok(Issued { secret, fresh: true })
            }
            // The old one still serves for a while.
            Err(error) => match kept.as_ref().filter(|token| token.ends > now) {
                Some(token) => {
                    tracing::warn!(%error, "the access token cannot be renewed, and ends soon");
                    Ok(Issued {
                        secret: token.secret.clone(),
                        fresh: false,
                    })
                }
                None => Err(error),
            },
        }
    }

    /// The server refused the token, so it is not used again.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

async fn issue(source: &TokenSource) -> Result<Token, SourceError> {
    match source {
        TokenSource::Secret(secret) => from_secret(source, secret.clone()).await,
        TokenSource::ClientCredentials {
            endpoint,
            client_id,
            client_secret,
            scope,
        } => {
            let body = url::form_urlencoded::Serializer::new(String::new())
                .append_pair("grant_type", "client_credentials")
                .append_pair("client_id", client_id)
                .append_pair("client_secret", client_secret.reveal())
                .append_pair("scope", scope)
                .finish();
            from_endpoint(source, endpoint, body).await
        }
    }
}

async fn from_secret(source: &TokenSource, secret: SecretSource) -> Result<Token, SourceError> {
    // A command that fails may have met a network that was away; a variable that is not set stays so.
    let can_change = secret.can_change();
    let read = tokio::task::spawn_blocking(move || secret.read()).await;
    let text = match read {
        Ok(Ok(text)) => text,
        Ok(Err(reason)) => return Err(failed(source, reason, can_change)),
        Err(_) => return Err(failed(source, "reading it was ended".to_owned(), true)),
    };
    let text = text.reveal().trim();
    let (token, life) = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(answer)) => token_of(&answer).ok_or_else(|| {
            failed(
                source,
                "what it gave is JSON without accessToken or access_token".to_owned(),
                false,
            )
        })?,
        _ => (text.to_owned(), None),
    };
    if token.is_empty() || token.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(failed(source, "what it gave is no token".to_owned(), false));
    }
    Ok(token_until(token, life))
}

async fn from_endpoint(source: &TokenSource, endpoint: &str, body: String) -> Result<Token, SourceError> {
    let away = |what: &str, error: &reqwest::Error| {
        // The address is ours; the text of the error may repeat it, and nothing of the body.
        let kind = if error.is_timeout() {
            "it did not answer in time"
        } else {
            what
        };
        failed(source, kind.to_owned(), true)
    };
    let client = reqwest::Client::builder()
        .timeout(ENDPOINT_TIME)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| away("the HTTP client cannot start", &error))?;
    let mut answer = client
        .post(endpoint)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json")
        .body(body)
        .send()
        .await
        .map_err(|error| away("it cannot be reached", &error))?;
    let status = answer.status();
    let mut bytes = Vec::new();
    while let Some(part) = answer
        .chunk()
        .await
        .map_err(|error| away("the connection to it broke", &error))?
    {
        bytes.extend_from_slice(&part);
        if bytes.len() > LONGEST_ANSWER {
            return Err(failed(source, "its answer is too long".to_owned(), false));
        }
    }
    let json: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    if status.is_success() {
        return match json.as_object().and_then(token_of) {
            Some((token, life)) => Ok(token_until(token, life)),
            None => Err(failed(source, "its answer has no access_token".to_owned(), false)),
        };
    }
    let transient = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    Err(failed(
        source,
        format!("it answered {}{}", status.as_u16(), refusal(&json)),
        transient,
    ))
}

/// OAuth's word for what was wrong (RFC 6749, 5.2) and Entra ID's number. Nothing else of the answer is shown.
fn refusal(json: &Value) -> String {
    let word = json["error"]
        .as_str()
        .filter(|word| word.len() < 64 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    let number = json["error_description"].as_str().and_then(|text| {
        let digits: String = text
            .strip_prefix("AADSTS")?
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        Some(format!("AADSTS{digits}"))
    });
    let hint = match word {
        Some("invalid_client" | "unauthorized_client") => "; check source.client_id and source.client_secret",
        Some("invalid_scope") => "; check source.token_scope",
        Some("invalid_request") => "; check source.tenant",
        _ => "",
    };
    let parts: Vec<&str> = word.into_iter().chain(number.as_deref()).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({}){hint}", parts.join(", ")),
    }
}

/// The token and the end of its life, in the words of OAuth or of the Azure command line.
fn token_of(answer: &serde_json::Map<String, Value>) -> Option<(String, Option<u64>)> {
    let token = ["access_token", "accessToken"]
        .iter()
        .find_map(|key| answer.get(*key)?.as_str())
        .filter(|token| !token.is_empty())?;
    let number = |key: &str| match answer.get(key)? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let ends = number("expires_on").or_else(|| Some(now().saturating_add(number("expires_in")?)));
    Some((token.to_owned(), ends))
}

fn token_until(token: String, ends: Option<u64>) -> Token {
    let ends = end_in(&token)
        .into_iter()
        .chain(ends)
        .min()
        .unwrap_or_else(|| now() + MARGIN.as_secs() + UNKNOWN_LIFE.as_secs());
    Token {
        secret: Secret::new(token),
        ends,
    }
}

/// `exp` of a JSON web token (RFC 7519, 4.1.4). Nothing is verified: the server does that.
fn end_in(token: &str) -> Option<u64> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&bytes).ok()?;
    let exp = &claims["exp"];
    exp.as_u64().or_else(|| exp.as_f64().map(|seconds| seconds as u64))
}

fn failed(source: &TokenSource, reason: String, transient: bool) -> SourceError {
    let from = match source {
        TokenSource::Secret(SecretSource::Literal(_)) => "source.access_token".to_owned(),
        TokenSource::Secret(SecretSource::Env(_)) => "source.access_token.env".to_owned(),
        TokenSource::Secret(SecretSource::File(_)) => "source.access_token.file".to_owned(),
        TokenSource::Secret(SecretSource::Command(_)) => "source.access_token.command".to_owned(),
        TokenSource::ClientCredentials { endpoint, .. } => endpoint.clone(),
    };
    SourceError::Token {
        from,
        reason,
        transient,
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Classify, ErrorKind};

    fn jwt(ends: u64) -> String {
        let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
        format!(
            "{}.{}.c2ln",
            part(r#"{"alg":"none"}"#),
            part(&format!(r#"{{"exp":{ends},"upn":"someone"}}"#))
        )
    }

    fn command(script: &str) -> TokenSource {
        let words = ["sh", "-c", script].map(str::to_owned).to_vec();
        TokenSource::Secret(SecretSource::Command(words))
    }

    #[test]
    fn a_tokens_end_is_read_wherever_it_is_said() {
        assert_eq!(end_in(&jwt(1_900_000_000)), Some(1_900_000_000));
        assert_eq!(end_in("opaque"), None);
        assert_eq!(end_in("a.!.b"), None);
        let azure: Value = serde_json::json!({"accessToken": "t", "expires_on": 1_900_000_000_u64});
        assert_eq!(
            token_of(azure.as_object().unwrap()),
            Some(("t".to_owned(), Some(1_900_000_000)))
        );
        let oauth: Value = serde_json::json!({"access_token": "t", "expires_in": "3599"});
        let (_, ends) = token_of(oauth.as_object().unwrap()).unwrap();
        assert!(ends.is_some_and(|ends| ends >= now() + 3598));
    }

    #[tokio::test]
    async fn a_token_serves_until_shortly_before_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let print = |ends: u64| command(&format!("echo x >> {}; printf %s '{}'", count.display(), jwt(ends)));
        let asked = || std::fs::read_to_string(&count).unwrap_or_default().lines().count();
        let cache = TokenCache::default();
        assert!(cache.get(&print(now() + 3600)).await.unwrap().fresh);
        assert!(!cache.get(&print(now() + 3600)).await.unwrap().fresh);
        assert_eq!(asked(), 1);
        cache.forget().await;
        // One that ends within the margin serves this login, and is replaced at the next.
        assert!(cache.get(&print(now() + 100)).await.unwrap().fresh);
        assert!(cache.get(&print(now() + 100)).await.unwrap().fresh);
        assert_eq!(asked(), 3);
        // It cannot be replaced, and still serves.
        assert!(!cache.get(&command("exit 1")).await.unwrap().fresh);
    }

    #[tokio::test]
    async fn what_a_command_gives_is_not_shown_and_its_failure_may_pass() {
        for (script, kind, words) in [
            ("exit 3", ErrorKind::Retryable, "ended with"),
            ("printf 'hunter2 hunter2'", ErrorKind::Config, "no token"),
            ("printf '{\"token\":\"hunter2\"}'", ErrorKind::Config, "JSON without"),
        ] {
            let error = TokenCache::default().get(&command(script)).await.unwrap_err();
            let text = format!("{error} {error:?}");
            assert_eq!(error.kind(), kind, "{text}");
            assert!(text.contains(words) && !text.contains("hunter2"), "{text}");
        }
        let old = TokenSource::Secret(SecretSource::Literal(Secret::new(jwt(1_000_000_000))));
        let error = TokenCache::default().get(&old).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("{ command = […] }"), "{error}");
    }

    #[test]
    fn of_a_refusal_only_the_codes_are_shown() {
        let json = serde_json::json!({
            "error": "invalid_client",
            "error_description": "AADSTS7000215: Invalid client secret provided: hunter2"
        });
        assert_eq!(
            refusal(&json),
            " (invalid_client, AADSTS7000215); check source.client_id and source.client_secret"
        );
        assert_eq!(refusal(&serde_json::json!({"error": "Hunter 2"})), "");
    }
}
