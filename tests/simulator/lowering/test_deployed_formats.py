"""What travels under the deployed model is in the format of what it is."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Arithmetic, Array, load_array
from planners import Partition, Plan, Split
from planners.order import Kind, Phase
from planners.partition import II, III, I, PartitionType
from planners.plan.split import splits_below
from simulator import DEPLOYED, Execution, Timeline, simulate
from tests.simulator.lowering.test_deployed import steps
from workloads import Builder, Network, partition_graph

Sent = dict[tuple[str, str], float]
EXCHANGES = (Kind.SUMS, Kind.BOUNDARY)


def with_arithmetic(array: Array, arithmetic: Arithmetic) -> Array:
    kinds = tuple((replace(device, arithmetic=arithmetic), n) for device, n in array.group.kinds)
    return replace(array, group=replace(array.group, kinds=kinds))


def sent(timeline: Timeline) -> Sent:
    return {key: t.bytes for key, t in timeline.totals().items() if key[1] in EXCHANGES}


def operands_by_positions(network: Network, plan: Plan) -> bool:
    """Whether a product of computed operands is split by positions anywhere."""
    return any(
        node.computed and partition.type is PartitionType.V
        for split in splits_below(plan.root)
        for node, partition in zip(partition_graph(network), split.partitions, strict=True)
    )


@settings(max_examples=30, deadline=None)
@given(steps(), st.sampled_from((1.0, 4.0, 8.0)))
def test_each_exchange_scales_with_one_format(
    case: tuple[Network, Plan, Array, Execution], times: float
) -> None:
    """Features and errors with activations, gradients with gradients, new weights with weights."""
    network, plan, array, execution = case
    execution = replace(execution, bucket_bytes=0.0)  # whose exchanges depend on bytes

    def of(activation: float, weight: float, gradient: float) -> Sent:
        arithmetic = Arithmetic(2.0, False, activation, weight, gradient, 9.0, (7.0,))
        changed = with_arithmetic(array, arithmetic)
        return sent(simulate(network, plan, changed, execution))

    base = of(2.0, 2.0, 2.0)
    wide = {
        "activation": of(2.0 * times, 2.0, 2.0),
        "weight": of(2.0, 2.0 * times, 2.0),
        "gradient": of(2.0, 2.0, 2.0 * times),
    }
    owner: dict[str, str] = dict.fromkeys((Phase.FORWARD, Phase.BACKWARD), "activation")
    owner |= {Phase.GRADIENT: "gradient", Phase.UPDATE: "weight", Phase.RECOMPUTE: "activation"}
    for (phase, kind), bytes_ in base.items():
        if phase is Phase.GRADIENT and operands_by_positions(network, plan):
            continue  # errors of operands, which are activations, are summed with gradients
        for changed, found in wide.items():
            factor = times if owner[phase] == changed else 1.0
            assert found[phase, kind] == pytest.approx(factor * bytes_), (phase, kind, changed)


def test_what_the_optimizer_keeps_never_travels() -> None:
    """The master copy and any number of moments stay where they are; 8 B gradients do not."""
    network, plan, array = two_cores(I, I)
    plain = sent(simulate(network, plan, array, DEPLOYED))
    kept = Arithmetic(2.0, master_bytes=8.0, moment_bytes=(8.0, 8.0))
    assert sent(simulate(network, plan, with_arithmetic(array, kept), DEPLOYED)) == plain
    wide = Arithmetic(2.0, gradient_bytes=8.0)
    assert sent(simulate(network, plan, with_arithmetic(array, wide), DEPLOYED)) != plain


def two_cores(*types: PartitionType) -> tuple[Network, Plan, Array]:
    """Two linear layers of 8 to 6 to 4 features at 5 positions, on two cores, halved."""
    net = Builder("two", 8, 5)
    net.linear("one", 6, bias=True)
    net.linear("two", 4)
    network = net.build()
    changes = ["devices.0.count=2", "devices.0.chips=1", "devices.0.chip.cores=1"]
    array = load_array("accpar-homogeneous", changes)
    names = tuple(node.name for node in partition_graph(network))
    root = Split(tuple(Partition(kind, 0.5) for kind in types), 0.0, (None, None))
    return network, Plan("by hand", network.name, 16, "time", names, root), array


@pytest.mark.parametrize("width", [1.0, 2.0, 4.0, 8.0])
def test_exchanges_by_hand(width: float) -> None:
    """16 samples. Both halves receive what they lack; wide enough, gradients are as wide."""
    elements = 16 * 5 * 6
    gradient = max(4.0, width)

    def of(*types: PartitionType) -> Sent:
        network, plan, array = two_cores(*types)
        timeline = simulate(network, plan, with_arithmetic(array, Arithmetic(width)), DEPLOYED)
        return sent(timeline)

    data_parallel = of(I, I)
    weights = 8 * 6 + 6 + 6 * 4
    assert data_parallel == {(Phase.GRADIENT, Kind.SUMS): pytest.approx(2 * gradient * weights)}
    # columns then rows (Megatron): the second layer's outputs are summed, and nothing else is;
    # nobody needs the errors of the network's input
    tensor_parallel = of(III, II)
    assert tensor_parallel[Phase.FORWARD, Kind.SUMS] == pytest.approx(2 * width * 16 * 5 * 4)
    assert sum(tensor_parallel.values()) == tensor_parallel[Phase.FORWARD, Kind.SUMS]
    # rows then columns: a quarter of the tensor changes hands each way, for each half
    mixed = of(I, II)
    assert mixed[Phase.FORWARD, Kind.BOUNDARY] == pytest.approx(width * elements / 2)
    assert mixed[Phase.BACKWARD, Kind.BOUNDARY] == pytest.approx(width * elements / 2)
    assert mixed[Phase.GRADIENT, Kind.SUMS] == pytest.approx(2 * gradient * (8 * 6 + 6))


@pytest.mark.parametrize(("weight", "gradient"), [(2.0, 4.0), (4.0, 4.0), (1.0, 2.0), (8.0, 4.0)])
def test_tied_weights_travel_back_as_weights(weight: float, gradient: float) -> None:
    """Split along unlike dimensions, half of the matrix crosses, and half of the new weights."""
    net = Builder("tied", 1, 2)
    net.embedding("table", 1000, 64)
    net.linear("head", 1000, shared="table")
    network = net.build()
    _, plan, array = two_cores(II, II)
    names = tuple(node.name for node in partition_graph(network))
    plan = replace(plan, network=network.name, batch=64, nodes=names)
    arithmetic = Arithmetic(2.0, weight_bytes=weight, gradient_bytes=gradient)
    found = sent(simulate(network, plan, with_arithmetic(array, arithmetic), DEPLOYED))
    crossing = 1000 * 64 / 2
    assert found[Phase.GRADIENT, Kind.BOUNDARY] == pytest.approx(gradient * crossing)
    assert found[Phase.UPDATE, Kind.BOUNDARY] == pytest.approx(weight * crossing)
