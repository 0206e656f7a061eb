"""Writes transforms for sluice in Python.

A transform is a class with two methods. `open` gets the table and the configuration and says what comes out; `apply`
gets the columns that it asked for as lists of Python values, and gives lists back::

    from sluice_plugin import STRING, Plan, Transform

    class Shout(Transform):
        def open(self, table, config):
            plan = Plan.passing(table)
            plan.compute("city", STRING, sources=["city"], how="upper case")
            return plan

        def apply(self, batch):
            return {"city": [city and city.upper() for city in batch["city"]]}

Everything here runs in an ordinary Python too: `sluice_plugin.testing` calls a transform as the host would.
"""

from .batch import Batch, Operation
from .config import Settings
from .errors import ApplyError, ConfigError, Missing, OpenError, Unlisted, Unsupported
from .host import Encrypted, KeyedError, LookupFailed, encrypt, find, hash_hex, hashes, log, lookup_columns, pick
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
    Output,
    Plan,
    Table,
    decimal,
)
from .transform import Transform

__all__ = [
    "BINARY",
    "BOOLEAN",
    "DATE",
    "FLOAT32",
    "FLOAT64",
    "INT16",
    "INT32",
    "INT64",
    "STRING",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "ApplyError",
    "Batch",
    "Computed",
    "ConfigError",
    "DataType",
    "Encrypted",
    "Field",
    "KeyedError",
    "LookupFailed",
    "Missing",
    "OpenError",
    "Operation",
    "Output",
    "Plan",
    "Settings",
    "Table",
    "Transform",
    "Unlisted",
    "Unsupported",
    "decimal",
    "encrypt",
    "find",
    "hash_hex",
    "hashes",
    "log",
    "lookup_columns",
    "pick",
]
