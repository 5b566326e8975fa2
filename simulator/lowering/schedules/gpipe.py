"""GPipe (Huang et al., NeurIPS 2019): all micro-batches forward, then all backward.

As recalled: https://arxiv.org/abs/1811.06965. Bubble (p - 1) / m of the ideal time.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.lowering.schedules.schedule import BACKWARD, FORWARD, Pass, Rank, Schedule


def _order(rank: Rank) -> Iterator[Pass]:
    for chunk in range(rank.virtual):
        for number in range(rank.micro_batches):
            yield Pass(FORWARD, number, chunk)
    for chunk in reversed(range(rank.virtual)):
        for number in range(rank.micro_batches):
            yield Pass(BACKWARD, number, chunk)


GPIPE = Schedule("gpipe", _order, "all micro-batches forward, then all backward")
