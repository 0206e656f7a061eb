//! How sluice says who it is.

use std::path::Path;

use super::super::secret::{self, SecretSource, Secrets};
use super::super::section::Section;
use super::super::{ConfigError, Secret};
use super::given::Given;

/// The resource that a token for Azure SQL is issued for.
const SCOPE: &str = "https://database.windows.net/.default";
/// Where Entra ID issues tokens.
const AUTHORITY: &str = "https://login.microsoftonline.com";

/// The keys of client credentials.
const CLIENT_CREDENTIALS: [&str; 5] = ["client_id", "client_secret", "tenant", "token_endpoint", "token_scope"];

/// How to log in.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// A login of SQL Server itself.
    Sql {
        /// Its name.
        user: String,
        /// Its password.
        password: Secret,
    },
    /// An access token of Entra ID.
    Token(TokenSource),
}

/// Where an access token comes from.
#[derive(Clone, Debug)]
pub enum TokenSource {
    /// A secret that is the token, or JSON with it (what `az account get-access-token` prints).
    Secret(SecretSource),
    /// The client credentials flow of OAuth 2.0 (RFC 6749, 4.4).
    ClientCredentials {
        /// The token endpoint's address.
        endpoint: String,
        /// The application.
        client_id: String,
        /// Its secret.
        client_secret: Secret,
        /// What the token is for.
        scope: String,
    },
}

impl Authentication {
    /// What messages call the one who logs in.
    pub fn who(&self) -> String {
        match self {
            Authentication::Sql { user, .. } => format!("user {user}"),
            Authentication::Token(TokenSource::Secret(_)) => "the access token's user".to_owned(),
            Authentication::Token(TokenSource::ClientCredentials { client_id, .. }) => {
                format!("application {client_id}")
            }
        }
    }

    pub(super) fn parse(
        section: &mut Section<'_>,
        given: &mut Given,
        base: &Path,
        secrets: Secrets,
        warnings: &mut Vec<String>,
    ) -> Result<Authentication, ConfigError> {
        let way = given.text(section, "authentication")?;
        let token = section.value("access_token");
        let integrated = given.integrated.take();
        let way = match way.as_deref().map(plain).as_deref() {
            None if token.is_some() => "accesstoken",
            // A string that nobody reads says which way it is; the keys beside it are of that way.
            None if given.unknown && CLIENT_CREDENTIALS.into_iter().any(|key| section.value(key).is_some()) => {
                "clientcredentials"
            }
            None | Some("sql" | "sqlpassword") => "sql",
            Some("accesstoken") => "accesstoken",
            Some("clientcredentials" | "activedirectoryserviceprincipal") => "clientcredentials",
            Some("windows" | "kerberos" | "integrated" | "sspi") => return Err(windows(section)),
            Some("activedirectoryintegrated") => return Err(windows(section)),
            Some(other) if other.starts_with("activedirectory") => {
                return Err(section.error(
                    "authentication",
                    "is a way to get a token that sluice does not have itself; use authentication = \"access-token\" \
                     with access_token = { command = [\"…\"] }, a program that prints a token (az account \
                     get-access-token, a managed identity's endpoint)",
                ));
            }
            Some(_) => {
                return Err(section.error(
                    "authentication",
                    "must be \"sql\", \"access-token\" or \"client-credentials\"",
                ));
            }
        };
        if integrated.is_some() {
            return Err(windows(section));
        }
        if way != "accesstoken" && token.is_some() {
            return Err(section.error(
                "access_token",
                "has no effect with this authentication; remove one of them",
            ));
        }
        let authentication = match way {
            "accesstoken" => {
                for key in ["user", "password"] {
                    if given.has(section, key) {
                        return Err(section.error(
                            key,
                            "has no effect with an access token, which says itself whose it is; remove it",
                        ));
                    }
                }
                let Some(value) = token else {
                    return Err(section.error(
                        "access_token",
                        "is required: { command = [\"…\"] }, { file = \"PATH\" } or { env = \"NAME\" }",
                    ));
                };
                let source = SecretSource::parse(value, base).map_err(|e| section.error("access_token", e))?;
                if let SecretSource::Literal(_) = source {
                    warnings.push(secret::literal_warning(&section.name("access_token")));
                }
                Authentication::Token(TokenSource::Secret(source))
            }
            "clientcredentials" => Authentication::Token(client_credentials(section, given, base, secrets, warnings)?),
            _ => {
                let user = given.required(section, "user")?;
                let password = match (section.value("password"), given.password.take()) {
                    (Some(_), Some(_)) => return Err(given.twice(section, "password")),
                    (Some(value), None) => secret::resolve(&section.name("password"), value, base, secrets, warnings)?,
                    (None, Some(password)) => password,
                    (None, None) if given.unknown => Secret::new(""),
                    (None, None) => {
                        return Err(section.error(
                            "password",
                            "is required: { env = \"NAME\" }, { file = \"PATH\" } or { command = [\"…\"] }",
                        ));
                    }
                };
                Authentication::Sql { user, password }
            }
        };
        if way != "clientcredentials" {
            for key in CLIENT_CREDENTIALS {
                if section.value(key).is_some() {
                    return Err(section.error(key, "needs authentication = \"client-credentials\""));
                }
            }
        }
        Ok(authentication)
    }
}

