"""Deployed pipelines against the slow implementation, where no two share a link.

Each stage is on one core, and a link joins every two of them in each direction. What a stage
takes by itself is measured on a core alone; a send takes its bytes over the link,
then its latency.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil
from random import Random

import pytest

from experiments.studies.case import Case, plan_of
from hardware import Array, Device, Group, load_array
from hardware.topology import Topology
from planners import (
    Axes,
    Pipeline,
    Plan,
    Stage,
    load_planner,
    planned_by_axes,
    planned_in_stages,
)
from planners.order import Kind
from planners.partition import II, III, Partition
from planners.pipeline.staging import Staging, places_of
from planners.plan.split import Split
from simulator import DEPLOYED, PUBLISHED, Execution, Timeline, shares, simulate
from tests.simulator.lowering.random_pipelines import SCHEDULES
from tests.simulator.lowering.slow_pipeline import (
    SlowLayer,
    SlowPipeline,
    SlowSend,
    SlowStage,
    ends_of,
)
from workloads import (
    Builder,
    Network,
    Transformer,
    cut,
    load_network,
    partition_graph,
    transformer,
)

LATENCY_PS = 3_000_000


def device(port: int) -> Device:
    latency = LATENCY_PS / 10**12
    return Device("core", 1, 1, 1e12, 1e12, 1e11, float(port), network_latency_s=latency)


def chain(rng: Random, layers: int) -> Network:
    net = Builder("chain", rng.randint(8, 400), 1)
    net.flatten("flat")
    for i in range(layers):
        net.fc(f"fc{i}", rng.randint(8, 400))
    return net.build()


def alone(network: Network, array: Array, rows: int, execution: Execution) -> SlowStage:
    """Times of a stage's layers on a core of its own."""
    one = array.part(0, 1)
    return spent_by(network, load_planner("data_parallel")(network, one, rows), one, execution)


def spent_by(network: Network, plan: Plan, array: Array, execution: Execution) -> SlowStage:
    """Times of a stage's layers and their sums, by itself: picoseconds by layer and phase."""
    spent: dict[tuple[str, str], int] = {}
    for record in simulate(network, plan, replace(array, whole=None), execution):
        if record.kind in ("compute", "partial sums"):
            key = record.layer, record.phase
            spent[key] = spent.get(key, 0) + record.end_ps - record.start_ps
    layers = []
    for node in partition_graph(network):
        forward, errors, weights = (
            spent.get((node.name, phase), 0) for phase in ("forward", "backward", "gradient")
        )
        layers.append(SlowLayer(forward, errors, weights))
    return SlowStage(layers, update=sum(ps for (_, p), ps in spent.items() if p == "update"))


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_links_that_nobody_shares(seed: int, overlap: bool) -> None:
    rng = Random(seed)  # noqa: S311 (the same every time)
    schedule = SCHEDULES[seed % len(SCHEDULES)]
    ranks, v = rng.randint(2, 5), 2 if schedule == "interleaved" else 1
    micro = ranks * rng.randint(1, 2) if schedule != "pipedream" else 1
    batches = {"pipedream": 11, "2bw": 3}.get(schedule, 0)
    layers = rng.randint(ranks * v, ranks * v + 3)
    network, rows = chain(rng, layers), rng.randint(1, 40)
    port = rng.randint(10**8, 10**10)
    array = Array(
        "cores", "", Group(((device(port), ranks),)), topology=Topology("fully_connected")
    )
    firsts = [0, *sorted(rng.sample(range(1, layers), ranks * v - 1))]
    staging = Staging(ranks, micro, schedule, v, batches=batches)
    execution = replace(DEPLOYED, overlap=overlap)
    planned = execution.planned(array)
    plan = planned_in_stages(
        *("data_parallel", network, planned, rows * micro, staging, firsts),
        places_of(planned, ranks),
    )
    stages = [alone(one, planned, rows, execution) for one in cut(network, firsts).networks]
    shapes, sends = {layer.name: layer for layer in network.layers}, []
    for k, first in enumerate(firsts[1:]):
        size = rows * shapes[f"fc{first - 1}"].output.channels * 2
        takes = {(0, 0): ceil(Fraction(size, port) * 10**12) + LATENCY_PS}
        sends.append(SlowSend(k, len(stages[k].layers) - 1, k + 1, [0], takes, takes))
    slow = SlowPipeline(
        stages, sends, [1] * ranks, schedule, micro, max(batches, 1), blocking=not overlap
    )
    wanted, _ = ends_of(slow)
    for folded in (True, False):
        found = simulate(network, plan, array, execution, folded=folded)
        assert found.makespan_ps == wanted


