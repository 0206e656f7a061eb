"""What a transform is opened for, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .errors import Missing


@dataclass(frozen=True)
class DataType:
    """The type of a column; use the constants of this module, and `decimal(precision, scale)`.

    | type            | Python value                                                        |
    | --------------- | ------------------------------------------------------------------- |
    | `BOOLEAN`       | `bool`                                                              |
    | `INT16` … `64`  | `int`                                                               |
    | `FLOAT32`, `64` | `float`                                                             |
    | `decimal(p, s)` | `decimal.Decimal`                                                   |
    | `DATE`          | `datetime.date`                                                     |
    | `TIMESTAMP`     | `datetime.datetime` with `tzinfo` UTC (SQL Server: `datetimeoffset`) |
    | `TIMESTAMP_NTZ` | `datetime.datetime` without `tzinfo` (`datetime2`, `datetime`)      |
    | `STRING`        | `str`                                                               |
    | `BINARY`        | `bytes`                                                             |

    NULL is `None` in all of them.
    """

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


BOOLEAN = DataType("boolean")
INT16 = DataType("smallint")
INT32 = DataType("int")
INT64 = DataType("bigint")
FLOAT32 = DataType("float")
FLOAT64 = DataType("double")
DATE = DataType("date")
TIMESTAMP = DataType("timestamp")
TIMESTAMP_NTZ = DataType("timestamp_ntz")
STRING = DataType("string")
BINARY = DataType("binary")


def decimal(precision: int, scale: int) -> DataType:
    """A decimal of 1 to 38 digits, `scale` of them after the point."""
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise ValueError(f"decimal({precision},{scale}) does not exist: 1 to 38 digits, at most all after the point")
    return DataType("decimal", precision, scale)


#: The metadata columns, which can be read by name and never changed.
METADATA = {
    "_capture_instance": STRING,
    "_start_lsn": STRING,
    "_seqval": STRING,
    "_operation": INT32,
    "_command_id": INT32,
    "_commit_ts": TIMESTAMP_NTZ,
}


@dataclass(frozen=True)
class Field:
    """A column of the table, as the transform's input has it."""

    name: str
    data_type: DataType
    nullable: bool = True
    #: The declared SQL Server type, such as `nvarchar(100)`; of an earlier transform's output, the name of its type.
    source_type: str = ""
    #: Position in the table's key, from 1; None when the column is not part of it.
    key: int | None = None


@dataclass(frozen=True)
class Table:
    """The table that a transform is opened for. `fields` has no metadata columns."""

    schema: str
    name: str
    capture_instance: str
    fields: tuple[Field, ...]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def find(self, name: str) -> Field | None:
        """The column of this name: the exact one, else the only one that is equal ignoring case."""
        folded = name.casefold()
        alike = [column for column in self.fields if column.name.casefold() == folded]
        exact = [column for column in alike if column.name == name]
        if exact:
            return exact[0]
        return alike[0] if len(alike) == 1 else None

    def select(self, names: Iterable[str]) -> list[Field]:
        """The columns of these names; raises `Missing` with all that are not there."""
        wanted = list(names)
        found = [(name, self.find(name)) for name in wanted]
        missing = [name for name, column in found if column is None]
        if missing:
            raise Missing(missing)
        return [column for _, column in found if column is not None]


@dataclass(frozen=True)
class Computed:
    """A column that `apply` computes."""

    data_type: DataType
    nullable: bool
    sources: tuple[str, ...]
    how: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Output:
    """An output column: `source` is the input column that passes untouched, or how the column is computed."""

    name: str
    source: str | Computed


@dataclass
class Plan:
    """What comes out, in order, and what `apply` wants to see. An input column that no output names is dropped."""

    outputs: list[Output] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)

    @classmethod
    def passing(cls, table: Table) -> Plan:
        """All columns of the table, untouched; then `compute` and `drop` change some."""
        return cls([Output(column.name, column.name) for column in table.fields])

    def pass_(self, source: str, name: str | None = None) -> None:
        """An input column that the host moves across untouched, perhaps under a new name."""
        self._put(Output(name or source, source))

    def compute(
        self,
        name: str,
        data_type: DataType,
        *,
        sources: Iterable[str],
        how: str,
        nullable: bool = True,
        keys: Iterable[str] = (),
        after: str | None = None,
    ) -> None:
        """A column that `apply` computes. It takes the place of the output column of the same name; else it stands after
        the output column `after`, else at the end.

        `sources` are the input columns that it is made from: `apply` gets them, and `sluice check` shows them. `how` says
        how, in a few words, and never a value. `keys` are the names of the keys that it is made with.
        """
        made_from = tuple(sources)
        self._put(Output(name, Computed(data_type, nullable, made_from, how, tuple(keys))), after)
        self.read(*made_from)

    def drop(self, name: str) -> None:
        """Takes an output column away."""
        self.outputs = [output for output in self.outputs if output.name != name]

    def read(self, *names: str) -> None:
        """Columns that `apply` wants to see besides the sources of computed columns, such as `_operation`."""
        self.reads.extend(name for name in dict.fromkeys(names) if name not in self.reads)

    def computed(self) -> list[tuple[str, Computed]]:
        """The names of the computed columns and what they are, in order."""
        return [(output.name, output.source) for output in self.outputs if isinstance(output.source, Computed)]

    def _put(self, output: Output, after: str | None = None) -> None:
        names = [known.name for known in self.outputs]
        if output.name in names:
            self.outputs[names.index(output.name)] = output
        elif after in names:
            self.outputs.insert(names.index(after) + 1, output)
        else:
            self.outputs.append(output)
