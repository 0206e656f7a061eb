//! `[source]`: which SQL Server, and how to log in. By keys, by an ADO.NET connection string, or by both, as long as
//! nothing is given twice.

mod authentication;
mod connection_string;
mod given;
mod server;
mod tls;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::ConfigError;
use super::secret::Secrets;
use super::section::Section;
use super::units::{DAY, SECOND};
use crate::source::Learned;

pub use authentication::{Authentication, TokenSource};
pub use server::{Endpoint, ServerName};
pub use tls::{Encrypt, Trust};

use given::Given;

/// How to reach the source database. Both drivers are built from this one type.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// Where the server is.
    pub server: ServerName,
    /// Database.
    pub database: String,
    /// The SQL login; empty with an access token.
    pub user: String,
    /// How to log in.
    pub authentication: Authentication,
    /// What is encrypted.
    pub encrypt: Encrypt,
    /// Which certificate the server may have.
    pub trust: Trust,
    /// The name in the server's certificate, when it is not the server's.
    pub host_name_in_certificate: Option<String>,
    /// Time for a connection to be made and logged in.
    pub connect_timeout: Duration,
    /// Time for a question to be answered, and for a stream to bring its next rows.
    pub command_timeout: Duration,
    /// How long a statement may wait for a lock; none: for ever.
    pub lock_timeout: Option<Duration>,
    /// Asks an availability group's listener for a readable secondary.
    pub read_only: bool,
    /// What the server shows as the program's name.
    pub application_name: String,
    /// The zone of the server's clock, where it is configured.
    pub time_zone: Option<chrono_tz::Tz>,
    /// What this process has found out about the source: one for all clones.
    pub(crate) learned: Arc<Learned>,
}

impl SourceSettings {
    pub(super) fn parse(
        mut section: Section<'_>,
        base: &Path,
        secrets: Secrets,
        warnings: &mut Vec<String>,
    ) -> Result<SourceSettings, ConfigError> {
        let mut given = Given::read(&mut section, base, secrets, warnings)?;
        let server = match given.required(&mut section, "server")? {
            text if text.is_empty() => ServerName {
                host: String::new(),
                endpoint: Endpoint::Port(0),
            },
            text => ServerName::parse(&text).map_err(|problem| section.error("server", problem))?,
        };
        let unknown_database = given.unknown && section.value("database").is_none();
        let database = given.required(&mut section, "database")?;
        if unknown_database {
            return Err(section.error(
                "database",
                "is needed by this command, which reads no secret, and the connection string is one: give database \
                 here, and take it out of the string",
            ));
        }
        let authentication = Authentication::parse(&mut section, &mut given, base, secrets, warnings)?;
        let user = match &authentication {
            Authentication::Sql { user, .. } => user.clone(),
            Authentication::Token(_) => String::new(),
        };
        let tls = tls::parse(&mut section, &mut given, base, secrets, warnings)?;
        if matches!(authentication, Authentication::Token(_)) && tls.encrypt == Encrypt::Login {
            return Err(section.error(
                "encrypt",
                "cannot be false with an access token: Azure SQL takes tokens over TLS alone",
            ));
        }
        let timeout =
            |section: &mut Section<'_>, given: &mut Given, key, longest, default| match given.seconds(section, key)? {
                Some(seconds) => Ok(Duration::from_secs(seconds).min(longest)),
                None => Ok(section
                    .duration(key, SECOND..=longest)?
                    .unwrap_or(Duration::from_secs(default))),
            };
        let connect_timeout = timeout(&mut section, &mut given, "connect_timeout", 3600 * SECOND, 15)?;
        let command_timeout = timeout(&mut section, &mut given, "command_timeout", DAY, 120)?;
        let lock_timeout = match section.string("lock_timeout")? {
            Some("none") => None,
            Some(_) => section.duration("lock_timeout", Duration::from_millis(1)..=DAY)?,
            // Well before the time-out of the client, whose clock starts earlier.
            None => Some(Duration::from_secs(30).min(command_timeout / 2)),
        };
        if lock_timeout.is_none_or(|lock| lock >= command_timeout) && section.value("lock_timeout").is_some() {
            warnings.push(
                "source.lock_timeout is not below command_timeout, which ends a statement that waits for a lock first"
                    .to_owned(),
            );
        }
        let read_only = match given
            .text(&mut section, "application_intent")?
            .map(|text| text.to_lowercase())
        {
            None => false,
            Some(text) if text == "readwrite" => false,
            Some(text) if text == "readonly" => true,
            Some(_) => return Err(section.error("application_intent", "must be \"ReadWrite\" or \"ReadOnly\"")),
        };
        let application_name = given
            .text(&mut section, "application_name")?
            .unwrap_or_else(|| "sluice".to_owned());
        let time_zone = match section.string("source_time_zone")? {
            None => None,
            Some(name) => Some(
                crate::clock::Zone::parse(name)
                    .map_err(|error| section.error("source_time_zone", error.to_string()))?,
            ),
        };
        section.finish()?;
        Ok(SourceSettings {
            server,
            database,
            user,
            authentication,
            encrypt: tls.encrypt,
            trust: tls.trust,
            host_name_in_certificate: tls.host_name,
            connect_timeout,
            command_timeout,
            lock_timeout,
            read_only,
            application_name,
            time_zone,
            learned: Arc::default(),
        })
    }
}

