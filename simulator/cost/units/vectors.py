"""Cycles that a lane takes for an element of everything that is no product.

Those of WHAM's public program for forward and backward, by operator; what it does not
name is put together from what it does (GELU's erf, a cell's gates), or takes a cycle.
"""

from __future__ import annotations

from collections.abc import Iterable

from planners.order import Phase
from workloads import Layer
from workloads.kinds import CELLS, INPUT, PRODUCTS

FORWARD = {
    "relu": 1, "add": 1, "mul": 1, "batch_norm": 1, "dropout": 2, "div": 10, "softmax": 10,
    "mean": 10, "sigmoid": 12, "log_softmax": 13, "pow": 15, "sqrt": 15, "erf": 15, "tanh": 27,
}  # fmt: skip
"""Of one element of the output."""
BACKWARD = {
    "tanh": 2, "sigmoid": 2, "softmax": 2, "log_softmax": 2, "div": 10, "mean": 10, "pow": 16,
    "sqrt": 16,
}  # fmt: skip
_LIKE = {
    "gelu": "erf", "quick_gelu": "sigmoid", "silu": "sigmoid", "swish": "sigmoid",
    "hard_sigmoid": "relu", "hard_swish": "relu", "tanh_of_pairs": "tanh", "exp": "pow",
    "log": "pow", "rsqrt": "sqrt", "avg_pool": "mean",
}  # fmt: skip
"""Operators that take as long as others."""
_VIEWS = frozenset({"flatten", "reshape", "slice", "concat", "received", "sent", "shift"})
_CELL = {"lstm": (3 * 12 + 2 * 27 + 4, 5 * 2 + 8), "gru": (2 * 12 + 27 + 5, 3 * 2 + 8)}
"""Forward and backward of one element of a cell's output: its gates, and joining them."""
UPDATED = 6
"""Of a parameter in the update: two for its norms, four for momentum and the step."""


def element_cycles(layer: Layer, phase: Phase) -> float:
    """Lane cycles of one element of a layer's output; 0 for products and views."""
    if layer.kind in CELLS:
        return float(_CELL[layer.kind][phase is not Phase.FORWARD])
    word = layer.operator or layer.kind
    if layer.kind in PRODUCTS or word in _VIEWS:
        return 0.0
    if layer.kind == "max_pool":
        return float(layer.kernel_area if phase is Phase.FORWARD else 1)
    word = _LIKE.get(word, word)
    return float((FORWARD if phase is Phase.FORWARD else BACKWARD).get(word, 1))


def lane_cycles(layers: Iterable[Layer], phase: Phase) -> float:
    """Lane cycles of one sample of these layers."""
    return sum(element_cycles(layer, phase) * layer.output.elements for layer in layers)


def worked_by(layer: Layer, riders: Iterable[Layer], what: str, phase: Phase) -> float:
    """Lane cycles of one sample that an operator of a layer does: its own and its riders'.

    Riders are worked on when what they ride on is, forward and backward. What sums up
    (a batch norm's statistics, gradients of several readers) adds each element once.
    """
    if what:
        return 2.0 * layer.output.elements if phase is Phase.FORWARD else layer.output.elements
    if phase not in (Phase.FORWARD, Phase.BACKWARD) or layer.name == INPUT:
        return 0.0
    return lane_cycles((layer, *riders), phase)
