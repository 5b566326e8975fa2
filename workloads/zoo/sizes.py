"""Sizes of published transformers, each with its source: those of ``sizes.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import resources
from typing import Any

from workloads.zoo.transformers import Transformer


def _read() -> Iterator[Transformer]:
    """Every description of the file: what its family has in common, and its own values."""
    tables = tomllib.loads(resources.files(__package__).joinpath("sizes.toml").read_text("utf-8"))
    families: dict[str, dict[str, Any]] = {"": {}}
    for name, values in tables["families"].items():
        families[name] = families[values.pop("like", "")] | values
    for name, values in tables["models"].items():
        yield Transformer(name, **families[values.pop("family")] | values)


SIZES: dict[str, Transformer] = {of.name: of for of in _read()}
"""Every published size by name; those that the zoo had first come first."""
