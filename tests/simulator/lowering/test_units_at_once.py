"""Several units of a core at once: who waits for whom, when, and that it is the same folded."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.studies.case import Case, plan_of
from hardware import Array, MatrixUnit, Units, VectorUnit, load_array
from planners import Plan, Staging, load_planner
from planners.order import Kind, Phase
from simulator import DEPLOYED, PUBLISHED, Execution, Timeline, shares, simulate
from simulator.analysis.critical_path import critical_path
from simulator.analysis.stalls import core_steps
from simulator.cost.training_operators import operators
from simulator.lowering.step.deployed import Deployed
from simulator.lowering.step.training_step import Writer
from simulator.lowering.units.cores import sites
from simulator.search.bounds import step_bound
from simulator.search.stages import stages_bound
from tests.simulator.analysis.over_time import memory_over_time
from tests.simulator.lowering.slow_needs import Needs, before
from tests.strategies import convolutional_networks, plans
from workloads import Builder, Network, load_network
from workloads.transforms import circulant

FREE = "devices.0.hbm.bandwidth=1e9 GB/s"
"""A memory that nobody waits for."""
UNLIKE = Units(1e9, (MatrixUnit(64, 64, 2), MatrixUnit(32, 32)), (VectorUnit(128, 4),), 2.0**24)


def array_of(count: int = 1, units: Units | None = None, *changes: str) -> Array:
    array = load_array("wham-1", [f"devices.0.count={count}", *changes])
    if units is None:
        return array
    (device, many), *_ = array.group.kinds
    device = replace(device, units=units, chip_peak_flops_per_s=units.flops_per_s)
    return replace(array, group=replace(array.group, kinds=((device, many),)))


def planned(network: Network, array: Array, batch: int, name: str = "data_parallel") -> Plan:
    return load_planner(name)(network, DEPLOYED.planned(array), batch)


def spans(timeline: Timeline) -> list[tuple[str, int, int]]:
    """What units did: which, from when, until when."""
    return [
        (r.resource, r.start_ps, r.end_ps)
        for r in timeline
        if r.kind == str(Kind.COMPUTE) and r.end_ps > r.start_ps
    ]


def check_needs(network: Network) -> None:
    """The writer's needs and those that are written a second time, whatever lies between."""
    array = array_of()
    (site,) = sites(network, planned(network, array, 4), array, DEPLOYED)
    slow = Needs(operators(network))
    place = {id(operator): i for i, operator in enumerate(slow.operators)}
    names = [(one.operator.name, one.operator.phase) for one in site.step.parts]
    assert sorted(names) == sorted((op.name, op.phase) for op in slow.operators)
    ours, theirs = before([one.needs for one in site.step.parts]), before(slow.needs)
    assert len(set(names)) == len(names)
    named = {(op.name, op.phase): theirs[place[id(op)]] for op in slow.operators}
    for (name, phase), waits in zip(names, ours, strict=True):
        expected = {(slow.operators[i].name, slow.operators[i].phase) for i in named[name, phase]}
        assert {names[i] for i in waits} == expected, name


@given(convolutional_networks())
def test_needs_of_random_networks(network: Network) -> None:
    check_needs(network)


@pytest.mark.parametrize("name", ["alexnet", "resnet18", "bert-base", "gnmt"])
def test_needs_of_networks(name: str) -> None:
    check_needs(load_network(name))


def test_two_matrix_units_compute_both_gradients_at_once() -> None:
    """By hand: the second layer's errors, and beside them its weights' gradient.

    8 rows; on 64 x 64 units of 1 GHz, of which there are two and a smaller one.
    """
    network, array = load_network("alexnet"), array_of(1, UNLIKE, FREE)
    timeline = simulate(network, planned(network, array, 8), array, DEPLOYED)
    found = {
        (r.layer, r.phase): (r.resource.rpartition(".")[2], r.start_ps, r.end_ps)
        for r in timeline
        if r.kind == str(Kind.COMPUTE) and r.layer == "fc7"
    }
    unit, start, end = found["fc7", "backward"]
    other, begin, stop = found["fc7", "gradient"]
    assert {unit, other} == {"matrix0", "matrix1"}
    assert max(start, begin) < min(end, stop)


