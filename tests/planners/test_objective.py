"""What a split costs: prices, shares that balance, and boundaries as numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hardware import Arithmetic, Half, bisection_of, load_array
from planners import OBJECTIVES, TIME, TRAFFIC, Communication, PartitionType
from planners.objective import Choice, Prices, choice, edge
from planners.partition import WHOLE, boundary, sizes
from workloads import Node, Tensor

I, II, III, IV = PartitionType  # noqa: E741
PRICES = st.builds(Prices, st.floats(1e-2, 1e2), st.floats(1e-2, 1e2))
AMOUNTS = st.one_of(st.just(0.0), st.floats(1e-2, 1e2))
CHOICES = st.builds(Choice, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
GRID = np.linspace(0.0, 1.0, 2001)


def test_objectives_by_name_and_unit() -> None:
    assert OBJECTIVES == {"time": TIME, "traffic": TRAFFIC}
    assert (TIME.unit, TRAFFIC.unit) == ("seconds", "elements")


def test_time_prices_a_half_by_its_peak_and_its_link() -> None:
    array = load_array("accpar-mixed", ["devices.0.count=3", "devices.1.count=2"])
    first, second = bisection_of(array).halves(array.group)
    assert TIME.prices(first) == Prices(1 / (3 * 180e12), 2 / 1e9)
    assert TIME.prices(second) == Prices(1 / (2 * 420e12), 2 / 2e9)
    assert TRAFFIC.prices(first) == TRAFFIC.prices(second) == Prices(0.0, 1.0)
    assert replace(TIME, computing=False).prices(first) == Prices(0.0, 2 / 1e9)


def test_elements_cost_their_bytes() -> None:
    group = load_array("hypar-16").group
    assert group.arithmetic == Arithmetic.of(4.0, fused=True)
    assert TIME.prices(Half(group, 8e9)).per_element == 4 / 8e9


@given(CHOICES, PRICES, st.floats(0, 1))
def test_a_half_pays_for_its_work_and_for_what_it_receives(
    numbers: Choice, prices: Prices, share: float
) -> None:
    rest = 1 - share
    wanted = share * numbers.work * prices.per_flop
    wanted += numbers.fixed * prices.per_element
    wanted += rest * numbers.rest * prices.per_element
    wanted += share * rest * numbers.swap * prices.per_element
    assert numbers.spend(prices, share) == pytest.approx(wanted)


@given(CHOICES, st.tuples(PRICES, PRICES), st.floats(0, 1))
def test_a_split_costs_what_its_slower_half_pays(
    numbers: Choice, prices: tuple[Prices, Prices], share: float
) -> None:
    both = numbers.spend(prices[0], share), numbers.spend(prices[1], 1 - share)
    assert numbers.cost(prices, share) == max(both)
    assert numbers.cost(prices[::-1], 1 - share) == pytest.approx(max(both))


@given(CHOICES, st.tuples(PRICES, PRICES))
def test_a_balanced_share_makes_both_pay_the_same_where_any_does(
    numbers: Choice, prices: tuple[Prices, Prices]
) -> None:
    """Against a search of a fine grid for a change of sign."""
    share = numbers.balanced(prices)
    assert 0.0 <= share <= 1.0
    gaps = np.array(
        [numbers.spend(prices[0], a) - numbers.spend(prices[1], 1 - a) for a in GRID.tolist()]
    )
    scale = np.abs(gaps).max()
    assume(scale > 1e-6)
    mine = numbers.spend(prices[0], share) - numbers.spend(prices[1], 1 - share)
    if gaps.min() < -1e-6 * scale and gaps.max() > 1e-6 * scale:
        assert abs(mine) <= 1e-6 * scale
    elif (np.abs(gaps) > 1e-6 * scale).all():
        assert share in (0.0, 1.0)
        assert numbers.cost(prices, share) <= numbers.cost(prices, 1.0 - share)


@given(CHOICES, PRICES)
def test_alike_halves_balance_at_one_half(numbers: Choice, prices: Prices) -> None:
    computing, lacking = numbers.work * prices.per_flop, numbers.rest * prices.per_element
    assume(abs(computing - lacking) > 1e-6 * max(computing, lacking))  # else any share does
    share = numbers.balanced((prices, prices))
    even = numbers.cost((prices, prices), 0.5)
    assert numbers.cost((prices, prices), share) == pytest.approx(even)


def test_what_costs_both_the_same_at_any_share_takes_the_first_end() -> None:
    prices = (Prices(1.0, 1.0), Prices(1.0, 1.0))
    assert Choice(0.0, 5.0, 0.0, 0.0).balanced(prices) == 0.0


def test_the_worked_example_of_a_layers_cost() -> None:
    """That of ``Level.layer_cost``."""
    numbers = Choice(work=80.0, fixed=6.0, rest=0.0, swap=32.0)
    prices = (Prices(1.0, 1.0), Prices(0.5, 1.0))
    assert [numbers.spend(half, 0.5) for half in prices] == [54.0, 34.0]
    assert numbers.balanced(prices) == pytest.approx(1 / 3)
    assert numbers.cost(prices, 1 / 3) == pytest.approx(80 / 3 + 6 + 64 / 9)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e12])
def test_roots_keep_their_digits_where_the_swap_is_next_to_nothing(size: float) -> None:
    """b^2 beside 4 swap c as 1e16 to 1: the textbook's formula would give 0 for one root."""
    numbers = Choice(work=2e8 * size, fixed=0.0, rest=0.0, swap=1.0 * size)
    prices = (Prices(1.0, 2.0), Prices(3.0, 1.0))
    share = numbers.balanced(prices)
    assert share == pytest.approx(0.75, rel=1e-6)
    one, other = numbers.spend(prices[0], share), numbers.spend(prices[1], 1 - share)
    assert one == pytest.approx(other, rel=1e-12)


