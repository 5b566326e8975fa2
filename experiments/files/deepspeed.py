"""DeepSpeed's JSON: batch, precision, ZeRO, and degrees where it has them; it has no model."""

from __future__ import annotations

import re
from typing import Any

from experiments.files.job import Job
from experiments.output import to_json
from planners import Axes
from workloads.importers.fields import Fields

KNOWN_BY = re.compile(r"train_batch_size|train_micro_batch_size_per_gpu|zero_optimization\..*")
WITHOUT_EFFECT = re.compile(
    r"(optimizer\.params|scheduler|bf16|fp16|amp|fp32|zero_optimization|activation_checkpointing"
    r"|flops_profiler|tensorboard|wandb|csv_monitor|comms_logger|aio|autotuning|checkpoint"
    r"|data_efficiency|data_types|monitor|elasticity|tensor_parallel|pipeline)\..*"
    r"|steps_per_print|wall_clock_breakdown|gradient_clipping|prescale_gradients|dump_state"
    r"|zero_allow_.*|gradient_predivide_factor|memory_breakdown"
    r"|seed|zero_force_.*|sparse_gradients|dataloader_drop_last|.*_profiler.*"
)


def read(one: Fields) -> Job:
    """A job from its keys, as "zero_optimization.stage"."""
    auto = [key for key, value in one.left.items() if value == "auto"]
    for key in auto:
        del one.left[key]
    if auto:
        one.notes.append(f"auto, which the trainer decides: {', '.join(auto[:10])}")
    options: dict[str, Any] = {"zero": one.count("zero_optimization.stage", most=3)}
    batch = one.count("train_batch_size")
    micro = one.count("train_micro_batch_size_per_gpu")
    steps = one.count("gradient_accumulation_steps")  # else of so many devices as there are
    tp = one.count("tensor_parallel.autotp_size", "tensor_parallel.tp_size", otherwise=1)
    cp = one.count("sequence_parallel_size", otherwise=1)
    pp = one.count("pipeline.stages", otherwise=1)
    dp = batch // (micro * steps) if batch and micro and steps else 0
    if dp and batch % (micro * steps):
        raise one.fault(
            "train_batch_size",
            batch,
            f"must be a multiple of micro-batch {micro} x {steps} accumulation steps",
        )
    micro = micro or (batch // steps if steps else 0)
    if batch:
        options["batch"] = batch
    else:
        each = f", {micro * steps} x dp" if micro and steps else ""
        one.notes.append(f"train_batch_size is missing: say batch{each}")
    options |= {"micro_batch": micro} if micro else {}
    narrow = "bf16" if one.flag("bf16.enabled", "bfloat16.enabled") else ""
    if (mixed := one.flag("amp.enabled")) and not narrow:
        one.notes.append("amp.enabled: read as fp16, whatever its opt_level")
    narrow = narrow or ("fp16" if one.flag("fp16.enabled") or mixed else "fp32")
    if narrow != "fp32" or not {"bf16.enabled", "fp16.enabled"}.intersection(auto):
        options["precision"] = narrow
    word = str(one.take("optimizer.type", otherwise="Adam")).lower()
    options["optimizer"] = "sgd" if word == "sgd" else "adam"
    if "adam" not in word and word != "sgd":
        one.notes.append(f"optimizer.type = {word[:40]}: read as adam")
    if offloads := [key for key in one.left if key.startswith("zero_optimization.offload")]:
        one.notes.append("offloading to the host is not simulated")
        for key in offloads:
            del one.left[key]
    one.notes.append("DeepSpeed's file has no model and no recompute: name them yourself")
    axes = Axes(dp=dp, tp=max(tp, 1), cp=max(cp, 1), pp=max(pp, 1))
    return Job(axes=axes, options=options)


def write(job: Job, devices: int, remarks: list[str]) -> str:  # noqa: ARG001  (as every framework's)
    """The JSON of a job; reads back to the same job without its network."""
    axes, options = job.axes, job.options
    values: dict[str, Any] = {
        "train_batch_size": options["batch"],
        "train_micro_batch_size_per_gpu": options["micro_batch"],
        "gradient_accumulation_steps": options["batch"] // (options["micro_batch"] * axes.dp),
        "zero_optimization": {"stage": options["zero"]},
    }
    precision = options["precision"]
    if precision in ("bf16", "fp16"):
        values[precision] = {"enabled": True}
    elif precision != "fp32":
        remarks.append(f"DeepSpeed has no precision {precision}")
    optimizer = options["optimizer"]
    if optimizer not in ("adam", "sgd"):
        remarks.append(f"DeepSpeed's file names no optimizer {optimizer}")
    values["optimizer"] = {"type": "SGD" if optimizer == "sgd" else "Adam", "params": {}}
    values |= {"tensor_parallel": {"autotp_size": axes.tp}} if axes.tp > 1 else {}
    values |= {"sequence_parallel_size": axes.cp} if axes.cp > 1 else {}
    values |= {"pipeline": {"stages": axes.pp}} if axes.pp > 1 else {}
    for axis, many in (("ep", axes.ep), ("vp", axes.vp), ("etp", axes.etp)):
        if many > 1 or (axis == "etp" and many):
            remarks.append(f"{axis}={many}: DeepSpeed has it in code, or not at all")
    if axes.sp:
        remarks.append("DeepSpeed has no sequence parallelism among the devices of tp")
    if axes.pp > 1:
        remarks.append("PipelineModule takes the stages in code, and ZeRO 0 or 1")
    coded = [f"{key} = {options[key]}" for key in ("schedule", "stage_layers") if key in options]
    remarks += [f"{one}: PipelineModule takes its parts in code" for one in coded]
    if options["recompute"] != "none":
        remarks.append(f"recompute = {options['recompute']}: wrap blocks in code")
    return to_json(values)
