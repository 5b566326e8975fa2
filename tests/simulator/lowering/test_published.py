import pytest

from hardware import load_array
from planners import Plan, PlanError, load_planner
from simulator import Branch, Leaf, lower
from workloads import load_network

MIXED = load_array("accpar-mixed")


def nodes(node: Branch | Leaf) -> set[Branch | Leaf]:
    if isinstance(node, Leaf):
        return {node}
    return {node}.union(*map(nodes, node.halves))


def test_boards_that_do_the_same_share_one_program() -> None:
    network = load_network("resnet18")
    program = lower(network, load_planner("hypar")(network, MIXED, 512), MIXED)
    assert isinstance(program.root, Branch)
    distinct = nodes(program.root)
    # the top split, and seven levels and one leaf for each kind
    assert len(distinct) == 1 + 2 * (7 + 1)


def test_both_sides_of_a_split_share_its_exchanges() -> None:
    network = load_network("lenet")
    program = lower(network, load_planner("accpar")(network, MIXED, 512), MIXED)
    leaves = [node for node in nodes(program.root) if isinstance(node, Leaf)]
    top = [[op for op in leaf.operations if op.level == 0] for leaf in leaves]
    assert len(leaves) == 2
    assert top[0] == top[1]
    assert len(top[0]) > 0


def test_a_plan_for_something_else_is_refused() -> None:
    lenet, alexnet = load_network("lenet"), load_network("alexnet")
    plan = load_planner("accpar")(lenet, MIXED, 512)
    with pytest.raises(PlanError, match="is for 'lenet', not for 'alexnet'"):
        lower(alexnet, plan, MIXED)
    with pytest.raises(PlanError, match="does not fit an array"):
        lower(lenet, plan, load_array("accpar-mixed", ["devices.0.count=64"]))
    halves = load_planner("owt")(lenet, load_array("accpar-homogeneous"), 512)
    with pytest.raises(PlanError, match="unlike halves as alike"):
        lower(lenet, halves, load_array("accpar-mixed", ["devices.1.count=127"]))
    single = Plan("p", "lenet", 512, "time", plan.nodes, None)
    with pytest.raises(PlanError, match="does not fit an array"):
        lower(lenet, single, MIXED)
