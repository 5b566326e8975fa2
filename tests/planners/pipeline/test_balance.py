"""Where to cut: against all cuts there are."""

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from planners import PlanError
from planners.pipeline.balance import balanced


def cuts(weighted: list[bool], stages: int) -> list[tuple[int, ...]]:
    """All of them whose stages have a layer with weights each."""
    layers = len(weighted)
    found = []
    for places in combinations(range(1, layers), stages - 1):
        ends = (0, *places, layers)
        if all(any(weighted[a:b]) for a, b in pairwise(ends)):
            found.append((0, *places))
    return found


def longest(
    seconds: list[list[float]],
    firsts: tuple[int, ...],
    sends: Sequence[NDArray[np.float64]],
    sums: Sequence[list[float]],
) -> float:
    ends = pairwise((*firsts, len(seconds[0])))
    found = []
    for k, (a, b) in enumerate(ends):
        sent = float(sends[k][0][a] + sends[k][1][b]) if sends else 0.0
        more = sum(sums[k][a:b]) if sums else 0.0
        found.append(max(sum(seconds[k][a:b]), sent) + more)
    return max(found)


@settings(max_examples=100, deadline=None)
@given(st.data(), st.booleans(), st.booleans(), st.booleans())
def test_no_cut_is_better(data: st.DataObject, alike: bool, sent: bool, summed: bool) -> None:
    layers = data.draw(st.integers(1, 8))
    stages = data.draw(st.integers(1, layers))
    # whole numbers, so that sums are exact; layers without a cost and without weights too
    rows = st.lists(st.integers(0, 9).map(float), min_size=layers, max_size=layers)
    row = data.draw(rows)
    seconds = [row if alike else data.draw(rows) for _ in range(stages)]
    weighted = data.draw(st.lists(st.booleans(), min_size=layers, max_size=layers))
    crossing = [0, *data.draw(rows)[1:], 0]
    ways = [data.draw(st.integers(0, 2)) for _ in range(2)]
    sends = [np.outer([k % 2 + ways[0], ways[1]], crossing) for k in range(stages)]
    waits = sends if sent else (), [data.draw(rows) for _ in range(stages)] if summed else ()
    every = cuts(weighted, stages)
    if not every:
        with pytest.raises(PlanError, match="layers have weights; take fewer stages"):
            balanced(seconds, weighted)
        return
    found = balanced(seconds, weighted, *waits)
    assert found in every
    assert longest(seconds, found, *waits) == min(longest(seconds, one, *waits) for one in every)


def test_the_example_and_a_tie() -> None:
    """0 to 2 take 4 s and so does 3; of equal cuts the earliest layers are few."""
    assert balanced([[1, 1, 2, 4]] * 2, [True] * 4) == (0, 3)
    assert balanced([[3, 0, 0, 3]] * 2, [True, False, False, True]) in [(0, 1), (0, 2), (0, 3)]


def test_a_cut_that_sends_much_is_shunned() -> None:
    """Equal halves would send for 9 s; 1 and 3 s of work send for 3."""
    sends = [np.outer([1, 1], [0, 1, 9, 2, 0]), np.outer([2, 2], [0, 1, 9, 2, 0])]
    assert balanced([[1.0] * 4] * 2, [True] * 4) == (0, 2)
    assert balanced([[1.0] * 4] * 2, [True] * 4, sends) == (0, 1)


def test_a_slow_place_gets_less() -> None:
    fast, slow = [1.0] * 9, [2.0] * 9
    assert balanced([fast, slow], [True] * 9) == (0, 6)
    assert balanced([slow, fast], [True] * 9) == (0, 3)
    assert balanced([fast, slow, fast], [True] * 9)[1:] in [(4, 6), (3, 5)]


def test_unlike_stages_may_be_shorter_the_further_they_go() -> None:
    """The second stage is bad at layer 1 alone: it is best to let the first have it."""
    seconds = [[0.0, 1.0, 5.0, 0.0], [1.0, 5.0, 1.0, 5.0], [5.0, 0.0, 0.0, 1.0]]
    assert balanced(seconds, [True] * 4) == (0, 2, 3)


def test_more_stages_than_layers_with_weights() -> None:
    with pytest.raises(PlanError, match="3 stages, but only 2 layers have weights"):
        balanced([[1.0] * 4] * 3, [True, False, False, True])
