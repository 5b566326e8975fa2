import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners.hierarchy.bounds import bounded
from planners.hierarchy.min_sum import Factor, minimise
from tests.planners.hierarchy.test_min_sum import problems, total


@given(problems(), st.integers(2, 30))
def test_mini_buckets_bound_from_below_whatever_they_may_span(
    problem: tuple[list[int], list[Factor]], span: int
) -> None:
    domains, factors = problem
    least = min(total(factors, c) for c in itertools.product(*map(range, domains)))
    _, choice, lower = bounded(domains, factors, span)
    assert lower <= least + 1e-9
    assert total(factors, tuple(choice)) >= least


@given(problems())
def test_groups_that_may_span_everything_are_exact(
    problem: tuple[list[int], list[Factor]],
) -> None:
    domains, factors = problem
    _, choice, lower = bounded(domains, factors, 3**6)
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
    cost, choice, lower = bounded(domains, factors)
    assert lower <= least <= cost * (1 + 1e-12)
    assert total(factors, tuple(choice)) == pytest.approx(cost)
    assert cost <= 1.02 * least
    assert lower >= 0.9 * least


def test_matched_groups_agree_on_what_a_value_costs() -> None:
    """The worked example of ``_groups``: apart their least is 0, matched it is the least sum.

    The third factor makes variable 0 the first to go, and of 8 entries they are too many for one.
    """
    rows = np.array([[4.0], [0.0]]), np.array([[0.0], [6.0]]), np.zeros((2, 1))
    tables = [np.repeat(row, 2, axis=1) for row in rows]
    factors = [Factor(*both) for both in zip([(0, 1), (0, 2), (1, 2)], tables, strict=True)]
    _, choice, lower = bounded([2, 2, 2], factors, span=4)
    assert lower == minimise([2, 2, 2], factors)[0] == total(factors, tuple(choice)) == 4.0


@settings(deadline=None)
@given(problems())
def test_a_bounded_answer_encloses_the_least(problem: tuple[list[int], list[Factor]]) -> None:
    domains, factors = problem
    found = cost, choice, lower = bounded(domains, factors)
    least = minimise(domains, factors)[0]
    assert lower <= least + 1e-9
    assert least <= cost + 1e-9
    assert lower <= cost
    assert cost == pytest.approx(total(factors, tuple(choice)))
    assert found == bounded(domains, factors)
