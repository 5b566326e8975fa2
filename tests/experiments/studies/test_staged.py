"""Where a case is cut, and which accelerators each stage has."""

from dataclasses import replace

import pytest

from experiments.studies.case import Case, first_layers, plan_of, staged_plan
from hardware import Array, Device, Group, load_array
from planners import BASELINES, PLANNERS, PlanError, Staging
from planners.cost.objective import TIME
from planners.pipeline.staging import places_of
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.lowering.layer_times import layer_times
from workloads import Builder, Network, load_network, partition_graph


def alike(layers: int) -> Network:
    net = Builder("alike", 64, 1)
    net.flatten("flat")
    for i in range(layers):
        net.fc(f"fc{i}", 64)
    return net.build()


def device(peak: float) -> Device:
    return Device(f"d{peak:g}", 1, 1, peak, 1e9, 1e9, 1e9)


def firsts(network: Network, array: Array, **more: object) -> tuple[int, ...]:
    staging = Staging(**more)  # type: ignore[arg-type]
    case = Case(network, "owt", array, 64)
    return first_layers(case, array, staging, places_of(array, staging.stages))[-1]


def test_alike_layers_on_alike_places_are_cut_evenly() -> None:
    array = Array("four", "", Group(((device(1e9), 4),)))
    assert firsts(alike(12), array, stages=4) == (0, 3, 6, 9)
    assert firsts(alike(12), array, stages=2, virtual=3) == (0, 2, 4, 6, 8, 10)


def test_a_faster_place_gets_more_layers() -> None:
    """One of three times the peak: nine layers of twelve."""
    array = Array("two", "", Group(((device(1e9), 1), (device(3e9), 1))))
    assert firsts(alike(12), array, stages=2) == (0, 3)


def test_a_place_is_as_fast_as_all_that_it_has() -> None:
    """Three of one kind and a slow one: of five accelerators the first place has three.

    1 + 1 + 1 to 1 + 3: of fourteen layers six and eight take the same.
    """
    array = Array("five", "", Group(((device(1e9), 4), (device(3e9), 1))))
    assert [place.count for place in places_of(array, 2)] == [3, 2]
    assert firsts(alike(14), array, stages=2) == (0, 6)


def test_the_slowest_stage_is_no_slower_than_by_equal_numbers_of_layers() -> None:
    network, array = load_network("vgg16"), load_array("tpu-v3-8")
    planned = DEPLOYED.planned(array)
    staging = Staging(4, 4)
    case = Case(network, "owt", array, 64, execution=DEPLOYED)
    found, *_ = first_layers(case, planned, staging, places_of(planned, 4))
    seconds = [one.seconds for one in layer_times(network, array, 16, DEPLOYED)]

    def slowest(cuts: tuple[int, ...]) -> float:
        ends = (*cuts[1:], len(seconds))
        return max(sum(seconds[a:b]) for a, b in zip(cuts, ends, strict=True))

    assert slowest(found) < slowest((0, 4, 8, 12))


def hourglass() -> Network:
    """Six products; between them are 64, 16, 64, 64 and 64 values a sample."""
    net = Builder("hourglass", 64, 1)
    net.flatten("flat")
    for i, width in enumerate((64, 16, 64, 64, 64, 64)):
        net.fc(f"fc{i}", width)
    return net.build()


@pytest.mark.parametrize(("network_bytes_per_s", "expected"), [(1e9, 4), (4e4, 2)])
def test_stages_are_cut_where_little_crosses_a_slow_network(
    network_bytes_per_s: float, expected: int
) -> None:
    """Weights are 4096 + 1024 + 1024 + 3 * 4096: of work the best halves are 10240 and 8192.

    Where bytes cost more than products the cut is behind fc1, which sends a quarter.
    """
    slow = replace(device(1e8), network_bytes_per_s=network_bytes_per_s)
    array = Array("two", "", Group(((slow, 2),)))
    assert firsts(hourglass(), array, stages=2)[1] == expected