def tensor_parallel(network: Network, batch: int, levels: int) -> Plan:
    """Pairs of layers: the first cuts its outputs, the second its inputs, at every level."""
    names = tuple(node.name for node in partition_graph(network))
    root: Split | None = None
    for _ in range(levels):
        types = [Partition((III, II)[v % 2], 0.5) for v in range(len(names))]
        root = Split(tuple(types), 0.0, (root,))
    return Plan("pairs", network.name, batch, "time", names, root)


@pytest.mark.parametrize("recompute", ["", "all"])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_sent_in_parts_is_gathered_before_it_is_read(seed: int, recompute: str) -> None:
    """Four cores of a stage read the same: a quarter for each, and the rest from one another.

    A link joins every two: each core passes its quarter to three others at once. Little is
    sent whole. What is computed again reads what was gathered then.
    """
    rng = Random(seed)  # noqa: S311 (the same every time)
    ranks, micro, rows = rng.randint(2, 4), rng.randint(1, 6), rng.randint(1, 20)
    net = Builder("pairs", 64, 1)
    net.flatten("flat")
    for i in range(2 * ranks):
        net.fc(f"fc{i}", 64 * rng.randint(8, 40))
    network, port = net.build(), 10**9
    array = Array(
        "cores", "", Group(((device(port), 4 * ranks),)), topology=Topology("fully_connected")
    )
    execution = replace(DEPLOYED, overlap=False)
    planned, firsts = execution.planned(array), [*range(0, 2 * ranks, 2)]
    places = places_of(planned, ranks)
    found = cut(network, firsts)
    plans = [tensor_parallel(one, rows, 2) for one in found.networks]
    stages = [Stage(first, k, plans[k], bool(recompute)) for k, first in enumerate(firsts)]
    pipeline = Pipeline(tuple(stages), places, "1f1b", micro, "")
    names = tuple(node.name for node in partition_graph(network))
    plan = Plan("pairs", network.name, rows * micro, "time", names, None, pipeline=pipeline)
    slow_stages = [
        replace(spent_by(one, plans[k], planned.part(0, 4), execution), recompute=bool(recompute))
        for k, one in enumerate(found.networks)
    ]
    shapes, sends = {layer.name: layer for layer in network.layers}, []
    for k, first in enumerate(firsts[1:]):
        size = rows * shapes[f"fc{first - 1}"].output.channels * 2
        whole, part = size * 1000 + LATENCY_PS, size // 4 * 1000 + LATENCY_PS
        sent, gather = (part, part) if 2 * part < whole else (whole, 0)
        takes = {(0, 0): sent}
        sends.append(SlowSend(k, 1, k + 1, [0], takes, takes, (gather, gather)))
    slow = SlowPipeline(slow_stages, sends, [1] * ranks, "1f1b", micro, blocking=True)
    wanted, _ = ends_of(slow)
    for folded in (True, False):
        timeline = simulate(network, plan, array, execution, folded=folded)
        assert timeline.makespan_ps == wanted


