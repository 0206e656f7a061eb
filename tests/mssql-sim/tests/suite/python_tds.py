"""The python-tds half of python_tds.rs: one function a test, named by the first argument."""
import datetime
import decimal
import os
import sys
import uuid

import pytds

PORT, CERTIFICATE = int(sys.argv[2]), sys.argv[3]


def connect(password=os.environ["SIM_PASSWORD"], database="probe", **more):
    # python-tds 1.17 checks host names with a call that pyOpenSSL has dropped; the chain is verified all the same.
    more = {"cafile": CERTIFICATE, "validate_host": False, **more}
    return pytds.connect(
        dsn="127.0.0.1", port=PORT, user=os.environ["SIM_USER"], password=password, database=database,
        login_timeout=20, timeout=60, **more,
    )


def text(value):
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes):
        return value.hex().upper()
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


def short_times(column, value):
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
            cells = [short_times(name, value) for name, value in zip(names, row)]
            print("row", *["NULL" if cell is None else "=" + cell for cell in cells], sep="\t")


def parameters():
    cases = [
        ("int", 5), ("int", None), ("bigint", 2**40), ("bigint", -2**63), ("bit", True),
        ("float", -1.5e300), ("decimal(38,10)", decimal.Decimal("-1234567890123456789012345678.0123456789")),
        ("date", datetime.date(1, 1, 1)), ("time(6)", datetime.time(23, 59, 59, 999999)),
        ("datetime2(6)", datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
        ("nvarchar(100)", "it's 😀 漢"), ("nvarchar(max)", "漢" * 30000), ("nvarchar(10)", ""), ("nvarchar(10)", None),
        ("varbinary(20)", pytds.Binary(b"\x00\xff")), ("varbinary(max)", pytds.Binary(b"y" * 100000)),
        ("uniqueidentifier", uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")),
    ]
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        columns = ", ".join(f"c{at} {ty} NULL" for at, (ty, _) in enumerate(cases))
        cursor.execute(f"CREATE TABLE dbo.params (id int NOT NULL PRIMARY KEY, {columns})")
        holes = ", ".join(["%s"] * len(cases))
        cursor.execute(f"INSERT INTO dbo.params VALUES (1, {holes})", tuple(value for _, value in cases))
        cursor.execute("SELECT * FROM dbo.params WHERE id = %s", (1,))
        (row,) = cursor.fetchall()
        for at, (ty, value) in enumerate(cases):
            assert row[at + 1] == value, (ty, row[at + 1], value)
        cursor.execute("SELECT id FROM dbo.params WHERE c10 = %s AND c0 BETWEEN %s AND %s", ("it's 😀 漢", 5, 6))
        assert cursor.fetchall() == [(1,)]


def logins():
    for password, database, number in [("wrong", "master", 18456), (os.environ["SIM_PASSWORD"], "nowhere", 4060)]:
        try:
            connect(password, database)
        except pytds.LoginError as error:
            seen = [message["msgno"] for message in getattr(error, "messages", [])] or [error.number]
            assert number in seen or str(number) in str(error) or error.number == number, (number, seen, error)
        except pytds.OperationalError as error:
            expected = {18456: "Login failed for user 'sa'.", 4060: 'Cannot open database "nowhere"'}[number]
            assert expected in str(error), error
        else:
            raise AssertionError(f"{number} expected")
    # Only the login is encrypted; and nothing is.
    for more in [{"enc_login_only": True}, {"cafile": None}]:
        with connect(database="master", **more) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 40 + 2")
            assert cursor.fetchall() == [(42,)]


def session():
    with connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE dbo.tx (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL)")
        connection.commit()
        cursor.execute("INSERT INTO dbo.tx VALUES (1, N'kept')")
        assert cursor.rowcount == 1, cursor.rowcount
        connection.commit()
        cursor.execute("INSERT INTO dbo.tx VALUES (2, N'lost')")
        connection.rollback()
        cursor.execute("SELECT id FROM dbo.tx; SELECT name FROM dbo.tx; SELECT @@TRANCOUNT")
        assert cursor.fetchall() == [(1,)]
        assert cursor.nextset() and cursor.fetchall() == [("kept",)]
        assert cursor.nextset() and cursor.fetchall() == [(1,)]
        assert not cursor.nextset()
        try:
            cursor.execute("INSERT INTO dbo.tx VALUES (1, N'again')")
            raise AssertionError("2627 expected")
        except pytds.IntegrityError as error:
            assert error.number == 2627, error.number
        connection.rollback()
        cursor.execute("EXEC sys.sp_cdc_enable_db")
        connection.commit()
        cursor.execute("EXEC sys.sp_cdc_enable_table @source_schema=N'dbo', @source_name=N'tx', @role_name=NULL")
        connection.commit()
        cursor.callproc("sys.sp_cdc_get_captured_columns", {"@capture_instance": "dbo_tx"})
        rows = cursor.fetchall()
        names = [column[0] for column in cursor.description]
        assert [row[names.index("column_name")] for row in rows] == ["id", "name"], rows


if __name__ == "__main__":
    {"select": select, "parameters": parameters, "logins": logins, "session": session}[sys.argv[1]]()
    print("passed")
