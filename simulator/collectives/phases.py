"""A collective's phases: what is loaded, by which share of its bytes."""

from __future__ import annotations

from dataclasses import dataclass

from simulator.collectives.messages import Carried, Ends
from simulator.engine.jobs import Load


@dataclass(frozen=True, slots=True, eq=False)
class CollectivePhase:
    """Alike steps in a row: ``share`` of a collective's bytes per flow, over all of them.

    ``far`` are ends of messages of which one has the longest latency, and that
    is one of the ``count`` steps'. A pipelined phase is cut into chunks, which
    pass ``stages`` more members after the first.
    """

    load: Load
    far: Ends
    share: float
    count: int = 1
    stages: int = 0

    @property
    def nbytes(self) -> int:
        """Of its arrays."""
        return self.load.nbytes + 2 * self.far[0].nbytes


Pattern = tuple[CollectivePhase, ...]
"""What a collective is, one phase after the other."""


def phase_of(carried: Carried, share: float, count: int = 1) -> CollectivePhase:
    """So many alike steps in which flows move a share of the bytes, all together."""
    return CollectivePhase(carried.load, carried.far, share, count)
