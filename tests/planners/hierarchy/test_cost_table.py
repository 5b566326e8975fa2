"""What entries cost, and the shares that balance them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planners import TIME, TRAFFIC, Communication, Objective, PartitionType
from planners.cost.objective import Prices, edge
from planners.hierarchy.cost_table import Choices, CostTable, Terms
from planners.partition import WHOLE
from planners.sizing import sizing, whole
from tests.planners.slow_sizes import sizes
from workloads import Node, Tensor


def entry(work: float, fixed: float, rest: float, swap: float) -> Choices:
    return Choices(*map(np.asarray, (work, fixed, rest, swap)))


PRICES = st.builds(Prices, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
AMOUNTS = st.one_of(st.just(0.0), st.floats(1e-3, 1e3))
CHOICES = st.builds(entry, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)


@given(CHOICES, PRICES)
def test_alike_halves_balance_at_one_half(numbers: Choices, prices: Prices) -> None:
    computing, lacking = numbers.work * prices.per_flop, numbers.rest * prices.per_element
    assume(abs(computing - lacking) > 1e-6 * max(computing, lacking))  # else any share does
    share = numbers.balanced((prices, prices))
    even = numbers.cost((prices, prices), 0.5)
    assert numbers.cost((prices, prices), share) == pytest.approx(even)


@pytest.mark.parametrize("swap", [0.0, 3.0])
def test_what_costs_the_same_whoever_has_it_the_faster_half_has(swap: float) -> None:
    """So the order of the halves decides nothing."""
    fast, slow = Prices(1.0, 1.0), Prices(3.0, 2.0)
    assert entry(0.0, 5.0, 0.0, swap).balanced((fast, slow)) == 1.0
    assert entry(0.0, 5.0, 0.0, swap).balanced((slow, fast)) == 0.0
    assert entry(0.0, 5.0, 0.0, swap).balanced((fast, fast)) == 0.0


def test_the_worked_example_of_a_layers_cost() -> None:
    """That of ``CostTable``."""
    numbers = entry(work=80.0, fixed=6.0, rest=0.0, swap=32.0)
    prices = (Prices(1.0, 1.0), Prices(0.5, 1.0))
    assert [numbers.spend(half, 0.5) for half in prices] == [54.0, 34.0]
    assert numbers.balanced(prices) == pytest.approx(1 / 3)
    assert numbers.cost(prices, 1 / 3) == pytest.approx(80 / 3 + 6 + 64 / 9)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e12])
def test_roots_keep_their_digits_where_the_swap_is_next_to_nothing(size: float) -> None:
    """b^2 beside 4 swap c as 1e16 to 1: the textbook's formula would give 0 for one root."""
    numbers = entry(work=2e8 * size, fixed=0.0, rest=0.0, swap=1.0 * size)
    prices = (Prices(1.0, 2.0), Prices(3.0, 1.0))
    share = numbers.balanced(prices)
    assert share == pytest.approx(0.75, rel=1e-6)
    one, other = numbers.spend(prices[0], share), numbers.spend(prices[1], 1 - share)
    assert one == pytest.approx(other, rel=1e-12)


@given(CHOICES, st.tuples(PRICES, PRICES))
def test_balanced_sides_finish_together_or_one_is_always_slower(
    numbers: Choices, prices: tuple[Prices, Prices]
) -> None:
    share = numbers.balanced(prices)
    one, other = numbers.spend(prices[0], share), numbers.spend(prices[1], 1 - share)
    if one == pytest.approx(other, rel=1e-6, abs=1e-9):
        return
    assert share in (0.0, 1.0)
    grid = [i / 50 for i in range(51)]
    spent = [(numbers.spend(prices[0], a), numbers.spend(prices[1], 1 - a)) for a in grid]
    signs = {one > other for one, other in spent if one != pytest.approx(other, rel=1e-6)}
    assert len(signs) == 1


def test_a_share_balanced_by_hand() -> None:
    """Both sides of 8a + 2 = 24 (1 - a) + 4."""
    fast, slow = Prices(1.0, 2.0), Prices(3.0, 4.0)
    numbers = entry(work=8.0, fixed=1.0, rest=0.0, swap=0.0)
    assert numbers.balanced((fast, slow)) == pytest.approx(26 / 32)


@pytest.mark.parametrize(
    ("numbers", "prices", "cheaper", "dearer"),
    [
        (entry(2.1, 0.0, 1.5, 1.4), (Prices(2.9, 1.0), Prices(0.5, 3.4)), 3 / 14, 5 / 8),
        (entry(1.7, 0.0, 2.4, 2.2), (Prices(0.9, 1.7), Prices(2.9, 0.7)), 0.87826479, 0.43991703),
    ],
)
def test_of_two_balanced_shares_the_cheaper_is_taken(
    numbers: Choices, prices: tuple[Prices, Prices], cheaper: float, dearer: float
) -> None:
    for share in (cheaper, dearer):  # both balance
        one, other = numbers.spend(prices[0], share), numbers.spend(prices[1], 1 - share)
        assert one == pytest.approx(other, rel=1e-6)
    assert numbers.cost(prices, cheaper) < numbers.cost(prices, dearer)
    assert numbers.balanced(prices) == pytest.approx(cheaper)


I, II, III, IV, V = PartitionType  # noqa: E741
PLOTTED = replace(TIME, communication=Communication.PLOTTED)


def level(graph: tuple[Node, ...], types: list[PartitionType], objective: Objective) -> CostTable:
    domains = tuple((type_,) for type_ in types)
    terms = Terms(graph, domains, objective.communication, balanced=False)
    size = sizing(graph).of(2, whole(graph))
    prices = (Prices(1.0, 1.0), Prices(1.0, 1.0))
    return CostTable(terms, size, prices, 0.5, objective)


def test_a_product_adds_the_edges_into_it() -> None:
    read = Tensor(4, 2)
    first, second = (Node(n, "conv", 4, 4, 1, 2, 2, 2, ()) for n in "ab")
    product = Node("m", "matmul", 4, 6, 1, 2, 2, 2, (0, 1), groups=2, reads=(read,) * 2, operand=8)
    problem = level((first, second, product), [I, II, IV], TIME)
    numbers, size = problem.choices(), sizes((first, second, product)[2], 2, WHOLE)
    assert (numbers.work[2], numbers.fixed[2]) == (sum(size.flops), 0.0)
    assert numbers.swap[2] == edge(I, IV, size.reads[0])[0]
    assert numbers.rest[2] == edge(II, IV, size.reads[1])[1]


@pytest.mark.parametrize(
    ("objective", "wanted"), [(TIME, 2 * 5 * 16), (TRAFFIC, 2 * 5 * 4), (PLOTTED, 2 * 5 * 4)]
)
def test_the_pool_behind_a_layer_is_the_objectives_or_the_tables(
    objective: Objective, wanted: float
) -> None:
    node = Node("conv", "conv", 3, 5, 9, 64, 16, 4, ())
    assert level((node,), [II], objective).choices().fixed.tolist() == [wanted]
    assert level((node,), [I], objective).choices().fixed.tolist() == [135]
