"""What every state of a node takes among like cores, as numbers by state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from planners.partition import PartitionType, Shard
from simulator.planning.curves import Floats
from simulator.planning.states import States


class Costs(NamedTuple):
    """Of one node, seconds by state: its products, their sums, and its gradient's bytes.

    ``stream_s`` is the least that its gradient adds to the all-reduces of all.
    """

    states: States
    hollow: Any
    forward_s: Floats
    backward_s: Floats
    gradient_s: Floats
    update_s: Floats
    forward_sums_s: Floats
    backward_sums_s: Floats
    stream_s: Floats
    gradient_bytes: Floats
    reads: Floats
    """Fraction of its input's tensor that the first core reads."""
    makes: Floats
    """Fraction of its output's tensor that the first core's errors come as."""
    held_bytes: Floats
    """Of its weights, what the optimizer keeps of them, and what it makes forward."""
    backward_sums_bytes: Floats
    """Of errors, before they are summed."""


def fraction(shard: Shard, whole: Shard, kinds: Sequence[PartitionType]) -> float:
    """Which part of a whole a shard is that these types cut."""
    part = 1.0
    for kind in kinds:
        part *= shard[kind] / whole[kind]
    return part