#[cfg(test)]
impl SourceSettings {
    /// The settings of these keys.
    pub(crate) fn for_test(keys: &str) -> SourceSettings {
        let table: toml::Table = keys.parse().unwrap();
        let section = Section::new("source", &table);
        SourceSettings::parse(section, Path::new("/"), Secrets::Resolve, &mut Vec::new()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has to be given.
    const LOGIN: &str =
        "server = \"a\"\ndatabase = \"d\"\nuser = \"u\"\npassword = { command = [\"printf\", \"p\"] }\n";

    fn parse_as(text: &str, secrets: Secrets) -> Result<(SourceSettings, Vec<String>), String> {
        let table: toml::Table = text.parse().unwrap();
        let mut warnings = Vec::new();
        SourceSettings::parse(
            Section::new("source", &table),
            Path::new("/base"),
            secrets,
            &mut warnings,
        )
        .map(|settings| (settings, warnings))
        .map_err(|error| error.to_string())
    }

    fn parse(text: &str) -> Result<(SourceSettings, Vec<String>), String> {
        parse_as(text, Secrets::Resolve)
    }

    #[test]
    fn a_connection_string_is_the_same_as_its_keys() {
        let string = r#"connection_string = { command = ["printf", "%s", "Server=tcp:db.example,1500;Initial Catalog=sales;User ID=reader;Password='a;b';Encrypt=Mandatory;Connect Timeout=7;Command Timeout=60;App=mine;ApplicationIntent=ReadOnly;HostNameInCertificate=real.example;Persist Security Info=False;MultipleActiveResultSets=False"] }"#;
        let keys = r#"
            server = "db.example,1500"
            database = "sales"
            user = "reader"
            password = { command = ["printf", "a;b"] }
            connect_timeout = "7s"
            command_timeout = "60s"
            application_name = "mine"
            application_intent = "ReadOnly"
            host_name_in_certificate = "real.example""#;
        let (string, warnings) = parse(string).unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        let (keys, _) = parse(keys).unwrap();
        assert_eq!(format!("{string:?}"), format!("{keys:?}"));
        let Authentication::Sql { password, .. } = &string.authentication else {
            panic!("a SQL login")
        };
        assert_eq!(password.reveal(), "a;b");
    }

    #[test]
    fn a_setting_is_given_once() {
        for (key, line) in [
            ("server", "server = \"b\""),
            ("database", "database = \"b\""),
            ("user", "user = \"b\""),
            ("password", "password = { command = [\"printf\", \"b\"] }"),
            ("encrypt", "encrypt = false"),
            ("connect_timeout", "connect_timeout = \"1s\""),
            ("application_name", "application_name = \"b\""),
        ] {
            let error = parse(&format!(
                "connection_string = \"Server=a;Database=a;UID=a;PWD=hunter2;Encrypt=true;Timeout=3;App=x\"\n{line}"
            ))
            .unwrap_err();
            assert_eq!(
                error,
                format!("source.{key} is given here and in source.connection_string; remove one")
            );
        }
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let base = "Server=a;Database=a;UID=a;PWD=hunter2;";
        let (settings, warnings) = parse(&format!(
            "connection_string = \"{base}Max Pool Size=50;MultiSubnetFailover=true;Packet Size=4096\""
        ))
        .unwrap();
        let about: Vec<bool> = ["Max Pool Size", "Packet Size", "literal"]
            .iter()
            .map(|words| warnings.iter().filter(|warning| warning.contains(words)).count() == 1)
            .collect();
        assert_eq!((about, warnings.len()), (vec![true; 3], 3), "{warnings:?}");
        assert!(!format!("{settings:?} {warnings:?}").contains("hunter2"));
        for (part, words) in [
            ("Failover Partner=b", "has Failover Partner"),
            ("Integrated Security=SSPI", "Windows login"),
            ("Authentication=Active Directory Integrated", "Windows login"),
            ("Authentication=Active Directory Managed Identity", "access_token"),
            ("Column Encryption Setting=Enabled", "Always Encrypted"),
            ("Connect Timeout=0", "Connect Timeout"),
            ("Encrypt=maybe", "Mandatory"),
            ("ApplicationIntent=Sometimes", "ReadOnly"),
        ] {
            let error = parse(&format!("connection_string = \"{base}{part}\"")).unwrap_err();
            assert!(error.contains(words) && !error.contains("hunter2"), "{part}: {error}");
        }
    }

    #[test]
    fn each_way_to_log_in_has_its_own_keys() {
        let base = "server = \"a\"\ndatabase = \"d\"\n";
        let token = "access_token = { command = [\"printf\", \"x\"] }";
        let (settings, _) = parse(&format!("{base}{token}")).unwrap();
        assert!(matches!(
            settings.authentication,
            Authentication::Token(TokenSource::Secret(_))
        ));
        let credentials = "authentication = \"client-credentials\"\nclient_id = \"c\"\n\
                           client_secret = { command = [\"printf\", \"x\"] }\n";
        let (settings, _) = parse(&format!("{base}{credentials}tenant = \"t.example\"")).unwrap();
        let Authentication::Token(TokenSource::ClientCredentials { endpoint, scope, .. }) = settings.authentication
        else {
            panic!("client credentials")
        };
        assert_eq!(
            endpoint,
            "https://login.microsoftonline.com/t.example/oauth2/v2.0/token"
        );
        assert_eq!(scope, "https://database.windows.net/.default");
        for (lines, words) in [
            (format!("{token}\nuser = \"u\""), "source.user has no effect"),
            (format!("{token}\nencrypt = false"), "over TLS alone"),
            (credentials.to_owned(), "source.tenant is required"),
            (format!("{credentials}tenant = \"a/b\""), "neither a directory's id"),
            (
                format!("{credentials}token_endpoint = \"http://example.com/t\""),
                "must begin with https://",
            ),
            (
                format!("{credentials}token_endpoint = \"https://me:hunter2@example.com/t\""),
                "must be a plain address",
            ),
            (
                format!("{credentials}token_endpoint = \"https://example.com/t?code=hunter2\""),
                "must be a plain address",
            ),
            (
                "user = \"u\"\npassword = \"p\"\nclient_id = \"c\"".to_owned(),
                "source.client_id needs",
            ),
            ("authentication = \"windows\"".to_owned(), "Windows login"),
            (
                "user = \"u\"\npassword = \"p\"\ntrust_server_certificate = true\nencrypt = \"strict\"".to_owned(),
                "cannot be true with encrypt",
            ),
        ] {
            let error = parse(&format!("{base}{lines}")).unwrap_err();
            assert!(error.contains(words) && !error.contains("hunter2"), "{lines}: {error}");
        }
    }

    #[test]
    fn a_lock_is_given_up_well_before_the_command_unless_the_configuration_says_otherwise() {
        for (lines, milliseconds, warns) in [
            ("", Some(30_000), false),
            ("command_timeout = \"60s\"", Some(30_000), false),
            ("command_timeout = \"30s\"", Some(15_000), false),
            ("command_timeout = \"1s\"", Some(500), false),
            ("command_timeout = \"30s\"\nlock_timeout = \"29s\"", Some(29_000), false),
            ("command_timeout = \"30s\"\nlock_timeout = \"30s\"", Some(30_000), true),
            ("lock_timeout = \"none\"", None, true),
        ] {
            let (settings, warnings) = parse(&format!("{LOGIN}{lines}")).unwrap();
            assert_eq!(
                settings.lock_timeout,
                milliseconds.map(Duration::from_millis),
                "{lines}"
            );
            assert_eq!(warnings.len(), usize::from(warns), "{lines}: {warnings:?}");
        }
    }

    #[test]
    fn a_certificates_file_may_have_any_name_and_has_to_hold_one() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text, problem) in [
            ("exported.cer", "-----BEGIN CERTIFICATE-----\n", None),
            ("bundle", "# of ours\n-----BEGIN CERTIFICATE-----\n", None),
            ("binary.cer", "\u{30}\u{0}", Some("export it as Base-64")),
            ("", "", Some("is no file")),
        ] {
            let path = dir.path().join(name);
            if !name.is_empty() {
                std::fs::write(&path, text).unwrap();
            }
            for key in ["ca_file", "server_certificate"] {
                let result = parse(&format!("{LOGIN}{key} = \"{}\"", path.display()));
                match (result, problem) {
                    (Ok(_), None) => {}
                    (Err(error), Some(problem)) => assert!(error.contains(problem), "{name}: {error}"),
                    (result, _) => panic!("{name}: {result:?}"),
                }
            }
        }
    }

    #[test]
    fn commands_without_secrets_need_the_database_alone() {
        let string = "connection_string = { env = \"SLUICE_TEST_NO_SUCH\" }\n";
        let (settings, _) = parse_as(&format!("{string}database = \"d\""), Secrets::Skip).unwrap();
        assert_eq!(settings.database, "d");
        // Of a service principal: the string says that it is one, and only a command with secrets reads it.
        let identity = "client_id = \"c\"\nclient_secret = { env = \"SLUICE_TEST_NO_SUCH\" }\n";
        for keys in [
            "tenant = \"t.example\"".to_owned(),
            format!("{identity}tenant = \"t.example\""),
            format!("{identity}token_endpoint = \"https://login.example/token\""),
        ] {
            let (settings, _) = parse_as(&format!("{string}database = \"d\"\n{keys}"), Secrets::Skip).unwrap();
            let Authentication::Token(TokenSource::ClientCredentials { .. }) = settings.authentication else {
                panic!("client credentials with {keys}")
            };
        }
        let error = parse_as(string, Secrets::Skip).unwrap_err();
        assert!(error.contains("source.database is needed by this command"), "{error}");
    }
}
