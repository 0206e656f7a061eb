//! `[storage]`: what the clients of object stores need to know.

use std::path::Path;

use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use toml::Value;

use super::secret::{self, SecretSource, Secrets};
use super::section::{self, Section};
use super::{ConfigError, Secret, TableSettings};
use crate::storage::{Place, Scheme, StorageOptions};

/// Keys whose values nobody is to see: a literal is taken with a warning.
const SECRET_WORDS: [&str; 6] = [
    "secret",
    "access_key",
    "sas",
    "token",
    "account_key",
    "service_account_key",
];
/// Of those, names that are no secrets, or where one is found.
const NO_SECRETS: [&str; 4] = [
    "access_key_id",
    "web_identity_token_file",
    "federated_token_file",
    "container_authorization_token_file",
];

/// The common ones, for a key that is none of them.
const COMMON: [&[&str]; 3] = [
    &[
        "region",
        "endpoint",
        "access_key_id",
        "secret_access_key",
        "session_token",
        "allow_http",
        "virtual_hosted_style_request",
        "credentials",
    ],
    &[
        "account_name",
        "account_key",
        "sas_token",
        "client_id",
        "client_secret",
        "tenant_id",
        "endpoint",
        "allow_http",
        "use_emulator",
        "use_azure_cli",
    ],
    &[
        "service_account",
        "service_account_key",
        "application_credentials",
        "base_url",
        "allow_http",
    ],
];

pub(super) fn parse(
    mut root: Section<'_>,
    base: &Path,
    secrets: Secrets,
    warnings: &mut Vec<String>,
) -> Result<StorageOptions, ConfigError> {
    let mut options = StorageOptions::default();
    let known = Scheme::ALL.map(Scheme::key);
    if let Some((other, _)) = root.entries().find(|(key, _)| !known.contains(key)) {
        return Err(root.error(
            other,
            "is no store: what they need stands in [storage.s3], [storage.azure] or [storage.gcs]",
        ));
    }
    for (scheme, common) in Scheme::ALL.into_iter().zip(COMMON) {
        let Some(section) = root.section(scheme.key())? else {
            continue;
        };
        let store = options.stores.entry(scheme).or_default();
        for (key, value) in section.entries() {
            let name = section.name(key);
            let problem = |problem: String| ConfigError::Key {
                key: name.clone(),
                problem,
            };
            let is_credentials = key == "credentials" && scheme == Scheme::S3;
            if !is_credentials && !knows(scheme, key) {
                let nearest = section::nearest(key, common.iter().copied());
                let hint = nearest
                    .map(|nearest| format!("; did you mean {nearest}?"))
                    .unwrap_or_default();
                return Err(problem(format!("is no setting of {}{hint}", scheme.name())));
            }
            let source = match value {
                Value::Boolean(value) => SecretSource::Literal(Secret::new(value.to_string())),
                Value::Integer(value) => SecretSource::Literal(Secret::new(value.to_string())),
                value => SecretSource::parse(value, base).map_err(problem)?,
            };
            let is_literal = matches!(source, SecretSource::Literal(_));
            if is_credentials && is_literal {
                return Err(problem(
                    "must be { file = \"PATH\" } or { command = [\"…\"] }: it is read again before what it gives runs out".to_owned(),
                ));
            }
            if is_literal && is_secret(key) {
                warnings.push(secret::literal_warning(&name));
            }
            if secrets == Secrets::Resolve && !is_literal {
                source.read().map_err(problem)?;
            }
            if is_credentials {
                store.credentials = Some(source);
            } else {
                store.values.insert(key.to_owned(), source);
            }
        }
    }
    root.finish()?;
    Ok(options)
}

/// Whether the client knows such a key. Which bucket it is says the place.
fn knows(scheme: Scheme, key: &str) -> bool {
    let names_the_bucket = key.contains("bucket") && !key.contains("key") || key.contains("container_name");
    let known = match scheme {
        Scheme::S3 => key.parse::<AmazonS3ConfigKey>().is_ok(),
        Scheme::Azure => key.parse::<AzureConfigKey>().is_ok(),
        Scheme::Gcs => key.parse::<GoogleConfigKey>().is_ok(),
    };
    known && !names_the_bucket
}

fn is_secret(key: &str) -> bool {
    SECRET_WORDS.iter().any(|word| key.contains(word)) && !NO_SECRETS.iter().any(|name| key.ends_with(name))
}

/// One container has one name in a configuration: `az://` leaves the account to the settings, and `abfss://` names it, so whether two
/// such places are the same cannot be seen.
pub(super) fn expect_one_form<'a>(tables: &'a [TableSettings], hosts: Option<&'a Place>) -> Result<(), ConfigError> {
    let all = || tables.iter().flat_map(TableSettings::places).chain(hosts);
    let of = |scheme: &str| all().find(|place| place.url_scheme() == Some(scheme));
    match (of("az"), of("abfss")) {
        (Some(short), Some(long)) => Err(ConfigError::Key {
            key: "storage.azure".to_owned(),
            problem: format!(
                "has places in two forms, {short} and {long}: use one of them for all, so that no folder is taken twice"
            ),
        }),
        _ => Ok(()),
    }
}

/// Each bucket has what its client needs: nothing is sent.
pub(super) fn expect_usable<'a>(tables: &'a [TableSettings], hosts: Option<&'a Place>) -> Result<(), ConfigError> {
    let of_tables = tables.iter().flat_map(TableSettings::places);
    for object in of_tables.chain(hosts).filter_map(Place::as_object) {
        object.store().map_err(|error| ConfigError::Key {
            key: format!("storage.{}", object.scheme().key()),
            problem: format!(
                "lacks what is needed for {object}: {}",
                without_values(&error.to_string())
            ),
        })?;
    }
    Ok(())
}

