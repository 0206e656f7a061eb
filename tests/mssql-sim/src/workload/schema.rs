//! The tables, as T-SQL that may run again.

/// A table of the workload.
pub(super) struct Table {
    name: &'static str,
    columns: &'static str,
}

/// Customers, orders and order items.
pub(super) const TABLES: &[Table] = &[
    Table {
        name: "customers",
        columns: "id int NOT NULL PRIMARY KEY, first_name nvarchar(50) NOT NULL, last_name nvarchar(50) NOT NULL, \
                  email nvarchar(120) NULL, phone varchar(30) NULL, national_id char(11) NULL, birth_date date NULL, \
                  city nvarchar(60) NULL, credit_limit decimal(12, 2) NOT NULL, created_at datetime2(7) NOT NULL, \
                  notes nvarchar(max) NULL, row_guid uniqueidentifier NOT NULL, marketing bit NOT NULL",
    },
    Table {
        name: "orders",
        columns: "id bigint NOT NULL PRIMARY KEY, customer_id int NOT NULL, status varchar(20) NOT NULL, \
                  total money NOT NULL, discount float NULL, ordered_at datetime2(3) NOT NULL, shipped_on date NULL, \
                  remark nvarchar(200) NULL, priority tinyint NOT NULL",
    },
    Table {
        name: "order_items",
        columns: "order_id bigint NOT NULL, line_no int NOT NULL, sku varchar(20) NOT NULL, title nvarchar(100) NULL, \
                  quantity smallint NOT NULL, unit_price decimal(10, 2) NOT NULL, tag varbinary(64) NULL, \
                  PRIMARY KEY (order_id, line_no)",
    },
];

/// Makes the database.
pub(super) fn database(name: &str) -> String {
    let literal = name.replace('\'', "''");
    let identifier = name.replace(']', "]]");
    format!("IF DB_ID(N'{literal}') IS NULL CREATE DATABASE [{identifier}]")
}

/// Turns CDC on for the current database.
pub(super) const ENABLE_DATABASE: &str = "IF NOT EXISTS (SELECT 1 FROM sys.databases WHERE database_id = DB_ID() AND \
                                          is_cdc_enabled = 1) EXEC sys.sp_cdc_enable_db";

/// Makes a table and its capture instance.
pub(super) fn table(table: &Table) -> String {
    format!(
        "IF OBJECT_ID(N'dbo.{name}') IS NULL CREATE TABLE dbo.{name} ({columns})\nGO\n{enable}",
        name = table.name,
        columns = table.columns,
        enable = enable_table(table.name),
    )
}

/// Makes one of many tables that hardly ever change.
pub(super) fn small_table(number: u32) -> String {
    let name = format!("small_{number:04}");
    format!(
        "IF OBJECT_ID(N'dbo.{name}') IS NULL CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, \
         label nvarchar(40) NULL, amount decimal(9, 2) NULL)\nGO\n{enable}\nGO\n\
         IF NOT EXISTS (SELECT 1 FROM dbo.{name}) INSERT INTO dbo.{name} (id, label, amount) VALUES \
         (1, N'first of {number}', {number}.25), (2, N'second of {number}', NULL), (3, NULL, -{number}.50)",
        enable = enable_table(&name),
    )
}

fn enable_table(name: &str) -> String {
    format!(
        "IF NOT EXISTS (SELECT 1 FROM sys.tables WHERE name = N'{name}' AND is_tracked_by_cdc = 1) \
         EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{name}', @role_name = NULL"
    )
}
