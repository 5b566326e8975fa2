"""Halves that send each other bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import CollectiveError, run_alone
from simulator.collectives.swaps import swap
from tests.wiring import nodes, ranges

B, S = 1e9, 1e8


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
    assert time_s == pytest.approx(S / w.injection_bytes_per_s(*ranges(w.array.group)))


def test_swaps_of_nothing_or_with_oneself() -> None:
    w = nodes(4, "switch", latency_s=1e-6)
    assert run_alone(w, swap(w, [0, 1], [2, 3], 0, 0))[0] == 0.0
    for first, second in (([], [1]), ([0, 1], [1, 2])):
        with pytest.raises(CollectiveError, match="none in common"):
            swap(w, first, second, 1, 1)
