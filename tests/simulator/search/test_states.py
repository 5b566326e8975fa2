"""States: all of them where they are few, those of few runs else."""

from itertools import pairwise, product

import numpy as np
import pytest

from planners.partition import II, III, IV, I, PartitionType
from simulator.search.states import MOST, is_state, states_near, states_of


@pytest.mark.parametrize("levels", range(6))
def test_all_states_of_a_few_levels(levels: int) -> None:
    states = states_of((I, II, III), levels, 0)
    assert states.complete
    rows = {states.at(i) for i in range(len(states))}
    assert rows == set(product((I, II, III), repeat=levels))
    assert [states.numbers[tuple(map(int, states.at(i)))] for i in range(len(states))] == [
        *range(len(states))
    ]


@pytest.mark.parametrize(("levels", "many"), [(6, 153), (7, 219), (10, 57)])
def test_states_of_few_runs(levels: int, many: int) -> None:
    states = states_of((I, II, III), levels, 0)
    assert not states.complete
    assert len(states) == many
    for i in range(len(states)):
        assert is_state((I, II, III), states.at(i))
    assert not is_state((I, II, III), (I, II) * (levels // 2) + (I,) * (levels % 2))


def test_masks_and_counts() -> None:
    states = states_of((I, II, III), 3, 0)
    number = states.numbers[(int(I), int(III), int(I))]
    assert states.masks[:, number].tolist() == [0b101, 0, 0b010, 0, 0]
    assert states.counts[:, number].tolist() == [2, 0, 1, 0, 0]
    assert np.all(states.counts.sum(axis=0) == 3)


def test_groups_are_parted_as_often_as_there_are_some() -> None:
    states = states_of((I, IV), 4, 1)
    assert max(states.counts[IV].tolist()) == 1
    assert len(states) == 5
    assert len(states) < MOST


@pytest.mark.parametrize("levels", [6, 8])
def test_states_near_some_have_one_stretch_of_another_type(levels: int) -> None:
    """Found among all there are: one stretch differs, by one type, and there are few runs."""
    kinds = (I, II, III)
    some = (I,) * 3 + (II,) * (levels - 3)
    found = states_near(frozenset([some]), kinds, levels, 0)
    usual = states_of(kinds, levels, 0)

    def near(row: tuple[PartitionType, ...]) -> bool:
        other = [i for i in range(levels) if row[i] is not some[i]]
        ends = range(min(other, default=0), max(other, default=-1) + 1)
        return any(all(row[i] is kind for i in ends) for kind in kinds)

    wanted = {
        row
        for row in product(kinds, repeat=levels)
        if sum(one is not other for one, other in pairwise(row)) <= 2
        and (near(row) or tuple(map(int, row)) in usual.numbers)
    }
    assert {found.at(i) for i in range(len(found))} == wanted
    assert len(found) == len(wanted)
    assert not found.complete
