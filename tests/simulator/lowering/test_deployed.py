"""The deployed model: folding, bounds that no schedule can break, and closed forms."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.studies.case import Case, plan_of, step_of
from experiments.studies.options import with_options
from hardware import Array, Group, Topology, by_core, load_array, wires_of
from hardware.topology import Tier, TierKind
from planners import Plan, PlanError
from planners.order import Kind, Phase
from simulator import (
    DEPLOYED,
    PICOSECONDS,
    PUBLISHED,
    Execution,
    Operation,
    Timeline,
    deployed,
    shares,
    simulate,
)
from simulator.analysis.stalls import core_steps
from tests.strategies import arrays, devices, networks, plans
from workloads import Builder, Network, load_network

EXACT = Execution("deployed", whole_shards=False)
KINDS = ("tree", "switch", "bus", "ring", "mesh", "fully_connected")
executions = st.builds(
    Execution,
    st.just("deployed"),
    overlap=st.booleans(),
    whole_shards=st.booleans(),
    bucket_bytes=st.sampled_from((0.0, 100.0, 1e9)),
)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Network, Plan, Array, Execution]:
    """Any plan of any network on any wires."""
    network, array = draw(networks(5)), draw(arrays(3, 2))
    array = replace(array, topology=Topology(draw(st.sampled_from(KINDS))))
    plan = draw(plans(network, by_core(array), 24))
    return network, plan, array, draw(executions)


@st.composite
def on_nodes(draw: st.DrawFn) -> tuple[Network, Plan, Array, Execution]:
    """Any plan on nodes of two to four boards, of which halves of the array may part one."""
    network, device, members = draw(networks(5)), draw(devices()), draw(st.integers(2, 4))
    inner: TierKind = draw(st.sampled_from(("switch", "ring", "mesh", "fully_connected")))
    rails = draw(st.sampled_from((1, members)))
    levels = Tier(inner, members, 1e7, 1e-6), Tier("switch", 0, 1e6, 1e-5, rails)
    kinds = [(device, members * draw(st.integers(2, 4)))]
    if draw(st.booleans()):
        other = replace(device, name="other", chip_peak_flops_per_s=3e6)
        kinds.append((other, members * draw(st.integers(1, 2))))
    array = Array("nodes", "", Group(tuple(kinds)), topology=Topology("tiers", levels=levels))
    plan = draw(plans(network, by_core(array), 24))
    return network, plan, array, draw(executions)


def durations(timeline: Timeline) -> dict[Operation, tuple[int, int]]:
    """Start and end of every exchange."""
    columns, ops = timeline.columns, timeline.operations
    return {
        ops[index]: (begin, stop)
        for index, begin, stop in zip(columns.operation, columns.start, columns.end, strict=True)
        if ops[index].level >= 0
    }


@settings(max_examples=80, deadline=None)
@given(st.one_of(steps(), on_nodes()))
def test_folded_is_unfolded(case: tuple[Network, Plan, Array, Execution]) -> None:
    folded, unfolded = simulate(*case), simulate(*case, folded=False)
    assert folded.iteration_ps == unfolded.iteration_ps
    assert shares(folded) == shares(unfolded)
    assert folded.cores == unfolded.cores
    for key, total in folded.totals().items():
        other = unfolded.totals()[key]
        assert total.bytes == pytest.approx(other.bytes, rel=1e-9)
        assert total.flops == pytest.approx(other.flops, rel=1e-9)
        if key[1] in (Kind.COMPUTE, Kind.MEMORY):
            assert (total.operations, total.core_ps) == (other.operations, other.core_ps)


@settings(max_examples=40, deadline=None)
@given(steps())
def test_what_no_schedule_can_break(case: tuple[Network, Plan, Array, Execution]) -> None:
    """Links, cores and memories are never given away twice; nothing starts before what it needs."""
    timeline = simulate(*case)
    spans = durations(timeline)
    bandwidth = wires_of(case[2]).bandwidth
    crossed = np.zeros(len(bandwidth))
    for operation in spans:
        for job in operation.jobs:
            load = job.load.unfolded()
            np.add.at(crossed, load.links, job.flow_bytes * load.flows)
    slack_s = 1e-12 * (1 + sum(len(operation.jobs) for operation in spans))
    assert (crossed / bandwidth).max(initial=0.0) <= timeline.iteration_s + slack_s
    for worker, times in zip(timeline.program.workers, core_steps(timeline), strict=True):
        work = sum(task.operation.duration_ps for task in worker.template)
        assert times.computing == work
        assert times.computing + times.exposed <= timeline.iteration_ps
        for task in worker.template:
            for need in task.needs:
                operation, other = task.operation, worker.template[need].operation
                if operation.level >= 0 and other.level >= 0:
                    assert spans[other][1] <= spans[operation][0]


@settings(max_examples=25, deadline=None)
@given(steps())
def test_more_bandwidth_on_every_link_is_never_slower_without_overlap(
    case: tuple[Network, Plan, Array, Execution],
) -> None:
    network, plan, array, execution = case
    execution = replace(execution, overlap=False, algorithm="auto")
    kinds = tuple(
        (replace(d, network_bytes_per_s=4 * d.network_bytes_per_s), n) for d, n in array.group.kinds
    )
    faster = replace(array, group=replace(array.group, kinds=kinds))
    before, after = (simulate(network, plan, a, execution) for a in (array, faster))
    slack = sum(len(op.jobs) for op in after.operations) + 1
    assert after.iteration_ps <= before.iteration_ps + slack


def one_layer(features: int) -> Network:
    net = Builder("one", features, 1, 1)
    net.fc("fc", features)
    return net.build()


@pytest.mark.parametrize("overlap", [True, False])
def test_one_gradient_on_a_torus(overlap: bool) -> None:
    """Summed inside chips through HBM, over an 8 x 8 torus in four directions, and back."""
    array = load_array("tpu-v3-pod", ["devices.0.count=16"])
    execution = Execution("deployed", overlap=overlap)
    _, timeline = step_of(
        Case(one_layer(4096), "data_parallel", array, 16 * 128, execution=execution)
    )
    size, n, side = 4 * 4096**2, 64, 8
    hbm = 2 * (2 * 2 * size / 2) / 900e9  # there and back: halves both ways, written and read
    torus = (n - 1) / (2 * n) * size / 82e9 + 4 * (side - 1) * 1.5e-6
    spent = timeline.iteration_ps - max(times.computing for times in core_steps(timeline))
    assert spent / PICOSECONDS == pytest.approx(hbm + torus, rel=1e-6)


def test_gradients_travel_while_backward_goes_on() -> None:
    """Computing and exchanging one after the other, or less by what hides."""
    array, network = load_array("tpu-v3-pod", ["devices.0.count=4"]), load_network("vgg16")
    times = []
    for overlap in (False, True):
        execution = Execution("deployed", overlap=overlap)
        _, timeline = step_of(Case(network, "data_parallel", array, 32 * 64, execution=execution))
        exchanges = sum(stop - start for start, stop in durations(timeline).values())
        (core,) = core_steps(timeline)
        times.append((timeline.iteration_ps, core.computing, exchanges))
    (apart, computing, exchanging), (together, also_computing, also_exchanging) = times
    assert apart == computing + exchanging
    assert (computing, exchanging) == (also_computing, also_exchanging)
    assert max(computing, exchanging) < together < 0.97 * apart


def test_buckets_are_fewer_exchanges_of_the_same_bytes() -> None:
    array, network = load_array("tpu-v3-pod", ["devices.0.count=4"]), load_network("resnet18")
    counts, sizes = [], []
    for bucket in (0.0, 4e6, 1e12):
        execution = Execution("deployed", bucket_bytes=bucket)
        _, timeline = step_of(Case(network, "data_parallel", array, 32 * 8, execution=execution))
        sums = timeline.totals()[Phase.GRADIENT, Kind.SUMS]
        counts.append(sums.operations)
        sizes.append(sums.bytes)
    assert counts[0] == 21
    assert counts[0] > counts[1] > counts[2] == 1
    assert sizes == pytest.approx([sizes[0]] * 3)


def test_cores_without_work_are_idle() -> None:
    """Data parallelism has 512 samples for 2,048 cores."""
    array = load_array("accpar-mixed")
    _, timeline = step_of(
        Case(load_network("lenet"), "data_parallel", array, 512, execution=DEPLOYED)
    )
    idle = [t.cores for t in core_steps(timeline) if not t.computing]
    assert sum(idle) == 1536


def test_changing_the_wires_changes_the_plan() -> None:
    array, network = load_array("accpar-mixed-switch"), load_network("vgg11")
    faster = load_array("accpar-mixed-switch", ["network.bandwidth=1 Tbit/s"])
    plans = [plan_of(Case(network, "accpar", a, 512, execution=DEPLOYED)) for a in (array, faster)]
    assert plans[0].root is not None
    assert plans[1].root is not None
    assert plans[0].root.partitions != plans[1].root.partitions


def test_a_published_plan_does_not_fit() -> None:
    array, network = load_array("accpar-homogeneous"), load_network("lenet")
    plan = plan_of(Case(network, "owt", array, 512, execution=PUBLISHED))
    with pytest.raises(PlanError, match=r"another number .* for execution.planned\(array\)"):
        simulate(network, plan, array, DEPLOYED)


def test_exact_shards_fill_no_tiles() -> None:
    """A quarter of a sample is a quarter of a sample's bytes; whole samples do fill tiles."""
    tiled = load_array("tpu-v3-8")
    plain = load_array("tpu-v3-8", ["devices.0.roofline.tile=false"])
    for execution, same in ((EXACT, True), (DEPLOYED, False)):
        cases = (
            Case(load_network("lenet"), "data_parallel", array, 2, execution=execution)
            for array in (tiled, plain)
        )
        steps = [step_of(case)[1] for case in cases]
        assert (steps[0].iteration_ps == steps[1].iteration_ps) is same
        assert (steps[0].memory == steps[1].memory) is same


