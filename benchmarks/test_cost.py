"""What it takes to cost every operator of a network for one shard of each node."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from hardware import load_device
from simulator.cost.roofline import core_of, cost
from simulator.cost.training_operators import operators
from simulator.lowering.placement import Shard
from workloads import load_network

MOST_S = 0.01
"""For the 339 operators of ResNet-50."""


def test_operators_of_one_core(benchmark: BenchmarkFixture) -> None:
    core, ops = core_of(load_device("tpu-v3")[0]), operators(load_network("resnet50"))
    shards = [Shard(32, node.in_channels, node.out_channels) for node in ops.graph]

    def every() -> float:
        return sum(cost(op, shards[op.node], core).seconds for op in ops.schedule())

    assert benchmark(every) > 0
    if benchmark.stats is not None:
        assert benchmark.stats.stats.min < MOST_S


@pytest.mark.parametrize("name", ["resnet50", "gpt2-xl"])
def test_writing_the_operators(benchmark: BenchmarkFixture, name: str) -> None:
    network = load_network(name)
    assert benchmark(lambda: operators(network)).nodes
