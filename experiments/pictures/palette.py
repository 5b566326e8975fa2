"""One colour for one thing, in every picture and on the report's page.

Neighbours differ for colour-blind readers and in grey, which the tests simulate.
"""

from __future__ import annotations

SERIES = ("#4477aa", "#ccbb44", "#228833", "#ee6677", "#66ccee", "#aa3377", "#bbbbbb")
"""Planners, and other lines: Paul Tol's bright scheme, ordered so that neighbours differ in grey.

``figures.PLANNERS`` have the colour at their place for themselves.
"""
COMPUTE, EXPOSED, IDLE = "#4477aa", "#ee6677", "#dddddd"
"""Compute, exposed communication, and devices that wait or have no work."""
SPENT = {"computing": COMPUTE, "exposed": EXPOSED, "waiting": IDLE}
BOUNDS = {
    "FLOPs": COMPUTE,
    "HBM": "#66ccee",
    "overhead": "#5d5415",
    "links": EXPOSED,
    "latency": "#fbd0d5",
}
"""What limits parts of a critical path."""
PHASES = {
    "forward": ("#1d4e79", "#4f8ac4", "#c3d8ee"),
    "backward": ("#2f7d3a", "#6abf78", "#cdeccf"),
    "gradient": ("#7a1626", "#e5707e", "#f9d0d5"),
    "update": ("#7d5fb5", "#a991d6", "#ddd2f0"),
    "recompute": ("#b07d1c", "#d9ac4f", "#f1e2c0"),
}
"""Phase to three shades: compute, sums, and what is redistributed, sent or gathered."""
OTHER = ("#444444", "#888888", "#cccccc")
TYPES = {"I": "#4477aa", "II": "#f0b95a", "III": "#6aae77", "IV": "#b07cc6", "V": "#a04a4a"}
"""AccPar's types of partition, and ours of groups and positions."""


def css() -> str:
    """The same as variables of a page's style."""
    found = dict[str, str]()
    for name, (dark, middle, _) in PHASES.items():
        found |= {name: dark, f"light-{name}": middle}
    found |= TYPES
    for prefix, colours in (("s", SERIES), ("b", BOUNDS.values())):
        found |= {f"{prefix}{number}": colour for number, colour in enumerate(colours)}
    return ":root { " + " ".join(f"--{name}: {colour};" for name, colour in found.items()) + " }\n"
