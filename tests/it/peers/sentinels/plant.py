"""Puts values where a leak would put them, by other writers than sluice: what the scan has to find.

usage: plant.py SENTINELS.json FOLDER

Writes a Delta table with statistics of all columns and a checkpoint, Parquet files, one that was cut before its footer,
logs, and a file that is named after a value. Prints a list of [sentinel, form, place]: each has to be found there for each
of the sentinel's values. The looks of the logs are made here and not by `forms.py`.
"""

import base64
import json
import pathlib
import struct
import sys
import urllib.parse
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from forms import typed


# What a value is in a page that is not encoded.
IN_PIECES = {
    "binary": "bytes",
    "float64": "little-endian",
    "text": "text",
    "time": "iso",
    "timestamp": "little-endian",
    "timestamp_utc": "little-endian",
    "uuid": "text",
}


def arrow_type(kind: str, values: list[str]) -> pa.DataType:
    if kind == "decimal":
        scale = max(len(text.partition(".")[2]) for text in values)
        digits = max(len(text.lstrip("-").replace(".", "")) for text in values)
        return pa.decimal128(max(digits, scale), scale)
    if kind == "integer":
        largest = max(abs(int(text)) for text in values)
        return pa.int16() if largest < 1 << 15 else pa.int32() if largest < 1 << 31 else pa.int64()
    return {
        "boolean": pa.bool_(),
        "float32": pa.float32(),
        "float64": pa.float64(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamp_utc": pa.timestamp("us", "UTC"),
        "binary": pa.binary(),
    }.get(kind, pa.string())


def lines(kind: str, text: str):
    """Lines of a log, by form. What a look is short of is none that has to be found."""
    value = typed(kind, text)
    if kind == "text":
        yield "text", f"cannot work with {text}"
        yield "text", f"CANNOT WORK WITH {text.upper()}" if text.isascii() else f"value {text!r}"
        if not text.isascii() or '"' in text:
            yield "escaped", json.dumps({"a": 1, "v": text})
        yield "numbers", f"bytes: {list(text.encode())}"
    if kind in ("text", "binary", "uuid"):
        data = {"text": str.encode, "binary": bytes.fromhex, "uuid": lambda text: uuid.UUID(text).bytes_le}[kind](text)
        for before in (b"", b"<", b"<<"):
            yield "base64", "payload=" + base64.b64encode(before + data + b">").decode()
        yield "hex", "0x" + data.hex()
        yield "hex", data.hex().upper()
        yield "numbers", f"[{','.join(map(str, data))}]"
    if kind == "uuid":
        yield "text", f"id {uuid.UUID(text)}"
        yield "hex", uuid.UUID(text).hex
    if kind == "integer" and abs(value) >= 1 << 31:
        yield "hex", struct.pack(">q", value).hex()
    if kind in ("integer", "float32", "float64", "decimal") and len(text) >= 6:
        yield "digits", f"Decimal {{ value: {value} }}"
    if kind == "decimal":
        yield "unscaled", f"value={str(value).replace('.', '')}"
    if kind in ("float32", "float64"):
        yield "digits", f"{value:.0f}"
        yield "digits", f"{{\"v\":{value!r}}}".replace("e+", "e")
    if kind == "date":
        yield "iso", f"born on {value}"
        yield "compact", f"born on {text.replace('-', '')}"
    if kind in ("timestamp", "timestamp_utc"):
        yield "iso", f"at {value.isoformat(' ')}"
        yield "iso", f"at {value.isoformat()}"
    if kind == "time" and "." in text:
        yield "iso", f"at {text}"


def main() -> None:
    sentinels = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    planted = set()

    def plant(sentinel: dict, form: str, place: str):
        planted.update((sentinel["name"], at, form, place) for at in range(len(sentinel["values"])))

    arrays = {}
    for sentinel in sentinels:
        kind, values = sentinel["kind"], sentinel["values"]
        arrays[sentinel["name"]] = pa.array([typed(kind, text) for text in values], arrow_type(kind, values))
    table = pa.table(arrays)

    # Compressed, and read cell by cell; then with the same in the footer and in the index of pages.
    parquet = folder / "parquet"
    parquet.mkdir(parents=True)
    pq.write_table(table, parquet / "compressed.parquet", compression="zstd", write_statistics=False)
    pq.write_table(table, parquet / "statistics.parquet", compression="zstd", write_page_index=True)
    for sentinel in sentinels:
        plant(sentinel, "whole", "cells")
        plant(sentinel, "whole", "footer")

    # A file without its footer.
    cut = parquet / "cut.parquet"
    pq.write_table(table, cut, compression="zstd", use_dictionary=False, write_statistics=False)
    content = cut.read_bytes()
    cut.write_bytes(content[: -8 - struct.unpack("<I", content[-8:-4])[0]])
    for sentinel in sentinels:
        is_wide = sentinel["kind"] == "decimal" and arrays[sentinel["name"]].type.precision > 36
        form = "big-endian" if is_wide else IN_PIECES.get(sentinel["kind"])
        if form and not (form == "iso" and "." not in sentinel["values"][0]):
            plant(sentinel, form, "pieces")

    # Delta's log and its checkpoint.
    delta = str(folder / "delta")
    write_deltalake(delta, table, configuration={"delta.dataSkippingNumIndexedCols": "-1"})
    DeltaTable(delta).create_checkpoint()
    for sentinel in sentinels:
        # That writer has no bounds of binary either.
        if sentinel["kind"] != "binary":
            form = "iso" if sentinel["kind"] in ("date", "timestamp", "timestamp_utc") else "whole"
            plant(sentinel, form, "log")
            plant(sentinel, form, "checkpoint")

    logs = folder / "logs"
    logs.mkdir()
    for sentinel in sentinels:
        name, kind, values = sentinel["name"], sentinel["kind"], sentinel["values"]
        for at, text in enumerate(values):
            (logs / f"{name}-{at}.log").write_text("\n".join(line for _, line in lines(kind, text)))
            planted |= {(name, at, form, "bytes") for form, _ in lines(kind, text)}
            if kind == "text":
                (logs / f"{name}-{at}.le").write_bytes(f"v={text};".encode("utf-16-le"))
                (logs / f"{name}-{at}.be").write_bytes(f"v={text};".encode("utf-16-be"))
                planted.add((name, at, "utf-16", "bytes"))
                quoted = urllib.parse.quote(text, safe="")
                (logs / f"city={quoted}").write_text("")
                planted.add((name, at, "text" if quoted == text else "percent", "name"))
    print(json.dumps(sorted(planted)))


main()
