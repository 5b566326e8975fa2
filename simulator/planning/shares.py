"""One number for a split of unlike devices: the share that the simulator likes best."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hardware import Group
from planners import Plan, Split
from simulator.planning.candidates import mean_shares
from simulator.planning.judge import Judge
from simulator.planning.lifting import leaves_of, shared

FACTORS = (1.5, 1.2, 1.08, 1.03)
"""By which a kind's share is made larger or smaller, in turn, as long as that helps."""
MOST_STEPS, MOST_LINES = 40, 150_000
"""Plans that are simulated, and lines of all their scripts: about ten seconds."""
MULTIPLES = (1, 2, 4, 8)
"""Of whole samples for each device of a kind: full tiles have no more than 8 rows."""

Shares = tuple[float, ...]


def with_better_shares(judge: Judge) -> None:
    """Judge the best plan with other shares of each kind, all nodes alike."""
    plan, group = judge.best, judge.array.group
    if plan is None or len(group.kinds) == 1 or not _parts_work(plan.root, group):
        return
    shares = mean_shares(group, plan.root, 1.0)
    best_s, steps, lines = judge.best_s, judge.evaluations + MOST_STEPS, judge.spent + MOST_LINES
    best_s = min(best_s, judge.seconds(_with(plan, group, shares)))
    shares, best_s = _with_whole_samples(judge, plan, shares, best_s)
    kinds = range(len(shares) if len(shares) > 2 else 1)  # more for one of two: less for the other
    for factor in FACTORS:
        for kind in kinds:
            for by in (factor, 1 / factor):
                while judge.evaluations < steps and judge.spent < lines:
                    other = tuple(s * (by if i == kind else 1) for i, s in enumerate(shares))
                    found_s = judge.seconds(_with(plan, group, other))
                    if found_s >= best_s:
                        break
                    shares, best_s = other, found_s
    _with_whole_samples(judge, plan, shares, best_s)


def _with_whole_samples(
    judge: Judge, plan: Plan, shares: Shares, best_s: float
) -> tuple[Shares, float]:
    """Shares nearby of which every device of a kind has as many samples.

    With 41 samples on some devices and 40 on others all wait for the former, and
    where tiles have 8 rows these do as much as for 48.
    """
    group = judge.array.group
    for other in whole_samples(group, plan.batch, shares):
        found_s = judge.seconds(_with(plan, group, other))
        if found_s < best_s:
            shares, best_s = other, found_s
    return shares, best_s


def whole_samples(group: Group, batch: int, shares: Shares) -> Iterator[Shares]:
    """The nearest shares of which each device of one kind has a multiple of some samples.

    The other kinds have the rest, in proportion to what they have.
    """
    total = sum(shares)
    found = set[Shares]()
    for kind, (device, _) in enumerate(group.kinds):
        many = leaves_of(group, device)
        each = batch * shares[kind] / total / many
        rest = total - shares[kind]
        for step in MULTIPLES:
            for rounded in (math.floor(each / step), math.ceil(each / step)):
                own = rounded * step * many / batch
                if 0 < own < 1 and rest > 0:
                    other = tuple(
                        own if i == kind else (1 - own) * share / rest
                        for i, share in enumerate(shares)
                    )
                    if other not in found:
                        found.add(other)
                        yield other


def _with(plan: Plan, group: Group, shares: Shares) -> Plan:
    return replace(plan, root=shared(plan.root, group, shares))


def _parts_work(split: Split | None, group: Group) -> bool:
    """Whether more than one kind has something to do."""
    return sum(share > 0 for share in mean_shares(group, split, 1.0)) > 1