@pytest.mark.parametrize("table", Communication)
@pytest.mark.parametrize("producer", PartitionType)
@pytest.mark.parametrize("consumer", PartitionType)
def test_a_boundary_is_a_swap_or_a_rest(
    producer: PartitionType, consumer: PartitionType, table: Communication
) -> None:
    """Two numbers give the table back at every share."""
    swap, rest = edge(producer, consumer, 100.0, table)
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        wanted = 100.0 * sum(boundary(producer, consumer, share, table))
        assert (1 - share) * rest + share * (1 - share) * swap == pytest.approx(wanted)


def test_a_choice_adds_the_edges_into_a_product() -> None:
    reads = (Tensor(4, 2), Tensor(4, 2))
    node = Node("m", "matmul", 4, 6, 1, 2, 2, 2, (0, 1), groups=2, reads=reads, operand=8)
    size = sizes(node, 3, WHOLE)
    numbers = choice(size, IV, [I, II], pooled=False)
    assert (numbers.work, numbers.fixed) == (sum(size.flops), 0.0)
    assert numbers.swap == edge(I, IV, size.reads[0])[0]
    assert numbers.rest == edge(II, IV, size.reads[1])[1]


@pytest.mark.parametrize(
    ("pooled", "table", "wanted"),
    [
        (False, Communication.PRINTED, 2 * 5 * 16),
        (True, Communication.PRINTED, 2 * 5 * 4),
        (False, Communication.PLOTTED, 2 * 5 * 4),
    ],
)
def test_the_pool_behind_a_layer_is_the_objectives_or_the_tables(
    pooled: bool, table: Communication, wanted: float
) -> None:
    node = Node("conv", "conv", 3, 5, 9, 64, 16, 4, ())
    numbers = choice(sizes(node, 2, WHOLE), II, [], pooled=pooled, table=table)
    assert numbers.fixed == wanted
    assert math.isclose(choice(sizes(node, 2, WHOLE), I, [], pooled=pooled).fixed, 135)
