"""Which combinations the engine simulates: those that the first pass finds fastest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import median
from typing import Any

from experiments.notices import tell
from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.fits.choices import Choice, Choices
from experiments.studies.running.outputs import Outputs, run_case
from experiments.studies.running.runner import Runner
from experiments.studies.runs.cost import step_cost, step_energy
from experiments.studies.step_numbers import throughput
from planners import Axes, PlanError, Update
from planners.axes.stage_devices import first_nodes_of, replicas_apart, with_stages
from planners.pipeline.staging import named_cuts, usual_schedule
from simulator import OutOfMemoryError
from simulator.search.closed_form.first_pass import FirstPass
from simulator.search.closed_form.network_on_array import Estimate
from simulator.search.closed_form.ranking import Ranking
from simulator.search.kinds.over_kinds import Candidate, candidates
from workloads import partition_graph

BEST = 20
"""Combinations that the engine simulates, where nobody says how many."""
EVERY = 1 << 40
NEARLY = 1.05
"""Estimates of memory that are so much too large are simulated: the engine tells."""
LEAST = 0.5
"""Of an estimate, what a step is taken to last at least."""
MANY, PARTS = 12, 4
"""From so many splits on they are estimated in so many parts."""
REPLICAS = re.compile(r"x(?!1\b)\d+")
"""In the text of stages over kinds: several replicas, "h100-sxm:2x8"."""
KEPT = 3
"""Estimates that are kept for each that is simulated: others follow those that do not fit."""


@dataclass(frozen=True, slots=True)
class FirstPassed:
    """How many combinations there are, and the fastest of them by the first pass."""

    every: int
    estimated: int
    too_large: int
    """Combinations that do not fit in memory, by their estimate."""
    fitting: Mapping[Choice, Estimate]
    """The fastest that fit, the fastest first."""
    unknown: tuple[Choice, ...]
    """Combinations without a closed form."""


def first_pass(asked: Choices, most: int, room: float) -> FirstPassed:
    """Estimates of the fastest combinations of a part of the splits.

    They may fill the share ``room`` of devices' memory.
    """
    array = asked.execution.planned(asked.array)
    passing = FirstPass(asked.network, array, asked.batch, asked.execution)
    ranking = Ranking(passing, most, room)
    found, unknown, every, estimated = dict[Choice, Estimate](), list[Choice](), 0, 0
    for split in asked.splits():
        layouts = {}
        for choice in asked.of(split):
            every += 1
            if asked.state_share(choice) <= room:
                layouts[asked.layout(choice)] = choice
        ranking.add(split, layouts)
        estimated += len(ranking.fitting)
        found |= {layouts[layout]: each for layout, each in ranking.fitting.items()}
        unknown += [layouts[layout] for layout in ranking.unknown]
        ranking.fitting.clear()
        ranking.unknown.clear()
        found = _fastest(found, most)
    return FirstPassed(
        every, estimated + ranking.too_large, ranking.too_large, found, tuple(unknown)
    )


def together(parts: Sequence[FirstPassed], most: int) -> FirstPassed:
    """What several processes found."""
    found = {choice: each for part in parts for choice, each in part.fitting.items()}
    return FirstPassed(
        sum(part.every for part in parts),
        sum(part.estimated for part in parts),
        sum(part.too_large for part in parts),
        _fastest(found, most),
        tuple(choice for part in parts for choice in part.unknown),
    )


def _fastest(found: Mapping[Choice, Estimate], most: int) -> dict[Choice, Estimate]:
    ordered = sorted(found.items(), key=lambda one: (one[1].seconds, str(one[0])))
    return dict(ordered[:most])


def passed(runner: Runner, choices: Choices, most: int, room: float) -> FirstPassed:
    """The first pass over all combinations.

    Many splits are estimated in PARTS, in as many processes as there are: what a part leaves out
    depends on what it has found, so parts are the same whatever the number of processes.
    """
    count = PARTS if len([*choices.splits()]) >= MANY else 1
    parts = {first: replace(choices, part=(first, count)) for first in range(count)}
    work = partial(first_pass, most=KEPT * most, room=NEARLY * room)
    if min(count, runner.processes) > 1:
        found = dict(runner.spread(work, parts))
    else:
        found = {first: work(one) for first, one in parts.items()}
    return together([found[first] for first in range(count)], KEPT * most)


class Fit:
    """Combinations in the order of the first pass, of which the engine simulates some.

    ``most`` are simulated, and of several kinds of devices their likeliest stages.
    """

    def __init__(self, choices: Choices, passed: FirstPassed, most: int) -> None:
        self.choices, self.passed, self._most = choices, passed, most
        self._waiting = [*passed.fitting, *passed.unknown[: self._most]]
        self._asked = set[Choice]()

    def cases(self) -> dict[Choice, Case]:
        """The fastest, and of several kinds of devices the likeliest stages."""
        return self._next(self._most) | {one: self.choices.case(one) for one in self._staged}

    def after(self, choice: Choice, outputs: Outputs) -> dict[Choice, Case]:
        """Behind one that does not fit or cannot be: it with more computed again, and the next."""
        if outputs["reason"] is None or choice.stage_hw:
            return {}
        heavier = self.choices.heavier(choice) if outputs["out_of_memory"] else None
        if heavier in self._asked or heavier is None:
            return self._next(1)
        self._asked.add(heavier)
        return {heavier: self.choices.case(heavier)}

    def unsure(self, rows: Mapping[Choice, Mapping[str, Any]]) -> dict[Choice, Case]:
        """Those that may be faster than the best.

        Of an estimate that is the least share that the engine took of one, less half of how far
        shares are apart. They are at most a quarter as many as were asked for.
        """
        shares = [
            row["iteration_s"] / row["first_pass_s"]
            for row in rows.values()
            if row["iteration_s"] and row["first_pass_s"]
        ]
        if not shares:
            return {}
        least = max(min(shares) - (max(shares) - min(shares)) / 2, LEAST)
        best_s = min(row["iteration_s"] for row in rows.values() if row["iteration_s"])
        known = self.passed.fitting
        self._waiting = [
            one for one in self._waiting if one in known and known[one].seconds * least < best_s
        ]
        return self._next(max(self._most // 4, 1))

    def _next(self, many: int) -> dict[Choice, Case]:
        taken, self._waiting = self._waiting[:many], self._waiting[many:]
        new = [one for one in taken if one not in self._asked]
        self._asked |= {*new}
        return {one: self.choices.case(one) for one in new}

    @cached_property
    def _staged(self) -> list[Choice]:
        """Stages on devices of each kind, where there are several."""
        asked = self.choices
        recompute = asked.recomputes(1) if "recompute" in asked.varied else ()
        array, found = asked.execution.planned(asked.array), list[Candidate]()
        if len(array.group.kinds) > 1 and asked.held:
            tell("Stages over kinds of devices are left out: --parallel or --micro-batch is given")
        elif len(array.group.kinds) > 1:
            try:
                found = candidates(asked.network, array, asked.batch, asked.execution, recompute)
            except PlanError as error:
                tell(f"Stages over kinds of devices are left out: {error}")
        own = asked.execution.update
        free = "update" in asked.varied and not own and not asked.execution.inference
        ways = [str(Update.REPLICATED), str(Update.SHARDED)] if free else [own]
        graph = partition_graph(asked.network)

        def named(one: Candidate) -> tuple[str, ...]:
            """The cuts of stages that numbers of blocks do not say."""
            stages = len(one.layers)
            with suppress(PlanError):
                if first_nodes_of(graph, one.layers, stages) == named_cuts(graph, one.cuts, stages):
                    return ()
            return one.cuts

        return [
            Choice(
                with_stages(one.staging).parallel or Axes(),
                one.micro_batch,
                one.recompute,
                way,
                layers=one.layers,
                stage_hw=one.stage_hw,
                cuts=named(one),
            )
            for one in found
            for way in ways
            if way == ways[0] or (REPLICAS.search(one.stage_hw) and not replicas_apart(one.staging))
        ]


def run_choice(case: Case) -> Outputs:
    """A combination's step; where it does not fit, or cannot be, the reason."""
    try:
        return run_case(case) | {"reason": None, "out_of_memory": False}
    except (OutOfMemoryError, PlanError) as error:
        full = isinstance(error, OutOfMemoryError)
        return {"iteration_s": None, "reason": str(error), "out_of_memory": full, "memory": []}


