"""What a script asks for, resolved: one step, or a study of many."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, cast

from experiments.api import argument_types, inputs
from experiments.notices import tell
from experiments.output import UsageError, hearing
from experiments.studies import options as vary
from experiments.studies.case import Case, Planned
from experiments.studies.comparison import Conditions as Common
from experiments.studies.options import DEPLOYED_OPTIONS, STAGE_OPTIONS, STAGES, check_axes
from experiments.studies.running.estimate import check_memory, limit_of
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store
from experiments.studies.step_numbers import parse_metrics
from hardware import Array
from planners import Objective, Plan, Planner
from simulator import Execution
from workloads import Network, partition_graph

BATCH = 512


@dataclass(frozen=True, slots=True)
class Conditions:
    """What steps have in common; their array is ``given`` with ``changes`` of its spec."""

    given: str | Array
    changes: tuple[str, ...]
    array: Array
    batch: int
    options: Common

    def case(self, network: Network, planner: str | Planner) -> Case:
        """A step under these conditions."""
        return Case(network, planner, self.array, self.batch, **self.options)


SHORT = ("precision", "optimizer", "stack", "price")
"""Keywords that are short for a change of the array's spec."""


OF_TRAINING = ("owt", "hypar", "accpar")
"""Planners whose papers are about training."""


def changed(changes: argument_types.Changes, options: argument_types.ArrayOptions) -> list[str]:
    """Changes of the array's spec, those by keyword (``precision``, ...) among them."""
    values: Mapping[str, Any] = options
    short = [f"{name}={values[name]}" for name in SHORT if values.get(name) is not None]
    return [*inputs.assignments(changes), *short]


def transforms_of(options: argument_types.NetworkOptions) -> list[str]:
    """Changes of the network, by ``transform`` and ``attention``."""
    asked, form = options.get("transform") or (), options.get("attention")
    texts = [asked] if isinstance(asked, str) else list(asked)
    return [*texts, *([f"attention={form}"] if form else [])]


def check_planned(planners: Sequence[object], given: Mapping[str, str]) -> None:
    """Raise UsageError where all have made their plans, for what these decide: stages, passes."""
    if not planners or not all(isinstance(planner, Planned) for planner in planners):
        return
    for name, text in given.items():
        if name in STAGE_OPTIONS and (name != "recompute" or text.startswith(STAGES)):
            raise UsageError(
                f"{name.replace('_', '-')} is a part of the plan already: leave it out, or plan "
                "anew with it"
            )


def conditions(
    planners: Sequence[str | Planner],
    array: object,
    batch: int | None,
    execution: object,
    changes: argument_types.Changes,
    options: argument_types.Options,
    *,
    folded: bool,
) -> Conditions:
    """Resolve what is not network or planner; None is what plans were made for, else the usual.

    Raises SpecError, PlanError or UsageError.
    """
    given = inputs.named(array)
    texts = changed(changes, options)
    made = next((p.plan for p in planners if isinstance(p, Planned)), None)
    size = (made.batch if made else BATCH) if batch is None else int(batch)
    aim = options.get("objective") or (made.objective if made else "time")
    if made and aim != made.objective:
        tell(f"the plan was made for objective {made.objective}; {aim} has no effect")
        aim = made.objective
    table = options.get("communication") or (made.communication if made else "printed")
    Objective.named(aim, table)  # complain now
    resolved = vary.array_of(given, texts)
    if made and made.array and made.array.partition(",")[0] != resolved.base:
        tell(f"the plan was made for {made.array}, and is run on {resolved.name}")
    model = inputs.execution_of(execution, options, resolved)
    if made:
        _tell_unused(made, model)
    if model.inference and (some := [one for one in OF_TRAINING if one in planners]):
        tell(
            f"{' and '.join(some)} plan{'s' * (len(some) == 1)} a training step, although "
            "inference has its forward pass alone; planner search plans that"
        )
    said = {
        name: str(value)
        for name, value in options.items()
        if value is not None and value is not False  # 0 is said
    }
    check_planned(planners, said)
    check_axes(planners, said)
    common = Common(objective=aim, communication=table, execution=model, folded=folded)
    return Conditions(given, tuple(texts), resolved, size, common)


def _tell_unused(made: Plan, model: Execution) -> None:
    """Say which of a plan's options the execution, or the array's software, has otherwise."""
    of = made.pipeline
    plans = [made] if of is None else [p for one in of.stages for p in one.plans or (one.plan,)]
    for name in ("bucket_bytes", "update_order"):
        own = getattr(model, name)
        if own not in (None, "") and any(getattr(p, name) not in (None, "", own) for p in plans):
            tell(f"the plan's {name} is not read: the array's stack, or an option, says {own}")