/// The client's parser repeats what it could not parse.
fn without_values(error: &str) -> String {
    match error.split_once("failed to parse \"") {
        Some((before, rest)) => {
            let wanted = rest.rsplit_once('"').map_or("", |(_, wanted)| wanted);
            format!("{before}a value cannot be read{wanted}")
        }
        None => error.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Settings;
    use std::path::Path;

    fn parse(storage: &str, places: &str) -> Result<Settings, String> {
        let text = format!(
            "[source]\nserver = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = {{ command = [\"printf\", \"x\"] }}\n\
             {storage}\n[ownership]\nmode = \"lease\"\nhosts = \"{places}/hosts\"\n[[table]]\ncapture_instance = \"a\"\n\
             target = \"{places}/lake/a\"\napp_id = \"a\"\ncheckpoint = \"{places}/state/a\"\n\
             facts_table = \"{places}/ops/facts\"\ncontrol_table = \"{places}/ops/control\"\n"
        );
        Settings::parse(&text, Path::new("/base"), Path::new("sluice.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_store_is_named_by_its_url_and_described_in_its_section() {
        let storage = "[storage.s3]\nregion = \"eu-central-1\"\nendpoint = \"http://127.0.0.1:9\"\nallow_http = true\n\
                       access_key_id = \"a\"\nsecret_access_key = { command = [\"printf\", \"x\"] }";
        let settings = parse(storage, "s3://bucket").unwrap();
        assert_eq!(settings.tables[0].target.to_string(), "s3://bucket/lake/a");
        assert_eq!(settings.warnings, Vec::<String>::new());
        let azure = "[storage.azure]\naccount_name = \"a\"\naccount_key = { command = [\"printf\", \"aGVsbG8=\"] }";
        assert!(parse(azure, "az://box").is_ok());
    }

    #[test]
    fn what_is_wrong_is_named_and_no_value_is_shown() {
        for (storage, places, words) in [
            (
                "[storage.s4]",
                "/x",
                "storage.s4 is no store: what they need stands in [storage.s3]",
            ),
            (
                "[storage.s3]\nregoin = \"x\"",
                "/x",
                "storage.s3.regoin is no setting of S3; did you mean region?",
            ),
            ("[storage.s3]\nbucket = \"x\"", "/x", "storage.s3.bucket is no setting"),
            (
                "[storage.s3]\ncredentials = \"hunter2\"",
                "/x",
                "storage.s3.credentials must be { file",
            ),
            (
                "[storage.azure]\ncredentials = { env = \"X\" }",
                "/x",
                "storage.azure.credentials is no setting",
            ),
            (
                "[storage.gcs]\nservice_account_key = { env = \"SLUICE_NO_SUCH\" }",
                "/x",
                "SLUICE_NO_SUCH is not set",
            ),
            ("", "az://box", "storage.azure lacks what is needed for az://box/"),
            (
                "[storage.s3]\nallow_http = \"hunter2\"\nregion = \"x\"",
                "s3://b",
                "storage.s3 lacks",
            ),
            ("", "ftp://b", "has ftp://"),
            ("", "s3:/b", "two slashes"),
        ] {
            let error = parse(storage, places).unwrap_err();
            assert!(
                error.contains(words) && !error.contains("hunter2"),
                "{storage}: {error}"
            );
        }
    }

    #[test]
    fn one_folder_under_two_spellings_is_one() {
        let table = |target: &str, rest: &str| {
            format!(
                "[storage.s3]\nregion = \"x\"\n[storage.azure]\naccount_name = \"a\"\naccount_key = {{ command = [\"printf\", \
                 \"aGVsbG8=\"] }}\n[[table]]\ncapture_instance = \"b\"\ntarget = \"{target}\"\napp_id = \"b\"\ncheckpoint = \
                 \"{rest}/state/b\"\nfacts_table = \"{rest}/ops/facts\"\ncontrol_table = \"{rest}/ops/control\"\n"
            )
        };
        let error = parse(&table("s3a://b/lake/a", "s3://b"), "s3://b").unwrap_err();
        assert!(error.contains("s3://b/lake/a is also the target of"), "{error}");
        let error = parse(&table("abfss://b@a.dfs.core.windows.net/lake/b", "az://b"), "az://b").unwrap_err();
        assert!(error.contains("has places in two forms"), "{error}");
    }

    #[test]
    fn a_secret_in_the_file_is_taken_with_a_warning() {
        let storage = "[storage.s3]\nregion = \"x\"\nsecret_access_key = \"hunter2\"\naccess_key_id = \"a\"";
        let settings = parse(storage, "s3://b").unwrap();
        assert_eq!(settings.warnings.len(), 1);
        assert!(settings.warnings[0].starts_with("storage.s3.secret_access_key is a literal"));
    }

    #[test]
    fn a_checkpoint_in_a_bucket_needs_a_lease() {
        let text = "[source]\nserver = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = { command = [\"printf\", \"x\"] }\n\
                    [storage.s3]\nregion = \"x\"\n[[table]]\ncapture_instance = \"a\"\ntarget = \"lake/a\"\napp_id = \"a\"\n\
                    checkpoint = \"s3://b/a\"\nfacts_table = \"f\"\ncontrol_table = \"c\"\n";
        let error = Settings::parse(text, Path::new("/base"), Path::new("s.toml"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("[ownership] mode = \"lease\"") && error.contains("s3://b/a"),
            "{error}"
        );
    }
}
