"""What is found once for each object."""

import pytest

from workloads import load_network, partition_graph
from workloads.kept import MOST, once_for_each


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
