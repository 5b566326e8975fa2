"""Rings through nodes with unlike numbers of members, by hand and by what each ring must do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Wires, load_array
from simulator.collectives.algorithms import CollectiveError
from simulator.collectives.choice import offer, run_alone
from simulator.collectives.node_rings import _ends
from tests.simulator.collectives.test_overlapped import shop_s

S = 1e9
PLAIN = ("stack=none", "topology.levels.0.half_size=0 B", "topology.levels.0.protocols=[]")


def cluster(*changes: str, nodes: int = 4) -> Wires:
    return Wires(load_array("h100-cluster", [f"nodes={nodes}", *PLAIN, *changes]))


def alone_s(wires: Wires, members: list[int], collective: str, name: str = "auto") -> float:
    found = offer(wires, collective, np.array([members]), S, name)
    seconds, _ = run_alone(wires, tuple(job.unfolded() for job in found.jobs()))
    assert seconds == pytest.approx(found.alone_ps / 1e12, rel=1e-9)
    return seconds


@pytest.mark.parametrize(("more", "rings"), [(4, 4), (2, 2), (6, 6)])
def test_as_many_ports_as_the_smaller_node_has_members(more: int, rings: int) -> None:
    """8 and 4 GPUs: 11/12 of S through four ports of 50 GB/s, and of each GPU's link inside.

    Chunks take 10 us between nodes and 5 us inside, where GPUs copy an eighth at 1 TB/s, too.
    """
    wires, members = cluster(), [*range(8 + more)]
    n = len(members)
    between_s = (n - 1) / n * S / (rings * 50e9)
    inside_s = (n - 1) / n * S / 365.4e9 + S / 8 / 1e12
    for collective, laps in (("all-gather", 1), ("reduce-scatter", 1), ("all-reduce", 2)):
        found = alone_s(wires, members, collective, "node-rings")
        at_best_s = min(
            shop_s(many, [inside_s / many + 5e-6, between_s / many + 10e-6])
            for many in range(1, 65)
        )
        if laps == 1:
            assert found == pytest.approx(at_best_s, rel=1e-6)
        assert between_s < found / laps <= at_best_s * (1 + 1e-9)
        assert alone_s(wires, members, collective) <= found


def test_what_all_links_carry() -> None:
    """Each of four rings leaves both nodes once, by other ports; all others pass inside."""
    wires, members = cluster(), [*range(12)]
    found = offer(wires, "all-gather", np.array([members]), S, "node-rings")
    _, moved = run_alone(wires, tuple(job.unfolded() for job in found.jobs()))
    each = 11 / 12 * S / 4
    between = Counter(np.round(moved[wires.bandwidth == 50e9] / each).tolist())
    assert between[1] == 4 * 2 * 2  # of each ring and node, out and in
    assert set(between) == {0, 1}
    inside = moved[wires.bandwidth > 50e9]
    assert inside.sum() == pytest.approx(2 * each * (4 * 12 - 8))
    assert inside.max() <= 4 * each * (1 + 1e-9)


def test_of_nccl_it_lies_between_fewer_and_more_members() -> None:
    """Of an all-reduce trees are less on 4 and 4: they send half as much."""
    wires = Wires(load_array("h100-cluster", ["nodes=2"], usual=True))
    for collective in ("all-gather", "reduce-scatter", "broadcast"):
        for small, large in ((4, 8), (7, 8), (6, 7)):
            less, uneven, more = (
                alone_s(wires, [*range(first), *range(8, 8 + second)], collective)
                for first, second in ((small, small), (large, small), (large, large))
            )
            assert more < uneven < 1.06 * less


@pytest.mark.parametrize("array", ["mi300x-cluster", "v100-cluster"])
def test_where_gpus_are_linked_one_by_one_rings_take_unlike_links(array: str) -> None:
    """Fewer than twice 7 and 7, where all rings on the same links would be seven times as long."""
    wires = Wires(load_array(array, ["nodes=2"], usual=True))
    less, uneven = (alone_s(wires, [*range(n), *range(8, 15)], "all-gather") for n in (7, 8))
    assert less < uneven < 2.1 * less


def test_the_order_of_groups_means_nothing() -> None:
    """Of groups of six on nodes of eight the first lies on one node, the second on two."""
    wires = Wires(load_array("h100-cluster", ["nodes=3"], usual=True))
    groups = np.arange(24).reshape(4, 6)
    for collective in ("all-gather", "all-reduce"):
        for size_bytes in (1e4, 1e6, 1e8):
            one, other = (
                offer(wires, collective, rows, size_bytes).alone_ps
                for rows in (groups, groups[::-1])
            )
            assert one == other
            assert one >= 0.99 * offer(wires, collective, groups[1:2], size_bytes).alone_ps


def test_a_faster_network_is_no_other_pattern() -> None:
    """What is kept of the rings has no speeds in it."""
    slow, fast = (
        cluster(f"topology.levels.1.bandwidth={speed} GB/s", "topology.levels.1.latency=0 s")
        for speed in (50, 25)
    )
    times = [alone_s(one, [*range(12)], "all-gather", "node-rings") for one in (slow, fast)]
    assert times[1] == pytest.approx(2 * times[0], rel=0.05)


def test_a_broadcast_goes_along_all_rings() -> None:
    wires = cluster("topology.levels.1.latency=0 s", "topology.levels.0.latency=0 s")
    found = alone_s(wires, [*range(12)], "broadcast", "node-rings")
    assert found == pytest.approx(S / (4 * 50e9), rel=0.02)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5))
def test_every_ring_visits_all_once_and_leaves_by_a_port_of_its_own(sizes: list[int]) -> None:
    firsts = np.cumsum([0, *sizes])
    nodes = [np.arange(a, b) for a, b in pairwise(firsts.tolist())]
    number = min(sizes)
    sources, targets = _ends(nodes, number)
    whole, left = sum(sizes), Counter[int]()
    where = np.repeat(np.arange(len(sizes)), sizes)
    for k in range(number):
        way = dict(
            zip(
                sources[k * whole : (k + 1) * whole].tolist(),
                targets[k * whole : (k + 1) * whole].tolist(),
                strict=True,
            )
        )
        at, seen = int(sources[k * whole]), list[int]()
        for _ in range(whole):
            seen.append(at)
            left[at] += where[at] != where[way[at]]
            at = way[at]
        assert at == sources[k * whole]
        assert sorted(seen) == list(range(whole))
    assert max(left.values()) == 1
    assert sum(left.values()) == number * len(sizes)


@pytest.mark.parametrize(
    ("members", "collective", "said"),
    [
        ([*range(12)], "all-to-all", "do not do all-to-all"),
        ([*range(16)], "all-reduce", "unlike numbers of members"),
    ],
)
def test_what_they_are_not_for(members: list[int], collective: str, said: str) -> None:
    with pytest.raises(CollectiveError, match=said):
        offer(cluster(), collective, np.array([members]), S, "node-rings")
    with pytest.raises(CollectiveError, match="need nodes of several chips"):
        offer(Wires(load_array("tpu-v3-8")), "all-reduce", np.array([[0, 1]]), S, "node-rings")


def test_the_usual_software_waits_for_its_steps() -> None:
    """NCCL's: one step of 14 us between two nodes, ten of 3.4 us inside."""
    wires = Wires(load_array("h100-cluster", ["nodes=2"], usual=True))
    found = offer(wires, "all-gather", np.array([[*range(12)]]), 1e3)
    assert found.alone_ps / 1e12 == pytest.approx(14e-6 + 10 * 3.4e-6, rel=0.01)
