"""A training job in our words, whichever tool's file it is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from experiments.encodings import comment
from experiments.output import to_toml
from hardware.reader import shown
from planners import Axes
from workloads import Transformer
from workloads.importers.fields import Fields

ORDER = ("batch", "precision", "optimizer", "parallel", "zero", "micro_batch", "recompute")
DTYPES = {"bf16": "bfloat16", "fp32": "float32", "fp16": "float16"}
"""Formats, as torch and JAX call them."""
USUAL_NODE = 8
"""Devices of most servers."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is trained, and how it is split.

    ``network`` is a name or a path; where it is "", ``sizes`` are a transformer's. ``axes``
    have a dp of 0 where a file does not say it. ``options`` are of ours, by their flags. Of its
    devices ``node`` are started together (0: not known), and ``slice`` are joined by the fastest
    network (0: all of them).
    """

    network: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    axes: Axes = Axes()  # noqa: RUF009  (a frozen value)
    options: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    node: int = USUAL_NODE
    slice: int = 0
    tokens: int = 0
    """Of a sample, where sizes do not say it and it is known."""

    @property
    def values(self) -> dict[str, Any]:
        """Keys of ``--config`` and their values; the sizes are a table of their own."""
        found = {"network": self.network} if self.network else {}
        found |= {"parallel": str(self.axes)} if self.axes != Axes() else {}
        found |= self.options
        first = {key: found[key] for key in ("network", *ORDER) if key in found}
        return first | found | ({"transformer": dict(self.sizes)} if self.sizes else {})

    def to_toml(self, title: str = "") -> str:
        """A file for ``--config``, with the notes as comments."""
        remarks = [f"{comment(line)}\n" for line in (title, *self.notes) if line]
        return "".join([*remarks, to_toml(self.values)])


def dtype_read(one: Fields, name: str) -> str:
    """Our format for a file's one; bf16 where it is none of ``DTYPES``."""
    word = str(one.take(name, otherwise="bfloat16"))
    return next((ours for ours, theirs in DTYPES.items() if theirs == word), "bf16")


def optimizer_read(one: Fields, *names: str) -> str:
    """Our optimizer for a file's one; where it is neither Adam nor SGD, a note says so."""
    name = next((name for name in names if name in one.left), names[0])
    word = str(one.take(*names, otherwise="adam"))
    if word.lower() == "sgd":
        return "sgd"
    if "adam" not in word.lower():
        one.notes.append(f"{one.path}: {name} = {shown(word)}: read as adam; see --optimizer")
    return "adam"


def sizes_of(of: Transformer) -> dict[str, Any]:
    """A description's values, without those that are usual."""
    usual = Transformer(of.name, of.layers, of.hidden, of.heads, of.vocab)
    needed = ("name", "layers", "hidden", "heads", "vocab", "seq")
    return {
        one.name: getattr(of, one.name)
        for one in fields(of)
        if one.name in needed or getattr(of, one.name) != getattr(usual, one.name)
        if one.name != "source"
    }
