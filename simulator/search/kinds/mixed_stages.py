"""Stages that have all kinds of devices: each kind takes its part of the micro-batches.

Every stage has as many blocks and the same replicas of each kind. In a round a replica of kind k
takes t_k micro-batches, about as its speed. Of M micro-batches, R_k replicas of each kind, which
take a_k for a micro-batch through all layers, and p stages a step takes about

    (M / L + p - 1) max of t_k a_k / p,   L = sum of R_k t_k
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from planners.axes.degrees import powers_to
from simulator.search.kinds.stage_costs import StageCosts

SLOWEST = 4
"""Most micro-batches of a round for a replica of the slowest kind."""


class MixedStages(NamedTuple):
    """So many alike stages, each as ``stage_hw`` has it, and their estimated seconds."""

    seconds: float
    stage_hw: str
    stages: int


def mixed_stages(costs: StageCosts, micro_batches: int) -> Iterator[MixedStages]:
    """All that go round; none on devices of one kind."""
    kinds, blocks = costs.array.group.kinds, len(costs.cut.firsts)
    if len(kinds) == 1:
        return
    for widths in product(*costs.widths):
        each_s = [costs.seconds(kind, tp) for kind, tp in enumerate(widths)]
        for stages in powers_to(blocks):
            per_stage = [tp * stages for tp in widths]
            replicas = [many // each for (_, many), each in zip(kinds, per_stage, strict=True)]
            if not all(replicas) or blocks % stages:
                continue
            for turns in _turns(each_s):
                rounds, rest = divmod(micro_batches, sum(map(int.__mul__, replicas, turns)))
                if rest or not rounds:
                    continue
                slowest_s = max(map(float.__mul__, map(float, turns), each_s)) / stages
                parts = (
                    f"{device.name}:{tp}x{many}@{turn}"
                    for (device, _), tp, many, turn in zip(
                        kinds, widths, replicas, turns, strict=True
                    )
                )
                yield MixedStages((rounds + stages - 1) * slowest_s, "+".join(parts), stages)


def _turns(each_s: Sequence[float]) -> list[tuple[int, ...]]:
    """Micro-batches of a round for a replica of each kind, by what one takes them."""
    slowest_s = max(each_s)
    scaled = (
        tuple(max(1, round(many * slowest_s / s)) for s in each_s) for many in range(1, SLOWEST + 1)
    )
    return list(dict.fromkeys(scaled))
