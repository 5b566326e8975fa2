"""PipeDream-2BW (Narayanan et al., ICML 2021): no flush, an update for each batch.

As recalled: https://arxiv.org/abs/2006.09503. Gradients of the m micro-batches of a
batch are summed, m at least the number of stages; a batch is computed with the weights of
the batch before the last, so that two versions are enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.lowering.schedules.one_forward_one_backward import alternate
from simulator.lowering.schedules.schedule import Pass, Rank, Schedule, no_virtual


def _order(rank: Rank) -> Iterator[Pass]:
    return alternate(rank.ahead, rank.micro_batches)


def _check(ranks: int, virtual: int, micro_batches: int) -> str | None:
    if micro_batches < ranks:
        return f"two versions are enough from {ranks} micro-batches on, not with {micro_batches}"
    return no_virtual(ranks, virtual, micro_batches)


TWO_BUFFERED = Schedule(
    "2bw",
    _order,
    "1f1b without a flush, an update for each batch (two versions of the weights)",
    flushes=False,
    check=_check,
)
