"""PipeDream's two cost models: its paper's formulas, and those of its released program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from hardware.quantity import parse_quantity
from planners.errors import PlanError
from planners.pipeline.states import Floats, States


@dataclass(frozen=True, slots=True)
class CostModel(ABC):
    """Seconds per minibatch of stages, in steady state; arrays in, arrays of one shape out.

    Activations sent between stages are divided by ``activation_ratio`` where they are
    compressed. With ``inner_links`` a unit that joins g components below has g links for the
    exchange of a stage alone (not for one that others precede). With ``first_source`` a plan
    begins with the first source of a profile (``states_of``).
    """

    activation_ratio: float | None = None
    name: ClassVar[str]
    inner_links: ClassVar[bool]
    first_source: ClassVar[bool] = False

    @abstractmethod
    def stage_s(
        self, time_s: Floats, weight_bytes: Floats, replicas: Floats, bytes_per_s: float
    ) -> Floats:
        """A stage on so many replicas: its work, and the exchange of its weights' gradients."""

    @abstractmethod
    def links_s(
        self, into: Floats, out: Floats, replicas: Floats, bytes_per_s: float
    ) -> Floats | None:
        """The slower of a stage's input (of shape (k,)) and output links; None: not counted."""

    @abstractmethod
    def crossing_bytes(self, states: States) -> Floats:
        """What crosses the cut after each state."""

    @abstractmethod
    def assumptions(self) -> list[str]:
        """What a reader of the answer should know of it."""


class Paper(CostModel):
    """SOSP'19, section 3.1: T(i..j, m) = max(A(i..j), 2 (m-1)/m W / B) / m, links 2 a / B.

    A worker sends and receives (m-1)/m of its W bytes of weights. Activations and
    their gradients go over one link, whatever the replicas at its ends; they are
    always counted. An output is the next stage's input, and not counted twice.
    """

    name = "paper"
    inner_links = False

    def stage_s(  # noqa: D102
        self, time_s: Floats, weight_bytes: Floats, replicas: Floats, bytes_per_s: float
    ) -> Floats:
        exchange = 2 * ((replicas - 1) / replicas) * weight_bytes / bytes_per_s
        return np.asarray(np.maximum(time_s, exchange) / replicas)  # at the same time

    def links_s(  # noqa: D102
        self,
        into: Floats,
        out: Floats,  # noqa: ARG002
        replicas: Floats,
        bytes_per_s: float,
    ) -> Floats | None:
        seconds = 2 * into / bytes_per_s / (self.activation_ratio or 1.0)
        return np.asarray(seconds + 0 * replicas)

    def crossing_bytes(self, states: States) -> Floats:
        """Outputs that a layer after the cut needs, each once."""
        return states.sent_bytes

    def assumptions(self) -> list[str]:  # noqa: D102
        told = "activations between stages are always counted"
        if self.activation_ratio is not None:
            told += f", divided by {self.activation_ratio:g}"
        return [f"The paper's cost model: {told}."]


class Repo(CostModel):
    """The released program: (T + 4 (m-1)/m W / (B g)) / m, work and exchange one after the other.

    A pipeline's stages after its first one take g = 1 on every level (an asymmetry of
    the program). With an activation ratio c, links take 2 a / (B m c) at both ends of
    a stage; without one they are not counted.
    Source: optimizer/optimizer_graph_hierarchical.py, msr-fiddle/pipedream 7db6a1c.
    """

    name = "repo"
    inner_links = True
    first_source = True

    def stage_s(  # noqa: D102
        self, time_s: Floats, weight_bytes: Floats, replicas: Floats, bytes_per_s: float
    ) -> Floats:
        exchange = 4 * (replicas - 1) * weight_bytes / (bytes_per_s * replicas)
        return np.asarray((time_s + exchange) / replicas)

    def links_s(  # noqa: D102
        self, into: Floats, out: Floats, replicas: Floats, bytes_per_s: float
    ) -> Floats | None:
        if self.activation_ratio is None:
            return None
        most = np.maximum(into, out)
        return np.asarray(2 * most / (bytes_per_s * replicas * self.activation_ratio))

    def crossing_bytes(self, states: States) -> Floats:
        """The program's augmented antichains; nothing leaves the last state."""
        found = states.counted_bytes.copy()
        found[-1] = 0.0
        return found

    def assumptions(self) -> list[str]:  # noqa: D102
        if self.activation_ratio is None:
            told = "activations between stages are not counted; --activation-ratio 1 does"
        else:
            told = f"activations between stages are counted, divided by {self.activation_ratio:g}"
        return [f"The released program's cost model: {told}."]


COST_MODELS: dict[str, type[CostModel]] = {"paper": Paper, "repo": Repo}
"""By the name that ``--cost-model`` takes."""


MOST_LEVELS = 6
MOST_IN_LEVEL = 1024
MOST_DEVICES = 1 << 20
_EXAMPLE = 'write it like "4@10 GB/s,4@1.25 GB/s", the innermost level first'


@dataclass(frozen=True, slots=True)
class Level:
    """``count`` components of the level below, joined by links of ``bytes_per_s``."""

    count: int
    bytes_per_s: float


def parse_hierarchy(text: str) -> tuple[Level, ...]:
    """The levels in "4@10 GB/s,4@1.25 GB/s", innermost first: four in each of four machines.

    Raises PlanError with the level that is wrong.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MOST_LEVELS:
        raise PlanError(f"--hierarchy: {len(parts)} levels; at most {MOST_LEVELS} are planned")
    levels = tuple(map(_level, parts))
    total = prod(level.count for level in levels)
    if total > MOST_DEVICES:
        raise PlanError(f"--hierarchy: {total} devices; at most {MOST_DEVICES} are planned")
    return levels


def _level(part: str) -> Level:
    count, at, bandwidth = part.partition("@")
    count = count.strip()
    digits = count.isascii() and count.isdigit() and len(count) <= 6
    if not (at and digits and 1 <= int(count) <= MOST_IN_LEVEL):
        raise PlanError(
            f"--hierarchy: level {part[:40]!r} must be 1...{MOST_IN_LEVEL}, an @ and a "
            f"bandwidth; {_EXAMPLE}"
        )
    try:
        return Level(int(count), parse_quantity(bandwidth, "B/s"))
    except ValueError as error:
        raise PlanError(f"--hierarchy: level {part[:40]!r}: {error}; {_EXAMPLE}") from None
