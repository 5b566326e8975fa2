"""A case: everything that decides one simulated step, its identity, its plan and its timeline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from experiments.studies.running.store import digest
from hardware import COMMAND_LINE, Array
from planners import (
    BASELINES,
    PLANNERS,
    Axes,
    Objective,
    Plan,
    PlanError,
    Planner,
    Staging,
    is_built_in,
    load_planner,
    planned_in_stages,
    planner_name,
)
from planners.errors import check_batch
from planners.pipeline.staging import named_cuts, places_of
from planners.plan import Place
from planners.registry import asked, plans_stages, reads_axes, takes_execution
from simulator import MODEL_VERSION, PUBLISHED, Execution, OutOfMemoryError, Timeline, simulate
from simulator.collectives.algorithms import CollectiveError
from simulator.lowering.schedules.registry import SCHEDULES, identity, schedule_of
from simulator.search.stages import balanced_stages
from simulator.search.updates import with_updates
from workloads import Layer, Network, partition_graph
from workloads.cache import once_for_each
from workloads.layer_types import LayerType
from workloads.network import numbering


def staged_plan(case: Case, objective: Objective, staging: Staging) -> Plan:
    """The plan of a pipeline; each stage is planned by the case's planner.

    Of several ways to balance the stages it takes the fastest, simulated. The search judges a
    stage as a step by itself, which is not what the stage adds to a pipeline: it takes the
    fastest of its own pipelines and the other planners'. Raises PlanError for stages that fit
    neither network nor array.
    """
    network, execution = case.network, case.execution
    array = execution.planned(case.array)
    places = places_of(array, staging.stages)
    ways = first_layers(case, array, staging, places)
    alone = replace(execution, staging=None)

    def planned_by(one: str | Planner, firsts: tuple[int, ...]) -> Plan:
        told: dict[str, Any] = {"execution": alone} if takes_execution(load_planner(one)) else {}
        step = (one, network, array, case.batch, staging, firsts, places, objective)
        return planned_in_stages(*step, **told)

    searches = load_planner(case.planner) is load_planner("search")
    planners = [case.planner, *((*PLANNERS, *BASELINES) if searches else ())]
    pairs, plans = [*product(planners, ways)], list[Plan]()
    for one, firsts in pairs if len(pairs) > 1 else ():
        with suppress(PlanError):
            plans.append(planned_by(one, firsts))
    if not plans:
        return planned_by(*pairs[0])

    def seconds(plan: Plan) -> float:
        """What a step of the pipeline takes; forever where it cannot be run."""
        try:
            updated = with_updates(network, plan, array, execution)
            return simulate(network, updated, array, execution).iteration_s
        except (PlanError, CollectiveError, OutOfMemoryError):
            return math.inf

    return replace(min(plans, key=seconds), planner=case.planner_name)


def first_layers(
    case: Case, array: Array, staging: Staging, places: Sequence[Place]
) -> list[tuple[int, ...]]:
    """Where stages begin: as the staging names it, or balanced, in up to three ways.

    ``array`` is as it is planned.
    """
    graph, stages = partition_graph(case.network), staging.stages * staging.virtual
    if staging.virtual < 1:
        raise PlanError(f"{staging.virtual} stages a place: at least one is needed")
    if staging.cuts:
        return [named_cuts(graph, staging.cuts, stages)]
    if stages == 1:
        return [(0,)]
    return balanced_stages(case.network, array, case.batch, case.execution, places, staging)


OUTPUTS_VERSION = 4
"""Changes when a case's outputs get another name: results stored without it are not used."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A planner that has made its plan: it gives it, whatever it is asked."""

    name: str
    plan: Plan

    @property
    def __name__(self) -> str:
        """What tables call it, as they call any function."""
        return self.name

    def __call__(self, *_: Any) -> Plan:
        """The plan."""
        return self.plan


