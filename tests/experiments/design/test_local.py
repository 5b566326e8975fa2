"""The local search's moves: what they keep, and that they stay within limits and space."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.design import local
from experiments.design.judge import Judge
from experiments.design.space import FIELDS, Design
from experiments.design.study import run_search
from tests.experiments.design.test_search import judge_of

PLACES = st.integers(0, len(judge_of("lenet").space) - 1)
"""Numbers of designs of the small space."""


def multipliers(design: Design) -> int:
    return design.matrix_count * design.matrix_width * design.matrix_depth


def lanes(design: Design) -> int:
    return design.vector_count * design.vector_width


def in_space(judge: Judge, design: Design) -> bool:
    return all(getattr(design, field) in judge.space.values[field] for field in FIELDS)


def steps(judge: Judge, one: Design, other: Design) -> dict[str, int]:
    """By how many values each field differs."""
    values = judge.space.values
    places = {f: [list(values[f]).index(getattr(d, f)) for d in (one, other)] for f in FIELDS}
    return {field: b - a for field, (a, b) in places.items() if a != b}


@settings(max_examples=25, deadline=None)
@given(PLACES, st.sampled_from(["throughput", "throughput-per-watt"]))
def test_children_are_allowed_and_of_the_space(place: int, aim: str) -> None:
    """Other shapes with as many multipliers or lanes, or more of something for less of the rest."""
    judge = judge_of("lenet", aim=aim)
    design = judge.space.at(place)
    if not judge.allows(design):
        return
    for child in local.children(judge, design):
        assert child != design
        assert in_space(judge, child)
        assert judge.allows(child)
        changed = steps(judge, design, child)
        grown = {field for field, by in changed.items() if by > 0}
        if aim == "throughput":
            assert grown or multipliers(child) <= multipliers(design)
        assert sum(by for by in changed.values() if by > 0) <= 1


@settings(max_examples=25, deadline=None)
@given(PLACES, st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3, unique=True))
def test_within_takes_turns_of_the_donors_alone(place: int, donors: Sequence[str]) -> None:
    judge = judge_of("lenet")
    design = judge.space.at(place)
    found = local.within(judge, design, donors)
    if judge.allows(design):
        assert found == design
    elif found is not None:
        assert judge.allows(found)
        taken = steps(judge, design, found)
        assert taken.keys() <= set(donors)
        assert all(by < 0 for by in taken.values())
        most, least = (f(-taken.get(donor, 0) for donor in donors) for f in (max, min))
        assert most - least <= 1
    else:  # a donor has nothing more to give
        assert any(judge.space.moved(design, donor, -9) is None for donor in donors)


def test_donors_give_in_turns() -> None:
    """Far too many multipliers: two donors lose as much, to within a step."""
    judge = judge_of("lenet")
    values = judge.space.values
    large = Design(
        int(values["matrix_count"][-1]),
        int(values["matrix_width"][-1]),
        int(values["matrix_depth"][-1]),
        int(values["vector_count"][0]),
        int(values["vector_width"][0]),
        values["buffer_bytes"][-1],
    )
    assert not judge.allows(large)
    donors = ("matrix_width", "matrix_depth")
    found = local.within(judge, large, donors)
    assert found is not None
    taken = steps(judge, large, found)
    assert taken.keys() == set(donors)
    assert abs(taken["matrix_width"] - taken["matrix_depth"]) <= 1
    assert taken["matrix_width"] <= taken["matrix_depth"]


@settings(max_examples=15, deadline=None)
@given(PLACES)
def test_growing_never_loses_and_changes_counts_and_the_buffer_alone(place: int) -> None:
    judge = judge_of("alexnet")
    design = judge.space.at(place)
    if not judge.allows(design):
        return
    before, after = judge.score(design), local.grown(judge, design)
    assert after.value >= before.value
    changed = steps(judge, design, after.design)
    assert changed.keys() <= set(local.GROWN.values())
    assert all(by > 0 for by in changed.values())
    for field in local.delaying(judge, after.design):  # it has stopped for a reason
        larger = judge.space.moved(after.design, field, 1)
        gains = larger is not None and judge.allows(larger) and judge.score(larger).value
        assert not gains or gains <= after.value * (1 + local.GAIN)


@pytest.mark.parametrize("network", ["lenet", "alexnet"])
def test_a_search_begins_with_the_first_design_and_is_the_same_again(network: str) -> None:
    one, other = judge_of(network), judge_of(network)
    run_search(one, "wham", 200)
    run_search(other, "wham", 200)
    assert list(one.scores) == list(other.scores)
    assert next(iter(one.scores)) == local.first(one)
    assert all(one.allows(design) for design in one.scores)


def test_equal_ones_are_ranked_by_area_then_by_their_fields() -> None:
    judge = judge_of("lenet")
    run_search(judge, "wham", 60)
    ranked = judge.top(len(judge.scores))
    keys = [(-score.value, score.area_mm2, score.design) for score in ranked]
    assert keys == sorted(keys)
    assert judge.top(3) == ranked[:3]


def test_the_best_has_nothing_that_it_can_do_without() -> None:
    """No field of it can be a step less without being slower, in the whole space."""
    judge = judge_of("lenet")
    run_search(judge, "wham", 400)
    (best,) = judge.top(1)
    for field in FIELDS:
        smaller = judge.space.moved(best.design, field, -1)
        if smaller is not None and judge.allows(smaller):
            assert judge.score(smaller).value < best.value
