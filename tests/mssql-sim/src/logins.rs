//! What the logins of late asked for, for tests: `EXEC sim.logins`. And whose an access token is.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mssql_sim_engine::result::ColumnMeta;
use mssql_sim_engine::value::{Length, SqlType, Value};

use crate::wire::login7::Login7;

/// Older ones are forgotten.
const KEPT: usize = 1000;

/// The logins of late, whether they were let in or not, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<VecDeque<Vec<Value>>>);

impl Logins {
    pub(crate) fn note(&self, login: &Login7) {
        let text = |text: &str| Value::Text(text.to_owned());
        let row = vec![
            text(&login.user),
            text(&login.server),
            text(&login.database),
            text(&login.application),
            Value::Int(i64::from(login.read_only)),
            Value::Int(i64::from(login.token.is_some())),
        ];
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(row);
    }

    pub(crate) fn rows(&self) -> Vec<Vec<Value>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().cloned().collect()
    }
}

/// The columns of `sim.logins`.
pub(crate) fn columns() -> Vec<ColumnMeta> {
    let column = |name: &str, ty| ColumnMeta {
        name: name.to_owned(),
        ty,
        nullable: true,
        collation: None,
    };
    let text = SqlType::NVarChar(Length::Limited(128));
    vec![
        column("login_name", text),
        column("server_name", text),
        column("database_name", text),
        column("application_name", text),
        column("read_only", SqlType::Int),
        column("token", SqlType::Int),
    ]
}

/// The login that a JSON web token names (`upn`, else `appid`), if it has not ended (`exp`). Its signature is not looked
/// at: there is nobody whose key it could be.
pub(crate) fn user_of_token(token: &str) -> Option<String> {
    let payload = token.split('.').nth(1)?;
    let bytes = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    if claims["exp"].as_u64()? <= now {
        return None;
    }
    let name = claims["upn"].as_str().or_else(|| claims["appid"].as_str())?;
    Some(name.to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A token with these claims.
    pub(crate) fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_token_names_a_login_until_it_ends() {
        let later = 4_000_000_000_u64;
        assert_eq!(
            user_of_token(&token(&format!(r#"{{"upn":"a@b","exp":{later}}}"#))).as_deref(),
            Some("a@b")
        );
        assert_eq!(user_of_token(&token(r#"{"upn":"a@b","exp":1}"#)), None);
        assert_eq!(user_of_token(&token(r#"{"upn":"a@b"}"#)), None);
        assert_eq!(user_of_token("opaque"), None);
    }
}
