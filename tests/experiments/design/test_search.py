"""Searches: budgets, limits, and how near WHAM's comes to the best there is."""

from functools import cache
from itertools import islice

import pytest

from experiments.design import local
from experiments.design.judge import BudgetSpent, Delays, Judge, delays
from experiments.design.runs import limits_of, units_of
from experiments.design.space import Design, load_space
from experiments.design.study import SEARCHES, run_search
from experiments.studies.case import Case, plan_of
from hardware import MatrixUnit, Units, VectorUnit, load_array
from simulator import DEPLOYED
from simulator.lowering.units.cores import sites
from simulator.lowering.units.estimate import UnitStep
from workloads import ZOO, load_network

BATCHES = {**dict.fromkeys(ZOO, 64), "bert-large": 8, "gpt2": 8}
"""WHAM's kind of networks: the nine, and two transformers."""
QUICK = ("lenet", "alexnet", "resnet18")


@cache
def step_of(name: str) -> UnitStep:
    case = Case(
        load_network(name), "data_parallel", load_array("wham-1"), BATCHES[name], execution=DEPLOYED
    )
    (site,) = sites(case.network, plan_of(case), case.array, DEPLOYED)
    return site.step


def judge_of(*names: str, space: str = "small", **more: object) -> Judge:
    array, steps = load_array("wham-1"), [step_of(name) for name in names]
    space_, limits, units = load_space(space), limits_of(array), units_of(array)
    assert (limits.cores, limits.hbm_bytes_per_s) == (1, 525e9)
    return Judge(space_, steps, limits, units, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in BATCHES],
)
def test_the_search_comes_within_three_percent_in_a_twentieth_of_the_evaluations(
    name: str,
) -> None:
    ours = judge_of(name)
    every = ours.fresh()
    run_search(every, "exhaustive", None)
    assert every.evaluations >= 2000
    run_search(ours, "wham", every.evaluations)
    assert 20 * ours.evaluations <= every.evaluations
    assert ours.top(1)[0].value >= 0.97 * every.top(1)[0].value


def test_one_design_for_several_networks() -> None:
    ours = judge_of("lenet", "alexnet")
    every = ours.fresh()
    run_search(every, "exhaustive", None)
    run_search(ours, "wham", every.evaluations // 20)
    best = ours.top(1)[0]
    assert best.value >= 0.97 * every.top(1)[0].value
    alone = [judge_of(n).score(best.design).value for n in ("lenet", "alexnet")]
    assert best.value == pytest.approx((alone[0] * alone[1]) ** 0.5)


def test_exhaustive_is_all_that_keeps_the_limits_and_random_a_part_of_it() -> None:
    every = judge_of("lenet")
    run_search(every, "exhaustive", None)
    space, limits = every.space, every.limits
    by_hand = {
        d
        for d in space
        if limits.area(space.units(d)) <= limits.area_mm2 * (1 + 1e-9)
        and limits.power(space.units(d)) <= limits.power_w * (1 + 1e-9)
    }
    assert every.scores.keys() == by_hand
    one, other = every.fresh(), every.fresh()
    run_search(one, "random", 40, seed=1)
    run_search(other, "random", 40, seed=2)
    assert one.evaluations == other.evaluations == 40
    assert one.scores.keys() <= by_hand
    assert one.scores.keys() != other.scores.keys()
    again = every.fresh()
    run_search(again, "random", 40, seed=1)
    assert list(again.scores) == list(one.scores)


@pytest.mark.parametrize("budget", [1, 7, 30])
def test_no_search_evaluates_more_than_its_budget(budget: int) -> None:
    judge = judge_of("alexnet")
    for search in SEARCHES:
        other = judge.fresh()
        run_search(other, search, budget)
        assert other.evaluations == budget
        assert other.budget is None


def test_a_judge_asks_once_and_stops_at_its_budget() -> None:
    judge = judge_of("lenet")
    first, second = islice(judge.space, 2)
    judge.budget = 1
    assert judge.score(first) is judge.score(first)
    with pytest.raises(BudgetSpent):
        judge.score(second)
    assert judge.evaluations == 1


def test_limits_that_nothing_keeps() -> None:
    judge = judge_of("lenet")
    judge.limits = judge.limits._replace(area_mm2=0.1)
    local.search(judge)
    assert judge.evaluations == 0
    assert local.first(judge) is None


def test_the_first_design_is_one_large_unit_of_each_kind() -> None:
    start = local.first(judge_of("lenet"))
    assert start is not None
    assert (start.matrix_count, start.vector_count) == (1, 1)
    assert start.vector_width == 256


def test_what_delays_is_what_is_scarce() -> None:
    """Few multipliers, few lanes, or no buffer: each is named as what the path waits for."""
    step, large = step_of("vgg11"), 2.0**30

    def of(macs: int, lanes: int, buffer: float) -> Delays:
        matrix = (MatrixUnit(macs, macs),)
        return delays(step, Units(1e9, matrix, (VectorUnit(lanes),), buffer))

    slow = of(4, 1 << 16, large)
    assert slow.matrix > 0.9 * sum(slow)
    slow = of(256, 2, large)
    assert slow.vector > 0.9 * sum(slow)
    fast = Units(1e9, (MatrixUnit(1024, 1024, 64),), (VectorUnit(1 << 16),), 2.0**20)
    found = delays(step, fast)
    assert found.memory > 0.9 * sum(found)


def test_delays_are_the_whole_schedule() -> None:
    step = step_of("resnet18")
    units = Units(700e6, (MatrixUnit(128, 128, 2),), (VectorUnit(128, 4),), 2.0**25)
    priced = step.priced(units)
    moved_s = float(priced.hbm_bytes.sum()) / step.memory_bytes_per_s
    assert max(sum(delays(step, units)), moved_s) == pytest.approx(step.estimate_s(units))


def test_aims_divide_by_power_or_area() -> None:
    design = Design(4, 64, 64, 2, 128, 2.0**23)
    plain = judge_of("lenet").score(design)
    judge = judge_of("lenet", aim="throughput-per-watt")
    assert judge.score(design).value == pytest.approx(
        plain.value * judge.limits.power_w / plain.power_w
    )
    judge = judge_of("lenet", aim="throughput-per-mm2")
    assert judge.score(design).value == pytest.approx(
        plain.value * judge.limits.area_mm2 / plain.area_mm2
    )
