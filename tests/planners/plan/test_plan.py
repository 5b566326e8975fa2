import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners import Partition, PartitionType, Plan, PlanError, Split
from planners.plan.split import one_of
from tests.strategies import arrays, networks, plans

I, II = PartitionType.I, PartitionType.II  # noqa: E741


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_json_round_trip(data: st.DataObject) -> None:
    network, array = data.draw(networks()), data.draw(arrays())
    plan = data.draw(plans(network, array, 4))
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def make(*shares: float, nodes: tuple[str, ...] = ("a", "b"), halves: int = 1) -> Plan:
    partitions = tuple(Partition(I, share) for share in shares)
    return Plan("p", "net", 1, "time", nodes, Split(partitions, 0.0, (None,) * halves))


def test_levels_only_where_halves_are_alike() -> None:
    plan = make(0.5, 0.5)
    assert plan.levels() == [plan.root]
    assert make(0.5, 0.5, halves=2).levels() is None


def tree(*costs: tuple[float, float | None]) -> Plan:
    """A root with two unlike halves below, with these costs and lower bounds."""
    one, two, three = (Split((Partition(I, 0.5),), cost, (None,), lower) for cost, lower in costs)
    root = Split(one.partitions, one.cost, (two, three), one.lower_bound)
    return Plan("p", "net", 1, "time", ("a",), root)


def test_splits_come_parents_first_and_first_halves_before_second() -> None:
    assert [split.cost for split in tree((1, None), (2, None), (3, None)).splits()] == [1, 2, 3]
    assert list(Plan("p", "net", 1, "time", ("a",), None).splits()) == []


def test_the_gap_is_the_largest_of_any_split() -> None:
    assert tree((1, None), (2, None), (3, None)).gap is None
    assert tree((1, None), (12, 10), (3, None)).gap == pytest.approx(0.2)
    assert tree((15, 10), (12, 10), (3, 3)).gap == pytest.approx(0.5)
    assert tree((1, None), (2, 0.0), (3, None)).gap == float("inf")
    assert tree((1, None), (0.0, 0.0), (3, None)).gap == 0.0


def test_a_plan_keeps_its_bounds_in_json() -> None:
    plan = tree((15, 10), (12, None), (3, 3))
    data = plan.to_json()
    assert [data["root"].get("lower_bound"), data["root"]["halves"][0].get("lower_bound")] == [
        10,
        None,
    ]
    assert Plan.from_json(json.loads(json.dumps(data))) == plan


@pytest.mark.parametrize(
    ("shares", "halves", "words"),
    [
        ((-0.1, 0.5), 1, "layer 'a' has share -0.1; shares lie within 0...1"),
        ((0.5, 1.5), 1, "layer 'b' has share 1.5"),
        ((0.5, float("nan")), 1, "layer 'b' has share nan"),
        ((0.5, 0.5), 3, "malformed split"),
        ((0.5, 0.5), 0, "malformed split"),
        ((0.5,), 1, "1 partitions for 2 layers"),
    ],
)
def test_a_malformed_plan_says_what_is_wrong(
    shares: tuple[float, ...], halves: int, words: str
) -> None:
    with pytest.raises(PlanError) as caught:
        make(*shares, halves=halves)
    assert "plan for 'net'" in str(caught.value)
    assert words in str(caught.value)


def test_a_cost_that_is_no_number_is_refused() -> None:
    for cost, lower in ((float("nan"), None), (float("inf"), None), (1.0, float("nan"))):
        with pytest.raises(PlanError, match="malformed split"):
            tree((cost, lower), (2, None), (3, None))


HALF = Partition(I, 0.5)


def split(*partitions: Any, cost: Any = 0.0, half: Any = None) -> Split:
    """One bisection, of whatever it is given."""
    return Split(partitions, cost, (half,))


