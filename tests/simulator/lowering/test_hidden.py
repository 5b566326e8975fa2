"""What software hides of exchanges between layers takes no time; its bytes still count."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hardware import Array, Stack, load_array
from planners import Axes, Update, load_planner, planned_by_axes
from planners.order import Phase
from simulator import DEPLOYED, Timeline, simulate
from simulator.lowering.execution import deployed
from simulator.search.bounds import layouts_bound
from simulator.search.search import search
from workloads import Transformer, load_network, transformer

ARRAY = load_array("dgx-2", ["devices.0.count=8", "topology.levels.0.latency=0 s"])
LENET = load_network("lenet")


def stacked(hidden: float) -> Array:
    return replace(ARRAY, stack=Stack("s", hidden_tensor=hidden))


def step(hidden: float, planner: str = "model_parallel", *, folded: bool = True) -> Timeline:
    array = stacked(hidden)
    plan = load_planner(planner)(LENET, DEPLOYED.planned(array), 64)
    return simulate(LENET, plan, array, DEPLOYED, folded=folded)


def spent_ps(timeline: Timeline) -> Counter[tuple[str, str]]:
    found = Counter[tuple[str, str]]()
    for record in timeline:
        found[record.kind, record.phase] += record.end_ps - record.start_ps
    return found


def test_what_is_hidden_takes_no_time_and_gradients_take_theirs() -> None:
    whole, hidden = spent_ps(step(0.0)), spent_ps(step(0.75))
    exchanged = {key for key in whole if key[0] in ("partial sums", "boundary")}
    assert {phase for _, phase in exchanged} >= {"forward", "backward"}
    for kind, phase in exchanged:
        share = 1.0 if phase == "gradient" else 0.25
        assert hidden[kind, phase] == pytest.approx(share * whole[kind, phase], rel=1e-3)
    assert {k: v for k, v in hidden.items() if k[0] == "compute"} == {
        k: v for k, v in whole.items() if k[0] == "compute"
    }


def test_gradients_of_data_parallelism_are_not_tensors() -> None:
    assert step(1.0, "data_parallel").iteration_ps == step(0.0, "data_parallel").iteration_ps


def test_weights_are_gathered_in_full() -> None:
    """They are no tensors between layers either, forward and backward."""

    def took(hidden: float) -> int:
        plan = load_planner("data_parallel")(LENET, DEPLOYED.planned(stacked(hidden)), 64)
        plan = replace(plan, updates=(Update.WEIGHTS,) * len(plan.nodes))
        return simulate(LENET, plan, stacked(hidden), DEPLOYED).iteration_ps

    assert took(1.0) == took(0.0)


def test_products_in_fp4_have_a_share_of_their_own() -> None:
    """Where the stack has none for fp4 it is that of all formats."""
    stack = Stack("s", hidden_tensor=0.5, hidden_tensor_fp4=0.0)
    for precision, said, hidden in (("fp4", stack, 0.0), ("fp8", stack, 0.5)):
        array = load_array("gb200-cluster", [f"precision={precision}"])
        assert replace(array, stack=said).hidden_tensor("all-gather") == hidden
        usual = replace(array, stack=Stack("s", hidden_tensor=0.25))
        assert usual.hidden_tensor("all-gather") == usual.hidden_tensor("all-reduce") == 0.25
    took = [exchanged_ps(precision, stack, Axes(tp=2)) for precision in ("fp4", "fp8")]
    assert took[0] > 1.5 * took[1]


@pytest.mark.parametrize(("axes", "hidden"), [(Axes(tp=2), False), (Axes(tp=2, sp=True), True)])
def test_all_reduces_have_a_share_of_their_own(axes: Axes, hidden: bool) -> None:
    """Megatron hides tensor parallelism under sequence parallelism alone."""
    none, half = (Stack("s", hidden_tensor=share, hidden_all_reduce=0.0) for share in (0.0, 0.5))
    took = [exchanged_ps("bf16", stack, axes) for stack in (none, half)]
    assert (took[1] < 0.8 * took[0]) is hidden
    assert (took[1] == took[0]) is not hidden


def exchanged_ps(precision: str, stack: Stack, axes: Axes) -> int:
    """What tensor parallelism between two GB200 takes of a step."""
    said = [f"precision={precision}", "nodes=1", "devices.0.count=2"]
    array = replace(load_array("gb200-cluster", said), stack=stack)
    network = load_network("gpt2:layers=1")
    plan = planned_by_axes(network, DEPLOYED.planned(array), 64, axes)
    spent = spent_ps(simulate(network, plan, array, DEPLOYED))
    return sum(ps for (kind, _), ps in spent.items() if kind in ("partial sums", "boundary"))


def test_bytes_count_all_the_same() -> None:
    whole, hidden = step(0.0), step(0.75)
    counted = [
        {key: (total.operations, total.bytes) for key, total in one.totals().items()}
        for one in (whole, hidden)
    ]
    assert counted[0] == counted[1]
    assert hidden.link_bytes == pytest.approx(whole.link_bytes)


def test_nothing_is_hidden_where_nothing_may_overlap() -> None:
    none = replace(DEPLOYED, overlap=False)
    plan = load_planner("model_parallel")(LENET, none.planned(ARRAY), 64)
    took = [simulate(LENET, plan, stacked(h), none).iteration_ps for h in (0.0, 0.75)]
    assert took[0] == took[1]


def test_one_of_each_class_and_all_of_them_take_the_same() -> None:
    assert step(0.5).iteration_ps == step(0.5, folded=False).iteration_ps


def test_bounds_know_what_is_hidden() -> None:
    for hidden in (0.5, 1.0):
        array = stacked(hidden)
        planned = DEPLOYED.planned(array)
        near = layouts_bound(LENET, planned, 64, DEPLOYED)
        found = search(LENET, planned, 64, execution=DEPLOYED)
        seconds = simulate(LENET, found, array, DEPLOYED).iteration_s
        assert near is not None
        assert near.seconds <= seconds * (1 + 1e-9)
        assert seconds <= 1.02 * near.seconds


def test_an_array_without_a_stack_hides_nothing() -> None:
    plan = load_planner("model_parallel")(LENET, DEPLOYED.planned(ARRAY), 64)
    assert simulate(LENET, plan, ARRAY, DEPLOYED).iteration_ps == step(0.0).iteration_ps


def test_a_stack_that_stops_early_computes_less_again() -> None:
    """Each of two blocks leaves out its last product: of a sample a core, 8 s h^2 FLOPs."""
    h, s = 64, 32
    network = transformer(Transformer("g", 2, h, 2, 100, s, dropout=False, compiled=False))

    def again(*, early_stop: bool) -> float:
        array = replace(ARRAY, stack=Stack("s", early_stop=early_stop))
        how = replace(deployed(array), recompute="full")
        plan = load_planner("data_parallel")(network, how.planned(array), 8)
        operations = simulate(network, plan, array, how).operations
        return sum(one.flops for one in operations if one.phase is Phase.RECOMPUTE)

    whole, early = again(early_stop=False), again(early_stop=True)
    assert whole - early == pytest.approx(2 * 8 * s * h * h, rel=0.01)


def test_where_tensors_are_waited_for_gradients_are_not_computed_beside_their_sums() -> None:
    """Megatron of 2021: what errors take on slow wires is shown whole; else gradients hide it."""
    slow = load_array("dgx-h100", ["topology.levels.0.bandwidth=200 GB/s"])
    network = transformer(Transformer("g", 2, 1024, 16, 512, 128, dropout=False))

    def took(*, waits: bool) -> int:
        array = replace(slow, stack=Stack("s", tensor_waits=waits))
        execution = deployed(array)
        plan = planned_by_axes(network, execution.planned(array), 64, Axes(tp=8))
        return simulate(network, plan, array, execution).iteration_ps

    assert took(waits=True) > 1.01 * took(waits=False)
