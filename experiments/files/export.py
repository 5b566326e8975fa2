"""A simulated plan as a file or flags of a training framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from experiments.encodings import comment
from experiments.files import deepspeed, maxtext, megatron, torchtitan
from experiments.files.job import USUAL_NODE, Job, sizes_of
from experiments.files.placements import placements
from experiments.notices import tell
from experiments.output import UsageError, to_json
from experiments.studies.case import Case
from experiments.studies.unread import precision_of
from hardware import Array
from hardware.schema import OPTIMIZERS
from planners import AXES, Axes, Plan
from planners.axes.stage_cuts import begun_inside_blocks, blocks_of, repeats_blocks
from planners.partition import I
from planners.pipeline.staging import usual_schedule
from planners.plan.updates import ZERO_STAGE, sharded
from simulator.lowering.execution import usual
from simulator.lowering.schedules.file import schedule_text
from simulator.lowering.schedules.registry import schedule_of
from workloads import SIZES, Network, Transformer, partition_graph
from workloads.attention import ATTENTION, attention_cores
from workloads.transforms import APART, EAGER

WRITERS: dict[str, Callable[[Job, int, list[str]], str]] = {
    "megatron": megatron.write,
    "torchtitan": torchtitan.write,
    "maxtext": maxtext.write,
    "deepspeed": deepspeed.write,
}
"""By name: what writes a job for so many devices, and remarks on what its framework cannot say."""


NARROW = 4
"""Gradients of Megatron-LM have so many bytes, unless it is told otherwise."""
PIPELINING, DTENSOR = "pipelining", "dtensor"


def exported(case: Case, plan: Plan, target: str) -> str:
    """The plan of a step as a framework's file; raises UsageError.

    What the framework cannot do is in comments in front; JSON has none, so there it is told.
    """
    if target not in (known := (*WRITERS, PIPELINING, DTENSOR)):
        raise UsageError(f"--export {target}: one of {', '.join(known)}")
    if target == PIPELINING:
        return _schedule(plan)
    if target == DTENSOR:
        job, staging = job_of(case, plan), case.execution.staging
        order, zero = staging.axis_order if staging else "", job.options["zero"]
        return to_json(placements(case.network, plan, job.axes, order, zero))
    if case.execution.inference:
        raise UsageError(f"--export {target}: of training jobs; leave out --mode inference")
    alike = repeats_blocks(partition_graph(case.network))
    several = plan.pipeline is not None and len(plan.pipeline.places) > 1
    if target == "megatron" and several and not (alike or case.network.sizes):
        raise UsageError(
            "--export megatron: its stages are of blocks that are alike, and "
            f"{case.network.name!r} is not mostly such: take pp=1"
        )
    job = job_of(case, plan)
    remarks = list(job.notes)
    text = WRITERS[target](job, _devices(case), remarks)
    remarks += _software(case) if target == "megatron" else ()
    staging = case.execution.staging
    if staging and staging.axis_order:
        remarks.append(
            f"simulated with --axis-order {staging.axis_order}: this file has the framework's own"
        )
    remarks += map("simulated with {}: this file does not say so".format, _unsaid(case, target))
    fused = any(layer.kind == ATTENTION for layer in case.network.layers)
    if not fused and attention_cores(case.network):
        remedy = ": add --attention-backend unfused" if target == "megatron" else ""
        remarks.append(f"simulated with attention that is not fused{remedy}")
    if target != "deepspeed":
        return "".join(f"{comment(remark)}\n" for remark in remarks) + text
    for remark in remarks:
        tell(remark)
    return text


_COMPILE = {"megatron": False, "torchtitan": True, "maxtext": True}
"""Whether a framework compiles, as its file is read here."""


def _unsaid(case: Case, target: str) -> Iterator[str]:
    """What was asked for otherwise than is usual, and is no key of a framework's file here."""
    execution, usual_one = case.execution, usual(case.array)
    if not execution.overlap and usual_one.overlap and target != "megatron":
        yield "--overlap none"
    if execution.algorithm != usual_one.algorithm:
        yield f"--algorithm {execution.algorithm}"
    if execution.bucket_bytes not in (usual_one.bucket_bytes, None):
        yield f"--bucket {execution.bucket_bytes:g}"
    asked, stack = case.network.name.split(", "), case.array.stack
    unusual = (EAGER,) if stack and stack.element_kernels else (APART, EAGER)
    yield from (f"--transform {one}" for one in unusual if one in asked)
    compiled = getattr(case.network.sizes, "compiled", None)
    if target in _COMPILE and compiled not in (None, _COMPILE[target]):
        yield f"compiled={'yes' if compiled else 'no'}"


