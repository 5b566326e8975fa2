"""Keys of another tool's file: what is asked for is taken out, and the rest is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hardware.reader import MOST_LISTED, Error, shown

_LONGEST = 200
"""Characters of a key: expressions that search one may take time by the square."""


class Fields:
    """Values of a file of another tool: what is asked for is taken out, and the rest is left."""

    def __init__(self, path: str, values: Mapping[str, Any], error: Error) -> None:
        if odd := [key for key in values if len(key) > _LONGEST or not key.isprintable()]:
            long = f"a key of more than {_LONGEST} characters"
            why = long if len(odd[0]) > _LONGEST else "a key with characters that cannot be printed"
            raise error(f"{path}: {shown(odd[0])}: {why}")
        self.path, self.left, self._error = path, dict(values), error
        self.notes = list[str]()
        """What to say to who reads the file."""

    def take(self, *names: str, otherwise: Any = None) -> Any:
        """The value of the first of these keys that has one; all of them are taken out."""
        found = [self.left.pop(name, None) for name in names]
        return next((value for value in found if value is not None), otherwise)

    def flag(self, *names: str, otherwise: bool = False) -> bool:
        """A value that is true or false."""
        value = self.take(*names, otherwise=otherwise)
        if not isinstance(value, bool):
            raise self.fault(names[0], value, "must be true or false")
        return value

    def count(self, *names: str, otherwise: Any = 0, most: int = (1 << 31) - 1) -> int:
        """A whole number that is not negative."""
        value = self.take(*names, otherwise=otherwise)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise self.fault(names[0], value, f"must be a whole number from 0 to {most:,}")
        return value

    def only(self, name: str, value: object) -> None:
        """Raise an error where a key has another value than this one."""
        if (found := self.take(name, otherwise=value)) != value:
            raise self.fault(name, found, f"only {value!r} is read")

    def fault(self, name: str, value: object, must: str) -> Exception:
        """The error of a key."""
        return self._error(f"{self.path}: {name}: {shown(value)}: {must}")

    def unknown(self, without_effect: re.Pattern[str]) -> list[str]:
        """A note of what is left, but for keys without effect."""
        keys = [shown(key, str) for key in self.left if not without_effect.fullmatch(key)]
        more = f" and {len(keys) - MOST_LISTED} more" if len(keys) > MOST_LISTED else ""
        listed = ", ".join(keys[:MOST_LISTED])
        return [f"not understood of {self.path}: {listed}{more}"] if keys else []
