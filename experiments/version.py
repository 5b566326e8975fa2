"""Which version this is."""

from __future__ import annotations


def version() -> str:
    """The installed version; "unknown" in a checkout that is not installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    try:
        return of("accelarray")
    except PackageNotFoundError:
        return "unknown"
