"""Updates that are shared out: which core updates, receives and holds what, by elements."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise, product
from math import fsum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.studies.case import Case, plan_of, staged_plan
from hardware import Arithmetic, Array, Device, Group, by_core, load_array
from planners import TIME, Axes, Partition, Plan, PlanError, Split, Staging, Update, load_planner
from planners.order import Kind, Phase
from planners.partition import II, III, I
from planners.plan.updates import updates_of
from simulator import DEPLOYED, PUBLISHED, Execution, Timeline, program_of, simulate
from simulator.cost.number_bytes import number_bytes
from simulator.search.updates import with_updates
from workloads import Builder, Network, load_network

EXACT = Execution("deployed", whole_shards=False)
SHARDED, REPLICATED = Update.SHARDED, Update.REPLICATED
SIDE = 48
"""Divided by four twice."""
ARITHMETIC = Arithmetic(2.0)
EACH = number_bytes(ARITHMETIC)
Elements = frozenset[tuple[int, int]]


def network() -> Network:
    net = Builder("one", SIDE, 1)
    net.fc("fc", SIDE)
    return net.build()


def array_of(*boards: int) -> Array:
    device = Device("a", 1, 2, 1e12, 1e9, 1e9, 1e9, arithmetic=ARITHMETIC)
    kinds = tuple((replace(device, name=name), n) for name, n in zip("abc", boards, strict=False))
    return Array("few", "", Group(kinds))


@st.composite
def trees(draw: st.DrawFn, group: Group, cuts: int = 2) -> Split | None:
    """Any types, halves alike or not; cuts of the weights are at whole rows and columns."""
    if group.size == 1:
        return None
    type_ = draw(st.sampled_from((I, I, II, III) if cuts else (I,)))
    alike = group.halves()[0] == group.halves()[1] and draw(st.booleans())
    share = 0.5 if alike else draw(st.sampled_from((0.25, 0.5)))
    halves = group.halves()[: 1 if alike else 2]
    below = tuple(draw(trees(half, cuts - (type_ is not I))) for half in halves)
    return Split((Partition(type_, share),), 0.0, below)


def held(split: Split | None, group: Group, rows: range, columns: range) -> list[Elements]:
    """The weights that every core has."""
    if split is None:
        return [frozenset(product(rows, columns))]
    found = []
    (partition,) = split.partitions
    for i, half in enumerate(group.halves()):
        own = [rows, columns]
        if partition.type is not I:
            axis = 0 if partition.type is II else 1
            cut = own[axis]
            at = cut.start + round(len(cut) * partition.share)
            own[axis] = range(cut.start, at) if i == 0 else range(at, cut.stop)
        found += held(split.halves[i if len(split.halves) > 1 else 0], half, *own)
    return found


def received(timeline: Timeline, phase: Phase, kind: Kind) -> float:
    total = timeline.totals().get((phase, kind))
    return total.bytes if total else 0.0


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(((1,), (2,), (4,), (3,), (1, 1), (2, 1), (2, 2), (1, 3))))
def test_every_copy_but_one_is_received(data: st.DataObject, boards: tuple[int, ...]) -> None:
    """Of an element that n cores have, n - 1 gradients are sent to whoever sums them.

    n - 1 cores receive the new weight; one updates it, and has the state that it takes.
    """
    array = array_of(*boards)
    group = by_core(array).group
    plan = Plan("any", "one", 16, "time", ("fc",), data.draw(trees(group)), updates=(SHARDED,))
    cores = held(plan.root, group, range(SIDE), range(SIDE))
    copies = Counter(element for core in cores for element in core)
    assert len(copies) == SIDE * SIDE
    others = sum(copies.values()) - SIDE * SIDE
    timeline = simulate(network(), plan, array, EXACT, folded=data.draw(st.booleans()))
    assert received(timeline, Phase.GRADIENT, Kind.SUMS) == pytest.approx(4.0 * others)
    assert received(timeline, Phase.UPDATE, Kind.WEIGHTS) == pytest.approx(2.0 * others)
    updated = received(timeline, Phase.UPDATE, Kind.MEMORY)
    assert updated == pytest.approx(EACH.update * SIDE * SIDE)
    state = fsum(w.multiplicity * w.held_bytes for w in timeline.program.workers)
    weights = EACH.weight * sum(copies.values())
    assert state == pytest.approx(weights + (EACH.state - EACH.weight) * SIDE * SIDE)


@pytest.mark.parametrize("boards", [(4,), (3,), (2, 1)])
def test_each_core_updates_as_much_as_any_other(boards: tuple[int, ...]) -> None:
    """Whatever samples they have, of data-parallel cores each updates 1/n."""
    array = array_of(*boards)

    def tree(group: Group) -> Split | None:
        if group.size == 1:
            return None
        return Split((Partition(I, 0.25),), 0.0, tuple(map(tree, group.halves())))

    root = tree(by_core(array).group)
    plan = Plan("any", "one", 64, "time", ("fc",), root, updates=(SHARDED,))
    program = program_of(network(), plan, array, EXACT, folded=False)
    updates = {
        task.operation.hbm_bytes
        for worker in program.workers
        for task in worker.template
        if task.operation.phase is Phase.UPDATE and task.operation.kind is Kind.COMPUTE
    }
    (each,) = {round(one, 6) for one in updates}
    assert each == pytest.approx(EACH.update * SIDE * SIDE / sum(boards) / 2)


def test_the_state_that_a_core_holds_by_hand() -> None:
    """AlexNet on eight cores: weights whole, master copy and moment an eighth.

    10 B a parameter (2 + 4 + 4) are 2 + 8/8 = 3 B; the peak falls by as much.
    """
    array, net = load_array("tpu-v3-8"), load_network("alexnet")
    plan = load_planner("data_parallel")(net, EXACT.planned(array), 512)
    shared = replace(plan, updates=(SHARDED,) * len(plan.nodes))
    before, after = (simulate(net, one, array, EXACT) for one in (plan, shared))
    (whole,), (part,) = before.program.workers, after.program.workers
    assert whole.held_bytes == pytest.approx(10.0 * net.parameters)
    assert part.held_bytes == pytest.approx(3.0 * net.parameters)
    less = before.memory[0].peak_bytes - after.memory[0].peak_bytes
    assert less == pytest.approx(7.0 * net.parameters)


def test_layers_that_are_not_shared_out_stay_as_they_are() -> None:
    """A bucket is of layers that are updated alike, and only those shared out are gathered."""
    array, net = load_array("tpu-v3-8"), load_network("alexnet")
    plan = load_planner("data_parallel")(net, EXACT.planned(array), 512)
    mixed = [SHARDED, REPLICATED, SHARDED, SHARDED, REPLICATED, REPLICATED, SHARDED, SHARDED]
    shared = replace(plan, updates=updates_of(mixed))
    timeline = simulate(net, shared, array, replace(EXACT, bucket_bytes=1e12))
    wanted = (Phase.GRADIENT, Kind.SUMS), (Phase.UPDATE, Kind.WEIGHTS)
    of: dict[tuple[str, str], list[str]] = {key: [] for key in wanted}
    for operation in timeline.operations:
        of.get((operation.phase, operation.kind), []).append(operation.layer)
    assert of[Phase.UPDATE, Kind.WEIGHTS] == ["conv1 and 4 more"]
    assert of[Phase.GRADIENT, Kind.SUMS] == [
        *("fc8 and 1 more", "fc6 and 1 more", "conv4 and 1 more", "conv2", "conv1")
    ]


def test_stages_that_do_not_wait_for_updates_do_not_share_them_out() -> None:
    array, net = load_array("accpar-homogeneous", ["devices.0.count=2"]), load_network("lenet")
    plan = load_planner("pipedream")(net, array, 64)
    assert plan.pipeline is not None
    first = plan.pipeline.stages[0]
    own = replace(first.plan, updates=(SHARDED,) * len(first.plan.nodes))
    stages = (replace(first, plan=own), *plan.pipeline.stages[1:])
    with pytest.raises(PlanError, match=r"share out the update.*'pipedream' none waits"):
        simulate(net, replace(plan, pipeline=replace(plan.pipeline, stages=stages)), array)


def staged(name: str, array: Array, stages: int, micro_batches: int, execution: Execution) -> Plan:
    """Data parallelism in each of some stages."""
    staging = Staging(stages=stages, micro_batches=micro_batches, tied="copies")
    network = load_network(name)
    asked = replace(execution, staging=staging)
    case = Case(network, "data_parallel", array, 64, execution=asked)
    plan = staged_plan(case, TIME, staging)
    return with_updates(network, plan, array, asked)


@pytest.mark.parametrize(
    "execution", [PUBLISHED, DEPLOYED, replace(DEPLOYED, overlap=False)], ids=str
)
def test_one_stage_is_the_step_itself(execution: Execution) -> None:
    """It begins with new weights, too, of which each layer waits for its own."""
    array, net = load_array("accpar-homogeneous", ["devices.0.count=4"]), load_network("alexnet")
    plain = load_planner("data_parallel")(net, execution.planned(array), 64)
    shared = replace(plain, updates=(SHARDED,) * len(plain.nodes))
    pipeline = with_updates(
        net, staged("alexnet", array, 1, 1, execution), array, replace(execution, update="sharded")
    )
    assert pipeline.pipeline is not None
    own = simulate(net, pipeline, array, execution)
    step = simulate(net, shared, array, execution)
    assert own.iteration_ps == pytest.approx(step.iteration_ps, abs=len(step.operations))
    assert own.traffic_bytes == pytest.approx(step.traffic_bytes)


@pytest.mark.parametrize("name", ["alexnet", "gpt2:seq=8"])
@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED], ids=str)
def test_stages_share_out_updates_each_by_itself(name: str, execution: Execution) -> None:
    """Folded or not; not slower than all of it everywhere, and with less of the optimizer's state.

    To the published model both exchange as much; elsewhere less is updated.
    """
    array, net = load_array("accpar-homogeneous", ["devices.0.count=8"]), load_network(name)
    plan = staged(name, array, 2, 4, execution)
    asked = replace(execution, update="sharded")
    shared = with_updates(net, plan, array, asked)
    before, after = (simulate(net, one, array, execution) for one in (plan, shared))
    assert after.iteration_ps <= before.iteration_ps
    assert after.iteration_ps < before.iteration_ps or execution is PUBLISHED
    unfolded = simulate(net, shared, array, execution, folded=False)
    assert unfolded.iteration_ps == after.iteration_ps
    auto = with_updates(net, plan, array, replace(execution, update="auto"))
    assert auto == (shared if after.iteration_ps < before.iteration_ps else plan)
    for one, other in zip(before.memory, after.memory, strict=True):
        assert other.peak_bytes < one.peak_bytes
    for worker in after.program.workers:
        phases = [task.operation.phase for task in worker.template]
        gathers = [i for i, t in enumerate(worker.template) if t.operation.kind is Kind.WEIGHTS]
        first = phases.index(Phase.FORWARD) if Phase.FORWARD in phases else len(phases)
        assert bool(gathers) == any(phase is Phase.UPDATE for phase in phases)
        assert max(gathers, default=-1) < first


def test_stages_of_a_place_exchange_one_after_the_other() -> None:
    """Two of them: the first one's new weights first, and the last one's gradients."""
    array, net = load_array("dgx-h100"), load_network("gpt2:layers=4:seq=64:vocab=1000")
    staging = Staging(parallel=Axes(dp=4, pp=2, vp=2), micro_batch=1)
    how = replace(DEPLOYED, staging=staging, update="sharded", bucket_bytes=0.0)
    plan = plan_of(Case(net, "axes", array, 16, execution=how))
    timeline = simulate(net, plan, array, how)
    worker = timeline.program.workers[0]
    assert worker.rank_program is not None
    lines = worker.rank_program.lines
    stage_of = {
        worker.template[i].operation: stage for (stage, _), some in lines.items() for i in some
    }
    columns = timeline.columns
    for phase, order in ((Phase.UPDATE, [0, 2]), (Phase.GRADIENT, [2, 0])):
        spans = sorted(
            (start, end, stage_of[operation])
            for number, start, end in zip(
                columns.operation, columns.start, columns.end, strict=True
            )
            if (operation := timeline.operations[number]) in stage_of
            and (operation.phase, operation.kind is Kind.COMPUTE) == (phase, False)
        )
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
        assert list(dict.fromkeys(stage for *_, stage in spans)) == order
