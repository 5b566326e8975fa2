"""What an option is: a flag and a key, what they take, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True, slots=True)
class Option:
    """A flag and a key, what they take, and what they mean."""

    key: str
    values: str
    """What a value looks like, as "N", "FILE" or "full|none"; "" for a switch."""
    about: str
    default: str = ""
    """The default as people read it; "" where ``value`` says it."""
    unit: str = ""
    kind: str = ""
    """How a value is read: text, int, float, switch, yes (a switch that says "yes"), many (may be
    given several times), spec (a key of the array's spec), attention, files; "" is one of
    ``values`` where these are several, else text."""
    value: Any = None
    """The parser's default."""
    flag: str = ""
    """Without the dashes; "" where it is the last part of the key."""
    shown: bool = False
    required: bool = False

    @property
    def name(self) -> str:
        """The flag without its dashes."""
        return self.flag or self.key.rpartition(".")[2].replace("_", "-")

    @property
    def otherwise(self) -> str:
        """The default, as people read it."""
        return self.default or ("" if self.value in (None, False, []) else str(self.value))

    @property
    def help(self) -> str:
        """The line of ``--help``."""
        unit = f", in {self.unit}" if self.unit else ""
        default = f" (default: {self.otherwise})" if self.otherwise else ""
        return (f"{self.about}{unit}{default}").replace("%", "%%")

    @property
    def keyword(self) -> str:
        """The same of a keyword in Python: the values too, where these are few."""
        values = f"one of {self.values.replace('|', ', ')}" if "|" in self.values else ""
        default = f"default: {self.otherwise}" if self.otherwise else ""
        more = "; ".join(filter(None, [values, default]))
        true = "True: " * (self.kind in ("switch", "yes"))
        unit = f", in {self.unit}" if self.unit else ""
        return f"{true}{self.about}{unit}" + (f" ({more})" if more else "")

    @property
    def choices(self) -> tuple[str, ...] | None:
        """The values there are, where these are few."""
        return tuple(self.values.split("|")) if "|" in self.values and not self.kind else None


def option(usage: str, about: str, default: str = "", **more: Any) -> Option:
    """An option that no ``--help`` lists: its key and what a value looks like, as "batch N"."""
    key, _, values = usage.partition(" ")
    return Option(key, values, about, default, **more)


shown = partial(option, shown=True)
"""An option that ``--help`` lists."""


def switch(key: str, about: str, default: str = "no") -> Option:
    """A flag without a value, off unless given; no ``--help`` lists it."""
    return option(key, about, default, kind="switch", value=False)
