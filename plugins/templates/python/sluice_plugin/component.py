"""The component's outside: between the generated bindings and `shell`. Exists only where `sluice plugin build` made
`wit_world`; a transform never imports it.
"""

from __future__ import annotations

import io
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from componentize_py_types import Err
from wit_world.exports import transform as wit
from wit_world.imports import keyed, log, lookup, types

from . import host, shell
from .columns import Column
from .errors import ApplyError, ConfigError, Missing, OpenError, Unlisted, Unsupported
from .plan import (
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
    Computed,
    DataType,
    Field,
    Plan,
    Table,
    decimal,
)
from .transform import Transform

_TYPES = {
    "Boolean": BOOLEAN,
    "Int16": INT16,
    "Int32": INT32,
    "Int64": INT64,
    "Float32": FLOAT32,
    "Float64": FLOAT64,
    "Date": DATE,
    "Timestamp": TIMESTAMP,
    "TimestampNtz": TIMESTAMP_NTZ,
    "Utf8": STRING,
    "Binary": BINARY,
}
_TO_WIT = {data_type: getattr(types, f"DataType_{name}") for name, data_type in _TYPES.items()}
_LEVELS = {level.name.lower(): level for level in log.Level}
_T = TypeVar("_T")


def export(transform: type[Transform]) -> type:
    """The class that the component exports for this transform."""

    # The runtime makes an object of the class for every call, so what `open` leaves for `apply` cannot stand in one.
    opened: shell.Opened | None = None

    class Exported:
        def open(self, table: types.Table, config: str) -> wit.Plan:
            nonlocal opened
            with _Printing():
                try:
                    opened = shell.open_transform(transform, _table(table), config)
                    return _plan(opened.plan)
                except OpenError as error:
                    raise Err(_open_error(error)) from None
                except Exception as error:  # noqa: BLE001  (a trap would say nothing; no row was seen, so this may)
                    reason = f"{transform.__name__}.open raised {type(error).__name__}{_where(error)}: {error}"
                    if explained := shell.about(error):
                        reason = f"{reason}; {explained}"
                    raise Err(_open_error(ConfigError("", reason))) from None

        def apply(self, batch: wit.Batch) -> wit.Outcome:
            with _Printing():
                try:
                    if opened is None:
                        raise ApplyError("not-opened", "apply was called before open")
                    raw = [Column(column.validity, column.offsets, column.values) for column in batch.columns]
                    out, dropped, rejects = shell.apply_transform(opened, batch.rows, batch.operations, raw)
                except ApplyError as error:
                    raise Err(wit.ApplyError(error.code, error.column, error.row, error.message)) from None
                except Exception as error:  # noqa: BLE001
                    raise Err(_raised(error)) from None
            return wit.Outcome([_column(column) for column in out], dropped, [wit.Reject(*reject) for reject in rejects])

    return Exported


def _table(table: types.Table) -> Table:
    fields = (
        Field(field.name, _data_type(field.data_type), field.nullable, field.source_type, field.key)
        for field in table.fields
    )
    return Table(table.schema, table.name, table.capture_instance, tuple(fields))


def _data_type(data_type: Any) -> DataType:
    name = type(data_type).__name__.removeprefix("DataType_")
    return decimal(data_type.value.precision, data_type.value.scale) if name == "Decimal" else _TYPES[name]


def _plan(plan: Plan) -> wit.Plan:
    outputs = [
        wit.OutputColumn(
            output.name,
            _computed(output.source) if isinstance(output.source, Computed) else wit.OutputSource_Pass(output.source),
        )
        for output in plan.outputs
    ]
    return wit.Plan(outputs, list(plan.reads))


def _computed(what: Computed) -> wit.OutputSource_Computed:
    data_type = what.data_type
    if data_type.name == "decimal":
        of_wit = types.DataType_Decimal(types.DecimalType(data_type.precision, data_type.scale))
    else:
        of_wit = _TO_WIT[data_type]()
    field = wit.ComputedField(of_wit, what.nullable, list(what.sources), what.how, list(what.keys))
    return wit.OutputSource_Computed(field)


