"""What one step comes to: rates, share of the peak, exposed communication, lower bound."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.difference import core_ps
from experiments.terms import duration, operation_names
from hardware import Array
from planners import Axes, Plan, uncharged_s
from planners.axes.node_types import experts
from planners.order import Kind, Phase
from simulator import PICOSECONDS, Operation, Timeline
from simulator.search.bounds import EVERY_PLAN, StepBound, is_layout, step_bound, work_bound_s
from simulator.search.stages import stages_bound
from workloads import Node, partition_graph

FLOPS_PER_MAC = 6
"""Of training, for each multiply-accumulate of the forward pass.

Two FLOPs in each of three products: forward, the inputs' gradients, the weights'
gradients. Nothing that is computed twice counts, nor do norms, activations or
the optimizer: the "model FLOPs" of Chowdhery et al. (PaLM, 2022, appendix B).
"""
CONVENTION = (
    "MFU (model FLOPs utilization) counts 6 FLOPs for each multiply-accumulate of a forward pass. "
    "It counts full attention, no recomputation and no padding of experts. It divides by the sum "
    "of all peaks."
)

ABOVE_PEAK = (
    "MFU is above 100%: it counts FLOPs that no device computes (activation gradients of the first "
    "layer, half of causal attention), or that are computed faster than at the peak that it "
    "divides by (other formats, vector units)."
)
ALL_COMPUTED = (
    "HFU (hardware FLOPs utilization) counts the FLOPs that the devices computed. Recomputation "
    "makes HFU higher than MFU. Skipped work makes HFU lower: half of fused causal attention, "
    "and the first layer's activation gradients."
)

OF_INFERENCE = (
    "MFU (model FLOPs utilization) counts 2 FLOPs for each multiply-accumulate of a forward pass. "
    "It divides by the sum of all peaks."
)


@dataclass(frozen=True, slots=True)
class Throughput:
    """Of a whole array; ``tokens_per_s`` is None where samples are no sequences of tokens.

    ``share_of_peak`` is model FLOPs a second over the sum of the accelerators' peaks, each
    in the format that it computes in (see ``CONVENTION``). NaN of a step that takes no time.
    """

    samples_per_s: float
    tokens_per_s: float | None
    share_of_peak: float

    def __str__(self) -> str:
        rates = [f"{readable(self.samples_per_s)} samples/s"]
        if self.tokens_per_s is not None:
            rates.append(f"{readable(self.tokens_per_s)} tokens/s")
        return ", ".join([*rates, f"MFU {self.share_of_peak:.1%}"])


def readable(rate: float) -> str:
    """Four digits, or all before the point."""
    return f"{rate:,.0f}" if rate >= 1000 else f"{rate:.4g}"


def computed(case: Case, timeline: Timeline) -> dict[str, float | None]:
    """HFU, and tokens a second, model TFLOP/s and hardware TFLOP/s of each device (a chip).

    HFU counts what is computed again, and of causal attention what is computed of
    it, as hardware does ("hardware FLOPs"): Korthikanti et al. 2022, appendix A.
    """
    group, iteration_s = case.array.group, timeline.iteration_s or math.nan
    chips = sum(count for _, count in group.chips)
    rates = throughput(case, iteration_s)
    rate, peak = rates.tokens_per_s, group.peak_flops_per_s
    flops = sum(total.flops for total in timeline.totals().values()) / timeline.batches
    return {
        "tokens_per_s_per_chip": None if rate is None else rate / chips,
        "computed_share_of_peak": flops / iteration_s / peak,
        "model_tflops_per_s_per_device": rates.share_of_peak * peak / chips / 1e12,
        "hardware_tflops_per_s_per_device": flops / iteration_s / chips / 1e12,
    }


def throughput(case: Case, iteration_s: float) -> Throughput:
    """What a step of a case in ``iteration_s`` seconds comes to."""
    samples_per_s = case.batch / (iteration_s or math.nan)
    tokens = case.network.tokens
    each = FLOPS_PER_MAC // 3 if case.execution.inference else FLOPS_PER_MAC
    return Throughput(
        samples_per_s,
        None if tokens is None else tokens * samples_per_s,
        each * case.network.model_macs * samples_per_s / case.array.group.peak_flops_per_s,
    )


def throughput_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of a table: samples and tokens a second, MFU and HFU with TFLOP/s."""
    yield "samples/s", readable(result["samples_per_s"])
    if (tokens_per_s := result["tokens_per_s"]) is not None:
        each = readable(result["tokens_per_s_per_chip"])
        yield "tokens/s", f"{readable(tokens_per_s)}; {each} per chip"
    yield "MFU", utilization(result["share_of_peak"], result["model_tflops_per_s_per_device"])
    hardware = result["hardware_tflops_per_s_per_device"]
    yield "HFU", utilization(result["computed_share_of_peak"], hardware)


def utilization(share: float, tflops_per_s: float) -> str:
    """MFU or HFU, and what each chip computes."""
    return f"{share:.2%}; {readable(tflops_per_s)} TFLOP/s per chip"


