"""Collectives on SimPy take what formulas say, where there is a formula."""

from collections.abc import Callable
from math import ceil, log2, prod

import numpy as np
import pytest

from hardware import Wires, load_array
from hardware.interconnect.torus import Grid
from simulator import chosen, closed_form, run_alone
from simulator.collectives.choice import jobs
from simulator.collectives.ring_order import boxes
from tests.simulator.collectives.slow_collectives import predicted_ps
from tests.wiring import nodes

B, S = 1e9, 1e8
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
    # of a GB, x / (x - 1) parts begin along x and y / (y - 1) along y: both phases last as long;
    # then each part's rest goes along the other, 1/x or 1/y of it
    begin = [side / (side - 1) for side in shape]
    along_x, along_y = (part / sum(begin) * S / B / 2 for part in begin)
    first = along_x * (shape[0] - 1) / shape[0]
    assert first == pytest.approx(along_y * (shape[1] - 1) / shape[1])
    second = max(along_x / shape[0] / begin[1], along_y / shape[1] / begin[0])
    all_ways = 2 * (first + second) + 4 * (most - 1) * latency_s
    holds(w, "all-reduce", w.nodes, "torus", all_ways)
    if most == least:
        optimum = (n - 1) / (2 * n) * S / B
        assert all_ways - 4 * (most - 1) * latency_s == pytest.approx(optimum)
    bound = (n - 1) / (2 * n) * S / B
    assert bound <= 2 * (first + second) * (1 + 1e-12) <= 1.14 * bound


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
    holds(full, "broadcast", full.nodes, "scatter-gather", 2 / n * S / B + 2e-6)


@pytest.mark.parametrize("shape", [(8, 8), (4, 16), (5, 7), (4, 4, 4), (8, 8, 8)])
def test_a_broadcast_uses_all_links_of_a_torus(shape: tuple[int, ...]) -> None:
    """The first sends and all receive by all their links at most; a chain uses one of them."""
    w = nodes(prod(shape), "torus", shape, bytes_per_s=B)
    name, sequence = chosen(w, "broadcast", w.nodes, S)
    time_s, link_bytes = run_alone(w, sequence)
    least_s = S / (sum(min(side - 1, 2) for side in shape) * B)
    assert name == "scatter-gather"
    assert least_s < time_s < 2.5 * least_s
    chain_s, _ = run_alone(w, jobs(w, "broadcast", w.nodes, S, "pipelined"))
    assert time_s < 0.75 * chain_s
    grid, links = w.subnets[-1].fabric, w.subnets[-1].links
    assert isinstance(grid, Grid)
    received = np.bincount(grid.ends[1], np.array(link_bytes)[links])
    assert received[1:].min() > 0.99 * S * (1 - 1 / prod(shape))


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
