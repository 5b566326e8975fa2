"""Options of the execution models, and of pipelines, as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from experiments.output import UsageError
from hardware import in_bytes, parse_quantity
from planners import Staging
from simulator import ALGORITHMS, Execution

DEPLOYED_OPTIONS = ("overlap", "shards", "bucket", "algorithm")
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
)
MODEL_OPTIONS = (*DEPLOYED_OPTIONS, "mode", *STAGE_OPTIONS)
CHOICES = {
    "overlap": ("full", "none"),
    "shards": ("whole", "exact"),
    "algorithm": ("auto", *ALGORITHMS),
    "mode": ("training", "inference"),
    "tied": ("copies",),
    "vertical_sync": ("yes", "no"),
}
NUMBERS = ("stages", "micro_batches", "virtual", "batches")
MOST = 1 << 20
"""Of stages and of micro-batches."""


def option_name(key: str) -> str:
    """An option as it is called here: people may write micro-batches."""
    name = key.replace("-", "_")
    return name if name in STAGE_OPTIONS else key


def with_options(execution: Execution, options: Mapping[str, str]) -> Execution:
    """An execution model with options changed; raises UsageError for what makes no sense."""
    for name, text in options.items():
        if name in DEPLOYED_OPTIONS and execution.model == "published":
            raise UsageError(f"{name}={text} has no meaning under the published execution model")
        if name in CHOICES and text not in CHOICES[name]:
            raise UsageError(f"{_flag(name)}={text}: one of {', '.join(CHOICES[name])}")
        if name in STAGE_OPTIONS:
            staging = _staged(execution.staging or Staging(), name, text)
            execution = replace(execution, staging=staging)
        elif name == "mode":
            execution = replace(execution, mode=text)
        elif name == "bucket":
            execution = replace(execution, bucket_bytes=_bytes(text))
        elif name == "overlap":
            execution = replace(execution, overlap=text == "full")
        elif name == "shards":
            execution = replace(execution, whole_shards=text == "whole")
        else:
            execution = replace(execution, algorithm=text)
    return execution


def _staged(staging: Staging, name: str, text: str) -> Staging:
    value: Any = text
    if name in NUMBERS:
        value = _number(name, text)
    elif name == "vertical_sync":
        value = text == "yes"
    elif name == "cuts":
        value = tuple(part.strip() for part in text.split(",") if part)
    elif name == "recompute" and text != "all":
        for part in text.split(","):
            _number(name, part.strip(), least=0)
    return replace(staging, **{name: value})


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
