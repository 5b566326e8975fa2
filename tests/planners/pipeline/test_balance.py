"""Where to cut: against all cuts there are."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def longest(seconds: list[list[float]], firsts: tuple[int, ...]) -> float:
    ends = (*firsts, len(seconds[0]))
    return max(sum(row[a:b]) for row, (a, b) in zip(seconds, pairwise(ends), strict=True))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans())
def test_no_cut_is_better(data: st.DataObject, alike: bool) -> None:
    layers = data.draw(st.integers(1, 8))
    stages = data.draw(st.integers(1, layers))
    # whole numbers, so that sums are exact; layers without a cost and without weights too
    rows = st.lists(st.integers(0, 9).map(float), min_size=layers, max_size=layers)
    row = data.draw(rows)
    seconds = [row if alike else data.draw(rows) for _ in range(stages)]
    weighted = data.draw(st.lists(st.booleans(), min_size=layers, max_size=layers))
    every = cuts(weighted, stages)
    if not every:
        with pytest.raises(PlanError, match="layers have weights; take fewer stages"):
            balanced(seconds, weighted)
        return
    found = balanced(seconds, weighted)
    assert found in every
    assert longest(seconds, found) == min(longest(seconds, one) for one in every)


def test_the_example_and_a_tie() -> None:
    """0 to 2 take 4 s and so does 3; of equal cuts the earliest layers are few."""
    assert balanced([[1, 1, 2, 4]] * 2, [True] * 4) == (0, 3)
    assert balanced([[3, 0, 0, 3]] * 2, [True, False, False, True]) in [(0, 1), (0, 2), (0, 3)]


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
