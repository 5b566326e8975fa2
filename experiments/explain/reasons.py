"""Why a changed value of the spec leaves a step as long as it was, from facts about the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from experiments.studies.case import Case
from hardware import Array, wires_of

SAME = 1e-3
"""Steps whose lengths differ by less than this fraction count as equally long."""
SLIGHT = 2 * SAME
"""Of the critical path; what is no larger cannot change it by more than SAME when halved."""

BOUND_OF = {
    "core": "FLOPs",
    "hbm": "HBM",
    "element": "HBM",
    "formats": "HBM",
    "overhead": "overhead",
    "port": "links",
    "wires": "links",
    "latency": "latency",
}
"""Topic to what time of the critical path it would change."""
WORDS = {
    "FLOPs": "computing bound by FLOPs",
    "HBM": "computing bound by HBM traffic",
    "overhead": "fixed overhead of operators",
    "links": "exchanges that move bytes",
    "latency": "latency of messages",
}
"""What a part of the critical path is, in words."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A step as reasons see it: its case, and fractions of its critical path (BOUNDS)."""

    case: Case
    bounds: Mapping[str, float]


def topic_of(key: str) -> str:
    """What a key of a spec is about; "" for what nothing special is known of."""
    parts = key.split(".")
    if parts[0] == "devices" and len(parts) > 2:
        parts = parts[2:]
    key = ".".join(parts)
    if key in _TOPICS:
        return _TOPICS[key]
    return _TOPICS_OF_TABLES.get(parts[0], "")


_TOPICS_OF_TABLES = {
    "topology": "wires",
    "links": "wires",
    "energy": "energy",
    "arithmetic": "formats",
    "chip": "core",
    "units": "core",
}
_TOPICS = {
    "arithmetic.element": "element",
    "arithmetic.compute": "core",
    "arithmetic.fused": "fused",
    "chip.cores": "",
    "hbm.capacity": "capacity",
    "hbm.bandwidth": "hbm",
    "chip.peak": "core",
    "network.bandwidth": "port",
    "network.latency": "latency",
    "links.latency": "latency",
    "topology.latency": "latency",
    "roofline.matrix_efficiency": "core",
    "roofline.pad_matrix_unit": "padding",
    "roofline.memory_efficiency": "hbm",
    "roofline.tile": "padding",
    "roofline.overhead": "overhead",
}


def why_nothing(key: str, before: Facts, after: Facts) -> str:
    """One sentence: why the step with ``key`` changed (``after``) is as long as ``before``."""
    topic, ignores = topic_of(key), before.case.execution.ignores
    if _same_machine(before.case.array, after.case.array):
        if _other_peak(key, before.case.array, after.case.array):
            return "products are computed in another format, which has a peak of its own"
        return "it is what the spec says anyway"
    if topic == "energy":
        return "energies count joules, not time"
    for ignored in ("roofline" if "roofline." in key else topic, topic):
        if ignored in ignores:
            return ignores[ignored]
    if topic == "capacity":
        return "hbm.capacity matters only for whether the plan fits"
    if "wires" not in ignores and topic in ("port", "wires", "latency"):
        reason = _unused(key, topic, before.case.array, after.case.array)
        if reason:
            return reason
    if topic == "padding":
        topic = "hbm" if key.endswith("tile") else "core"
    if topic not in BOUND_OF:
        return "what it changes is not on the critical path"
    bound = "links" if topic == "element" and "formats" in ignores else BOUND_OF[topic]
    return _not_on_the_path(bound, before.bounds)


def _same_machine(first: Array, second: Array) -> bool:
    return (first.group.kinds, first.topology) == (second.group.kinds, second.topology)


def _other_peak(key: str, first: Array, second: Array) -> bool:
    """Whether a peak was really changed, in a format in which nothing is computed."""
    values = [{s.key: s.value for s in array.settings}.get(key) for array in (first, second)]
    return "chip.peak" in key and values[0] != values[1]


def _unused(key: str, topic: str, first: Array, second: Array) -> str | None:
    """Why no wire is another one, if none is."""
    before, after = wires_of(first), wires_of(second)
    if len(before.bandwidth) != len(after.bandwidth):
        return None
    latency = topic == "latency"
    pair = (before.latency_s, after.latency_s) if latency else (before.bandwidth, after.bandwidth)
    if not np.array_equal(*pair) or before.names != after.names:
        return None
    what = "latency" if latency else "bandwidth"
    topology = second.topology
    if "topology." not in key and getattr(topology, "latency_s" if latency else "bytes_per_s"):
        return f"topology.{what} of this array stands in its place"
    if "network." in key and topology.joins == "chips":
        return "chips are joined to chips here: no message crosses a board's network port"
    return f"no link of a {topology.kind} of {topology.joins} has another {what} through it"


def _not_on_the_path(bound: str, bounds: Mapping[str, float]) -> str:
    share = bounds[bound]
    if bound == "links" and share + bounds["latency"] == 0:
        return "all exchanges are hidden behind computing: none is on the critical path"
    largest = max(bounds, key=bounds.__getitem__)
    if share <= SLIGHT:
        much = f"{share:.2%}" if share else "nothing"
        return (
            f"{WORDS[bound]} is {much} of the critical path; "
            f"{bounds[largest]:.1%} of it is {WORDS[largest]}"
        ).replace("exchanges that move bytes is", "exchanges that move bytes are")
    return (
        f"{WORDS[bound]} are {share:.1%} of the critical path, but not those that this changes: "
        "others last as long"
    )
