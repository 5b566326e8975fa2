"""What is read from curves lies at or below what the simulator's collectives take."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, by_core, load_array, wires_of
from simulator.collectives.choice import offer
from simulator.collectives.groups import StridedGroups
from simulator.engine.picoseconds import PICOSECONDS
from simulator.search.tables import SAMPLES, Curves
from tests.simulator.search.cases import like_cores

COLLECTIVES = ("all-reduce", "all-gather", "all-to-all")


@given(like_cores(8), st.sampled_from(COLLECTIVES), st.integers(1, 7), st.floats(1, 1e12))
def test_never_above_and_seldom_far_below(
    array: Array, collective: str, mask: int, size: float
) -> None:
    levels = array.group.cores.bit_length() - 1
    mask &= (1 << levels) - 1
    curves = Curves(wires_of(array), 0, levels, "auto")
    (read,) = curves.of_masks(collective, np.array([mask]), np.array([size])).tolist()
    if not mask:
        assert read == 0
        return
    strides = [1 << i for i in range(levels)]
    groups = StridedGroups(
        0, tuple(s for s in strides if mask & s), tuple(s for s in strides if not mask & s)
    )
    taken = offer(wires_of(array), collective, groups, size, "auto").alone_ps / PICOSECONDS
    assert read <= taken * (1 + 1e-12)
    assert read >= 0.7 * taken - 1e-9


def test_at_samples_it_is_what_they_take() -> None:
    array = by_core(load_array("tpu-v3-8"))
    curves = Curves(wires_of(array), 0, 3, "auto")
    for size in SAMPLES[5:-3].tolist():
        taken = offer(wires_of(array), "all-reduce", StridedGroups(0, (1, 2, 4)), size).alone_ps
        (read,) = curves.of_masks("all-reduce", np.array([7]), np.array([size])).tolist()
        assert read == pytest.approx(taken / PICOSECONDS, abs=50e-12)
    assert curves.of_masks("all-reduce", np.array([7]), np.zeros(1)).tolist() == [0]


def test_masks_of_their_own() -> None:
    array = by_core(load_array("tpu-v3-8"))
    curves = Curves(wires_of(array), 0, 3, "auto")
    masks, sizes = np.array([[5, 0], [1, 5]]), np.array([[1e6, 1e6], [2e3, 3e7]])
    together = curves.of_masks("all-gather", masks, sizes)
    for at in np.ndindex(2, 2):
        one, size = masks[at][np.newaxis], sizes[at][np.newaxis]
        (alone,) = curves.of_masks("all-gather", one, size)
        assert together[at] == alone


def test_beyond_the_last_sample_it_stays() -> None:
    """A line through two samples lies above a concave time behind them."""
    curves = Curves(wires_of(by_core(load_array("tpu-v3-8"))), 0, 3, "auto")
    mask, sizes = np.array([7, 7]), np.array([SAMPLES[-1], 4 * SAMPLES[-1]])
    last, beyond = curves.of_masks("all-reduce", mask, sizes).tolist()
    assert last == beyond > 0
