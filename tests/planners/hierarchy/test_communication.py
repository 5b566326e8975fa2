"""HyPar's two tables: the printed one is AccPar's at one half, the plotted one is shorter."""

import json
from dataclasses import replace

import pytest

from hardware import load_array
from planners import (
    TIME,
    TRAFFIC,
    Communication,
    Objective,
    PartitionType,
    Plan,
    PlanError,
    load_planner,
)
from planners.hierarchy import plan_hierarchy
from planners.partition import boundary
from workloads import HYPAR, load_network

I, II, III, *_ = PartitionType  # noqa: E741
ARRAY = load_array("hypar-16")
PLOTTED = replace(TRAFFIC, communication=Communication.PLOTTED)
PRINTED_TABLE = {  # HyPar, Table 2: fractions of A(F), then of A(E)
    (I, I): (0.0, 0.0),
    (I, II): (0.25, 0.25),
    (II, II): (0.0, 0.5),
    (II, I): (0.0, 0.5),
}


def plan_of(name: str, objective: Objective) -> Plan:
    return load_planner("hypar")(load_network(name), ARRAY, 256, objective)


def digits(plan: Plan) -> list[list[int]]:
    return [[int(kind) for kind in split.types] for split in plan.levels() or []]


def test_the_printed_table_is_hypars_table_2() -> None:
    for (producer, consumer), entry in PRINTED_TABLE.items():
        assert boundary(producer, consumer, 0.5) == entry


def test_the_plotted_table_charges_one_boundary_alone() -> None:
    for producer in (I, II):
        for consumer in (I, II):
            entry = boundary(producer, consumer, 0.5, Communication.PLOTTED)
            assert entry == ((0.25, 0.25) if (producer, consumer) == (I, II) else (0.0, 0.0))


@pytest.mark.parametrize("name", HYPAR)
def test_printed_plans_are_accpars_restricted_to_two_types(name: str) -> None:
    """Same search as AccPar's, whose tables are checked against its released program."""
    network = load_network(name)
    restricted = plan_hierarchy("hypar", network, ARRAY, 256, TRAFFIC, lambda node: (I, II))
    assert plan_of(name, TRAFFIC) == restricted


def test_which_plans_differ_between_the_tables() -> None:
    other = [n for n in HYPAR if digits(plan_of(n, TRAFFIC)) != digits(plan_of(n, PLOTTED))]
    vggs = [f"hypar-vgg-{letter}" for letter in "abde"]
    assert other == ["hypar-lenet-c", "hypar-cifar-c", *vggs]


@pytest.mark.parametrize("name", HYPAR)
def test_seconds_and_elements_choose_alike_on_the_papers_array(name: str) -> None:
    timed = replace(TIME, communication=Communication.PLOTTED)
    assert digits(plan_of(name, timed)) == digits(plan_of(name, PLOTTED))


def test_a_plan_says_which_table_it_follows() -> None:
    plan = plan_of("hypar-lenet-c", PLOTTED)
    assert plan.communication is Communication.PLOTTED
    data = json.loads(json.dumps(plan.to_json()))
    assert Plan.from_json(data) == plan
    older = {key: value for key, value in data.items() if key != "communication"}
    assert Plan.from_json(older).communication is Communication.PRINTED
    with pytest.raises(PlanError, match="not a plan"):
        Plan.from_json(data | {"communication": "whispered"})


def test_what_the_plotted_table_does_not_know_is_refused() -> None:
    with pytest.raises(PlanError, match="'accpar' chooses type III: the 'plotted'"):
        load_planner("accpar")(load_network("hypar-sfc"), ARRAY, 256, PLOTTED)
    with pytest.raises(PlanError, match="joins paths: the 'plotted'"):
        load_planner("hypar")(load_network("resnet18"), ARRAY, 256, PLOTTED)
    third = load_planner("accpar")(load_network("hypar-sfc"), ARRAY, 256, TRAFFIC)
    with pytest.raises(PlanError, match="no type III"):
        replace(third, communication=Communication.PLOTTED)
