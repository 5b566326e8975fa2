"""The steps of HyPar's evaluation: its networks and array, planned and simulated once each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from experiments.studies import case
from experiments.studies.case import Case, step_of
from hardware import Array, Group, load_array
from planners import TRAFFIC, Communication, Plan
from simulator import Timeline
from workloads import Network, load_network

BATCH = 256
PLOTTED = replace(TRAFFIC, communication=Communication.PLOTTED)


class Run(NamedTuple):
    """One simulated step: on the shared medium, or with communication ``slower`` so many times."""

    network: str
    planner: str
    accelerators: int = 16
    slower: int = 1


class Steps:
    """The evaluation's steps, each planned and simulated once; ``progress`` hears of each."""

    def __init__(self, progress: Callable[[str], None] = lambda done: None) -> None:
        self.progress = progress
        self._done: dict[Run, Timeline] = {}

    def __getitem__(self, run: Run) -> Timeline:
        if run not in self._done:
            _, self._done[run] = step_of(case_of(run))
            self.progress(f"{run.network} {run.planner}")
        return self._done[run]


def network_of(name: str) -> Network:
    """A network by the paper's name."""
    return load_network(f"hypar-{name.lower()}")


def array_of(accelerators: int = 16, slower: int = 1) -> Array:
    """The paper's array, of so many accelerators; its medium ``slower`` so many times."""
    array = load_array("hypar-16", [f"devices.0.count={accelerators}"])
    ((device, count),) = array.group.kinds
    device = replace(device, network_bytes_per_s=device.network_bytes_per_s / slower)
    return replace(array, group=Group(((device, count),)))


def case_of(run: Run, communication: str = Communication.PLOTTED) -> Case:
    """A step as the evaluation has it: by traffic, and the table that the figures follow."""
    network, array = network_of(run.network), array_of(run.accelerators, run.slower)
    return Case(network, run.planner, array, BATCH, PLOTTED.name, communication)


def plan_of(name: str, communication: Communication) -> Plan:
    """HyPar's plan of a network on 16 accelerators."""
    return case.plan_of(case_of(Run(name, "hypar"), communication))


def digits(plan: Plan) -> list[str]:
    """A level a text, a layer a digit, as in the paper: 0 data parallel, 1 model parallel."""
    return ["".join(str(int(kind)) for kind in split.types) for split in plan.levels() or []]
