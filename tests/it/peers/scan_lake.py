"""Opens every Delta table under a lake with the Python package `deltalake`, and looks for values in everything there.

usage: scan_lake.py LAKE VALUES.json

VALUES.json has `anywhere`, a list of values, and `cells`, for columns of `dbo_customers` the values that may not be the
whole of one of their cells: short ones, which would be found anywhere by chance. Prints one JSON object: how many tables and rows were read, and each kind of place in which a value was found. Values are
looked for in the decoded cells of every table and in the bytes of every file, as UTF-8, UTF-16, hex and base64 (at any
alignment), with text compared as it is and in lower case.
"""

import base64
import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable


def forms(value: str) -> dict[str, list[bytes]]:
    found = {"plain": [value.encode()], "utf-16": [value.encode("utf-16-le")]}
    found["hex"] = [value.encode().hex().encode(), value.encode().hex().upper().encode()]
    base = []
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + value.encode())
        # What the neighbours of the value have a part in is left out.
        first = {0: 0, 1: 2, 2: 3}[shift]
        last = len(text) - (4 if (shift + len(value.encode())) % 3 else 0)
        base.append(text[first:last])
    found["base64"] = [text for text in base if len(text) >= 8]
    return found


def cells(table: pa.Table) -> bytes:
    parts = []
    for name, column in zip(table.column_names, table.columns):
        kind = column.type
        parts.append(name.encode())
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
            kind = column.type
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            for value in column.to_pylist():
                if value is not None:
                    parts += [value, value.hex().encode()]
        else:
            parts += [str(value).encode() for value in column.to_pylist() if value is not None]
    return b"\n".join(parts)


def main() -> None:
    lake = pathlib.Path(sys.argv[1])
    values = json.loads(pathlib.Path(sys.argv[2]).read_text())
    anywhere, whole = values["anywhere"], values["cells"]
    tables = sorted(log.parent for log in lake.rglob("_delta_log"))
    places: dict[str, bytes] = {}
    rows = {}
    found: dict[str, int] = {}
    for path in tables:
        table = pa.table(DeltaTable(str(path)).to_pyarrow_table())
        rows[path.name] = table.num_rows
        places[f"cells of {path.name}"] = cells(table)
        if path.name == "dbo_customers":
            for column, raw in whole.items():
                held = {str(value) for value in table.column(column).to_pylist()}
                if hits := len(held.intersection(raw)):
                    found[f"whole in {column}"] = hits
    for file in sorted(lake.rglob("*")):
        if not file.is_file():
            continue
        places[f"file {file.relative_to(lake)}"] = str(file.relative_to(lake)).encode() + b"\n" + file.read_bytes()
        if file.suffix == ".parquet":
            places[f"rows of {file.relative_to(lake)}"] = cells(pq.read_table(file))
            places[f"footer of {file.relative_to(lake)}"] = repr(pq.read_metadata(file).to_dict()).encode()
    patterns = [(kind, text) for value in anywhere for kind, texts in forms(value).items() for text in texts]
    for place, content in places.items():
        lower = content.lower()
        for kind, text in patterns:
            if text in content or (kind != "base64" and text.lower() in lower):
                found[f"{kind} in {place}"] = found.get(f"{kind} in {place}", 0) + 1
    print(json.dumps({"tables": len(tables), "rows": rows, "found": found}))


main()
