"""The acceleration "symmetry": one message for all its copies, or each counted: the same jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, Group, Topology, Wires, load_array
from hardware.topology import Tier
from simulator import CollectiveError
from simulator.collectives.algorithms import COLLECTIVES, FLAT
from simulator.collectives.choice import chosen, offer
from simulator.collectives.groups import Rows, groups_of
from simulator.collectives.offers import TIERED
from simulator.collectives.swaps import swap
from simulator.collectives.symmetry import BITS, symmetry_of
from simulator.engine import VARIABLE
from simulator.engine.jobs import Ints
from tests.simulator.collectives import slow_collectives as slow
from tests.simulator.collectives.slow_collectives import predicted_ps
from tests.wiring import KINDS, device, nodes, wires

S = 1e8


def agree(w: Wires, collective: str, rows: Ints, algorithm: str) -> None:
    wanted = slow.jobs(w, collective, rows, S, algorithm)
    if wanted is None:
        with pytest.raises(CollectiveError):
            chosen(w, collective, rows, S, algorithm)
        return
    name, jobs = chosen(w, collective, rows, S, algorithm)
    assert name == wanted[0]
    assert offer(w, collective, rows, S, algorithm).alone_ps == predicted_ps(w, jobs)
    assert len(jobs) == len(wanted[1])
    for job, other in zip(jobs, wanted[1], strict=True):
        assert slow.same(job, other), (job, other)


@st.composite
def halved(draw: st.DrawFn) -> Wires:
    """Arrays whose boards, chips and cores are powers of two, on any topology."""
    counts = [1 << draw(st.integers(0, 3)) for _ in range(draw(st.integers(1, 2)))]
    kinds = tuple(
        (
            device(
                chips=1 << draw(st.integers(0, 2)),
                cores=1 << draw(st.integers(0, 1)),
                network=draw(st.sampled_from((1e9, 2e9, 1.7e9))),
                latency_s=draw(st.sampled_from((0.0, 5e-7))),
                name=name,
            ),
            count,
        )
        for name, count in zip("ab", counts, strict=False)
    )
    topology = Topology(draw(st.sampled_from(KINDS)), draw(st.sampled_from(("boards", "chips"))))
    if topology.kind == "ring":
        topology = replace(topology, two_way=draw(st.booleans()))
    return Wires(Array("halved", "", Group(kinds), (), topology))


@st.composite
def cubes(draw: st.DrawFn, w: Wires) -> Ints:
    """Groups that are a cube of cores: some axes their members', others between them."""
    first, most = 0, w.cores
    if draw(st.booleans()):  # of the last kind alone
        first = int(np.flatnonzero(w.kind == w.kind[-1])[0])
        most -= first
    every = [1 << axis for axis in range(most.bit_length() - 1)]
    strides = draw(st.permutations(every))
    members, left_out = draw(st.integers(1, 9)), draw(st.integers(0, 2))
    inside, beside = strides[:members], strides[members:][left_out:]
    behind = [stride for stride in strides[members:][:left_out] if draw(st.booleans())]
    first += sum(behind)  # all agree in what is left out, and not always in its first half
    if draw(st.booleans()):
        inside, beside = sorted(inside), sorted(beside)
    return first + np.add.outer(sums(beside), sums(inside))


def sums(strides: list[int]) -> Ints:
    found = np.zeros(1, dtype=np.int64)
    for stride in strides:
        found = np.concatenate([found, found + stride])
    return found


@settings(deadline=None, max_examples=60)
@given(halved(), st.sampled_from(COLLECTIVES), st.data())
def test_groups_that_are_copies_load_what_all_of_them_load(
    w: Wires, collective: str, data: st.DataObject
) -> None:
    rows = data.draw(cubes(w))
    for algorithm in (*FLAT, *TIERED, "auto"):
        agree(w, collective, rows, algorithm)


