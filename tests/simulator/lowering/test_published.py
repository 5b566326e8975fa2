import pytest

from hardware import load_array
from planners import Plan, PlanError, load_planner
from simulator import program_of
from workloads import load_network

MIXED = load_array("accpar-mixed")


def test_boards_that_do_the_same_share_one_program() -> None:
    network = load_network("resnet18")
    plan = load_planner("hypar")(network, MIXED, 512)
    folded, unfolded = (program_of(network, plan, MIXED, folded=f) for f in (True, False))
    # the top split, and seven levels and one worker for each kind
    assert (len(folded.communicators), len(folded.workers)) == (1 + 2 * 7, 2)
    assert (len(unfolded.communicators), len(unfolded.workers)) == (255, 256)
    assert len({id(worker.template) for worker in unfolded.workers}) == 2


def test_both_sides_of_a_split_share_its_exchanges() -> None:
    network = load_network("lenet")
    program = program_of(network, load_planner("accpar")(network, MIXED, 512), MIXED)
    top = [
        [task.operation for task in worker.template if task.operation.level == 0]
        for worker in program.workers
    ]
    assert len(top) == 2
    assert top[0] == top[1]
    assert len(top[0]) > 0


def test_a_plan_for_something_else_is_refused() -> None:
    lenet, alexnet = load_network("lenet"), load_network("alexnet")
    plan = load_planner("accpar")(lenet, MIXED, 512)
    with pytest.raises(PlanError, match="is for 'lenet', not for 'alexnet'"):
        program_of(alexnet, plan, MIXED)
    with pytest.raises(PlanError, match="another number of devices"):
        program_of(lenet, plan, load_array("accpar-mixed", ["devices.0.count=64"]))
    halves = load_planner("owt")(lenet, load_array("accpar-homogeneous"), 512)
    with pytest.raises(PlanError, match="unlike halves as alike"):
        program_of(lenet, halves, load_array("accpar-mixed", ["devices.1.count=127"]))
    single = Plan("p", "lenet", 512, "time", plan.nodes, None)
    with pytest.raises(PlanError, match="another number of devices"):
        program_of(lenet, single, MIXED)


@pytest.mark.parametrize("slow", [0, 1])
def test_of_two_sides_that_receive_as_much_the_slower_one_decides(slow: int) -> None:
    """Gradients of data parallelism: both boards receive all of them, one by a port of 1 GB/s."""
    speeds = ["devices.0.network.bandwidth=8 GB/s", "devices.1.network.bandwidth=8 GB/s"]
    speeds[slow] = f"devices.{slow}.network.bandwidth=1 GB/s"
    pair = ["devices.0.count=1", "devices.1.count=1", *speeds]
    network, array = load_network("lenet"), load_array("accpar-mixed", pair)
    program = program_of(network, load_planner("data_parallel")(network, array, 512), array)
    for worker in program.workers:
        exchanges = [t.operation for t in worker.template if t.parties]
        assert exchanges
        for one in exchanges:
            assert one.received[0] == one.received[1]
            assert one.duration_ps == one.received[0] * 1000  # a byte takes a nanosecond
