"""What is worked out once: bounded in bytes, and shared by all that it does not depend on."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from hardware import Wires, load_array
from simulator.collectives import cache
from simulator.collectives.cache import CACHE, MOST_BYTES, cached, digest
from simulator.collectives.choice import chosen
from tests.wiring import nodes


@pytest.fixture(autouse=True)
def _nothing_cached() -> Iterator[None]:
    CACHE.clear()
    yield
    CACHE.clear()


def array(size: int) -> np.ndarray:
    return np.zeros(size, dtype=np.uint8)


def test_the_bound_is_in_bytes_and_the_least_recently_used_goes_first() -> None:
    third = MOST_BYTES // 3 - 1000
    first = cached("array", 0, lambda: array(third))
    second = cached("array", 1, lambda: array(third))
    assert cached("array", 0, lambda: array(third)) is first  # used again
    cached("arrays", 2, lambda: (array(third // 2), array(third // 2)))
    assert CACHE.currsize <= MOST_BYTES
    cached("array", 3, lambda: array(third))
    assert CACHE.currsize <= MOST_BYTES
    assert cached("array", 0, lambda: array(third)) is first
    assert cached("array", 1, lambda: array(third)) is not second


def test_what_is_too_large_is_made_and_not_kept() -> None:
    cached("small", 0, lambda: array(10))
    assert cached("large", 0, lambda: array(2 * MOST_BYTES)).nbytes == 2 * MOST_BYTES
    assert len(CACHE) == 1


def test_unlike_things_of_one_key_are_kept_apart() -> None:
    assert cached("ring", (1, 2), lambda: "order") == "order"
    assert cached("box", (1, 2), lambda: "sides") == "sides"
    assert cached("ring", (1, 2), lambda: "else") == "order"


def test_digests_tell_shapes_types_and_contents() -> None:
    rows = np.arange(6)
    different = (rows, rows[::-1], rows.reshape(2, 3), rows.reshape(3, 2), rows.astype(float))
    assert len({digest(array) for array in different}) == len(different)
    assert digest(rows[::2]) == digest(rows[::2].copy())
    assert digest(rows[:2], rows[2:]) != digest(rows[:3], rows[3:])


SPEEDS = (
    "devices.0.network.bandwidth=3 Gbit/s",
    "devices.1.hbm.bandwidth=1 GB/s",
    "devices.0.network.latency=5 us",
    "topology.factor=1.5",
    "topology.bandwidth=7 GB/s",
    "topology.latency=1 us",
)
WIRES = ("devices.0.count=64", "devices.1.chips=2", "devices.0.chip.cores=1", "topology.kind=bus")


def test_a_topologys_key_is_all_that_routes_depend_on() -> None:
    mixed = Wires(load_array("accpar-mixed"))
    for change in SPEEDS:
        faster = Wires(load_array("accpar-mixed", [change]))
        assert faster.topology_key == mixed.topology_key, change
        assert faster.key != mixed.key, change
    for change in WIRES:
        other = Wires(load_array("accpar-mixed", [change]))
        assert other.topology_key != mixed.topology_key, change


def work(change: str) -> None:
    """Collectives of all sorts of groups, even and odd, on a small mixed array."""
    counts = ["devices.0.count=8", "devices.1.count=8"]
    w = Wires(load_array("accpar-mixed", [*counts, *([change] if change else [])]))
    for rows in (np.arange(64).reshape(8, 8), np.arange(128), np.arange(6, 66).reshape(10, 6)):
        for collective in ("all-reduce", "all-gather", "all-to-all"):
            chosen(w, collective, rows, 1e8)


def kept() -> Counter[str]:
    """How many entries there are of each sort; a key begins with it."""
    return Counter(str(key[0]).split()[0] for key in CACHE if isinstance(key, tuple))


def test_a_sweep_of_speeds_makes_every_pattern_once() -> None:
    work("")
    before = kept()
    assert before["steps"] > 20
    for change in SPEEDS:
        work(change)
    after = kept()
    assert after["steps"] == before["steps"]
    assert after["ways"] > before["ways"]
    work(SPEEDS[0])  # an array that was there before
    assert kept() == after


def test_latencies_of_cached_patterns_are_those_of_the_wires_at_hand() -> None:
    """Made where nothing has a latency, used where hops have one, and the other way round."""
    for first, second in ((0.0, 1e-6), (1e-6, 0.0), (1e-6, 3e-6)):
        CACHE.clear()
        for latency_s in (first, second):
            w = nodes(32, "torus", (8, 4), latency_s=latency_s)
            (job,) = chosen(w, "all-to-all", w.nodes, 1e8)[1]
            assert job.latency_s == pytest.approx(6 * latency_s)  # half way round in both
            (job,) = chosen(w, "all-reduce", w.nodes[:3], 1e8, "ring")[1]
            assert job.latency_s == pytest.approx(2 * 2 * 2 * latency_s)


def test_plain_results_are_kept_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cached("x", 0, lambda: "fast") == "fast"
    monkeypatch.setattr(cache, "accelerated", lambda name: name != "symmetry")
    assert cached("x", 0, lambda: "plain") == "plain"
