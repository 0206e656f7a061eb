//! The catalogue views that clients and the reader ask: their columns, and their rows made from the catalogue.

mod rows;

use super::same_name;
use crate::{
    context::StatementContext,
    value::{Length, SqlType, Value},
};

/// A view of `sys`, `INFORMATION_SCHEMA` or `cdc`.
pub struct CatalogView {
    pub schema: &'static str,
    pub name: &'static str,
    /// Name, type and nullability, in order.
    pub columns: &'static [(&'static str, SqlType, bool)],
    rows: fn(&StatementContext) -> Vec<Vec<Value>>,
}

const NAME: SqlType = SqlType::NVarChar(Length::Limited(128));
const INT: SqlType = SqlType::Int;
const BIT: SqlType = SqlType::Bit;
const TINY: SqlType = SqlType::TinyInt;
const SMALL: SqlType = SqlType::SmallInt;
const WHEN: SqlType = SqlType::DateTime;
const TEXT60: SqlType = SqlType::NVarChar(Length::Limited(60));
const KIND: SqlType = SqlType::Char(2);

const OBJECT_COLUMNS: &[(&str, SqlType, bool)] = &[
    ("name", NAME, false),
    ("object_id", INT, false),
    ("principal_id", INT, true),
    ("schema_id", INT, false),
    ("parent_object_id", INT, false),
    ("type", KIND, true),
    ("type_desc", TEXT60, true),
    ("create_date", WHEN, false),
    ("modify_date", WHEN, false),
    ("is_ms_shipped", BIT, false),
    ("is_published", BIT, false),
    ("is_schema_published", BIT, false),
];

const COLUMN_COLUMNS: &[(&str, SqlType, bool)] = &[
    ("object_id", INT, false),
    ("name", NAME, true),
    ("column_id", INT, false),
    ("system_type_id", TINY, false),
    ("user_type_id", INT, false),
    ("max_length", SMALL, false),
    ("precision", TINY, false),
    ("scale", TINY, false),
    ("collation_name", NAME, true),
    ("is_nullable", BIT, true),
    ("is_ansi_padded", BIT, false),
    ("is_rowguidcol", BIT, false),
    ("is_identity", BIT, false),
    ("is_computed", BIT, false),
    ("is_filestream", BIT, false),
    ("is_sparse", BIT, true),
    ("is_column_set", BIT, true),
    ("generated_always_type", TINY, true),
    ("is_hidden", BIT, false),
    ("is_masked", BIT, false),
    ("default_object_id", INT, false),
];

