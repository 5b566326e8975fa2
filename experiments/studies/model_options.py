"""Options of the execution models, and of pipelines, as people write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from experiments.output import UsageError
from hardware import in_bytes, parse_quantity
from planners import AXES, Axes, Planner, Staging, load_planner
from planners.axes.degrees import order_of
from planners.plan.updates import UPDATE_ORDERS
from planners.registry import reads_axes
from simulator import ALGORITHMS, Execution
from simulator.cost.recompute import NONE, is_mode

DEPLOYED_OPTIONS = ("overlap", "shards", "bucket", "update_order", "algorithm")
AXIS_OPTIONS = ("parallel", "axis_order", "micro_batch")
STAGE_OPTIONS = (
    "stages",
    "schedule",
    "micro_batches",
    "virtual",
    "recompute",
    "tied",
    "vertical_sync",
    "batches",
    "cuts",
    *AXIS_OPTIONS,
)
MODEL_OPTIONS = (*DEPLOYED_OPTIONS, "mode", "update", "zero", *STAGE_OPTIONS)
CHOICES = {
    "overlap": ("full", "none"),
    "shards": ("whole", "exact"),
    "algorithm": ("auto", *ALGORITHMS),
    "mode": ("training", "inference"),
    "update_order": UPDATE_ORDERS,
    "update": ("replicated", "sharded", "gradients", "weights", "auto"),
    "tied": ("copies",),
    "vertical_sync": ("yes", "no"),
}
STAGES = "stages:"
"""What comes in front of stages that compute forward again as a whole."""
NUMBERS = ("stages", "micro_batches", "virtual", "batches", "micro_batch")
MOST = 1 << 20
"""Of stages and of micro-batches."""


def option_name(key: str) -> str:
    """An option as it is called here: people may write micro-batches."""
    name = key.replace("-", "_")
    return name if name in MODEL_OPTIONS else key


def with_options(execution: Execution, options: Mapping[str, str]) -> Execution:
    """An execution model with options changed; raises UsageError for what makes no sense."""
    for name, text in options.items():
        if name in DEPLOYED_OPTIONS and execution.model == "published":
            raise UsageError(
                f"{_flag(name)}={text} has no meaning under the published execution model"
            )
        if name in CHOICES and text not in CHOICES[name]:
            raise UsageError(f"{_flag(name)}={text}: one of {', '.join(CHOICES[name])}")
        if name == "recompute" and not text.startswith(STAGES):
            execution = replace(execution, recompute=_recomputed(execution, text))
        elif name in STAGE_OPTIONS:
            staging = _staged(execution.staging or Staging(), name, text)
            execution = replace(execution, staging=staging)
        elif name == "mode":
            execution = replace(execution, mode=text)
        elif name == "update":
            execution = replace(execution, update=text)
        elif name == "zero":
            execution = replace(execution, update=_zero(text, options))
        elif name == "bucket":
            execution = replace(execution, bucket_bytes=_bytes(text))
        elif name == "update_order":
            execution = replace(execution, update_order=text)
        elif name == "overlap":
            execution = replace(execution, overlap=text == "full")
        elif name == "shards":
            execution = replace(execution, whole_shards=text == "whole")
        else:
            execution = replace(execution, algorithm=text)
    return execution


ZERO = {"0": "replicated", "1": "sharded", "2": "gradients", "3": "weights"}
"""Stages of ZeRO (Rajbhandari et al., SC 2020) as updates."""


def _zero(text: str, options: Mapping[str, str]) -> str:
    if text not in ZERO:
        raise UsageError(
            f"zero={text}: take 0, 1 (the optimizer's state and its update in parts), 2 (gradients "
            "too) or 3 (weights too)"
        )
    if "update" in options:
        raise UsageError(f"zero={text} is update={ZERO[text]}: say one of the two")
    return ZERO[text]


def check_axes(planners: Iterable[str | Planner], given: Iterable[str]) -> None:
    """Raise UsageError where options of named axes are given, and no planner reads them."""
    asked = [name for name in AXIS_OPTIONS if name in given]
    if asked and not any(reads_axes(load_planner(planner)) for planner in planners):
        raise UsageError(
            f"{_flag(asked[0])} belongs to named axes, which planner {AXES!r} plans: take that one"
        )


def _staged(staging: Staging, name: str, text: str) -> Staging:
    value: Any = text
    if name in NUMBERS:
        value = _number(name, text)
    elif name == "vertical_sync":
        value = text == "yes"
    elif name == "parallel":
        value = Axes.parse(text)
    elif name == "axis_order":
        value = ",".join(order_of(text))
    elif name == "cuts":
        value = tuple(part.strip() for part in text.split(",") if part)
    elif name == "recompute":
        value = text.removeprefix(STAGES)
        for part in value.split(",") if value != "all" else ():
            _number(name, part.strip(), least=0)
    return replace(staging, **{name: value})


def _recomputed(execution: Execution, text: str) -> str:
    """What is computed again, not by stages: the deployed model alone knows operators."""
    if not is_mode(text):
        raise UsageError(
            f"recompute={text}: none, selective, full, or a number of blocks (of each stage); "
            "stages:all or stages:0,2 for whole stages"
        )
    if execution.model == "published" and text != NONE:
        raise UsageError(
            f"recompute={text} has no meaning under the published execution model, which knows no "
            "memory; it can do whole stages again: stages:all"
        )
    return text


def _number(name: str, text: str, least: int = 1) -> int:
    if text.isascii() and text.isdigit() and len(text) < 9 and least <= int(text) <= MOST:
        return int(text)
    raise UsageError(f"{_flag(name)}={text}: must be a whole number from {least} to {MOST:,}")


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _bytes(text: str) -> float:
    """A size, or nothing at all: each gradient by itself."""
    if text.removesuffix("B").strip() in ("0", "0.0"):
        return 0.0
    try:
        return parse_quantity(in_bytes(text), "B")
    except ValueError as error:
        raise UsageError(f"bucket={text}: {error}, or a whole number of bytes") from None