@pytest.mark.parametrize(
    ("array", "execution", "least"),
    [("mixed-v100-t4", DEPLOYED, 4), ("accpar-mixed", PUBLISHED, 1.5), ("ring-8", DEPLOYED, 1)],
)
@pytest.mark.parametrize("name", ["vgg11", "alexnet", "resnet50"])
def test_of_several_ways_to_balance_the_fastest_is_taken(
    name: str, array: str, execution: Execution, least: float
) -> None:
    """By work alone stages are cut where slow wires have most to send, or to sum."""
    asked = replace(execution, staging=Staging(4, 8))
    case = Case(load_network(name), "data_parallel", load_array(array), 256, execution=asked)
    planned = asked.planned(case.array)
    ways = first_layers(case, planned, Staging(4, 8), places_of(planned, 4))

    def step_s(firsts: tuple[int, ...] = ()) -> float:
        names = [partition_graph(case.network)[first].name for first in firsts[1:]]
        own = replace(asked, staging=Staging(4, 8, cuts=tuple(names)))
        again = replace(case, execution=own)
        return simulate(case.network, plan_of(again), case.array, own).iteration_s

    every = [step_s(firsts) for firsts in ways]
    assert step_s() == min(every) <= every[0] / least


@pytest.mark.parametrize("name", ["tpu-mixed", "mixed-a100-h100", "mixed-v100-t4", "accpar-mixed"])
def test_any_number_of_stages_on_kinds_of_devices(name: str) -> None:
    """Places need not end where kinds or nodes do."""
    execution = PUBLISHED if name == "accpar-mixed" else DEPLOYED
    network, array = load_network("vgg11"), load_array(name)
    planned = execution.planned(array)
    for stages in range(2, 12):
        case = Case(network, "data_parallel", array, 64, execution=execution)
        found = first_layers(case, planned, Staging(stages, 4), places_of(planned, stages))
        assert all(len(firsts) == stages for firsts in found)


def test_stages_share_no_weights_unless_it_is_said() -> None:
    """Of the cheapest cuts those between two users of a weight are none: h is behind both."""
    net = Builder("tied", 512, 1)
    for name in ("f0", "f1", "f2"):
        net.linear(name, 512)
    first = net.linear("t1", 16, after=net.linear("g", 16, after="f2"))
    net.linear("t2", 16, shared="t1", after=net.add("a", first, net.linear("q", 16, after="f2")))
    for name in ("h", "f3", "f4"):
        net.linear(name, 512)
    slow = replace(device(1e12), network_bytes_per_s=1e6)
    array = Array("two", "", Group(((slow, 2),)))
    network = net.build()
    names = [node.name for node in partition_graph(network)]
    assert names[firsts(network, array, stages=2, micro_batches=2)[1]] == "h"
    case = Case(network, "data_parallel", array, 64)
    ways = first_layers(case, array, Staging(2, 2, tied="copies"), places_of(array, 2))
    assert {names[way[1]] for way in ways} - {"h"}


def test_cuts_by_name_are_where_they_are_said() -> None:
    network, array = load_network("vgg16"), load_array("accpar-homogeneous")
    names = [node.name for node in partition_graph(network)]
    cuts = ("conv2_1", "conv4_2", "fc6")
    assert firsts(network, array, stages=4, cuts=cuts) == (0, *(names.index(c) for c in cuts))
    with pytest.raises(PlanError, match="no layer 'fc9'"):
        firsts(network, array, stages=2, cuts=("fc9",))


def test_the_plan_is_of_all_that() -> None:
    network, array = load_network("vgg16"), load_array("accpar-homogeneous")
    staging = Staging(4, 8, "gpipe", recompute="1,2")
    plan = staged_plan(Case(network, "owt", array, 256), TIME, staging)
    assert plan.pipeline is not None
    assert (plan.planner, plan.batch, plan.pipeline.schedule) == ("owt", 256, "gpipe")
    assert [stage.recompute for stage in plan.pipeline.stages] == [False, True, True, False]
    assert [place.count for place in plan.pipeline.places] == [32] * 4


def test_no_virtual_stages_at_all() -> None:
    with pytest.raises(PlanError, match="0 stages a place"):
        firsts(alike(3), load_array("accpar-homogeneous"), stages=2, virtual=0)


@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED])
def test_pipelines_of_the_search_lose_to_no_other(execution: Execution) -> None:
    """A stage is no step: what is best by itself need not be best among others."""
    array = load_array("accpar-mixed", ["devices.0.count=2", "devices.1.count=2"])
    asked = replace(execution, staging=Staging(2, 4))
    lenet = load_network("lenet")
    plans = {
        name: staged_plan(Case(lenet, name, array, 64, execution=asked), TIME, Staging(2, 4))
        for name in ("search", *PLANNERS, *BASELINES)
    }
    taken = {n: simulate(lenet, plan, array, asked).iteration_s for n, plan in plans.items()}
    assert taken["search"] == min(taken.values())
    assert plans["search"].planner == "search"
