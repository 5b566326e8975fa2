"""Memory and idle cores of whole arrays, core by core against a slow second implementation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.studies.case import Case, plan_of, step_of
from hardware import Array, Device, Group, load_array, load_device
from planners import Plan, load_planner
from planners.order import shared_out
from planners.partition import II, I, PartitionType, Shard, V
from simulator import DEPLOYED, Execution, OutOfMemoryError, overflow, program_of, simulate
from simulator.analysis.memory_timeline import device_memory, held
from simulator.cost.memory import memory_use
from simulator.cost.roofline import core_of
from simulator.cost.training_operators import operators
from simulator.engine.operations import Operation, Task, Worker
from simulator.lowering.step.deployed import Deployed
from simulator.lowering.step.training_step import training_step
from simulator.sharding.mesh import Counting, Division, Mesh
from simulator.sharding.spec import INPUT, read_by
from tests.simulator.cost.test_memory import chain, oracle, whole
from tests.simulator.lowering.test_deployed import steps
from workloads import Graph, Network, Node, load_network, partition_graph

Held = tuple[Device, list[Shard], list[float]]
"""A core's device, its shards, and of the weights of each node the fraction that it updates."""


def every_core(part: Mesh, graph: Graph) -> Iterator[Held]:
    """What each core of the array holds."""
    for half in part.halves:
        yield from every_core(half, graph)
    if not part.halves:
        for shards, _, _ in part.classes(folded=False):
            held = [as_held(s, node) for s, node in zip(shards, graph, strict=True)]
            yield part.group.kinds[0][0], held, [1.0] * len(held)


def as_held(shard: Shard, node: Node) -> Shard:
    """A join's outputs are split as its inputs are; with half of the positions, half the rows."""
    part = shard.positions / node.out_area
    if node.join and shard.outputs:
        shard = shard._replace(outputs=shard.inputs * node.out_channels / node.in_channels)
    return shard._replace(rows=shard.rows * part, positions=part)


def share_out(part: Mesh, v: int, cores: Sequence[Held]) -> None:
    """What each of the ``cores`` of a part updates of a node, level by level, core by core.

    Each level gives a core the part of those on its side: of all who take part
    (``busy``) below it, where the sides have the same weights.
    """
    types = part.partitions[v].type if part.halves else part.types[0][v] if part.types else None
    if types is None:
        return
    middle = part.halves[0].cores if part.halves else len(cores) // 2
    sides = cores[:middle], cores[middle:]
    busy = [sum(not shards[v].empty for _, shards, _ in side) for side in sides]
    if types in (I, V):
        for side, many in zip(sides, busy, strict=True):
            for _, _, updated in side:
                updated[v] *= many / max(1, sum(busy))
    halves = part.halves or [replace(part, types=part.types[1:])] * 2
    for half, side in zip(halves, sides, strict=True):
        share_out(half, v, side)


def scattered(root: Mesh, graph: Graph) -> set[int]:
    """Nodes whose sums (type II) one reader wants by positions (type V) wherever they are split.

    And another one, somewhere, wants whole.
    """
    readers = [
        [(w, e) for w, node in enumerate(graph) for e, u in enumerate(node.producers) if u == v]
        for v in range(len(graph))
    ]

    def wanted(types: Sequence[PartitionType], v: int) -> list[bool]:
        return [types[w] is V and read_by(graph, w, e) is INPUT for w, e in readers[v]]

    found = set()
    for v in range(len(graph)):
        asked = [wanted(types, v) for types in splits(root) if types[v] is II]
        if all(map(any, asked)) and not all(map(all, asked)):
            found.add(v)
    return found


def splits(part: Mesh) -> Iterator[tuple[PartitionType, ...]]:
    """The types of all nodes at each split of cores that work."""
    if part.idle or all(shard.empty for shard in part.shards):
        return
    if part.halves:
        yield tuple(one.type for one in part.partitions)
    yield from part.types
    for half in part.halves:
        yield from splits(half)


@settings(max_examples=25, deadline=None)
@given(steps(), st.floats(0.2, 1.1))
def test_every_core_by_brute_force(
    case: tuple[Network, Plan, Array, Execution], fraction: float
) -> None:
    network, plan, array, execution = case
    graph, ops = partition_graph(network), operators(network)
    cores = execution.planned(array)
    counting = Counting.WHOLE if execution.whole_shards else Counting.EXACT
    division = Division(graph, counting, blocks=True, folded=False)
    root = division.divide(plan.root, cores.group, plan.batch)
    held = list(every_core(root, graph))
    assert len(held) == array.group.cores
    for v in shared_out(graph, plan.updates):
        share_out(root, v, held)
    parts = scattered(root, graph)
    peaks = [(core[0], max(oracle(ops, *core[1:], parts), default=0.0)) for core in held]
    capacity = fraction * max(peak for _, peak in peaks)
    kinds = tuple(
        (replace(d, hbm_capacity_bytes=capacity * d.cores_per_chip), n)
        for d, n in array.group.kinds
    )
    tight = replace(array, group=Group(kinds))
    memory = program_of(network, plan, tight, execution).memory
    assert memory == program_of(network, plan, tight, execution, folded=False).memory
    for one, (device, _) in zip(memory, array.group.kinds, strict=True):
        mine = [peak for other, peak in peaks if other == device]
        assert one.device == device.name
        assert one.peak_bytes == pytest.approx(max(mine))
        assert one.cores == len(mine)
        # one that fills it to the last byte may be over by the rounding of a sum
        surely, perhaps = (sum(peak > capacity * (1 + by) for peak in mine) for by in (1e-9, -1e-9))
        assert surely <= one.cores_over <= perhaps
    idle = sum(all(shard.empty for shard in shards) for _, shards, _ in held)
    timeline = simulate(network, plan, array, execution)
    if all(node.forward for node in ops.nodes):  # else a core may hold what nothing computes
        assert timeline.idle_cores == idle
    assert simulate(network, plan, array, execution, folded=False).idle_cores == (
        timeline.idle_cores
    )


