"""Which version this is."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

SOURCES = ("hardware", "workloads", "planners", "simulator", "experiments/studies")
"""What decides the outputs of a case."""


@cache
def model() -> str:
    """Which model this is: its version and the first digits of a digest of its sources.

    So two checkouts of one version with different code are told apart.
    """
    from simulator import MODEL_VERSION

    here, digest = Path(__file__).parents[1], hashlib.sha256()
    for package in SOURCES:
        for path in sorted((here / package).rglob("*")):
            if path.suffix in (".py", ".toml"):
                digest.update(f"{path.relative_to(here).as_posix()}\n".encode())
                digest.update(path.read_bytes())
    return f"accelarray {version()}, model {MODEL_VERSION}, sources {digest.hexdigest()[:12]}"


def version() -> str:
    """The installed version; "unknown" in a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    try:
        return of("accelarray")
    except PackageNotFoundError:
        return "unknown"
