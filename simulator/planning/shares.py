"""One number for a split of unlike devices: the share that the simulator likes best."""

from __future__ import annotations

from dataclasses import replace

from hardware import Group
from planners import Plan, Split
from simulator.planning.candidates import mean_shares
from simulator.planning.judge import Judge
from simulator.planning.lifting import shared

FACTORS = (1.5, 1.2, 1.08, 1.03)
"""By which a kind's share is made larger or smaller, in turn, as long as that helps."""
MOST_STEPS = 40
"""Plans that are simulated."""


def with_better_shares(judge: Judge) -> None:
    """Judge the best plan with other shares of each kind, all nodes alike."""
    plan, group = judge.best, judge.array.group
    if plan is None or len(group.kinds) == 1 or not _parts_work(plan.root, group):
        return
    shares = mean_shares(group, plan.root, 1.0)
    best_s, most = judge.best_s, judge.evaluations + MOST_STEPS
    best_s = min(best_s, judge.seconds(_with(plan, group, shares)))
    for factor in FACTORS:
        for kind in range(len(shares)):
            for by in (factor, 1 / factor):
                while judge.evaluations < most:
                    other = tuple(s * (by if i == kind else 1) for i, s in enumerate(shares))
                    found_s = judge.seconds(_with(plan, group, other))
                    if found_s >= best_s:
                        break
                    shares, best_s = other, found_s


def _with(plan: Plan, group: Group, shares: tuple[float, ...]) -> Plan:
    return replace(plan, root=shared(plan.root, group, shares))


def _parts_work(split: Split | None, group: Group) -> bool:
    """Whether more than one kind has something to do."""
    return sum(share > 0 for share in mean_shares(group, split, 1.0)) > 1
