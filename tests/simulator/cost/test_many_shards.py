"""Shards all at once: each takes what it takes by itself, to the last digit."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import load_device
from planners.order import Phase
from planners.partition import Shard
from simulator.cost.many_shards import seconds_of
from simulator.cost.roofline import Core, core_of, costs
from simulator.cost.training_operators import operators
from tests.strategies import networks
from workloads import Network, load_network

PLAIN = core_of(load_device("tpu-v3", [])[0])
CORES = {
    "tiles": PLAIN,
    "no tiles": replace(PLAIN, tile=False, overhead_s=3e-6),
    "matrix units": replace(PLAIN, pad_matrix_unit=128),
    "one after the other": replace(PLAIN, concurrent=0.25),
    "host": replace(PLAIN, host_s=50e-6),
    "narrow products": replace(PLAIN, cast_bytes=4.0),
    "winograd": replace(PLAIN, winograd=2.25),
}


def check(network: Network, shards: list[Shard], core: Core) -> None:
    for node in operators(network).nodes:
        for phase in Phase:
            work = node.of(phase)
            alone = [math.fsum(one.seconds for one in costs(work, s, core)) for s in shards]
            assert seconds_of(work, shards, core) == alone


@pytest.mark.parametrize("name", CORES)
@pytest.mark.parametrize("network", ["alexnet", "resnet18", "gpt2:seq=64", "mobilenet-v2"])
def test_each_is_as_by_itself(name: str, network: str) -> None:
    shards = [Shard(1, 3, 64), Shard(64, 7, 1), Shard(9, 768, 129, 1), Shard(512, 16, 16, 4)]
    parts = [Shard(1.5, 1.5, 0.25), Shard(2.0, 64, 64, 12, 0.25)]
    check(load_network(network), [*shards, *parts], CORES[name])


COUNTS = st.integers(1, 1000)


SHARDS = st.builds(Shard, COUNTS, COUNTS, COUNTS, st.just(1), st.just(1))


@settings(max_examples=20)
@given(networks(3), st.lists(SHARDS, max_size=5))
def test_of_random_layers(network: Network, shards: list[Shard]) -> None:
    for core in CORES.values():
        check(network, shards, core)
