"""What every method is: options that are checked, and processes that it starts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from random import Random
from typing import Any, ClassVar, Self, get_type_hints

from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.run import Run


@dataclass(frozen=True)
class Algorithm(ABC):
    """A way to train together: a frozen dataclass whose fields are its options.

    ``source`` names its paper, ``recalled`` says what of it is from memory.
    ``graph`` is the communication graph that it uses where none is named ("":
    it uses none). ``together`` says whether workers keep the pace of the slowest of them, at once
    or in the end, or each its own.
    """

    source: ClassVar[str]
    recalled: ClassVar[str] = ""
    graph: ClassVar[str] = ""
    together: ClassVar[bool] = True

    @property
    def servers(self) -> int:
        """Parameter servers that it needs."""
        return 0

    def check(self, workers: int) -> None:  # noqa: B027  (most options always make sense)
        """Raise TrainingError where its options make no sense for so many workers."""

    @abstractmethod
    def start(self, run: Run) -> None:
        """Start its workers' processes."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """With options as text; raises TrainingError for what it has not, or cannot read."""
        known = {one.name: one for one in fields(cls)}
        kinds = get_type_hints(cls)
        if unknown := [name for name in options if name not in known]:
            have = ", ".join(known) or "none"
            raise TrainingError(f"option {unknown[0]!r}: {_name(cls)} has {have}")
        return cls(
            **{name: _read(known[name], kinds[name], text) for name, text in options.items()}
        )


def _name(cls: type) -> str:
    return (cls.__doc__ or cls.__name__).partition(":")[0].partition(".")[0].lower()


def _read(field: Field[Any], kind: Any, text: str) -> Any:
    apart = "; write ':' between options, not ','" if "," in text else ""
    if kind is bool and text not in ("yes", "no"):
        raise TrainingError(f"option {field.name}={text}: yes or no{apart}")
    choices = field.metadata.get("choices")
    if choices and text not in choices:
        raise TrainingError(f"option {field.name}={text}: one of {', '.join(choices)}{apart}")
    if kind is bool:
        return text == "yes"
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if isinstance(value, float) and not math.isfinite(value):
        what = "a number" if kind is float else "a whole number"
        raise TrainingError(f"option {field.name}={text}: {what}{apart}")
    return value


def within(name: str, value: int, least: int, most: int | None = None, why: str = "") -> None:
    """Raise TrainingError unless an option is within its bounds."""
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"within {least}…{most}"
        raise TrainingError(f"option {name}={value}: {bounds}" + (f", {why}" if why else ""))


def both_ways(run: Run) -> None:
    """Raise TrainingError where edges of the communication graph go one way."""
    if run.graph.one_way:
        raise TrainingError(f"graph {run.graph.name!r}: some edges go one way; only hop has a use")


def seeded(words: str) -> Random:
    """Random numbers of one purpose: the same ones for the same words, under every hash seed."""
    return Random(words)  # noqa: S311  (drawn, not kept secret)
