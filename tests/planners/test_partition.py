"""The tables of docs/explanation/models.md, derived from who holds and needs which element."""

from itertools import product

import pytest

from planners.partition import (
    II,
    III,
    IV,
    LAYOUTS,
    WHOLE,
    I,
    PartitionType,
    Shard,
    V,
    boundary,
    producer_type,
)
from tests.planners.slow_sizes import sizes
from workloads import Node, load_network, partition_graph

SIDE = 12
Element = tuple[int, int, int]
"""A sample, a position of it, a column."""
EVERYTHING = set(product(range(SIDE), range(SIDE), range(SIDE)))


def rows(upto: int) -> set[Element]:
    return {element for element in EVERYTHING if element[0] < upto}


def positions(upto: int) -> set[Element]:
    return {element for element in EVERYTHING if element[1] < upto}


def columns(upto: int) -> set[Element]:
    return {element for element in EVERYTHING if element[2] < upto}


def held_features(producer: PartitionType, share: int) -> set[Element]:
    """F_{l+1} after partial sums: I rows, II everything, III and IV columns, V positions."""
    if producer is II:
        return EVERYTHING
    return {I: rows, III: columns, IV: columns, V: positions}[producer](share)


def needed_features(consumer: PartitionType, share: int) -> set[Element]:
    """F as input: I rows, II and IV columns, III everything, V positions."""
    if consumer is III:
        return EVERYTHING
    return {I: rows, II: columns, IV: columns, V: positions}[consumer](share)


@pytest.mark.parametrize("producer", PartitionType)
@pytest.mark.parametrize("consumer", PartitionType)
@pytest.mark.parametrize("share", range(SIDE + 1))
def test_boundary_counts_what_a_group_lacks(
    producer: PartitionType, consumer: PartitionType, share: int
) -> None:
    """Errors are needed as features are held, and held as these are needed."""
    features = needed_features(consumer, share) - held_features(producer, share)
    errors = held_features(producer, share) - needed_features(consumer, share)
    forward, backward = boundary(producer, consumer, share / SIDE)
    assert forward == pytest.approx(len(features) / SIDE**3)
    assert backward == pytest.approx(len(errors) / SIDE**3)


def test_a_join_reads_and_writes_one_layout() -> None:
    """Rows in, rows out; columns in, columns out; everything in, everything out."""
    join = Node("add", "add", 1, 1, 1, 1, 1, 1, (), None)
    for kind in LAYOUTS:
        seen = producer_type(join, kind)
        assert needed_features(kind, 5) == held_features(seen, 5)


CONV = Node("conv", "conv", 3, 5, 9, 64, 16, 4, ())
FC = Node("fc", "fc", 7, 11, 1, 1, 1, 1, ())


def test_sizes_of_a_convolution() -> None:
    size = sizes(CONV, 2, WHOLE)
    assert size.weights == 3 * 5 * 9
    assert size.input == 2 * 3 * 64
    assert size.output == 2 * 5 * 16
    assert size.pooled == 2 * 5 * 4
    forward = 160 * (2 * 3 * 9 - 1)
    assert size.flops == (forward, forward, 135 * (2 * 2 * 16 - 1))


def test_sizes_of_a_fully_connected_layer() -> None:
    size = sizes(FC, 2, WHOLE)
    assert (size.weights, size.input, size.output) == (77, 14, 22)
    assert size.flops == (22 * 13, 14 * 21, 77 * 3)


def test_no_negative_flops_of_fractions_of_channels() -> None:
    assert sizes(FC, 2, Shard(inputs=0.0, outputs=0.0)).flops == (0.0, 0.0, 0.0)
    assert min(sizes(FC, 1, Shard(0.25, 0.05, 0.04)).flops) >= 0.0


def test_a_network_of_paper_size_is_counted_exactly() -> None:
    """Shares of one half are powers of two: floats count elements exactly, 16 levels deep."""
    for node in partition_graph(load_network("vgg19")):
        size = sizes(node, 512, Shard(2.0**-16, 1.0, 2.0**-3))
        assert size.input * 2**16 == 512 * node.in_channels * node.in_area
        assert size.weights * 2**3 == node.in_channels * node.out_channels * node.kernel_area
