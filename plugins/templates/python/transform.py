"""Masks telephone numbers of Switzerland, Germany, Austria and Liechtenstein, and of other countries if they are written
with `+` or `00`.

However it was typed (`079 123 45 67`, `+41 (0)79/123-45-67`, `0041791234567`), a number is brought into one form,
`+41791234567`, and its middle is masked: `+4179*****67`. With a key, a column `phone_token` stands beside `phone`: the keyed
hash of that one form, so that rows with the same number can still be joined.
"""

from __future__ import annotations

import re
from typing import Any

from sluice_plugin import STRING, Batch, Plan, Settings, Table, Transform, Unsupported, hash_hex

# Calling code, and how many digits follow it. Sources: the national numbering plans (E.164 allows 15 digits in all).
COUNTRIES = {
    "CH": ("41", 9, 9),
    "LI": ("423", 7, 7),
    "DE": ("49", 5, 13),
    "AT": ("43", 4, 13),
}
# The longer code first: 423 is not 42 and 3.
BY_CODE = sorted(COUNTRIES.values(), key=lambda plan: -len(plan[0]))
# Fewer hidden digits could be guessed: then all but the calling code is hidden.
LEAST_HIDDEN = 4
SEPARATORS = re.compile(r"[\s./\u2010-\u2015-]+")
NUMBER = re.compile(r"(\+|00)?\(?([0-9]+)\)?(?:\(0\))?\(?([0-9]*)\)?([0-9]*)")


class {{class_name}}(Transform):
    """The configuration:

    | key          | meaning                                                                             |
    | ------------ | ----------------------------------------------------------------------------------- |
    | `columns`    | the columns with telephone numbers                                                  |
    | `country`    | whose numbers stand there without a country: `CH`, `LI`, `DE` or `AT`; `CH` if not given |
    | `keep_first` | digits after the calling code that stay, 0 to 4; 2 if not given: a mobile operator, an area |
    | `keep_last`  | digits at the end that stay, 0 to 4; 2 if not given                                 |
    | `invalid`    | a text that is no telephone number: `reject` the row (if not given), or `null`      |
    | `key`        | the key for the columns `…_token`; without it there are none                        |
    """

    def open(self, table: Table, config: dict[str, Any]) -> Plan:
        settings = Settings(config)
        names = settings.texts("columns")
        self.country = settings.choice("country", list(COUNTRIES), "CH")
        self.keep_first = settings.integer("keep_first", 2, low=0, high=4)
        self.keep_last = settings.integer("keep_last", 2, low=0, high=4)
        self.invalid = settings.choice("invalid", ["reject", "null"], "reject")
        self.key = settings.text("key", None)
        settings.finish()

        # Raises `Missing` with every name that the table does not have.
        fields = table.select(names)
        self.columns = [field.name for field in fields]
        plan = Plan.passing(table)
        for field in fields:
            name = field.name
            if field.data_type != STRING:
                raise Unsupported(name, f"it is {field.data_type}, and telephone numbers are texts")
            plan.compute(name, STRING, sources=[name], how="telephone number, its middle masked")
            if self.key is not None:
                if table.find(f"{name}_token") is not None:
                    raise Unsupported(name, f"the table has a column {name}_token already")
                plan.compute(
                    f"{name}_token",
                    STRING,
                    sources=[name],
                    how="keyed hash of the telephone number",
                    keys=[self.key],
                    after=name,
                )
        return plan

    def apply(self, batch: Batch) -> dict[str, list[str | None]]:
        out: dict[str, list[str | None]] = {}
        for name in self.columns:
            numbers = [self.normalised(batch, row, name, text) for row, text in enumerate(batch[name])]
            out[name] = [number and masked(number, self.keep_first, self.keep_last) for number in numbers]
            if self.key is not None:
                out[f"{name}_token"] = hash_hex(self.key, numbers, context="phone", length=32)
        return out

    def normalised(self, batch: Batch, row: int, name: str, text: str | None) -> str | None:
        if text is None or not text.strip():
            return None
        number = normalise(text, self.country)
        if number is None and self.invalid == "reject":
            batch.reject(row, name, "not-a-phone-number")
        return number


def normalise(text: str, country: str) -> str | None:
    """The number as `+` and digits only; None where it is no telephone number."""
    match = NUMBER.fullmatch(SEPARATORS.sub("", text))
    if match is None:
        return None
    international, digits = match[1], match[2] + match[3] + match[4]
    if international is None:
        # Inside a country a number begins with one 0, which is not dialled from outside.
        if not digits.startswith("0") or digits.startswith("00"):
            return None
        digits = COUNTRIES[country][0] + digits[1:]
    return f"+{digits}" if plausible(digits) else None


def plausible(digits: str) -> bool:
    """Whether as many digits follow the calling code as its country has."""
    code, least, most = plan_of(digits)
    return least <= len(digits) - len(code) <= most and not digits.startswith("0")


def plan_of(digits: str) -> tuple[str, int, int]:
    """The calling code of a number, and how many digits may follow it."""
    for code, least, most in BY_CODE:
        if digits.startswith(code):
            return code, least, most
    # Another country: its code is taken to have two digits, so that at most one more digit shows.
    return digits[:2], 5, 13


def masked(number: str, keep_first: int, keep_last: int) -> str:
    """The number with its middle replaced by stars, of which there are as many as digits."""
    code, _, _ = plan_of(number[1:])
    rest = number[1 + len(code) :]
    hidden = len(rest) - keep_first - keep_last
    if hidden < LEAST_HIDDEN:
        return f"+{code}{'*' * len(rest)}"
    return f"+{code}{rest[:keep_first]}{'*' * hidden}{rest[len(rest) - keep_last :]}"
