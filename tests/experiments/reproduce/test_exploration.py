"""Points of a search space around a plan."""

from experiments.reproduce.exploration import (
    BITS,
    POINTS,
    Exploration,
    explore,
    levels_of,
    plan,
    points,
)
from experiments.reproduce.steps import PLOTTED, array_of, digits, network_of, plan_of
from planners import Communication

STUDY = Exploration(
    "n",
    ("h1", "h4"),
    (tuple((0, v) for v in range(4)), tuple((3, v) for v in range(4))),
    "what is held",
)
CHOSEN = [[0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]


def test_every_combination_once_and_the_rest_held() -> None:
    found = list(points(STUDY, CHOSEN))
    assert len(found) == len(BITS) ** 2 == POINTS == 256
    assert len({labels for labels, _ in found}) == 256
    for (first, second), levels in found:
        assert levels[0] == [int(digit) for digit in first]
        assert levels[3] == [int(digit) for digit in second]
        assert levels[1:3] == CHOSEN[1:3]
    assert CHOSEN[0] == [0, 1, 0, 1]  # the plan itself is left alone


def test_the_planners_own_point_is_marked_and_ranked() -> None:
    figure = explore("9", STUDY, CHOSEN, lambda levels: 1.0 + sum(levels[0]))
    (own,) = [row for row in figure.rows if row["hypar"]]
    assert (own["h1"], own["h4"], own["ours"]) == ("0101", "1000", 3.0)
    assert figure.axes == ("h1", "h4")
    assert "HyPar's own plan 3, 80 are faster." in figure.messages[1]
    assert "256 plans, 1 to 5, median 3" in figure.messages[1]
    best = explore("9", STUDY, CHOSEN, lambda levels: 2.0 if levels == CHOSEN else 1.0)
    assert "none is faster" in best.messages[1]


def test_a_plan_of_digits_is_the_plan_with_these_digits() -> None:
    """HyPar's digits, put in by hand, give HyPar's plan."""
    chosen = plan_of("Lenet-c", Communication.PLOTTED)
    levels = levels_of(chosen)
    assert ["".join(map(str, level)) for level in levels] == digits(chosen)
    again = plan(network_of("Lenet-c"), array_of(), 256, levels, PLOTTED)
    assert levels_of(again) == levels
    assert [split.cost for split in again.levels() or []] == [
        split.cost for split in chosen.levels() or []
    ]


def test_the_papers_array() -> None:
    ((device, count),) = array_of().group.kinds
    assert count == 16
    ((slower, few),) = array_of(4, slower=2).group.kinds
    assert few == 4
    assert slower.network_bytes_per_s == device.network_bytes_per_s / 2