@dataclass(frozen=True, slots=True)
class Case:
    """One network under one planner on one array, everything resolved (no files needed).

    ``planner`` is a name or a function. ``folded`` simulates one of each class of
    devices that do the same: the same step, found sooner.
    """

    network: Network
    planner: str | Planner
    array: Array
    batch: int
    objective: str = "time"
    communication: str = "printed"
    execution: Execution = PUBLISHED
    folded: bool = True

    def __post_init__(self) -> None:
        """Axes are for the planner that reads them: without, it is another step."""
        check_batch(self.batch)
        staging = self.execution.staging
        plain = None if staging is None else staging.without_axes
        if plain != staging and not reads_axes(load_planner(self.planner)):
            object.__setattr__(self, "execution", replace(self.execution, staging=plain))

    @property
    def planner_name(self) -> str:
        """What tables call the planner."""
        return planner_name(self.planner)

    def __str__(self) -> str:
        """What titles call the step: its model, and whatever else is not the default."""
        words = [f"{self.network.name}, {self.planner_name} on {self.array.name}"]
        words.append(f"batch {self.batch}")
        if self.communication != "printed":
            words.append(f"{self.communication} communication")
        return ", ".join([*words, str(self.execution)])

    @property
    def inputs(self) -> dict[str, Any]:
        """The case in a few words, for people, with what the command line changed.

        Each of those has a key of its own here, so ``array`` is the name without them.
        """
        changed = {s.key: s.value for s in self.array.settings if s.source == COMMAND_LINE}
        own = {
            key: value
            for key, value in changed.items()
            if not (key.startswith("devices.") and changed.get(key.split(".", 2)[2]) == value)
        }
        return own | {
            "network": self.network.name,
            "planner": self.planner_name,
            "array": self.array.base,
            "batch": self.batch,
            "objective": self.objective,
            "accelerators": self.array.group.size,
            "execution": str(self.execution),
            **({} if self.communication == "printed" else {"communication": self.communication}),
        }

    @property
    def is_settled(self) -> bool:
        """Whether the planner is one of ours, or has planned."""
        return isinstance(self.planner, Planned) or is_built_in(self.planner)

    def settled(self) -> Case:
        """The case with the plan in its planner's place, unless the planner is one of ours.

        Nobody can tell from an outside planner's name, version or source what it will
        answer: it may read a file, or a variable of the function around it. So what
        it does answer is part of the case's key. Ours change with MODEL_VERSION.
        """
        if self.is_settled:
            return self
        return replace(self, planner=Planned(self.planner_name, plan_of(self)))

    @property
    def key(self) -> str:
        """SHA-256 of the canonical JSON of everything that changes the answer.

        An outside planner is asked for its plan (see ``settled``).
        """
        planner = self.settled().planner
        pipeline = planner.plan.pipeline if isinstance(planner, Planned) else None
        about = {
            "model": MODEL_VERSION,
            "outputs": OUTPUTS_VERSION,
            "execution": _options(self),
            "network": _layers(self.network),
            "planner": [
                self.planner_name,
                planner.plan.to_json() if isinstance(planner, Planned) else "built in",
            ],
            "objective": self.objective,
            "communication": self.communication,
            "batch": self.batch,
            **_array(self.array),
            "folded": self.folded,
        }
        if pipeline and pipeline.schedule not in SCHEDULES:
            sizes = len(pipeline.places), pipeline.virtual, pipeline.micro_batches
            about["schedule"] = identity(pipeline.schedule, *sizes)
        return digest(about)


def _options(case: Case) -> dict[str, Any]:
    """An execution model's options; of others' schedules what they do, of cuts layers' numbers."""
    network, execution = case.network, case.execution
    options, staging = asdict(execution), execution.staging
    if staging is not None and staging.schedule:
        axes = staging.parallel or Axes(pp=max(staging.stages, 2), vp=staging.virtual)
        many = staging.micro_batches
        if samples := staging.samples(axes.pp):
            size = execution.planned(case.array).group.size
            dp = axes.dp or size // (axes.pp * axes.tp * axes.cp)
            many = case.batch // max(dp * samples, 1)
        options["staging"]["schedule"] = identity(staging.schedule, axes.pp, axes.vp, many)
    if staging is not None and staging.cuts:
        number = {layer.name: i for i, layer in enumerate(network.layers)}
        options["staging"]["cuts"] = [number.get(name, name) for name in staging.cuts]
    return options


_NO_PART = ("description", "power", "price", "extends")
"""Fields of a device that change no step."""
_NO_HABIT = ("name", "description", "memory_reserve")
"""Fields of a stack that change no step, or are the execution's."""


@once_for_each
def _array(array: Array) -> dict[str, Any]:
    """What an array is, whatever it and its stack are called; and what it is a part of, where."""
    stack = asdict(array.stack) if array.stack else {}
    part = {"part": [array.first, _array(array.whole)]} if array.whole else {}
    return part | {
        "topology": asdict(array.topology),
        "array": [
            [{k: v for k, v in asdict(device).items() if k not in _NO_PART}, count]
            for device, count in array.group.kinds
        ],
        "stack": {k: v for k, v in stack.items() if k not in _NO_HABIT},
    }


