"""Exchanges that go on beside computing take a share of the cores meanwhile."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from hardware import SpecError, load_array
from planners import Axes, Staging, Update, load_planner, planned_by_axes
from planners.order import Kind, Phase
from simulator import DEPLOYED, PUBLISHED, Execution, Timeline, simulate
from workloads import Transformer, load_network, transformer

SHARE = 0.2
EACH = replace(DEPLOYED, bucket_bytes=0.0)
"""Each layer's gradients by themselves."""
LLAMA = transformer(
    Transformer(
        "l", 4, 64, 4, 50, seq=32, ffn=96, gated=True, norm="rms_norm", positions="rotary",
        biases=False, fused_qkv=False, tied=False,
    )
)  # fmt: skip


def step(
    share: float,
    execution: Execution = DEPLOYED,
    axes: str = "dp=8",
    update: Update | None = None,
) -> Timeline:
    array = load_array("tpu-v3-8", [f"devices.0.roofline.exchanging={share}"])
    on = execution.planned(array)
    if axes:
        asked = Staging(micro_batch=1 if "pp" in axes else 0)
        plan = planned_by_axes(LLAMA, on, 32, Axes.parse(axes), asked)
    else:
        plan = load_planner("data_parallel")(LLAMA, on, 32)
    if update:
        plan = replace(plan, updates=(update,) * len(plan.nodes))
    return simulate(LLAMA, plan, array, execution)


def exchanged_ps(timeline: Timeline) -> dict[str, int]:
    """Of weights and their gradients, as long as it took where each has the links for itself."""
    found: dict[str, int] = {}
    for record in timeline:
        phase, kind = record.phase, record.kind
        if kind == str(Kind.WEIGHTS) or (kind, phase) == (str(Kind.SUMS), str(Phase.GRADIENT)):
            found[phase] = found.get(phase, 0) + record.end_ps - record.start_ps
    return found


def computed_ps(timeline: Timeline) -> int:
    """By one of the cores, which all do the same."""
    worker = timeline.program.workers[0]
    return sum(task.operation.duration_ps for task in worker.template if not task.parties)


@pytest.mark.parametrize(
    ("update", "phases"),
    [
        (None, {Phase.GRADIENT}),
        (Update.SHARDED, {Phase.GRADIENT, Phase.UPDATE}),
        (Update.WEIGHTS, {Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT}),
    ],
)
def test_cores_compute_for_that_share_of_the_exchanges_longer(
    update: Update | None, phases: set[Phase]
) -> None:
    plain, found = (step(share, EACH, update=update) for share in (0.0, SHARE))
    exchanged = exchanged_ps(plain)
    assert set(exchanged) == set(map(str, phases))
    more = computed_ps(found) - computed_ps(plain)
    assert more == pytest.approx(SHARE * sum(exchanged.values()), rel=1e-6)
    assert found.iteration_s > plain.iteration_s


def test_it_costs_nothing_where_cores_wait_for_the_exchange() -> None:
    """All gradients in one bucket, behind the last product: the update waits for them."""
    execution = replace(DEPLOYED, bucket_bytes=1e12)
    plain, found = (step(share, execution) for share in (0.0, SHARE))
    assert computed_ps(found) > computed_ps(plain)
    assert found.iteration_ps == plain.iteration_ps


def test_what_layers_exchange_on_their_way_takes_nothing() -> None:
    """Tensor parallelism's: cores wait for it."""
    plain, found = (step(share, axes="tp=4,dp=2") for share in (0.0, SHARE))
    more = computed_ps(found) - computed_ps(plain)
    gradients = exchanged_ps(plain)[str(Phase.GRADIENT)]
    assert 0 < more == pytest.approx(SHARE * gradients, rel=1e-6)
    assert len(exchanged_ps(plain)) == 1


def test_the_first_exchange_delays_what_is_computed_behind_it() -> None:
    """Of three layers of 1, 2 and 3 units: see the order of a core's lines."""
    (worker,) = step(SHARE).program.workers
    kinds = [
        "x" if task.parties else "k" if task.operation.bound_s[:2] == (0, 0) else "c"
        for task in worker.template
    ]
    assert "xk" in "".join(kinds)
    for before, kind in pairwise(kinds):
        assert kind != "k" or before == "x"


ALONE = replace(EACH, overlap=False)


@pytest.mark.parametrize(
    ("execution", "axes"),
    [
        (PUBLISHED, ""),
        (ALONE, "dp=8"),
        (ALONE, "pp=2,dp=4"),
        (replace(DEPLOYED, mode="inference"), "dp=8"),
    ],
)
def test_nothing_where_nothing_is_exchanged_beside_computing(
    execution: Execution, axes: str
) -> None:
    plain, found = (step(share, execution, axes=axes) for share in (0.0, SHARE))
    assert computed_ps(found) == computed_ps(plain)
    assert found.iteration_ps == plain.iteration_ps


@pytest.mark.parametrize("overlap", [True, False])
def test_sums_of_replicas_of_a_stage_take_a_share_as_well(*, overlap: bool) -> None:
    """PipeDream's first stage has seven replicas here."""
    network = load_network("alexnet")
    execution = replace(EACH, overlap=overlap, staging=Staging(stages=2, micro_batch=1))
    steps = []
    for share in (0.0, SHARE):
        array = load_array("tpu-v3-8", [f"devices.0.roofline.exchanging={share}"])
        plan = load_planner("pipedream")(network, execution.planned(array), 64)
        steps.append(simulate(network, plan, array, execution))
    plain, found = (one.program.workers[0].template for one in steps)
    sums = [task for task in plain if task.operation.kind is Kind.SUMS and task.parties]
    kernels = [task for task in found if task.operation.bound_s[:2] == (0, 0) and not task.parties]
    kernels = [task for task in kernels if task.operation.duration_ps]
    assert len(sums) > 1
    assert len(kernels) == (len(sums) if overlap else 0)
    assert len(found) == len(plain) + len(kernels)


def test_devices_with_units_have_none() -> None:
    with pytest.raises(SpecError, match=r"roofline\.exchanging: a device with \[units\] has none"):
        load_array("wham-1", ["devices.0.roofline.exchanging=0.1"])
