"""What a value can look like: as text, as bytes, and as a cell of a Parquet file.

A sentinel is `{"name": column, "kind": kind, "values": [text, …]}`. Kinds are `boolean`, `integer`, `float32`, `float64`,
`decimal` (its digits after the point are its scale), `date`, `timestamp`, `timestamp_utc` (ISO, with an offset), `time`,
`text`, `binary` and `rowversion` (hex), `uuid`. Booleans and row versions are looked for in their own columns alone.
"""

import base64
import datetime
import decimal
import json
import re
import struct
import uuid
from dataclasses import dataclass

EPOCH = datetime.datetime(1970, 1, 1)
# Shorter ones are in any file by chance.
LEAST_BYTES = 6


@dataclass(frozen=True)
class Form:
    """One look of one value."""

    sentinel: str
    value: int
    name: str
    needle: bytes
    any_case: bool = False
    # Not in the middle of a longer number.
    token: bool = False


def typed(kind: str, text: str):
    """The value as Python reads it from a cell."""
    match kind:
        case "boolean":
            return text == "1"
        case "integer":
            return int(text)
        case "float32":
            return struct.unpack("<f", struct.pack("<f", float(text)))[0]
        case "float64":
            return float(text)
        case "decimal":
            return decimal.Decimal(text)
        case "date":
            return datetime.date.fromisoformat(text)
        case "timestamp":
            return datetime.datetime.fromisoformat(cut(text))
        case "timestamp_utc":
            return datetime.datetime.fromisoformat(cut(text)).astimezone(datetime.timezone.utc)
        case "binary" | "rowversion":
            return bytes.fromhex(text)
        case "uuid":
            return text.upper()
        case _:
            return text


def cut(text: str) -> str:
    """A time cut to microseconds, which is what bronze and Python hold."""
    return re.sub(r"(\.\d{6})\d+", r"\1", text)


def looks(kind: str, text: str):
    """Each look as (name, bytes, in any case, token)."""
    value = typed(kind, text)
    match kind:
        case "integer":
            yield "digits", (text if value < 0 else str(value)).encode(), False, True
            if abs(value) >= 1 << 31:
                yield from raw(struct.pack("<q", value))
            elif abs(value) >= 1 << 15:
                yield "prefixed", b"\x04" + struct.pack("<i", value), False, False
        case "float32" | "float64":
            for digits in {repr(value), repr(value).replace("e+", "e"), text, f"{value:.0f}"}:
                yield "digits", digits.lower().encode(), True, True
            if kind == "float64":
                yield from raw(struct.pack("<d", value))
            else:
                yield "prefixed", b"\x04" + struct.pack("<f", value), False, False
        case "decimal":
            # As text: to compute with a decimal would round it to 28 digits.
            unscaled = int(text.replace(".", ""))
            yield "digits", text.lstrip("-").encode(), False, True
            yield "unscaled", str(abs(unscaled)).encode(), False, True
            if -(1 << 63) <= unscaled < 1 << 63:
                yield from raw(struct.pack("<q", unscaled))
            yield "big-endian", unscaled.to_bytes(16, "big", signed=True), False, False
        case "date":
            yield "iso", text.encode(), False, False
            yield "compact", text.replace("-", "").encode(), False, True
        case "timestamp" | "timestamp_utc":
            utc = value.astimezone(datetime.timezone.utc).replace(tzinfo=None) if value.tzinfo else value
            micros = (utc - EPOCH) // datetime.timedelta(microseconds=1)
            for day in {text[:10], utc.isoformat()[:10]}:
                yield "iso", day.encode(), False, False
            yield "digits", str(abs(micros)).encode(), False, True
            yield from raw(struct.pack("<q", micros))
        case "text":
            yield from of_text(text)
        case "binary":
            yield from of_bytes(value)
        case "uuid":
            yield "text", text.lower().encode(), True, False
            parsed = uuid.UUID(text)
            yield from of_bytes(parsed.bytes)
            yield from of_bytes(parsed.bytes_le)
        case "time" if "." in text:
            yield "iso", text.encode(), False, True


def raw(data: bytes):
    yield "little-endian", data, False, False
    yield "hex", data.hex().encode(), True, False
    yield "hex", data[::-1].hex().encode(), True, False


def of_text(text: str):
    plain = text.encode()
    yield "text", plain, True, False
    yield "utf-16", text.encode("utf-16-le"), False, False
    yield "utf-16", text.encode("utf-16-be"), False, False
    for data in (plain, text.encode("utf-16-le")):
        yield "hex", data.hex().encode(), True, False
    yield from encoded(plain)
    escaped = json.dumps(text)[1:-1].encode()
    if escaped != plain:
        yield "escaped", escaped, True, False
    percent = "".join(chr(b) if chr(b).isalnum() and b < 128 or b in b"-_." else f"%{b:02x}" for b in plain)
    if percent.encode() != plain:
        yield "percent", percent.lower().encode(), True, False


def of_bytes(data: bytes):
    yield "bytes", data, False, False
    yield "hex", data.hex().encode(), True, False
    yield from encoded(data)
    yield "escaped", "".join(f"\\x{b:02x}" for b in data).encode(), True, False


def encoded(data: bytes):
    """Base64 at any place in a longer text, and as a list of numbers."""
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + data)
        # What the neighbours of the value have a part in is left out.
        first = {0: 0, 1: 2, 2: 3}[shift]
        last = len(text) - (4 if (shift + len(data)) % 3 else 0)
        yield "base64", text[first:last], False, False
    yield "numbers", ", ".join(str(b) for b in data).encode(), False, True
    yield "numbers", ",".join(str(b) for b in data).encode(), False, True


def forms(sentinels: list[dict]) -> list[Form]:
    """Every look of every value that is long enough to be looked for anywhere."""
    found = {}
    for sentinel in sentinels:
        for at, text in enumerate(sentinel["values"]):
            for name, needle, any_case, token in looks(sentinel["kind"], text):
                if len(needle) >= LEAST_BYTES or (name == "prefixed" and len(needle) >= 5):
                    key = (sentinel["name"], needle)
                    needle = needle.lower() if any_case else needle
                    found[key] = Form(sentinel["name"], at, name, needle, any_case, token)
    return list(found.values())


def held(form: Form, content: bytes, lower: bytes) -> bool:
    """Whether the look is in a content, which comes as it is and in lower case."""
    where = lower if form.any_case else content
    at = where.find(form.needle)
    while at >= 0:
        end = at + len(form.needle)
        if not form.token or not (alone(where[at - 1 : at]) or alone(where[end : end + 1])):
            return True
        at = where.find(form.needle, at + 1)
    return False


def alone(neighbour: bytes) -> bool:
    """Whether a byte beside a number makes it another number or word."""
    return neighbour.isalnum()
