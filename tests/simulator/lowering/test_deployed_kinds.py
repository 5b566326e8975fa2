"""The deployed model on every kind of layer: each gradient once, tied weights, the zoo."""

from dataclasses import replace

import pytest

from experiments.studies.case import Case, plan_of, step_of
from hardware import Array, by_core, load_array
from planners import Partition, Plan, PlanError, Split
from planners.order import Kind, Phase
from planners.partition import II, III, I, PartitionType
from simulator import DEPLOYED, PUBLISHED, Execution, program_of, simulate
from workloads import Builder, Network, load_network, partition_graph
from workloads.zoo import NETWORKS

PLANNERS = ("data_parallel", "owt", "hypar", "accpar")
SMALL = ("mobilenet-v2", "vit-b16", "bert-base:seq=8", "gnmt:seq=4")
LARGE = sorted({*NETWORKS} - {"mobilenet-v2", "vit-b16"})


def pod(boards: int) -> Array:
    return load_array("tpu-v3-pod", [f"devices.0.count={boards}"])


@pytest.mark.parametrize("name", ["resnet18", "densenet121", "gpt2:seq=4", *SMALL])
def test_every_gradient_is_summed_once(name: str) -> None:
    """All-reduced over 8 cores: each half receives 2 (n - 1) / n of the bytes for each core."""
    network = load_network(name)
    _, timeline = step_of(Case(network, "data_parallel", pod(1), 64, execution=DEPLOYED))
    received = timeline.totals()[Phase.GRADIENT, Kind.SUMS].bytes
    assert received == pytest.approx(4 * network.parameters * 2 * 7)


def check_zoo(name: str, planner: str) -> None:
    """The whole pod runs; on four boards folding changes nothing."""
    network, array = load_network(name), pod(4)
    _, timeline = step_of(
        Case(network, planner, load_array("tpu-v3-pod"), 1024, execution=DEPLOYED)
    )
    assert timeline.iteration_ps > 0
    plan = plan_of(Case(network, planner, array, 64, execution=DEPLOYED))
    folded, unfolded = (simulate(network, plan, array, DEPLOYED, folded=f) for f in (True, False))
    assert folded.iteration_ps == unfolded.iteration_ps


@pytest.mark.parametrize("name", SMALL)
def test_the_zoo_runs_and_folds(name: str) -> None:
    check_zoo(name, "accpar")


@pytest.mark.slow
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_all_of_the_zoo_under_every_planner(name: str, planner: str) -> None:
    check_zoo(name, planner)


@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED], ids=str)
def test_a_type_that_a_layer_cannot_have_is_refused(execution: Execution) -> None:
    """A depthwise layer has no inputs to split apart from its outputs."""
    network, array = load_network("mobilenet-v2"), pod(2)
    plan = plan_of(Case(network, "data_parallel", array, 64, execution=execution))
    assert plan.root is not None
    depthwise = plan.nodes.index("block0.0.depthwise")
    partitions = list(plan.root.partitions)
    partitions[depthwise] = Partition(II, 0.5)
    plan = replace(plan, root=replace(plan.root, partitions=tuple(partitions)))
    words = r"'block0.0.depthwise' \(conv\) by type II at level 0, .* one of I, IV"
    with pytest.raises(PlanError, match=words):
        simulate(network, plan, array, execution)


def tied() -> Network:
    net = Builder("tied", 1, 2)
    net.embedding("table", 1000, 64)
    net.linear("head", 1000, shared="table")
    return net.build()


def two_cores() -> Array:
    """Two boards of a core each."""
    return load_array(
        "accpar-homogeneous",
        ["devices.0.count=2", "devices.0.chips=1", "devices.0.chip.cores=1"],
    )


@pytest.mark.parametrize("share", [0.5, 0.25])
@pytest.mark.parametrize("owner", [I, II, III])
@pytest.mark.parametrize("user", [I, II, III])
def test_tied_weights_between_two_cores(
    owner: PartitionType, user: PartitionType, share: float
) -> None:
    """Tied weights in bytes: gradients of 4 B, new weights of 2 B for an element."""
    network, array = tied(), two_cores()
    names = tuple(node.name for node in partition_graph(network))
    root = Split((Partition(owner, share), Partition(user, share)), 0.0, (None, None))
    plan = Plan("by hand", network.name, 1000, "time", names, root)
    timeline = simulate(network, plan, by_core(array), DEPLOYED)
    totals, weights = timeline.totals(), 1000 * 64

    def received(phase: Phase, kind: Kind) -> float:
        found = totals.get((phase, kind))
        return found.bytes if found else 0.0

    turned = {I: I, II: III, III: II}[user]
    apart = I not in (owner, user) and turned is not owner
    own = owner is I
    alone = user is I and not own  # the head's gradient is exchanged by itself
    summed = 2 * 4 * weights * (own + alone)
    crossing = 2 * share * (1 - share) * weights if apart else 0.0
    assert received(Phase.GRADIENT, Kind.SUMS) == pytest.approx(summed)
    assert received(Phase.GRADIENT, Kind.BOUNDARY) == pytest.approx(4 * crossing)
    assert received(Phase.UPDATE, Kind.BOUNDARY) == pytest.approx(2 * crossing)


def test_the_owner_waits_for_the_gradient_of_the_other_use() -> None:
    network, array = tied(), two_cores()
    plan = plan_of(Case(network, "data_parallel", array, 64, execution=DEPLOYED))
    template = program_of(network, plan, array, DEPLOYED).workers[0].template
    by_name = {(t.operation.layer, t.operation.phase, t.operation.kind): t for t in template}
    sums = by_name["table", Phase.GRADIENT, Kind.SUMS]
    needed = [template[i] for i in sums.needs]
    assert by_name["head", Phase.GRADIENT, Kind.COMPUTE] in needed
    assert ("head", Phase.GRADIENT, Kind.SUMS) not in by_name
