"""Elimination over lists, against the same over arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.min_sum import Factor, elimination_order, minimise
from planners.steps import NARROW, steps_of
from tests.planners.slow_search import slow_minimise
from tests.planners.test_min_sum import problems

Problem = tuple[list[int], list[Factor]]


@given(problems(), st.integers(0, 1 << 30))
def test_lists_give_what_arrays_give_to_the_last_bit(problem: Problem, seed: int) -> None:
    domains, factors = problem
    rng = np.random.default_rng(seed)
    spread = [Factor(f.scope, f.table * rng.uniform(0.1, 9.0, f.table.shape)) for f in factors]
    for tables in (factors, spread):  # with ties, and with sums that are rounded
        assert minimise(domains, tables) == slow_minimise(domains, tables)


def test_a_variable_that_nothing_mentions_takes_its_first_value() -> None:
    assert minimise([3, 2, 1], [Factor((1,), np.array([5.0, 4.0]))]) == (4.0, [0, 1, 0])


@pytest.mark.parametrize(("values", "narrow"), [(NARROW, True), (NARROW + 1, False)])
def test_wide_tables_are_left_to_arrays(values: int, narrow: bool) -> None:
    domains, scopes = (values, 1), ((0, 1),)
    steps = steps_of(elimination_order(domains, scopes), domains, scopes)
    assert (steps is not None) == narrow


def test_a_step_of_a_chain_reads_one_table_and_what_the_last_step_left() -> None:
    domains, scopes = (2, 3, 2), ((0, 1), (1, 2))
    steps = steps_of((0, 1, 2), domains, scopes)
    assert steps is not None
    assert [(s.variable, s.values, len(s.operands), s.scope) for s in steps] == [
        (0, 2, 1, ((1, 2),)),
        (1, 3, 2, ((2, 3),)),
        (2, 2, 1, ()),
    ]
    entries = [float(i) for i in range(15)]
    assert list(steps[0].operands[0](entries)) == [0, 3, 1, 4, 2, 5]  # its values the fastest
    assert list(steps[1].operands[1](entries)) == [12, 13, 14, 12, 13, 14]
