import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.min_sum import Factor, TooWideError, elimination_order, minimise


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[int], list[Factor]]:
    """Small integer costs, so that sums are exact and ties are common."""
    domains = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    scopes = st.lists(st.integers(0, len(domains) - 1), min_size=1, max_size=3, unique=True).map(
        tuple
    )
    factors = []
    for scope in draw(st.lists(scopes, max_size=8)):
        shape = [domains[v] for v in scope]
        values = draw(
            st.lists(st.integers(0, 4), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))
        )
        factors.append(Factor(scope, np.array(values, dtype=float).reshape(shape)))
    return domains, factors


def total(factors: list[Factor], choice: tuple[int, ...]) -> float:
    return sum(float(factor.table[tuple(choice[v] for v in factor.scope)]) for factor in factors)


@given(problems())
def test_elimination_equals_brute_force(problem: tuple[list[int], list[Factor]]) -> None:
    domains, factors = problem
    least = min(total(factors, c) for c in itertools.product(*map(range, domains)))
    cost, choice = minimise(domains, factors)
    assert cost == least
    assert total(factors, tuple(choice)) == least


@given(st.integers(1, 7), st.data())
def test_ties_on_a_chain_go_to_the_lowest_sequence_from_the_back(
    n: int, data: st.DataObject
) -> None:
    tables = [
        np.array(data.draw(st.lists(st.integers(0, 2), min_size=9, max_size=9)), float)
        for _ in range(n - 1)
    ]
    factors = [Factor((i, i + 1), table.reshape(3, 3)) for i, table in enumerate(tables)]
    ranked = sorted(
        itertools.product(range(3), repeat=n), key=lambda c: (total(factors, c), c[::-1])
    )
    assert tuple(minimise([3] * n, factors)[1]) == ranked[0]


def test_a_chain_goes_front_to_back() -> None:
    assert elimination_order((3,) * 5, ((0, 1), (1, 2), (2, 3), (3, 4))) == (0, 1, 2, 3, 4)


def test_a_clique_that_is_too_wide_is_refused() -> None:
    with pytest.raises(TooWideError, match="over 13 layers"):
        elimination_order((3,) * 13, tuple(itertools.combinations(range(13), 2)))


def test_few_values_may_span_more_and_many_fewer() -> None:
    pairs = tuple(itertools.combinations(range(13), 2))
    assert elimination_order((2,) * 13, pairs) == tuple(range(13))
    assert elimination_order((1,) * 13, pairs) == tuple(range(13))
    with pytest.raises(TooWideError, match="over 10 layers"):
        elimination_order((4,) * 10, tuple(itertools.combinations(range(10), 2)))


def test_a_star_and_a_long_chain_are_ordered_at_once() -> None:
    star = tuple((i, 3000) for i in range(3000))
    assert len(elimination_order((3,) * 3001, star)) == 3001
    chain = tuple((i, i + 1) for i in range(20_000))
    assert elimination_order((3,) * 20_001, chain) == tuple(range(20_001))
