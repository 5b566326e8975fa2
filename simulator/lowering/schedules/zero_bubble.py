"""Zero bubble, ZB-H1 (Qi et al., ICLR 2024): the gradients of weights fill what is idle.

As recalled: https://arxiv.org/abs/2401.10241. Backward is cut in two: errors go back at
once, gradients of weights wait for idle time. Rank s begins with them s
micro-batches late, so that all hold as many as under 1F1B.
"""

from __future__ import annotations

from collections.abc import Iterator

from simulator.lowering.schedules.schedule import (
    ERRORS,
    FORWARD,
    WEIGHTS,
    Pass,
    Rank,
    Schedule,
    no_virtual,
)


def _order(rank: Rank) -> Iterator[Pass]:
    """The last of three ranks, five micro-batches: F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4."""
    many = rank.micro_batches
    ahead, late = min(rank.ahead, many), rank.rank
    for number in range(ahead):
        yield Pass(FORWARD, number)
    for number in range(many):
        if number + ahead < many:
            yield Pass(FORWARD, number + ahead)
        yield Pass(ERRORS, number)
        if number >= late:
            yield Pass(WEIGHTS, number - late)
    for number in range(max(many - late, 0), many):
        yield Pass(WEIGHTS, number)


ZERO_BUBBLE = Schedule(
    "zero-bubble",
    _order,
    "1f1b whose gradients of weights fill the idle time (ZB-H1)",
    check=no_virtual,
)
