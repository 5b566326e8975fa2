"""What is worked out once: bounded in bytes, and shared by all that it does not depend on."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from simulator.collectives.kept import Kept, speeds, wiring

from hardware import Wires, load_array
from simulator.collectives import groups, ring_order
from simulator.collectives.cache import ENTRY_BYTES, digest
from simulator.collectives.choice import chosen
from simulator.engine.jobs import Ints
from tests.planners.cost.by_coordinates import KEPT
from tests.wiring import nodes


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    KEPT.clear()
    yield
    KEPT.clear()


def array(size: int) -> np.ndarray:
    return np.zeros(size, dtype=np.uint8)


def test_the_least_recently_used_goes_first() -> None:
    kept = Kept(3 * (100 + ENTRY_BYTES))
    for name in "abc":
        kept.get("array", name, lambda: array(100))
    kept.get("array", "a", lambda: array(100))  # used again
    kept.get("array", "d", lambda: array(100))
    assert kept.made["array"] == 4
    for name in "acd":
        kept.get("array", name, lambda: array(100))
    assert kept.made["array"] == 4
    kept.get("array", "b", lambda: array(100))
    assert kept.made["array"] == 5


def test_the_bound_is_in_bytes_whatever_is_kept() -> None:
    kept = Kept(10_000)
    for i in range(200):
        kept.get("arrays", i, partial(lambda n: (array(n), (array(2 * n), "no bytes")), i))
        assert kept.bytes <= 10_000
        assert kept.bytes >= len(kept) * ENTRY_BYTES
    assert 1 < len(kept) < 20
    assert kept.get("arrays", "large", lambda: array(20_000)).nbytes == 20_000
    assert kept.bytes <= 10_000


def test_unlike_things_of_one_key_are_kept_apart() -> None:
    kept = Kept(10_000)
    assert kept.get("ring", (1, 2), lambda: "order") == "order"
    assert kept.get("box", (1, 2), lambda: "sides") == "sides"
    assert kept.get("ring", (1, 2), lambda: "else") == "order"


def test_what_is_made_while_something_is_made_counts_once() -> None:
    kept = Kept(10_000)

    def outer() -> np.ndarray:
        return kept.get("inner", 1, lambda: array(100))

    kept.get("outer", 1, outer)
    assert kept.bytes == 2 * (100 + ENTRY_BYTES)
    kept.clear()
    assert (len(kept), kept.bytes) == (0, 0)


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


def test_a_wiring_is_all_that_routes_depend_on() -> None:
    mixed = Wires(load_array("accpar-mixed"))
    for change in SPEEDS:
        faster = Wires(load_array("accpar-mixed", [change]))
        assert wiring(faster) is wiring(mixed), change
        assert speeds(faster) is not speeds(mixed), change
    for change in WIRES:
        assert wiring(Wires(load_array("accpar-mixed", [change]))) is not wiring(mixed), change


def work(change: str) -> None:
    """Collectives of all sorts of groups, even and odd, on a small mixed array."""
    counts = ["devices.0.count=8", "devices.1.count=8"]
    w = Wires(load_array("accpar-mixed", [*counts, *([change] if change else [])]))
    for rows in (np.arange(64).reshape(8, 8), np.arange(128), np.arange(6, 66).reshape(10, 6)):
        for collective in ("all-reduce", "all-gather", "all-to-all"):
            chosen(w, collective, rows, 1e8)


def test_a_sweep_of_speeds_makes_every_pattern_once() -> None:
    work("")
    before = {what: many for what, many in KEPT.made.items() if what.startswith(("steps", "cube"))}
    assert sum(before.values()) > 20
    for change in SPEEDS:
        work(change)
    after = {what: KEPT.made[what] for what in before}
    new = {what: many - before[what] for what, many in after.items() if many > before[what]}
    assert new == {"steps of torus": 1}  # written for all groups, once: it had not been taken yet
    for change in SPEEDS:
        work(change)
    assert {what: KEPT.made[what] for what in before} == after
    ways = KEPT.made["ways"]
    work(SPEEDS[0])  # and an array that was there before is not even timed again
    assert KEPT.made["ways"] == ways


def test_latencies_of_kept_patterns_are_those_of_the_wires_at_hand() -> None:
    """Made where nothing has a latency, used where hops have one, and the other way round."""
    for first, second in ((0.0, 1e-6), (1e-6, 0.0), (1e-6, 3e-6)):
        KEPT.clear()
        for latency_s in (first, second):
            w = nodes(32, "torus", (8, 4), latency_s=latency_s)
            (job,) = chosen(w, "all-to-all", w.nodes, 1e8)[1]
            assert job.latency_s == pytest.approx(6 * latency_s)  # half way round in both
            (job,) = chosen(w, "all-reduce", w.nodes[:3], 1e8, "ring")[1]
            assert job.latency_s == pytest.approx(2 * 2 * 2 * latency_s)


def test_refusals_are_rules_and_make_no_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Ints] = []

    def boxes(wires: Wires, rows: Ints) -> Ints | None:
        asked.append(rows)
        return ring_order.boxes(wires, rows)

    monkeypatch.setattr(groups, "boxes", boxes)
    w = Wires(load_array("accpar-mixed"))
    board = w.board
    for rows in (np.arange(1024).reshape(2, 512), np.arange(0, 930).reshape(10, 93), w.nodes):
        for collective in ("all-reduce", "broadcast", "all-to-all"):
            chosen(w, collective, rows, 1e8)
    assert all(len(np.unique(board[row])) == 1 for rows in asked for row in rows)
    assert len(asked) < 10
    chosen(w, "all-reduce", np.arange(0, 8, 2)[np.newaxis], 1e8)
    assert asked
