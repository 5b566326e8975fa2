import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners import Partition, PartitionType, Plan, PlanError, Split
from tests.strategies import arrays, networks, plans

I = PartitionType.I  # noqa: E741


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_json_round_trip(data: st.DataObject) -> None:
    network, array = data.draw(networks()), data.draw(arrays())
    plan = data.draw(plans(network, array, 4))
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def make(*shares: float, nodes: tuple[str, ...] = ("a", "b"), halves: int = 1) -> Plan:
    partitions = tuple(Partition(I, share) for share in shares)
    return Plan("p", "net", 1, "time", nodes, Split(partitions, 0.0, (None,) * halves))


def test_a_plan_is_checked_when_it_is_built() -> None:
    make(0.0, 1.0)
    with pytest.raises(PlanError, match="1 partitions for 2 layers"):
        make(0.5)
    with pytest.raises(PlanError, match=r"layer 'b' has share 1\.5"):
        make(0.5, 1.5)
    with pytest.raises(PlanError, match="layer 'a' has share nan"):
        make(float("nan"), 0.5)
    with pytest.raises(PlanError, match="malformed split"):
        make(0.5, 0.5, halves=3)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"planner": "p"},
        make(0.5, 0.5).to_json() | {"root": 3},
        make(0.5, 0.5).to_json()
        | {"root": {"types": ["IV"], "shares": [0.5], "cost": 0, "halves": []}},
        make(0.5, 0.5).to_json() | {"layers": ["a"]},
        make(0.5, 0.5).to_json() | {"batch": "many"},
    ],
)
def test_what_is_no_plan_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(PlanError):
        Plan.from_json(data)


def test_levels_only_where_halves_are_alike() -> None:
    plan = make(0.5, 0.5)
    assert plan.levels() == [plan.root]
    assert make(0.5, 0.5, halves=2).levels() is None
