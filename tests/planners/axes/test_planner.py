"""Plans by axes: the same as written by hand, and what cannot be."""

from typing import Any

import pytest

from hardware import Array, by_core, load_array
from planners import (
    Axes,
    Partition,
    PartitionType,
    Pipeline,
    Place,
    Plan,
    PlanError,
    Split,
    Stage,
    Staging,
    load_planner,
    planned_by_axes,
)
from planners.axes.node_types import types_along
from planners.axes.stage_devices import stage_layers
from planners.hierarchy.fixed_types import plan_of_types
from planners.partition import II, III, IV, I
from simulator import DEPLOYED, program_of, simulate
from workloads import Network, cut, load_network, partition_graph

SMALL = "llama-7b:seq=16"


def nodes(count: int) -> Array:
    """Boards of four GPUs, their leaves single ones."""
    return by_core(load_array("ripples-16", [f"devices.0.count={count}"]))


def planned(network: str, array: Array, axes: str, batch: int = 16, **asked: Any) -> Plan:
    return planned_by_axes(load_network(network), array, batch, Axes.parse(axes), Staging(**asked))


def types(plan: Plan) -> list[set[PartitionType]]:
    return [set(split.types) for split in plan.levels() or []]


def test_samples_alone_are_data_parallelism() -> None:
    network, array = load_network("gpt2"), nodes(2)
    plan = planned_by_axes(network, array, 16, Axes())
    alike(plan, load_planner("data_parallel")(network, array, 16))


def test_the_nearest_neighbours_share_heads_and_features() -> None:
    found = types(planned(SMALL, nodes(2), "dp=2,tp=4"))
    assert found == [{I}, {II, III, IV}, {II, III, IV}]
    assert types(planned(SMALL, nodes(2), "dp=2,tp=4", axis_order="dp,tp,pp")) == found[::-1]


def test_priced_as_given_types_are() -> None:
    network, array = load_network("gpt2"), nodes(1)
    tp = types_along("tp", partition_graph(network))
    plan = planned_by_axes(network, array, 16, Axes(2, 1, 2))
    by_hand = plan_of_types(network, array, 16, [(I,) * len(tp), tp])
    alike(plan, by_hand)


def alike(plan: Plan, other: Plan) -> None:
    """The same splits at the same costs, which are added up in another order."""
    for split, same in zip(plan.splits(), other.splits(), strict=True):
        assert split.partitions == same.partitions
        assert split.cost == pytest.approx(same.cost, rel=1e-12)


