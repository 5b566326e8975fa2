"""When it happens: SimPy processes for cores, HBM and links, and their records.

Accelerations give the same result sooner. Each asks here, by its name, whenever it could be used;
docs/explanation/engine.md lists them. A run without them is what they are compared with:

    ACCELARRAY_PLAIN=1 python -m tests.digests --quick
    ACCELARRAY_PLAIN=blocks accelarray simulate ...     only this one is off
"""

from __future__ import annotations

import os

VARIABLE = "ACCELARRAY_PLAIN"
"""Of the environment: "1" for all accelerations, or the names of some with commas between."""


def accelerated(name: str) -> bool:
    """Return whether the acceleration of this name may be used."""
    off = os.environ.get(VARIABLE, "")
    return off != "1" and name not in off.split(",")
