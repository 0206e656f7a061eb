"""The class that a transform derives from."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from .batch import Batch
from .plan import Plan, Table


class Transform(abc.ABC):
    """A transform. The host makes a fresh one for every chunk of rows and applies it at most once, so nothing is carried
    from one chunk to the next. The same input must give the same output: chunks are replayed after a crash. So take no
    clock and no random numbers, and sort a set before its order shows.
    """

    @abc.abstractmethod
    def open(self, table: Table, config: dict[str, Any]) -> Plan:
        """Reads the configuration (what stands under `config` in `sluice.toml`) and says what will come out. Must give the
        same plan for the same input. Raises `ConfigError`, `Unlisted`, `Missing` or `Unsupported`.
        """

    @abc.abstractmethod
    def apply(self, batch: Batch) -> Mapping[str, Sequence[Any]]:
        """Computes one batch: for each computed column of the plan its values, one a row, `None` for NULL.

        A row that cannot be transformed is `batch.reject(row, column, code)`, one that should not be written
        `batch.drop(row)`; their values may be `None`. Raises `ApplyError` where the whole batch cannot be transformed.
        """