def test_tiny_shares_round_to_nothing_and_take_no_part() -> None:
    """Less than half a sample for the slow half: as whole shards it idles and is not waited for."""
    array, network = load_array("accpar-mixed"), load_network("lenet")
    plan = plan_of(Case(network, "data_parallel", array, 512, execution=DEPLOYED))
    assert plan.root is not None
    little = tuple(replace(p, share=0.4 / 512) for p in plan.root.partitions)
    plan = replace(plan, root=replace(plan.root, partitions=little))
    whole, exact = (
        simulate(network, plan, array, Execution("deployed", whole_shards=w)) for w in (True, False)
    )
    slow, fast = (device for device, _ in array.group.kinds)
    assert whole.flops_by_device()[slow] == 0 < exact.flops_by_device()[slow]
    alone = replace(array, group=Group(((fast, 128),)), settings=())
    _, half = step_of(Case(network, "data_parallel", alone, 512, execution=DEPLOYED))
    assert whole.iteration_ps == half.iteration_ps


@pytest.mark.parametrize(
    ("kind", "boards"), [("torus", 10), ("mesh", 12), ("ring", 12), ("switch", 12), ("tree", 6)]
)
def test_odd_halves_on_wires_that_tell_them_apart(kind: str, boards: int) -> None:
    """Two threes on a ring are alike by plan and not by place: other traffic passes one of them."""
    changes = [f"devices.0.count={boards}", f"topology.kind={kind}"]
    array, network = load_array("accpar-homogeneous", changes), load_network("alexnet")
    plan = plan_of(Case(network, "accpar", array, 64, execution=DEPLOYED))
    folded, unfolded = (simulate(network, plan, array, DEPLOYED, folded=f) for f in (True, False))
    assert folded.iteration_ps == unfolded.iteration_ps
    assert len(folded) < len(unfolded)


