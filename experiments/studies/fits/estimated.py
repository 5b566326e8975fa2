"""A case's step by the first pass, where planner "axes" or data parallelism splits it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from experiments.studies.case import Case
from experiments.studies.running.outputs import NAMES, Outputs, run_case
from planners import AXES, Axes, PlanError
from planners.axes.stage_devices import first_nodes_of
from planners.pipeline.staging import Staging, named_cuts
from simulator.cost.memory import capacity_bytes
from simulator.engine.operations import DeviceMemory
from simulator.search.closed_form.first_pass import FirstPass
from simulator.search.closed_form.network_on_array import Estimate, Layout
from workloads import partition_graph

if TYPE_CHECKING:
    import pandas


def run_estimated(case: Case) -> Outputs:
    """Time and memory by the first pass (``estimated``); of other plans what the engine finds."""
    try:
        found = estimate(case)
    except PlanError:
        return run_case(case) | {"estimated": False}
    reserve, kinds = case.execution.memory_reserve, case.array.group.chips
    whole = found.peak_bytes / found.share  # of the fullest, to the last digits
    device, count = min(kinds, key=lambda kind: abs(capacity_bytes([kind]) - whole))
    room, cores = capacity_bytes([(device, count)]), count * device.cores_per_chip
    over = cores if found.share > 1 - reserve else 0
    memory = DeviceMemory(device.name, found.peak_bytes, room, "", cores, over, (), reserve * room)
    return {
        **dict.fromkeys(NAMES),
        "iteration_s": found.seconds,
        "exact": False,
        "uneven": False,
        "peak_memory_bytes": found.peak_bytes,
        "cores_over_memory": over,
        "memory": [asdict(memory) | {"by_class": []}],
        "estimated": True,
    }


def told(table: pandas.DataFrame) -> list[str]:
    """How many rows of a sweep are estimates, in words; nothing where none is."""
    if "estimated" not in table:
        return []
    many = int(table["estimated"].sum())
    others = "; the engine simulated the others, whose plans have no closed form"
    rest = others if many < len(table) else ""
    said = f"{many} of {len(table)} steps are estimates of the first pass{rest}."
    return [f"{said} It does not let exchanges slow each other down on shared links."]


def estimate(case: Case) -> Estimate:
    """Raises PlanError for a plan without a closed form."""
    execution, graph = case.execution, partition_graph(case.network)
    array = execution.planned(case.array)
    staging = execution.staging or Staging()
    if execution.model != "deployed" or case.planner not in (AXES, "data_parallel"):
        raise PlanError(f"{case.planner_name!r} has no closed form")
    if case.planner == "data_parallel":
        axes = Axes(dp=array.group.size)
    else:
        axes = (staging.parallel or Axes()).on(array.group.size, array.name)
    share, rest = divmod(case.batch, axes.dp)
    size = staging.samples(axes.pp) or share // max(staging.micro_batches, 1)
    if staging.stage_hw or staging.recompute or rest or not size or share % size:
        raise PlanError("stages on devices of their own, or unequal shares, have no closed form")
    firsts: tuple[int, ...] = ()
    if staging.cuts:
        firsts = named_cuts(graph, staging.cuts, axes.pp * axes.vp)
    elif staging.stage_layers:
        firsts = first_nodes_of(graph, staging.stage_layers, axes.pp * axes.vp)
    update = "" if execution.update == "auto" else execution.update
    layout = Layout(axes, size, execution.recompute, update, staging.schedule, firsts)
    return FirstPass(case.network, array, case.batch, execution).estimate(layout)
