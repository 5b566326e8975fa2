"""Stages on devices of their own: kinds, widths of tp and replicas that differ by stage.

``v100:1x4;t4:2x2+v100:1x2`` are two stages. The first has four replicas of one V100 each. The
second has two replicas of two T4 (tp 2) and two of one V100. Each stage takes the next free
devices of a kind, in the order of the array. A stage's replicas take micro-batches in turn:
one each, or as many as ``@`` says. In ``h100:1x4@2+a100:1x4`` an H100 takes two for one of an A100.
Of devices with several cores, cores are counted, as by the axes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from hardware import Array
from planners.axes.degrees import Axes
from planners.axes.stage_cuts import blocks_of
from planners.errors import PlanError
from planners.pipeline.staging import Staging
from planners.plan import MOST_TURNS, Place
from workloads import Graph

MOST_STAGES = 1 << 10
_PART = re.compile(r"([\w.-]{1,60}):(\d{1,5})x(\d{1,5})(?:@(\d{1,2}))?", re.ASCII)


class Replicas(NamedTuple):
    """``number`` replicas of a stage, each on ``tp`` devices of a kind.

    Each takes ``turns`` micro-batches of a round of all replicas.
    """

    kind: str
    tp: int
    number: int
    turns: int = 1


def stage_devices(text: str) -> tuple[tuple[Replicas, ...], ...]:
    """Return the replicas of each stage; raises PlanError for text that is not of the form."""
    stages = text.replace(" ", "").split(";")
    if len(stages) > MOST_STAGES:
        raise PlanError(f"stage-hw: {len(stages):,} stages; at most {MOST_STAGES:,}")
    return tuple(tuple(map(_replicas, stage.split("+"))) for stage in stages)


def _replicas(text: str) -> Replicas:
    found = _PART.fullmatch(text)
    numbers = [int(one or 1) for one in found.groups()[1:]] if found else [0]
    if found is None or not all(numbers) or numbers[-1] > MOST_TURNS:
        raise PlanError(
            f"stage-hw={text[:60]}: write a kind, tp and replicas for each stage, as "
            "v100:1x4;t4:2x2 (two replicas of two T4), + between the kinds of one stage, and @2 "
            f"where each replica takes two micro-batches in its turn (at most {MOST_TURNS})"
        )
    return Replicas(found[1], *numbers)


def on_devices(axes: Axes, stages: Sequence[Sequence[Replicas]]) -> Axes | None:
    """Axes where ``stages`` says tp, dp and pp; None without any stages.

    Alike replicas, as many in each stage, are ways of dp; else dp is 1, and each replica is
    planned by itself. Raises PlanError for axes that say something else.
    """
    if not stages:
        return None
    pp, alike = len(stages), {stage[0][1:3] for stage in stages if len(stage) == 1}
    tp, dp = alike.pop() if len(alike) == 1 and all(len(one) == 1 for one in stages) else (1, 1)
    alone = axes.ep > 1 and dp == 1
    if axes.pp not in (1, pp) or axes.dp not in (0, dp) or axes.tp not in (1, tp) or alone:
        raise PlanError(
            f"parallel={axes}: stage-hw says pp={pp}, and tp and dp of each stage; beside it "
            "parallel may say sp, vp and cp, and ep where all stages have as many alike replicas"
        )
    return replace(axes, pp=pp, tp=tp, dp=dp)


def with_stages(staging: Staging) -> Staging:
    """The same with the axes that its ``stage_hw`` says; raises PlanError as ``on_devices``."""
    if not staging.stage_hw:
        return staging
    axes = on_devices(staging.parallel or Axes(), stage_devices(staging.stage_hw))
    return replace(staging, parallel=axes)


def replicas_apart(staging: Staging) -> bool:
    """Whether a stage has replicas that are each planned by themselves, unlike others of it.

    They update their weights whole, each its own: ZeRO shares them out in one plan.
    """
    stages = stage_devices(staging.stage_hw) if staging.stage_hw else ()
    axes = on_devices(staging.parallel or Axes(), stages)
    many = max((sum(one.number for one in stage) for stage in stages), default=1)
    return axes is not None and axes.dp == 1 < many


def stage_layers(text: str) -> tuple[int, ...]:
    """Return the layers of each stage, as 7;7;6;10, or of Megatron's layout; raises PlanError."""
    if any(letter in text for letter in LAYOUT):
        return layout_counts(text)
    parts = text.strip("[]()").replace(" ", "").replace(";", ",").split(",")
    if len(parts) > MOST_STAGES or not all(re.fullmatch(r"\d{1,6}", part) for part in parts):
        raise PlanError(f"stage-layers={text[:60]}: write a number for each stage, as 7;7;6;10")
    return tuple(map(int, parts))


LAYOUT = "EtmL"
"""Letters of a layout: the embedding, a block, a module for a further token, the loss."""
_TIMES = re.compile(r"\(([^()]*)\)\*(\d{1,4})|([EtmL])\*(\d{1,4})")


def layout_counts(text: str) -> tuple[int, ...]:
    """Return the layers of each stage of Megatron's pipeline layout, as ``Et*3|(tt|)*29L``.

    The embedding and the loss count as one each; modules for further tokens do not count, for
    networks here have none. Raises PlanError.
    """
    whole = text.replace(" ", "").replace(",", "")
    while found := _TIMES.search(whole):
        part, many = found[1] if found[1] is not None else found[3], int(found[2] or found[4])
        if len(part) * many > MOST_LETTERS or len(whole) > MOST_LETTERS:
            raise PlanError(f"layout {text[:60]}: more than {MOST_LETTERS:,} layers")
        whole = whole[: found.start()] + part * many + whole[found.end() :]
    stages = whole.split("|")
    if not re.fullmatch(r"E?[tm|]*L?", whole) or len(stages) > MOST_STAGES:
        raise PlanError(
            f"layout {text[:60]}: write E, t for each block and L, with | between stages, as "
            "Et*3|(tt|)*29L"
        )
    if whole.count("E") != whole.count("L"):
        raise PlanError(f"layout {text[:60]}: name both E and L, or neither")
    return tuple(len(stage) - stage.count("m") for stage in stages)


