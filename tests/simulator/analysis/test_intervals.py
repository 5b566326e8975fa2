"""The union of intervals, and how much of it is before a time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.analysis.intervals import Union, covered_ps

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=8)


@given(INTERVALS)
def test_before_each_time_as_counted_one_by_one(intervals: list[tuple[int, int]]) -> None:
    covered = {ps for start, took in intervals for ps in range(start, start + took)}
    starts, lengths = np.array(intervals, dtype=np.int64).reshape(-1, 2).T
    times = np.arange(60)
    found = Union(starts, starts + lengths).before(times)
    assert found.tolist() == [sum(ps < time for ps in covered) for time in times]
    assert covered_ps(starts, starts + lengths) == len(covered)
