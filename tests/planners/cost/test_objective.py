"""What a split costs: prices, and boundaries as numbers."""

from dataclasses import replace

import pytest

from hardware import Arithmetic, Half, bisection_of, load_array
from planners import OBJECTIVES, TIME, TRAFFIC, Communication, PartitionType
from planners.cost.objective import Prices, edge
from planners.partition import boundary


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
    assert group.arithmetic == Arithmetic(4.0, fused=True)
    assert TIME.prices(Half(group, 8e9)).per_element == 4 / 8e9


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