def staged(name: str, planner: str, array: Array, execution: Execution, staging: Staging) -> Plan:
    network = load_network(name)
    nodes, planned = len(partition_graph(network)), execution.planned(array)
    many = staging.stages * staging.virtual
    firsts = [k * nodes // many for k in range(many)]
    places = places_of(planned, staging.stages)
    return planned_in_stages(planner, network, planned, 64, staging, firsts, places)


@pytest.mark.parametrize(
    ("name", "planner", "staging", "topology"),
    [
        ("vgg16", "data_parallel", Staging(4, 4, "1f1b"), "torus"),
        ("vgg16", "hypar", Staging(2, 4, "gpipe", 2), "fully_connected"),
        ("alexnet", "owt", Staging(2, 4, "zero-bubble"), "switch"),
        ("alexnet", "hypar", Staging(2, 2, "pipedream", batches=6, vertical_sync=True), "ring"),
        ("resnet18", "data_parallel", Staging(4, 8, "1f1b", recompute="all"), "tree"),
        ("resnet18", "accpar", Staging(2, 4, "interleaved", 2), "torus"),
        ("resnet18", "data_parallel", Staging(2, 4, "2bw", batches=4), "ring"),
    ],
    ids=str,
)
@pytest.mark.parametrize("overlap", [True, False])
def test_folded_and_unfolded_are_one(
    name: str, planner: str, staging: Staging, topology: str, overlap: bool
) -> None:
    """Where links are shared, and stages have several cores: both ways to follow them."""
    board = Device("board", 1, 1, 1e13, 1e12, 1e11, 1e10, network_latency_s=1e-6)
    array = Array("eight", "", Group(((board, 8),)), topology=Topology(topology))
    execution = replace(DEPLOYED, overlap=overlap)
    plan = staged(name, planner, array, execution, staging)
    folded, unfolded = (
        simulate(load_network(name), plan, array, execution, folded=f) for f in (True, False)
    )
    assert folded.makespan_ps == unfolded.makespan_ps
    assert folded.iteration_ps == unfolded.iteration_ps
    assert folded.totals() == unfolded.totals()
    assert shares(folded) == shares(unfolded)
    assert folded.link_bytes == pytest.approx(unfolded.link_bytes)
    peaks = [[m.peak_bytes for m in one.memory] for one in (folded, unfolded)]
    assert peaks[0] == peaks[1]


@pytest.mark.parametrize("axes", ["tp=2,pp=2,vp=2", "tp=2,sp,pp=2,vp=2,dp=2"])
def test_a_vocabulary_that_devices_cannot_halve_is_followed_device_by_device(axes: str) -> None:
    """Its two halves differ, and the stage without them at the same place treats both alike."""
    array = load_array("h100-cluster", ["nodes=1", f"devices.0.count={8 if 'dp' in axes else 4}"])

    def simulated(vocabulary: int, *, folded: bool = True) -> Timeline:
        network = transformer(Transformer("gpt", 4, 32, 4, vocabulary, seq=16))
        parts = Axes.parse(axes)
        staging = Staging(parallel=parts, micro_batch=1, schedule="interleaved")
        plan = planned_by_axes(network, DEPLOYED.planned(array), 8, parts, staging)
        return simulate(network, plan, array, DEPLOYED, folded=folded)

    found, unfolded = (simulated(101, folded=folded) for folded in (True, False))
    assert found.makespan_ps == unfolded.makespan_ps
    assert found.totals() == unfolded.totals()
    assert len(found) > len(simulated(102)) < len(simulated(102, folded=False))
    assert found.makespan_ps == pytest.approx(simulated(102).makespan_ps, rel=0.01)


@pytest.mark.parametrize("vp", [1, 2, 3])
def test_a_tied_weight_is_summed_when_all_passes_are_over(vp: int) -> None:
    """Without overlap a place with several stages must not wait for it between two of them."""
    network = load_network("gpt2:layers=12:seq=32")
    array = load_array("h100-cluster", ["nodes=1", "devices.0.count=4"])
    axes, staging = Axes(dp=2, pp=2, vp=vp), Staging(micro_batch=1)
    took = []
    for overlap in (False, True):
        how = replace(DEPLOYED, overlap=overlap)
        plan = planned_by_axes(network, how.planned(array), 8, axes, staging)
        took.append(simulate(network, plan, array, how).iteration_s)
    assert took[1] <= took[0] <= 1.5 * took[1]
    plan = planned_by_axes(network, PUBLISHED.planned(array), 8, axes, staging)
    published = simulate(network, plan, array, PUBLISHED)
    sums = [r.start_ps for r in published if r.kind == str(Kind.SUMS) and r.level == -2]
    passes = [r.end_ps for r in published if r.kind == "compute"]
    assert (min(sums) >= max(passes)) if vp > 1 else sums


@pytest.mark.parametrize("execution", [DEPLOYED, PUBLISHED], ids=lambda e: e.model)
def test_stages_of_one_place_have_one_gradient_of_a_weight(execution: Execution) -> None:
    """There is nobody to sum it with."""
    network = load_network("gpt2:layers=2:seq=32")
    array = load_array("h100-cluster", ["nodes=1", "devices.0.count=2"])
    staging = Staging(stages=1, virtual=2, micro_batches=2, tied="copies")
    how = replace(execution, staging=staging)
    plan = plan_of(Case(network, "data_parallel", array, 8, execution=how))
    found = simulate(network, plan, array, execution)
    assert plan.pipeline is not None
    assert len(plan.pipeline.stages) == 2
    assert not [r.layer for r in found if r.kind == str(Kind.SUMS) and r.level == -2]
