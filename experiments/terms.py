"""The field's terms: durations in four digits, names of operations, and the keys of JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from planners.order import Kind, Phase

if TYPE_CHECKING:
    from simulator import Operation, Timeline

ALIASES = {
    "mfu": "share_of_peak",
    "hfu": "computed_share_of_peak",
    "tokens_per_s_per_device": "tokens_per_s_per_chip",
    "exposed_communication": "communicating",
    "waiting_for_communication": "waiting",
    "exposed_communication_by_axis_s": "exposed_by_axis_s",
}
"""Keys of JSON and CSV: the field's term, and the old key, which stays for one release."""
_NEW = {old: new for new, old in ALIASES.items()}

SHARES = {
    "computing": "compute",
    "communicating": "exposed communication",
    "exposed": "exposed communication",
    "waiting": "waiting for communication",
}
"""What devices spend their time on."""
BOUNDS = {
    "FLOPs": "compute, limited by FLOPs",
    "HBM": "compute, limited by HBM bandwidth",
    "overhead": "kernel overhead",
    "links": "communication: bytes",
    "latency": "communication: latency",
}
"""What the parts of a critical path go to."""

_TENSORS = {
    Phase.FORWARD: "activations",
    Phase.RECOMPUTE: "activations again",
    Phase.BACKWARD: "activation gradients",
    Phase.GRADIENT: "weight gradients",
    Phase.UPDATE: "weights",
}
_WORK = _TENSORS | {
    Phase.FORWARD: "forward",
    Phase.RECOMPUTE: "recomputation",
    Phase.UPDATE: "optimizer",
}
_USUAL = {
    Kind.SUMS: "all-reduce",
    Kind.BOUNDARY: "redistribution",
    Kind.WEIGHTS: "all-gather",
    Kind.SEND: "send",
}
"""The collective of each kind of exchange, where no job names another one."""
_NAMED = ("all-reduce", "reduce-scatter", "all-to-all", "all-gather")


def aliased(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the new key before each old one of ``ALIASES``."""
    return {
        key: value
        for old, value in data.items()
        for key in ((_NEW[old], old) if old in _NEW else (old,))
    }


def duration(seconds: float) -> str:
    """Four digits in the unit that reads best: "488.7 ms", "1.620 s"."""
    if not math.isfinite(seconds) or seconds == 0:
        return f"{seconds:g} s"
    if abs(seconds) >= 999.95:
        return f"{seconds:,.0f} s"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        shown = f"{seconds * scale:.3e}"
        if abs(float(shown)) >= 1 or unit == "ns":
            break
    digits = 3 - math.floor(math.log10(abs(float(shown))))
    return f"{float(shown):.{max(0, digits)}f} {unit}"


def change(seconds: float) -> str:
    """A duration with its sign."""
    return f"+{duration(seconds)}" if seconds > 0 else duration(seconds)


def operation_name(phase: str, kind: str, collectives: Iterable[str] = (), axes: str = "") -> str:
    """What an operation does: "compute, forward", "all-reduce of activations, tp".

    ``collectives`` name what moves an exchange's bytes, where that is known.
    """
    at = Phase(phase)
    if kind in (Kind.COMPUTE, Kind.MEMORY):
        return f"{'compute' if kind == Kind.COMPUTE else 'HBM traffic'}, {_WORK[at]}"
    tensor = "weights" if kind == Kind.WEIGHTS else _TENSORS[at]
    which = " + ".join(sorted(set(collectives))) or _USUAL[Kind(kind)]
    return f"{which} of {tensor}" + (f", {axes}" if axes else "")


def collective(operation: Operation) -> str:
    """The collective that an exchange is, from what its links carry; "" where they do not say."""
    if operation.kind not in (Kind.SUMS, Kind.BOUNDARY):
        return ""
    names = {job.name.partition(" ")[0] for job in operation.jobs}
    if operation.kind == Kind.SUMS and (not names or {"reduce-scatter", "all-gather"} <= names):
        return "all-reduce"  # in two halves
    return next((name for name in _NAMED if name in names), "")


def operation_names(
    timeline: Timeline, axes: Mapping[tuple[str, str], str] | None = None
) -> dict[tuple[str, str], str]:
    """The name of each phase and kind of a step; ``axes`` are those that it is along."""
    found: dict[tuple[str, str], set[str]] = {}
    for operation in timeline.operations:
        named = found.setdefault((str(operation.phase), str(operation.kind)), set())
        named.update(filter(None, [collective(operation)]))
    along = axes or {}
    return {key: operation_name(*key, named, along.get(key, "")) for key, named in found.items()}
