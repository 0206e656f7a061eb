"""A key by which the same person is found again in other tables, without a name in any of them.

`Jürgen MÜLLER-Lüdenscheidt`, born on 1970-01-31, has the same key as `Juergen Mueller Luedenscheidt` of that day: names are brought
into one form, joined with the date of birth, and hashed by sluice with a key that never enters this component.
"""

from __future__ import annotations

import datetime
import unicodedata
from typing import Any

from sluice_plugin import DATE, STRING, TIMESTAMP_NTZ, Batch, ConfigError, Plan, Settings, Table, Transform, Unsupported, hash_hex

# Letters that are more than a base letter and an accent, and how people write them where a keyboard lacks them.
WRITTEN_OUT = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "æ": "ae", "œ": "oe", "å": "aa", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
)
# Stands in no folded name and in no date, so that no two persons can give the same text.
BETWEEN = "|"


class PersonKey(Transform):
    """The configuration:

    | key       | meaning                                                                                    |
    | --------- | ------------------------------------------------------------------------------------------ |
    | `first`   | the column with the first names                                                            |
    | `last`    | the column with the last name                                                              |
    | `born`    | the column with the date of birth: a `date`, or a `datetime2` of which the date counts     |
    | `key`     | the key to hash with                                                                       |
    | `into`    | what the new column is called; `person_key` if not given                                   |
    | `given`   | `first`: the first of several first names counts (if not given); `all`: all of them do     |
    | `names`   | `drop` the three columns (if not given), or `pass` them                                    |
    """

    def open(self, table: Table, config: dict[str, Any]) -> Plan:
        settings = Settings(config)
        names = [settings.text(part) for part in ("first", "last", "born")]
        self.key = settings.text("key")
        self.into = settings.text("into", "person_key")
        self.given = settings.choice("given", ["first", "all"], "first")
        passing = settings.choice("names", ["drop", "pass"], "drop") == "pass"
        settings.finish()

        # Raises `Missing` with every name that the table does not have.
        parts = table.select(names)
        self.first, self.last, self.born = (part.name for part in parts)
        if len({self.first, self.last, self.born}) < 3:
            raise ConfigError("", "`first`, `last` and `born` are to be three columns")
        for part in parts[:2]:
            if part.data_type != STRING:
                raise Unsupported(part.name, f"it is {part.data_type}, and names are texts")
        if parts[2].data_type not in (DATE, TIMESTAMP_NTZ):
            raise Unsupported(self.born, f"it is {parts[2].data_type}, and not a date; cast it with `map` before")
        if not self.into or table.find(self.into) is not None:
            raise ConfigError("into", f"the table has a column `{self.into}` already" if self.into else "a name is expected")

        plan = Plan.passing(table)
        if not passing:
            for part in parts:
                plan.drop(part.name)
        plan.compute(
            self.into,
            STRING,
            sources=[part.name for part in parts],
            how="keyed hash of name and date of birth",
            keys=[self.key],
        )
        return plan

    def apply(self, batch: Batch) -> dict[str, list[str | None]]:
        persons = [
            person(first, last, born, self.given)
            for first, last, born in zip(batch[self.first], batch[self.last], batch[self.born])
        ]
        return {self.into: hash_hex(self.key, persons, context="person", length=32)}


def person(first: str | None, last: str | None, born: datetime.date | None, given: str) -> str | None:
    """The text that stands for a person; None where a part of it is not known: a key of less would join strangers."""
    if first is None or last is None or born is None:
        return None
    firsts = folded(first)
    lasts = folded(last)
    if not firsts or not lasts:
        return None
    if given == "first":
        firsts = firsts[:1]
    day = born.date() if isinstance(born, datetime.datetime) else born
    # `isoformat` of years before 1000 has its zeros, on every platform.
    return BETWEEN.join(["".join(firsts), "".join(lasts), day.isoformat()])


def folded(name: str) -> list[str]:
    """The words of a name in lower case, without accents; letters that have another spelling in it."""
    # Composed first, so that `ü` is one letter however it was typed.
    composed = unicodedata.normalize("NFC", name).casefold().translate(WRITTEN_OUT)
    plain = "".join(char for char in unicodedata.normalize("NFKD", composed) if not unicodedata.combining(char))
    # An apostrophe stands inside a word, anything else that is no letter between two.
    kept = (char if char.isalpha() else "" if char in "'\u2019\u02bc`" else " " for char in plain)
    return "".join(kept).split()