def conventions(*, inference: bool) -> list[str]:
    """What MFU and HFU count, a sentence each."""
    return [OF_INFERENCE if inference else CONVENTION, ALL_COMPUTED]


STORED_WIDE = (
    "Weights are stored in {:g} bytes, as training has them, and cast for narrower products. "
    'arithmetic.weights = "{:g} B" of each device stores them so.'
)


MEASURES = {"energy": "energy_j", "traffic": "traffic_bytes"}
"""What each metric beside time adds to results."""
METRICS = ("time", *MEASURES)
WORDS = {
    "time": "speedup over data parallelism",
    "energy": "energy efficiency over data parallelism",
    "traffic": "traffic of a step",
}
"""What planners are compared by, as people read it; traffic in gigabytes."""


def parse_metrics(text: str) -> tuple[str, ...]:
    """``time,energy`` to metrics, order kept; raises UsageError."""
    chosen = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not chosen or not set(chosen) <= set(METRICS):
        raise UsageError(f"--metrics {text!r}: expected one or more of {', '.join(METRICS)}")
    return chosen


ENERGY = (("mac", "4.6 pJ"), ("transfer", "640 pJ/B"), ("hbm", "30 pJ/B"))
"""An example of each: a multiply-add, a byte received, a byte of HBM."""


def check_metrics(metrics: tuple[str, ...], array: Array) -> None:
    """Raise UsageError where energy is asked for and a device's spec has none."""
    if "energy" in metrics:
        lacking = [device.name for device, _ in array.group.kinds if device.energy is None]
        if lacking:
            names = " and ".join(map(repr, lacking))
            keys = [setting.key for setting in array.settings]
            entries = [key.split(".")[1] for key in keys if key.endswith(".device")] or ["0"]
            each = [
                f'--set devices.{i}.energy.{key}="{value}"'
                for i in entries
                if f"devices.{i}.energy.mac" not in keys
                for key, value in ENERGY
            ]
            raise UsageError(
                f"--metrics energy: {names} of array {array.name!r} "
                f"{'have' if len(lacking) > 1 else 'has'} no [energy]; give it, as {' '.join(each)}"
            )


def metrics_of(text: str, array: Array) -> tuple[str, ...]:
    """``parse_metrics``, which an array must be able to tell; raises UsageError."""
    metrics = parse_metrics(text)
    check_metrics(metrics, array)
    return metrics


def measured(metrics: tuple[str, ...], timeline: Timeline) -> dict[str, Any]:
    """Joules and bytes of a whole step, where asked for."""
    return {name: getattr(timeline, name) for metric, name in MEASURES.items() if metric in metrics}


AXES = ("tp", "cp", "ep", "dp", "pp")


def axis_fields(case: Case, timeline: Timeline) -> dict[str, Any]:
    """By axis the seconds that an average core waits for its exchanges; {} without axes.

    Sends between stages are pp's; gradients and new weights dp's (cp shares them: its
    devices have the same weights); keys and values are cp's, tokens on their way to
    experts and back ep's; all else is within a layer, tp's (with sp), or cp's without tp.
    """
    staging = case.execution.staging
    if staging is None or staging.parallel is None:
        return {}
    nodes = {node.name: node for node in partition_graph(case.network)}
    exposed = Counter[str]()
    for operation, ps in core_ps(timeline):
        if operation.kind != Kind.COMPUTE:
            exposed[axis_of(operation, nodes, staging.parallel)] += ps
    seconds = timeline.cores * PICOSECONDS
    return {"exposed_by_axis_s": {axis: exposed[axis] / seconds for axis in AXES if exposed[axis]}}