MOST_LETTERS = 1 << 16


def layout_of(layers: Sequence[int], blocks: int) -> str:
    """Megatron's layout of so many layers in each stage (``first_nodes_of``)."""
    before = (sum(layers) - blocks) // 2
    found, passed = list[str](), -before
    for many in layers:
        inside = max(min(passed + many, blocks), 0) - max(min(passed, blocks), 0)
        found.append(f"t*{inside}" if inside > 1 else "t" * inside)
        passed += many
    return f"E{'|'.join(found)}L"


def places_on(array: Array, stages: Sequence[Sequence[Replicas]], each: int = 1) -> list[Place]:
    """The devices of each stage's replicas, ``each`` times tp of them (for context parallelism).

    Raises PlanError for a kind that the array has not, or has too few of.
    """
    free: dict[str, list[range]] = {}
    first = 0
    for (device, _), count in zip(array.group.kinds, array.group.leaves, strict=True):
        free.setdefault(device.name, []).append(range(first, first + count))
        first += count
    return [
        _place(
            [part for one in stage for part in _taken(array, free, one, each)],
            _turns(one.turns for one in stage for _ in range(one.number)),
        )
        for stage in stages
    ]


def _taken(
    array: Array, free: dict[str, list[range]], of: Replicas, each: int
) -> list[tuple[int, int]]:
    """The first device and number of each replica; they are free no longer."""
    name = _kind(array, list(free), of.kind)
    count, found = of.tp * each, list[tuple[int, int]]()
    for _ in range(of.number):
        for k, left in enumerate(free[name]):
            if len(left) >= count:
                found.append((left.start, count))
                free[name][k] = left[count:]
                break
        else:
            kinds = zip(array.group.kinds, array.group.leaves, strict=True)
            had = sum(many for (device, _), many in kinds if device.name == name)
            cores = "" if array.group.size == array.group.units else "cores of "
            raise PlanError(
                f"stage-hw: {of.kind}:{of.tp}x{of.number}: {array.name!r} has {had:,} {cores}"
                f"{name}, and not so many are left for this stage"
            )
    return found


def _kind(array: Array, names: Sequence[str], asked: str) -> str:
    """The array's device of that name, or the one whose name begins with it."""
    wanted = asked.lower()
    begins = [name for name in names if name.lower().startswith(wanted)]
    exact = [name for name in names if name.lower() == wanted]
    for found in (exact, begins):
        if len(found) == 1:
            return found[0]
    what = "is not one kind" if begins else "is not there"
    raise PlanError(f"stage-hw: {asked}: {what}; {array.name!r} has {', '.join(names)}")


def _turns(each: Iterable[int]) -> tuple[int, ...]:
    """Micro-batches of each replica in the shortest round; none where all take one."""
    turns = tuple(each)
    shortest = tuple(many // gcd(*turns) for many in turns)
    return shortest if max(shortest) > 1 else ()


def _place(parts: Sequence[tuple[int, int]], turns: tuple[int, ...]) -> Place:
    """A stage's replicas: a range of devices where they are alike and neighbours."""
    first, each = parts[0]
    count = sum(many for _, many in parts)
    if all(part == (first + k * each, each) for k, part in enumerate(parts)):
        parts = ()
    replicas = count // each if not parts else len(parts)
    return Place(first, count, replicas, tuple(parts), turns)


def first_nodes_of(graph: Graph, layers: Sequence[int], stages: int) -> tuple[int, ...]:
    """The first node of each of the stages, which have so many layers.

    Layers are the network's blocks. Where there are more, frameworks count what is before and
    behind the blocks (embedding, norm, head, casts) as layers: half of the rest, rounded down,
    stands before the blocks, the others behind. Raises PlanError for fewer than the blocks.
    """
    if len(layers) != stages:
        raise PlanError(
            f"stage-layers: {len(layers)} numbers for {stages} stages (pp x vp); write one for each"
        )
    blocks = blocks_of(graph)
    begins = (*blocks.firsts, blocks.end)
    number = len(blocks.firsts)
    before, rest = divmod(sum(layers) - number, 2)
    if not number or sum(layers) < number:
        raise PlanError(
            f"stage-layers: {sum(layers)} layers; the network has {number} blocks: say all of them"
        )
    outside = blocks.firsts[0] + len(graph) - blocks.end
    if sum(layers) - number > max(outside, 2):
        raise PlanError(
            f"stage-layers: {sum(layers)} layers; the network has {number} blocks, and {outside} "
            "layers outside them: say as many"
        )
    found, passed = [0], 0
    for many in layers[:-1]:
        passed += many
        at = passed - before
        if not 0 <= at <= number or (at == number and blocks.end == len(graph)):
            where = "before the first block" if at < 0 else "behind the last block"
            raise PlanError(
                f"stage-layers: a stage begins {where} ({before} of {sum(layers)} layers are taken "
                f"to stand before the {number} blocks, {before + rest} behind); cut between blocks"
            )
        found.append(begins[at])
    if any(one >= other for one, other in pairwise(found)):
        raise PlanError("stage-layers: a stage has no block and nothing else; give it one")
    return tuple(found)
