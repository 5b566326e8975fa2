"""The engine once more, slow and obvious: one pass over everything in an order that can be.

Programs are drawn as one list of what happens, each item after all that it
needs, so that no clock is needed: a worker's control goes through its lines,
waits for each computation, and only registers for exchanges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A computation of one worker, or an exchange of several; ``needs`` are earlier items of each.

    ``needs`` has, for every worker in ``workers``, the places of earlier items
    that it takes part in.
    """

    name: str
    workers: tuple[int, ...]
    duration: int
    needs: tuple[tuple[int, ...], ...]
    exchange: bool


Times = dict[tuple[int, int], tuple[int, int]]
"""Start and end of every item in every turn."""


def times(items: Sequence[Item], micro_batches: int, slow: Sequence[Sequence[int]]) -> Times:
    """When everything happens; ``slow[worker][turn]`` times as long it takes to compute."""
    found: Times = {}
    free: dict[int, int] = {}
    for micro_batch in range(micro_batches):
        for place, item in enumerate(items):
            ready = [
                max([free.get(worker, 0), *(found[micro_batch, need][1] for need in needs)])
                for worker, needs in zip(item.workers, item.needs, strict=True)
            ]
            start = max(ready)
            longer = 1 if item.exchange else slow[item.workers[0]][micro_batch]
            found[micro_batch, place] = start, start + item.duration * longer
            if not item.exchange:
                free[item.workers[0]] = found[micro_batch, place][1]
    return found
