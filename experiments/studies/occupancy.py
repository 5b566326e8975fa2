"""Whether steps fit in memory and leave cores idle: columns of results, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from simulator import DeviceMemory, Timeline
from simulator.analysis.exposed_communication import cores_in_no_stage
from simulator.engine.operations import CLASSES, readable

COLUMNS = ("peak_memory_bytes", "cores_over_memory", "idle_cores")
"""What ``occupancy`` has; the first is a core's."""


def occupancy(timeline: Timeline) -> dict[str, Any]:
    """Peak of the fullest core, how many cores overflow, how many idle; {} if published."""
    if not timeline.memory:
        return {}
    return {
        "peak_memory_bytes": max(device.peak_bytes for device in timeline.memory),
        "cores_over_memory": sum(device.cores_over for device in timeline.memory),
        "idle_cores": timeline.idle_cores + cores_in_no_stage(timeline),
    }


def memory_fields(timeline: Timeline) -> dict[str, Any]:
    """Idle cores, and HBM device by device, by class; None where the model has no memory."""
    if not (found := occupancy(timeline)):
        return {"idle_cores": None, "peak_memory_bytes": None, "fits": None, "memory": []}
    return {
        "idle_cores": found["idle_cores"],
        "peak_memory_bytes": found["peak_memory_bytes"],
        "fits": not found["cores_over_memory"],
        "memory": [
            asdict(one)
            | {"fits": one.fits, "by_class": dict(zip(CLASSES, one.by_class, strict=True))}
            for one in timeline.memory
        ],
    }


def fullest(memory: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of ``memory_fields``' devices, or stages, the one with the largest share of its capacity."""
    return max(memory, key=lambda one: one["peak_bytes"] / one["capacity_bytes"])


def memory_rows(memory: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Rows of a table: every device or stage, and what the fullest holds, by class."""
    top = fullest(memory)
    for one in memory:
        use = DeviceMemory(**{key: value for key, value in one.items() if key != "fits"})
        over = "" if use.fits else f": {use.cores_over:,} of {use.cores:,} cores do not fit"
        yield f"memory, {use.device}", f"{use}{over}"
        if one is not top:
            continue
        yield "of it", in_words(one["by_class"])
        if use.reserve_bytes:
            yield "reserve", f"{readable(use.reserve_bytes)} that the step may not use"
        if not use.fits:
            largest = max(one["by_class"], key=one["by_class"].__getitem__)
            yield "to free", f"most of it {largest}: {FREES[largest]}"


FREES = {
    "weights": "split layers or features (pp, tp)",
    "optimizer": "share out the update (--zero 1), or split layers or features",
    "gradients": "split layers or features (pp, tp)",
    "activations": "compute them again (--recompute selective or full), or take fewer samples",
    "logits": "take fewer samples at a time, or split the vocabulary (tp)",
    "buffers": "take fewer samples at a time",
}
"""What makes each class of memory less."""


def in_words(by_class: Mapping[str, float]) -> str:
    """Bytes of each class, those that are nothing left out."""
    return ", ".join(f"{name} {readable(held)}" for name, held in by_class.items() if held >= 1)
