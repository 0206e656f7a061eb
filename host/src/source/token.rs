//! Access tokens of Entra ID: where they come from, how long they serve, and when a new one is asked for.
//!
//! A token counts at login alone; a connection outlives it. So one token serves all logins until five minutes before it
//! ends, and is then replaced by whoever logs in next, once for all. Meanwhile the others use the old one.

use std::error::Error as _;
use std::sync::{Mutex as SyncMutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tokio::sync::Mutex;

use super::error::SourceError;
use crate::config::{Secret, SecretSource, TokenSource};

/// A token that ends sooner is not used for another login, if a new one can be had.
const MARGIN: Duration = Duration::from_secs(300);
/// From one attempt to replace a token that still serves to the next.
const PAUSE: Duration = Duration::from_secs(30);
/// How long a token serves that does not say when it ends.
const UNKNOWN_LIFE: Duration = Duration::from_secs(300);
/// Time for the token endpoint to answer.
const ENDPOINT_TIME: Duration = Duration::from_secs(30);
/// A longer answer is no token's.
const LONGEST_ANSWER: usize = 1 << 20;

/// The token in use.
#[derive(Debug, Default)]
pub(super) struct TokenCache {
    kept: SyncMutex<Kept>,
    /// Held by the one who asks for a token.
    asking: Mutex<()>,
}

#[derive(Debug, Default)]
struct Kept {
    token: Option<Token>,
    /// The newest attempt, where it brought none.
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Failure {
    at: Instant,
    reason: String,
    transient: bool,
}

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
    /// A token that is valid now. Those who wait meanwhile get the same one, or the same error.
    pub(super) async fn get(&self, source: &TokenSource) -> Result<Issued, SourceError> {
        let since = Instant::now();
        if let Some(issued) = self.lock().without_asking() {
            return Ok(issued);
        }
        let _asking = match self.asking.try_lock() {
            Ok(asking) => asking,
            Err(_) => {
                if let Some(issued) = self.lock().serving(Duration::ZERO) {
                    return Ok(issued);
                }
                let asking = self.asking.lock().await;
                if let Some(failure) = self.lock().failure.as_ref().filter(|failure| failure.at >= since) {
                    return Err(failed(source, failure.reason.clone(), failure.transient));
                }
                asking
            }
        };
        if let Some(issued) = self.lock().without_asking() {
            return Ok(issued);
        }
        let issued = issue(source).await;
        self.lock().keep(source, issued)
    }

    /// The server refused a token, so it is not used again. Another login may have brought the next one meanwhile.
    pub(super) fn forget(&self, refused: &Issued) {
        let mut kept = self.lock();
        if kept
            .token
            .as_ref()
            .is_some_and(|token| token.secret.reveal() == refused.secret.reveal())
        {
            kept.token = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // A panic while a value was replaced leaves a usable value.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// The token, unless it is time to ask for another one.
    fn without_asking(&self) -> Option<Issued> {
        let failed_just_now = self
            .failure
            .as_ref()
            .is_some_and(|failure| failure.at.elapsed() < PAUSE);
        self.serving(if failed_just_now { Duration::ZERO } else { MARGIN })
    }

    /// The token, if it ends no sooner.
    fn serving(&self, time: Duration) -> Option<Issued> {
        let token = self.token.as_ref()?;
        (token.ends > now() + time.as_secs()).then(|| Issued {
            secret: token.secret.clone(),
            fresh: false,
        })
    }

    /// What an attempt brought. Where that is no token, the old one still serves for a while.
    fn keep(&mut self, source: &TokenSource, issued: Result<Token, SourceError>) -> Result<Issued, SourceError> {
        let error = match issued.and_then(|token| expect_time_left(source, token)) {
            Ok(token) => {
                let secret = token.secret.clone();
                *self = Kept {
                    token: Some(token),
                    failure: None,
                };
                return Ok(Issued { secret, fresh: true });
            }
            Err(error) => error,
        };
        if let SourceError::Token { reason, transient, .. } = &error {
            self.failure = Some(Failure {
                at: Instant::now(),
                reason: reason.clone(),
                transient: *transient,
            });
        }
        match self.serving(Duration::ZERO) {
            Some(issued) => {
                tracing::warn!(%error, "the access token cannot be renewed, and ends soon");
                Ok(issued)
            }
            None => Err(error),
        }
    }
}

fn expect_time_left(source: &TokenSource, token: Token) -> Result<Token, SourceError> {
    let now = now();
    if token.ends > now {
        return Ok(token);
    }
    let can_change = !matches!(source, TokenSource::Secret(secret) if !secret.can_change());
    let advice = match can_change {
        true => "compare the clocks of both machines",
        false => "give a { command = […] } or { file = … } that brings a new one",
    };
    let reason = format!("it ended {} s ago; {advice}", now - token.ends);
    // What brings tokens may be a little late with the next one.
    Err(failed(source, reason, can_change))
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
        let kind = if error.is_timeout() {
            "it did not answer in time"
        } else {
            what
        };
        let cause = cause(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        failed(source, format!("{kind}{cause}"), true)
    };
    let mut client = reqwest::Client::builder()
        .timeout(ENDPOINT_TIME)
        .redirect(reqwest::redirect::Policy::none());
    if !url::Url::parse(endpoint).is_ok_and(|url| url.scheme() == "https") {
        // The secret is in clear on its way: it does not leave this machine for a proxy of the environment.
        client = client.no_proxy();
    }
    let client = client
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

/// What is at the bottom of an error. What is above it repeats the address; nothing has the body in it.
fn cause(error: &reqwest::Error) -> Option<String> {
    let mut cause = error.source()?;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    Some(cause.to_string())
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
    use std::sync::Arc;

    use tokio::task::JoinHandle;

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
        let first = cache.get(&print(now() + 3600)).await.unwrap();
        assert!(!first.fresh);
        assert_eq!(asked(), 1);
        cache.forget(&first);
        // One that ends within the margin serves this login, and is replaced at the next.
        assert!(cache.get(&print(now() + 100)).await.unwrap().fresh);
        assert!(cache.get(&print(now() + 100)).await.unwrap().fresh);
        assert_eq!(asked(), 3);
        // It cannot be replaced, and still serves.
        assert!(!cache.get(&command("exit 1")).await.unwrap().fresh);
        // Another login was refused with the one before, and has not heard of this one.
        cache.forget(&first);
        assert!(!cache.get(&command("exit 1")).await.unwrap().fresh);
    }

    /// A program that says that it was asked, and gives no token once [`Hanging::end`] is called.
    struct Hanging {
        dir: tempfile::TempDir,
    }

    impl Hanging {
        fn new() -> Hanging {
            let dir = tempfile::tempdir().unwrap();
            let pipes = ["asked", "end"].map(|name| dir.path().join(name));
            let made = std::process::Command::new("mkfifo").args(pipes).status().unwrap();
            assert!(made.success());
            Hanging { dir }
        }

        fn source(&self) -> TokenSource {
            let dir = self.dir.path().display();
            command(&format!(
                "echo x >> {dir}/count; echo x > {dir}/asked; cat {dir}/end; exit 1"
            ))
        }

        async fn is_asked(&self) {
            let asked = self.dir.path().join("asked");
            tokio::task::spawn_blocking(move || std::fs::read(asked).unwrap())
                .await
                .unwrap();
        }

        fn end(&self) {
            std::fs::write(self.dir.path().join("end"), "").unwrap();
        }

        fn count(&self) -> usize {
            let count = std::fs::read_to_string(self.dir.path().join("count")).unwrap();
            count.lines().count()
        }
    }

    fn start(cache: &Arc<TokenCache>, source: TokenSource) -> JoinHandle<Result<Issued, SourceError>> {
        let cache = Arc::clone(cache);
        tokio::spawn(async move { cache.get(&source).await })
    }

    #[tokio::test]
    async fn a_token_that_still_serves_is_used_while_the_next_one_does_not_come() {
        let hanging = Hanging::new();
        let cache = Arc::new(TokenCache::default());
        // It is within the time in which it is replaced.
        let first = command(&format!("printf %s '{}'", jwt(now() + 200)));
        assert!(cache.get(&first).await.unwrap().fresh);
        let asking = start(&cache, hanging.source());
        hanging.is_asked().await;
        for _ in 0..3 {
            assert!(!cache.get(&hanging.source()).await.unwrap().fresh);
        }
        assert!(!asking.is_finished());
        hanging.end();
        assert!(!asking.await.unwrap().unwrap().fresh);
        // Nobody asks again at once.
        assert!(!cache.get(&hanging.source()).await.unwrap().fresh);
        assert_eq!(hanging.count(), 1);
    }

    #[tokio::test]
    async fn who_waits_for_a_token_that_does_not_come_has_the_same_error() {
        let hanging = Hanging::new();
        let cache = Arc::new(TokenCache::default());
        let waiting = [0; 3].map(|_| start(&cache, hanging.source()));
        hanging.is_asked().await;
        hanging.end();
        for result in waiting {
            let error = result.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Retryable, "{error}");
            assert!(error.to_string().contains("ended with"), "{error}");
        }
        assert_eq!(hanging.count(), 1);
    }

    #[tokio::test]
    async fn an_endpoint_that_is_not_there_is_told_with_the_cause() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let source = TokenSource::ClientCredentials {
            endpoint: format!("http://127.0.0.1:{port}/token"),
            client_id: "app-1".to_owned(),
            client_secret: Secret::new("hunter2"),
            scope: "scope".to_owned(),
        };
        let error = TokenCache::default().get(&source).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retryable, "{error}");
        let text = format!("{error} {error:?}");
        assert!(
            text.contains("cannot be reached: ") && text.contains("os error"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
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
