"""The search says of which size its buckets are, where that pays and nobody asked for a size."""

from dataclasses import replace

import pytest

from hardware import load_array
from simulator import DEPLOYED, PUBLISHED, simulate
from simulator.lowering.execution import BUCKET_BYTES
from simulator.search.search import search
from simulator.search.shares import SIZES, sizes_of
from tests.simulator.search.matrix import CLUSTER
from workloads import load_network

BOARD = load_array("tpu-v3-8")
CASES = {
    "lenet": (BOARD, 512),
    "alexnet": (BOARD, 64),
    "resnet18": (load_array("tpu-v3-pod", ["devices.0.count=3"]), 100),
}
"""The last is an array without layouts: the other planners' plans are all there is."""


@pytest.mark.parametrize("name", list(CASES))
def test_no_other_size_is_better_for_its_plan(name: str) -> None:
    network, (array, batch) = load_network(name), CASES[name]
    plan = search(network, DEPLOYED.planned(array), batch, execution=DEPLOYED)
    ours = simulate(network, plan, array, DEPLOYED).iteration_s
    for size in (*SIZES, BUCKET_BYTES):
        other = replace(plan, bucket_bytes=size)
        assert ours <= simulate(network, other, array, DEPLOYED).iteration_s


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, True])
def test_a_size_pays_and_is_planned(every: bool) -> None:
    """ResNet-18 on four nodes of eight: smaller buckets leave while backward goes on."""
    network, array = load_network("resnet18"), load_array(str(CLUSTER))
    plan = search(network, DEPLOYED.planned(array), 512, execution=DEPLOYED)
    assert plan.bucket_bytes is not None
    assert 0 < plan.bucket_bytes < BUCKET_BYTES
    usual = replace(plan, bucket_bytes=None)
    if every:
        asked = replace(DEPLOYED, bucket_bytes=BUCKET_BYTES)
        usual = search(network, asked.planned(array), 512, execution=asked)
        assert usual.bucket_bytes is None
    ours, theirs = (simulate(network, one, array, DEPLOYED).iteration_s for one in (plan, usual))
    assert ours < 0.995 * theirs


def test_who_asks_for_a_size_gets_it() -> None:
    assert sizes_of(DEPLOYED) == SIZES
    for execution in (
        replace(DEPLOYED, bucket_bytes=BUCKET_BYTES),
        replace(DEPLOYED, mode="inference"),
        PUBLISHED,
    ):
        assert not sizes_of(execution)
