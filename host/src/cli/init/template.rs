//! The configuration of somebody who begins, to be filled in.

/// `sluice init` without a server.
pub(super) const TEMPLATE: &str = r#"# A first configuration of sluice. docs/reference/configuration.md has every key.
# With a server at hand, `sluice init --from-server` lists its tables and proposes masks.

[source]
server = "sqlhost,1433"                        # host, host,port or host\INSTANCE
database = "sales"
user = "cdc_reader"                            # may read the tables and their change tables, and nothing else
password = { env = "SLUICE_PASSWORD" }         # or { file = "…" }, { command = ["…"] }
# ca_file = "ca.pem"                           # who signed the server's certificate, when the system does not know
# server_certificate = "sqlhost.pem"           # or the certificate itself, when nobody signed it
# source_time_zone = "Europe/Berlin"           # of servers older than 2022, which do not say it

# [plugins]
# dir = "plugins"                              # NAME.wasm, NAME@VERSION.wasm; `mask` and `map` are inside sluice
# reload = false                               # true: a file that changes takes effect at the next batch
# locked = false                               # true: without sluice.lock (`sluice lock`), no plugin file runs

[keys]
pii = { env = "PII_KEY", version = "v1" }      # `openssl rand -hex 32`; the host computes with it, no component sees it

[defaults]                                     # each of these may stand under a table too
target        = "lake/bronze/{ci}"             # {ci} becomes the capture instance
app_id        = "{ci}-v1"
checkpoint    = "lake/checkpoints/{ci}"
facts_table   = "lake/ops/ingestion_facts"
control_table = "lake/ops/table_finalization"
trigger       = "10s"
# max_commits_per_batch = 500
# on_data_loss = "fail"
# on_transform_change = "fail"

[[table]]
capture_instance = "dbo_customers"
protect = ["email", "phone"]                   # these may not pass: the table does not start if they would
# leak_check = "full"                          # look for their values in every row of the output

  [[table.transform]]
  plugin = "mask"
  keys = ["pii"]

    [table.transform.config]
    unlisted = "fail"                          # a column that is not named here stops the table

    [table.transform.config.columns]
    id    = "pass"
    city  = "pass"
    email = { method = "email", key = "pii" }
    phone = { method = "keep", last = 2 }
"#;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Settings;

    #[test]
    fn the_template_is_a_configuration_also_with_what_it_leaves_out() {
        let with_secrets = TEMPLATE
            .replace("{ env = \"SLUICE_PASSWORD\" }", "{ command = [\"printf\", \"p\"] }")
            .replace("env = \"PII_KEY\"", "command = [\"printf\", \"0123456789abcdef\"]");
        let parse = |text: &str| Settings::parse(text, Path::new("/base"), Path::new("sluice.toml"));
        assert_eq!(parse(&with_secrets).unwrap().tables[0].protect, ["email", "phone"]);
        // Each line that is a comment with a setting in it.
        let all: String = with_secrets
            .lines()
            .filter(|line| !line.contains(".pem"))
            .map(|line| match line.strip_prefix("# ") {
                Some(setting) if setting.starts_with('[') || setting.contains(" = ") => format!("{setting}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let settings = parse(&all).unwrap_or_else(|error| panic!("{error}\n{all}"));
        assert_eq!(settings.plugins.dir.as_deref(), Some(Path::new("/base/plugins")));
    }
}
