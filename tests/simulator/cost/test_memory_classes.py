"""Memory by class: what a step's peak is made of."""

import math
from dataclasses import replace

import pytest

from hardware import Arithmetic, Device, Roofline, load_array
from planners import Axes, Staging, load_planner, planned_by_axes
from planners.order import Phase
from planners.partition import II, III, I, PartitionType
from simulator import DEPLOYED, memory_of, simulate
from simulator.cost.memory import memory_use
from simulator.cost.roofline import core_of
from simulator.cost.training_operators import operators
from simulator.engine.operations import CLASSES, MOVING, all_classes
from tests.simulator.cost.test_transformer_blocks import PLAIN, shards
from workloads import Transformer, load_network, transformer

GPT = transformer(Transformer("g", 4, 64, 8, 100, seq=32, dropout=True, compiled=False))
ARRAY = load_array("tpu-v3-8", ["devices.0.roofline.tile=false"])


@pytest.mark.parametrize("mode", ["none", "selective", "full"])
@pytest.mark.parametrize("name", ["resnet18", "gnmt:seq=4", "gpt2:seq=16", "vit-b16"])
def test_the_classes_are_all_there_is(name: str, mode: str) -> None:
    network = load_network(name)
    mode = mode if name in ("gpt2:seq=16", "vit-b16") else "none"
    found = operators(network, recompute=mode)
    use = memory_use(found, shards(found, 4), PLAIN)
    top = tuple(series[use.series.index(use.peak_bytes)] for series in use.moving)
    at_peak = all_classes(use.held_bytes, use.weight_bytes, use.gradient_bytes, top)
    assert math.fsum(at_peak) == pytest.approx(use.peak_bytes)
    for i, whole in enumerate(use.series):
        parts = math.fsum(series[i] for series in use.moving)
        assert parts + use.held_bytes == pytest.approx(whole)
    for product, most in use.by_product().items():
        assert math.fsum(most.most_by) == pytest.approx(most.most, abs=1e-3), product
        assert math.fsum(most.more_by) == pytest.approx(most.more, abs=1e-3), product


def test_each_class_by_itself() -> None:
    """A GPT of one block: s b h, s b V and its parameters, counted by hand."""
    b, s, h, a, vocab = 2, 16, 32, 4, 50
    of = Transformer("g", 1, h, a, vocab, seq=s, dropout=True, compiled=False)
    found = operators(transformer(of))
    adam = Arithmetic(2.0, gradient_bytes=4.0, master_bytes=4.0, moment_bytes=(4.0, 4.0))
    device = Device("gpu", 1, 1, 1e14, 8e10, 2e12, 1e9, roofline=Roofline(), arithmetic=adam)
    use = memory_use(found, shards(found, b), core_of(device))
    parameters = 12 * h * h + 13 * h + (vocab + s) * h + 2 * h
    assert use.weight_bytes == pytest.approx(2 * parameters)
    assert use.held_bytes - use.weight_bytes == pytest.approx((4 + 4 + 4) * parameters)
    end = max(i for i, (_, phase) in enumerate(use.products) if phase is Phase.FORWARD)
    kept = {name: series[end] for name, series in zip(MOVING, use.moving_kept, strict=True)}
    block = s * b * h * 34 + 5 * a * s * s * b
    # beside the block: token ids, the embedding's mask, the last norm's input and the head's
    outside = 2 * s * b + s * b * h * (1 + 2 + 2)
    assert kept == pytest.approx(
        {"gradients": 0, "activations": block + outside, "logits": 4 * s * b * vocab, "buffers": 0}
    )
    last = dict(zip(MOVING, (series[-1] for series in use.moving), strict=True))
    by_then = max(series for series in use.moving[MOVING.index("gradients")])
    assert by_then == pytest.approx(4 * parameters)
    assert last["activations"] == last["logits"] == 0


@pytest.mark.parametrize("mode", ["none", "full", "stages:all"])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble"])
def test_stages_say_what_their_peak_is_made_of(schedule: str, mode: str) -> None:
    whole = "all" if mode == "stages:all" else ""
    staging = Staging(schedule=schedule, micro_batch=1, recompute=whole)
    execution = replace(DEPLOYED, recompute="none" if whole else mode)
    plan = planned_by_axes(GPT, execution.planned(ARRAY), 16, Axes.parse("pp=2,tp=2,dp=2"), staging)
    timeline = simulate(GPT, plan, ARRAY, execution)
    assert len(timeline.memory) == 2
    for one in timeline.memory:
        assert len(one.by_class) == len(CLASSES)
        assert math.fsum(one.by_class) == pytest.approx(one.peak_bytes, rel=1e-6)
        assert min(one.by_class) >= 0
    first, last = (dict(zip(CLASSES, one.by_class, strict=True)) for one in timeline.memory)
    assert first["logits"] == 0
    if mode == "none":
        # micro-batches in flight: gpipe keeps all eight of a replica, 1f1b two
        in_flight = {"gpipe": 8, "1f1b": 2, "zero-bubble": 2}[schedule]
        once = first["activations"] / in_flight
        assert once == pytest.approx(_one_micro_batch(), rel=0.15)
        assert last["logits"] > 0 or schedule == "zero-bubble"


