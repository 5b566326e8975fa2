"""Whether steps fit in memory and leave cores idle: columns of results, and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.output import warn
from simulator import overflow

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


def warn_overflow(case: Case, timeline: Timeline) -> list[str]:
    """Say on stderr that a simulated step does not fit in memory, if so; returns what was said."""
    fault = overflow(case.network.name, case.planner_name, case.array.name, timeline.memory)
    if fault is None:
        return []
    warn(f"{fault} {REMEDY}")
    return [fault]
