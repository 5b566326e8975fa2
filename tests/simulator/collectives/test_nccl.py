"""Collectives of NCCL over nodes: bytes counted by hand, and two measured bus bandwidths.

NVIDIA/nccl, issue 209: of rings each link, inside a node or between nodes, gets (n - 1) / n of a
tensor; of trees on two nodes a link between them gets half of it, one inside all of it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from hardware import Array, Group, Stack, Topology, Wires, load_array
from hardware.topology import Tier
from simulator.collectives.algorithms import CollectiveError
from simulator.collectives.choice import chosen, offer, run_alone
from simulator.engine.picoseconds import PICOSECONDS
from tests.wiring import device

S = 1e9
NCCL = Stack(ring_steps_s=(3.4e-6, 14e-6))


def wires(
    nodes: int, each: int, stack: Stack | None = NCCL, ports: float = 10e9, inside: float = 100e9
) -> Wires:
    """GPUs with links of 100 GB/s inside a node, and a port of their own to the other nodes."""
    levels = (Tier("switch", each, inside), Tier("switch", nodes, ports, rails=0))
    array = Array(
        "nodes",
        "",
        Group(((device(), nodes * each),)),
        topology=Topology("tiers", levels=levels, joins="chips"),
        stack=stack,
    )
    return Wires(array)


def busiest(on: Wires, collective: str) -> tuple[float, float]:
    """Parts of the tensor over the busiest link inside a node, and over that between nodes."""
    moved = run_alone(on, chosen(on, collective, on.nodes, S)[1])[1] / S
    inside, between = (moved[subnet.links].max() for subnet in on.subnets[1:])
    return float(inside), float(between)


@pytest.mark.parametrize(("nodes", "each"), [(2, 8), (4, 4), (3, 2)])
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter"])
def test_rings_pass_all_pieces_but_one_over_each_link(
    collective: str, nodes: int, each: int
) -> None:
    """One ring from each GPU of a node: between nodes each has 1 / each of the tensor."""
    part = 1 - 1 / (nodes * each)
    assert busiest(wires(nodes, each), collective) == pytest.approx((part, part / each))


@pytest.mark.parametrize(("nodes", "each"), [(2, 8), (4, 4)])
def test_a_broadcast_leaves_a_node_through_all_its_ports(nodes: int, each: int) -> None:
    """Each GPU's port carries a piece; without NCCL the first one's carries all.

    Inside a node each GPU but the first receives all of it.
    """
    on = wires(nodes, each)
    assert busiest(on, "broadcast") == pytest.approx((1.0, 1 / each))
    slowest_s = S / each / 10e9
    assert slowest_s < offer(on, "broadcast", on.nodes, S).alone_ps / PICOSECONDS < 1.2 * slowest_s
    assert busiest(wires(nodes, each, None), "broadcast")[1] == pytest.approx(1)


def test_all_reduces_are_two_passes_of_rings_or_trees() -> None:
    assert busiest(wires(4, 4), "all-reduce") == pytest.approx((30 / 16, 30 / 16 / 4))
    slow = wires(2, 8, ports=1e9)  # all ports together slower than one channel of trees
    assert busiest(slow, "all-reduce") == pytest.approx((30 / 16, 1 / 8))
    assert busiest(wires(2, 8), "all-reduce") == pytest.approx((30 / 16, 30 / 16 / 8))


def test_trees_need_links_faster_than_the_network() -> None:
    """Of T4 through the memory of their host, a ring is as fast inside as between nodes."""
    t4 = wires(2, 4, ports=30e9)
    assert offer(t4, "all-reduce", t4.nodes, S).algorithm == "nccl-rings"
    h100 = Wires(replace(load_array("h100-cluster", ["nodes=2"]), stack=NCCL))
    assert offer(h100, "all-reduce", h100.nodes, S).algorithm == "nccl-trees"  # NVLSTree


def test_who_is_not_nccl_has_tiers() -> None:
    """Between nodes half of a tensor that two nodes gather, inside 7 of 8 pieces."""
    assert busiest(wires(2, 8, None), "all-gather") == pytest.approx((7 / 8, 1 / 16))


@pytest.mark.parametrize(("members", "steps"), [([[0, 4, 8, 12]], 3), ([[0, 1, 2, 3]], 0)])
def test_one_member_a_node_or_one_node_is_a_ring_as_ever(
    members: list[list[int]], steps: int
) -> None:
    """But for its steps between nodes, of 14 us each; an offer says what its jobs take."""
    found = [offer(one, "all-gather", members, S) for one in (wires(4, 4), wires(4, 4, None))]
    assert found[0].algorithm == found[1].algorithm == "ring"
    assert found[0].alone_ps == found[1].alone_ps + steps * 14_000_000
    assert found[0].phases == found[1].phases
    for one in found:
        seconds, _ = run_alone(wires(4, 4), tuple(job.unfolded() for job in one.jobs()))
        assert seconds * PICOSECONDS == pytest.approx(one.alone_ps, abs=1)


def test_an_algorithm_that_is_named_is_taken() -> None:
    on = wires(2, 8, ports=1e9)
    assert offer(on, "all-gather", on.nodes, S).algorithm == "nccl-rings"
    assert offer(on, "all-reduce", on.nodes, S).algorithm == "nccl-trees"
    assert offer(on, "all-gather", on.nodes, S, "ring").algorithm == "ring"
    for name in ("nccl-rings", "nccl-trees", "hierarchical"):
        assert offer(on, "all-reduce", on.nodes, S, name).algorithm == name


@pytest.mark.parametrize(
    ("nodes", "collective", "name", "why"),
    [
        (2, "all-gather", "nccl-trees", "all-reduce alone"),
        (4, "all-reduce", "nccl-trees", "for 2 nodes"),
        (1, "all-reduce", "nccl-rings", "nodes of several GPUs"),
        (2, "all-to-all", "nccl-rings", "not for all-to-all"),
    ],
)
def test_ways_of_nccl_that_do_not_apply(nodes: int, collective: str, name: str, why: str) -> None:
    on = wires(nodes, 8)
    with pytest.raises(CollectiveError, match=why):
        offer(on, collective, on.nodes, S, name)


def test_a_faster_network_makes_no_all_reduce_longer() -> None:
    """Trees reach 20 GB/s (bus bandwidth), where rings overtake them."""
    ways, took = list[str](), list[int]()
    for gb_per_s in (0.5, 1.0, 1.3, 1.4, 2.0, 2.4, 2.5, 2.6, 3.0, 5.0):
        on = wires(2, 8, ports=gb_per_s * 1e9)  # of eight GPUs
        found = offer(on, "all-reduce", on.nodes, S)
        ways.append(found.algorithm)
        took.append(found.alone_ps)
    assert all(later <= earlier + 1 for earlier, later in pairwise(took))  # whole picoseconds
    assert ways == ["nccl-trees"] * 6 + ["nccl-rings"] * 4
    assert took[5] == pytest.approx(2 * 15 / 16 * S / 20e9 * PICOSECONDS, rel=0.01)


@pytest.mark.parametrize("size", [1e5, 1e7, 1e9])
@pytest.mark.parametrize("inside", [5e9, 10e9, 20e9, 50e9])
@pytest.mark.parametrize("each", [2, 4, 8])
def test_nor_where_links_inside_are_slow(each: int, inside: float, size: float) -> None:
    """Trees get 0.92 of them, where rings take over."""
    took, ways = list[int](), set[str]()
    for gb_per_s in range(2, 40):
        on = wires(2, each, ports=gb_per_s * 1e9 / each, inside=inside)
        found = offer(on, "all-reduce", on.nodes, size)
        took.append(found.alone_ps)
        ways.add(found.algorithm)
    assert all(later <= earlier * 1.002 + 1 for earlier, later in pairwise(took))
    assert ways == {"nccl-trees", "nccl-rings"}


@pytest.mark.parametrize(
    ("array", "changes", "size", "measured", "within"),
    [
        ("a100-cluster", (), 8e9, 192e9, 0.02),
        ("h200-cluster", (), 4 * 2**30, 364.87e9, 0.05),
        ("v100-cluster", ("topology.levels.1.rails=1",), 2**30, 12.2e9, 0.01),
    ],
)
def test_four_nodes_are_as_fast_as_measured(
    array: str, changes: tuple[str, ...], size: float, measured: float, within: float
) -> None:
    """All-reduces, of which the first two would be 27 and 6 % too fast tier by tier.

    DGX A100 (NVIDIA/nccl, issue 812), p5en with EFA (stas00/ml-engineering), and V100 with one
    port of EDR a node (NVIDIA/nccl-tests, issue 29).
    """
    on = Wires(replace(load_array(array, ["nodes=4", *changes]), stack=NCCL))
    seconds = offer(on, "all-reduce", on.nodes, size).alone_ps / PICOSECONDS
    assert 2 * 31 / 32 * size / seconds == pytest.approx(measured, rel=within)


def waits_s(nodes: int, each: int, collective: str, latency_s: float) -> float:
    """What a collective of no bytes worth mention takes where nodes are so far apart."""
    on = wires(nodes, each)
    near, far = on.topology.levels
    levels = (near, replace(far, latency_s=latency_s))
    topology = replace(on.topology, levels=levels)
    on = Wires(replace(on.array, topology=topology))
    return run_alone(on, chosen(on, collective, on.nodes, 1.0)[1])[0]


@pytest.mark.parametrize(("nodes", "each"), [(4, 8), (16, 4)])
@pytest.mark.parametrize("collective", ["all-gather", "reduce-scatter"])
def test_a_ring_waits_for_each_of_its_steps(collective: str, nodes: int, each: int) -> None:
    """14 us between nodes, or a message's latency where that is longer; 3.4 us inside."""
    inside = nodes * (each - 1) * 3.4e-6
    for latency_s, step_s in ((2e-6, 14e-6), (1e-3, 1e-3)):
        by_hand = (nodes - 1) * step_s + inside
        assert waits_s(nodes, each, collective, latency_s) == pytest.approx(by_hand, rel=1e-3)


