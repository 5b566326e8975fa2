"""Parts of groups and of arrays: leaf by leaf."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, Device, Group, by_core, load_array
from tests.strategies import arrays


def leaves(group: Group) -> Iterator[Device]:
    """Every leaf's device, by halving down to single ones."""
    if group.size == 1:
        yield group.kinds[0][0]
        return
    for half in group.halves():
        yield from leaves(half)


@settings(max_examples=60, deadline=None)
@given(arrays(5, 3), st.booleans(), st.data())
def test_a_part_has_the_leaves_that_are_there(
    array: Array, cores: bool, data: st.DataObject
) -> None:
    whole = by_core(array) if cores else array
    each = [d.cores if cores else 1 for d, _ in whole.group.kinds]
    every = [
        d for (d, many), n in zip(array.group.kinds, each, strict=True) for _ in range(many * n)
    ]
    size = whole.group.size
    assert size == len(every)
    first = data.draw(st.integers(0, size - 1))
    count = data.draw(st.integers(1, size - first))
    part = whole.group.taken(first, count)
    assert part.size == count
    assert list(leaves(part)) == every[first : first + count]
    peaks = [d.peak_flops_per_s / (d.cores if cores else 1) for d in every[first:][:count]]
    assert part.peak_flops_per_s == pytest.approx(sum(peaks))
    own = whole.part(first, count)
    assert (own.group, own.first, own.whole) == (part, first, whole)
    inner = data.draw(st.integers(0, count - 1))
    again = own.part(inner, count - inner)
    assert (again.first, again.whole) == (first + inner, whole)
    assert list(leaves(again.group)) == every[first + inner : first + count]


@settings(max_examples=50, deadline=None)
@given(arrays(4, 2))
def test_the_whole_of_it_is_itself(array: Array) -> None:
    assert array.group.taken(0, array.group.size) == array.group


@pytest.mark.parametrize(("first", "count"), [(-1, 2), (0, 0), (0, 9), (8, 1), (5, -1)])
def test_no_more_than_there_are(first: int, count: int) -> None:
    array = load_array("ring-8")
    for taken in (array.group.taken, array.part):
        with pytest.raises(ValueError, match=f"no {count} accelerators from number {first} on: 8"):
            taken(first, count)


def test_units_are_as_large_as_they_may_be() -> None:
    """Two boards of four cores: cores 2 to 5 are single, 4 to 7 are a board, 2 and 3 a chip."""
    device = Device("board", 2, 2, 1e12, 1e9, 1e9, 1e9)
    group = by_core(Array("two", "", Group(((device, 2),)))).group
    found = [(group.taken(*ends).kinds[0][1], group.taken(*ends).unit) for ends in _ENDS]
    assert found == [(4, "core"), (1, "board"), (1, "chip"), (2, "chip"), (1, "core")]


_ENDS = [(1, 4), (4, 4), (2, 2), (2, 4), (3, 1)]
