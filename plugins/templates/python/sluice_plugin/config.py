"""Reading a configuration, with errors that say where and what was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from .errors import ConfigError

_REQUIRED: Any = object()


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The nearest of the known words, if one is near enough to have been meant."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return close[0] if close else None


class Settings:
    """One object of the configuration. Take each key out of it, then call `finish`, which refuses those that are left::

        settings = Settings(config)
        columns = settings.texts("columns")
        keep = settings.integer("keep", 2, low=0, high=9)
        settings.finish()

    A key without a default must be there.
    """

    def __init__(self, config: dict[str, Any], path: str = "") -> None:
        if not isinstance(config, dict):
            raise ConfigError(path, "an object is expected")
        self._config = config
        self._path = path
        self._known: list[str] = []

    def text(self, key: str, default: Any = _REQUIRED) -> Any:
        """A text."""
        value = self._take(key, default)
        return value if value is default else self._expect(key, value, str, "a text")

    def integer(self, key: str, default: Any = _REQUIRED, *, low: int, high: int) -> Any:
        """A whole number of this range."""
        value = self._take(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(key, f"a whole number from {low} to {high} is expected")
        return value

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        """`true` or `false`."""
        value = self._take(key, default)
        return value if value is default else self._expect(key, value, bool, "true or false")

    def choice(self, key: str, words: Sequence[str], default: Any = _REQUIRED) -> Any:
        """One of these words."""
        value = self._take(key, default)
        if value is default or value in words:
            return value
        meant = nearest(value, words) if isinstance(value, str) else None
        raise self.error(key, f"did you mean `{meant}`?" if meant else f"known are {', '.join(words)}")

    def texts(self, key: str, default: Any = _REQUIRED) -> Any:
        """A list of texts, none of them twice."""
        value = self._take(key, default)
        if value is default:
            return value
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, "a list of texts is expected")
        twice = next((item for item in value if value.count(item) > 1), None)
        if twice is not None:
            raise self.error(key, f"`{twice}` stands here twice")
        return value

    def section(self, key: str, default: Any = _REQUIRED) -> Any:
        """An object inside this one, as `Settings`; call its `finish` too."""
        value = self._take(key, default)
        return value if value is default else Settings(value, self._at(key))

    def error(self, key: str, reason: str) -> ConfigError:
        """A mistake at a key of this object, to be raised."""
        return ConfigError(self._at(key), reason)

    def finish(self) -> None:
        """Refuses keys that nobody took."""
        for key in self._config:
            if key not in self._known:
                meant = nearest(key, self._known)
                hint = f", did you mean `{meant}`?" if meant else f"; known are {', '.join(self._known)}"
                raise ConfigError(self._path, f"unknown key `{key}`{hint}")

    def _take(self, key: str, default: Any) -> Any:
        self._known.append(key)
        if key in self._config:
            return self._config[key]
        if default is not _REQUIRED:
            return default
        # A misspelt key explains a missing one better.
        meant = nearest(key, [other for other in self._config if other not in self._known])
        if meant:
            raise ConfigError(self._path, f"`{key}` is missing; is `{meant}` a misspelling of it?")
        raise ConfigError(self._path, f"`{key}` is missing")

    def _expect(self, key: str, value: Any, kind: type, expected: str) -> Any:
        if not isinstance(value, kind):
            raise self.error(key, f"{expected} is expected")
        return value

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key
