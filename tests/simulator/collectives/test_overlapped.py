"""Collectives whose tiers are at work at once, beside a flow shop followed chunk by chunk."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, Group, Topology, Wires
from hardware.topology import Tier
from simulator.collectives.choice import chosen, jobs, offer, run_alone
from simulator.collectives.offers import MOST_CHUNKS, _pipeline_s
from tests.wiring import device

S = 1e9


def wires(*levels: Tier) -> Wires:
    boards = int(np.prod([tier.members for tier in levels]))
    one = device()
    return Wires(
        Array("tiers", "", Group(((one, boards),)), topology=Topology("tiers", levels=levels))
    )


def shop_s(chunks: int, stages: list[float]) -> float:
    """Every chunk passes all stages in turn, each of which has one at a time."""
    free = [0.0] * len(stages)
    for _ in range(chunks):
        done = 0.0
        for i, stage in enumerate(stages):
            done = free[i] = max(free[i], done) + stage
    return free[-1]


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.floats(0.01, 5), st.floats(0, 1)), min_size=1, max_size=5),
)
def test_stages_of_their_own_are_a_flow_shop(chunks: int, tiers: list[tuple[float, float]]) -> None:
    bytes_s, waits_s = ([tier[i] for tier in tiers] for i in (0, 1))
    found = _pipeline_s(chunks, bytes_s, waits_s, max(bytes_s))
    stages = [moved / chunks + wait for moved, wait in tiers]
    assert found == pytest.approx(shop_s(chunks, stages), rel=1e-12)


def boards(w: Wires) -> list[int]:
    return list(map(int, w.nodes))


def test_an_all_gather_of_two_tiers() -> None:
    """Of 4 x 8 boards: between units 8 times less at a tenth of the speed, and 2 us a step.

    Outer: 3/4 of S/8... in rings; inner 7/8 of S. The first is gathered outside.
    """
    w = wires(Tier("switch", 8, 100e9, 1e-6), Tier("switch", 4, 10e9, 2e-6, rails=8))
    name, (job,) = chosen(w, "all-gather", [boards(w)], S, "hierarchical-overlapped")
    stages = jobs(w, "all-gather", [boards(w)], S, "hierarchical")
    moved = [
        stage.flow_bytes * float((stage.load.flows / w.bandwidth[stage.load.links]).max())
        for stage in stages
    ]
    waits = [stage.latency_s for stage in stages]
    best = min(
        shop_s(chunks, [m / chunks + wait for m, wait in zip(moved, waits, strict=True)])
        for chunks in range(1, MOST_CHUNKS + 1)
    )
    time_s, _ = run_alone(w, (job,))
    assert name == "hierarchical-overlapped"
    assert time_s == pytest.approx(best, rel=1e-3)
    assert max(moved) < time_s < sum(moved)


def test_bytes_over_every_link_are_those_of_the_tiers_in_turn() -> None:
    w = wires(Tier("switch", 4, 100e9), Tier("ring", 2, 10e9), Tier("switch", 2, 5e9, rails=4))
    groups = [boards(w)]
    _, one = run_alone(w, jobs(w, "all-reduce", groups, S, "hierarchical-overlapped"))
    _, other = run_alone(w, jobs(w, "all-reduce", groups, S, "hierarchical"))
    assert one == pytest.approx(other)


def test_never_slower_than_in_turn_nor_faster_than_the_busiest_links() -> None:
    for latency_s in (0.0, 1e-6, 1e-3):
        w = wires(Tier("switch", 8, 100e9, latency_s), Tier("switch", 4, 10e9, latency_s))
        for size in (1e3, 1e6, 1e9):
            time_s, moved = run_alone(
                w, jobs(w, "all-reduce", [boards(w)], size, "hierarchical-overlapped")
            )
            turn_s, _ = run_alone(w, jobs(w, "all-reduce", [boards(w)], size, "hierarchical"))
            assert time_s <= turn_s * (1 + 1e-9) + 1e-11
            assert (moved / w.bandwidth).max() <= time_s * (1 + 1e-9)


def test_auto_takes_it_on_tiers_alone() -> None:
    tiers = wires(Tier("switch", 8, 100e9), Tier("switch", 4, 10e9, rails=8))
    assert offer(tiers, "all-reduce", [boards(tiers)], S).algorithm == "hierarchical-overlapped"
    plain = Wires(Array("plain", "", Group(((device(), 8),))))
    with pytest.raises(ValueError, match="needs two tiers"):
        jobs(plain, "all-reduce", [boards(plain)], S, "hierarchical-overlapped")


@pytest.mark.parametrize("times", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [100e3, 500e3, 768e3, 1.024e6])
def test_a_pipeline_of_one_chunk_is_not_taken_for_what_was_rounded(times: int, size: float) -> None:
    """It takes what the tiers take one after the other, but for a picosecond, at any speed."""
    inner = Tier("fully_connected", 4, 300e9 * times, 0.0)
    outer = Tier("switch", 4, 100e9 * times, 5e-6 / times, rails=0)
    found = chosen(wires(inner, outer), "all-reduce", np.arange(16)[np.newaxis], size)
    assert found[0] == "hierarchical"
