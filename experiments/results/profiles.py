"""Plans of profiles as JSON, as rows of a spreadsheet, and as people read them."""

from __future__ import annotations

import math

from experiments.output import table
from experiments.results.result import Answer
from planners.pipeline.load_graph import LoadGraph
from planners.pipeline.max_load import MaxLoad
from planners.pipeline.phaze import Phaze, PhazeLayers
from planners.pipeline.pipedream import ProfiledPipeline
from planners.pipeline.states import States


def of_pipeline(plan: ProfiledPipeline, states: States, hierarchy: str, notes: list[str]) -> Answer:
    """PipeDream's stages; times per minibatch."""
    data = {
        "single_s": plan.single_s,
        "pipeline_s": plan.pipeline_s,
        "data_parallel_s": plan.data_parallel_s,
        "stages": [
            {"nodes": list(stage.nodes), "replicas": stage.replicas} for stage in plan.stages
        ],
    }
    work = {node.name: node.forward_s + node.backward_s for node in states.profile.nodes}
    size = {node.name: node.parameter_bytes for node in states.profile.nodes}
    rows = [
        {
            "stage": i,
            "layers": _span(stage.nodes),
            "replicas": stage.replicas,
            "work [ms]": f"{1e3 * sum(work[name] for name in stage.nodes):.4g}",
            "parameters [MB]": f"{1e-6 * sum(size[name] for name in stage.nodes):.4g}",
        }
        for i, stage in enumerate(plan.stages)
    ]
    title = f"{states.profile.name} on {hierarchy}, cost model {plan.cost_model}"
    said = [
        f"A minibatch takes {1e3 * plan.pipeline_s:.6g} ms in steady state: "
        f"{_times(plan.single_s, plan.pipeline_s)} one device ({1e3 * plan.single_s:.6g} ms), "
        f"{_times(plan.data_parallel_s, plan.pipeline_s)} data parallel "
        f"({1e3 * plan.data_parallel_s:.6g} ms).",
        f"{_count(plan.in_flight, 'minibatch', 'minibatches')} in flight. "
        f"Work is of one minibatch on one device.",
        *notes,
    ]
    lines = [
        {"stage": i, "replicas": stage.replicas, "node": name}
        for i, stage in enumerate(plan.stages)
        for name in stage.nodes
    ]
    return Answer(data, lambda: lines, lambda: [table(title, rows), *said])


def of_max_load(plan: MaxLoad, graph: LoadGraph, devices: int) -> Answer:
    """The split of least largest load; times per sample."""
    data = {
        "max_load_s": plan.max_load_s,
        "one_device_s": plan.one_device_s,
        "accelerators_only_s": plan.accelerators_only_s,
        "devices": [
            {"kind": one.kind, "load_s": one.load_s, "nodes": list(one.nodes)}
            for one in plan.devices
        ],
        "cpus": plan.cpus,
        "exact": True,
        "notes": list(plan.notes),
    }
    rows = [
        {"device": one.kind, "nodes": len(one.nodes), "load [ms]": f"{1e3 * one.load_s:.6g}"}
        for one in plan.devices
    ]
    cpus = "none fits their memory"
    if math.isfinite(plan.accelerators_only_s):
        cpus = f"{1e3 * plan.accelerators_only_s:.6g} ms"
    said = [
        f"The largest load is {1e3 * plan.max_load_s:.6g} ms, the least of all contiguous splits "
        f"({plan.ideals} sets tried in pairs): {_times(plan.one_device_s, plan.max_load_s)} "
        f"one accelerator ({1e3 * plan.one_device_s:.6g} ms).",
        f"Accelerators only: {cpus}.",
        *plan.notes,
    ]
    lines = [
        {"device": i, "kind": one.kind, "node": name}
        for i, one in enumerate(plan.devices)
        for name in one.nodes
    ]
    title = f"{graph.name} over {devices} accelerators"
    return Answer(data, lambda: lines, lambda: [table(title, rows), *said])


def of_phaze(plan: Phaze, layers: PhazeLayers, devices: int) -> Answer:
    """Phaze's placement; times per batch."""
    data = {
        "batch_s": plan.batch_s,
        "slowest_stage_s": plan.slowest_s,
        "pipelines": plan.pipelines,
        "stages": [{"nodes": list(nodes), "replicas": plan.pipelines} for nodes in plan.stages],
        "notes": list(plan.notes),
    }
    rows = [
        {"stage": i, "layers": _span(nodes), "replicas": plan.pipelines}
        for i, nodes in enumerate(plan.stages)
    ]
    used = plan.pipelines * len(plan.stages)
    said = [
        f"A batch takes {plan.batch_s:.7g} s: {_count(plan.pipelines, 'pipeline')} of "
        f"{_count(len(plan.stages), 'stage')} on {used} of {devices} devices; "
        f"the slowest stage takes {1e3 * plan.slowest_s:.6g} ms per micro-batch.",
        *plan.notes,
    ]
    lines = [
        {"stage": i, "replicas": plan.pipelines, "node": name}
        for i, nodes in enumerate(plan.stages)
        for name in nodes
    ]
    title = f"{layers.name}, Phaze's placement"
    return Answer(data, lambda: lines, lambda: [table(title, rows), *said])


def _times(slow_s: float, fast_s: float) -> str:
    return f"{slow_s / fast_s if fast_s else 1.0:.4g} times as fast as"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _span(names: tuple[str, ...]) -> str:
    """The first and the last, and how many: "node2 ... node9 (8)"."""
    return names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]} ({len(names)})"
