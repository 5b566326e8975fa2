"""PipeDream-2BW (Narayanan et al., ICML 2021): no flush, an update for each batch.

As recalled: https://arxiv.org/abs/2006.09503. Gradients of the m micro-batches of a
batch are summed, m at least what is in flight; a batch is computed with the weights of
the batch before the last, so that two versions are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.lowering.schedules.one_forward_one_backward import alternate
from simulator.lowering.schedules.schedule import Pass, Rank, Schedule, no_virtual


def _order(rank: Rank) -> Iterator[Pass]:
    return alternate(rank.ahead, rank.micro_batches)


def _check(replicas: Sequence[int], virtual: int, micro_batches: int) -> str | None:
    """The first micro-batch of batch t is computed when batch t - 2 is through everywhere."""
    if micro_batches < (least := sum(replicas)):
        return f"two versions are enough from {least} micro-batches on, not with {micro_batches}"
    return no_virtual(replicas, virtual, micro_batches)


TWO_BUFFERED = Schedule(
    "2bw",
    _order,
    "1f1b without a flush, an update for each batch (two versions of the weights)",
    flushes=False,
    check=_check,
)