def part(kind: Any, share: Any) -> Partition:
    """A partition of whatever it is given."""
    return Partition(kind, share)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"planner": None}, "planner: None: must be a text"),
        ({"batch": "8"}, "batch: '8': must be a whole number from 1 to 16,777,216"),
        ({"batch": 0}, "batch: 0: must be a whole number from 1"),
        ({"together": (0,)}, "together.0: 0: must be a whole number from 1 to 1,048,576"),
        ({"together": (4, -1)}, "together.1: -1: must be a whole number from 1"),
        ({"together": [2]}, "together: [2]: must be of type tuple"),
        ({"nodes": ["a", "b"]}, "nodes: ['a', 'b']: must be of type tuple"),
        ({"nodes": ("a", 3)}, "nodes: 3: must be the name of a layer"),
        ({"communication": "plotted"}, "communication: 'plotted': must be of type Communication"),
        ({"updates": ("foo", "bar")}, "updates: 'foo': must be one of REPLICATED, SHARDED"),
        ({"updates": ("sharded",) * 2}, "updates: 'sharded': must be one of REPLICATED, SHARDED"),
        ({"bucket_bytes": "8"}, "bucket_bytes: '8': must be a number"),
        ({"pipeline": {}}, "pipeline: {}: must be of type Pipeline"),
        ({"root": {}}, "root: {}: must be of type Split"),
        ({"root": split(HALF, HALF, half={"types": []})}, "{'types': []}: must be a Split"),
        ({"root": split(HALF, part("I", 0.5))}, "layer 'b' has Partition(type='I'"),
        ({"root": split(HALF, part(9, 0.5))}, "layer 'b' has Partition(type=9"),
        (
            {"root": split(HALF, "II")},
            "'b' has 'II'; it must be a Partition with a PartitionType (I",
        ),
        ({"root": split(HALF, part(I, "1"))}, "layer 'b' has share 1; shares"),
        ({"root": split(HALF, HALF, cost="dear")}, "malformed split"),
    ],
)
def test_a_plan_made_in_python_has_the_values_of_a_file(change: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError, match=f"plan for 'net': .*{re.escape(words)}"):
        replace(make(0.5, 0.5), **change)


def test_numbers_of_numpy_are_numbers() -> None:
    plan = replace(make(np.float64(0.5), np.float32(0.25)), batch=np.int64(8))  # type: ignore[arg-type]
    assert plan.batch == 8


@pytest.mark.parametrize(
    "change",
    [
        {"layers": None},
        {"root": 3},
        {"root": {"types": ["IV"], "shares": [0.5], "cost": 0, "halves": []}},
        {"layers": ["a"]},
        {"batch": "many"},
        {"objective": None, "root": []},
        {"root": {"types": ["I"], "shares": [0.5], "cost": "dear", "halves": [None]}},
        {"root": {"types": ["I", "X"], "shares": [0.5, 0.5], "cost": 1, "halves": [None]}},
        {"root": {"types": ["I"], "shares": [0.5, 0.5], "cost": 1, "halves": [None]}},
        {"communication": 3},
    ],
)
def test_damaged_json_is_no_plan(change: dict[str, object]) -> None:
    with pytest.raises(PlanError, match=r"not a plan|partitions for"):
        Plan.from_json(make(0.5, 0.5).to_json() | change)
    for missing in ({}, {"planner": "p"}):
        with pytest.raises(PlanError, match="layers: is missing"):
            Plan.from_json(missing)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("bucket_byte", "bucket_byte: unknown key; did you mean bucket_bytes"),
        ("recompute", "recompute: unknown key; one of planner, network"),
        ("levels", "root and levels: a plan has one of root, tree, levels, pipeline"),
    ],
)
def test_a_key_that_would_not_be_read_is_refused(key: str, said: str) -> None:
    data = make(0.5, 0.5).to_json()
    assert Plan.from_json(data | {"exact": True, "gap": None, "warnings": ["w"]}).to_json() == data
    with pytest.raises(PlanError, match=said):
        Plan.from_json(data | {key: []})


def test_one_entry_for_halves_that_do_the_same_at_the_dearer_ones_costs() -> None:
    def tree(costs: tuple[float, float], kind: PartitionType = I) -> Split:
        leaf = Split((Partition(kind, 0.5),), costs[1], (None,))
        return Split((Partition(I, 0.5),), costs[0], (leaf,))

    assert one_of(None, None) == (None,)
    assert one_of(tree((1.0, 4.0)), tree((2.0, 3.0))) == (tree((2.0, 4.0)),)
    assert one_of(tree((1.0, 4.0)), tree((1.0, 4.0), II)) is None
    assert one_of(tree((1.0, 4.0)), None) is None


def test_every_fault_of_a_file_begins_with_its_name(tmp_path: Path) -> None:
    path, data = tmp_path / "plan.json", make(0.5, 0.5).to_json()
    path.write_text(json.dumps(data | {"batch": 0, "network": 3}))
    with pytest.raises(PlanError) as caught:
        Plan.read(str(path))
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"{path}: not a plan: ") for line in lines)
    path.write_text(json.dumps(data | {"layers": ["a"]}))
    with pytest.raises(PlanError) as caught:
        Plan.read(str(path))
    assert str(caught.value) == f"{path}: plan for 'net': 2 partitions for 1 layers"
