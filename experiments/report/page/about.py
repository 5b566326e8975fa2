"""The specs with their sources, and what made the page."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from experiments.report.page.markup import Markup, section, table, tag
from hardware import Array
from simulator import MODEL_VERSION


def specs(arrays: list[Array]) -> Markup:
    """Every value of each array, and where it is from."""
    return section("specs", "Specs and their sources", *(part for a in arrays for part in _spec(a)))


def _spec(array: Array) -> Iterator[Markup]:
    yield tag("h3", array.name)
    if array.description:
        yield tag("p", array.description)
    if array.settings:
        rows = [(setting.key, setting.value, setting.source) for setting in array.settings]
        yield table(f"Spec of {array.name}", ("key", "value", "source"), rows, kind="words")
    else:
        yield tag("p", "This array was made in Python, not from a spec.", class_="note")


def made_by(command: str) -> Markup:
    """Versions, and the command."""
    rows = [
        ("accelarray", _version("accelarray")),
        ("execution model", f"version {MODEL_VERSION}"),
        ("Python", platform.python_version()),
        ("SimPy", _version("simpy")),
        ("NumPy", _version("numpy")),
    ]
    versions = table("Versions", ("what", "version"), rows, kind="words")
    made = (tag("p", "Made by"), tag("pre", tag("code", command), tabindex=0)) if command else ()
    return section("made", "Versions and command", versions, *made)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
