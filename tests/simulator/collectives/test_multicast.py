"""One to many on an array's wires: reader by reader by hand, and by closed forms."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Wires
from simulator import CollectiveError, chosen, closed_form, run_alone
from simulator.collectives.choice import jobs
from tests.simulator.collectives import slow_collectives
from tests.wiring import nodes, wires

S, B, LATENCY = 1e8, 1e9, 1e-6
KINDS = ["switch", "tree", "fully_connected", "ring", "mesh", "torus", "bus"]


@given(wires(), st.sampled_from(["unicast", "multicast"]), st.data())
def test_links_and_time_are_those_of_each_reader_by_itself(
    w: Wires, algorithm: str, data: st.DataObject
) -> None:
    """Bytes over every link: by unicast of all readers behind it, by multicast once."""
    if w.cores < 2:
        return
    n = data.draw(st.integers(2, w.cores))
    members = np.array([data.draw(st.permutations(range(w.cores)))[:n]])
    (slow,) = slow_collectives.flat(w, "broadcast", members, S, algorithm)
    time_s, link_bytes = run_alone(w, jobs(w, "broadcast", members, S, algorithm))
    expected = np.zeros(len(w.bandwidth))
    expected[slow.load.links] = slow.load.flows * S
    assert link_bytes == pytest.approx(expected)
    busiest_s = float((expected / w.bandwidth).max(initial=0.0))
    assert time_s == pytest.approx(busiest_s + slow.latency_s, abs=2e-12)


@given(st.sampled_from(KINDS), st.integers(2, 12))
def test_multicast_takes_the_bytes_once_whatever_the_readers(kind: str, count: int) -> None:
    w = nodes(count, kind, bytes_per_s=B, latency_s=LATENCY)
    time_s, link_bytes = run_alone(w, jobs(w, "broadcast", w.nodes, S, "multicast"))
    assert set(link_bytes.tolist()) <= {0.0, S}
    hops = w.message_latency_s(np.repeat(w.nodes[:1], count - 1), w.nodes[1:])
    assert ceil(time_s * 1e12 - 0.5) == pytest.approx(ceil((S / B + hops) * 1e12), abs=1)
    unicast_s, _ = run_alone(w, jobs(w, "broadcast", w.nodes, S, "unicast"))
    assert unicast_s >= time_s


@pytest.mark.parametrize("algorithm", ["unicast", "multicast"])
@pytest.mark.parametrize("kind", ["switch", "tree", "fully_connected"])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_closed_forms(algorithm: str, kind: str, count: int) -> None:
    """A port that all leave by, (n - 1) S/B; S/B where each has a link of its own, or copies."""
    w = nodes(count, kind, bytes_per_s=B, latency_s=LATENCY)
    formula_s = closed_form(w, "broadcast", w.nodes, S, algorithm)
    times = count - 1 if algorithm == "unicast" and kind != "fully_connected" else 1
    assert formula_s == pytest.approx(times * S / B + LATENCY)
    time_s, _ = run_alone(w, jobs(w, "broadcast", w.nodes, S, algorithm))
    assert time_s == pytest.approx(formula_s, abs=1e-12)


@pytest.mark.parametrize("side", [3, 4, 5])
def test_a_mesh_of_unicasts_crowds_the_first_links(side: int) -> None:
    """From a corner all in other columns leave along the row: side * (side - 1) of them."""
    w = nodes(side * side, "mesh", bytes_per_s=B, latency_s=LATENCY)
    time_s, _ = run_alone(w, jobs(w, "broadcast", w.nodes, S, "unicast"))
    hops = 2 * (side - 1)
    assert time_s == pytest.approx(side * (side - 1) * S / B + hops * LATENCY, abs=1e-12)


def test_nobody_takes_them_unasked_and_not_of_several_groups() -> None:
    w = nodes(8, "switch")
    assert chosen(w, "broadcast", w.nodes, S)[0] not in ("unicast", "multicast")
    with pytest.raises(CollectiveError, match="is of one group, not of 2 at once; for this"):
        jobs(w, "broadcast", [[0, 1], [2, 3]], S, "multicast")
    with pytest.raises(CollectiveError, match="multicast does not do all-reduce"):
        jobs(w, "all-reduce", w.nodes, S, "multicast")
