"""Looks for values in every file under some folders, in every form that they could have.

usage: scan.py SENTINELS.json FOLDER…

Prints one JSON object: how much was looked through (`files`, `tables`, `rows` of Parquet files, `pieces` of files that
are no whole Parquet files, decompressed); `bounds`, the columns that have a smallest or largest value anywhere; and `found`, a list of [sentinel,
number of its value, form, place, file]. Places are `name` (of a file or folder), `bytes`, `cells`, `pieces`, and
statistics: of the `footer` of a Parquet file, in the entries of a Delta `log`, in a `checkpoint` of one.

A file is looked through as it is; a Parquet file also cell by cell and by the statistics of its footer, and Delta's log by
the statistics in it. What was begun and has no footer is decompressed as far as it goes.
"""

import datetime
import decimal
import json
import math
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from forms import forms, held, typed

ZSTD = b"\x28\xb5\x2f\xfd"


class Scan:
    def __init__(self, sentinels: list[dict]):
        self.forms = forms(sentinels)
        self.whole = [
            (sentinel["name"], sentinel["kind"], at, typed(sentinel["kind"], text))
            for sentinel in sentinels
            for at, text in enumerate(sentinel["values"])
        ]
        self.found = set()
        self.bounds = set()
        self.counts = {"files": 0, "tables": 0, "rows": 0, "pieces": 0}

    def content(self, place: str, file: str, content: bytes):
        lower = content.lower()
        for form in self.forms:
            if held(form, content, lower):
                self.found.add((form.sentinel, form.value, form.name, place, file))

    def cells(self, place: str, file: str, column: str, values: list):
        """Values of one column: the whole of a cell, and all of them as text."""
        values, parts = list(dict.fromkeys(values)), []
        for name, kind, at, wanted in self.whole:
            # Short values are in any column by chance, so they are looked for in their own.
            own = column.split(".")[-1] == name
            if (own or distinct(kind, wanted)) and any(
                same(wanted, value, rounded=place in ("log", "checkpoint")) for value in values
            ):
                self.found.add((name, at, "whole", place, file))
        for value in values:
            parts += [written(value)] + ([value] if isinstance(value, bytes) else [])
        self.content(place, file, b"\n".join(parts))

    def file(self, path: pathlib.Path, name: str):
        self.counts["files"] += 1
        self.content("name", name, name.encode())
        content = path.read_bytes()
        self.content("bytes", name, content)
        # One that was only begun has the first of the two marks.
        if len(content) > 8 and content[:4] == b"PAR1" and content[-4:] == b"PAR1":
            self.parquet(path, name)
        else:
            for piece in pieces(content):
                self.counts["pieces"] += 1
                self.content("pieces", name, piece)
        if path.suffix == ".json" and path.parent.name == "_delta_log":
            for line in content.decode().splitlines():
                self.log("log", name, json.loads(line))

    def parquet(self, path: pathlib.Path, name: str):
        with pq.ParquetFile(path) as file:
            table = file.read()
            self.counts["rows"] += table.num_rows
            for column, array in zip(table.column_names, table.columns):
                leaves = {}
                for value in array.to_pylist():
                    spread(column, value, leaves)
                for leaf, values in leaves.items():
                    self.cells("cells", name, leaf, values)
                    if leaf.endswith("stats"):
                        for text in values:
                            self.log("checkpoint", name, {"add": {"stats": text}})
            for group in range(file.metadata.num_row_groups):
                for at in range(file.metadata.num_columns):
                    column = file.metadata.row_group(group).column(at)
                    if column.statistics and column.statistics.has_min_max:
                        ends = [column.statistics.min, column.statistics.max]
                        self.bounds.add(column.path_in_schema)
                        self.cells("footer", name, column.path_in_schema, ends)

    def log(self, place: str, name: str, action: dict):
        stats = action.get("add", {}).get("stats") if isinstance(action, dict) else None
        if not isinstance(stats, str):
            return
        # Numbers with all their digits.
        stats = json.loads(stats, parse_float=decimal.Decimal)
        for ends in ("minValues", "maxValues"):
            for column, value in stats.get(ends, {}).items():
                self.bounds.add(column)
                leaves = {}
                spread(column, value, leaves)
                for leaf, values in leaves.items():
                    self.cells(place, name, leaf, values)


