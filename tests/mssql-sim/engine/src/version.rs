//! Which SQL Server the stand-in shows itself as.

use std::time::Duration;

/// A version of SQL Server. They are in the order in which features came; Azure SQL Database has them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ServerVersion {
    /// SQL Server 2016 (13.0).
    V2016,
    /// SQL Server 2017 (14.0).
    V2017,
    /// SQL Server 2019 (15.0).
    V2019,
    /// SQL Server 2022 (16.0).
    #[default]
    V2022,
    /// SQL Server 2025 (17.0).
    V2025,
    /// Azure SQL Database, which says that it is 12.0.
    Azure,
}

impl ServerVersion {
    /// `SERVERPROPERTY('ProductVersion')`.
    pub fn product_version(self) -> &'static str {
        match self {
            ServerVersion::V2016 => "13.0.6300.2",
            ServerVersion::V2017 => "14.0.3456.2",
            ServerVersion::V2019 => "15.0.4360.2",
            ServerVersion::V2022 => "16.0.4135.4",
            ServerVersion::V2025 => "17.0.1000.7",
            ServerVersion::Azure => "12.0.2000.8",
        }
    }

    /// Whether it is Azure SQL Database: no Agent, no zone but UTC, no way from one database into another.
    pub fn is_azure(self) -> bool {
        self == ServerVersion::Azure
    }

    /// `SERVERPROPERTY('ProductUpdateLevel')`: absent where no cumulative update is on it.
    pub(crate) fn update_level(self) -> Option<&'static str> {
        match self {
            ServerVersion::V2017 => Some("CU31"),
            ServerVersion::V2019 => Some("CU27"),
            ServerVersion::V2022 => Some("CU14"),
            _ => None,
        }
    }

    /// `SERVERPROPERTY('EngineEdition')`: 3 is Enterprise, which Developer counts as; 5 is Azure SQL Database.
    pub(crate) fn engine_edition(self) -> &'static str {
        if self.is_azure() { "5" } else { "3" }
    }

    /// `SERVERPROPERTY('Edition')`.
    pub(crate) fn edition(self) -> &'static str {
        match self {
            ServerVersion::Azure => "SQL Azure",
            ServerVersion::V2025 => "Enterprise Developer Edition (64-bit)",
            _ => "Developer Edition (64-bit)",
        }
    }

    /// `@@VERSION`.
    pub(crate) fn banner(self) -> String {
        let product = self.product_version();
        let year = match self {
            ServerVersion::V2016 => "2016",
            ServerVersion::V2017 => "2017",
            ServerVersion::V2019 => "2019",
            ServerVersion::V2022 => "2022",
            ServerVersion::V2025 => "2025",
            ServerVersion::Azure => {
                return format!("Microsoft SQL Azure (RTM) - {product} (mssql-sim, a stand-in)");
            }
        };
        format!(
            "Microsoft SQL Server {year} (mssql-sim, a stand-in) - {product} (X64)\n\t{} on Linux",
            self.edition()
        )
    }

    /// `sys.databases.compatibility_level` of a new database.
    pub(crate) fn compatibility_level(self) -> i64 {
        match self {
            ServerVersion::V2016 => 130,
            ServerVersion::V2017 => 140,
            ServerVersion::V2019 => 150,
            ServerVersion::V2022 => 160,
            ServerVersion::V2025 | ServerVersion::Azure => 170,
        }
    }

    /// How long capture stays behind a commit unless it is told otherwise. SQL Server's job polls every 5 s, the scheduler
    /// of Azure SQL Database runs it about every 20 s.
    pub(crate) fn default_capture_lag(self) -> Duration {
        if self.is_azure() {
            Duration::from_secs(20)
        } else {
            Duration::ZERO
        }
    }
}
