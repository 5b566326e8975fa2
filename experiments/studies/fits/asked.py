"""What is asked of a fit beside a network and an array: limits, the aim, tokens of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from experiments.output import UsageError
from experiments.studies.fits.fit import BEST, EVERY
from experiments.studies.options import share_of
from hardware import parse_quantity
from workloads import Network

OBJECTIVES = {
    "time": ("iteration_s", 1),
    "tokens": ("tokens_per_s_each", -1),
    "cost": ("usd_per_trillion_tokens", 1),
    "energy": ("j_per_trillion_tokens", 1),
}
"""Of each aim the column, and whether little (1) or much (-1) of it is good."""


@dataclass(frozen=True, slots=True)
class AtMost:
    """Limits: the share of a device's memory that a step may fill, and its seconds."""

    memory: float = inf
    time: float = inf

    def broken(self, row: Mapping[str, Any], share: float) -> str:
        """Which limit a step breaks that fills this share of a device; "" for none."""
        if share > self.memory:
            return f"it fills {share:.1%} of the memory: more than --at-most memory={self.memory:g}"
        if self.late(row):
            return f"it takes {row['iteration_s']:.4g} s: more than --at-most time={self.time:g} s"
        return ""

    def late(self, row: Mapping[str, Any]) -> bool:
        """Whether a step that was simulated takes too long."""
        return bool(row["iteration_s"]) and row["iteration_s"] > self.time


def at_most_of(text: str | None) -> AtMost:
    """Limits as "memory=0.94,time=2 s"; raises UsageError for others."""
    found: dict[str, float] = {}
    for part in (text or "").split(","):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not part.strip():
            continue
        if key not in ("memory", "time") or not equals or key in found:
            raise UsageError(f"--at-most {text}: write memory=0.94 or time=2s, each once")
        try:
            found[key] = share_of(value) if key == "memory" else parse_quantity(value, "s", 1e6)
        except ValueError as error:
            raise UsageError(f"--at-most {part.strip()}: {error}") from None
        if key == "memory" and not 0 < found[key] <= 1:
            what = "a share of the memory, from 0 to 1, as 0.94 or 94%"
            raise UsageError(f"--at-most {part.strip()}: {what}")
    return AtMost(**found)


def best_of(given: str | int | None) -> int:
    """How many combinations the engine simulates. Raises UsageError for no number."""
    if given is None:
        return BEST
    if str(given) == "all":
        return EVERY
    text = str(given)
    if not (text.isascii() and text.isdigit() and len(text) < 7 and int(text) > 0):
        raise UsageError(f'--best {given}: write how many the engine simulates, as 20, or "all"')
    return int(text)


def batch_of_tokens(network: Network, tokens: int) -> int:
    """Samples of a step with so many tokens; raises UsageError where these are no whole samples."""
    each = network.tokens
    if each is None:
        raise UsageError(
            f"--tokens-per-step {tokens}: samples of {network.name!r} are no sequences of tokens; "
            "say --batch"
        )
    if tokens < 1 or tokens % each:
        raise UsageError(
            f"--tokens-per-step {tokens}: a sample of {network.name!r} has {each:,} tokens; take a "
            f"multiple, as {max(round(tokens / each), 1) * each}"
        )
    return tokens // each


def score(row: Mapping[str, Any], objective: str) -> float:
    """By what combinations are ordered, the best first; raises UsageError for what is unknown."""
    column, sign = OBJECTIVES[objective]
    if row[column] is None:
        raise UsageError(f"--objective {objective}: samples are no sequences of tokens")
    return float(sign * row[column])


VARIED_OR_GIVEN = (
    "as of simulate, for all combinations (default: varied, where axes does not leave it out)"
)
"""What fit's keywords say of an option that is varied unless it is given."""
OF_COMBINATIONS = {
    "micro_batches": "take --axes micro-batch, with others that you vary",
    "stages": "take --parallel pp=P",
    "virtual": "take --parallel vp=V",
    "cuts": "simulate takes them",
    "vertical_sync": "simulate takes it",
}
"""Options of steps that fit does not take, and what to do instead."""


def check_told(options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option that each combination has of its own."""
    for name, instead in OF_COMBINATIONS.items():
        if (value := options.get(name)) is True or value not in (None, False, "", 1):
            words = name.replace("_", "-")
            raise UsageError(
                f"fit: {name} = {value}: each combination has {words} of its own; {instead}"
            )
