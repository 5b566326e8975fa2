"""What every collective moves, which one is taken, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Wires, load_array
from simulator import CollectiveError, chosen, closed_form, run_alone
from simulator.collectives.algorithms import COLLECTIVES, FLAT
from simulator.collectives.choice import ALGORITHMS, jobs, members_of, offer
from simulator.collectives.offers import MOST_DIRECT
from simulator.engine.interconnect import fair_rates
from simulator.engine.jobs import Load
from tests.simulator.collectives import slow_collectives
from tests.wiring import KINDS, nodes, wires

B, S = 1e9, 1e8
DOCS = Path(__file__).parents[3] / "docs" / "explanation" / "collectives.md"


@settings(deadline=None, max_examples=60)
@given(wires(most=8), st.sampled_from(COLLECTIVES), st.data())
def test_every_algorithm_moves_what_it_must_and_auto_is_the_fastest(
    w: Wires, collective: str, data: st.DataObject
) -> None:
    """Nobody can send less, no link is given away twice, and no formula claims what is not so."""
    n = data.draw(st.one_of(st.integers(2, max(2, w.cores)), st.just(max(2, len(w.nodes)))))
    if n > w.cores:
        return
    count = data.draw(st.integers(1, w.cores // n))
    some = [range(w.cores), w.nodes.tolist(), data.draw(st.permutations(range(w.cores)))]
    members = np.array(data.draw(st.sampled_from([m for m in some if len(m) >= count * n])))
    groups = members[: count * n].reshape(count, n)
    times = {}
    for algorithm in ALGORITHMS:
        if algorithm in FLAT and FLAT[algorithm].asked:  # networks that copy: test_multicast.py
            continue
        try:
            sequence = jobs(w, collective, groups, S, algorithm)
        except CollectiveError:
            continue
        time_s, link_bytes = run_alone(w, sequence)
        times[algorithm] = time_s
        laps = 2 if collective == "all-reduce" else 1
        assert link_bytes.sum() >= count * laps * (n - 1) * S * (1 - 1e-9)
        assert (link_bytes / w.bandwidth <= time_s * (1 + 1e-9) + 1e-12).all()
        formula_s = closed_form(w, collective, groups, S, algorithm)
        if formula_s is not None:
            tolerance_s = max(1e-6 * formula_s, 1e-12 * len(sequence))
            assert time_s == pytest.approx(formula_s, abs=tolerance_s)
    best, sequence = chosen(w, collective, groups, S)
    time_s, _ = run_alone(w, sequence)
    assert best in times
    assert time_s <= min(times.values()) + 1e-11 * len(sequence)


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling", "direct"])
def test_bandwidth_optimal_algorithms_send_the_least_from_every_node(algorithm: str) -> None:
    w = nodes(16, "switch")
    _, link_bytes = run_alone(w, jobs(w, "all-reduce", w.nodes, S, algorithm))
    assert link_bytes[16:] == pytest.approx(2 * 15 / 16 * S)
    assert link_bytes[:16].tolist() == [0] * 16


def test_halving_takes_neighbours_first() -> None:
    w = nodes(16, "tree")
    _, link_bytes = run_alone(w, jobs(w, "all-reduce", w.nodes, S, "halving-doubling"))
    sent = dict(zip(w.names, link_bytes, strict=True))
    assert sent["board0-7 up"] == pytest.approx(8 * 2 * S / 16)
    assert sent["board0-1 up"] == pytest.approx(2 * 2 * S * (1 / 4 + 1 / 8 + 1 / 16))


def test_groups_that_share_links_are_slower_together() -> None:
    w = nodes(16, "ring", bytes_per_s=B)
    apart = np.arange(16).reshape(2, 8)
    mixed = np.arange(16).reshape(8, 2).T
    one, two, crossed = (
        run_alone(w, jobs(w, "all-reduce", groups, S, "ring"))[0]
        for groups in (apart[:1], apart, mixed)
    )
    assert one == two
    assert crossed == pytest.approx(2 * two)


@pytest.mark.parametrize(
    "shape", [(2, 2), (4, 3), (3, 4), (5, 6), (2, 3, 3), (4, 4, 4), (3, 3), (3, 3, 3)]
)
def test_a_ring_through_a_mesh_visits_neighbours(shape: tuple[int, ...]) -> None:
    w = nodes(int(np.prod(shape)), "mesh", shape, latency_s=1e-6)
    (job,) = jobs(w, "all-reduce", w.nodes, S, "ring")
    if any(side % 2 == 0 for side in shape):
        assert job.load.flows.max() == 1
        assert job.latency_s == pytest.approx(2 * (w.cores - 1) * 1e-6)


def test_cores_then_chips_then_kinds() -> None:
    """By hand: pieces of half the tensor between the chips, both cores' groups at once."""
    w = Wires(load_array("tpu-v2-pod", ["devices.0.links.latency=0 s"]))
    sequence = jobs(w, "all-reduce", np.arange(512), S, "hierarchical")
    time_s, link_bytes = run_alone(w, sequence)
    torus_s = closed_form(w, "all-reduce", w.nodes, S, "torus")
    assert torus_s is not None
    # each core sends its half and gets one, and again to gather; written and read
    assert time_s == pytest.approx(torus_s + 2 * 2 * S / 700e9, rel=1e-6)
    assert link_bytes[:256] == pytest.approx(4 * S)


