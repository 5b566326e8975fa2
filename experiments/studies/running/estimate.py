"""How long steps will take and how much memory, from counted work, before any of it is done.

An order of magnitude. What is counted are nodes of the partition graph, levels of the
bisection, kinds of devices, and, where every core is simulated by itself, cores.
The rates are seconds of one processor and bytes of memory, measured on
25 November 2026 on a busy 2-core Xeon (Python 3.11) with vgg16, resnet50, gpt2-xl, llama3-8b
and llama3-405b on accpar-mixed, tpu-v3-8, tpu-v3-pod and h100-cluster; most within a factor of
two.
``tests/experiments/studies/running/test_estimate.py`` compares them with what steps do take.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from experiments.notices import tell
from experiments.output import UsageError
from experiments.studies.case import Case
from hardware import format_quantity, in_bytes, parse_quantity
from planners import Staging
from simulator import PUBLISHED
from simulator.engine import accelerated
from simulator.engine.repeats import ACCELERATION

LONG_S = 30.0
LARGE_BYTES = 2e9
"""A run that will need more of either is announced."""


class Estimate(NamedTuple):
    """Seconds of one processor, and bytes of memory at the most; also of one unit of work."""

    seconds: float
    held_bytes: float

    @property
    def large(self) -> bool:
        """Whether to say so before the work."""
        return self.seconds > LONG_S or self.held_bytes > LARGE_BYTES

    def plus(self, units: float, each: Estimate) -> Estimate:
        """With so many more units of work."""
        return Estimate(
            self.seconds + units * each.seconds, self.held_bytes + units * each.held_bytes
        )

    def __str__(self) -> str:
        return f"about {_duration(self.seconds)} and {_size(self.held_bytes)}"


START_S = 0.4
"""Of the first step: what only a simulation loads."""
EACH = Estimate(0.005, 3e6)
"""Of a step, whatever it does."""
NODE = {"published": 0.3e-3, "deployed": 0.8e-3}
"""Seconds of a node."""
FOLDED = {"published": Estimate(90e-6, 2e3), "deployed": Estimate(70e-6, 5e3)}
"""Of a node at a level, for each kind of device; cores that do the same are simulated once."""
UNLIKE = {"published": 0.0, "deployed": 0.05}
"""Seconds of a level, for each of several kinds: none of its exchanges is like another."""
UNFOLDED = {"published": Estimate(8e-6, 600.0), "deployed": Estimate(40e-6, 1e3)}
"""Of a node at a level, for each core that is simulated by itself."""

PLACED = frozenset({"ring", "torus", "mesh"})
"""Wires on which it matters where a chip is."""

PASSED = {"published": 0.4e-3, "deployed": 0.5e-3}
"""Seconds of a micro-batch in a stage, there and back."""
NODE_PASSED = {"published": (5e-6, 5e-6), "deployed": (10e-6, 50e-6)}
"""Of a node in a micro-batch: where layers exchange nothing within a stage, and where they do, by
tensor, context or expert parallelism."""
COPIED = 2e-6
"""Of a node in a micro-batch that repeats others (``simulator.engine.repeats``)."""
NO_CYCLES = ("gpipe", "pipedream", "2bw")
"""Schedules in which no instructions repeat for later micro-batches."""
FILLS, ROUNDS = 2, 7
"""Of those that repeat, what is followed: so many micro-batches for each stage, or, where devices
have several stages, so many rounds of their places; and ROUNDS micro-batches more."""
PIPELINED_BYTES = {"published": 1.1e3, "deployed": 2.6e3}
"""Of a node in a micro-batch: gpt2-xl and llama3-405b in 64 stages, 512 micro-batches."""

SEARCH = "search"
"""The planner's name (``simulator.search.search``, which lists need not load)."""
SUBSETS, LAYOUTS = 6, 40
"""Steps of ``--planner search``: of each power of two of each kind (published), and of layouts
(deployed: 35 to 104 of seven networks on eight chips, 57 to 271 on 32 H100, which took 0.3 to 3.5
times as long, 1 December 2026)."""
OPEN, OPEN_NODE = Estimate(0.12, 1e5), Estimate(3e-3, 0.0)
"""With ``--stages auto``, of each level of each kind and each power of two of the batch, and for
each node: ten cases from lenet on 8 cores to llama3-8b on 32 GPUs of two kinds took 0.6 to 3.3
times as long (29 November 2026)."""


def estimate(case: Case) -> Estimate:
    """What planning and simulating a case will take."""
    deployed = case.execution.model == "deployed"
    group = case.execution.planned(case.array).group
    nodes = sum(layer.type.product or len(layer.inputs) > 1 for layer in case.network.layers)
    levels = max(1, math.ceil(math.log2(group.size)))
    parts = levels * len(group.kinds)
    model = "deployed" if deployed else "published"
    alone_s = UNLIKE[model] * parts if len(group.kinds) > 1 else 0.0
    found = EACH.plus(1, Estimate(nodes * NODE[model] + alone_s, 0.0))
    found = found.plus(nodes * parts, FOLDED[model])
    staging = case.execution.staging
    if staging is not None and staging.is_open:
        return found.plus(parts * case.batch.bit_length(), OPEN.plus(nodes, OPEN_NODE))
    if case.planner_name == SEARCH:
        steps = LAYOUTS if deployed else SUBSETS * parts
        found = found._replace(seconds=found.seconds * (1 + steps))
    if staging is not None:
        stages, turns = _passed(case, staging)
        axes = staging.parallel
        each_s = NODE_PASSED[model][bool(axes and axes.tp * axes.cp * axes.ep > 1)]
        followed = _followed(stages, turns, staging)
        passed_s = followed * (stages * PASSED[model] + nodes * each_s) + turns * nodes * COPIED
        found = found.plus(1, Estimate(passed_s, nodes * turns * PIPELINED_BYTES[model]))
    if not case.folded or (deployed and _told_apart(case)):
        found = found.plus(nodes * levels * group.size, UNFOLDED[model])
    return found