def axis_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of a table: the exposed communication of each axis; none without axes."""
    for axis, seconds in result.get("exposed_by_axis_s", {}).items():
        yield f"exposed communication, {axis}", f"{duration(seconds)} per chip"


def names_of(case: Case, timeline: Timeline) -> dict[tuple[str, str], str]:
    """What the operations of each phase and kind are called, with the axes that they are along."""
    staging = case.execution.staging
    if staging is None or staging.parallel is None:
        return operation_names(timeline)
    nodes = {node.name: node for node in partition_graph(case.network)}
    found: dict[tuple[str, str], set[str]] = {}
    for operation in timeline.operations:
        if operation.kind not in (Kind.COMPUTE, Kind.MEMORY):
            axes = found.setdefault((str(operation.phase), str(operation.kind)), set())
            axes.add(axis_of(operation, nodes, staging.parallel))
    along = {key: ", ".join(axis for axis in AXES if axis in axes) for key, axes in found.items()}
    return operation_names(timeline, along)


def axis_of(operation: Operation, nodes: Mapping[str, Node], axes: Axes) -> str:
    """The axis that an exchange of such a plan is along."""
    if operation.kind == Kind.SEND:
        return "pp"
    if operation.kind == Kind.BOUNDARY and operation.phase != Phase.UPDATE:
        return _of_boundary(operation, nodes, axes)
    if operation.kind == Kind.WEIGHTS or operation.phase in (Phase.GRADIENT, Phase.UPDATE):
        return "dp"
    node = nodes.get(operation.layer)
    if operation.phase == Phase.BACKWARD and node is not None and node.operand:
        return "cp"  # the gradients of keys and values
    return _within(axes)


def _within(axes: Axes) -> str:
    """The axis of what is within a layer: tp, or of cp alone its positions (halos)."""
    return "cp" if axes.tp == 1 < axes.cp else "tp"


def _of_boundary(operation: Operation, nodes: Mapping[str, Node], axes: Axes) -> str:
    """Between two layers: one of them routes tokens or is an expert, or attends to all."""
    ends = [nodes[name] for name in operation.layer.split(" to ") if name in nodes]
    if axes.ep > 1 and any(node.routes or experts(node) for node in ends):
        return "ep"
    return "cp" if axes.cp > 1 and any(node.operand for node in ends) else _within(axes)


FIELDS = ("lower_bound_s", "lower_bound_covers", "step_gap")
NEAR = 1.0
"""A bound of which the step is further above certifies nothing, and is not given."""
NOT_NEAR = "no plan: only the work of the step is known, which is less than half of the step"


def bound_fields(case: Case, plan: Plan, timeline: Timeline) -> dict[str, Any]:
    """The lower bound of the step (s), what it covers, and how far the step lies above it.

    The gap is a fraction of the bound. All are None where no bound is known; where none
    is near (``NEAR``) what it covers says so.
    """
    if case.execution.staging and case.execution.staging.is_open:
        seconds, covers, _ = least_of(case, timeline.iteration_s)
        return _fields(StepBound(seconds, covers), timeline.iteration_s)
    if plan.pipeline is not None:
        return _fields(stages_bound(timeline), timeline.iteration_s)
    layout = layout_of(case, plan)
    return fields_of(case, timeline.iteration_s, layout=layout, bucket_bytes=plan.bucket_bytes)


def least_of(case: Case, iteration_s: float) -> tuple[float, str, float]:
    """The least that any plan takes (s), what that is of, and how far a step lies above it."""
    step = (case.network, case.execution.planned(case.array), case.batch, case.execution)
    bound = StepBound(work_bound_s(*step), EVERY_PLAN)
    return bound.seconds, bound.covers, bound.gap(iteration_s)


def layout_of(case: Case, plan: Plan) -> bool | None:
    """Whether a plan is a layout (``is_layout``); None of a pipeline, which has other bounds."""
    if plan.pipeline is not None:
        return None
    return is_layout(case.network, plan, case.execution.planned(case.array))


def fields_of(
    case: Case, iteration_s: float, *, layout: bool | None, bucket_bytes: float | None
) -> dict[str, Any]:
    """The same of a step of whose plan ``layout_of`` is known, and the size of its buckets."""
    if layout is None:
        return dict.fromkeys(FIELDS)
    array = case.execution.planned(case.array)
    step = (case.network, array, case.batch, case.execution)
    worth_s = iteration_s / (1 + NEAR)  # a lower one is not given
    bound = step_bound(*step, layout=layout, bucket_bytes=bucket_bytes, worth_s=worth_s)
    return _fields(bound, iteration_s)


def _fields(bound: StepBound | None, iteration_s: float) -> dict[str, Any]:
    if bound is None:
        return dict.fromkeys(FIELDS)
    if (gap := bound.gap(iteration_s)) > NEAR:
        return {**dict.fromkeys(FIELDS), "lower_bound_covers": NOT_NEAR}
    return dict(zip(FIELDS, (bound.seconds, bound.covers, gap), strict=True))


def sentence(fields: dict[str, Any]) -> str:
    """What the bound is of, or that it is weak; nothing where none is known."""
    if fields["lower_bound_covers"] is None:
        return ""
    if fields["lower_bound_covers"] == NOT_NEAR:
        return "Lower bound: none that is near the step is known for this plan."
    return f"Lower bound: of {fields['lower_bound_covers']}."


def uncharged(case: Case, plan: Plan, iteration_s: float) -> float | None:
    """Seconds that the published model leaves out of a step: ``planners.uncharged_s``.

    None where planners do not price the step (``is_priced``).
    """
    known = is_priced(case, plan)
    return uncharged_s(case.network, plan, case.array, iteration_s) if known else None


def is_priced(case: Case, plan: Plan) -> bool:
    """Whether planners price such a step: one of training, whose splits have links of their own.

    Of stages they price none.
    """
    wireless = "wires" in case.execution.ignores
    return wireless and plan.pipeline is None and not case.execution.inference


def whole_share(case: Case) -> list[str]:
    """Said of axes without stages: a micro-batch is all samples of a replica, unless told."""
    staging = case.execution.staging
    axes = staging.parallel if staging else None
    if staging is None or axes is None or staging.samples(axes.pp) is not None:
        return []
    if staging.micro_batches > 1 or staging.stage_hw:
        return []
    planned = case.execution.planned(case.array)
    samples, more = divmod(case.batch, axes.on(planned.group.size, planned.name).dp)
    many = f"{samples:,} or {samples + 1:,}" if more else f"{samples:,}"
    return [
        f"A micro-batch is the whole share of a replica, {many} samples (smaller ones: "
        "--micro-batch N)."
    ] * (samples > 1)
