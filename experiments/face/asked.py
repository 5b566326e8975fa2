"""What a script asks for, resolved: one step, or a study of many."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from os import PathLike
from typing import TypedDict

from experiments.face.forms import Changes, Options, Progress, StudyOptions, check_keywords
from experiments.face.inputs import (
    assignments,
    batch_of,
    execution_of,
    named,
    network_of,
    networks_of,
    planner_of,
    planners_of,
)
from experiments.face.notices import tell
from experiments.face.progress import hearing
from experiments.studies import options as vary
from experiments.studies.case import Case, Planned
from experiments.studies.options import check_axes
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store
from experiments.studies.step_numbers import parse_metrics
from hardware import Array
from planners import Objective, Planner
from simulator import Execution, deployed, usual
from workloads import Network

BATCH = 512


class Common(TypedDict):
    """Fields of a case that a whole study shares."""

    objective: str
    communication: str
    execution: Execution


@dataclass(frozen=True, slots=True)
class Conditions:
    """What steps have in common; their array is ``given`` with ``changes`` of its spec.

    ``as_usual``: nothing was said of the execution, so it is the one that the array is for.
    """

    given: str | Array
    changes: tuple[str, ...]
    array: Array
    batch: int
    objective: str
    communication: str
    execution: Execution
    as_usual: bool

    @property
    def options(self) -> Common:
        """What they have in common beside array and batch, by name."""
        return Common(
            objective=self.objective,
            communication=self.communication,
            execution=self.execution,
        )

    def case(self, network: Network, planner: str | Planner, *, folded: bool = True) -> Case:
        """A step under these conditions."""
        return Case(network, planner, self.array, self.batch, folded=folded, **self.options)


def conditions(
    planners: Sequence[str | Planner],
    array: object,
    batch: object,
    execution: object,
    changes: Changes,
    options: Options,
) -> Conditions:
    """Resolve what is not network or planner; None is what plans were made for, else the usual.

    Raises SpecError, PlanError or UsageError.
    """
    given = named(array)
    texts = assignments(changes)
    made = next((p.plan for p in planners if isinstance(p, Planned)), None)
    size = (made.batch if made else BATCH) if batch is None else batch_of(batch)
    aim = options.get("objective", made.objective if made else "time")
    table = options.get("communication", made.communication if made else "printed")
    Objective.named(aim, table)  # complain now
    resolved = vary.array_of(given, texts)
    chosen = execution
    if chosen is None:
        chosen = usual(resolved)
    elif chosen == "deployed":
        chosen = deployed(resolved)
    model = execution_of(chosen, options)
    check_axes(planners, options)
    as_usual = execution is None and model == usual(resolved)
    return Conditions(given, tuple(texts), resolved, size, aim, str(table), model, as_usual)


def case_of(
    network: object,
    planner: object,
    array: object,
    batch: object,
    execution: object,
    changes: Changes,
    options: Options,
    *,
    folded: bool = True,
) -> Case:
    """One step; raises what its parts raise, and TypeError for an unknown option."""
    check_keywords(options, Options.__optional_keys__)
    chosen = planner_of(planner)
    asked = conditions([chosen], array, batch, execution, changes, options)
    return asked.case(network_of(network), chosen, folded=folded)


@dataclass(frozen=True, slots=True)
class Study:
    """Networks under planners, and how to go through them."""

    networks: tuple[Network, ...]
    planners: tuple[str | Planner, ...]
    conditions: Conditions
    metrics: tuple[str, ...]
    options: StudyOptions

    @contextmanager
    def going(self, total: int) -> Iterator[tuple[Runner, Progress]]:
        """Where cases run and are kept, and who hears of those that are finished.

        A store that was given as a path is open meanwhile; without a function
        for it, progress is a bar where stderr is a terminal.
        """
        store, hears = self.options.get("store"), self.options.get("progress")
        kept = Store(os.fspath(store)) if isinstance(store, str | PathLike) else nullcontext(store)
        with kept as open_store, hearing(hears, total) as progress:
            yield (
                Runner(open_store, self.options.get("jobs"), self.options.get("cluster"), tell),
                progress,
            )


def study_of(
    networks: object,
    planners: object,
    array: object,
    batch: object,
    execution: object,
    changes: Changes,
    options: StudyOptions,
) -> Study:
    """Many steps; raises what their parts raise, and TypeError for an unknown option."""
    check_keywords(options, StudyOptions.__optional_keys__)
    chosen = planners_of(planners)
    asked = conditions(chosen, array, batch, execution, changes, options)
    metrics = options.get("metrics", "time")
    shown = parse_metrics(metrics if isinstance(metrics, str) else ",".join(metrics))
    found = networks_of(networks)
    return Study(tuple(found), tuple(chosen), asked, shown, options)