def _passed(case: Case, staging: Staging) -> tuple[int, int]:
    """Stages, and micro-batches that go through each of them."""
    axes, many = staging.parallel, staging.micro_batches * max(staging.batches, 1)
    if axes is None:
        return staging.stages * staging.virtual, many
    devices = case.execution.planned(case.array).group.size
    dp = axes.dp or max(devices // (axes.tp * axes.cp * axes.pp), 1)
    samples = staging.samples(axes.pp)
    return axes.pp * axes.vp, many if samples is None else max(case.batch // (dp * samples), 1)


def _followed(stages: int, turns: int, staging: Staging) -> int:
    """Of the micro-batches that go through stages, how many the engine follows.

    GPipe has all forward first, and weights change where nothing is flushed: nothing repeats.
    """
    schedule = staging.schedule
    if schedule in NO_CYCLES or not accelerated(ACCELERATION):
        return turns
    places = staging.parallel.pp if staging.parallel else staging.stages
    return min(turns, (FILLS if stages == places else ROUNDS) * places + ROUNDS)


def _told_apart(case: Case) -> bool:
    """Whether cores are followed one by one, folded or not: halves of such wires are not alike.

    Of 24 chips on a torus the last halves are two and one, and who sends past whom differs. Not
    under data parallelism, all of whose exchanges are of all chips.
    """
    if case.planner_name == "data_parallel":
        return False
    topology, group = case.array.topology, case.execution.planned(case.array).group
    placed = not PLACED.isdisjoint({topology.kind, *(tier.kind for tier in topology.levels)})
    return placed and any(count & (count - 1) for _, count in group.kinds)


def together(cases: Iterable[Case]) -> Estimate:
    """What cases take one after another: the seconds of all, the memory of the largest."""
    found = [estimate(case) for case in cases]
    return Estimate(
        sum(one.seconds for one in found), max((one.held_bytes for one in found), default=0.0)
    )


def limit_of(given: str | float | None) -> float:
    """What ``--max-memory`` says, in bytes; without it infinity. Raises UsageError."""
    if given is None:
        return math.inf
    try:
        return parse_quantity(in_bytes(given if isinstance(given, str) else f"{given!r} B"), "B")
    except ValueError as error:
        raise UsageError(f"--max-memory {given}: {error}, or a number of bytes") from None


def too_large(case: Case, limit_bytes: float) -> str:
    """Why a step is not run under ``--max-memory``; "" where its estimate is within the limit."""
    if math.isinf(limit_bytes) or (held_bytes := estimate(case).held_bytes) <= limit_bytes:
        return ""
    held, limit = (format_quantity(size, "B", 3) for size in (held_bytes, limit_bytes))
    return f"{case}: simulating it would take about {held}, more than --max-memory {limit} allows"


def check_memory(cases: Iterable[Case], given: str | float | None) -> None:
    """Raise UsageError for the first step that ``--max-memory`` refuses."""
    limit_bytes = limit_of(given)
    for case in cases:
        if said := too_large(case, limit_bytes):
            raise UsageError(said)


def forewarning(cases: Iterable[Case], jobs: int = 1) -> str | None:
    """A sentence for a run that will need much, with what would take less; None for others."""
    asked = list(cases)
    found = together(asked)
    if not found.large:
        return None
    at_once = min(jobs, len(asked))
    needed = Estimate(START_S + found.seconds / at_once, found.held_bytes * at_once)
    steps = f"{len(asked):,} steps" if len(asked) > 1 else "this step"
    less = []
    if any(not case.folded for case in asked):
        folded = together(replace(case, folded=True) for case in asked)
        less.append(f"folded (the same result): {folded}")
    if any(case.execution.model == "deployed" for case in asked):
        published = [replace(case, execution=PUBLISHED) for case in asked]
        less.append(f"under the published model: {together(published)}")
    if len(asked) > 1:
        less.append("fewer networks, planners or values take less in proportion")
    if not less:
        less.append("fewer layers, kinds of devices or levels take less")
    return f"{steps} will take {needed}, roughly; {'; '.join(less)}"


def forewarn(cases: Iterable[Case]) -> tuple[str, ...]:
    """Say before the work what will take long or much memory; what was said."""
    said = forewarning(cases)
    if said:
        tell(said)
    return (said,) if said else ()


def _duration(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{_number(seconds / size)} {unit}"
    return f"{_number(seconds)} s"


def _size(amount: float) -> str:
    return f"{_number(amount / 1e9)} GB" if amount >= 1e9 else f"{_number(amount / 1e6)} MB"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.5 else f"{value:.1g}"