@pytest.mark.parametrize("name", ["lenet", "resnet18", "gnmt"])
@pytest.mark.parametrize("units", [None, UNLIKE], ids=["one matrix", "two"])
def test_a_unit_does_one_thing_at_a_time_and_several_units_at_once(
    name: str, units: Units | None
) -> None:
    network, array = load_network(name), array_of(1, units)
    plan = planned(network, array, 8)
    timeline = simulate(network, plan, array, DEPLOYED)
    by_unit = defaultdict(list)
    for unit, start, end in spans(timeline):
        by_unit[unit].append((start, end))
    assert len(by_unit) == len(array.group.kinds[0][0].units.names)  # type: ignore[union-attr]
    for mine in by_unit.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(mine)))
    serial = simulate(network, plan, array, replace(DEPLOYED, overlap=False))
    assert timeline.makespan_ps < serial.makespan_ps
    assert {r.resource for r in serial if r.kind == str(Kind.COMPUTE)} == {"core0.core"}
    busiest = max(sum(end - start for start, end in mine) for mine in by_unit.values())
    assert timeline.makespan_ps >= busiest


@pytest.mark.parametrize("name", ["lenet", "resnet18"])
def test_what_is_done_is_the_same_as_one_after_the_other(name: str) -> None:
    """FLOPs, HBM bytes and joules of every phase."""
    network, array = load_network(name), array_of(2)
    plan = planned(network, array, 8)
    found, serial = (
        simulate(network, plan, array, execution).totals()
        for execution in (DEPLOYED, replace(DEPLOYED, overlap=False))
    )
    assert found.keys() == serial.keys()
    for key, total in found.items():
        assert total.flops == pytest.approx(serial[key].flops)
        assert total.bytes == pytest.approx(serial[key].bytes)


@settings(deadline=None, max_examples=15)
@given(convolutional_networks(most=7), st.integers(1, 4), st.booleans(), st.data())
def test_random_plans_end_and_are_the_same_folded(
    network: Network, count: int, two: bool, data: st.DataObject
) -> None:
    """Classes that do unlike things wait for each other, and never for ever."""
    array = array_of(count, UNLIKE if two else None)
    plan = data.draw(plans(network, DEPLOYED.planned(array), 8))
    folded = simulate(network, plan, array, DEPLOYED)
    unfolded = simulate(network, plan, array, DEPLOYED, folded=False)
    assert folded.makespan_ps == pytest.approx(unfolded.makespan_ps, rel=1e-9)
    assert shares(folded) == pytest.approx(shares(unfolded), abs=1e-9)


@settings(deadline=None, max_examples=15)
@given(convolutional_networks(most=7), st.data())
def test_unlike_devices_order_their_units_together(network: Network, data: st.DataObject) -> None:
    """A device that does everything the other way round would wait for ever."""
    small = array_of(1, Units(1e8, (MatrixUnit(16, 16),), (VectorUnit(2),), 2.0**16))
    large = array_of(2, UNLIKE)
    kinds = (*large.group.kinds, *small.group.kinds)
    array = replace(large, name="both", group=replace(large.group, kinds=kinds))
    plan = data.draw(plans(network, DEPLOYED.planned(array), 8))
    timeline = simulate(network, plan, array, DEPLOYED)
    assert timeline.makespan_ps > 0


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble", "interleaved"])
def test_pipelines_end_and_do_every_operator_of_every_micro_batch(schedule: str) -> None:
    network = load_network("vgg11")
    array = array_of(2)
    chunks = 2 if schedule == "interleaved" else 1
    execution = Execution("deployed", staging=Staging(2, 4, schedule=schedule, virtual=chunks))
    from experiments.studies.case import Case, plan_of

    plan = plan_of(Case(network, "data_parallel", array, 8, execution=execution))
    found = simulate(network, plan, array, execution)
    serial = simulate(network, plan, array, replace(execution, overlap=False))
    assert found.makespan_ps < serial.makespan_ps
    assert sum(found.flops_by_device().values()) == pytest.approx(
        sum(serial.flops_by_device().values())
    )
    for worker in range(2):
        assert list(memory_over_time(found, worker))


@pytest.mark.parametrize("name", ["lenet", "resnet18"])
def test_analyses_see_a_core_and_not_its_units(name: str) -> None:
    """One core: what it computes is the union of what its units do, and sums to the step."""
    network, array = load_network(name), array_of(1, UNLIKE)
    timeline = simulate(network, planned(network, array, 8), array, DEPLOYED)
    assert (timeline.cores, timeline.idle_cores) == (1, 0)
    (step,) = core_steps(timeline)
    computed = sum(ps for _, ps in step.computed)
    union = {at for _, start, end in spans(timeline) for at in (start, end)}
    points = sorted(union)
    busy = sum(
        high - low
        for low, high in pairwise(points)
        if any(start <= low and high <= end for _, start, end in spans(timeline))
    )
    assert computed == busy
    assert shares(timeline).computing == pytest.approx(busy / timeline.makespan_ps)
    path = critical_path(timeline)
    assert path[0].start_ps == 0
    assert path[-1].end_ps == timeline.makespan_ps
    assert all(one.end_ps == other.start_ps for one, other in pairwise(path))
    for segment in path:
        assert sum(segment.bounds_ps().values()) == segment.duration_ps


