//! Which tables sluice may write: its own, of a format it knows, under Delta features that a plain append honours.

use delta_kernel::schema::StructType;
use deltalake::kernel::{Metadata, Protocol};

use super::LakeError;
use super::log::{KNOWN_FORMAT, MIN_VERSION, SCHEMA_VERSION};

/// Writer features under which an append with every column given is complete: none of them asks for more in the log.
const APPENDABLE: [&str; 10] = [
    "appendOnly",
    "invariants",
    "timestampNtz",
    "deletionVectors",
    "changeDataFeed",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "domainMetadata",
    // About columns of a type that sluice does not write. delta-rs adds it whenever it sets a table property.
    "variantType",
    "variantType-preview",
];

const ADVICE_MAPPING: &str = "choose another target (delta-rs writes neither column mapping nor type widening), or drop \
                              the feature with ALTER TABLE ... DROP FEATURE";
const ADVICE_OTHER: &str = "drop the feature with ALTER TABLE ... DROP FEATURE, or choose another target";

/// Whether a table may be written; an error that names the reason if not.
pub fn check(table: &str, metadata: &Metadata, protocol: &Protocol, schema: &StructType) -> Result<(), LakeError> {
    let properties = metadata.configuration();
    if !properties.contains_key(SCHEMA_VERSION) {
        return Err(LakeError::ForeignTable {
            table: table.to_owned(),
            property: SCHEMA_VERSION,
        });
    }
    if let Some(needed) = properties.get(MIN_VERSION)
        && needed
            .trim()
            .parse::<u32>()
            .map_or(true, |needed| needed > KNOWN_FORMAT)
    {
        return Err(LakeError::NewerFormat {
            table: table.to_owned(),
            needed: needed.clone(),
            known: KNOWN_FORMAT,
        });
    }
    let refuse = |feature: &str, advice| {
        Err(LakeError::TableFeature {
            table: table.to_owned(),
            feature: feature.to_owned(),
            advice,
        })
    };
    let mapped = properties
        .get("delta.columnMapping.mode")
        .is_some_and(|mode| !mode.eq_ignore_ascii_case("none"));
    if mapped {
        return refuse("column mapping", ADVICE_MAPPING);
    }
    match protocol.writer_features() {
        Some(features) => {
            for feature in features {
                let name = feature.to_string();
                match name.as_str() {
                    // Supported by the table but not in use: `mapped` above is what counts.
                    "columnMapping" => {}
                    "typeWidening" | "typeWidening-preview" => return refuse("type widening", ADVICE_MAPPING),
                    name if APPENDABLE.contains(&name) => {}
                    name => return refuse(name, ADVICE_OTHER),
                }
            }
        }
        // Versions 5 and 6 bring column mapping (checked above) and identity columns.
        None if protocol.min_writer_version() > 5 => return refuse("identity columns", ADVICE_OTHER),
        None => {}
    }
    if properties.keys().any(|key| key.starts_with("delta.constraints.")) {
        return refuse("a CHECK constraint", "drop it with ALTER TABLE ... DROP CONSTRAINT");
    }
    let computed = schema.fields().find(|field| {
        let metadata = field.metadata();
        metadata.contains_key("delta.generationExpression") || metadata.contains_key("delta.invariants")
    });
    if let Some(field) = computed {
        return refuse(
            &format!("a generated or constrained column ({})", field.name()),
            ADVICE_OTHER,
        );
    }
    if !metadata.partition_columns().is_empty() {
        return refuse(
            "partition columns",
            "choose another target: sluice writes tables without partitions",
        );
    }
    Ok(())
}
