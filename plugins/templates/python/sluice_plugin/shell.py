"""From the buffers of the boundary to a transform and back; the same in a component and in tests."""

from __future__ import annotations

import datetime as dt
import json
import traceback
from collections.abc import Sequence

from . import columns
from .batch import Batch
from .columns import Column
from .errors import ApplyError, ConfigError
from .plan import METADATA, Plan, Table
from .transform import Transform


class Opened:
    """A transform that was opened for a table."""

    def __init__(self, transform: Transform, table: Table, plan: Plan) -> None:
        self.transform = transform
        self.table = table
        self.plan = plan


def open_transform(of: type[Transform], table: Table, config: str) -> Opened:
    """Opens a transform with a configuration as JSON text."""
    try:
        settings = json.loads(config)
    except ValueError as error:
        raise ConfigError("", f"the configuration is no JSON: {error}") from None
    if not isinstance(settings, dict):
        raise ConfigError("", "the configuration is no object")
    transform = of()
    plan = transform.open(table, settings)
    if not isinstance(plan, Plan):
        raise ConfigError("", f"{of.__name__}.open returned no Plan")
    known = {field.name for field in table.fields} | METADATA.keys()
    unknown = [name for name in plan.reads if name not in known]
    if unknown:
        raise ConfigError("", f"{of.__name__} reads columns that the table does not have: {', '.join(unknown)}")
    return Opened(transform, table, plan)


def apply_transform(
    opened: Opened, rows: int, operations: bytes, raw: Sequence[Column]
) -> tuple[list[Column], bytes | None, list[tuple[int, str, str]]]:
    """Applies it to a batch: the computed columns, the bitmap of dropped rows if there are any, the rejects."""
    batch = Batch.of(opened.table, opened.plan, rows, operations, raw)
    answer = opened.transform.apply(batch) or {}
    computed = opened.plan.computed()
    names = [name for name, _ in computed]
    if sorted(answer) != sorted(names):
        raise ApplyError("wrong-columns", f"apply returned {sorted(answer)}, and the plan computes {sorted(names)}")
    out = []
    for name, what in computed:
        values = columns.listed(answer[name], name)
        if len(values) != rows:
            came = f"{len(values)} value{'' if len(values) == 1 else 's'}"
            raise ApplyError("wrong-length", f"{came} for {rows} row{'' if rows == 1 else 's'}", column=name)
        if not what.nullable:
            values = _without_null(batch, name, what.data_type.name, values)
        out.append(columns.encode(what.data_type, values, name))
    dropped = batch.dropped
    bitmap = columns.bitmap([row in dropped for row in range(rows)]) if dropped else None
    return out, bitmap, batch.rejects


def account(error: BaseException) -> str:
    """What a developer needs of an exception that the transform did not mean: its trace, and what explains it. It may have a
    value in it.
    """
    trace = "".join(traceback.format_exception(error))
    explained = about(error)
    # In front: what is long is cut at its end.
    return f"{explained}\n{trace}" if explained else trace


def about(error: BaseException) -> str:
    """What explains an exception; empty where it explains itself."""
    if isinstance(error, ModuleNotFoundError):
        module = f"`{error.name}`" if error.name else "it"
        return (
            "a component has the modules that were imported while it was built, and no others: "
            f"import {module} at the top of the file, not inside a function"
        )
    return ""


# Something of each type to stand where a row that is not written has no value.
_NOTHING: dict[str, object] = {
    "boolean": False,
    "string": "",
    "binary": b"",
    "date": dt.date(1970, 1, 1),
    "timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc),
    "timestamp_ntz": dt.datetime(1970, 1, 1),
}


def _without_null(batch: Batch, name: str, kind: str, values: Sequence[object]) -> Sequence[object]:
    """A column that cannot hold NULL may lack the values of rows of which nothing is written."""
    if None not in values:
        return values
    for row, value in enumerate(values):
        if value is None and not batch.without_result(row):
            raise ApplyError("null-in-required-column", f"{name} cannot hold NULL", column=name, row=row)
    filler = _NOTHING.get(kind, 0)
    return [filler if value is None else value for value in values]
