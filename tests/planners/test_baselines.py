"""Planners of one idea each: closed forms for what they cost, and what they never do."""

from dataclasses import replace

import pytest

from hardware import Array, load_array
from planners import BASELINES, PLANNERS, TRAFFIC, PartitionType, Plan, load_planner, predict
from workloads import Network, load_network, partition_graph

I, II, III, IV, V = PartitionType  # noqa: E741
ALIKE = load_array("accpar-homogeneous", ["devices.0.count=8"])
MIXED = load_array("accpar-mixed", ["devices.0.count=4", "devices.1.count=4"])
CHAINS = ["lenet", "alexnet", "vgg11", "vgg16"]
GRAPHS = ["resnet18", "densenet121", "inception-v3", "bert-base:seq=16", "gnmt:seq=4"]


def made(planner: str, network: Network, array: Array = ALIKE, batch: int = 256) -> Plan:
    return load_planner(planner)(network, array, batch, TRAFFIC)


def types_of(plan: Plan) -> list[tuple[PartitionType, ...]]:
    return [split.types for split in plan.splits()]


@pytest.mark.parametrize("name", CHAINS)
def test_data_parallelism_moves_the_weights_at_every_level(name: str) -> None:
    network = load_network(name)
    plan = made("data_parallel", network)
    assert {kind for types in types_of(plan) for kind in types} == {I}
    for split in plan.levels() or []:
        assert split.cost == network.weights


@pytest.mark.parametrize("name", CHAINS)
def test_model_parallelism_moves_outputs_and_errors(name: str) -> None:
    """Level k has halved the inputs k times; the table's columns cost (0, 1/2) of the input."""
    network, batch = load_network(name), 64
    graph = partition_graph(network)
    plan = made("model_parallel", network, batch=batch)
    assert {kind for types in types_of(plan) for kind in types} == {II}
    for level, split in enumerate(plan.levels() or []):
        outputs = sum(batch * node.out_channels * node.pooled_area for node in graph)
        inputs = sum(batch * node.in_channels * node.in_area for node in graph[1:])
        assert split.cost == pytest.approx(outputs + inputs / 2 ** (level + 1))


@pytest.mark.parametrize("name", [*CHAINS, *GRAPHS])
def test_one_weird_trick_is_by_the_kind_of_layer(name: str) -> None:
    network = load_network(name)
    graph = partition_graph(network)
    for types in types_of(made("owt", network)):
        for node, kind in zip(graph, types, strict=True):
            if not node.join:
                vector = node.kind == "fc" and node.in_area == 1
                assert kind is (II if vector else I)


@pytest.mark.parametrize("name", [*CHAINS, *GRAPHS])
@pytest.mark.parametrize("array", [ALIKE, MIXED], ids=["alike", "mixed"])
def test_hypar_never_splits_outputs_or_groups(name: str, array: Array) -> None:
    network = load_network(name)
    graph = partition_graph(network)
    for types in types_of(made("hypar", network, array)):
        for node, kind in zip(graph, types, strict=True):
            assert node.join or kind in (I, II)


@pytest.mark.parametrize("planner", [*PLANNERS, *BASELINES])
def test_shares_follow_numbers_under_traffic(planner: str) -> None:
    """Whatever the devices: elements do not ask how fast one is."""
    array = load_array("accpar-mixed", ["devices.0.count=6", "devices.1.count=2"])
    root = made(planner, load_network("alexnet"), array).root
    assert root is not None
    assert {partition.share for partition in root.partitions} == {0.75}


@pytest.mark.parametrize("planner", ["data_parallel", "owt", "hypar", "model_parallel"])
def test_only_accpar_balances_unlike_devices(planner: str) -> None:
    network = load_network("alexnet")
    root = load_planner(planner)(network, MIXED, 256).root
    assert root is not None
    assert {partition.share for partition in root.partitions} == {0.5}
    balanced = load_planner("accpar")(network, MIXED, 256).root
    assert balanced is not None
    assert max(partition.share for partition in balanced.partitions) < 0.5  # the slower boards'


@pytest.mark.parametrize("name", ["lenet", "alexnet", "resnet18"])
def test_scaled_devices_scale_the_prediction_and_leave_the_plan(name: str) -> None:
    """Peak and port twice as fast: half the seconds, the same choice."""
    network = load_network(name)
    kinds = tuple(
        (
            replace(
                device,
                chip_peak_flops_per_s=2 * device.chip_peak_flops_per_s,
                network_bytes_per_s=2 * device.network_bytes_per_s,
            ),
            count,
        )
        for device, count in MIXED.group.kinds
    )
    twice = replace(MIXED, group=replace(MIXED.group, kinds=kinds))
    accpar = load_planner("accpar")
    slow, fast = accpar(network, MIXED, 256), accpar(network, twice, 256)
    assert types_of(slow) == types_of(fast)
    assert predict(network, fast, twice) == pytest.approx(predict(network, slow, MIXED) / 2)


@pytest.mark.parametrize("batch", [8, 64, 512])
def test_the_larger_the_batch_the_less_a_sample_costs_under_data_parallelism(batch: int) -> None:
    """Weights are exchanged once a step: FLOPs a sample are all but alike, traffic shrinks."""
    network = load_network("alexnet")
    planner = load_planner("data_parallel")
    small, large = (
        predict(network, planner(network, ALIKE, n), ALIKE) / n for n in (batch, 2 * batch)
    )
    assert large < small