@settings(deadline=None, max_examples=60)
@given(wires(most=8), st.sampled_from(COLLECTIVES), st.data())
def test_any_groups_load_what_all_of_them_load(
    w: Wires, collective: str, data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, w.cores))
    count = data.draw(st.integers(1, w.cores // n))
    members = data.draw(
        st.sampled_from([list(range(w.cores)), data.draw(st.permutations(range(w.cores)))])
    )
    rows = np.array(members[: count * n]).reshape(count, n)
    for algorithm in (*FLAT, *TIERED, "auto"):
        agree(w, collective, rows, algorithm)


TIERS = (
    (Tier("switch", 4, 3e9, 1e-6), Tier("switch", 4, 1e9, 2e-6, 2, 2.0)),
    (Tier("fully_connected", 4, 3e9), Tier("ring", 4, 1e9, 2e-6)),
    (Tier("torus", 4, 3e9, 1e-6), Tier("mesh", 2, 1e9), Tier("switch", 2, 1e9, 1e-6, 8)),
)


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(TIERS), st.sampled_from(COLLECTIVES), st.data())
def test_groups_on_tiers_load_what_all_of_them_load(
    levels: tuple[Tier, ...], collective: str, data: st.DataObject
) -> None:
    topology = Topology("tiers", levels=levels)
    w = Wires(Array("tiers", "", Group(((device(), 16),)), topology=topology))
    rows = data.draw(cubes(w))
    for algorithm in FLAT:
        agree(w, collective, rows, algorithm)


BOARDS = {
    "accpar-homogeneous": ("devices.0.count=4",),
    "accpar-mixed": ("devices.0.count=4", "devices.1.count=2"),
    "tpu-v3-pod": ("devices.0.count=4",),
    "tpu-mixed": ("devices.0.count=2", "devices.1.count=3"),
}


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("name", BOARDS)
def test_boards_of_chips_of_cores(name: str, collective: str) -> None:
    """Three tiers, a few of each board's cores, and cores of both kinds."""
    w = Wires(load_array(name, BOARDS[name]))
    every = np.arange(32)
    for rows in (
        every[np.newaxis],
        every.reshape(4, 8),
        every.reshape(4, 8).T,
        every[::2][np.newaxis],
    ):
        for algorithm in (*FLAT, *TIERED, "auto"):
            agree(w, collective, rows, algorithm)


@pytest.mark.parametrize("count", range(3, 8))
@pytest.mark.parametrize("kind", KINDS)
def test_nodes_whose_numbers_are_no_powers_of_two(kind: str, count: int) -> None:
    """The first two and four: of five nodes on a tree, three and two, four are no cube."""
    w = nodes(count, kind, latency_s=1e-6)
    for rows in (
        np.array([[0, 1], [2, 3]]),
        np.array([[0, 2], [1, 3]]),
        np.arange(count)[np.newaxis],
    ):
        if rows.max() < count:
            agree(w, "all-reduce", rows, "auto")
            agree(w, "all-to-all", rows, "auto")


def test_half_an_array_that_begins_in_the_middle_of_a_node_is_no_image_of_the_other() -> None:
    """Three nodes of 8, every third GPU in a group: each has one in its own node at least.

    So six pieces of 12.5 MB leave by a port of 50 GB/s, in 1.5 ms, and not seven.
    """
    w = Wires(load_array("h100-cluster", ["nodes=3", "stack=none"]))
    rows = np.arange(24).reshape(8, 3).T.copy()
    found = offer(w, "all-to-all", rows, 1e8, "direct")
    assert found.alone_ps == pytest.approx(1.51e9, rel=1e-3)


@pytest.mark.parametrize("size", [3, 5, 7, 15])
@pytest.mark.parametrize("kind", ["ring", "torus", "mesh"])
def test_pieces_that_are_no_power_of_two_are_scattered(kind: str, size: int) -> None:
    """Four fifths go over a first link: four times one fifth, not one fifth added four times.

    From the first member, wherever that is.
    """
    shape = () if kind == "ring" else (3, 5)
    for w in (nodes(15, kind, shape), nodes(size, kind)):
        for root in (0, 1, size - 1):
            row = [root, *(other for other in range(size) if other != root)]
            agree(w, "broadcast", np.array([row]), "scatter-gather")


@pytest.mark.parametrize("kind", KINDS)
def test_two_kinds_of_boards_with_other_ports_and_latencies(kind: str) -> None:
    slow_one, far_one = device(network=1e9), device(network=2e9, latency_s=1e-6, name="far")
    for kinds in ((slow_one, far_one), (far_one, slow_one)):
        w = Wires(Array("two", "", Group(tuple((d, 4) for d in kinds)), (), Topology(kind)))
        for rows in (
            np.arange(8)[np.newaxis],
            np.arange(8).reshape(2, 4),
            np.arange(8).reshape(2, 4).T,
        ):
            for algorithm in ("ring", "halving-doubling", "direct", "auto"):
                agree(w, "all-reduce", rows, algorithm)


@settings(deadline=None, max_examples=60)
@given(wires(most=8), st.data())
def test_swaps_are_those_of_every_message(w: Wires, data: st.DataObject) -> None:
    if w.cores < 2:
        return
    members = data.draw(st.permutations(range(w.cores)))
    m = data.draw(st.integers(1, w.cores - 1))
    k = data.draw(st.integers(1, w.cores - m))
    first, second = np.array(members[:m]), np.array(members[m : m + k])
    amounts = [
        np.array(data.draw(st.lists(st.sampled_from((0.0, 1.0, 2.5, 7e5)), min_size=c, max_size=c)))
        for c in (m, k)
    ]
    (job,) = swap(w, first, second, *amounts)
    flows, largest, latency_s = slow.swap(w, first, second, *amounts)
    used = np.flatnonzero(flows > 1e-12 * flows.max(initial=0.0))
    assert job.load.links.tolist() == used.tolist()
    assert job.load.flows.tolist() == flows[used].tolist()
    assert (job.flow_bytes, job.latency_s) == (largest, latency_s)


def test_the_example_of_the_modules_text() -> None:
    """16 boards on a tree, each exchanges with its neighbour: 16 links up and 16 down, by one."""
    w = nodes(16, "tree")
    symmetry = symmetry_of(w, 0)
    assert symmetry is not None
    assert symmetry.flips == {1: 1, 2: 2, 4: 4, 8: 8}
    load = groups_of(w, Rows(np.arange(16)[np.newaxis])).exchange(1).load
    assert load.on is not None
    up, down = load.links
    assert symmetry.own[[up >> BITS, down >> BITS]].tolist() == [15, 15]
    assert load.flows.tolist() == [1.0, 1.0]
    every = load.unfolded()
    assert len(every.links) == 32
    assert (every.flows == 1.0).all()


def test_what_is_followed_grows_with_the_levels_of_a_tree() -> None:
    sizes = {}
    for boards in (256, 1024, 4096):
        w = Wires(load_array("accpar-homogeneous", [f"devices.0.count={boards}"]))
        members = groups_of(w, Rows(np.arange(w.cores)[np.newaxis]))
        loads = members.everyone().load, members.exchange(w.cores // 2).load
        sizes[boards] = [load.flows.size for load in loads]
    # a level of the tree more for twice the boards: a link up and one down
    assert sizes[1024] == [size + 4 for size in sizes[256]]
    assert sizes[4096] == [size + 4 for size in sizes[1024]]
    assert max(sizes[4096]) < 60


ROWS = np.arange(512).reshape(-1, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_strided_groups_of_like_cores_are_followed_once(kind: str) -> None:
    w = Wires(load_array("accpar-homogeneous", ["devices.0.count=64", f"topology.kind={kind}"]))
    for rows in (ROWS, ROWS.T, ROWS[::2], ROWS[:, ::4], ROWS[8:16, :4]):
        assert groups_of(w, Rows(rows)).symmetry is not None


def test_groups_over_unlike_cores_and_unevenly_fast_links_are_followed_one_by_one() -> None:
    w = Wires(load_array("accpar-mixed"))
    other = int(np.argmax(w.kind))
    assert groups_of(w, Rows(np.array([[0, other], [1, other + 1]]))).symmetry is None
    counts = ["devices.0.count=8", "devices.1.count=8"]
    for kind, flips in (("ring", 1), ("tree", 4)):
        # half of a ring of both kinds has half of the bandwidth: boards along it differ
        mixed = Wires(load_array("accpar-mixed", [*counts, f"topology.kind={kind}"]))
        symmetry = groups_of(mixed, Rows(np.arange(64).reshape(8, 8))).symmetry
        assert symmetry is not None
        assert len(symmetry.flips) == flips  # cores of a chip, and boards on a tree


@pytest.mark.parametrize("off", ["1", "symmetry"])
@pytest.mark.parametrize("kind", KINDS)
def test_switched_off_every_message_is_counted_and_jobs_are_the_same(
    monkeypatch: pytest.MonkeyPatch, kind: str, off: str
) -> None:
    w = Wires(load_array("accpar-homogeneous", ["devices.0.count=16", f"topology.kind={kind}"]))
    for rows in (np.arange(128).reshape(16, 8), np.arange(128).reshape(16, 8).T):
        for collective in ("all-reduce", "all-to-all"):
            monkeypatch.delenv(VARIABLE, raising=False)
            assert symmetry_of(w, 0) is not None
            name, fast = chosen(w, collective, rows, S)
            monkeypatch.setenv(VARIABLE, off)
            assert symmetry_of(w, 0) is None
            assert groups_of(w, Rows(rows)).symmetry is None
            plain_name, plain = chosen(w, collective, rows, S)
            assert name == plain_name
            for job, other in zip(fast, plain, strict=True):
                assert job.load.links.tolist() == other.load.links.tolist()
                assert job.load.flows.tolist() == other.load.flows.tolist()
                assert (job.flow_bytes, job.latency_s) == (other.flow_bytes, other.latency_s)
