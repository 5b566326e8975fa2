"""The critical path: without a gap, and what it says about longer and shorter operations."""

from collections import Counter

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hardware import load_array
from planners import load_planner
from simulator import Execution, Machine, Operation, Timeline, lower, simulate
from simulator.analysis.critical_path import BOUNDS, Segment, critical_path
from tests.strategies import arrays, networks, plans, timelines
from workloads import load_network


@settings(max_examples=80, deadline=None)
@given(timelines())
def test_it_is_the_whole_step_without_a_gap(timeline: Timeline) -> None:
    path = critical_path(timeline)
    assert sum(segment.duration_ps for segment in path) == timeline.iteration_ps
    now = 0
    records = set(zip(timeline.columns.operation, *timeline.columns[2:], strict=True))
    for segment in path:
        assert segment.start_ps == now
        assert (segment.operation.index, segment.start_ps, segment.end_ps) in records
        bounds = segment.bounds_ps()
        assert set(bounds) <= set(BOUNDS)
        assert all(ps >= 0 for ps in bounds.values())
        assert sum(bounds.values()) == segment.duration_ps
        now = segment.end_ps
    assert now == timeline.iteration_ps


def change(operation: Operation, duration_ps: int) -> None:
    """Programs share operations by reference: change one in its place."""
    object.__setattr__(operation, "duration_ps", duration_ps)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_it_alone_decides_how_long_the_step_is(data: st.DataObject) -> None:
    """Where durations are given (published): longer on the path counts, shorter off it does not."""
    network, array = data.draw(networks(4)), data.draw(arrays(3, 2))
    program = lower(network, data.draw(plans(network, array, 4)), array)
    timeline = Machine(program).run()
    path = critical_path(timeline)
    assume(path)
    on_path = Counter(segment.operation.index for segment in path)
    for operation in program.operations:
        if operation.index not in on_path:
            change(operation, operation.duration_ps // 2)
    assert Machine(program).run().iteration_ps == timeline.iteration_ps
    longer = data.draw(st.sampled_from(path)).operation
    change(longer, longer.duration_ps + 10**6)
    added = Machine(program).run().iteration_ps - timeline.iteration_ps
    assert added >= 10**6 * on_path[longer.index]


def test_a_single_cores_path_is_all_it_does() -> None:
    network = load_network("lenet")
    array = load_array("accpar-homogeneous", ["devices.0.count=1"])
    plan = load_planner("accpar")(network, array, 16)
    timeline = simulate(network, plan, array)
    path = critical_path(timeline)
    assert [s.operation for s in path] == [o for o in timeline.program.operations if o.duration_ps]
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


def sums(path: list[Segment]) -> Counter[str]:
    total: Counter[str] = Counter()
    for segment in path:
        total.update(segment.bounds_ps())
    return total
