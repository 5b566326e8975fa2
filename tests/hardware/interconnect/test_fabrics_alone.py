"""Switch, bus, full connection and tree by themselves: unlike ports, latencies, halves."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.interconnect.one_hop import Bus, FullyConnected, Switch
from hardware.interconnect.tree import Subtrees, Tree
from tests.hardware.interconnect.slow_routes import subtrees
from tests.routes import route_on

PORTS = np.array([1e9, 2e9, 4e9, 3e9])
LATENCY_S = np.array([1e-6, 2e-6, 0.0, 5e-6])


def label(node: int) -> str:
    return f"n{node}"


def tree(ports: np.ndarray, factor: float = 2.0) -> Tree:
    """Over any number of nodes; ``Tree`` wants subtrees level by level, without the root."""
    found = sorted(subtrees(0, len(ports))[1:], key=lambda t: (depth(t, len(ports)), t))
    levels = [
        Subtrees(*np.array(list(group)).T)
        for _, group in itertools.groupby(found, key=lambda t: depth(t, len(ports)))
    ]
    return Tree(ports, np.zeros(len(ports)), factor, levels, label)


def depth(subtree: tuple[int, int], count: int) -> int:
    first, size = subtree
    return sum(f <= first and first + size <= f + s for f, s in subtrees(0, count)) - 1


def test_a_switch_has_every_ports_own_bandwidth() -> None:
    switch = Switch(PORTS, LATENCY_S, label)
    assert switch.names() == [f"n{i} {way}" for way in ("up", "down") for i in range(4)]
    assert switch.bandwidth.tolist() == [*PORTS, *PORTS]
    assert switch.latency_s.tolist() == [*LATENCY_S, 0, 0, 0, 0]
    assert switch.injection(range(1, 3), range(3, 4)) == 6e9
    assert switch.latencies(np.array([3, 0]), np.array([0, 1])).tolist() == [5e-6, 1e-6]


def test_a_full_connection_is_as_fast_as_the_slower_end() -> None:
    full = FullyConnected(PORTS, LATENCY_S, label)
    for link, name in enumerate(full.names()):
        a, b = (int(word[1:]) for word in name.split(" to "))
        assert route_on(full, a, b) == [link]
        assert full.bandwidth[link] == min(PORTS[a], PORTS[b])
        assert full.latency_s[link] == LATENCY_S[a]
    assert len(full.names()) == 12
    assert full.injection(range(2), range(2, 4)) == 1e9 + 1e9 + 2e9 + 2e9
    assert full.injection(range(2, 4), range(2)) == 1e9 + 2e9 + 1e9 + 2e9


def test_one_node_alone_is_joined_to_nobody() -> None:
    full = FullyConnected(PORTS[:1], LATENCY_S[:1], label)
    assert full.names() == []
    assert full.loads(np.array([], int), np.array([], int), np.array([])).tolist() == []


@given(st.integers(1, 6), st.integers(0, 6))
def test_a_bus_is_shared_by_all_splits_of_a_level_and_both_ways(half: int, level: int) -> None:
    """16 nodes in splits of 2h are 16 // 2h splits, each with two directions."""
    count = 2 * half << level
    bus = Bus(count, 8e9, 1e-6, "bus")
    streams = 2 * (1 << level)
    assert bus.injection(range(half), range(half, 2 * half)) == pytest.approx(8e9 / streams)
    assert bus.loads(np.array([0]), np.array([1]), np.array([3.0])).tolist() == [3.0]
    assert bus.latencies(np.array([0, 1]), np.array([1, 0])).tolist() == [1e-6, 1e-6]
    assert (route_on(bus, 0, count - 1), bus.names()) == ([0], ["bus"])


@given(st.integers(2, 17), st.sampled_from([1.0, 1.5, 2.0, 4.0]))
def test_a_subtree_has_its_nodes_mean_bandwidth_by_its_size(count: int, factor: float) -> None:
    """Size to the power log2 of the factor: at 2 the sum of the ports, at 1 their mean."""
    ports = np.arange(1.0, count + 1) * 1e9
    found = tree(ports, factor)
    wanted = {
        ("" if size == 1 else f"-{first + size - 1}", first): float(
            ports[first : first + size].mean() * size ** np.log2(factor)
        )
        for first, size in subtrees(0, count)[1:]
    }
    for name, width in zip(found.names(), found.bandwidth, strict=True):
        words, _ = name.split(" ")
        first, dash, last = words.removeprefix("n").partition("-")
        assert width == pytest.approx(wanted[f"{dash}{last}", int(first)])
    if factor == 2.0:
        half = (count + 1) // 2
        assert found.injection(range(half), range(half, count)) == pytest.approx(ports[:half].sum())


def test_a_trees_latency_is_on_the_way_up_from_the_node_itself() -> None:
    levels = [Subtrees(np.array([0, 2]), np.array([2, 2])), Subtrees(np.arange(4), np.ones(4, int))]
    found = Tree(PORTS, LATENCY_S, 2.0, levels, label)
    for source, target in itertools.permutations(range(4), 2):
        assert found.latency_s[route_on(found, source, target)].sum() == LATENCY_S[source]
        assert found.latencies(np.array([source]), np.array([target])) == LATENCY_S[source]