def distinct(kind: str, value) -> bool:
    """Whether a value is in a cell of another column only because it came from its own."""
    if kind == "integer":
        return abs(value) > 1 << 15
    return kind not in ("boolean", "rowversion") and (kind != "time" or "." in value)


def same(wanted, cell, rounded: bool) -> bool:
    if cell is None or isinstance(cell, bool) != isinstance(wanted, bool):
        return False
    if isinstance(wanted, (int, float, decimal.Decimal)):
        if not isinstance(cell, (int, float, decimal.Decimal)):
            return False
        # Statistics in the log have decimals as floating-point numbers, and those of single precision with few digits.
        near = {float: 1e-7, decimal.Decimal: 1e-14}.get(type(wanted))
        return wanted == cell or (rounded and near is not None and math.isclose(wanted, cell, rel_tol=near))
    if isinstance(wanted, datetime.datetime):
        if not isinstance(cell, datetime.datetime):
            return False
        utc = [t.replace(tzinfo=t.tzinfo or datetime.timezone.utc) for t in (wanted, cell)]
        return utc[0] == utc[1]
    return type(wanted) is type(cell) and wanted == cell


def written(value) -> bytes:
    """A cell as text."""
    if isinstance(value, bytes):
        return value.hex().encode()
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat().encode()
    return str(value).encode()


def spread(name: str, value, leaves: dict):
    """The values inside of structures, lists and maps."""
    if isinstance(value, dict):
        for key, inner in value.items():
            spread(f"{name}.{key}", inner, leaves)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            spread(name, inner, leaves)
    elif value is not None:
        leaves.setdefault(name, []).append(value)


def pieces(content: bytes):
    """What can be decompressed of a file: each frame of zstd in it, as far as it goes."""
    at = content.find(ZSTD)
    while at >= 0:
        out = bytearray()
        try:
            stream = pa.CompressedInputStream(pa.BufferReader(content[at : end_of_frame(content, at)]), "zstd")
            while block := stream.read(1 << 12):
                out += block
        except OSError:
            pass
        if out:
            yield bytes(out)
        at = content.find(ZSTD, at + 1)


def end_of_frame(content: bytes, at: int) -> int:
    """Where a frame of zstd ends, by the sizes of its blocks (RFC 8878, 3.1.1)."""
    if at + 5 > len(content):
        return len(content)
    descriptor = content[at + 4]
    single = descriptor >> 5 & 1
    size = {0: single, 1: 2, 2: 4, 3: 8}[descriptor >> 6]
    dictionary = {0: 0, 1: 1, 2: 2, 3: 4}[descriptor & 3]
    at += 5 + (1 - single) + dictionary + size
    last = False
    while not last and at + 3 <= len(content):
        header = int.from_bytes(content[at : at + 3], "little")
        last = bool(header & 1)
        # A block of one repeated byte holds that byte.
        at += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
    return min(len(content), at + (4 if descriptor >> 2 & 1 else 0))


def main() -> None:
    scan = Scan(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    for folder in map(pathlib.Path, sys.argv[2:]):
        for path in sorted(folder.rglob("*")):
            if path.name == "_delta_log":
                scan.counts["tables"] += 1
            if path.is_file() and not path.is_symlink():
                scan.file(path, str(path.relative_to(folder.parent)))
            elif path.is_dir():
                scan.content("name", path.name, path.name.encode())
    print(json.dumps({**scan.counts, "bounds": sorted(scan.bounds), "found": sorted(scan.found)}))


if __name__ == "__main__":
    main()
