"""Who sends whom what of a tensor between two stages: by coordinates, cell by cell."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, Device, Group
from planners import Plan, Split
from planners.partition import II, III, I, V
from simulator import DEPLOYED
from simulator.lowering.models import rules_of
from simulator.sharding.regions import Messages, Regions, messages, regions
from simulator.sharding.spec import INPUT, OUTPUT, Placement, made_by
from tests.strategies import plans
from workloads import Builder, Layer, Network, Tensor, partition_graph

Cells = frozenset[tuple[int, int, int]]
CORE = Device("core", 1, 1, 1e12, 1e9, 1e9, 1e9)


def two_layers(width: int, positions: int) -> Network:
    """Two fully connected layers of one width, so that a tensor has as many columns anywhere."""
    shape = Tensor(width, positions)
    layers = [
        Layer(name, "fc", (source,), shape, shape)
        for name, source in (("one", "input"), ("two", "one"))
    ]
    return Network("two", shape, tuple(layers))


def array_of(cores: int) -> Array:
    return Array("cores", "", Group(((CORE, cores),)))


Ranges = tuple[tuple[int, int], ...]


def by_hand(split: Split | None, cores: int, node: int, has: Ranges) -> list[Ranges | None]:
    """What each core has by type (rows, inputs, ...): [from, to) of each; None has nothing.

    A split cuts one of them, its first half rounded to the nearest number; the first
    half of the cores has one more where they are odd.
    """
    if any(a >= b for a, b in has):
        return [None] * cores
    if split is None:
        return [has]
    type_, share = split.partitions[node].type, split.partitions[node].share
    a, b = has[type_]
    middle = a + int((b - a) * share + 0.5)
    found: list[Ranges | None] = []
    for half, (low, high) in enumerate(((a, middle), (middle, b))):
        own = list(has)
        own[type_] = (low, high)
        many = cores - cores // 2 if half == 0 else cores // 2
        found += by_hand(split.halves[-half], many, node, tuple(own))
    return found


def cells(has: Ranges, layout: tuple[Placement, ...]) -> Cells:
    """The cells of a tensor that a core has: of what it makes, columns are outputs."""
    columns = has[II] if layout is INPUT else has[III]
    return frozenset(product(range(*has[I]), range(*columns), range(*has[V])))


def of_bounds(found: Regions, rows: int, columns: int, positions: int) -> dict[int, Cells]:
    """Regions as cells; every bound must be a whole number of them."""
    scaled = found.bounds * np.repeat([rows, columns, positions], 2)
    assert np.abs(scaled - scaled.round()).max(initial=0) < 1e-6
    whole = scaled.round().astype(int).tolist()
    return {
        core: frozenset(product(range(r0, r1), range(c0, c1), range(p0, p1)))
        for core, (r0, r1, c0, c1, p0, p1) in zip(found.cores.tolist(), whole, strict=True)
    }


@st.composite
def stages(draw: st.DrawFn, rows: int, width: int, positions: int) -> tuple[Plan, Array]:
    array = array_of(draw(st.integers(1, 7)))
    return draw(plans(two_layers(width, positions), array, rows)), array


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5))
def test_regions_and_messages_cell_by_cell(
    data: st.DataObject, rows: int, width: int, positions: int
) -> None:
    """Everybody gets every cell that it reads, once, from somebody who has it."""
    network, sides = two_layers(width, positions), []
    first = 0
    for layout, node in ((OUTPUT, 1), (INPUT, 0)):
        plan, array = data.draw(stages(rows, width, positions))
        rules = rules_of(network, plan, array, DEPLOYED, folded=data.draw(st.booleans()))
        found = regions(rules.root, first, node, layout, whole=True)
        once = regions(rules.root, first, node, layout, whole=True, once=True)
        ranges = ((0, rows), (0, width), (0, width), (0, 1), (0, positions))
        hand = by_hand(plan.root, array.group.size, node, ranges)
        wanted = {
            first + core: cells(has, layout) for core, has in enumerate(hand) if has is not None
        }
        assert of_bounds(found, rows, width, positions) == wanted
        sides.append((found, once, wanted))
        kept = of_bounds(once, rows, width, positions)
        assert all(wanted[core] == cells_ for core, cells_ in kept.items())
        assert frozenset().union(*kept.values()) == frozenset().union(*wanted.values())
        first += array.group.size
    (made_, makers, has), (read, readers, wants) = sides
    check(messages(makers, read), has, wants, rows * width * positions)
    check(messages(readers, made_), wants, has, rows * width * positions)  # errors go back


def check(found: Messages, has: dict[int, Cells], wants: dict[int, Cells], all_cells: int) -> None:
    assert len(found.sources) == len(found.targets) == len(found.shares)
    got: dict[int, list[tuple[int, int, int]]] = {core: [] for core in wants}
    for source, target, share in zip(*(part.tolist() for part in found), strict=True):
        assert source != target
        both = has[source] & wants[target]
        assert share * all_cells == pytest.approx(len(both), abs=1e-6)
        assert both
        got[target] += both
    for core, cells_ in wants.items():
        assert sorted(got[core]) == sorted(cells_)


def whole(*cores: int) -> Regions:
    """Cores that all hold the same: everything."""
    return Regions(np.array(cores), np.tile([0.0, 1.0] * 3, (len(cores), 1)))


def pairs(found: Messages) -> list[tuple[int, int]]:
    return list(zip(found.sources.tolist(), found.targets.tolist(), strict=True))


def test_holders_of_the_same_share_the_work_evenly() -> None:
    assert pairs(messages(whole(0, 1), whole(4, 5, 6, 7))) == [(0, 4), (0, 5), (1, 6), (1, 7)]
    assert pairs(messages(whole(0, 1, 2, 3), whole(4, 5))) == [(0, 4), (2, 5)]
    assert pairs(messages(whole(0, 1, 2), whole(4, 5))) == [(0, 4), (1, 5)]


def test_nobody_sends_to_itself() -> None:
    assert pairs(messages(whole(0, 1), whole(0, 1))) == []
    assert pairs(messages(whole(0), whole(0, 1))) == [(0, 1)]


def test_many_askers_are_taken_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few are taken at once, everybody gets the same share."""
    columns = np.linspace(0, 1, 9)
    held = Regions(np.arange(8), np.array([[0, 1, a, b, 0, 1] for a, b in pairwise(columns)]))
    rows = np.linspace(0, 1, 6)
    asked = Regions(10 + np.arange(5), np.array([[a, b, 0, 1, 0, 1] for a, b in pairwise(rows)]))
    at_once = messages(held, asked)
    monkeypatch.setattr("simulator.sharding.regions.AT_ONCE", 8)
    by_one = messages(held, asked)
    assert sorted(zip(*(p.tolist() for p in by_one), strict=True)) == sorted(
        zip(*(p.tolist() for p in at_once), strict=True)
    )
    assert len(at_once.shares) == 40
    assert at_once.shares.sum() == pytest.approx(1)


def test_a_join_hands_on_what_it_reads() -> None:
    net = Builder("join", 4, 1)
    net.flatten("flat")
    net.fc("a", 4)
    net.fc("b", 4)
    net.add("sum", "a", "b")
    net.fc("c", 4, after="sum")
    graph = partition_graph(net.build())
    assert [made_by(graph, v) for v in range(4)] == [OUTPUT, OUTPUT, INPUT, OUTPUT]
