import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.hierarchy.min_sum import (
    Factor,
    Pending,
    TooWideError,
    add_tables,
    adjacency,
    elimination_order,
    minimise,
)


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


def test_a_star_and_a_long_chain_are_ordered_at_once() -> None:
    star = tuple((i, 3000) for i in range(3000))
    assert len(elimination_order((3,) * 3001, star)) == 3001
    chain = tuple((i, i + 1) for i in range(20_000))
    assert elimination_order((3,) * 20_001, chain) == tuple(range(20_001))


@given(problems(), st.randoms())
def test_tables_are_added_entry_by_entry(
    problem: tuple[list[int], list[Factor]], random: Random
) -> None:
    """In any order of the axes, against a loop over every assignment."""
    domains, factors = problem
    axes = list(range(len(domains)))
    random.shuffle(axes)
    joined = add_tables(factors, tuple(axes), domains)
    assert joined.shape == tuple(domains[v] for v in axes)
    for choice in itertools.product(*map(range, domains)):
        assert joined[tuple(choice[v] for v in axes)] == total(factors, choice)


@given(problems())
def test_neighbours_are_those_that_share_a_factor(
    problem: tuple[list[int], list[Factor]],
) -> None:
    domains, factors = problem
    near = adjacency(len(domains), [factor.scope for factor in factors])
    pending = Pending(len(domains), factors)
    for v in range(len(domains)):
        wanted = {u for f in factors if v in f.scope for u in f.scope} - {v}
        assert near[v] == pending.neighbours(v) == wanted


@given(problems(), st.data())
def test_what_is_taken_is_gone_and_comes_oldest_first(
    problem: tuple[list[int], list[Factor]], data: st.DataObject
) -> None:
    domains, factors = problem
    pending, left = Pending(len(domains), factors), list(factors)
    for v in data.draw(st.permutations(range(len(domains)))):
        wanted = [f for f in left if v in f.scope]
        assert all(a is b for a, b in zip(pending.take(v), wanted, strict=True))
        left = [f for f in left if v not in f.scope]
        assert pending.neighbours(v) == set()


@given(problems())
def test_an_elimination_order_is_every_variable_once_and_fills_least(
    problem: tuple[list[int], list[Factor]],
) -> None:
    """Each step takes the variable whose neighbours lack the fewest edges, the lowest first."""
    domains, factors = problem
    near = adjacency(len(domains), [factor.scope for factor in factors])
    order = elimination_order(tuple(domains), tuple(factor.scope for factor in factors))
    assert sorted(order) == list(range(len(domains)))
    left = set(order)
    for chosen in order:
        fill = {
            v: sum(b not in near[a] for a, b in itertools.combinations(sorted(near[v]), 2))
            for v in left
        }
        assert chosen == min(left, key=lambda v: (fill[v], v))
        for a, b in itertools.permutations(near[chosen], 2):
            near[a].add(b)
        for v in left:
            near[v].discard(chosen)
        left.remove(chosen)


@given(problems(), st.integers(1, 12))
def test_no_table_is_larger_than_allowed(
    problem: tuple[list[int], list[Factor]], largest: int
) -> None:
    """Refused exactly where some step of the order would need a larger one."""
    domains, factors = problem
    scopes = tuple(factor.scope for factor in factors)
    try:
        order = elimination_order(tuple(domains), scopes, largest)
    except TooWideError:
        with pytest.raises(TooWideError, match=r"elimination needs a table over \d+ layers"):
            minimise(domains, factors, largest)
        return
    near = adjacency(len(domains), scopes)
    for v in order:
        assert np.prod([domains[u] for u in near[v]]) * domains[v] <= largest
        for a, b in itertools.permutations(near[v], 2):
            near[a].add(b)
        for others in near:
            others.discard(v)
    assert minimise(domains, factors, largest)[0] == minimise(domains, factors)[0]


def test_variables_that_nothing_mentions_cost_nothing() -> None:
    assert minimise([3, 2], []) == (0.0, [0, 0])
    assert minimise([], []) == (0.0, [])
    constant = Factor((1,), np.array([4.0, 3.0]))
    assert minimise([3, 2], [constant, constant]) == (6.0, [0, 1])
