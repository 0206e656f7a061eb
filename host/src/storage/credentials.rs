//! Credentials that run out while the process runs: read again from where they come from, before they do.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use deltalake::ObjectStoreError;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::config::{Secret, SecretSource};

/// How long before their end credentials are read again, at most; those that live shorter, in the last third of their time.
const BEFORE_THE_END: chrono::Duration = chrono::Duration::minutes(5);
/// How often credentials are read again that do not say when they end.
const WITHOUT_END: chrono::Duration = chrono::Duration::minutes(1);
/// For how long new ones are not asked for after asking failed, while the old ones hold.
const AFTER_A_FAILURE: chrono::Duration = chrono::Duration::seconds(10);

/// Credentials in the form that AWS calls `credential_process`, out of a file or from a program.
#[derive(Debug)]
pub(super) struct FromOutside {
    source: SecretSource,
    known: Mutex<Option<Known>>,
}

#[derive(Clone, Debug)]
struct Known {
    credential: Arc<AwsCredential>,
    ends: Option<DateTime<Utc>>,
    /// From when on they are read again.
    again: DateTime<Utc>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u32,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<DateTime<Utc>>,
}

impl FromOutside {
    pub(super) fn new(source: SecretSource) -> FromOutside {
        FromOutside {
            source,
            known: Mutex::new(None),
        }
    }
}

#[async_trait]
impl CredentialProvider for FromOutside {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> Result<Arc<AwsCredential>, ObjectStoreError> {
        let mut known = self.known.lock().await;
        let asked = Utc::now();
        if let Some(known) = known.as_ref().filter(|known| asked < known.again) {
            return Ok(Arc::clone(&known.credential));
        }
        let source = self.source.clone();
        let read = tokio::task::spawn_blocking(move || source.read()).await;
        let read = read.unwrap_or_else(|_| Err("could not be read: the task that did was cut off".to_owned()));
        // A program may take its time.
        let now = Utc::now();
        match (read.and_then(|secret| parse(&secret, now)), known.as_mut()) {
            (Ok(read), _) => {
                let credential = Arc::clone(&read.credential);
                *known = Some(read);
                Ok(credential)
            }
            (Err(problem), Some(old)) if old.ends.is_none_or(|ends| now < ends) => {
                tracing::warn!(
                    problem,
                    "storage.s3.credentials could not be read again; the ones before still hold"
                );
                old.again = now + AFTER_A_FAILURE;
                Ok(Arc::clone(&old.credential))
            }
            (Err(problem), _) => Err(ObjectStoreError::Generic {
                store: "S3",
                source: format!("storage.s3.credentials {problem}").into(),
            }),
        }
    }
}

/// An error shows nothing of what was read.
fn parse(secret: &Secret, now: DateTime<Utc>) -> Result<Known, String> {
    let printed: Printed = serde_json::from_str(secret.reveal()).map_err(|_| {
        "is not what it should be: JSON with Version, AccessKeyId, SecretAccessKey and, where they have one, SessionToken \
         and Expiration, as `aws configure export-credentials --format process` prints it"
            .to_owned()
    })?;
    if printed.version != 1 {
        return Err(format!("has Version {}; sluice knows Version 1", printed.version));
    }
    let again = match printed.expiration {
        None => now + WITHOUT_END,
        Some(ends) if ends <= now => return Err(format!("ran out at {ends}")),
        Some(ends) => ends - BEFORE_THE_END.min((ends - now) / 3),
    };
    Ok(Known {
        credential: Arc::new(AwsCredential {
            key_id: printed.access_key_id,
            secret_key: printed.secret_access_key,
            token: printed.session_token,
        }),
        ends: printed.expiration,
        again,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(key: &str, seconds: Option<i64>) -> String {
        let ends = seconds.map(|seconds| (Utc::now() + chrono::Duration::seconds(seconds)).to_rfc3339());
        serde_json::json!({
            "Version": 1, "AccessKeyId": key, "SecretAccessKey": "s3cret", "SessionToken": "t", "Expiration": ends,
        })
        .to_string()
    }

    #[tokio::test]
    async fn they_are_read_again_in_the_last_third_of_their_time_and_kept_while_they_hold() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials.json");
        let outside = FromOutside::new(SecretSource::File(file.clone()));
        let set = async |again: i64| {
            let mut known = outside.known.lock().await;
            let known = known.as_mut().unwrap();
            known.again = Utc::now() - chrono::Duration::seconds(again);
        };
        std::fs::write(&file, json("a", Some(60))).unwrap();
        assert_eq!(outside.get_credential().await.unwrap().key_id, "a");
        std::fs::write(&file, json("b", Some(3600))).unwrap();
        assert_eq!(outside.get_credential().await.unwrap().key_id, "a", "a holds for 40 s");
        set(0).await;
        assert_eq!(outside.get_credential().await.unwrap().key_id, "b");
        // What cannot be read does no harm before the old ones end.
        std::fs::write(&file, "{").unwrap();
        set(0).await;
        assert_eq!(outside.get_credential().await.unwrap().key_id, "b");
        outside.known.lock().await.as_mut().unwrap().ends = Some(Utc::now());
        set(0).await;
        let error = outside.get_credential().await.unwrap_err().to_string();
        assert!(
            error.contains("storage.s3.credentials is not what it should be"),
            "{error}"
        );
    }

    #[test]
    fn what_was_read_is_not_shown() {
        let now = Utc::now();
        for (text, words) in [
            (json("a", Some(-5)), "ran out at"),
            (json("a", None).replace("\"Version\":1", "\"Version\":2"), "Version 2"),
            ("s3cret".to_owned(), "export-credentials"),
        ] {
            let error = parse(&Secret::new(text), now).unwrap_err();
            assert!(error.contains(words) && !error.contains("s3cret"), "{error}");
        }
        let known = parse(&Secret::new(json("a", None)), now).unwrap();
        assert_eq!((known.again - now).num_seconds(), 60);
        let known = parse(&Secret::new(json("a", Some(3600))), now).unwrap();
        assert!((54..=56).contains(&(known.again - now).num_minutes()), "{known:?}");
    }
}