@once_for_each
def _layers(network: Network) -> str:
    """A digest of the layers without their names: inputs are numbers, -1 the network's.

    Of names it has what they decide: which layers are a block, to compute again or to gather.
    """
    number = {"input": -1, "": -1} | {layer.name: i for i, layer in enumerate(network.layers)}
    layers = [
        asdict(layer)
        | {
            "name": "",
            "inputs": [number[name] for name in layer.inputs],
            "shared": number[layer.shared],
        }
        | _answers(layer)
        for layer in network.layers
    ]
    return digest([layers, numbering(network)])


def _answers(layer: Layer) -> dict[str, str]:
    """What a layer's type says of it, where it is not one of ours: its name does not tell.

    Ours change with MODEL_VERSION.
    """
    one = layer.type
    if type(one).__module__.startswith(f"{LayerType.__module__.rpartition('.')[0]}."):
        return {}
    names = (name for name, value in vars(LayerType).items() if not callable(value))
    said = {name: getattr(one, name) for name in names if not name.startswith("_")}
    methods = (
        *("dimensions", "weights", "further_parameters", "macs", "spectral_macs"),
        *("forward", "gradient", "in_passing", "needs_values", "view"),
    )
    said |= {name: getattr(one, name)(layer) for name in methods}
    for way in (False, True):
        said[f"backward {way}"] = one.backward(layer, needed=way)
        said[f"cycles {way}"] = one.element_cycles(layer, forward=way)
    return {"answers": repr(said)}


def _check_schedule(staging: Staging) -> None:
    """Raise PlanError for a schedule whose places need more stages than are asked for."""
    axes, least = staging.parallel, schedule_of(staging.usual_schedule).least_virtual
    if max(staging.virtual, axes.vp if axes else 1) < least:
        stages = max(axes.pp if axes else staging.stages, 2)
        more = replace(axes or Axes(), pp=stages, vp=least)
        more = more if axes and axes.pp == stages else replace(more, dp=0)  # as many as are left
        raise PlanError(
            f"schedule {staging.schedule} needs {least} stages a place or more (vp), not 1: take "
            f"--parallel {more}, or --schedule 1f1b"
        )


def plan_of(case: Case) -> Plan:
    """The case's plan; its planner sees the array as the execution model runs it.

    Raises PlanError where it cannot be made.
    """
    planner = load_planner(case.planner)
    objective = Objective.named(case.objective, case.communication)
    array, staging = case.execution.planned(case.array), case.execution.staging
    if staging is not None:
        _check_schedule(staging)
        staging = None if staging.is_whole else staging
    open_, own = staging is not None and staging.is_open, isinstance(case.planner, Planned)
    if open_ and not own and planner is not load_planner("search"):
        raise PlanError("stages=auto: planner 'search' finds stages; take --planner search")
    if staging is None or open_ or own or plans_stages(planner):
        told: dict[str, Any] = {"execution": case.execution} if takes_execution(planner) else {}
        plan = asked(planner, case.network, array, case.batch, objective, **told)
    else:
        plan = staged_plan(case, objective, staging)
    for what, made, wanted in (
        ("batch", plan.batch, case.batch),
        ("communication", plan.communication, case.communication),
    ):
        if made != wanted:
            raise PlanError(
                f"planner {case.planner_name!r} gave a plan for {what} {made}, not {wanted}; plan "
                f"again for {wanted}, or ask for {made}"
            )
    return with_updates(case.network, plan, case.array, case.execution)


def in_one_stage(case: Case) -> Case:
    """The case without stages and micro-batches: the whole batch at once."""
    return replace(case, execution=replace(case.execution, staging=None))


def in_any_memory(case: Case) -> Case:
    """The case, run whether it fits in memory or not."""
    return replace(case, execution=replace(case.execution, strict_memory=False))


def simulated(case: Case, plan: Plan) -> Timeline:
    """The step under a plan of the case's, or of another planner's."""
    return simulate(case.network, plan, case.array, case.execution, folded=case.folded)


def step_of(case: Case) -> tuple[Plan, Timeline]:
    """Plan, then simulate."""
    plan = plan_of(case)
    return plan, simulated(case, plan)


def step_beside(case: Case) -> tuple[Plan, Timeline]:
    """``step_of`` what another step is compared with: it need not fit in memory."""
    plan = plan_of(case)
    return plan, simulated(in_any_memory(case), plan)
