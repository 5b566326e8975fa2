"""One tensor for several layers is exchanged once, and their errors for it together."""

import pytest

from hardware import by_core, load_array
from planners import Axes, planned_by_axes
from planners.hierarchy.fixed_types import plan_of_types
from planners.order import Kind, Phase
from planners.partition import II, III, I, PartitionType
from simulator import DEPLOYED, Timeline, simulate
from simulator.lowering.execution import Execution
from simulator.lowering.models import rules_of
from simulator.lowering.step.exchanges import siblings_of
from simulator.lowering.step.training_step import training_step
from workloads import Builder, Network, load_network, partition_graph

ARRAY = load_array("ripples-16", ["devices.0.count=1"])
BATCH, WIDTH, EACH = 16, 64, 4
TENSOR = BATCH * WIDTH * EACH


def fork(readers: int = 3) -> Network:
    """A layer that several read, each by a branch of its own, added up again."""
    net = Builder("fork", WIDTH, 1)
    first = net.fc("first", WIDTH)
    last = ""
    for k in range(readers):
        branch = net.fc(f"branch{k}", WIDTH, after=first)
        last = net.add(f"add{k}", last, branch) if last else branch
    net.fc("last", WIDTH)
    return net.build()


def step(network: Network, types: list[PartitionType], execution: Execution = DEPLOYED) -> Timeline:
    """Four cores, the same types at both levels."""
    array = by_core(ARRAY)
    plan = plan_of_types(network, array, BATCH, [types, types])
    return simulate(network, plan, ARRAY, execution)


def of(network: Network, **kinds: PartitionType) -> list[PartitionType]:
    names = [node.name for node in partition_graph(network)]
    return [kinds.get(name.rstrip("0123456789"), III) for name in names]


@pytest.mark.parametrize("execution", [DEPLOYED, Execution("deployed", overlap=False)])
@pytest.mark.parametrize("readers", [1, 2, 5])
def test_however_many_read_it(readers: int, execution: Execution) -> None:
    """Rows are gathered once (3 tensors of four cores'), errors summed once (a ring: 6)."""
    network = fork(readers)
    totals = step(network, of(network, first=I), execution).totals()
    assert totals[Phase.FORWARD, Kind.BOUNDARY].bytes == 3 * TENSOR * (readers + 1)
    sums = totals[Phase.BACKWARD, Kind.SUMS].bytes
    assert sums == 6 * TENSOR * 2  # the branches' together, and the last one's


def test_layers_of_unlike_types_are_none() -> None:
    network = fork(2)
    kinds = of(network, first=I)
    kinds[2] = II
    array = by_core(ARRAY)
    plan = plan_of_types(network, array, BATCH, [kinds, kinds])
    graph = partition_graph(network)
    rules = rules_of(network, plan, array, DEPLOYED, folded=True)
    assert siblings_of(network, graph, list(rules._parts)) == {}  # type: ignore[attr-defined]
    assert rules.siblings(1) == (1,)


def test_layers_of_unlike_tensors_are_none() -> None:
    """One reads what the other reads through an activation."""
    net = Builder("two", WIDTH, 1)
    first = net.fc("first", WIDTH)
    one = net.fc("one", WIDTH, after=first)
    other = net.fc("other", WIDTH, after=net.relu("relu", first))
    net.fc("last", 8, after=net.add("add", one, other))
    network, array = net.build(), by_core(ARRAY)
    kinds = of(network)
    plan = plan_of_types(network, array, BATCH, [kinds, kinds])
    assert rules_of(network, plan, array, DEPLOYED, folded=True).siblings(1) == (1,)


def test_a_block_all_reduces_twice_each_way() -> None:
    """Query, key and value together, gate and up together: Shoeybi et al. 2019, figure 4."""
    network = load_network("llama3-8b:layers=2:seq=16")
    plan = planned_by_axes(network, by_core(ARRAY), BATCH, Axes(tp=4))
    totals = simulate(network, plan, ARRAY, DEPLOYED).totals()
    stream = BATCH * 16 * 4096 * EACH
    assert totals[Phase.BACKWARD, Kind.SUMS].bytes == 6 * stream * (2 * 2 + 1)
    assert totals[Phase.FORWARD, Kind.SUMS].bytes == 6 * stream * (2 * 2 + 1)


def test_errors_wait_for_all_of_them() -> None:
    """Their sums, once, need the products of all branches, in whatever order these run."""
    network, array = fork(3), by_core(ARRAY)
    kinds = of(network, first=I)
    plan = plan_of_types(network, array, BATCH, [kinds, kinds])
    template = (
        training_step(rules_of(network, plan, array, DEPLOYED, folded=True)).workers[0].template
    )
    (sums,) = (
        task
        for task in template
        if task.operation.phase is Phase.BACKWARD
        and task.operation.kind is Kind.SUMS
        and task.operation.layer.startswith("branch")
    )
    needed = {template[i].operation.layer for i in sums.needs}
    assert needed == {"branch0", "branch1", "branch2"}