def row_of(
    choice: Choice, case: Case, outputs: Outputs, estimate: Estimate | None = None
) -> dict[str, Any]:
    """A combination as a table has it; seconds and rates are None where it does not fit."""
    seconds, devices = outputs["iteration_s"], case.execution.planned(case.array).group.size
    rates = None if seconds is None else throughput(case, seconds)
    tokens, chips = rates.tokens_per_s if rates else None, sum(n for _, n in case.array.group.chips)
    given = case.execution.staging.schedule if case.execution.staging else ""
    schedule = given if choice.axes.pp > 1 and given else usual_schedule(choice.axes.vp)
    return choice.fields() | {
        "schedule": schedule,
        "iteration_s": seconds,
        "devices": devices,
        "first_pass_s": estimate.seconds if estimate else None,
        "tokens_per_s": tokens,
        "tokens_per_s_each": None if tokens is None else tokens / chips,
        "samples_per_s": rates.samples_per_s if rates else None,
        "share_of_peak": rates.share_of_peak if rates else None,
        "peak_memory_bytes": max((one["peak_bytes"] for one in outputs["memory"]), default=None),
        **_spent(case, outputs),
        "reason": outputs["reason"],
        "out_of_memory": outputs["out_of_memory"],
    }


def _spent(case: Case, outputs: Outputs) -> dict[str, float | None]:
    """Dollars and joules of 10^12 tokens; None where nobody knows a price, or power."""
    found = dict[str, float | None]()
    for key, told in (
        ("usd_per_trillion_tokens", step_cost),
        ("j_per_trillion_tokens", step_energy),
    ):
        found[key] = None
        if outputs["iteration_s"] is not None:
            with suppress(UsageError):
                found[key] = told(case, outputs)[key]
    return found


def differences(rows: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """How far the first pass and the engine differ, as shares of the engine's time."""
    off = [
        abs(row["first_pass_s"] / row["iteration_s"] - 1)
        for row in rows
        if row["iteration_s"] and row["first_pass_s"]
    ]
    return {"median": median(off), "largest": max(off)} if off else None