def _software(case: Case) -> Iterator[str]:
    """What was simulated, and Megatron-LM does not do by itself, or not so."""
    stack, staging, sizes = case.array.stack, case.execution.staging, case.network.sizes
    axes = staging.parallel if staging and staging.parallel else Axes()
    axes = axes.on(_devices(case), case.array.name)
    done = {
        "--overlap-grad-reduce": case.execution.overlap and axes.dp > 1,
        "--tp-comm-overlap": axes.sp and axes.tp > 1 and stack and stack.hidden_tensor > 0,
        "--grad-reduce-in-bf16": case.array.group.arithmetic.gradient_bytes < NARROW,
    }
    if flags := " ".join(flag for flag, is_done in done.items() if is_done):
        yield f"simulated with what {flags} turn on: add them, or simulate another --stack"
    if axes.ep > 1 and stack and stack.dispatcher == "once":
        yield (
            "simulated with tokens that go once to each rank: write --moe-token-dispatcher-type "
            "flex with DeepEP or HybridEP in place of alltoall"
        )
    if isinstance(sizes, Transformer) and not (sizes.fused_qkv or sizes.kv_rank):
        yield "Megatron-LM has queries, keys and values in one product, the network in three"


def _schedule(plan: Plan) -> str:
    """The passes of each place, as torch.distributed.pipelining reads them; UsageError."""
    pipeline = plan.pipeline
    if pipeline is None or len(set(pipeline.replicas)) > 1:
        raise UsageError("--export pipelining: of pipelines with as many replicas of each stage")
    each = pipeline.micro_batches // pipeline.replicas[0]
    schedule = schedule_of(pipeline.schedule)
    return schedule_text(schedule, len(pipeline.places), pipeline.virtual, each)


def _devices(case: Case) -> int:
    """Chips or cores that a plan counts."""
    return case.execution.planned(case.array).group.size


def job_of(case: Case, plan: Plan) -> Job:
    """A step as a job; raises UsageError for a plan that named axes do not say.

    Other planners' plans are jobs where they split all layers by samples alone, in stages of
    whole blocks or in none.
    """
    execution, staging = case.execution, case.execution.staging
    asked, notes = (None if staging is None else staging.parallel), list[str]()
    if staging and (staging.stage_hw or (asked and staging.cuts)):
        raise UsageError("--export: frameworks have as many devices in each stage (no --stage-hw)")
    devices = _devices(case)
    if case.planner_name == AXES and staging and asked:
        axes = asked.on(devices, case.array.name)
        micro = staging.samples(axes.pp) or case.batch // axes.dp // max(staging.micro_batches, 1)
    else:
        axes, micro = _by_samples(case, plan, devices)
        if (many := len(sharded(plan.updates))) and not _zero(plan):
            notes.append(f"updates of {many} layers are shared out: zero = 1 does so for all")
    if not micro or case.batch % (axes.dp * micro):
        each = axes.dp * micro if micro and not case.batch % axes.dp else axes.dp
        raise UsageError(
            f"--export: frameworks give each of dp={axes.dp} replicas as many samples, and a batch "
            f"of {case.batch} is no multiple of {each}; take one that is"
        )
    moments = len(case.array.group.arithmetic.moment_bytes)
    options: dict[str, Any] = {
        "batch": case.batch,
        "precision": precision_of(case.array),
        "optimizer": next((name for name, n in OPTIMIZERS.items() if n == moments), "adam"),
        "zero": _zero(plan),
        "micro_batch": micro,
        "recompute": execution.recompute,
    }
    pipeline = plan.pipeline
    if staging and staging.recompute:
        options["recompute"] = f"stages:{staging.recompute}"
    elif pipeline and all(stage.recompute for stage in pipeline.stages):
        options["recompute"] = "stages:all"
    schedule = pipeline.schedule if pipeline else ""
    if axes.pp > 1 and schedule != usual_schedule(axes.vp):
        options["schedule"] = schedule
    if layers := _layers(case.network, plan):
        options["stage_layers"] = ",".join(map(str, layers))
    base = case.network.name.partition(",")[0].partition(":")[0]
    of = case.network.sizes
    if not isinstance(of, Transformer):
        tokens = case.network.tokens or 0
        return Job("", {}, axes, options, tuple(notes), *_joined(case.array), tokens)
    known = base in SIZES and of == replace(SIZES[base], seq=of.seq, source=of.source)
    name = f"{base}:seq={of.seq}" if known else ""
    return Job(name, sizes_of(of), axes, options, tuple(notes), *_joined(case.array))