def test_a_broadcast_reaches_one_of_each_node_first() -> None:
    """Every board but the first receives the tensor once, and so does every other chip and core."""
    w = Wires(load_array("accpar-homogeneous", ["topology.kind=switch", "devices.0.count=4"]))
    sequence = jobs(w, "broadcast", np.arange(32), S, "hierarchical")
    _, link_bytes = run_alone(w, sequence)
    sent = dict(zip(w.names, link_bytes.tolist(), strict=True))
    assert [sent[f"board{i} down"] for i in range(4)] == pytest.approx([0, S, S, S])
    assert [sent[f"hbm chip{i}"] for i in range(16)] == pytest.approx([2 * S] * 16)
    assert all(w.names[i].endswith(("up", "down")) for i in sequence[0].load.links)
    assert all(w.names[i].startswith("hbm") for i in sequence[-1].load.links)
    between_chips = sum(count for name, count in sent.items() if " chip(" in name)
    assert between_chips >= 4 * 3 * S * (1 - 1e-9)


def test_groups_may_be_asked_for_several_collectives() -> None:
    """One after the other, each as if they were made for it alone."""
    w = Wires(load_array("accpar-homogeneous", ["topology.kind=switch", "devices.0.count=4"]))
    members = members_of(w, np.arange(32))
    for collective in ("broadcast", "all-reduce", "broadcast", "all-gather"):
        once = offer(w, collective, np.arange(32), S, "hierarchical")
        assert offer(w, collective, members, S, "hierarchical").alone_ps == once.alone_ps


def test_two_kinds_meet_in_their_ports() -> None:
    w = Wires(load_array("tpu-mixed"))
    _, sequence = chosen(w, "all-reduce", np.arange(w.cores), S)
    _, link_bytes = run_alone(w, sequence)
    ports = [n for n, name in enumerate(w.names) if name.startswith("board")]
    assert link_bytes[ports] == pytest.approx(S / 128)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_of_one_have_nothing_to_do(kind: str) -> None:
    w = nodes(4, kind)
    for collective in COLLECTIVES:
        for algorithm in (*FLAT, "auto"):
            try:
                sequence = jobs(w, collective, np.arange(4)[:, np.newaxis], S, algorithm)
            except CollectiveError:
                continue
            assert run_alone(w, sequence)[0] == 0
    assert closed_form(w, "all-reduce", [[0], [1]], S, "ring") == 0


@pytest.mark.parametrize("n", [2, 3, 9])
def test_a_pipeline_takes_the_tensor_once_and_a_little_more(n: int) -> None:
    w = nodes(n, "ring", bytes_per_s=B, latency_s=1e-6)
    times = []
    for size in (1e4, 1e8):
        time_s, link_bytes = run_alone(w, jobs(w, "broadcast", w.nodes, size, "pipelined"))
        chunked = min(
            size / B + (n - 2) * size / chunks / B + (chunks + n - 2) * 1e-6
            for chunks in range(1, 2000)
        )
        assert time_s == pytest.approx(chunked, rel=2e-3)
        assert link_bytes.sum() == pytest.approx((n - 1) * size)
        times.append(time_s)
    assert times[0] < times[1]


def test_what_makes_no_sense_is_refused() -> None:
    w = nodes(6, "switch")
    for message, collective, groups, algorithm in (
        ("unknown collective 'sum'; one of all-reduce", "sum", [0, 1], "ring"),
        ("unknown algorithm 'rings'; one of ring", "all-reduce", [0, 1], "rings"),
        ("a core is a member twice", "all-reduce", [[0, 1], [1, 2]], "ring"),
        ("cores 0 to 5", "all-reduce", [0, 6], "ring"),
        ("power of two members, not 6", "all-reduce", range(6), "halving-doubling"),
        ("power of two members, not 3", "all-reduce", range(3), "recursive-doubling"),
        ("boxes of a ring, torus or mesh", "all-reduce", range(4), "torus"),
        ("ring does not do broadcast", "broadcast", range(4), "ring"),
        ("direct does not do broadcast", "broadcast", range(4), "direct"),
        ("binomial does not do all-reduce", "all-reduce", range(4), "binomial"),
        ("with several each", "all-reduce", range(4), "hierarchical"),
        ("all-reduce of 6 members use auto, or ring, ", "all-reduce", range(6), "halving-doubling"),
        ("all-to-all of 4 members use auto, or direct$", "all-to-all", range(4), "ring"),
    ):
        with pytest.raises(CollectiveError, match=message):
            jobs(w, collective, np.array(groups), S, algorithm)


def test_auto_leaves_direct_out_where_it_takes_long_to_make() -> None:
    """128 nodes send 16,256 messages, 256 nodes 65,280; on links of their own they may."""
    for kind, count, algorithm in (
        ("switch", 128, "direct"),
        ("switch", 256, "halving-doubling"),
        ("fully_connected", 256, "direct"),
    ):
        w = nodes(count, kind, latency_s=1e-3)
        assert chosen(w, "all-reduce", w.nodes, S)[0] == algorithm
    assert chosen(w, "all-to-all", w.nodes, S)[0] == "direct"


def test_the_docs_say_when_auto_leaves_direct_out() -> None:
    assert f"more than {MOST_DIRECT:,} messages" in DOCS.read_text()


@pytest.mark.parametrize("kind", ["switch", "fully_connected"])
def test_a_message_beside_a_direct_exchange_has_half_of_a_port(kind: str) -> None:
    """Of a member with seven messages, which have 7/8 of it if each counts; or half of a cable."""
    w = nodes(9, kind)
    (job,) = chosen(w, "all-to-all", range(8), 8 * S, "direct")[1]
    other = Load.of(w.loads(np.array([0]), np.array([1])))
    rates = fair_rates([job.load, other], w.bandwidth)
    assert rates[1] == pytest.approx(1 / other.seconds_per_byte(w.bandwidth) / 2)


def test_every_algorithm_has_an_oracle_that_shares_no_code() -> None:
    assert slow_collectives.FLAT.keys() == FLAT.keys()
    assert {*slow_collectives.ASKED} == {name for name, one in FLAT.items() if one.asked}
