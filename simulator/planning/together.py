"""Kinds of devices together: each with its samples (type I between kinds), and its own layout."""

from __future__ import annotations

from collections.abc import Sequence

from planners import Plan
from simulator.planning.candidates import mean_shares, proportions
from simulator.planning.judge import Judge
from simulator.planning.lifting import leaves_of
from simulator.planning.placements import Piece, Placement
from simulator.planning.shares import with_better_shares
from simulator.planning.subsets import Subset, subset_of

ROUNDS = 2
"""Of layouts and shares in turn."""


def with_proportions(judge: Judge, like: Plan, byte_s: float = 0.0) -> None:
    """Judge the likely best layouts of all kinds, with shares in proportion to peaks, or to HBM."""
    for shares in proportions(judge.array.group)[:2]:
        _judge(judge, like, shares, byte_s, refined=False)


def with_layouts_and_shares(judge: Judge, like: Plan) -> None:
    """Judge better layouts with the shares of the best plan, and then better shares.

    Layouts if all kinds work in it, and first: shares take many simulations, of a layout that
    may be left for a better one. Both again where a kind has another number of samples then.
    """
    before: tuple[int, ...] = ()
    for _ in range(ROUNDS):
        plan, group = judge.best, judge.array.group
        if plan is None or len(group.kinds) == 1:
            return
        shares = mean_shares(group, plan.root, 1.0)
        samples = tuple(_samples(plan.batch, share) for share in shares)
        if samples == before:
            return
        before = samples
        if all(shares):
            _judge(judge, like, shares, 0.0, refined=True)
        with_better_shares(judge)


def _judge(
    judge: Judge, like: Plan, shares: Sequence[float], byte_s: float, *, refined: bool
) -> None:
    """The layouts of all kinds that should be best, each kind by itself.

    What kinds exchange is the same for all layouts but for its way to the ports.
    """
    pieces: list[Piece] = []
    for (device, _), share in zip(judge.array.group.kinds, shares, strict=True):
        samples = _samples(like.batch, share / sum(shares))
        size = leaves_of(judge.array.group, device)
        subset = subset_of(judge, device, size, samples, byte_s, judge.best_s)
        if subset is None:
            return
        pieces.append(_best(subset, refined=refined))
    judge.seconds(Placement(tuple(pieces), tuple(shares)).plan(judge.array, like))


def _samples(batch: int, share: float) -> int:
    return max(1, round(batch * share))


def _best(subset: Subset, *, refined: bool) -> Piece:
    _, picks = subset.estimated()[0]
    if refined:
        subset, picks = subset.refined(picks)
    return subset.piece(picks)
