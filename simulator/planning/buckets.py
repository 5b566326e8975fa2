"""How many bytes of gradients travel together, where nobody asks for a number: a few are tried."""

from __future__ import annotations

from dataclasses import replace

from simulator.lowering.execution import Execution
from simulator.planning.judge import Judge

MIB = 2.0**20
SIZES = (0.0, 1 * MIB, 5 * MIB, 100 * MIB)
"""Bytes, besides the usual: each gradient by itself, some, and about all of most networks."""


def sizes_of(execution: Execution) -> tuple[float, ...]:
    """What a plan may say instead of the usual; nothing where a size is asked for, or none used."""
    used = execution.model == "deployed" and not execution.inference
    return SIZES if used and execution.bucket_bytes is None else ()


def with_other_buckets(judge: Judge) -> None:
    """Judge the best plan with buckets of other sizes."""
    plan = judge.best
    if plan is not None:
        for size in sizes_of(judge.execution):
            judge.seconds(replace(plan, bucket_bytes=size))
