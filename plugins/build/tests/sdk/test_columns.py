"""The SDK of the Python template. The expected buffers were written by hand from the WIT's description of each layout."""

import datetime as dt
import struct
import unittest
from decimal import Decimal

from sluice_plugin import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ApplyError,
    ConfigError,
    KeyedError,
    LookupFailed,
    Operation,
    Plan,
    Settings,
    Transform,
    decimal,
    encrypt,
    find,
    hashes,
    pick,
    shell,
)
from sluice_plugin.columns import Column, decode, encode
from sluice_plugin.plan import Field
from sluice_plugin.testing import Host, run, table

UTC = dt.timezone.utc


class Buffers(unittest.TestCase):
    def both_ways(self, data_type, values, validity, offsets, raw):
        column = encode(data_type, values)
        self.assertEqual((column.validity, list(column.offsets), column.values), (validity, offsets, raw), data_type)
        self.assertEqual(decode(data_type, column, len(values)), values)

    def test_layouts(self):
        self.both_ways(INT16, [1, None, -2], b"\x05", [], b"\x01\x00\x00\x00\xfe\xff")
        self.both_ways(INT32, [1, -2], None, [], b"\x01\x00\x00\x00\xfe\xff\xff\xff")
        self.both_ways(INT64, [-(2**63), 2**63 - 1], None, [], b"\0" * 7 + b"\x80" + b"\xff" * 7 + b"\x7f")
        self.both_ways(FLOAT32, [0.5], None, [], b"\x00\x00\x00\x3f")
        self.both_ways(FLOAT64, [None, -2.0], b"\x02", [], bytes(8) + b"\0" * 6 + b"\x00\xc0")
        self.both_ways(BOOLEAN, [True, None, False, True], b"\x0d", [], b"\x09")
        self.both_ways(STRING, ["Bä", None, "", "z"], b"\x0d", [0, 3, 3, 3, 4], b"B\xc3\xa4z")
        self.both_ways(BINARY, [b"\x00\xff", None], b"\x01", [0, 2, 2], b"\x00\xff")
        self.both_ways(DATE, [dt.date(1970, 1, 2), None, dt.date(1969, 12, 31)], b"\x05", [], struct.pack("<3i", 1, 0, -1))
        self.both_ways(
            TIMESTAMP, [dt.datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC)], None, [], struct.pack("<q", 1_000_005)
        )
        self.both_ways(
            TIMESTAMP_NTZ, [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], None, [], struct.pack("<q", -1)
        )
        self.both_ways(decimal(5, 2), [Decimal("-0.01"), None, Decimal("999.99")], b"\x05", [], b"\xff" * 16 + bytes(16) + b"\x9f\x86\x01" + bytes(13))

    def test_38_digits_are_exact(self):
        # Not `-largest`, which rounds to the 28 digits of Python's default context.
        both = [Decimal("9" * 38), Decimal("-" + "9" * 38)]
        self.assertEqual(decode(decimal(38, 0), encode(decimal(38, 0), both), 2), both)
        smallest = Decimal("-0." + "0" * 37 + "1")
        self.assertEqual(str(decode(decimal(38, 38), encode(decimal(38, 38), [smallest]), 1)[0]), str(smallest))

    def test_the_first_and_last_moments(self):
        moments = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]
        self.assertEqual(decode(TIMESTAMP_NTZ, encode(TIMESTAMP_NTZ, moments), 2), moments)
        # 719162 days from 0001-01-01 to 1970-01-01: date -u -d 0001-01-01 +%s divided by -86400
        self.assertEqual(encode(DATE, [dt.date(1, 1, 1)]).values, struct.pack("<i", -719162))

    def test_a_moment_in_another_zone_is_the_same_moment(self):
        bern = dt.timezone(dt.timedelta(hours=2))
        column = encode(TIMESTAMP, [dt.datetime(2024, 7, 1, 12, tzinfo=bern)])
        self.assertEqual(decode(TIMESTAMP, column, 1), [dt.datetime(2024, 7, 1, 10, tzinfo=UTC)])

    def test_what_stands_under_a_null_is_ignored(self):
        column = Column(b"\x01", [], struct.pack("<2q", 0, 2**63 - 1))
        self.assertEqual(decode(TIMESTAMP_NTZ, column, 2), [dt.datetime(1970, 1, 1), None])

    def test_no_rows(self):
        for data_type in (BOOLEAN, INT16, FLOAT64, decimal(9, 2), DATE, TIMESTAMP, STRING, BINARY):
            column = encode(data_type, [])
            self.assertEqual(decode(data_type, column, 0), [])
            self.assertEqual(len(column.offsets), 1 if data_type in (STRING, BINARY) else 0)

    def test_a_value_that_does_not_fit_names_its_row_and_not_itself(self):
        for data_type, good, bad in [
            (INT16, 1, 40_000),
            (INT32, 1, 2**31),
            (INT64, 1, 1.5),
            (INT64, 1, True),
            (FLOAT32, 1.0, 1e300),
            (FLOAT64, 1.0, "77777"),
            (BOOLEAN, True, 1),
            (decimal(5, 2), Decimal("1.5"), Decimal("1000")),
            (decimal(5, 2), Decimal("1.5"), Decimal("0.001")),
            (decimal(5, 2), Decimal("1.5"), Decimal("NaN")),
            (decimal(5, 2), Decimal("1.5"), 77777.5),
            (DATE, dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)),
            (TIMESTAMP, dt.datetime(2024, 1, 1, tzinfo=UTC), dt.datetime(2024, 1, 1)),
            (TIMESTAMP_NTZ, dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=UTC)),
            (STRING, "a", b"77777"),
            (STRING, "a", "\ud800"),
            (BINARY, b"a", "77777"),
        ]:
            with self.subTest(f"{data_type} {bad!r}"), self.assertRaises(ApplyError) as raised:
                encode(data_type, [None, good, bad, good], "amount")
            error = raised.exception
            self.assertEqual((error.code, error.column, error.row), ("invalid-value", "amount", 2))
            self.assertNotIn("77777", str(error))
            self.assertIsNone(error.__cause__)

    def test_buffers_of_another_shape_are_refused(self):
        for data_type, column, rows in [
            (INT32, Column(None, [], bytes(7)), 2),
            (STRING, Column(None, [0, 2], b"a"), 1),
            (STRING, Column(None, [0, 1], b"\xff"), 1),
            (STRING, Column(None, [0], b""), 1),
            (BOOLEAN, Column(None, [], b""), 1),
            (INT16, Column(b"", [], bytes(2)), 1),
            (decimal(9, 2), Column(None, [], bytes(8)), 1),
        ]:
            with self.subTest(str(data_type)), self.assertRaises(ApplyError) as raised:
                decode(data_type, column, rows, "a")
            self.assertEqual(raised.exception.code, "malformed-input")