const VIEWS: &[CatalogView] = &[
    CatalogView {
        schema: "sys",
        name: "databases",
        columns: &[
            ("name", NAME, false),
            ("database_id", INT, false),
            ("create_date", WHEN, false),
            ("compatibility_level", TINY, false),
            ("collation_name", NAME, true),
            ("user_access_desc", TEXT60, true),
            ("is_read_only", BIT, true),
            ("state", TINY, true),
            ("state_desc", TEXT60, true),
            ("snapshot_isolation_state", TINY, true),
            ("snapshot_isolation_state_desc", TEXT60, true),
            ("is_read_committed_snapshot_on", BIT, true),
            ("recovery_model", TINY, true),
            ("recovery_model_desc", TEXT60, true),
            ("is_cdc_enabled", BIT, false),
            ("is_encrypted", BIT, true),
        ],
        rows: rows::databases,
    },
    CatalogView {
        schema: "sys",
        name: "schemas",
        columns: &[
            ("name", NAME, false),
            ("schema_id", INT, false),
            ("principal_id", INT, true),
        ],
        rows: rows::schemas,
    },
    CatalogView {
        schema: "sys",
        name: "tables",
        columns: &[
            ("name", NAME, false),
            ("object_id", INT, false),
            ("principal_id", INT, true),
            ("schema_id", INT, false),
            ("parent_object_id", INT, false),
            ("type", KIND, true),
            ("type_desc", TEXT60, true),
            ("create_date", WHEN, false),
            ("modify_date", WHEN, false),
            ("is_ms_shipped", BIT, false),
            ("is_published", BIT, false),
            ("is_schema_published", BIT, false),
            ("max_column_id_used", INT, false),
            ("is_replicated", BIT, true),
            ("is_tracked_by_cdc", BIT, true),
            ("is_memory_optimized", BIT, true),
            ("temporal_type", TINY, true),
            ("temporal_type_desc", TEXT60, true),
            ("is_external", BIT, false),
        ],
        rows: rows::tables,
    },
    CatalogView {
        schema: "sys",
        name: "objects",
        columns: OBJECT_COLUMNS,
        rows: rows::objects,
    },
    CatalogView {
        schema: "sys",
        name: "all_objects",
        columns: OBJECT_COLUMNS,
        rows: rows::objects,
    },
    CatalogView {
        schema: "sys",
        name: "views",
        columns: OBJECT_COLUMNS,
        rows: rows::none,
    },
    CatalogView {
        schema: "sys",
        name: "procedures",
        columns: OBJECT_COLUMNS,
        rows: rows::none,
    },
    CatalogView {
        schema: "sys",
        name: "columns",
        columns: COLUMN_COLUMNS,
        rows: rows::columns,
    },
    CatalogView {
        schema: "sys",
        name: "all_columns",
        columns: COLUMN_COLUMNS,
        rows: rows::columns,
    },
    CatalogView {
        schema: "sys",
        name: "computed_columns",
        columns: COLUMN_COLUMNS,
        rows: rows::computed_columns,
    },
    CatalogView {
        schema: "sys",
        name: "identity_columns",
        columns: &[
            ("object_id", INT, false),
            ("name", NAME, true),
            ("column_id", INT, false),
            ("seed_value", SqlType::BigInt, true),
            ("increment_value", SqlType::BigInt, true),
            ("last_value", SqlType::BigInt, true),
        ],
        rows: rows::identity_columns,
    },
    CatalogView {
        schema: "sys",
        name: "types",
        columns: &[
            ("name", NAME, false),
            ("system_type_id", TINY, false),
            ("user_type_id", INT, false),
            ("schema_id", INT, false),
            ("max_length", SMALL, false),
            ("precision", TINY, false),
            ("scale", TINY, false),
            ("collation_name", NAME, true),
            ("is_nullable", BIT, true),
            ("is_user_defined", BIT, false),
            ("is_assembly_type", BIT, false),
            ("is_table_type", BIT, false),
        ],
        rows: rows::types,
    },
    CatalogView {
        schema: "sys",
        name: "indexes",
        columns: &[
            ("object_id", INT, false),
            ("name", NAME, true),
            ("index_id", INT, false),
            ("type", TINY, false),
            ("type_desc", TEXT60, true),
            ("is_unique", BIT, true),
            ("is_primary_key", BIT, true),
            ("is_unique_constraint", BIT, true),
            ("is_disabled", BIT, true),
            ("has_filter", BIT, true),
        ],
        rows: rows::indexes,
    },
    CatalogView {
        schema: "sys",
        name: "index_columns",
        columns: &[
            ("object_id", INT, false),
            ("index_id", INT, false),
            ("index_column_id", INT, false),
            ("column_id", INT, false),
            ("key_ordinal", TINY, false),
            ("partition_ordinal", TINY, false),
            ("is_descending_key", BIT, true),
            ("is_included_column", BIT, true),
        ],
        rows: rows::index_columns,
    },
    CatalogView {
        schema: "sys",
        name: "key_constraints",
        columns: &[
            ("name", NAME, false),
            ("object_id", INT, false),
            ("schema_id", INT, false),
            ("parent_object_id", INT, false),
            ("type", KIND, true),
            ("type_desc", TEXT60, true),
            ("unique_index_id", INT, true),
        ],
        rows: rows::key_constraints,
    },
    CatalogView {
        schema: "sys",
        name: "database_principals",
        columns: &[
            ("name", NAME, false),
            ("principal_id", INT, false),
            ("type", SqlType::Char(1), false),
            ("type_desc", TEXT60, true),
        ],
        rows: rows::principals,
    },
    CatalogView {
        schema: "INFORMATION_SCHEMA",
        name: "TABLES",
        columns: &[
            ("TABLE_CATALOG", NAME, true),
            ("TABLE_SCHEMA", NAME, true),
            ("TABLE_NAME", NAME, false),
            ("TABLE_TYPE", SqlType::VarChar(Length::Limited(10)), true),
        ],
        rows: rows::information_tables,
    },
    CatalogView {
        schema: "INFORMATION_SCHEMA",
        name: "COLUMNS",
        columns: &[
            ("TABLE_CATALOG", NAME, true),
            ("TABLE_SCHEMA", NAME, true),
            ("TABLE_NAME", NAME, false),
            ("COLUMN_NAME", NAME, true),
            ("ORDINAL_POSITION", INT, true),
            ("COLUMN_DEFAULT", SqlType::NVarChar(Length::Limited(4000)), true),
            ("IS_NULLABLE", SqlType::VarChar(Length::Limited(3)), true),
            ("DATA_TYPE", NAME, true),
            ("CHARACTER_MAXIMUM_LENGTH", INT, true),
            ("CHARACTER_OCTET_LENGTH", INT, true),
            ("NUMERIC_PRECISION", TINY, true),
            ("NUMERIC_SCALE", INT, true),
            ("DATETIME_PRECISION", SMALL, true),
            ("COLLATION_NAME", NAME, true),
        ],
        rows: rows::information_columns,
    },
    CatalogView {
        schema: "INFORMATION_SCHEMA",
        name: "SCHEMATA",
        columns: &[
            ("CATALOG_NAME", NAME, true),
            ("SCHEMA_NAME", NAME, false),
            ("SCHEMA_OWNER", NAME, true),
        ],
        rows: rows::information_schemata,
    },
    CatalogView {
        schema: "INFORMATION_SCHEMA",
        name: "KEY_COLUMN_USAGE",
        columns: &[
            ("CONSTRAINT_SCHEMA", NAME, true),
            ("CONSTRAINT_NAME", NAME, false),
            ("TABLE_SCHEMA", NAME, true),
            ("TABLE_NAME", NAME, false),
            ("COLUMN_NAME", NAME, true),
            ("ORDINAL_POSITION", INT, false),
        ],
        rows: rows::key_column_usage,
    },
    CatalogView {
        schema: "cdc",
        name: "change_tables",
        columns: &[
            ("object_id", INT, false),
            ("version", INT, true),
            ("source_object_id", INT, true),
            ("capture_instance", NAME, false),
            ("start_lsn", SqlType::Binary(10), true),
            ("end_lsn", SqlType::Binary(10), true),
            ("supports_net_changes", BIT, true),
            ("has_drop_pending", BIT, true),
            ("role_name", NAME, true),
            ("index_name", NAME, true),
            ("filegroup_name", NAME, true),
            ("create_date", WHEN, true),
            ("partition_switch", BIT, false),
        ],
        rows: rows::change_tables,
    },
    CatalogView {
        schema: "cdc",
        name: "captured_columns",
        columns: &[
            ("object_id", INT, false),
            ("column_name", NAME, false),
            ("column_id", INT, true),
            ("column_type", NAME, false),
            ("column_ordinal", INT, false),
            ("is_computed", BIT, true),
            ("masking_function", SqlType::NVarChar(Length::Limited(4000)), true),
        ],
        rows: rows::captured_columns,
    },
    CatalogView {
        schema: "cdc",
        name: "index_columns",
        columns: &[
            ("object_id", INT, false),
            ("column_name", NAME, false),
            ("index_ordinal", TINY, false),
            ("column_id", INT, false),
        ],
        rows: rows::cdc_index_columns,
    },
];

