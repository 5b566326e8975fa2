"""Small messages: which protocol is cheapest, what it takes, and the piece that is copied."""

from dataclasses import replace

import numpy as np
import pytest

from hardware import Array, Device, Group, Topology, Wires, load_array
from hardware.topology import TIERS, Protocol, Tier, protocol
from simulator import chosen, closed_form, run_alone
from simulator.collectives.choice import offer

LOW = protocol("LL ring: 5 us + 0.5 us a step at 0.25")
MIDDLE = protocol("LL128 ring: 20 us + 1 us a step at 0.8")
SINGLE = protocol("P2P direct: 6 us + 2 us a step at 0.1")


def wires(*protocols: Protocol, copy: float = 0.0, reduces: float = 0.0, nodes: int = 1) -> Wires:
    """Nodes of eight on a switch of 1 GB/s whose large messages wait for 50 us."""
    inner = Tier(
        "switch", 8, 1e9, 50e-6, reduces=reduces, copy_bytes_per_s=copy, protocols=protocols
    )
    levels = (inner, Tier("switch", 0, 1e7, 1e-3, rails=0))[: 2 if nodes > 1 else 1]
    device = Device("d", 1, 1, 1e12, 1e9, 1e9, 1e9)
    topology = Topology(TIERS, joins="chips", levels=levels)
    return Wires(Array("a", "", Group(((device, 8 * nodes),)), topology=topology))


def seconds(where: Wires, collective: str, size: float, n: int = 8) -> tuple[str, float]:
    algorithm, jobs = chosen(where, collective, np.arange(n), size)
    return algorithm, run_alone(where, jobs)[0]


@pytest.mark.parametrize(
    ("collective", "size", "name", "by_hand"),
    [
        ("all-reduce", 800, "ring LL", 5e-6 + 14 * 0.5e-6 + 14 * 100 / 0.25e9),
        ("all-gather", 800, "ring LL", 5e-6 + 7 * 0.5e-6 + 7 * 100 / 0.25e9),
        ("reduce-scatter", 16e3, "ring LL128", 20e-6 + 7e-6 + 7 * 2e3 / 0.8e9),
        ("all-reduce", 8e6, "direct", 100e-6 + 14 * 1e6 / 1e9),
        ("all-to-all", 80, "direct P2P", 6e-6 + 2e-6 + 7 * 10 / 0.1e9),
        ("all-to-all", 8e6, "direct", 50e-6 + 7e6 / 1e9),
        # along seven links in two chunks: both pass the first link, one all others
        ("broadcast", 80, "pipelined LL", 5e-6 + 8 * 0.5e-6 + (80 + 6 * 40) / 0.25e9),
    ],
)
def test_the_cheapest_protocol_by_hand(
    collective: str, size: float, name: str, by_hand: float
) -> None:
    where = wires(LOW, MIDDLE, SINGLE)
    algorithm, took = seconds(where, collective, size)
    assert algorithm == name
    assert took == pytest.approx(by_hand, rel=1e-6)
    assert closed_form(where, collective, where.nodes, size, "ring") is None


def test_a_broadcast_by_messages_of_two_members() -> None:
    algorithm, took = seconds(wires(SINGLE), "broadcast", 80)
    assert algorithm == "binomial P2P"
    assert took == pytest.approx(6e-6 + 3 * 2e-6 + 3 * 80 / 0.1e9, rel=1e-6)


def test_an_algorithm_by_name_has_its_protocols_too() -> None:
    algorithm, jobs = chosen(wires(LOW), "all-gather", np.arange(8), 800, "ring")
    assert (algorithm, len(jobs)) == ("ring LL", 1)


def test_a_member_copies_one_piece_but_not_where_the_switch_sums() -> None:
    """Two members feel it most: NCCL gathers 2 x 1/2 on H100 at 258 GB/s, 8 x 1/8 at 335."""
    for n in (2, 8):
        _, fast = seconds(wires(), "all-gather", 8e6, n)
        _, slow = seconds(wires(copy=2e9), "all-gather", 8e6, n)
        assert slow - fast == pytest.approx(8e6 / n / 2e9, rel=1e-6)
    summed = [seconds(wires(copy=copy, reduces=1.0), "all-reduce", 8e6) for copy in (0, 1e6)]
    assert summed[0] == summed[1]
    assert summed[0][1] == pytest.approx(9e-3 + 100e-6)


