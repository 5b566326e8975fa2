"""Block-circulant layers on units: products of spectra and transforms, counted one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import MatrixUnit, Units, VectorUnit, load_array
from planners import load_planner
from planners.order import Phase
from planners.partition import Shard
from simulator import DEPLOYED, simulate
from simulator.cost.operators import Operator
from simulator.cost.training_operators import operators
from simulator.cost.units.matrix import cycles
from simulator.cost.units.pricing import lanes_of, price, product_of, spectral_lanes
from simulator.lowering.units.cores import sites
from workloads import Builder, Network, load_network
from workloads.transforms import circulant

SMALL = Units(1e9, (MatrixUnit(16, 8),), (VectorUnit(8, 4),), 2.0**24)
SAMPLES = 3


class Counting:
    """Real multiply-adds of products of spectra by frequency, and operations of transforms."""

    def __init__(self, block: int) -> None:
        self.macs = [0] * (block // 2 + 1)
        self.transforms = 0
        self._block = block

    def transform(self, size: int) -> None:
        if size > 1:
            self.transform(size // 2)
            self.transform(size // 2)
            for _ in range(size // 2):
                self.transforms += 6 + 2 + 2  # a complex product, a sum and a difference

    def position(self, blocks_in: int, blocks_out: int, taps: int) -> None:
        """An output position of a sample: its own share of transforms, and each tap's blocks."""
        for _ in range(blocks_in + blocks_out):
            self.transform(self._block)
        for frequency in range(len(self.macs)):
            for _ in range(blocks_in * blocks_out * taps):
                self.macs[frequency] += 4  # real and imaginary parts with one another


def operator_of(network: Network, phase: Phase) -> tuple[Operator, Shard]:
    ops = operators(network)
    found = next(o for o in ops.schedule() if o.block > 1 and o.phase is phase and o.macs)
    node = ops.graph[found.node]
    ins, outs = node.in_channels / node.groups, node.out_channels / node.groups
    return found, Shard(SAMPLES, ins, outs, node.groups)


def network_of(kind: str, ins: int, outs: int, side: int) -> Network:
    """A dense layer first, so that the errors of the one that is asked about are computed."""
    builder = Builder("n", 1 if kind == "conv" else ins, side, side)
    if kind == "conv":
        builder.conv("before", ins, 3, padding=1)
        builder.conv("asked", outs, 3, padding=1)
    elif kind == "fc":
        builder.fc("before", ins)
        builder.fc("asked", outs)
    else:
        builder.linear("before", ins)
        builder.cell("asked", "lstm", outs)
    return builder.build()


@settings(max_examples=30)
@given(
    st.sampled_from(["fc", "conv"]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([2, 4, 8]),
    st.integers(2, 4),
    st.sampled_from([Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT]),
)
def test_products_and_transforms_are_a_count_one_by_one(
    kind: str, ins: int, outs: int, block: int, side: int, phase: Phase
) -> None:
    side = side if kind == "conv" else 1
    network = network_of(kind, ins * block, outs * block, side)
    layers = tuple(
        replace(layer, block=block) if layer.name == "asked" else layer for layer in network.layers
    )
    counting = Counting(block)
    for _ in range(SAMPLES * side * side):
        counting.position(ins, outs, 9 if kind == "conv" else 1)
    operator, shard = operator_of(replace(network, layers=layers), phase)
    product = product_of(operator, shard)
    assert product.operations == 2 * sum(counting.macs)
    assert product.times == 4 * len(counting.macs)
    assert product.m * product.k * product.n == counting.macs[0] // 4
    assert spectral_lanes(operator, shard) == pytest.approx(2 * sum(counting.macs))
    plain = lanes_of(replace(operator, block=1), shard)
    assert lanes_of(operator, shard) - plain == pytest.approx(counting.transforms)


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT])
def test_sides_by_hand(phase: Phase) -> None:
    """512 to 512 with blocks of 64: 4 x 33 products of 8 x 8 blocks."""
    operator, shard = operator_of(circulant(network_of("fc", 512, 512, 1), 64), phase)
    sides = (8, SAMPLES, 8) if phase is Phase.GRADIENT else (SAMPLES, 8, 8)
    assert product_of(operator, shard)[1:] == (*sides, 132)


def test_the_faster_of_matrix_and_vector_units() -> None:
    """8 x 8 blocks waste most of a large array, and fill a small one."""
    operator, shard = operator_of(circulant(network_of("fc", 512, 512, 1), 64), Phase.FORWARD)
    shard = shard._replace(rows=256)
    product = product_of(operator, shard)
    large = replace(SMALL, matrix=(MatrixUnit(256, 256),), vector=(VectorUnit(1024, 8),))
    found = price(operator, shard, large)
    lanes = lanes_of(operator, shard) + spectral_lanes(operator, shard)
    assert found.unit is None
    assert found.vector_s == pytest.approx(np.ceil(lanes / 8192) / 1e9)
    assert found.vector_s < cycles(large.matrix[0], product) / 1e9
    few = replace(SMALL, matrix=(MatrixUnit(8, 8, 64),), vector=(VectorUnit(8),))
    found = price(operator, shard, few)
    assert found.unit == 0
    assert found.matrix_s == cycles(few.matrix[0], product) / 1e9


@pytest.mark.parametrize("name", ["alexnet", "gnmt"])
@pytest.mark.parametrize("units", ["wham-1", "ultra96-v2-1"])
def test_steps_are_estimated_as_they_are_run(name: str, units: str) -> None:
    """Convolutions, layers and cells, with the estimate's arrays and the engine's prices."""
    network, array = circulant(load_network(name), 32), load_array(units)
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), 4)
    (site,) = sites(network, plan, array, DEPLOYED)
    own = array.group.kinds[0][0].units
    assert own is not None
    serial = replace(DEPLOYED, overlap=False)
    found = simulate(network, plan, array, serial).iteration_s
    assert site.step.priced(own).alone_s.sum() == pytest.approx(found, rel=1e-6)
    assert simulate(network, plan, array, DEPLOYED).iteration_s <= found
