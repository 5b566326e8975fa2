"""Whether steps fit in memory and leave cores idle: columns of results, and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.output import warn
from simulator import overflow
from simulator.engine.occupancy import readable

if TYPE_CHECKING:
    from experiments.studies.case import Case
    from simulator import Timeline

COLUMNS = ("peak_memory_bytes", "cores_over_memory", "idle_cores")
"""What ``occupancy`` has; the first is a core's."""
REMEDY = "(--strict-memory makes this an error)"


def occupancy(timeline: Timeline) -> dict[str, Any]:
    """Peak of the fullest core, how many cores overflow, how many idle; {} if published."""
    if not timeline.memory:
        return {}
    return {
        "peak_memory_bytes": max(device.peak_bytes for device in timeline.memory),
        "cores_over_memory": sum(device.cores_over for device in timeline.memory),
        "idle_cores": timeline.idle_cores,
    }


FREES = {
    "weights": "split layers or features (pp, tp)",
    "optimizer": "share out the update (--update sharded), or split layers or features",
    "gradients": "split layers or features (pp, tp)",
    "activations": "compute them again (--recompute selective or full), or take fewer samples",
    "logits": "take fewer samples at a time, or split the vocabulary (tp)",
    "buffers": "take fewer samples at a time",
}
"""What makes each class of memory less."""


def in_words(by_class: Mapping[str, float]) -> str:
    """Bytes of each class, those that are nothing left out."""
    return ", ".join(f"{name} {readable(held)}" for name, held in by_class.items() if held >= 1)


def most_of_it(by_class: Mapping[str, float]) -> str:
    """The largest class, and what makes it less."""
    name = max(by_class, key=by_class.__getitem__)
    return f"most of it {name}: {FREES[name]}"


def warn_overflow(case: Case, timeline: Timeline) -> list[str]:
    """Say on stderr that a simulated step does not fit in memory, if so; returns what was said."""
    fault = overflow(case.network.name, case.planner_name, case.array.name, timeline.memory)
    if fault is None:
        return []
    warn(f"{fault} {REMEDY}")
    return [fault]
