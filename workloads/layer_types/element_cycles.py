"""Cycles that a lane of a vector unit takes for an element of everything that is no product.

Those of WHAM's public program for forward and backward, by operator; what it does not
name is put together from what it does (GELU's erf), or takes a cycle.
"""

from __future__ import annotations

_FORWARD = {
    "relu": 1, "add": 1, "mul": 1, "batch_norm": 1, "dropout": 2, "div": 10, "softmax": 10,
    "mean": 10, "sigmoid": 12, "log_softmax": 13, "pow": 15, "sqrt": 15, "erf": 15, "tanh": 27,
}  # fmt: skip
"""Of one element of the output."""
_BACKWARD = {
    "tanh": 2, "sigmoid": 2, "softmax": 2, "log_softmax": 2, "div": 10, "mean": 10, "pow": 16,
    "sqrt": 16,
}  # fmt: skip
_LIKE = {
    "gelu": "erf", "quick_gelu": "sigmoid", "silu": "sigmoid", "swish": "sigmoid",
    "hard_sigmoid": "relu", "hard_swish": "relu", "tanh_of_pairs": "tanh", "exp": "pow",
    "log": "pow", "rsqrt": "sqrt", "avg_pool": "mean", "cross_entropy": "softmax",
    "eager_cross_entropy": "softmax", "vocab_parallel_cross_entropy": "softmax",
}  # fmt: skip
"""Operators that take as long as others."""
_FREE = frozenset({"flatten", "reshape", "slice", "concat", "received", "sent", "shift"})
"""Operators on which vector units spend nothing."""


def cycles_of(operator: str, *, forward: bool) -> float:
    """Lane cycles of one element of an operator's output."""
    if operator in _FREE:
        return 0.0
    return float((_FORWARD if forward else _BACKWARD).get(_LIKE.get(operator, operator), 1))
