"""Between lists of Python values and the Arrow buffers of the boundary. Little-endian throughout."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

from .errors import ApplyError
from .plan import DataType

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH_NTZ = dt.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH_NTZ.replace(tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)
_LARGEST_OFFSET = 2**31 - 1
# 38 digits and a few for intermediate results; the default context has 28 and would round.
_EXACT = decimal.Context(prec=80, traps=[decimal.InvalidOperation])
# The bits of each byte, least significant first.
_BITS = [tuple(bool(byte >> bit & 1) for bit in range(8)) for byte in range(256)]
_FIXED = {
    "smallint": ("h", 2),
    "int": ("i", 4),
    "bigint": ("q", 8),
    "float": ("f", 4),
    "double": ("d", 8),
    "date": ("i", 4),
    "timestamp": ("q", 8),
    "timestamp_ntz": ("q", 8),
}


@dataclass
class Column:
    """One column as plain Arrow buffers. `validity` is None when every row has a value; `offsets` is empty but for text and
    binary, which have one more than rows.
    """

    validity: bytes | None
    offsets: Sequence[int]
    values: bytes


def bitmap(flags: Iterable[Any]) -> bytes:
    """Bit i, least significant first, is 1 where the flag i is true."""
    digits = ["1" if flag else "0" for flag in flags]
    size = (len(digits) + 7) // 8
    digits.reverse()
    return int("".join(digits) or "0", 2).to_bytes(size, "little")


def bits(packed: bytes, rows: int) -> list[bool]:
    """The first `rows` bits, least significant first."""
    flags = list(chain.from_iterable(map(_BITS.__getitem__, packed[: (rows + 7) // 8])))
    del flags[rows:]
    return flags


def decode(data_type: DataType, column: Column, rows: int, name: str = "") -> list[Any]:
    """The values of a column, `None` for NULL. Raises `ApplyError` where the buffers are not those of such a column."""
    try:
        values = _decoded(data_type, column, rows)
        if column.validity is None:
            return values
        flags = bits(column.validity, rows)
        if len(flags) != rows or len(values) != rows:
            raise ValueError("validity")
    except (ValueError, TypeError, IndexError, OverflowError, UnicodeDecodeError, struct.error):
        # What was raised may have a value in it.
        raise ApplyError("malformed-input", f"not a {data_type} column of {rows} rows", column=name or None) from None
    return [value if flag else None for value, flag in zip(values, flags)]


def _decoded(data_type: DataType, column: Column, rows: int) -> list[Any]:
    kind, values = data_type.name, column.values
    if kind in ("string", "binary"):
        offsets = list(column.offsets)
        if len(offsets) != rows + 1 or offsets[0] != 0 or offsets[-1] > len(values):
            raise ValueError("offsets")
        return _texts(offsets, values) if kind == "string" else [values[a:b] for a, b in zip(offsets, offsets[1:])]
    if kind == "boolean":
        flags = bits(values, rows)
        if len(flags) != rows:
            raise ValueError("values")
        return flags
    if kind == "decimal":
        return _decimals(values, data_type.scale, column, rows)
    code, width = _FIXED[kind]
    if len(values) != rows * width:
        raise ValueError("values")
    numbers = memoryview(values).cast(code).tolist()
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return _moments(kind, numbers, column, rows)
    return numbers


def _texts(offsets: list[int], values: bytes) -> list[str]:
    if values.isascii():
        # One decoding, then slices: bytes and characters are the same.
        text = values.decode("ascii")
        return [text[a:b] for a, b in zip(offsets, offsets[1:])]
    return [values[a:b].decode("utf-8") for a, b in zip(offsets, offsets[1:])]


def _decimals(values: bytes, scale: int, column: Column, rows: int) -> list[Any]:
    if len(values) != rows * 16:
        raise ValueError("values")
    # Low half without a sign, high half with one.
    low = memoryview(values).cast("Q").tolist()[::2]
    high = memoryview(values).cast("q").tolist()[1::2]
    flags = _flags(column, rows)
    of, scaleb = decimal.Decimal, _EXACT.scaleb
    return [scaleb(of(h << 64 | l), -scale) if flag else None for h, l, flag in zip(high, low, flags)]


def _moments(kind: str, numbers: list[int], column: Column, rows: int) -> list[Any]:
    # What stands under a NULL is any number, perhaps none of a calendar.
    flags = _flags(column, rows)
    if kind == "date":
        of = dt.date.fromordinal
        return [of(number + _EPOCH_DAY) if flag else None for number, flag in zip(numbers, flags)]
    epoch, delta = (_EPOCH_UTC if kind == "timestamp" else _EPOCH_NTZ), dt.timedelta
    return [epoch + delta(microseconds=number) if flag else None for number, flag in zip(numbers, flags)]


def _flags(column: Column, rows: int) -> Sequence[bool]:
    return [True] * rows if column.validity is None else bits(column.validity, rows)


class _Unfit(Exception):
    """A value that its type cannot have."""


def listed(values: Any, name: str = "") -> Sequence[Any]:
    """A column's values as a list. A text and bytes are one value each, although they could be gone through: given for a whole
    column, they raise `ApplyError` with the code `not-a-column`.
    """
    if isinstance(values, (str, bytes, bytearray, memoryview)):
        reason = f"{name or 'a column'} is one {type(values).__name__}, and a column is a list with one value a row"
        raise ApplyError("not-a-column", reason, column=name or None)
    return values if isinstance(values, (list, tuple)) else list(values)


def encode(data_type: DataType, values: Iterable[Any], name: str = "") -> Column:
    """The buffers of a column of these values. Raises `ApplyError` with the code `invalid-value` and the row (from 0) where a
    value is not one of the type; nothing is rounded or cut off.
    """
    values = listed(values, name)
    has_null = None in values
    validity = bitmap([value is not None for value in values]) if has_null else None
    try:
        return _encoded(data_type, values, validity)
    except (_Unfit, ValueError, TypeError, AttributeError, OverflowError, ArithmeticError, struct.error):
        row = next((row for row, value in enumerate(values) if not _fits(data_type, value)), None)
        # Only the type is named: what was raised may have a value in it.
        raise ApplyError(
            "invalid-value", f"a value of {name or 'a column'} is no {data_type}", column=name or None, row=row
        ) from None


def _fits(data_type: DataType, value: Any) -> bool:
    try:
        _encoded(data_type, [value], None if value is not None else b"\0")
    except (_Unfit, ValueError, TypeError, AttributeError, OverflowError, ArithmeticError, struct.error):
        return False
    return True


def _encoded(data_type: DataType, values: Sequence[Any], validity: bytes | None) -> Column:
    kind = data_type.name
    if kind == "string":
        return _joined([b"" if value is None else _text(value).encode("utf-8") for value in values], validity)
    if kind == "binary":
        return _joined([b"" if value is None else _bytes(value) for value in values], validity)
    if kind == "boolean":
        if not all(value is None or value is True or value is False for value in values):
            raise _Unfit
        return Column(validity, [], bitmap(values))
    if kind == "decimal":
        limit, scale = 10**data_type.precision, data_type.scale
        return Column(
            validity,
            [],
            b"".join([_unscaled(value, scale, limit).to_bytes(16, "little", signed=True) for value in values]),
        )
    code, _ = _FIXED[kind]
    to_number = _NUMBERS[kind]
    numbers = [0 if value is None else to_number(value) for value in values]
    return Column(validity, [], struct.pack(f"<{len(numbers)}{code}", *numbers))


def _joined(parts: list[bytes], validity: bytes | None) -> Column:
    offsets = list(accumulate(map(len, parts), initial=0))
    if offsets[-1] > _LARGEST_OFFSET:
        raise ApplyError("too-large", "a column of a batch has more than 2 GiB")
    return Column(validity, offsets, b"".join(parts))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _Unfit
    return value


def _bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _Unfit
    return bytes(value)


def _unscaled(value: Any, scale: int, limit: int) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, decimal.Decimal)):
        raise _Unfit
    scaled = _EXACT.scaleb(decimal.Decimal(value), scale)
    number = int(scaled)
    if number != scaled or not -limit < number < limit:
        raise _Unfit
    return number


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Unfit
    return value


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Unfit
    return float(value)


def _days(value: Any) -> int:
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise _Unfit
    return value.toordinal() - _EPOCH_DAY


def _micros_utc(value: Any) -> int:
    # Subtracting a moment without a zone raises TypeError.
    return int((value - _EPOCH_UTC) // _MICROSECOND)


def _micros_ntz(value: Any) -> int:
    return int((value - _EPOCH_NTZ) // _MICROSECOND)


_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "smallint": _whole,
    "int": _whole,
    "bigint": _whole,
    "float": _real,
    "double": _real,
    "date": _days,
    "timestamp": _micros_utc,
    "timestamp_ntz": _micros_ntz,
}
