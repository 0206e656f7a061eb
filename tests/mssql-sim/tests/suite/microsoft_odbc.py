"""The mssql-python half of microsoft_odbc.rs: one function a test, named by the first argument."""
import datetime
import decimal
import os
import sys
import uuid

import mssql_python

PORT, CERTIFICATE = int(sys.argv[2]), sys.argv[3]
# The driver's OpenSSL takes its authorities from here; the option ServerCertificate is for TDS 8 alone.
os.environ["SSL_CERT_FILE"] = CERTIFICATE


def connect(password=os.environ["SIM_PASSWORD"], database="probe", autocommit=True, **more):
    options = {
        "Server": f"127.0.0.1,{PORT}",
        "Database": database,
        "UID": os.environ["SIM_USER"],
        "PWD": "{" + password.replace("}", "}}") + "}",
        "Encrypt": "yes",
        "TrustServerCertificate": "no",
        "HostnameInCertificate": "localhost",
        **more,
    }
    return mssql_python.connect(";".join(f"{name}={value}" for name, value in options.items()), autocommit=autocommit)


def text(value):
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex().upper()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    if isinstance(value, uuid.UUID):
        return str(value).upper()
    if isinstance(value, datetime.datetime):
        day = f"{value.year:04}-{value.month:02}-{value.day:02}"
        offset = f"{value:%z}"
        zone = f" {offset[:3]}:{offset[3:]}" if offset else ""
        return f"{day} {value:%H:%M:%S}.{value.microsecond:06}{zone}"
    if isinstance(value, datetime.date):
        return f"{value.year:04}-{value.month:02}-{value.day:02}"
    if isinstance(value, datetime.time):
        return f"{value:%H:%M:%S}.{value.microsecond:06}"
    return str(value)


def at_its_precision(column, value):
    """datetime and smalldatetime are compared at their own precision."""
    if column == "c_datetime" and value is not None:
        return text(value)[:-3]
    if column == "c_smalldatetime" and value is not None:
        return text(value)[:-7]
    return None if value is None else text(value)


def select():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(sys.stdin.read())
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            cells = [at_its_precision(name, value) for name, value in zip(names, row)]
            print("row", *["NULL" if cell is None else "=" + cell for cell in cells], sep="\t")


def parameters():
    """Creates rows with parameters of every kind and reads them back."""
    cases = [
        ("int", 5), ("int", None), ("bigint", 2**40), ("bigint", -2**63), ("bit", True), ("float", -1.5e300),
        ("decimal(38,10)", decimal.Decimal("-1234567890123456789012345678.0123456789")),
        ("date", datetime.date(1753, 1, 1)), ("datetime2(6)", datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ("nvarchar(100)", "it's 😀 漢"), ("nvarchar(max)", "漢" * 30000), ("nvarchar(10)", ""), ("nvarchar(10)", None),
        ("varbinary(20)", b"\x00\xff"), ("varbinary(max)", b"y" * 100000),
        ("uniqueidentifier", uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")),
    ]
    with connect() as connection, connection.cursor() as cursor:
        columns = ", ".join(f"c{at} {ty} NULL" for at, (ty, _) in enumerate(cases))
        cursor.execute(f"CREATE TABLE dbo.params (id int NOT NULL PRIMARY KEY, {columns})")
        holes = ", ".join("?" * len(cases))
        cursor.execute(f"INSERT INTO dbo.params VALUES (1, {holes})", tuple(value for _, value in cases))
        cursor.execute("SELECT * FROM dbo.params WHERE id = ?", (1,))
        (row,) = cursor.fetchall()
        for at, (ty, value) in enumerate(cases):
            assert row[at + 1] == value, (ty, row[at + 1], value)
        cursor.execute("UPDATE dbo.params SET c0 = ? WHERE c9 = ? AND c0 BETWEEN ? AND ?", (6, "it's 😀 漢", 5, 6))
        assert cursor.rowcount == 1, cursor.rowcount
        cursor.execute("SELECT c0 FROM dbo.params")
        assert cursor.fetchone()[0] == 6


def transactions():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
    with connect(autocommit=False) as connection, connection.cursor() as cursor:
        for number, keep in [(1, True), (2, False), (3, True)]:
            cursor.execute("INSERT INTO dbo.t VALUES (?)", (number,))
            connection.commit() if keep else connection.rollback()
        cursor.execute("SELECT id FROM dbo.t ORDER BY id")
        assert [row[0] for row in cursor.fetchall()] == [1, 3]
        try:
            cursor.execute("INSERT INTO dbo.t VALUES (1)")
        except mssql_python.IntegrityError as error:
            assert "PRIMARY KEY" in str(error), error
        else:
            raise AssertionError("a duplicate went in")


def strict():
    with connect(Encrypt="strict", ServerCertificate=CERTIFICATE) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 42")
        assert cursor.fetchone()[0] == 42


def logins():
    # Of the two errors of an unknown database (4060, then 18456) the driver shows one.
    for more in [{"password": "wrong"}, {"database": "nowhere"}]:
        try:
            connect(**more)
        except mssql_python.Error as error:
            assert "Login failed for user" in str(error) or "nowhere" in str(error), error
        else:
            raise AssertionError(f"{more} was let in")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("passed")