def _zero(plan: Plan) -> int:
    """The stage of ZeRO of all layers; 0 where they differ."""
    every = {own.updates and frozenset(own.updates) for own in plan.of_stages}
    updates = every.pop() if len(every) == 1 else ()
    return int(ZERO_STAGE[next(iter(updates))]) if len(updates) == 1 else 0


def _joined(array: Array) -> tuple[int, int]:
    """Devices of a server (0 where the first tier joins several servers'), and of that tier."""
    levels = array.topology.levels
    members = levels[0].members if levels else 0
    node = (members or USUAL_NODE) if members <= USUAL_NODE else 0
    return node, members if len(levels) > 1 else 0


def _by_samples(case: Case, plan: Plan, devices: int) -> tuple[Axes, int]:
    """Axes and micro-batch of a plan that splits by samples alone; raises UsageError."""
    pipeline = plan.pipeline
    for own in plan.of_stages:
        for split in own.splits():
            for node, partition in zip(own.nodes, split.partitions, strict=True):
                if partition.type is not I or partition.share != 0.5:
                    raise UsageError(
                        f"--export: planner {case.planner_name!r} splits {node} by type "
                        f"{partition.type.name} in shares of {partition.share:.3g} and "
                        f"{1 - partition.share:.3g}, which no framework's flags say: only plans by "
                        "named axes (--parallel, or fit), or by samples alone, are exported"
                    )
    if pipeline is None:
        return Axes(dp=devices), case.batch // devices
    idle = devices - sum(place.count for place in pipeline.places)
    if idle or any(place.parts or place.turns for place in pipeline.places):
        what = f"leaves {idle} of {devices} devices idle" if idle else "has replicas that differ"
        raise UsageError(
            f"--export: the plan {what}, which no framework's flags say; export a plan by named "
            "axes (--parallel, or fit)"
        )
    places = {(place.count, place.replicas) for place in pipeline.places}
    firsts = {0, *blocks_of(partition_graph(case.network)).firsts}
    if len(places) > 1 or not firsts.issuperset(pipeline.firsts):
        raise UsageError(
            "--export: frameworks have stages of whole blocks, with as many devices in each; "
            f"these begin at layers {', '.join(plan.nodes[first] for first in pipeline.firsts)}"
        )
    if len({stage.recompute for stage in pipeline.stages}) > 1:
        raise UsageError("--export: only some stages compute forward again; frameworks' all do")
    dp = pipeline.places[0].count
    axes = Axes(dp=dp, pp=len(pipeline.places), vp=pipeline.virtual)
    return axes, case.batch // pipeline.micro_batches // (dp // pipeline.replicas[0])


def _layers(network: Network, plan: Plan) -> list[int]:
    """Blocks of each stage, with one for what is before and behind them; none if all are alike."""
    if plan.pipeline is None:
        return []
    graph = partition_graph(network)
    blocks = blocks_of(graph)
    firsts = [*plan.pipeline.firsts, len(graph)]
    inside = begun_inside_blocks(graph, firsts[:-1])
    if inside and isinstance(network.sizes, Transformer):
        fewer = len(firsts) - 1 > len(blocks.firsts)
        remedy = f"take pp of {len(blocks.firsts)} or fewer" if fewer else "take other cuts"
        raise UsageError(
            "--export: frameworks have stages of whole blocks; stage "
            f"{inside[0]} begins with {graph[firsts[inside[0]]].name}: {remedy}"
        )
    counts = [
        sum(first <= block < end for block in blocks.firsts) for first, end in pairwise(firsts)
    ]
    if len(set(counts)) == 1 or not blocks.firsts:
        return []
    counts[0] += 1
    counts[-1] += 1
    return counts
