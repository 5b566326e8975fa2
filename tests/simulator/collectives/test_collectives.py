from collections.abc import Callable
from math import ceil, log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Wires, load_array
from simulator import CollectiveError, chosen, closed_form, run_alone
from simulator.collectives.algorithms import COLLECTIVES, FLAT
from simulator.collectives.choice import ALGORITHMS, jobs, predicted_ps
from simulator.collectives.offers import MOST_DIRECT
from simulator.collectives.ring_order import boxes
from simulator.collectives.swaps import swap
from tests.wiring import KINDS, nodes, wires

B, S = 1e9, 1e8
DOCS = Path(__file__).parents[3] / "docs" / "collectives.md"
Formula = Callable[[int], tuple[float, float]]
SIZES = (2, 3, 4, 7, 8, 16, 31, 64, 100, 128, 256, 512, 1000, 1024)
POWERS = tuple(n for n in SIZES if n & (n - 1) == 0)
LAMBDAS = (0.0, 5e-7)

# Section 8 of the models paper: (algorithm, topologies, factors of S/B and of the latency)
ALL_REDUCE: list[tuple[str, tuple[str, ...], tuple[int, ...], Formula]] = [
    (
        "ring",
        ("ring", "switch", "fully_connected", "tree"),
        SIZES,
        lambda n: (2 * (n - 1) / n, 2 * (n - 1)),
    ),
    ("ring-two-way", ("ring",), SIZES[1:], lambda n: ((n - 1) / n, 2 * (n - 1))),
    (
        "recursive-doubling",
        ("switch", "fully_connected", "tree"),
        POWERS,
        lambda n: (log2(n), log2(n)),
    ),
    (
        "halving-doubling",
        ("switch", "fully_connected", "tree"),
        POWERS,
        lambda n: (2 * (n - 1) / n, 2 * log2(n)),
    ),
    ("direct", ("switch", "tree"), SIZES[:9], lambda n: (2 * (n - 1) / n, 2)),
    ("direct", ("fully_connected",), SIZES[:9], lambda n: (2 / n, 2)),
]
CASES = [
    (algorithm, kind, n, latency_s, formula)
    for algorithm, kinds, sizes, formula in ALL_REDUCE
    for kind in kinds
    for n in sizes
    for latency_s in LAMBDAS
    if n <= 256 or kind != "fully_connected" or (latency_s and n == 1024)
]


def holds(
    w: Wires, collective: str, groups: np.ndarray, algorithm: str, wanted_s: float | None
) -> None:
    """Run on SimPy, against a formula: 1e-6, or a picosecond a phase."""
    sequence = jobs(w, collective, groups, S, algorithm)
    time_s, _ = run_alone(w, sequence)
    assert time_s == pytest.approx(predicted_ps(w, sequence) / 1e12, rel=1e-12)
    assert wanted_s is not None
    assert abs(time_s - wanted_s) <= max(1e-6 * wanted_s, 1e-12 * len(sequence))
    got = closed_form(w, collective, groups, S, algorithm)
    assert got == pytest.approx(wanted_s, rel=1e-12)


@pytest.mark.parametrize(("algorithm", "kind", "n", "latency_s", "formula"), CASES)
def test_all_reduce_takes_its_closed_form(
    algorithm: str, kind: str, n: int, latency_s: float, formula: Formula
) -> None:
    w = nodes(n, kind, bytes_per_s=B, latency_s=latency_s)
    bytes_, hops = formula(n)
    holds(w, "all-reduce", w.nodes, algorithm, bytes_ * S / B + hops * latency_s)


