import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.bounds import bounded, improve, mini_buckets
from planners.min_sum import Factor, minimise
from tests.planners.test_min_sum import problems, total


@given(problems(), st.integers(2, 30))
def test_mini_buckets_bound_from_below_whatever_they_may_span(
    problem: tuple[list[int], list[Factor]], span: int
) -> None:
    domains, factors = problem
    least = min(total(factors, c) for c in itertools.product(*map(range, domains)))
    lower, choice = mini_buckets(domains, factors, span)
    assert lower <= least + 1e-9
    assert total(factors, tuple(choice)) >= least


@given(problems())
def test_groups_that_may_span_everything_are_exact(
    problem: tuple[list[int], list[Factor]],
) -> None:
    domains, factors = problem
    lower, choice = mini_buckets(domains, factors, 3**6)
    assert lower == pytest.approx(minimise(domains, factors)[0], abs=1e-9)
    assert total(factors, tuple(choice)) == pytest.approx(lower, abs=1e-9)


def grid(side: int, seed: int) -> tuple[list[int], list[Factor]]:
    """Every variable next to four others: width ``side``."""
    rng = np.random.default_rng(seed)
    at = np.arange(side * side).reshape(side, side)
    pairs = [*zip(at[:, :-1].flat, at[:, 1:].flat, strict=True)]
    pairs += [*zip(at[:-1].flat, at[1:].flat, strict=True)]
    return [3] * side**2, [Factor((int(a), int(b)), rng.random((3, 3))) for a, b in pairs]


@pytest.mark.parametrize("seed", range(4))
def test_bounds_enclose_a_grid_solved_exactly(seed: int) -> None:
    domains, factors = grid(9, seed)
    least, _ = minimise(domains, factors)
    found = bounded(domains, factors)
    assert found.lower <= least <= found.cost * (1 + 1e-12)
    assert total(factors, tuple(found.choice)) == pytest.approx(found.cost)
    assert found.cost <= 1.02 * least
    assert found.lower >= 0.9 * least


def test_improving_never_makes_worse_and_stops_after_its_work() -> None:
    domains, factors = grid(12, 0)
    start = [0] * len(domains)
    before = total(factors, tuple(start))
    cost, choice = improve(domains, factors, start, work=0)
    assert cost == pytest.approx(before)
    assert choice == start
    little, _ = improve(domains, factors, start, work=1)
    much, choice = improve(domains, factors, start)
    assert much < little < before
    assert improve(domains, factors, start) == (much, choice)
    assert improve(domains, factors, choice)[0] <= much