def _tell_of_network(plan: Plan, network: Network) -> None:
    """Say that a plan was made for another network, of which all layers are called alike."""
    made, run = (name.partition(",")[0] for name in (plan.network, network.name))
    if made != run and plan.nodes == tuple(node.name for node in partition_graph(network)):
        tell(f"the plan was made for {made}, and is run on {run}")


def cases_of(
    network: object,
    planners: Sequence[object],
    array: object,
    batch: int | None,
    execution: object,
    changes: argument_types.Changes,
    options: argument_types.StepOptions,
    *,
    folded: bool = True,
) -> list[Case]:
    """A step under each planner; raises what its parts raise, UsageError for one too large."""
    chosen = [inputs.planner_of(planner, options) for planner in planners]
    asked = conditions(chosen, array, batch, execution, changes, options, folded=folded)
    resolved = inputs.network_of(network, transforms_of(options), asked.array)
    for planner in chosen:
        if isinstance(planner, Planned):
            _tell_of_network(planner.plan, resolved)
    cases = [asked.case(resolved, planner) for planner in chosen]
    check_memory(cases, options.get("max_memory"))
    return cases


@dataclass(frozen=True, slots=True)
class Study:
    """Networks under planners, and how to go through them.

    ``networks`` are as the array's software runs them; another array's may run them otherwise.
    """

    networks: tuple[Network, ...]
    planners: tuple[str | Planner, ...]
    conditions: Conditions
    metrics: tuple[str, ...]
    options: argument_types.StudyOptions
    given: tuple[Network, ...]
    """The networks as their makers have them."""
    execution: object
    """What was said of the execution model; None is the one that an array is for."""

    def executed_by(self, array: Array, model: str | None = None) -> Execution:
        """The execution on an array, under another model than was asked for if one is named.

        The published one has no options of the deployed one.
        """
        given, options = self.execution, self.options
        if model is None or (isinstance(given, Execution) and given.model == model):
            return inputs.execution_of(given, options, array)
        if model == "published":
            lacks = {*DEPLOYED_OPTIONS, "strict_memory"}
            options = cast(
                "argument_types.StudyOptions", {k: v for k, v in options.items() if k not in lacks}
            )
        found = inputs.execution_of(model, options, array)
        if isinstance(given, Execution):
            found = replace(found, staging=given.staging, mode=given.mode)
        return found

    def run_by(self, array: Array, network: Network) -> Network:
        """One of those that were ``given``, as the software of an array runs it."""
        return inputs.run_by(array, network, transforms_of(self.options))


def opened(store: argument_types.StoreLike | None) -> AbstractContextManager[Store | None]:
    """A store that was given as a path, open meanwhile; or one that is open."""
    if isinstance(store, str | PathLike):
        return Store(os.fspath(store))
    return nullcontext(store)


@contextmanager
def running(
    options: argument_types.RunOptions, total: int | None
) -> Iterator[tuple[Runner, argument_types.Progress, list[str]]]:
    """Where cases run and are kept, who hears of finished ones, and what was said before.

    A store that was given as a path is open meanwhile; without a function for it, progress is a
    bar where stderr is a terminal. What is said before the work is a warning too.
    """
    told: list[str] = []

    def tell_too(said: str) -> None:
        tell(said)
        told.append(said)

    hears = options.get("progress")
    with opened(options.get("store")) as open_store, hearing(hears, total) as progress:
        jobs, cluster = options.get("jobs"), options.get("cluster")
        limit = limit_of(options.get("max_memory"))
        yield Runner(open_store, jobs, cluster, tell_too, limit), progress, told


def study_of(
    networks: object,
    planners: object,
    array: object,
    batch: int | None,
    execution: object,
    changes: argument_types.Changes,
    options: argument_types.StudyOptions,
    *,
    folded: bool = True,
    first: Sequence[str] = (),
) -> Study:
    """Many steps, of planners ``first`` too; raises what their parts raise."""
    chosen = list(dict.fromkeys([*first, *inputs.planners_of(planners, options)]))
    asked = conditions(chosen, array, batch, execution, changes, options, folded=folded)
    metrics = options.get("metrics") or "time"
    shown = parse_metrics(metrics if isinstance(metrics, str) else ",".join(metrics))
    given = inputs.networks_of(networks)
    found = inputs.each_run_by(asked.array, given, transforms_of(options))
    made = tuple(network for _, network in given)
    return Study(tuple(found), tuple(chosen), asked, shown, options, made, execution)
