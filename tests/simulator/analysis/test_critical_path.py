"""The critical path: without a gap, and what it says about longer and shorter operations."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from experiments.studies.case import Case, step_of
from hardware import load_array
from planners import load_planner
from planners.order import Kind, Phase
from simulator import (
    DEPLOYED,
    PICOSECONDS,
    Execution,
    Operation,
    Timeline,
    program_of,
    run,
    simulate,
)
from simulator.analysis.critical_path import BOUNDS, SLOWED, Segment, critical_path
from simulator.cost.training_operators import operators
from tests.strategies import arrays, networks, plans, timelines
from workloads import load_network


@settings(max_examples=40, deadline=None)
@given(timelines())
def test_it_is_the_whole_step_without_a_gap(timeline: Timeline) -> None:
    path = critical_path(timeline)
    assert sum(segment.duration_ps for segment in path) == timeline.iteration_ps
    now = 0
    number = {operation: i for i, operation in enumerate(timeline.operations)}
    columns = timeline.columns
    records = set(zip(columns.operation, columns.start, columns.end, strict=True))
    for segment in path:
        assert segment.start_ps == now
        assert (number[segment.operation], segment.start_ps, segment.end_ps) in records
        bounds = segment.bounds_ps()
        assert set(bounds) <= set(BOUNDS)
        assert all(ps >= 0 for ps in bounds.values())
        assert sum(bounds.values()) == segment.duration_ps
        now = segment.end_ps
    assert now == timeline.iteration_ps


def change(operation: Operation, duration_ps: int) -> None:
    """Programs share operations by reference: change one in its place."""
    object.__setattr__(operation, "duration_ps", duration_ps)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_it_alone_decides_how_long_the_step_is(data: st.DataObject) -> None:
    """Where durations are given (published): longer on the path counts, shorter off it does not."""
    network, array = data.draw(networks(4)), data.draw(arrays(3, 2))
    program = program_of(network, data.draw(plans(network, array, 4)), array)
    timeline = run(program)
    path = critical_path(timeline)
    assume(path)
    on_path = Counter(segment.operation for segment in path)
    for operation in timeline.operations:
        if operation not in on_path:
            change(operation, operation.duration_ps // 2)
    assert run(program).iteration_ps == timeline.iteration_ps
    longer = data.draw(st.sampled_from(path)).operation
    change(longer, longer.duration_ps + 10**6)
    added = run(program).iteration_ps - timeline.iteration_ps
    assert added >= 10**6 * on_path[longer]


def test_a_single_cores_path_is_all_it_does() -> None:
    network = load_network("lenet")
    array = load_array("accpar-homogeneous", ["devices.0.count=1"])
    plan = load_planner("accpar")(network, array, 16)
    timeline = simulate(network, plan, array)
    path = critical_path(timeline)
    assert [s.operation for s in path] == [o for o in timeline.operations if o.duration_ps]
    assert all(set(segment.bounds_ps()) == {"FLOPs"} for segment in path)


def test_latency_and_bytes_of_an_exchange() -> None:
    """Ten times the latency of every link, ten times the path's latency; bytes stay."""
    network, spent = load_network("lenet"), []
    execution = Execution("deployed", overlap=False, algorithm="ring")
    for latency in ("1 us", "10 us"):
        array = load_array("ring-8", [f"network.latency={latency}"])
        cores = execution.planned(array)
        plan = load_planner("data_parallel")(network, cores, 64)
        path = critical_path(simulate(network, plan, array, execution))
        spent.append(sums(path))
    assert spent[1]["latency"] == 10 * spent[0]["latency"] > 0
    for bound in ("FLOPs", "HBM", "overhead", "links"):
        assert abs(spent[1][bound] - spent[0][bound]) <= 10  # a rounded picosecond an exchange


@pytest.mark.parametrize(
    ("network", "planner", "array", "batch"),
    [
        ("gnmt", "data_parallel", "tpu-v3-8", 64),  # cells: an overhead for each step in time
        ("gnmt", "owt", "tpu-v2-8", 8),
        ("resnet18", "accpar", "tpu-v3-8", 256),
        ("bert-base:seq=64", "hypar", "ring-8", 16),
        ("alexnet", "hypar", "hypar-16", 64),
    ],
)
def test_every_operation_is_explained_to_the_rounding(
    network: str, planner: str, array: str, batch: int
) -> None:
    case = Case(load_network(network), planner, load_array(array), batch, execution=DEPLOYED)
    timeline = step_of(case)[1]
    done = [op for op in timeline.operations if op.kind is Kind.COMPUTE]
    assert done
    for operation in done:
        explained_ps = sum(operation.bound_s) * PICOSECONDS
        assert operation.duration_ps - 1 <= explained_ps <= operation.duration_ps


def test_every_step_in_time_has_its_overhead_on_the_path() -> None:
    """GNMT on one board: all but one of 861 operator steps of 2 us are on the path, as overhead."""
    network, array = load_network("gnmt"), load_array("tpu-v3-8")
    timeline = step_of(Case(network, "data_parallel", array, 64, execution=DEPLOYED))[1]
    assert sum(operator.steps for operator in operators(network).schedule()) == 861
    done = [op for op in timeline.operations if op.kind is Kind.COMPUTE]
    assert sum(op.bound_s[2] for op in done) == pytest.approx(861 * 2e-6)
    spent = sums(critical_path(timeline))
    assert spent["overhead"] / PICOSECONDS == pytest.approx(860 * 2e-6)


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**15), st.integers(-2, 2))
def test_what_is_left_over_is_rounding_or_an_error(a: int, b: int, c: int, rest: int) -> None:
    parts_s = a / PICOSECONDS, b / PICOSECONDS, c / PICOSECONDS
    whole = a + b + c + rest
    assume(whole > 0)
    operation = Operation(Kind.COMPUTE, Phase.FORWARD, "x", -1, whole, bound_s=parts_s)
    found = Segment(operation, 0, 0, whole).bounds_ps()
    assert sum(found.values()) == whole
    if any(parts_s):
        others = sorted(found.values())[:2]
        assert others == pytest.approx(sorted((a, b, c))[:2], abs=3)
        longer = replace(operation, duration_ps=whole + 1000)
        with pytest.raises(AssertionError, match="unexplained"):
            Segment(longer, 0, 0, whole + 1000).bounds_ps()
    slowed = Segment(operation, 0, 0, whole + 1000).bounds_ps()
    assert slowed.pop(SLOWED) == 1000
    assert slowed == found


def sums(path: list[Segment]) -> Counter[str]:
    total: Counter[str] = Counter()
    for segment in path:
        total.update(segment.bounds_ps())
    return total