def test_a_first_stage_that_computes_again_keeps_ids_and_no_vocabulary() -> None:
    """Each micro-batch more that GPipe has in flight: 32 positions of one id of two bytes."""

    def first_bytes(batch: int) -> float:
        staging = Staging(schedule="gpipe", micro_batch=1, recompute="all")
        planned = DEPLOYED.planned(ARRAY)
        plan = planned_by_axes(GPT, planned, batch, Axes.parse("pp=2,tp=2,dp=2"), staging)
        return simulate(GPT, plan, ARRAY, DEPLOYED).memory[0].peak_bytes

    assert first_bytes(20) - first_bytes(16) == 2 * 32 * 2.0


def _one_micro_batch() -> float:
    """Two blocks and the embedding of one sample on one of two cores."""
    sbh, scores = 32 * 64, 5 * 8 * 32 * 32
    return 2 * (sbh * (10 + 24 / 2) + scores / 2) + sbh


@pytest.mark.parametrize("axes", ["dp=8", "pp=2,tp=2,dp=2"])
def test_a_buffer_of_gradients_is_there_all_the_time(axes: str) -> None:
    """Megatron's: with it the peak is all states and the activations together."""
    array = load_array(
        "tpu-v3-8",
        ["devices.0.roofline.tile=false", "devices.0.arithmetic.gradient_buffer=true"],
    )
    asked = Staging(micro_batch=1 if "pp" in axes else 0)
    plan = planned_by_axes(GPT, DEPLOYED.planned(array), 16, Axes.parse(axes), asked)
    with_it, without = (simulate(GPT, plan, a, DEPLOYED) for a in (array, ARRAY))
    for one, other in zip(with_it.memory, without.memory, strict=True):
        found = dict(zip(CLASSES, one.by_class, strict=True))
        came = dict(zip(CLASSES, other.by_class, strict=True))
        assert math.fsum(one.by_class) == pytest.approx(one.peak_bytes)
        assert found["gradients"] == pytest.approx(2 * found["weights"])  # 4 B beside 2 B
        assert found["weights"] == came["weights"]
        assert found["optimizer"] == pytest.approx(came["optimizer"])
        assert one.peak_bytes >= other.peak_bytes * (1 - 1e-9)
    assert with_it.iteration_s > without.iteration_s  # what is added to is read


def test_megatron_s_22_billion_parameters() -> None:
    """Korthikanti et al. 2022, Figure 1: 45.6 GiB of states and 9.56 GiB of activations a GPU."""
    network = load_network("megatron-22b:compiled=no")
    array = load_array(
        "a100-cluster",
        [
            "nodes=1",
            "optimizer=adam",
            "devices.0.arithmetic.gradient_buffer=true",
        ],
    )
    execution = replace(DEPLOYED, recompute="selective")
    axes = Axes.parse("tp=8,sp")
    plan = planned_by_axes(network, execution.planned(array), 4, axes, Staging())
    (one,) = simulate(network, plan, array, execution).memory
    found = dict(zip(CLASSES, one.by_class, strict=True))
    states = found["weights"] + found["optimizer"] + found["gradients"]
    assert states / 2**30 == pytest.approx(45.5625, rel=0.02)
    assert found["activations"] / 2**30 == pytest.approx(9.5625, rel=0.02)


def test_without_stages_the_fullest_core_s_classes_are_shown() -> None:
    plan = load_planner("data_parallel")(GPT, DEPLOYED.planned(ARRAY), 16)
    (one,) = simulate(GPT, plan, ARRAY, DEPLOYED).memory
    assert math.fsum(one.by_class) == pytest.approx(one.peak_bytes)
    by_class = dict(zip(CLASSES, one.by_class, strict=True))
    assert by_class["weights"] == pytest.approx(2 * GPT.parameters)
    assert by_class["optimizer"] == pytest.approx(8 * GPT.parameters)


@pytest.mark.parametrize(
    ("kind", "apart"),
    [(I, 0.0), (II, 0.0), (III, 1024 * 768 / 2 + 768 * 3 / 2)],
)
def test_a_core_has_all_of_the_tied_weights_that_it_uses(kind: PartitionType, apart: float) -> None:
    """Two GPUs with half of the embedding each, and a head that is whole on both.

    Of type III half of the features of positions and of the first norm are elsewhere.
    """
    network = load_network("gpt2:layers=2")
    array = load_array("h100-cluster", ["nodes=1", "devices.0.count=2"])
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), 16)
    assert plan.root is not None
    first, *others = plan.root.partitions
    root = replace(plan.root, partitions=(replace(first, type=kind), *others))
    execution = replace(DEPLOYED, mode="inference")
    (memory,) = memory_of(network, replace(plan, root=root), array, execution)
    held = memory.by_class[CLASSES.index("weights")]
    assert held == pytest.approx(2 * (network.parameters - apart), abs=2 * 768 * 2)


def test_inference_casts_once() -> None:
    """Of a number in bf16 two bytes are read and one is written, not a second one, transposed."""
    device = load_array("b200-cluster", ["precision=fp8"]).group.kinds[0][0]
    assert [core_of(device, inference=one).cast_bytes for one in (False, True)] == [4.0, 3.0]
