"""Stages that are the same but for the names of their layers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from operator import attrgetter

from workloads.kept import once_for_each
from workloads.kinds import INPUT
from workloads.layers import Layer, Network
from workloads.stages import Cut

_NAMES = ("name", "inputs", "shared")
_OTHERS = attrgetter(*(field.name for field in fields(Layer) if field.name not in _NAMES))


def unnamed(network: Network) -> Hashable:
    """A network without names: its layers call each other by number."""
    number = {INPUT: -1, "": -2} | {layer.name: i for i, layer in enumerate(network.layers)}
    layers = [
        (_OTHERS(layer), tuple(number[name] for name in layer.inputs), number[layer.shared])
        for layer in network.layers
    ]
    return network.input, tuple(layers)


@once_for_each
def first_alike(cut: Cut) -> tuple[int, ...]:
    """Of each stage the first one that is the same without names: it itself, or an earlier one."""
    seen: dict[Hashable, int] = {}
    return tuple(seen.setdefault(unnamed(one), k) for k, one in enumerate(cut.networks))