def test_tiers_use_protocols_inside_and_chunks_copy_parts() -> None:
    """Tier by tier a node's gather is by LL; a copy is cut into chunks as the bytes are."""

    def took(where: Wires, size: float, algorithm: str) -> float:
        return run_alone(where, chosen(where, "all-gather", np.arange(16), size, algorithm)[1])[0]

    plain, small = (took(wires(*by, nodes=2), 800, "hierarchical") for by in ((), (LOW,)))
    assert plain - small == pytest.approx(50e-6 - 8.5e-6 - 3 * 700e-9, rel=1e-4)
    more = {
        by: took(wires(copy=2e8, nodes=2), 1e8, by) - took(wires(nodes=2), 1e8, by)
        for by in ("hierarchical", "hierarchical-overlapped")
    }
    assert more["hierarchical"] == pytest.approx(1e8 / 8 / 2e8, rel=1e-6)
    assert 0 < more["hierarchical-overlapped"] < more["hierarchical"] / 2


@pytest.mark.parametrize(("size", "nodes"), [(800.0, 1), (16e3, 1), (8e6, 1), (16e3, 2)])
def test_protocols_add_time_and_no_bytes(size: float, nodes: int) -> None:
    """Of eight on a switch each sends 2 (7/8) of a tensor; pairs of two nodes an eighth of it."""
    where = wires(LOW, MIDDLE, SINGLE, nodes=nodes)
    _, moved = run_alone(where, chosen(where, "all-reduce", np.arange(8 * nodes), size)[1])
    assert np.count_nonzero(moved) == (16 if nodes == 1 else 64)
    inside = moved[where.subnets[-1].links] if nodes == 1 else moved[moved > size]
    assert inside == pytest.approx(2 * 7 / 8 * size)
    if nodes > 1:
        assert moved[(moved > 0) & (moved < size)] == pytest.approx(2 * 1 / 2 * size / 8)


@pytest.mark.parametrize(
    ("size_bytes", "seconds"),
    [
        # 7 pieces of 15 in 1 us at 365 GB/s behind 5 us and the 33 us that 12 MB take; or 8 pieces
        # between nodes at 50 GB/s behind 10 us, whichever are later
        (1e6, 7 / 16 * 1e6 / 365.4e9 + 5e-6 + 12e6 / 365.4e9),
        (16e6, 8 / 16 * 16e6 / 50e9 + 10e-6),
        (100e6, 8 / 16 * 100e6 / 50e9 + 10e-6),
    ],
)
def test_messages_inside_nodes_are_late_beside_those_between(
    size_bytes: float, seconds: float
) -> None:
    wires = Wires(load_array("h100-cluster", ["nodes=2", "stack=none"]))
    found = offer(wires, "all-to-all", np.arange(16)[np.newaxis], size_bytes, "direct")
    assert found.alone_ps / 1e12 == pytest.approx(seconds, rel=1e-3)


@pytest.mark.parametrize("size_bytes", [1e4, 1e6])
def test_nodes_of_two_kinds_have_the_protocols_of_their_tier(size_bytes: float) -> None:
    """Two nodes of boards that differ in their name alone: inside a node all is as before."""
    array = load_array("h100-cluster", ["nodes=4", "stack=none"])
    ((gpu, count),) = array.group.kinds
    halves = tuple((each, count // 2) for each in (gpu, replace(gpu, name="other")))
    two = Wires(replace(array, group=Group(halves)))
    rows = np.arange(32).reshape(4, 8)
    for members in (rows, rows[1:3], rows[:1]):
        for collective in ("all-reduce", "all-gather"):
            alone = offer(Wires(array), collective, members, size_bytes)
            assert offer(two, collective, members, size_bytes).alone_ps == alone.alone_ps
            assert alone.algorithm == offer(two, collective, members, size_bytes).algorithm