/// A view by name.
pub fn system_view(schema: Option<&str>, name: &str) -> Option<&'static CatalogView> {
    let schema = schema?;
    VIEWS
        .iter()
        .find(|v| same_name(v.schema, schema) && same_name(v.name, name))
}

impl CatalogView {
    /// The view's rows as the statement's user may see them.
    pub fn rows(&self, ctx: &StatementContext) -> Vec<Vec<Value>> {
        (self.rows)(ctx)
    }

    /// A negative id, as system objects have.
    pub fn object_id(&self) -> i64 {
        let at = VIEWS.iter().position(|v| std::ptr::eq(v, self)).unwrap_or(0);
        -(at as i64) - 100
    }

    /// Whether the view lists something of CDC, so that it exists only where CDC is enabled.
    pub fn is_cdc(&self) -> bool {
        self.schema == "cdc"
    }

    /// `sys.columns.max_length`: bytes, -1 for max.
    pub fn max_length(ty: SqlType) -> i64 {
        rows::shape(ty).2
    }

    /// Precision and scale.
    pub fn precision(ty: SqlType) -> (i64, i64) {
        let (_, _, _, precision, scale) = rows::shape(ty);
        (precision, scale)
    }

    /// The name of a type id.
    pub fn type_name(id: i64) -> Option<String> {
        rows::type_rows()
            .into_iter()
            .find(|(_, ty_id, _)| *ty_id == id)
            .map(|(name, ..)| name.to_owned())
    }
}
