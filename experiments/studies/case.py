"""A case: everything that decides one simulated step, its identity, and its result."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from importlib.metadata import entry_points
from typing import Any

from experiments.studies.occupancy import occupancy
from experiments.studies.step import plan_step
from hardware import COMMAND_LINE, Array
from planners import BASELINES, OBJECTIVES, PLANNERS, Communication, Plan
from planners.registry import ENTRY_POINTS
from simulator import MODEL_VERSION, PUBLISHED, Execution, Program, program_of, run, shares
from workloads import Layer, Network

Outputs = dict[str, float | None]
"""What a case's run says: seconds, shares of the step, bytes."""


@dataclass(frozen=True, slots=True)
class Case:
    """One network under one planner on one array, everything resolved (no files needed)."""

    network: Network
    planner: str
    array: Array
    batch: int
    objective: str = "time"
    communication: str = "printed"
    execution: Execution = PUBLISHED

    @property
    def inputs(self) -> dict[str, Any]:
        """The case in a few words, for people, with what the command line changed."""
        return self._changes() | {
            "network": self.network.name,
            "planner": self.planner,
            "array": self.array.name,
            "batch": self.batch,
            "objective": self.objective,
            "accelerators": self.array.group.size,
            "execution": str(self.execution),
            **({} if self.communication == "printed" else {"communication": self.communication}),
        }

    @property
    def key(self) -> str:
        """SHA-256 of the canonical JSON of everything that changes the answer."""
        text = json.dumps(self._identity(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def _changes(self) -> dict[str, str]:
        changed = {s.key: s.value for s in self.array.settings if s.source == COMMAND_LINE}
        everywhere = changed.get("network.bandwidth")
        return {
            key: value
            for key, value in changed.items()
            if not (key.endswith(".network.bandwidth") and value == everywhere)
        }

    def _identity(self) -> dict[str, Any]:
        return {
            "model": MODEL_VERSION,
            "execution": _options(self.execution),
            "network": _layers(self.network),
            "planner": [self.planner, _planner_version(self.planner)],
            "objective": self.objective,
            "communication": self.communication,
            "batch": self.batch,
            "topology": asdict(self.array.topology),
            "array": [
                [{k: v for k, v in asdict(device).items() if k != "description"}, count]
                for device, count in self.array.group.kinds
            ],
        }


def _options(execution: Execution) -> dict[str, Any]:
    """An execution model's options; strictness only where a step may be refused for it."""
    options = asdict(execution)
    if not execution.strict_memory:
        del options["strict_memory"]
    return options


def _layers(network: Network) -> list[list[Any]]:
    """Layers without their names: inputs are numbers of earlier ones, -1 the network's.

    What the first networks have none of is left out where it is absent, so
    that their cases keep their identities.
    """
    number = {"input": -1, "": -1} | {layer.name: i for i, layer in enumerate(network.layers)}
    return [
        [
            layer.kind,
            [number[name] for name in layer.inputs],
            [layer.input.channels, layer.input.height, layer.input.width],
            [layer.output.channels, layer.output.height, layer.output.width],
            layer.kernel,
            *_further(layer, number[layer.shared]),
        ]
        for layer in network.layers
    ]


def _further(layer: Layer, shared: int) -> list[Any]:
    others = [[shape.channels, shape.height, shape.width] for shape in layer.others]
    fields = [
        layer.groups,
        layer.transposed,
        layer.vocabulary,
        layer.directions,
        layer.extra,
        layer.operator,
        shared,
        others,
    ]
    return [] if fields == [1, False, 0, 1, 0, "", -1, []] else [fields]


def _planner_version(name: str) -> str:
    """The version of the package that brings a planner; built-in ones go with the model's."""
    if name in PLANNERS | BASELINES:
        return "built in"
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        if entry.dist is not None:
            return f"{entry.dist.name} {entry.dist.version}"
    return "unknown"


def plan_of(case: Case) -> Plan:
    """The case's plan."""
    communication = Communication(case.communication)
    objective = replace(OBJECTIVES[case.objective], communication=communication)
    return plan_step(case.network, case.planner, case.array, case.batch, objective, case.execution)


def program(case: Case) -> Program:
    """What a case's run does."""
    return program_of(case.network, plan_of(case), case.array, case.execution)


def gap_of(plan: Plan) -> float | None:
    """How far a plan may be above the least cost, as a fraction: 0 exact, None unknown."""
    gap = plan.gap or 0.0
    return gap if math.isfinite(gap) else None


def run_case(case: Case) -> Outputs:
    """Plan and simulate; times in seconds, shares of an average core's step.

    ``peak_memory_bytes`` is None in the published execution model, which has no
    memory, and ``energy_j`` where a device's spec has no energies. The deployed
    model adds the cores that overflow their memory, and those that are idle.
    ``plan_gap`` is 0 for an exact plan, and None where nothing is known.
    """
    plan = plan_of(case)
    timeline = run(program_of(case.network, plan, case.array, case.execution))
    spent = shares(timeline)
    return {
        "iteration_s": timeline.iteration_s,
        "computing": spent.computing,
        "communicating": spent.communicating,
        "waiting": spent.waiting,
        "plan_gap": gap_of(plan),
        "peak_memory_bytes": None,
        "energy_j": timeline.energy_j,
        "traffic_bytes": timeline.traffic_bytes,
        **occupancy(timeline),
    }
