"""Kinds of devices together: each with its samples (type I between kinds), and its own layout."""

from __future__ import annotations

import math

from planners import Plan
from simulator.planning.candidates import mean_shares
from simulator.planning.judge import Judge
from simulator.planning.lifting import leaves_of
from simulator.planning.placements import Piece, Placement
from simulator.planning.shares import Shares, with_better_shares
from simulator.planning.subsets import FAR, Subset, subset_of

ROUNDS = 2
"""Of layouts and shares in turn."""


def together_s(
    judge: Judge, like: Plan, shares: Shares, byte_s: float = 0.0, *, refined: bool = False
) -> float:
    """What the layouts take of all kinds, in these shares, that should be best, each by itself.

    Bytes that a core holds cost ``byte_s`` seconds each. What kinds exchange is the same for
    all layouts but for its way to the ports. Infinite of one kind, or where one has no layouts;
    where one should take far more than the best, what that is.
    """
    kinds, pieces = judge.array.group.kinds, list[Piece]()
    if len(kinds) == 1:
        return math.inf
    for (device, _), share in zip(kinds, shares, strict=True):
        samples = _samples(like.batch, share / sum(shares))
        size = leaves_of(judge.array.group, device)
        subset = subset_of(judge, device, size, samples, byte_s, judge.best_s)
        if subset is None:
            return math.inf
        seconds, piece = _best(subset, refined=refined)
        if seconds > FAR * judge.best_s and not (refined or judge.execution.strict_memory):
            return seconds
        pieces.append(piece)
    return judge.seconds(Placement(tuple(pieces), shares).plan(judge.array, like))


def with_layouts_and_shares(judge: Judge, like: Plan) -> None:
    """Judge better layouts with the shares of the best plan, and then better shares.

    Layouts if all kinds work in it, and first: shares take many simulations, of a layout that
    may be left for a better one. Both again where a kind has another number of samples then.
    """
    before: tuple[int, ...] = ()
    for _ in range(ROUNDS):
        plan, group = judge.best, judge.array.group
        if plan is None:
            return
        shares = mean_shares(group, plan.root, 1.0)
        samples = tuple(_samples(plan.batch, share) for share in shares)
        if samples == before:
            return
        before = samples
        if all(shares):
            together_s(judge, like, shares, refined=True)
        with_better_shares(judge)


def _samples(batch: int, share: float) -> int:
    return max(1, round(batch * share))


def _best(subset: Subset, *, refined: bool) -> tuple[float, Piece]:
    seconds, picks = subset.estimated()[0]
    if refined:
        subset, picks = subset.refined(picks)
    return seconds, subset.piece(picks)