def test_halves_that_part_a_node_are_followed_each() -> None:
    """Of three nodes of two GPUs the first three are 0 0 1, the others 1 2 2."""
    array = load_array("h100-cluster", ["nodes=3", "devices.0.count=2"])
    network = load_network("gpt2:layers=1:seq=32")
    plan = plan_of(Case(network, "hypar", array, 64, execution=DEPLOYED))
    folded, unfolded = (simulate(network, plan, array, DEPLOYED, folded=f) for f in (True, False))
    assert folded.iteration_ps == unfolded.iteration_ps


@pytest.mark.parametrize("inner", ["tp=2", "tp=2,sp", "tp=4", "cp=2", "cp=2,tp=2"])
@pytest.mark.parametrize("zero", ["0", "1"])
def test_gradients_of_any_number_of_replicas_are_one_collective(inner: str, zero: str) -> None:
    """Of n replicas each device receives 2 (n - 1) / n of its gradients, all n - 1 times that."""
    network = load_network("gpt2:layers=2:seq=64")

    def step(replicas: int) -> tuple[float, int, float]:
        each = prod(int(axis[3:]) for axis in inner.split(",") if axis != "sp")
        array = load_array("h100-cluster", [f"nodes={replicas}", f"devices.0.count={each}"])
        options = {"parallel": f"dp={replicas},{inner}", "zero": zero}
        execution = with_options(deployed(array), options)
        case = Case(network, "axes", array, 12 * replicas, execution=execution)
        plan, timeline = step_of(case)
        assert plan.pipeline is None
        total, peak = timeline.totals(), max(one.peak_bytes for one in timeline.memory)
        moved = sum(one.bytes for key, one in total.items() if key[1] in (Kind.SUMS, Kind.WEIGHTS))
        return moved, timeline.iteration_ps, peak

    found = {replicas: step(replicas) for replicas in (2, 3, 4, 6, 8)}
    least, most = found[2], found[8]
    per_replica = (most[0] - least[0]) / 6
    for replicas, (moved, took_ps, peak) in found.items():
        assert moved == pytest.approx(least[0] + (replicas - 2) * per_replica, rel=1e-9)
        assert least[1] * 0.98 <= took_ps <= most[1] * 1.02
        if zero == "0":
            assert peak == pytest.approx(least[2], rel=1e-3)
        else:
            assert most[2] * 0.999 <= peak <= least[2] * 1.001
