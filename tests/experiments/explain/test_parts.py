"""Layers, links and units of a step, against sums and a closed form."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import accelarray
from experiments.explain.busiest import links, units
from experiments.explain.paths import STEPS_END, paths_of
from experiments.studies.case import Case, step_of
from hardware import load_array
from planners import Staging
from planners.order import Kind, Phase
from simulator import Execution, Timeline, shares
from simulator.lowering.execution import deployed
from tests.strategies import timelines
from workloads import load_network

LENET = load_network("lenet")


@settings(max_examples=25, deadline=None)
@given(timelines())
def test_paths_and_layers_are_the_step(timeline: Timeline) -> None:
    paths = paths_of(timeline)
    for sums in (paths.by_bound(), paths.by_kind(), paths.by_layer()):
        assert sum(sums.values()) == timeline.iteration_ps
    layers = paths.layers
    whole = sum(s.computing_ps + s.exposed_ps + s.waiting_ps for s in layers)
    assert whole == timeline.iteration_ps * timeline.cores
    spent = shares(timeline)
    if timeline.iteration_ps:
        assert sum(s.computing_ps for s in layers) / whole == pytest.approx(spent.computing)
        exposed = sum(s.exposed_ps for s in layers) / whole
        waiting = sum(s.waiting_ps for s in layers) / whole
        assert exposed == pytest.approx(spent.communicating, abs=1e-12)
        assert waiting == pytest.approx(spent.waiting, abs=1e-12)
    busy = sum(
        r.multiplicity
        for i, r in enumerate(timeline.resources)
        if r.kind == "core"
        and any(
            number == i and end > start
            for number, _, _, start, end, _ in zip(*timeline.columns, strict=True)
        )
    )
    assert paths.idle_cores == timeline.cores - busy


@settings(max_examples=25, deadline=None)
@given(timelines())
def test_links_and_units_are_never_given_away_twice(timeline: Timeline) -> None:
    found = links(timeline)
    assert all(0 <= link.utilisation <= 1 + 1e-9 for link in found)
    utilisations = [link.utilisation for link in found]
    assert utilisations == sorted(utilisations, reverse=True)
    wires = timeline.program.wires
    whole = math.fsum(link.bytes * link.count for link in found)
    if wires is None:
        assert whole == pytest.approx(timeline.traffic_bytes)
    else:
        assert len(timeline.link_bytes) == len(wires.bandwidth)
        assert whole == pytest.approx(sum(timeline.link_bytes), rel=1e-5)
        limits = np.array(timeline.link_bytes) / wires.bandwidth
        assert limits.max(initial=0) <= timeline.iteration_s * (1 + 1e-9)
    for unit in units(timeline):
        assert 0 <= unit.busy <= unit.busiest <= 1
        assert 0 <= (unit.of_peak or 0) <= 1 + 1e-9
    cores = sum(unit.count for unit in units(timeline) if unit.unit == "core")
    assert cores == timeline.cores


def test_bytes_of_a_ring_have_a_closed_form() -> None:
    """A ring all-reduce of m bytes moves 2 (n - 1) / n m over every link, in one direction."""
    execution = Execution("deployed", algorithm="ring")
    case = Case(LENET, "data_parallel", load_array("ring-8"), 64, execution=execution)
    _, timeline = step_of(case)
    (used,) = links(timeline)
    parameters = 20 * 25 + 50 * 20 * 25 + 800 * 500 + 500 * 10
    gradient_bytes = 4 * parameters
    assert used.count == 8
    assert used.bytes == pytest.approx(2 * 7 / 8 * gradient_bytes, rel=0.01)  # biases: 580 more
    assert used.bytes_per_s is not None
    assert used.utilisation == used.bytes / used.bytes_per_s / timeline.iteration_s


def test_shards_that_do_not_go_round_leave_cores_idle() -> None:
    case = Case(LENET, "data_parallel", load_array("tpu-v2-8"), 5, execution=Execution("deployed"))
    paths = paths_of(step_of(case)[1])
    assert paths.idle_cores == 3
    everybody = replace(case, batch=8)
    assert paths_of(step_of(everybody)[1]).idle_cores == 0


def test_cores_in_no_stage_are_idle_and_wait_for_the_end() -> None:
    array = load_array("mixed-v100-t4")
    staging = Staging(stage_hw="v100:1x4;t4:1x4", stage_layers=(1, 1), micro_batch=1)
    execution = replace(deployed(array), staging=staging)
    case = Case(load_network("gpt2:layers=2:seq=32"), "axes", array, 8, execution=execution)
    _, timeline = step_of(case)
    paths = paths_of(timeline)
    assert (paths.cores, paths.idle_cores) == (16, 8)
    spent = sum(one.computing_ps + one.exposed_ps + one.waiting_ps for one in paths.layers)
    assert spent == 16 * timeline.makespan_ps
    (end,) = [one for one in paths.layers if one.layer == STEPS_END]
    assert end.waiting_ps >= 8 * timeline.makespan_ps


def test_without_overlap_every_exchange_is_exposed() -> None:
    execution = Execution("deployed", overlap=False)
    case = Case(LENET, "data_parallel", load_array("tpu-v2-8"), 64, execution=execution)
    _, timeline = step_of(case)
    sums: dict[str, int] = {}
    for record in timeline:
        if record.kind == Kind.SUMS:
            assert record.phase == Phase.GRADIENT
            sums[record.layer] = sums.get(record.layer, 0) + record.end_ps - record.start_ps
    exposed = {s.layer: s.exposed_ps for s in paths_of(timeline).layers if s.exposed_ps}
    assert exposed == {layer: 8 * ps for layer, ps in sums.items()}
    ends = [s.waiting_ps for s in paths_of(timeline).layers if s.layer == STEPS_END]
    assert sum(ends) == 0


@pytest.mark.parametrize("overlap", ["full", "none"])
def test_what_is_hidden_and_does_not_fit_is_told(overlap: str) -> None:
    """Half of tensor parallelism's traffic is taken to be hidden, however slow the links are."""
    found = accelarray.explain(
        "gpt2:layers=2",
        array="h100-cluster",
        batch=64,
        set={"nodes": 1, "topology.levels.0.bandwidth": "20 GB/s"},
        parallel="tp=4,dp=2,sp",
        overlap=overlap,
    )
    told = any("Links would carry" in one for one in found.messages)
    assert told is (overlap == "full")
    assert (found.explanation.links[0].utilisation > 1) is told
