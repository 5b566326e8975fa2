"""What is found once for each object."""

import pytest

from workloads import load_network, partition_graph
from workloads.kept import MOST, MOST_LAYERS, _size, once_for_each


def test_an_object_is_asked_about_once_an_equal_one_again() -> None:
    asked: list[list[int]] = []

    @once_for_each
    def length(values: list[int]) -> int:
        """How many."""
        asked.append(values)
        return len(values)

    one, other = [1, 2], [1, 2]
    assert [length(one), length(one), length(other)] == [2, 2, 2]
    assert [id(values) for values in asked] == [id(one), id(other)]
    assert (length.__name__, length.__doc__) == ("length", "How many.")


def test_the_oldest_is_forgotten_and_those_that_are_kept_live_on() -> None:
    """An object that is kept cannot be another's double: its place in memory is taken."""
    asked: list[int] = []

    @once_for_each
    def first(values: list[int]) -> int:
        asked.append(values[0])
        return values[0]

    assert [first([number]) for number in range(MOST + 5)] == list(range(MOST + 5))
    assert asked == list(range(MOST + 5))


def test_a_failure_is_not_kept() -> None:
    failed: list[str] = []

    @once_for_each
    def fails(text: str) -> str:
        failed.append(text)
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            fails("bad")
    assert failed == ["bad", "bad"]


def test_a_networks_graph_is_made_once() -> None:
    network = load_network("lenet")
    assert partition_graph(network) is partition_graph(network)
    assert partition_graph(load_network("lenet")) == partition_graph(network)


def test_large_ones_are_forgotten_sooner() -> None:
    """Of lists of a third of the layers three fit; one that is larger than all is kept alone."""
    asked: list[int] = []

    @once_for_each
    def first(values: list[int]) -> int:
        asked.append(values[0])
        return values[0]

    many = [[number] * (MOST_LAYERS // 3) for number in range(4)]
    for values in (*many[:3], *many[:3], many[3], many[1], many[0]):
        first(values)
    assert asked == [0, 1, 2, 3, 0]
    whole = [9] * (2 * MOST_LAYERS)
    assert [first(whole), first(whole), first(many[0])] == [9, 9, 0]
    assert asked == [0, 1, 2, 3, 0, 9, 0]


def test_networks_and_their_graphs_count_by_their_layers() -> None:
    network = load_network("vgg16")
    assert _size(network) == len(network.layers)
    assert _size(partition_graph(network)) == 16
    assert _size(object()) == 1
