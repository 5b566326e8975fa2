"""PipeDream's 1F1B-RR (Narayanan et al., SOSP 2019): no flush, an update for each minibatch.

The order is that of the public runtime (msr-fiddle/pipedream, commit 7db6a1c): a
replica of stage s computes floor((R - 1 - sum of r_i for i < s) / r_s) minibatches ahead,
R ranks in all, then forward and backward in turn. It keeps the weights of
every minibatch in flight (weight stashing).
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.lowering.schedules.one_forward_one_backward import alternate
from simulator.lowering.schedules.schedule import Pass, Rank, Schedule, no_virtual


def _order(rank: Rank) -> Iterator[Pass]:
    return alternate(rank.ahead, rank.micro_batches)


PIPEDREAM = Schedule(
    "pipedream",
    _order,
    "1f1b without a flush, an update for each minibatch (weight stashing)",
    flushes=False,
    whole_batch=False,
    check=no_virtual,
)
