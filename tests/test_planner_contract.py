"""What every registered planner keeps, built in or from elsewhere."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from hardware import Array, Group, load_array
from planners import (
    BASELINES,
    JUDGED,
    OBJECTIVES,
    TRAFFIC,
    Objective,
    PartitionType,
    Plan,
    PlanError,
    load_planner,
    planner_names,
    predict,
)
from planners.hierarchy import plan_hierarchy
from simulator import simulate
from tests.effort import calls
from workloads import FURTHER, SIZES, ZOO, Network, cut, load_network, partition_graph

ARRAYS = {
    "mixed": load_array("accpar-mixed", ["devices.0.count=4", "devices.1.count=4"]),
    "alike": load_array("accpar-homogeneous", ["devices.0.count=8"]),
    "bus": load_array("hypar-16"),
    "odd": load_array("accpar-mixed", ["devices.0.count=3", "devices.1.count=2"]),
}
NAMES = {array: name for name, array in ARRAYS.items()}
CHAINS = {name: load_network(name) for name in ("lenet", "alexnet", "resnet18")}
NETWORKS = CHAINS | {n: load_network(n) for n in ("mobilenet-v2", "gnmt:seq=6")}

EVERY = [*planner_names(), *BASELINES, *JUDGED]
ONE_KIND = {"pipedream"}
"""These plan for devices of one kind alone."""

every_planner = pytest.mark.parametrize("planner", EVERY)


def quick(planner: str) -> bool:
    """Whether it does not simulate many steps to plan one."""
    return planner not in JUDGED or not JUDGED[planner].place.startswith("simulator")


def planners_and_arrays() -> list[tuple[str, Array]]:
    return [
        (planner, array)
        for planner, array in product(EVERY, ARRAYS.values())
        if planner not in ONE_KIND or len(array.group.kinds) == 1
    ]


def every_case(*, core: bool = False) -> pytest.MarkDecorator:
    """Of the ``core`` are those that do not simulate many steps to plan one.

    With the larger networks these take long.
    """
    cases = []
    for (planner, array), (name, network) in product(planners_and_arrays(), NETWORKS.items()):
        marks = [pytest.mark.core] * (core and quick(planner))
        if name in ("resnet18", "mobilenet-v2") and not quick(planner):
            marks = [pytest.mark.slow]
        label = f"{name}-{planner}-{NAMES[array]}"
        cases.append(pytest.param(planner, array, network, id=label, marks=marks))
    return pytest.mark.parametrize(("planner", "array", "network"), cases)


every_network = pytest.mark.parametrize("network", NETWORKS.values(), ids=list(NETWORKS))
every_objective = pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=list(OBJECTIVES))


@cache
def planned(planner: str, array: Array, network: Network, objective: Objective) -> Plan:
    """Plans at a batch of 256, each of which several tests look at."""
    return load_planner(planner)(network, array, 256, objective)


@every_case()
@every_objective
def test_pure_whole_and_readable(
    planner: str, array: Array, network: Network, objective: Objective
) -> None:
    before = repr((network, array))
    plan = planned(planner, array, network, objective)
    assert plan == load_planner(planner)(network, array, 256, objective)
    assert repr((network, array)) == before
    assert plan.nodes == tuple(node.name for node in partition_graph(network))
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert (plan.planner, plan.network, plan.objective) == (planner, network.name, objective.name)


@every_case(core=True)
def test_predicted_time_is_simulated_time(planner: str, array: Array, network: Network) -> None:
    plan = planned(planner, array, network, OBJECTIVES["time"])
    assert simulate(network, plan, array).iteration_s > 0
    for part, own, place in parts(network, plan, array):
        timeline = simulate(part, own, place)
        rounding_s = len(timeline.operations) * 1e-12
        assert predict(part, own, place) == pytest.approx(
            timeline.iteration_s, rel=1e-9, abs=rounding_s
        )


def parts(network: Network, plan: Plan, array: Array) -> Iterator[tuple[Network, Plan, Array]]:
    """What can be predicted: the step, or of a pipeline each stage on a replica of its place."""
    pipeline = plan.pipeline
    if pipeline is None:
        yield network, plan, array
        return
    with pytest.raises(PlanError, match="has stages: simulate it"):
        predict(network, plan, array)
    for part, stage in zip(cut(network, pipeline.firsts).networks, pipeline.stages, strict=True):
        place = pipeline.places[stage.place]
        yield part, stage.plan, array.part(place.first, place.each)


@pytest.mark.core
@pytest.mark.parametrize("planner", sorted(ONE_KIND))
@pytest.mark.parametrize("array", [ARRAYS["mixed"], ARRAYS["odd"]], ids=["mixed", "odd"])
def test_planners_for_one_kind_say_so(planner: str, array: Array) -> None:
    with pytest.raises(PlanError, match=r"of one kind; .* has accpar-tpu-v2, accpar-tpu-v3"):
        load_planner(planner)(NETWORKS["lenet"], array, 256)


@pytest.mark.core
@every_planner
@pytest.mark.parametrize("network", CHAINS.values(), ids=list(CHAINS))
def test_one_device_takes_serial_time(planner: str, network: Network) -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=1"])
    plan = load_planner(planner)(network, array, 256)
    assert plan.root is None
    device = array.group.kinds[0][0]
    products = 0.0
    for layer in network.layers:
        if layer.weighted:
            dot = 2 * layer.input.channels * layer.kernel_area - 1
            forward = 256 * layer.output.elements * dot
            backward = forward
            if layer.kind == "fc":
                backward = 256 * layer.input.elements * (2 * layer.output.channels - 1)
            gradient = layer.weights * (2 * 256 * layer.output.area - 1)
            products += forward + backward + gradient
    serial = products / device.peak_flops_per_s
    timeline = simulate(network, plan, array)
    rounding_s = len(timeline.operations) * 1e-12
    assert timeline.iteration_s == pytest.approx(serial, rel=1e-9, abs=rounding_s)


SUBSETS = [
    ("accpar", "hypar"),
    ("accpar", "owt"),
    ("accpar", "data_parallel"),
    ("accpar", "model_parallel"),
    ("hypar", "owt"),
    ("hypar", "model_parallel"),
    ("hypar", "data_parallel"),
]


@pytest.mark.parametrize(("wide", "narrow"), SUBSETS)
@every_network
@pytest.mark.parametrize("array", [ARRAYS["mixed"], ARRAYS["alike"]], ids=["mixed", "alike"])
@every_objective
def test_more_choices_are_never_worse_at_the_first_level(
    wide: str, narrow: str, network: Network, array: Array, objective: Objective
) -> None:
    # HyPar prices traffic alone: compare both under the wider planner's objective
    objective = replace(objective, computing=False) if wide == "hypar" else objective
    first = planned(wide, array, network, objective).root
    second = planned(narrow, array, network, objective).root
    assert first is not None
    assert second is not None
    if narrow == "hypar" and objective.computing:  # its own costs leave computing out
        narrower = plan_hierarchy(
            "hypar",
            network,
            array,
            256,
            objective,
            lambda node: (PartitionType.I, PartitionType.II),
        )
        second = narrower.root
        assert second is not None
    assert first.cost <= second.cost * (1 + 1e-12)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if n in SIZES and n != "bert-base" else [])
        for n in (*ZOO, *FURTHER)
    ],
)
def test_planning_is_linear_in_layers(name: str) -> None:
    """About 600 calls for each of a node's eight levels, whether of 4 nodes or of 386."""
    network, array = load_network(name), load_array("accpar-mixed")
    nodes, levels = len(partition_graph(network)), 8
    assert calls(lambda: load_planner("accpar")(network, array, 512)) < 1000 * levels * nodes


