"""What a transform raises. Never put a value of a row into any of them."""

from __future__ import annotations

from collections.abc import Iterable


class OpenError(Exception):
    """The transform cannot be opened; raise one of the classes below."""


class ConfigError(OpenError):
    """The configuration is wrong: where (a path such as `columns.phone.keep`; empty for the whole) and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class Unlisted(OpenError):
    """Columns that the configuration says nothing about, while it says that this is an error."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = list(columns)
        super().__init__(f"the configuration says nothing about {', '.join(self.columns)}")


class Missing(OpenError):
    """Columns that the configuration names and the table does not have."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = list(columns)
        super().__init__(f"the table has no column {', '.join(self.columns)}")


class Unsupported(OpenError):
    """The transform does not work on a column of this type."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"column {column}: {reason}")
        self.column = column
        self.reason = reason


class ApplyError(Exception):
    """The whole batch cannot be transformed. For a single row, call `batch.reject` instead.

    `code` is short: lower-case letters, digits and hyphens, at most 64. `row` counts from 0. `message` is for a developer; the
    host treats it as sensitive and does not show it, `sluice plugin test` does.
    """

    def __init__(self, code: str, message: str = "", *, column: str | None = None, row: int | None = None) -> None:
        place = [f"column {column}"] if column else []
        place += [f"row {row}"] if row is not None else []
        told = f"{code}: {message}" if message else code
        super().__init__(f"{told} ({', '.join(place)})" if place else told)
        self.code = code
        self.message = message
        self.column = column
        self.row = row
