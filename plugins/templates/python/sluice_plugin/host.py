"""What the host does for a transform: keys, reference tables, messages.

Each works on a whole column at once. A key or a reference table must be granted by the table's configuration (`keys =
["pii"]`, `lookups = ["countries"]` beside `plugin`); the secret itself never enters the transform.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Union

from . import columns
from .columns import Column
from .errors import ApplyError
from .plan import BINARY, STRING

Values = Union[Sequence[Union[str, bytes, None]], Column]


class KeyedError(ApplyError):
    """A computation with a key was refused: `key-not-granted`, `malformed-input` or `bad-argument`."""


class LookupFailed(ApplyError):
    """A look-up was refused: `lookup-not-granted`, `unknown-lookup-column` or `malformed-input`."""


class Backend(Protocol):
    """What offers these functions: the host's imports in a component, a stand-in in tests."""

    def hmac_sha256(self, key: str, context: str, rows: int, values: Column) -> bytes:
        """32 bytes a row."""

    def ff1_encrypt(self, key: str, tweak: bytes, alphabet: str, rows: int, values: Column) -> tuple[Column, list[str]]:
        """The encrypted texts, and a status a row."""

    def pick(self, key: str, context: str, count: int, rows: int, values: Column) -> list[int]:
        """A number below `count` a row."""

    def lookup_columns(self, table: str) -> list[str]:
        """The names of a reference table's columns."""

    def find(self, table: str, column: str, rows: int, keys: Column) -> Column:
        """A text a row."""

    def log(self, level: str, message: str) -> None:
        """A message for the operator."""


#: Set by `sluice_plugin.component` and `sluice_plugin.testing`.
backend: Backend | None = None


def _host() -> Backend:
    if backend is None:
        raise RuntimeError("there is no host here; in a test, write `with sluice_plugin.testing.Host():` around the call")
    return backend


def hashes(key: str, values: Values, context: str = "") -> list[bytes | None]:
    """The keyed hash of each value, 32 bytes: HMAC-SHA-256 under the named key over the bytes of `context`, one zero byte,
    and the bytes of the value (of a text, its UTF-8). `None` where the value is.

    Bring values that should be equal into one form first. Give each kind of value a context of its own, so that a
    telephone number and a customer's number of the same digits do not get the same hash.
    """
    rows, column = _column(values)
    digests = _host().hmac_sha256(key, context, rows, column)
    present = _present(column, rows)
    return [digests[32 * row : 32 * row + 32] if present[row] else None for row in range(rows)]


def hash_hex(key: str, values: Values, context: str = "", length: int = 64) -> list[str | None]:
    """As `hashes`, as the first `length` (16 to 64) lower-case hexadecimal digits."""
    if not 16 <= length <= 64:
        raise ValueError("a keyed hash has 16 to 64 hexadecimal digits")
    return [digest if digest is None else digest.hex()[:length] for digest in hashes(key, values, context)]


@dataclass(frozen=True)
class Encrypted:
    """What `encrypt` made: the texts, and for each what became of it: `done`, `too-short`, `foreign-character`,
    `too-long`. A text that is not `done` is `None`.
    """

    values: list[str | None]
    status: list[str]


def encrypt(key: str, values: Sequence[str | None] | Column, alphabet: str = "0123456789", tweak: bytes = b"") -> Encrypted:
    """Format-preserving encryption (FF1 with AES-256) of each text: it keeps its length and its alphabet. A text that
    could be guessed, because fewer than 1,000,000 texts of its length exist, is `too-short`.
    """
    rows, column = _column(values)
    encrypted, status = _host().ff1_encrypt(key, tweak, alphabet, rows, column)
    return Encrypted(columns.decode(STRING, encrypted, rows), status)


def pick(key: str, values: Values, choices: Sequence[Any], context: str = "") -> list[Any]:
    """For each value one of the choices, the same one for the same value; `None` where the value is."""
    rows, column = _column(values)
    picked = _host().pick(key, context, len(choices), rows, column)
    present = _present(column, rows)
    return [choices[number] if there else None for number, there in zip(picked, present)]


def lookup_columns(table: str) -> list[str]:
    """The names of a reference table's columns, of which the first is its key."""
    return _host().lookup_columns(table)


def find(table: str, column: str, keys: Sequence[str | None] | Column) -> list[str | None]:
    """For each key the text of `column` in the row of the reference table that has it; `None` where there is none."""
    rows, raw = _column(keys)
    return columns.decode(STRING, _host().find(table, column, rows, raw), rows)


class log:  # noqa: N801  (used as a namespace: log.info("…"))
    """Messages for the operator. Bounded in number and size, treated as sensitive and shown at debug level only."""

    @staticmethod
    def debug(message: str) -> None:
        """Something of interest while developing."""
        _log("debug", message)

    @staticmethod
    def info(message: str) -> None:
        """Something of interest."""
        _log("info", message)

    @staticmethod
    def warn(message: str) -> None:
        """Something looks wrong."""
        _log("warn", message)

    @staticmethod
    def error(message: str) -> None:
        """Something is wrong."""
        _log("error", message)


def _log(level: str, message: str) -> None:
    if backend is None:
        print(f"{level}: {message}", file=sys.stderr)
    else:
        backend.log(level, message)


def _column(values: Values) -> tuple[int, Column]:
    if isinstance(values, Column):
        if not values.offsets:
            raise ApplyError("malformed-input", "keys and look-ups take columns of text or binary")
        return len(values.offsets) - 1, values
    raw = [value.encode() if isinstance(value, str) else value for value in columns.listed(values)]
    return len(raw), columns.encode(BINARY, raw)


def _present(column: Column, rows: int) -> list[bool]:
    return [True] * rows if column.validity is None else columns.bits(column.validity, rows)