@pytest.mark.parametrize("latency_s", LAMBDAS)
@pytest.mark.parametrize(
    "shape", [(3, 3), (4, 4), (8, 4), (4, 8), (5, 7), (16, 16), (32, 16), (32, 32)]
)
def test_all_reduce_on_a_whole_torus(shape: tuple[int, int], latency_s: float) -> None:
    w = nodes(shape[0] * shape[1], "torus", shape, bytes_per_s=B, latency_s=latency_s)
    n, most, least = shape[0] * shape[1], max(shape), min(shape)
    one_way = 2 * (n - 1) / n * S / B + 2 * (sum(shape) - 2) * latency_s
    holds(w, "all-reduce", w.nodes, "torus-one-way", one_way)
    all_ways = (most - 1) * (least + 1) / (2 * n) * S / B + 4 * (most - 1) * latency_s
    holds(w, "all-reduce", w.nodes, "torus", all_ways)
    if most == least:
        optimum = (n - 1) / (2 * n) * S / B
        assert all_ways - 4 * (most - 1) * latency_s == pytest.approx(optimum)


@pytest.mark.parametrize("shape", [(7, 1), (1, 8)])
def test_a_torus_with_a_side_of_one_is_a_ring_both_ways(shape: tuple[int, int]) -> None:
    n = max(shape)
    w = nodes(n, "torus", shape, bytes_per_s=B, latency_s=1e-6)
    wanted = (n - 1) / n * S / B + 2 * (n - 1) * 1e-6
    holds(w, "all-reduce", w.nodes, "torus", wanted)
    holds(w, "all-reduce", w.nodes, "ring-two-way", wanted)


@pytest.mark.parametrize("latency_s", LAMBDAS)
def test_all_rows_or_columns_of_a_torus_at_once(latency_s: float) -> None:
    w = nodes(32, "torus", (8, 4), bytes_per_s=B, latency_s=latency_s)
    box = boxes(w, w.nodes[np.newaxis])
    assert box is not None
    for groups in (box[0], box[0].T):
        n = groups.shape[1]
        holds(w, "all-reduce", groups, "ring", 2 * (n - 1) / n * S / B + 2 * (n - 1) * latency_s)
        both = (n - 1) / n * S / B + 2 * (n - 1) * latency_s
        holds(w, "all-reduce", groups, "ring-two-way", both)


@pytest.mark.parametrize("kind", ["ring", "switch", "fully_connected", "tree"])
@pytest.mark.parametrize("n", [2, 5, 16])
def test_half_an_all_reduce(kind: str, n: int) -> None:
    w = nodes(n, kind, bytes_per_s=B, latency_s=1e-6)
    for collective in ("reduce-scatter", "all-gather"):
        wanted = (n - 1) / n * S / B + (n - 1) * 1e-6
        holds(w, collective, w.nodes, "ring", wanted)
        if kind != "ring" and n != 5:
            wanted = (n - 1) / n * S / B + log2(n) * 1e-6
            holds(w, collective, w.nodes, "halving-doubling", wanted)


@pytest.mark.parametrize("n", [2, 3, 8, 100])
def test_all_to_all_and_broadcast(n: int) -> None:
    switch = nodes(n, "switch", bytes_per_s=B, latency_s=1e-6)
    full = nodes(n, "fully_connected", bytes_per_s=B, latency_s=1e-6)
    holds(switch, "all-to-all", switch.nodes, "direct", (n - 1) / n * S / B + 1e-6)
    holds(full, "all-to-all", full.nodes, "direct", S / n / B + 1e-6)
    for w in (switch, full):
        holds(w, "broadcast", w.nodes, "binomial", ceil(log2(n)) * (S / B + 1e-6))


@pytest.mark.parametrize(("n", "wanted_ns"), [(8, 3_259_635), (64, 3_667_105)])
def test_an_independent_simulators_ring(n: int, wanted_ns: float) -> None:
    """ASTRA-sim 2.0, analytical back end: one-way ring, 1e8 bytes, 50 GiB/s a link."""
    for changes, hops_ns in (([], 0), (["topology.latency=500 ns"], 2 * (n - 1) * 500)):
        w = Wires(load_array("ring-8", [f"devices.0.count={n}", *changes]))
        algorithm, sequence = chosen(w, "all-reduce", w.nodes, 1e8)
        time_s, _ = run_alone(w, sequence)
        assert algorithm == "ring"
        assert time_s * 1e9 - hops_ns == pytest.approx(wanted_ns, rel=1e-4)


