"""What the search's plan does otherwise than AccPar's, by simulating one thing at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from experiments.studies.case import Case, simulated, step_of
from experiments.terms import duration
from hardware import Device, Group
from planners import Objective, Plan, PlanError, Split, load_planner
from planners.plan.updates import bucket_words, update_order_words
from simulator.search.candidates import alone, lifted, mean_shares, planned, shared

RIVAL = "accpar"
MOST_NAMES = 4
"""Layers that a sentence names."""


def otherwise(case: Case, plan: Plan, iteration_s: float) -> Iterator[str]:
    """A sentence for AccPar's step, and one for each thing that the plan does otherwise.

    AccPar is put on the same devices first, or given the same share; what is
    left of the difference is the layers' types, the size of buckets, and when weights are updated.
    """
    theirs, step = step_of(replace(case, planner=RIVAL))
    their_s = step.iteration_s
    yield f"{RIVAL} takes {duration(their_s)}, {their_s / iteration_s:.3f} times as long."
    like, said = _alike(case, plan, theirs)
    if like is not None:
        try:
            like_s = simulated(case, like).iteration_s
        except PlanError:
            return
        yield f"{said}: with that {RIVAL} takes {duration(like_s)} ({their_s / like_s:.3f} x)."
        theirs, their_s = like, like_s
    ordered = replace(plan, update_order="")
    waits_s = simulated(case, ordered).iteration_s if plan.update_order else iteration_s
    usual_s = waits_s
    if plan.bucket_bytes is not None:
        usual_s = simulated(case, replace(ordered, bucket_bytes=None)).iteration_s
    names = _relaid(plan.root, theirs.root, plan.nodes)
    if names:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        yield (
            f"Other types or shares for {len(names)} of {len(plan.nodes)} layers "
            f"({', '.join(names[:MOST_NAMES])}{more}): {their_s / usual_s:.3f} x."
        )
    if plan.bucket_bytes is not None:
        words = bucket_words(plan.bucket_bytes)
        yield f"{words[0].upper()}{words[1:]}: {usual_s / waits_s:.3f} x."
    if plan.update_order:
        words = update_order_words(plan.update_order)
        yield f"{words[0].upper()}{words[1:]}: {waits_s / iteration_s:.3f} x."


def _alike(case: Case, plan: Plan, theirs: Plan) -> tuple[Plan | None, str]:
    """The rival's plan on the devices that work in a plan, or with its share, and what that is."""
    array = case.execution.planned(case.array)
    group = array.group
    if (used := _used(plan.root, group)) is not None:
        device, size = used
        part = alone(array, device, size)
        objective = Objective.named(case.objective, case.communication)
        if part is None:
            return None, ""
        some = planned(load_planner(RIVAL), case.network, part, case.batch, objective)
        if some is None:
            return None, ""
        root = lifted(some.root, group, device, size, len(plan.nodes))
        what = "cores" if group.leaf == "core" else "boards"
        said = f"Only {size:,} {device.name} {what} of {group.size:,} work"
        return replace(some, root=root), said
    if len(group.kinds) > 1 and theirs.root is not None:
        shares = mean_shares(group, plan.root, 1.0)
        percents = ", ".join(
            f"{share:.1%} {device.name}"
            for share, (device, _) in zip(shares, group.kinds, strict=True)
        )
        said = f"One share for all layers ({percents})"
        return replace(theirs, root=shared(theirs.root, group, shares)), said
    return None, ""


def _used(split: Split | None, group: Group) -> tuple[Device, int] | None:
    """The one kind that works and how many of it, where others sit out."""
    whole = group.size
    while split is not None and split.idle:
        (working,) = split.working
        group, split = group.halves()[working], (split.halves[0], split.halves[-1])[working]
    if group.size == whole or len(group.kinds) > 1:
        return None
    return group.kinds[0][0], group.size


def _relaid(ours: Split | None, theirs: Split | None, names: tuple[str, ...]) -> list[str]:
    """Layers that any split of one plan treats otherwise than that of the other."""
    found, left = set[int](), [(ours, theirs)]
    while left:
        one, other = left.pop()
        if one is None or other is None:
            continue
        pairs = zip(one.partitions, other.partitions, strict=True)
        found.update(v for v, (mine, its) in enumerate(pairs) if mine != its)
        ends = (0, -1) if max(len(one.halves), len(other.halves)) > 1 else (0,)
        left += [(one.halves[end], other.halves[end]) for end in ends]
    return [names[v] for v in sorted(found)]
