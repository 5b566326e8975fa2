"""How many bytes of gradients travel together: of a plan that says so.

A large bucket saves latencies, a small one leaves while backward goes on. What pays
depends on the plan: its partial sums may need the same links.
"""

from __future__ import annotations

import math
from typing import Any

from hardware import format_quantity
from planners.errors import PlanError


def check_bucket(bucket_bytes: float | None, whose: str, *, stages: bool) -> None:
    """Raise PlanError unless it is a number of bytes, or none; of a pipeline its stages say it."""
    if bucket_bytes is None:
        return
    if not (math.isfinite(bucket_bytes) and bucket_bytes >= 0):
        raise PlanError(
            f"{whose}: bucket_bytes is {bucket_bytes}; it must be a number of bytes, 0 for each "
            "gradient by itself"
        )
    if stages:
        raise PlanError(f"{whose}: bucket_bytes of a pipeline belong in the plans of its stages")


def bucket_words(bucket_bytes: float) -> str:
    """How gradients go, as people read it."""
    if not bucket_bytes:
        return "each gradient by itself"
    return f"gradients in buckets of {format_quantity(bucket_bytes, 'B', 4)}"


def bucket_to_json(bucket_bytes: float | None) -> dict[str, Any]:
    """Of a plan's values, this one; nothing where the plan does not say it."""
    return {} if bucket_bytes is None else {"bucket_bytes": bucket_bytes}