@pytest.mark.parametrize(("nodes", "levels"), [(2, 1), (4, 2), (16, 4), (64, 6), (256, 8)])
def test_trees_wait_for_each_of_their_levels_far_away(nodes: int, levels: int) -> None:
    """There and back."""
    far = waits_s(nodes, 4, "all-reduce", 10e-3)
    assert far == pytest.approx(2 * levels * 10e-3, rel=0.01)


def test_nccls_own_steps_are_in_its_measured_small_messages() -> None:
    near = [waits_s(nodes, 4, "all-reduce", 14e-6) for nodes in (4, 16, 64)]
    assert near == pytest.approx([28e-6] * 3, rel=1e-3)


def test_only_far_steps_take_long() -> None:
    """Two pods of four nodes: of a ring's seven steps one is between pods, of three levels one."""
    levels = (
        Tier("switch", 4, 100e9),
        Tier("switch", 4, 10e9, latency_s=1e-5, rails=0),
        Tier("switch", 2, 10e9, latency_s=1e-2, rails=0),
    )
    group = Group(((device(), 32),))
    topology = Topology("tiers", levels=levels, joins="chips")
    on = Wires(Array("pods", "", group, topology=topology, stack=NCCL))
    ring, trees = (
        run_alone(on, chosen(on, collective, on.nodes, 1.0)[1])[0]
        for collective in ("all-gather", "all-reduce")
    )
    assert ring == pytest.approx(1e-2, rel=0.05)
    assert trees == pytest.approx(2e-2, rel=0.05)


@pytest.mark.parametrize("algorithm", ["hierarchical", "ring", "direct"])
@pytest.mark.parametrize("collective", ["all-gather", "all-reduce"])
def test_other_algorithms_take_no_steps_of_nccl(collective: str, algorithm: str) -> None:
    """They are what wires say, whatever the stack."""
    with_nccl, without = (
        run_alone(on, chosen(on, collective, on.nodes, 1.0, algorithm)[1])[0]
        for on in (wires(16, 4), wires(16, 4, stack=None))
    )
    assert with_nccl == without


def test_a_message_of_no_bytes_moves_none() -> None:
    on = wires(2, 8)
    _, link_bytes = run_alone(on, chosen(on, "all-reduce", on.nodes, 0.0)[1])
    assert not link_bytes.any()
    with pytest.raises(CollectiveError, match="nccl-rings has no bytes"):
        chosen(on, "all-reduce", on.nodes, 0.0, "nccl-rings")
