//! SQL Server's errors, by number, with its wording.
//!
//! Numbers and texts are those of `sys.messages`; a stand-in that words them otherwise would let a client's parsing pass
//! here and fail there.

use crate::{result::SqlError, version::ServerVersion};

/// A statement's result inside the engine.
pub type SqlResult<T> = Result<T, SqlError>;

/// An error of the given number, class and text, state 1, with no line yet (the executor fills it in).
pub fn sql_error(number: i32, class: u8, message: impl Into<String>) -> SqlError {
    SqlError {
        number,
        state: 1,
        class,
        message: message.into(),
        line: 0,
        procedure: String::new(),
    }
}

/// 102: bad syntax near a token.
pub fn syntax_near(token: &str) -> SqlError {
    sql_error(102, 15, format!("Incorrect syntax near '{token}'."))
}

/// 40517-like answer for what SQL Server has and the stand-in has not: a syntax error that names the feature, so that no
/// caller mistakes it for an empty result.
pub fn not_supported(what: &str) -> SqlError {
    sql_error(
        102,
        15,
        format!("Incorrect syntax near '{what}'. (mssql-sim does not support it.)"),
    )
}

/// A name of another database's object: 40515 in Azure SQL Database, and not in the stand-in otherwise.
pub fn other_database(version: ServerVersion, name: &str) -> SqlError {
    if version.is_azure() {
        sql_error(
            40515,
            15,
            format!(
                "Reference to database and/or server name in '{name}' is not supported in this version of SQL Server."
            ),
        )
    } else {
        not_supported(name)
    }
}

/// 3952: data read under SNAPSHOT isolation where the database does not allow it.
pub fn snapshot_not_allowed(database: &str) -> SqlError {
    sql_error(
        3952,
        16,
        format!(
            "Snapshot isolation transaction failed accessing database '{database}' because snapshot isolation is not allowed in this database. Use ALTER DATABASE to allow snapshot isolation."
        ),
    )
}

/// 271: a computed column in a place that takes a value.
pub fn computed_not_modified(column: &str) -> SqlError {
    sql_error(
        271,
        16,
        format!(
            "The column \"{column}\" cannot be modified because it is either a computed column or is the result of a UNION operator."
        ),
    )
}

/// 207: unknown column.
pub fn invalid_column(name: &str) -> SqlError {
    sql_error(207, 16, format!("Invalid column name '{name}'."))
}

/// 208: unknown object.
pub fn invalid_object(name: &str) -> SqlError {
    sql_error(208, 16, format!("Invalid object name '{name}'."))
}

/// 4104: a qualified name that no table of the query bears.
pub fn unbound_identifier(name: &str) -> SqlError {
    sql_error(
        4104,
        16,
        format!("The multi-part identifier \"{name}\" could not be bound."),
    )
}

/// 137: a variable that was not declared.
pub fn undeclared(name: &str) -> SqlError {
    let mut error = sql_error(137, 15, format!("Must declare the scalar variable \"{name}\"."));
    error.state = 2;
    error
}

/// 195: an unknown built-in function.
pub fn unknown_function(name: &str) -> SqlError {
    let mut error = sql_error(195, 15, format!("'{name}' is not a recognized built-in function name."));
    error.state = 10;
    error
}

/// 174: a function that takes a fixed number of arguments got another number.
pub fn argument_count(name: &str, wanted: usize) -> SqlError {
    sql_error(174, 15, format!("The {name} function requires {wanted} argument(s)."))
}

/// 206: two types that have nothing to do with each other.
pub fn type_clash(from: &str, to: &str) -> SqlError {
    let mut error = sql_error(206, 16, format!("Operand type clash: {from} is incompatible with {to}"));
    error.state = 2;
    error
}

/// 257: an implicit conversion that T-SQL refuses.
pub fn implicit_conversion(from: &str, to: &str) -> SqlError {
    let mut error = sql_error(
        257,
        16,
        format!(
            "Implicit conversion from data type {from} to {to} is not allowed. Use the CONVERT function to run this query."
        ),
    );
    error.state = 3;
    error
}

/// 529: an explicit conversion that T-SQL refuses.
pub fn explicit_conversion(from: &str, to: &str) -> SqlError {
    let mut error = sql_error(
        529,
        16,
        format!("Explicit conversion from data type {from} to {to} is not allowed."),
    );
    error.state = 2;
    error
}

/// 8115: overflow in a conversion or an operation.
pub fn overflow(from: &str, to: &str) -> SqlError {
    let mut error = sql_error(
        8115,
        16,
        format!("Arithmetic overflow error converting {from} to data type {to}."),
    );
    error.state = 2;
    error
}

/// 8134: division by zero.
pub fn divide_by_zero() -> SqlError {
    sql_error(8134, 16, "Divide by zero error encountered.")
}

/// 245: text that is no number.
pub fn conversion_failed(from: &str, text: &str, to: &str) -> SqlError {
    sql_error(
        245,
        16,
        format!("Conversion failed when converting the {from} value '{text}' to data type {to}."),
    )
}

/// 8114: text that is no decimal, float or money.
pub fn conversion_error(from: &str, to: &str) -> SqlError {
    let mut error = sql_error(8114, 16, format!("Error converting data type {from} to {to}."));
    error.state = 5;
    error
}

/// 241: text that is no date or time.
pub fn date_conversion() -> SqlError {
    sql_error(
        241,
        16,
        "Conversion failed when converting date and/or time from character string.",
    )
}

/// 242: a date out of the range of the target type.
pub fn date_out_of_range(from: &str, to: &str) -> SqlError {
    let mut error = sql_error(
        242,
        16,
        format!("The conversion of a {from} data type to a {to} data type resulted in an out-of-range value."),
    );
    error.state = 3;
    error
}

/// 515: NULL into a NOT NULL column. `verb` is `INSERT` or `UPDATE`.
pub fn not_null(column: &str, table: &str, verb: &str) -> SqlError {
    let mut error = sql_error(
        515,
        16,
        format!(
            "Cannot insert the value NULL into column '{column}', table '{table}'; column does not allow nulls. {verb} fails."
        ),
    );
    error.state = 2;
    error
}

/// 229: a permission that the login does not hold.
pub fn permission_denied(action: &str, object: &str, database: &str, schema: &str) -> SqlError {
    let mut error = sql_error(
        229,
        14,
        format!(
            "The {action} permission was denied on the object '{object}', database '{database}', schema '{schema}'."
        ),
    );
    error.state = 5;
    error
}

/// 230: a permission on a column that the login does not hold.
pub fn column_permission_denied(action: &str, column: &str, object: &str, database: &str, schema: &str) -> SqlError {
    sql_error(
        230,
        14,
        format!(
            "The {action} permission was denied on the column '{column}' of the object '{object}', database '{database}', schema '{schema}'."
        ),
    )
}

/// 18456: a login that failed, whatever the reason (SQL Server tells the client no more).
pub fn login_failed(user: &str) -> SqlError {
    sql_error(18456, 14, format!("Login failed for user '{user}'."))
}

/// 4060: a database that does not exist or that the login may not enter.
pub fn cannot_open_database(database: &str) -> SqlError {
    sql_error(
        4060,
        11,
        format!("Cannot open database \"{database}\" requested by the login. The login failed."),
    )
}

/// What SQLite itself reports as a fault of the stand-in (a full disk, a damaged file, SQL that was generated wrongly):
/// 823-like severity would end the connection, so it is a class 16 error that names its origin.
pub fn storage_fault(error: &rusqlite::Error) -> SqlError {
    sql_error(50000, 16, format!("mssql-sim: the storage engine reports: {error}"))
}