@pytest.mark.core
def test_the_traffic_objective_ignores_the_machine() -> None:
    slow = load_array("accpar-homogeneous", ["network.bandwidth=1 kbit/s"])
    fast = load_array("accpar-homogeneous", ["network.bandwidth=1 Tbit/s"])
    for planner in planner_names():
        plans = [load_planner(planner)(NETWORKS["alexnet"], a, 512, TRAFFIC) for a in (slow, fast)]
        assert plans[0] == plans[1]


def test_the_time_objective_follows_the_machine() -> None:
    """With fast enough links computing decides, and the slower boards get work again."""
    plans = [
        load_planner("accpar")(NETWORKS["alexnet"], load_array("accpar-mixed", changes), 512)
        for changes in ([], ["network.bandwidth=8000 Tbit/s"])
    ]
    shares = [[p.share for p in plan.root.partitions] for plan in plans if plan.root]
    assert max(shares[0]) < 0.01  # links of half the bandwidth: the v2 boards idle
    assert shares[1] == pytest.approx([0.3] * 8, abs=0.01)  # 180 / (180 + 420)


@pytest.mark.core
def test_a_plan_for_three_kinds() -> None:
    (first, _), (second, _) = ARRAYS["mixed"].group.kinds
    third = replace(first, name="third", network_bytes_per_s=3e9)
    array = Array("three", "", Group(((first, 4), (second, 3), (third, 1))))
    for planner in planner_names():
        plan = load_planner(planner)(NETWORKS["lenet"], array, 256)
        assert simulate(NETWORKS["lenet"], plan, array).iteration_s > 0