@pytest.mark.parametrize("planner", ["data_parallel", "owt", "search"])
def test_no_step_undercuts_its_bound(planner: str) -> None:
    network, array = load_network("lenet"), array_of(2)
    part = DEPLOYED.planned(array)
    plan = planned(network, array, 16, planner)
    found = step_bound(network, part, 16, DEPLOYED, layout=True)
    assert found is not None
    assert 0 < found.seconds <= simulate(network, plan, array, DEPLOYED).iteration_s


@pytest.mark.parametrize("width", [1000, 4000, 16000])
def test_a_bound_knows_that_one_computes_while_another_moves(width: int) -> None:
    """The update of a wide layer waits for HBM while errors go back through convolutions.

    The sum of what each operator takes at least would be up to 24 % too much.
    """
    builder = Builder("n", 16, 16, 16)
    for i in range(12):
        builder.conv(f"conv{i}", 16, 3, padding=1)
    builder.conv("small", 4, 16)
    builder.fc("wide", width)
    builder.fc("out", 10)
    network = builder.build()
    units = Units(700e6, (MatrixUnit(16, 16),), (VectorUnit(128, 256),), 2.0**28)
    array = array_of(1, units, "devices.0.hbm.bandwidth=20 GB/s")
    found = simulate(network, planned(network, array, 4), array, DEPLOYED)
    bound = step_bound(network, DEPLOYED.planned(array), 4, DEPLOYED, layout=True)
    assert bound is not None
    assert 0.8 * found.iteration_s < bound.seconds <= found.iteration_s


def test_the_search_planner_is_never_behind_the_others_on_units() -> None:
    """What it rules out it rules out by what no step undercuts, of units, too."""
    network, array = load_network("alexnet"), array_of(4, UNLIKE)
    seconds = {
        name: simulate(network, planned(network, array, 16, name), array, DEPLOYED).iteration_s
        for name in ("search", "data_parallel", "owt", "hypar", "accpar")
    }
    assert seconds["search"] == min(seconds.values())


def test_the_papers_model_has_every_multiplier_busy_already() -> None:
    """Products at the peak of all units together: no list of them on single units is shorter."""
    network, array = load_network("lenet"), array_of(1, UNLIKE)
    plan = load_planner("data_parallel")(network, array, 8)
    found = simulate(network, plan, array, PUBLISHED)
    flops = sum(found.flops_by_device().values())
    assert found.iteration_s == pytest.approx(flops / UNLIKE.flops_per_s, rel=1e-6)
    assert {r.resource for r in found} == {"board0.chip0.core0"}


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_what_is_forgotten_is_computed_again_when_errors_come(recompute: str) -> None:
    """Not as soon as a unit has nothing else to do, which would be right behind forward."""
    network, array = load_network("bert-base"), array_of(1, None, FREE)
    execution = replace(DEPLOYED, recompute=recompute)
    plan = planned(network, array, 4)
    timeline = simulate(network, plan, array, execution)
    again = {r.layer: r for r in timeline if r.phase == str(Phase.RECOMPUTE)}
    assert again
    backward = {r.layer: r for r in timeline if r.phase == str(Phase.BACKWARD)}
    first = min(r.start_ps for r in again.values())
    forward = (r for r in timeline if r.phase == str(Phase.FORWARD))
    assert first >= max(r.end_ps for r in forward if r.layer.startswith("layer"))
    for layer, record in again.items():
        number = int(layer.split(".")[0].removeprefix("layer"))
        later = [r for name, r in backward.items() if name.startswith(f"layer{number + 1}.")]
        assert record.start_ps >= min((r.end_ps for r in later), default=0)
    plain = simulate(network, plan, array, DEPLOYED)
    assert timeline.makespan_ps > plain.makespan_ps


def test_exchanges_that_are_done_again_are_exchanges_of_their_own() -> None:
    """Between stages that compute all again, each forward exchange comes twice."""
    network, array = load_network("bert-base:seq=32"), array_of(4)
    counts = []
    for recompute in ("", "all"):
        staging = Staging(stages=2, micro_batches=2, recompute=recompute, tied="copies")
        how = replace(DEPLOYED, staging=staging)
        plan = plan_of(Case(network, "model_parallel", array, 8, execution=how))
        timeline = simulate(network, plan, array, DEPLOYED)
        counts.append(
            sum(
                r.phase == str(Phase.FORWARD) and r.kind != str(Kind.COMPUTE) and r.level >= 0
                for r in timeline
            )
        )
    assert counts[1] >= 2 * counts[0] > 0


