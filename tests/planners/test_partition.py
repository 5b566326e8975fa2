"""The tables of docs/model.md, derived again from who holds and who needs which element."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.partition import (
    II,
    III,
    IV,
    LAYOUTS,
    WHOLE,
    I,
    Partition,
    PartitionType,
    Shard,
    V,
    boundary,
    partial_sums,
    producer_type,
    shrink,
)
from tests.planners.slow_sizes import shrunk, sizes
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


def held_errors(consumer: PartitionType, share: int) -> set[Element]:
    """E of the input after the consumer's backward: as its features are needed."""
    return needed_features(consumer, share)


def needed_errors(producer: PartitionType, share: int) -> set[Element]:
    """E of the output: as its features are held."""
    return held_features(producer, share)


@pytest.mark.parametrize("producer", PartitionType)
@pytest.mark.parametrize("consumer", PartitionType)
@pytest.mark.parametrize("share", range(SIDE + 1))
def test_boundary_counts_what_a_group_lacks(
    producer: PartitionType, consumer: PartitionType, share: int
) -> None:
    features = needed_features(consumer, share) - held_features(producer, share)
    errors = needed_errors(producer, share) - held_errors(consumer, share)
    forward, backward = boundary(producer, consumer, share / SIDE)
    assert forward == pytest.approx(len(features) / SIDE**3)
    assert backward == pytest.approx(len(errors) / SIDE**3)


def test_a_join_reads_and_writes_one_layout() -> None:
    """Rows in, rows out; columns in, columns out; everything in, everything out."""
    join = Node("add", "add", 1, 1, 1, 1, 1, 1, (), None)
    for kind in LAYOUTS:
        seen = producer_type(join, kind)
        assert needed_features(kind, 5) == held_features(seen, 5)
        assert held_errors(kind, 5) == needed_errors(seen, 5)


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


def test_partial_sums_by_type() -> None:
    size = sizes(CONV, 2, WHOLE)
    assert partial_sums(I, size) == size.weights
    assert partial_sums(II, size) == size.output
    assert partial_sums(II, size, pooled=True) == size.pooled
    assert partial_sums(III, size) == size.input


def test_no_negative_flops_of_fractions_of_channels() -> None:
    assert sizes(FC, 2, Shard(inputs=0.0, outputs=0.0)).flops == (0.0, 0.0, 0.0)
    assert min(sizes(FC, 1, Shard(0.25, 0.05, 0.04)).flops) >= 0.0


@given(st.sampled_from(PartitionType), st.floats(0, 1), st.sampled_from([CONV, FC]))
def test_both_sides_together_hold_the_split_tensors(
    kind: PartitionType, share: float, node: Node
) -> None:
    whole = sizes(node, 8, WHOLE)
    (first,), (second,) = shrunk([WHOLE], [Partition(kind, share)])
    assert first == shrink(WHOLE, kind, share)
    one, other = sizes(node, 8, first), sizes(node, 8, second)
    if kind not in (I, V):
        assert one.weights + other.weights == pytest.approx(whole.weights)
    if kind is not II:
        assert one.output + other.output == pytest.approx(whole.output)
    if kind is not III:
        assert one.input + other.input == pytest.approx(whole.input)


def test_a_network_of_paper_size_is_counted_exactly() -> None:
    """Shares of one half are powers of two: floats count elements exactly, 16 levels deep."""
    for node in partition_graph(load_network("vgg19")):
        size = sizes(node, 512, Shard(2.0**-16, 1.0, 2.0**-3))
        assert size.input * 2**16 == 512 * node.in_channels * node.in_area
        assert size.weights * 2**3 == node.in_channels * node.out_channels * node.kernel_area
