"""The rows of one call."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Any

from . import columns
from .columns import Column
from .errors import ApplyError
from .plan import METADATA, DataType, Plan, Table

_CODE = re.compile(r"[a-z0-9-]{1,64}")


class Operation(enum.IntEnum):
    """What happened to a row."""

    SNAPSHOT = 0
    DELETE = 1
    INSERT = 2
    UPDATE_BEFORE = 3
    UPDATE_AFTER = 4


class Batch:
    """The columns of `plan.reads`, by name: `batch["phone"]` is a list with one Python value a row, `None` for NULL.

    `len(batch)` is the number of rows; `operations` has an `Operation` number for each. A column is decoded when it is
    first asked for.
    """

    def __init__(
        self, rows: int, operations: bytes, raw: dict[str, tuple[DataType, Column]], names: frozenset[str]
    ) -> None:
        self.rows = rows
        self.operations = operations
        self._raw = raw
        self._names = names
        self._decoded: dict[str, list[Any]] = {}
        self._rejects: dict[int, tuple[str, str]] = {}
        self._dropped: set[int] = set()

    @classmethod
    def of(cls, table: Table, plan: Plan, rows: int, operations: bytes, raw: Sequence[Column]) -> Batch:
        """The batch that the host hands over for this plan."""
        if len(raw) != len(plan.reads):
            raise ApplyError("malformed-input", "the batch has not the columns that the plan reads")
        types = {column.name: column.data_type for column in table.fields}
        named = {name: (types.get(name) or METADATA[name], column) for name, column in zip(plan.reads, raw)}
        return cls(rows, operations, named, frozenset(types) | frozenset(METADATA))

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, name: str) -> list[Any]:
        values = self._decoded.get(name)
        if values is None:
            try:
                data_type, column = self._raw[name]
            except KeyError:
                raise KeyError(f"column {name} is not among the plan's reads") from None
            values = self._decoded[name] = columns.decode(data_type, column, self.rows, name)
        return values

    def column(self, name: str) -> Column:
        """The column as the plain Arrow buffers that the host gave: the fastest way to hand it to `hashes` and its like."""
        return self._raw[name][1]

    def reject(self, row: int, column: str, code: str) -> None:
        """This row, counted from 0, cannot be transformed. `column` is the input column at fault; `code` is short: lower-case
        letters, digits and hyphens, at most 64, and never a value. The first reject of a row counts.
        """
        self._check(row)
        if not _CODE.fullmatch(code):
            raise ValueError("a code has 1 to 64 lower-case letters, digits and hyphens")
        if column not in self._names:
            raise ValueError(f"the table has no column {column}: a reject names the column that came in")
        self._rejects.setdefault(row, (column, code))

    def drop(self, row: int) -> None:
        """This row is not written. Where it is the row after an update, the host writes the row before it as a delete;
        where it is the row before, the row after it becomes an insert.
        """
        self._check(row)
        self._dropped.add(row)

    @property
    def rejects(self) -> list[tuple[int, str, str]]:
        """The rejected rows: row (from 0), column, code."""
        return [(row, *why) for row, why in sorted(self._rejects.items())]

    @property
    def dropped(self) -> set[int]:
        """The rows that are not written."""
        return set(self._dropped)

    def without_result(self, row: int) -> bool:
        """Whether nothing is written of this row."""
        return row in self._rejects or row in self._dropped

    def _check(self, row: int) -> None:
        if not 0 <= row < self.rows:
            raise IndexError(f"the batch has {self.rows} rows, counted from 0, and row {row} is not one of them")
