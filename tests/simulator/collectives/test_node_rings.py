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

S = 1e9
PLAIN = ("stack=none", "topology.levels.0.half_size=0 B", "topology.levels.0.protocols=[]")


def cluster(*changes: str, nodes: int = 4) -> Wires:
    return Wires(load_array("h100-cluster", [f"nodes={nodes}", *PLAIN, *changes]))


def alone_s(wires: Wires, members: list[int], collective: str, name: str = "auto") -> float:
    found = offer(wires, collective, np.array([members]), S, name)
    seconds, _ = run_alone(wires, tuple(job.everywhere() for job in found.jobs()))
    assert seconds == pytest.approx(found.alone_ps / 1e12, rel=1e-9)
    return seconds


@pytest.mark.parametrize(("more", "rings"), [(4, 4), (2, 2), (6, 6)])
def test_as_many_ports_as_the_smaller_node_has_members(more: int, rings: int) -> None:
    """8 and 4 GPUs: 11/12 of S through four ports of 50 GB/s; 10 us between, 5 us inside."""
    wires, members = cluster(), [*range(8 + more)]
    n = len(members)
    once_s = (n - 1) / n * S / (rings * 50e9)
    for collective, laps in (("all-gather", 1), ("reduce-scatter", 1), ("all-reduce", 2)):
        found = alone_s(wires, members, collective, "node-rings")
        assert found == pytest.approx(laps * (once_s + 10e-6 + 5e-6), rel=1e-6)
        assert alone_s(wires, members, collective) <= found


def test_what_all_links_carry() -> None:
    """Each of four rings leaves both nodes once, by other ports; all others pass inside."""
    wires, members = cluster(), [*range(12)]
    found = offer(wires, "all-gather", np.array([members]), S, "node-rings")
    _, moved = run_alone(wires, tuple(job.everywhere() for job in found.jobs()))
    each = 11 / 12 * S / 4
    between = Counter(np.round(moved[wires.bandwidth == 50e9] / each).tolist())
    assert between[1] == 4 * 2 * 2  # of each ring and node, out and in
    assert set(between) == {0, 1}
    inside = moved[wires.bandwidth > 50e9]
    assert inside.sum() == pytest.approx(2 * each * (4 * 12 - 8))


def test_of_nccl_it_lies_between_fewer_and_more_members() -> None:
    """Of an all-reduce trees are less on 4 and 4: they send half as much."""
    wires = Wires(load_array("h100-cluster", ["nodes=2"], usual=True))
    for collective in ("all-gather", "reduce-scatter", "broadcast"):
        more, uneven, less = (
            alone_s(wires, members, collective)
            for members in ([*range(16)], [*range(12)], [*range(4), *range(8, 12)])
        )
        assert more < uneven < 1.15 * less


def test_a_faster_network_is_no_other_pattern() -> None:
    """What is kept of the rings has no speeds in it."""
    slow, fast = (
        cluster(f"topology.levels.1.bandwidth={speed} GB/s", "topology.levels.1.latency=0 s")
        for speed in (50, 25)
    )
    inside_s = 5e-6
    times = [alone_s(one, [*range(12)], "all-gather", "node-rings") for one in (slow, fast)]
    assert times[1] - inside_s == pytest.approx(2 * (times[0] - inside_s), rel=1e-6)


def test_a_broadcast_goes_along_all_rings() -> None:
    wires = cluster("topology.levels.1.latency=0 s", "topology.levels.0.latency=0 s")
    found = alone_s(wires, [*range(12)], "broadcast", "node-rings")
    assert found == pytest.approx(S / (4 * 50e9), rel=0.01)


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
        at, seen = 0, list[int]()
        for _ in range(whole):
            seen.append(at)
            left[at] += where[at] != where[way[at]]
            at = way[at]
        assert at == 0
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
