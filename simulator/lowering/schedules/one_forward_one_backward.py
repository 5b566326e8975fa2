"""1F1B with a flush (PipeDream-Flush; Narayanan et al., ICML and SC 2021).

As recalled: https://arxiv.org/abs/2104.04473. Rank s of p computes p - s - 1
micro-batches ahead, then forward and backward in turn. The bubble is GPipe's, (p - 1) / m
of the ideal time; at most p - s micro-batches are in flight instead of m. Where places
have unlike numbers of replicas, p - s - 1 is PipeDream's number (``itinerary.ahead``):
with fewer ahead, one replica in front of four would wait for the first for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.lowering.schedules.schedule import (
    BACKWARD,
    FORWARD,
    Pass,
    Rank,
    Schedule,
    no_virtual,
)


def alternate(ahead: int, micro_batches: int) -> Iterator[Pass]:
    """So many forward first, then forward and backward in turn, then what is left."""
    ahead = min(ahead, micro_batches)
    for number in range(ahead):
        yield Pass(FORWARD, number)
    for number in range(micro_batches):
        if number + ahead < micro_batches:
            yield Pass(FORWARD, number + ahead)
        yield Pass(BACKWARD, number)


def _order(rank: Rank) -> Iterator[Pass]:
    return alternate(rank.ahead, rank.micro_batches)


ONE_FORWARD_ONE_BACKWARD = Schedule(
    "1f1b", _order, "forward and backward in turn, then a flush", check=no_virtual
)
