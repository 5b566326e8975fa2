from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.picoseconds import PICOSECONDS, duration_ps, nearest_ps, whole_ps


@given(st.floats(0, 1e15), st.floats(1, 1e18))
def test_durations_are_exact_and_rounded_up(amount: float, rate: float) -> None:
    exact = Fraction(amount) / Fraction(rate) * PICOSECONDS
    assert exact <= duration_ps(amount, rate) < exact + 1


@pytest.mark.parametrize(
    ("seconds", "ps"), [(0.0, 0), (1e-12, 1), (1.0005e-12, 1), (1.002e-12, 2), (1.5e-12, 2)]
)
def test_a_sum_of_floats_is_rounded_up_but_noise_is_not(seconds: float, ps: int) -> None:
    assert whole_ps(seconds) == ps
    assert nearest_ps(1.4e-12) == 1
    assert nearest_ps(0.1 + 0.2) == whole_ps(0.1 + 0.2) == 300_000_000_000
