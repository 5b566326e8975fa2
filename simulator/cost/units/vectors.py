"""Cycles that lanes of vector units take for operators; a layer's type has those of an element."""

from __future__ import annotations

from collections.abc import Iterable

from planners.order import Phase
from workloads import Layer
from workloads.tensors import INPUT

UPDATED = 6
"""Of a parameter in the update: two for its norms, four for momentum and the step."""


def lane_cycles(layers: Iterable[Layer], phase: Phase) -> float:
    """Lane cycles of one sample of these layers."""
    forward = phase is Phase.FORWARD
    return sum(
        layer.type.element_cycles(layer, forward=forward) * layer.output.elements
        for layer in layers
    )


def worked_by(layer: Layer, fused_readers: Iterable[Layer], what: str, phase: Phase) -> float:
    """Lane cycles of one sample that an operator of a layer does: with those fused to it.

    Fused layers are worked on when the layer is, forward and backward. What sums up
    (a batch norm's statistics, gradients of several readers) adds each element once.
    """
    if what:
        return 2.0 * layer.output.elements if phase is Phase.FORWARD else layer.output.elements
    if phase not in (Phase.FORWARD, Phase.BACKWARD) or layer.name == INPUT:
        return 0.0
    return lane_cycles((layer, *fused_readers), phase)