class Filtering(Transform):
    def open(self, table, config):
        plan = Plan.passing(table)
        plan.compute("twice", INT32, sources=["n"], how="n twice", nullable=False)
        plan.read("_operation")
        plan.drop("secret")
        return plan

    def apply(self, batch):
        for row, n in enumerate(batch["n"]):
            if n is None:
                batch.reject(row, "n", "missing")
            elif n < 0:
                batch.drop(row)
        assert batch["_operation"] == [4] * len(batch)
        return {"twice": [None if batch.without_result(row) else n * 2 for row, n in enumerate(batch["n"])]}


class Calls(unittest.TestCase):
    def test_rows_are_dropped_and_rejected(self):
        numbers = table(n=INT32, secret=STRING)
        rows = {"n": [1, -1, None, 4], "_operation": [4] * 4}
        result = run(Filtering, numbers, {}, rows, [Operation.UPDATE_AFTER] * 4)
        self.assertEqual(result.columns, {"n": [1, 4], "twice": [2, 8]})
        self.assertEqual(result.dropped, [1])
        self.assertEqual(result.rejects, [(2, "n", "missing")])
        self.assertEqual(result.plan.reads, ["n", "_operation"])

    def test_an_answer_that_is_not_the_plans_is_refused(self):
        def returning(answer):
            class Answering(Filtering):
                def apply(self, batch):
                    return answer

            return Answering

        for answer, code in [
            ({"twice": [1]}, "wrong-length"),
            ({"thrice": [1, 2]}, "wrong-columns"),
            ({}, "wrong-columns"),
            ({"twice": [1, None]}, "null-in-required-column"),
        ]:
            with self.subTest(code), self.assertRaises(ApplyError) as raised:
                run(returning(answer), table(n=INT32), {}, {"n": [1, 2]})
            self.assertEqual(raised.exception.code, code)

    def test_one_text_for_a_whole_column_is_refused_even_where_its_length_is_right(self):
        class Answering(Filtering):
            def apply(self, batch):
                return {"twice": self.answer}

        # Of two letters and two numbers, for two rows.
        for answer, kind in [("ab", "str"), (b"ab", "bytes"), (bytearray(2), "bytearray"), (memoryview(b"ab"), "memoryview")]:
            Answering.answer = answer
            with self.subTest(kind), self.assertRaises(ApplyError) as raised:
                run(Answering, table(n=INT32), {}, {"n": [1, 2]})
            error = raised.exception
            self.assertEqual((error.code, error.column), ("not-a-column", "twice"))
            self.assertEqual(error.message, f"twice is one {kind}, and a column is a list with one value a row")
        for call in (
            lambda: encode(STRING, "ab"),
            lambda: hashes("pii", "ab"),
            lambda: run(Filtering, table(n=STRING), {}, {"n": "ab"}),
        ):
            with Host(), self.assertRaises(ApplyError) as raised:
                call()
            self.assertEqual(raised.exception.code, "not-a-column")

    def test_what_was_not_built_in_is_explained(self):
        def account(call):
            try:
                call()
            except Exception as error:
                return shell.account(error)

        missing = account(lambda: __import__("no_such_module"))
        first, trace, *_ = missing.splitlines()
        self.assertEqual(
            first,
            "a component has the modules that were imported while it was built, and no others: "
            "import `no_such_module` at the top of the file, not inside a function",
        )
        self.assertTrue(trace.startswith("Traceback"))
        self.assertTrue(account(lambda: {}["x"]).startswith("Traceback"))

    def test_rows_are_counted_from_0(self):
        class Late(Filtering):
            def apply(self, batch):
                batch.reject(2, "n", "late")

        with self.assertRaises(IndexError) as raised:
            run(Late, table(n=INT32), {}, {"n": [1, 2]})
        self.assertEqual(str(raised.exception), "the batch has 2 rows, counted from 0, and row 2 is not one of them")

    def test_a_reject_names_a_column_that_came_in(self):
        class Misspelt(Filtering):
            def apply(self, batch):
                batch.reject(0, "_operation", "of-a-metadata-column")
                batch.reject(1, "twice", "of-an-output")

        with self.assertRaises(ValueError) as raised:
            run(Misspelt, table(n=INT32), {}, {"n": [1, 2]})
        self.assertEqual(
            str(raised.exception), "the table has no column twice: a reject names the column that came in"
        )

    def test_an_error_says_where_it_is(self):
        self.assertEqual(str(ApplyError("a-code")), "a-code")
        self.assertEqual(str(ApplyError("a-code", column="n")), "a-code (column n)")
        self.assertEqual(str(ApplyError("a-code", "why", column="n", row=0)), "a-code: why (column n, row 0)")

    def test_columns_are_found_ignoring_case_where_there_is_one(self):
        one = table(Phone=STRING)
        self.assertEqual(one.find("phone").name, "Phone")
        two = table(Phone=STRING, PHONE=Field("PHONE", STRING))
        self.assertIsNone(two.find("phone"))
        self.assertEqual(two.find("PHONE").name, "PHONE")

    def test_a_missing_key_hints_at_its_misspelling(self):
        with self.assertRaises(ConfigError) as raised:
            Settings({"colums": []}).texts("columns")
        self.assertEqual(str(raised.exception), "`columns` is missing; is `colums` a misspelling of it?")
        with self.assertRaises(ConfigError) as raised:
            Settings({"a": {"mode": "rejct"}}).section("a").choice("mode", ["reject", "null"])
        self.assertEqual(str(raised.exception), "a.mode: did you mean `reject`?")