def test_a_ring_of_two_has_one_cable() -> None:
    w = nodes(2, "ring", bytes_per_s=B)
    for algorithm in ("ring", "ring-two-way", "torus"):
        time_s, _ = run_alone(w, jobs(w, "all-reduce", w.nodes, S, algorithm))
        assert time_s == pytest.approx(S / B)
    assert closed_form(w, "all-reduce", w.nodes, S, "ring-two-way") == pytest.approx(S / B)
    assert closed_form(w, "all-reduce", w.nodes, S, "torus") is None


def test_no_closed_form_where_links_are_shared_or_differ() -> None:
    torus = nodes(32, "torus", (8, 4))
    box = boxes(torus, torus.nodes[np.newaxis])
    assert box is not None
    half_rows = box[0].T[:, :4]
    for w, groups, algorithm in (
        (torus, half_rows, "ring"),
        (torus, torus.nodes, "ring"),
        (nodes(16, "mesh", (4, 4)), np.arange(16), "torus"),
        (nodes(16, "bus"), np.arange(16), "ring"),
        (nodes(16, "tree", factor=1.0), np.arange(16), "halving-doubling"),
        (nodes(16, "switch"), np.arange(16), "ring-two-way"),
        (Wires(load_array("accpar-mixed-switch")), np.arange(0, 2048, 8), "ring"),
        (Wires(load_array("tpu-v2-8")), np.arange(8), "ring"),
    ):
        assert closed_form(w, "all-reduce", groups, S, algorithm) is None


# what holds everywhere


@settings(deadline=None, max_examples=150)
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
        ("all-reduce of 6 cores use auto, or ring, ", "all-reduce", range(6), "halving-doubling"),
        ("all-to-all of 4 cores use auto, or direct$", "all-to-all", range(4), "ring"),
    ):
        with pytest.raises(CollectiveError, match=message):
            jobs(w, collective, np.array(groups), S, algorithm)


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.one_of(st.just(0.0), st.floats(1.0, 1e6)),
    st.one_of(st.just(0.0), st.floats(1.0, 1e6)),
)
@settings(deadline=None)
def test_a_swap_is_even_on_both_sides(m: int, k: int, to_first: float, to_second: float) -> None:
    w = nodes(m + k, "switch")
    sequence = swap(w, np.arange(m), np.arange(m, m + k), to_first / m, to_second / k)
    _, link_bytes = run_alone(w, sequence)
    up, down = link_bytes[m + k : 2 * (m + k)], link_bytes[2 * (m + k) :]
    least = 1e-11 * max(to_first, to_second)  # beside which a flow counts as nothing
    assert down[:m] == pytest.approx(to_first / m, abs=least)
    assert up[m:] == pytest.approx(to_first / k, abs=least)
    assert down[m:] == pytest.approx(to_second / k, abs=least)
    assert up[:m] == pytest.approx(to_second / m, abs=least)


def test_a_swap_crosses_the_middle_of_a_torus_on_all_links() -> None:
    """Half of the messages go each way round, so that what the planner was told is what it gets."""
    w = nodes(64, "torus", (8, 8), bytes_per_s=B)
    time_s, _ = run_alone(w, swap(w, np.arange(32), np.arange(32, 64), S / 32, S / 32))
    assert time_s == pytest.approx(S / w.injection_bytes_per_s(*w.array.group.halves()))


def test_swaps_of_nothing_or_with_oneself() -> None:
    w = nodes(4, "switch", latency_s=1e-6)
    assert run_alone(w, swap(w, [0, 1], [2, 3], 0, 0))[0] == 0.0
    for first, second in (([], [1]), ([0, 1], [1, 2])):
        with pytest.raises(CollectiveError, match="none in common"):
            swap(w, first, second, 1, 1)


def test_the_docs_say_when_auto_leaves_direct_out() -> None:
    assert f"more than {MOST_DIRECT:,} messages" in DOCS.read_text()