/// `client_id` and `client_secret`, or the connection string's User ID and Password, as ADO.NET has it.
fn client_credentials(
    section: &mut Section<'_>,
    given: &mut Given,
    base: &Path,
    secrets: Secrets,
    warnings: &mut Vec<String>,
) -> Result<TokenSource, ConfigError> {
    for key in ["user", "password"] {
        if section.value(key).is_some() {
            return Err(section.error(
                key,
                "is of a SQL login; client credentials are client_id and client_secret",
            ));
        }
    }
    let client_id = match (section.string("client_id")?, given.take("user")) {
        (Some(_), Some(_)) => return Err(given.twice(section, "client_id")),
        (Some(id), None) => id.to_owned(),
        (None, Some(id)) => id,
        (None, None) if given.unknown => String::new(),
        (None, None) => return Err(section.error("client_id", "is required with client credentials")),
    };
    let client_secret = match (section.value("client_secret"), given.password.take()) {
        (Some(_), Some(_)) => return Err(given.twice(section, "client_secret")),
        (Some(value), None) => secret::resolve(&section.name("client_secret"), value, base, secrets, warnings)?,
        (None, Some(secret)) => secret,
        (None, None) if given.unknown => Secret::new(""),
        (None, None) => {
            return Err(section.error(
                "client_secret",
                "is required with client credentials: { env = \"NAME\" }, { file = \"PATH\" } or { command = [\"…\"] }",
            ));
        }
    };
    let endpoint = match (section.string("tenant")?, section.string("token_endpoint")?) {
        (Some(_), Some(_)) => return Err(section.error("tenant", "has no effect with token_endpoint; remove one")),
        (None, None) => {
            return Err(section.error(
                "tenant",
                "is required with client credentials: the directory's id or domain (or set token_endpoint)",
            ));
        }
        (Some(tenant), None) => {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
            if tenant.is_empty() || !tenant.chars().all(fits) {
                return Err(section.error("tenant", "is neither a directory's id nor a domain"));
            }
            format!("{AUTHORITY}/{tenant}/oauth2/v2.0/token")
        }
        (None, Some(endpoint)) => {
            check_endpoint(endpoint).map_err(|problem| section.error("token_endpoint", problem))?;
            endpoint.to_owned()
        }
    };
    let scope = section.string("token_scope")?.unwrap_or(SCOPE).to_owned();
    Ok(TokenSource::ClientCredentials {
        endpoint,
        client_id,
        client_secret,
        scope,
    })
}

/// The secret goes to this address: over TLS, or to this machine. Messages show it.
fn check_endpoint(endpoint: &str) -> Result<(), &'static str> {
    let url = url::Url::parse(endpoint).map_err(|_| "is no address (https://…)")?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err("must be a plain address, without a user, a query (?…) or a fragment (#…): messages show it");
    }
    let here = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if here => Ok(()),
        _ => Err("must begin with https:// (http:// only for this machine): the client's secret goes there"),
    }
}

fn windows(section: &Section<'_>) -> ConfigError {
    section.error(
        "authentication",
        "asks for a Windows login (Kerberos), which this build of sluice does not have: neither driver is built with it. \
         Use a SQL login or an Entra ID token",
    )
}

fn plain(text: &str) -> String {
    text.chars()
        .filter(|character| !character.is_whitespace() && !matches!(character, '-' | '_'))
        .collect::<String>()
        .to_lowercase()
}