def _open_error(error: OpenError) -> Any:
    match error:
        case Unlisted():
            return wit.OpenError_Unlisted(error.columns)
        case Missing():
            return wit.OpenError_Missing(error.columns)
        case Unsupported():
            return wit.OpenError_Unsupported(wit.ColumnProblem(error.column, error.reason))
        case ConfigError():
            return wit.OpenError_Config(wit.ConfigProblem(error.path, error.reason))
        case _:
            return wit.OpenError_Config(wit.ConfigProblem("", str(error)))


def _raised(error: Exception) -> wit.ApplyError:
    """An exception that the transform did not mean. Its kind is shown; its text, which may have a value in it, goes where
    the host treats it as sensitive.
    """
    kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", type(error).__name__).lower()
    code = f"exception-{re.sub(r'[^a-z0-9-]', '-', kind)}"[:64]
    text = shell.account(error)
    host.log.error(text)
    return wit.ApplyError(code, None, None, text)


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _column(column: Column) -> types.Column:
    return types.Column(column.validity, list(column.offsets), column.values)


class _Printing(io.TextIOBase):
    """Within it, what is printed becomes messages: there is no terminal in a component.

    Not a generator of `contextlib`, which sets an attribute of the exception that passes through it; `Err` has none that
    could be set.
    """

    def __init__(self) -> None:
        self._rest = ""
        self._before = (sys.stdout, sys.stderr)

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            host.log.debug(line)
        return len(text)

    def __enter__(self) -> _Printing:
        self._before = (sys.stdout, sys.stderr)
        sys.stdout = sys.stderr = self
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout, sys.stderr = self._before
        if self._rest:
            host.log.debug(self._rest)


class _Imports:
    """The host's functions, with the errors of this package."""

    def hmac_sha256(self, key: str, context: str, rows: int, values: Column) -> bytes:
        return _keyed(key, lambda: keyed.hmac_sha256(key, context, rows, _column(values)))

    def ff1_encrypt(self, key: str, tweak: bytes, alphabet: str, rows: int, values: Column) -> tuple[Column, list[str]]:
        answer = _keyed(key, lambda: keyed.ff1_encrypt(key, tweak, alphabet, rows, _column(values)))
        got = answer.values
        status = [status.name.lower().replace("_", "-") for status in answer.status]
        return Column(got.validity, got.offsets, got.values), status

    def pick(self, key: str, context: str, count: int, rows: int, values: Column) -> list[int]:
        return list(_keyed(key, lambda: keyed.pick(key, context, count, rows, _column(values))))

    def lookup_columns(self, table: str) -> list[str]:
        return _lookup(table, "", lambda: lookup.columns(table))

    def find(self, table: str, column: str, rows: int, keys: Column) -> Column:
        got = _lookup(table, column, lambda: lookup.find(table, column, rows, _column(keys)))
        return Column(got.validity, got.offsets, got.values)

    def log(self, level: str, message: str) -> None:
        log.log(_LEVELS[level], message)


def _keyed(key: str, call: Callable[[], _T]) -> _T:
    try:
        return call()
    except Err as error:
        match error.value:
            case keyed.KeyedError_NotGranted():
                raise host.KeyedError("key-not-granted", f"the key `{key}` is not granted") from None
            case keyed.KeyedError_Argument():
                raise host.KeyedError("bad-argument", "the alphabet, the count or the tweak is out of range") from None
            case _:
                raise host.KeyedError("malformed-input", "no column of text or binary") from None


def _lookup(table: str, column: str, call: Callable[[], _T]) -> _T:
    try:
        return call()
    except Err as error:
        match error.value:
            case lookup.LookupError_NotGranted():
                reason = f"the reference table `{table}` is not granted"
                raise host.LookupFailed("lookup-not-granted", reason) from None
            case lookup.LookupError_UnknownColumn():
                reason = f"the reference table `{table}` has no column `{column}`"
                raise host.LookupFailed("unknown-lookup-column", reason) from None
            case _:
                raise host.LookupFailed("malformed-input", "no column of text") from None


host.backend = _Imports()