def test_equal_devices_with_unequal_loads_by_hand() -> None:
    """Whole rows: one core has two, two have one, the fourth none."""
    ops, board = chain(), replace(load_device("tpu-v2")[0], hbm_capacity_bytes=2 * 2000)
    two, one, none = (tuple(whole(ops, rows)) for rows in (2, 1, 0))
    untiled = replace(board, roofline=replace(board.roofline, tile=False))
    core = core_of(untiled)
    workers = []
    for shards, many in ((two, 1), (one, 2), (none, 1)):
        use = memory_use(ops, shards, core)
        tasks = tuple(
            Task(Operation("compute", phase, ops.graph[v].name), held=held)
            for (v, phase), held in use.by_product().items()
        )
        workers.append(Worker(untiled, tasks, (), many, unit="core", held_bytes=use.held_bytes))
    (memory,) = device_memory(workers, ["", "", ""])
    own = max(oracle(ops, one))
    assert max(oracle(ops, two)) == memory.peak_bytes > 2000 > own
    assert (memory.cores, memory.cores_over, memory.fits) == (4, 1, False)
    assert memory.operator == "pool backward"
    assert str(memory).endswith("0.00 MiB a core, at pool backward")


def test_data_parallelism_leaves_most_of_a_large_array_idle() -> None:
    network, array = load_network("lenet"), load_array("accpar-mixed")
    _, timeline = step_of(Case(network, "data_parallel", array, 512, execution=DEPLOYED))
    assert (timeline.idle_cores, timeline.cores) == (1536, 2048)
    assert [one.cores for one in timeline.memory] == [1024, 1024]
    exact = replace(DEPLOYED, whole_shards=False)
    assert step_of(Case(network, "data_parallel", array, 512, execution=exact))[1].idle_cores == 0


def test_the_published_model_has_no_memory() -> None:
    timeline = step_of(Case(load_network("lenet"), "owt", load_array("accpar-mixed"), 512))[1]
    assert timeline.memory == ()
    assert timeline.idle_cores == 0
    assert overflow("lenet", "owt", "accpar-mixed", timeline.memory) is None


def test_what_does_not_fit_is_named_and_refused_where_asked() -> None:
    """Twice as many samples as MLPerf ran on each 8 GiB core of TPU v2; v3 has 16."""
    network, strict = load_network("resnet50"), replace(DEPLOYED, strict_memory=True)
    array = load_array("tpu-v2-8")
    plan = plan_of(Case(network, "data_parallel", array, 8 * 256, execution=DEPLOYED))
    words = (
        r"resnet50 under data_parallel does not fit in the memory of tpu-v2-8: tpu-v2: peak "
        r"8\.56 GiB of 8\.00 GiB a core, at layer4\.2\.add backward \(8 of 8 cores\); take a "
    )
    with pytest.raises(OutOfMemoryError, match=words):
        simulate(network, plan, array, strict)
    (memory,) = simulate(network, plan, array, DEPLOYED).memory
    assert not memory.fits
    larger = load_array("tpu-v3-8")
    fitting = plan_of(Case(network, "data_parallel", larger, 8 * 256, execution=strict))
    assert simulate(network, fitting, larger, strict).memory[0].fits


@pytest.mark.parametrize("name", ["lenet", "resnet18"])
def test_units_hold_what_the_order_in_which_they_work_asks_for(name: str) -> None:
    """A map is freed by whoever reads it last then, not by who does so in the listed order."""
    network, array = load_network(name), DEPLOYED.planned(load_array("wham-1"))
    plan = load_planner("data_parallel")(network, array, 64)
    rules = Deployed(network, plan, array, DEPLOYED, folded=True)
    (worker,) = training_step(rules).workers
    order = [rules.operator_of[task.operation] for task in worker.template if task.computes]
    ops = operators(network)
    shards = [as_held(s, node) for s, node in zip(rules.root.shards, ops.graph, strict=True)]
    listed, own = oracle(ops, shards), oracle(ops, shards, order=order)
    assert [one.most for one in held(worker)] == pytest.approx(own)
    assert max(own) < 0.999 * max(listed)