def by_hand(network: Network, batch: int) -> Plan:
    """Megatron's: two stages of four GPUs, each two replicas of two, in micro-batches of four."""

    def partitions(names: tuple[str, ...], of: dict[str, PartitionType]) -> tuple[Partition, ...]:
        kinds = [of.get(name.rpartition(".")[2], of["else"]) for name in names]
        return tuple(Partition(kind, 0.5) for kind in kinds)

    written = dict.fromkeys(("query", "key", "value", "gate", "up", "head"), III)
    summed = dict.fromkeys(("output", "down", "mul", "embedding"), II)
    heads = dict.fromkeys(("scores", "context"), IV)
    tensor = written | summed | heads | {"else": III}
    names = tuple(node.name for node in partition_graph(network))
    first = names.index("layer16.query")
    stages = []
    for k, some in enumerate((names[:first], names[first:])):
        below = Split(partitions(some, tensor), 0.0, (None,))
        root = Split(partitions(some, {"else": I}), 0.0, (below,))
        own = Plan("hand", f"{network.name}, stage {k}", 4, "time", some, root)
        stages.append(Stage(k * first, k, own))
    pipeline = Pipeline(tuple(stages), (Place(0, 4), Place(4, 4)), "1f1b", batch // 4)
    return Plan("hand", network.name, batch, "time", names, None, pipeline=pipeline)


def without_costs(plan: Plan) -> Any:
    def bare(split: Split | None) -> Any:
        return split and (split.partitions, [bare(half) for half in split.halves])

    pipeline = plan.pipeline
    assert pipeline is not None
    stages = [(s.first, s.place, bare(s.plan.root), s.plan.batch) for s in pipeline.stages]
    return stages, pipeline.places, pipeline.schedule, pipeline.micro_batches


def test_the_layout_of_megatron_as_by_hand() -> None:
    network = load_network(SMALL)
    plan = planned_by_axes(network, nodes(2), 16, Axes(2, 2, 2), Staging(micro_batch=2))
    assert without_costs(plan) == without_costs(by_hand(network, 16))


def test_one_option_says_where_stages_begin() -> None:
    cuts, layers = ("layer2.attention.qkv",), (6, 6)
    assert planned("gpt2", nodes(2), "pp=2,dp=4", 16, stage_layers=layers).pipeline is not None
    with pytest.raises(PlanError, match="both say where stages begin"):
        planned("gpt2", nodes(2), "pp=2,dp=4", 16, stage_layers=layers, cuts=cuts)


@pytest.mark.parametrize(("text", "counts"), [("Ett|ttL", (3, 3)), ("tt|tt", (2, 2))])
def test_a_layout_has_both_ends_or_none(text: str, counts: tuple[int, ...]) -> None:
    """With one of them alone its place would be taken for a block's."""
    assert stage_layers(text) == counts
    for one in "EL":
        if "E" in text:
            with pytest.raises(PlanError, match="both E and L"):
                stage_layers(text.replace(one, ""))


def test_micro_batches() -> None:
    def many(axes: str, batch: int = 16, **asked: Any) -> tuple[int, set[int]]:
        pipeline = planned("gpt2", nodes(2), axes, batch, **asked).pipeline
        assert pipeline is not None
        return pipeline.micro_batches, {stage.plan.batch for stage in pipeline.stages}

    assert many("pp=2,dp=4") == (4, {4})  # one sample each
    assert many("pp=2,dp=4", micro_batch=2) == (2, {8})
    assert many("pp=2,dp=4", micro_batches=2) == (2, {8})
    assert many("dp=8", micro_batch=1) == (2, {8})  # gradients are accumulated
    assert planned("gpt2", nodes(2), "dp=8", 16, micro_batch=2).pipeline is None
    with pytest.raises(PlanError, match="batch of 12 is no multiple of 8 samples"):
        many("pp=2,dp=4", 12, micro_batch=2)
    with pytest.raises(PlanError, match="a batch of 16 has 2 with dp=4; say one"):
        many("pp=2,dp=4", micro_batch=2, micro_batches=4)
    with pytest.raises(PlanError, match="3 micro-batches do not divide"):
        many("pp=2,dp=4", micro_batches=3)


def test_halving_parts_nothing_that_an_inner_axis_splits() -> None:
    """Of 12 GPUs in two halves of 6 a group of 4 would be cut: they are 8 and 4 instead."""
    plan = planned("gpt2", nodes(3), "dp=3,tp=4", 12)
    assert (plan.pipeline, plan.together) == (None, (4, 1))
    assert [half.size for half in plan.group(by_core(nodes(3))).halves()] == [8, 4]
    assert plan.root is not None
    assert set(plan.root.types) == {I}
    assert {partition.share for partition in plan.root.partitions} == {2 / 3}
    assert Plan.from_json(plan.to_json()) == plan
    assert planned("gpt2", nodes(4), "dp=4,tp=4", 12).together == ()
    apart = load_array("accpar-homogeneous", ["devices.0.count=12"])
    plan = planned("gpt2", apart, "tp=3,dp=4", 12, axis_order="dp,tp,pp")
    assert plan.together == (4, 1)


def test_halving_parts_no_node_where_it_can() -> None:
    """Of 14 ways of dp on seven nodes of four each node has two."""
    assert planned("gpt2", nodes(7), "dp=14,tp=2", 14).together == (4, 2, 1)
    assert planned("gpt2", nodes(7), "dp=28", 28).together == (4, 1)
    gpus = by_core(load_array("h100-cluster", ["nodes=9"]))
    assert planned("gpt2", gpus, "dp=36,tp=2", 36).together == (8, 2, 1)
    assert planned("gpt2", gpus, "dp=12,tp=6", 12).together == (6, 1)  # nodes of 8 lie across six
    assert planned("gpt2", nodes(8), "dp=32", 32).together == ()


@pytest.mark.parametrize(
    ("count", "axes", "classes"), [(7, "dp=14,tp=2", 3), (11, "dp=44", 3), (13, "dp=26,tp=2", 3)]
)
def test_devices_that_do_the_same_are_simulated_once(count: int, axes: str, classes: int) -> None:
    """Of an odd number of nodes all but one are halves that are alike; all take as long."""
    network, array = load_network("gpt2:layers=1:seq=16:vocab=1024"), nodes(count)
    plan = planned_by_axes(network, array, 4 * count, Axes.parse(axes))
    program = program_of(network, plan, array, DEPLOYED)
    assert len(program.workers) <= classes
    folded, each = (simulate(network, plan, array, DEPLOYED, folded=f) for f in (True, False))
    assert folded.iteration_ps == each.iteration_ps


def test_several_stages_a_place_and_ties() -> None:
    plan = planned("gpt2", nodes(1), "pp=2,vp=3,tp=2", 4)
    pipeline = plan.pipeline
    assert pipeline is not None
    assert (pipeline.virtual, pipeline.schedule, pipeline.tied) == (3, "interleaved", "copies")
    assert [place.first for place in pipeline.places] == [0, 2]
    alike = [stage.plan.root for stage in pipeline.stages[1:-1]]
    assert all(root is alike[0] for root in alike)


def test_cuts_by_name() -> None:
    plan = planned("gpt2", nodes(1), "pp=2,tp=2", 4, cuts=("layer9.attention.qkv",))
    assert plan.pipeline is not None
    assert plan.nodes[plan.pipeline.firsts[1]] == "layer9.attention.qkv"
    with pytest.raises(PlanError, match="2 cuts make 3 stages, not 2"):
        planned("gpt2", nodes(1), "pp=2,tp=2", 4, cuts=("layer9.add1", "layer10.add1"))


def test_stages_are_an_axis() -> None:
    with pytest.raises(PlanError, match="say pp=… and vp=… instead"):
        planned("gpt2", nodes(1), "dp=4", stages=2)


def test_a_stage_for_stage_plan_is_readable_again() -> None:
    plan = planned(SMALL, nodes(2), "dp=2,tp=2,pp=2")
    assert Plan.from_json(plan.to_json()) == plan
    assert cut(load_network(SMALL), plan.pipeline.firsts if plan.pipeline else ()).ties == ()


def test_how_experts_are_split_says_nothing_of_a_network_without_any() -> None:
    """Megatron's default etp=1 of a dense model changes nothing."""
    array, network = load_array("dgx-a100"), load_network("gpt2")
    plans = [
        planned_by_axes(network, DEPLOYED.planned(array), 16, Axes(dp=4, tp=2, etp=etp))
        for etp in (0, 1)
    ]
    assert plans[0] == plans[1]