class Keys(unittest.TestCase):
    # printf 'ctx\0anna' | openssl dgst -sha256 -hmac 'secret of pii'
    ANNA = "296d2e31c94d62e2099d4ede26247c37d45f7191a41f4cf3cd197919c139a6f5"

    def test_hashes_are_those_of_another_implementation(self):
        with Host():
            self.assertEqual(hashes("pii", ["anna", None, b"anna"], "ctx"), [bytes.fromhex(self.ANNA), None, bytes.fromhex(self.ANNA)])
            self.assertEqual(hashes("pii", encode(STRING, ["anna"]), "ctx"), [bytes.fromhex(self.ANNA)])

    def test_a_pick_is_the_digest_as_a_fraction(self):
        expected = "abcde"[int(self.ANNA[:16], 16) * 5 >> 64]
        with Host():
            self.assertEqual(pick("pii", ["anna", None], "abcde", context="ctx"), [expected, None])

    def test_a_key_that_is_not_granted_is_refused(self):
        with Host(keys=["other"]):
            for call in (lambda: hashes("pii", ["a"]), lambda: pick("pii", ["a"], "ab"), lambda: encrypt("pii", ["1234567"])):
                with self.assertRaises(KeyedError) as raised:
                    call()
                self.assertEqual(raised.exception.code, "key-not-granted")
        with self.assertRaises(RuntimeError):
            hashes("pii", ["a"])

    def test_encryption_keeps_length_and_alphabet_and_refuses_what_could_be_guessed(self):
        with Host():
            made = encrypt("pii", ["123456789", "12345", None, "12345x789", "1" * 1025])
        self.assertEqual(made.status, ["done", "too-short", "done", "foreign-character", "too-long"])
        self.assertRegex(made.values[0], r"^[0-9]{9}$")
        self.assertNotEqual(made.values[0], "123456789")
        self.assertEqual(made.values[1:], [None] * 4)

    def test_lookups(self):
        with Host(lookups={"countries": [{"code": "CH", "name": "Schweiz"}, {"code": "XX"}]}):
            self.assertEqual(find("countries", "name", ["CH", None, "XX", "DE"]), ["Schweiz", None, None, None])
            for table_name, column, code in [("other", "name", "lookup-not-granted"), ("countries", "nam", "unknown-lookup-column")]:
                with self.assertRaises(LookupFailed) as raised:
                    find(table_name, column, ["CH"])
                self.assertEqual(raised.exception.code, code)


if __name__ == "__main__":
    unittest.main()
