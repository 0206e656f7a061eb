"""Calls a transform as the host would, in an ordinary Python::

    from sluice_plugin import STRING
    from sluice_plugin.testing import Host, run, table

    with Host():
        result = run(Shout, table(city=STRING), {}, {"city": ["Bern", None]})
    assert result["city"] == ["BERN", None]

Values go through the same buffers as in a component, so a value that does not fit its column fails here already.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import columns, host, shell
from .batch import Operation
from .columns import Column
from .plan import BINARY, METADATA, STRING, Computed, DataType, Field, Plan, Table
from .transform import Transform


def table(schema: str = "dbo", name: str = "people", /, **types: DataType | Field) -> Table:
    """A table of these columns."""
    fields = [
        what if isinstance(what, Field) else Field(column, what, source_type=str(what)) for column, what in types.items()
    ]
    return Table(schema, name, f"{schema}_{name}", tuple(fields))


@dataclass
class Result:
    """What came out: `result["city"]` is a column, with the rows that are not written left out."""

    plan: Plan
    columns: dict[str, list[Any]]
    #: The rejected rows: row (from 0, as `batch.reject` has it), column, code.
    rejects: list[tuple[int, str, str]]
    #: The dropped rows, from 0.
    dropped: list[int]

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]


def run(
    transform: type[Transform],
    table: Table,
    config: Mapping[str, Any],
    rows: Mapping[str, Sequence[Any]],
    operations: Sequence[int] | None = None,
) -> Result:
    """Opens the transform and applies it to these rows, a list of values a column; a column that is not given is NULL.
    `operations` are inserts if not given. Metadata columns can be given by name too.
    """
    opened = shell.open_transform(transform, table, json.dumps(config))
    plan = opened.plan
    rows = {name: columns.listed(values, name) for name, values in rows.items()}
    count = len(next(iter(rows.values()), ()))
    kinds = {**METADATA, **{field.name: field.data_type for field in table.fields}}
    for name, values in rows.items():
        if name not in kinds or len(values) != count:
            raise ValueError(f"column {name}: not in the table, or not of {count} rows")
    given = {name: list(rows.get(name, [None] * count)) for name in kinds}
    raw = [columns.encode(kinds[name], given[name], name) for name in plan.reads]
    done = bytes([Operation.INSERT] * count if operations is None else operations)
    if len(done) != count:
        raise ValueError(f"{len(done)} operations for {count} rows")
    computed, dropped, rejects = shell.apply_transform(opened, count, done, raw)
    gone = [row for row, flag in enumerate(columns.bits(dropped, count)) if flag] if dropped else []
    unwritten = {*gone, *(row for row, _, _ in rejects)}
    answers = iter(computed)
    out = {}
    for output in plan.outputs:
        if isinstance(output.source, Computed):
            values = columns.decode(output.source.data_type, next(answers), count, output.name)
        else:
            values = given[output.source]
        out[output.name] = [value for row, value in enumerate(values) if row not in unwritten]
    return Result(plan, out, rejects, gone)


class Host:
    """A stand-in for the host, for a `with` statement. The secret of a key NAME is the text `secret of NAME`.

    `hashes` and `pick` give what the host would give with that secret. `encrypt` keeps length and alphabet and refuses what
    the host refuses, but its texts are not FF1's: Python has no AES. `sluice plugin test` has the real thing.
    """

    def __init__(self, keys: Iterable[str] = ("pii",), lookups: Mapping[str, Sequence[Mapping[str, str]]] | None = None):
        self.keys = set(keys)
        #: Reference tables by name: rows whose first column is the key.
        self.lookups = dict(lookups or {})
        #: Messages: level and text.
        self.messages: list[tuple[str, str]] = []
        self._before: host.Backend | None = None

    def __enter__(self) -> Host:
        self._before, host.backend = host.backend, self
        return self

    def __exit__(self, *_: object) -> None:
        host.backend = self._before

    def hmac_sha256(self, key: str, context: str, rows: int, values: Column) -> bytes:
        self._secret(key)
        digests = [self._mac(key, context, value) if value is not None else bytes(32) for value in _bytes(values, rows)]
        return b"".join(digests)

    def pick(self, key: str, context: str, count: int, rows: int, values: Column) -> list[int]:
        self._secret(key)
        if count == 0:
            raise host.KeyedError("bad-argument", "there is nothing to pick from")
        digests = self.hmac_sha256(key, context, rows, values)
        firsts = [int.from_bytes(digests[32 * row : 32 * row + 8], "big") for row in range(rows)]
        return [first * count >> 64 for first in firsts]

    def ff1_encrypt(self, key: str, tweak: bytes, alphabet: str, rows: int, values: Column) -> tuple[Column, list[str]]:
        self._secret(key)
        if not 2 <= len(alphabet) <= 65536 or len(set(alphabet)) != len(alphabet) or len(tweak) > 256:
            raise host.KeyedError("bad-argument", "the alphabet or the tweak is out of range")
        out: list[str | None] = []
        status = []
        for text in columns.decode(STRING, values, rows):
            became = "done" if text is None else _ff1_status(text, alphabet)
            status.append(became)
            out.append(self._shuffled(key, tweak, alphabet, text) if text is not None and became == "done" else None)
        return columns.encode(STRING, out), status

    def lookup_columns(self, table: str) -> list[str]:
        return list(self._rows(table)[0])

    def find(self, table: str, column: str, rows: int, keys: Column) -> Column:
        names = self.lookup_columns(table)
        if column not in names:
            raise host.LookupFailed("unknown-lookup-column", f"the reference table `{table}` has no column `{column}`")
        found = {row[names[0]]: row.get(column) for row in self._rows(table)}
        return columns.encode(STRING, [found.get(key) for key in columns.decode(STRING, keys, rows)])

    def log(self, level: str, message: str) -> None:
        self.messages.append((level, message))

    def _rows(self, table: str) -> Sequence[Mapping[str, str]]:
        rows = self.lookups.get(table)
        if not rows:
            raise host.LookupFailed("lookup-not-granted", f"the reference table `{table}` is not granted")
        return rows

    def _secret(self, key: str) -> bytes:
        if key not in self.keys:
            raise host.KeyedError("key-not-granted", f"the key `{key}` is not granted")
        return f"secret of {key}".encode()

    def _mac(self, key: str, context: str, value: bytes) -> bytes:
        return hmac.new(self._secret(key), context.encode() + b"\0" + value, hashlib.sha256).digest()

    def _shuffled(self, key: str, tweak: bytes, alphabet: str, text: str) -> str:
        """Ten rounds of a Feistel network, as FF1 has, over HMAC where FF1 has AES: a permutation of the texts of a length."""
        digits = [alphabet.index(char) for char in text]
        half = len(digits) // 2
        left, right = digits[:half], digits[half:]
        for number in range(10):
            seen = ",".join(map(str, [number, len(digits), *right])).encode()
            mac = int.from_bytes(self._mac(key, "ff1 " + tweak.hex(), seen), "big")
            mixed = (_number(left, len(alphabet)) + mac) % len(alphabet) ** len(left)
            left, right = right, _digits(mixed, len(alphabet), len(left))
        return "".join(alphabet[digit] for digit in left + right)


def _ff1_status(text: str, alphabet: str) -> str:
    if len(text) > 1024:
        return "too-long"
    if not set(text) <= set(alphabet):
        return "foreign-character"
    return "done" if len(alphabet) ** len(text) >= 1_000_000 and len(text) >= 2 else "too-short"


def _number(digits: Sequence[int], radix: int) -> int:
    number = 0
    for digit in digits:
        number = number * radix + digit
    return number


def _digits(number: int, radix: int, length: int) -> list[int]:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, radix)
        digits.append(digit)
    return digits[::-1]


def _bytes(column: Column, rows: int) -> list[bytes | None]:
    return columns.decode(BINARY, column, rows)