def test_scripts_without_units_are_left_alone() -> None:
    network, array = load_network("lenet"), load_array("tpu-v2-8")
    planned_for = DEPLOYED.planned(array)
    plan = load_planner("data_parallel")(network, planned_for, 16)
    rules = Deployed(network, plan, planned_for, DEPLOYED, folded=True)
    writer = Writer(rules)
    for item in rules.items:
        writer.write(item)
    writer.tree()
    assert all(program.starts is None for program in writer.programs)
    assert all(task.operation.unit == 0 for program in writer.programs for task in program.tasks)
    phases = {task.operation.phase for program in writer.programs for task in program.tasks}
    assert phases == set(Phase) - {Phase.RECOMPUTE}


@pytest.mark.parametrize("order", ["layers", "arrival"])
def test_updates_wait_for_exchanges_behind_all_else(order: str) -> None:
    """So no unit waits for links while there are errors to compute, and faster HBM is faster."""
    network, steps = load_network("alexnet"), []
    how = replace(DEPLOYED, update_order=order)
    for rate in (350, 700, 1400):
        changes = ("network.bandwidth=40 Gbit/s", f"devices.0.hbm.bandwidth={rate} GB/s")
        array = array_of(8, None, *changes)
        found = simulate(network, planned(network, array, 256), array, how)
        steps.append(found.iteration_s)
        computed = [r for r in found if r.kind == str(Kind.COMPUTE)]
        last = max(r.end_ps for r in computed if r.phase != Phase.UPDATE)
        assert last <= min(r.start_ps for r in computed if r.phase == Phase.UPDATE)
        sums = [r for r in found if r.kind == str(Kind.SUMS)]
        assert min(r.start_ps for r in sums) < 0.7 * last  # while backward goes on
        first = next(r.layer for r in computed if r.phase == Phase.UPDATE)
        assert first == ("conv1" if order == "layers" else "fc8")
    assert steps == sorted(steps, reverse=True)


def test_an_optimizer_in_layers_comes_behind_all_gradients_on_one_device_too() -> None:
    """So of devices with free links none is faster than one alone; as they arrive one is."""
    network, free = load_network("alexnet"), ("network.bandwidth=1e9 GB/s", "network.latency=0 s")
    steps = {}
    for order, count in (("layers", 1), ("layers", 2), ("arrival", 1), ("", 1)):
        how, array = replace(DEPLOYED, update_order=order), array_of(count, None, *free)
        plan = planned(network, array, 64 * count)
        steps[order, count] = simulate(network, plan, array, how).iteration_s
    assert steps["layers", 2] == pytest.approx(steps["layers", 1], rel=1e-3)
    assert steps["", 1] == steps["arrival", 1] < 0.9 * steps["layers", 1]


def test_a_bound_of_stages_on_units_is_no_schedules_own() -> None:
    """The busiest unit's work: how much of it others do meanwhile differs."""
    network, array, found = load_network("alexnet"), array_of(2), []
    for schedule in ("gpipe", "1f1b", "zero-bubble"):
        staging = Staging(stages=2, micro_batches=4, schedule=schedule)
        how = replace(DEPLOYED, staging=staging)
        plan = plan_of(Case(network, "data_parallel", array, 64, execution=how))
        timeline = simulate(network, plan, array, how)
        bound = stages_bound(timeline)
        assert bound is not None
        found.append((bound.seconds, timeline.iteration_s))
    assert len({seconds for seconds, _ in found}) == 1
    assert found[0][0] <= min(step for _, step in found)


def test_a_bound_has_blocks_of_spectra_beside_all_else() -> None:
    network = circulant(load_network("alexnet"), 16)
    units = Units(700e6, (MatrixUnit(32, 32),), (VectorUnit(256, 32),), 2.0**25)
    array = array_of(1, units)
    found = simulate(network, planned(network, array, 64), array, DEPLOYED)
    bound = step_bound(network, DEPLOYED.planned(array), 64, DEPLOYED, layout=True)
    assert bound is not None
    assert bound.seconds <= found.iteration_s


def test_of_an_update_each_micro_batch_has_its_part() -> None:
    """Of the estimate of a stage that only updates nothing else changes with their number."""
    network, array = load_network("alexnet"), array_of(2)
    base, sums = array.group.kinds[0][0].units, []
    assert base is not None
    for many in (1, 4):
        how = replace(DEPLOYED, staging=Staging(stages=2, micro_batches=many))
        plan = plan_of(Case(network, "data_parallel", array, 4 * many, execution=how))
        last = sites(network, plan, array, how)[-1].step
        moved = last.priced(base).hbm_bytes
        phases = [part.operator.phase for part in last.parts]
        sums.append(sum(b for b, phase in zip(moved, phases, strict=True) if phase is Phase.UPDATE))
    assert sums[0] == pytest.approx(4 * sums[1])
