"""The words that layers are made of: kinds of operators, shapes, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

CELLS = {"lstm": 4, "gru": 3}
"""Recurrent cells, with the number of their gates."""
WEIGHTED = frozenset({"conv", "fc", "embedding", *CELLS})
ATTENTION = "attention"
"""Softmax(Q K^T) V in one operator, whose scores never leave the chip."""
COMPUTED = frozenset({"matmul", ATTENTION})
"""Products of computed operands, without weights."""
PRODUCTS = WEIGHTED | COMPUTED
JOINS = frozenset({"add", "mul", "concat"})
UNARY = frozenset({"max_pool", "avg_pool", "batch_norm", "relu", "softmax", "flatten"})
OTHER = "other"
"""Any further unweighted operator, of one or more inputs; ``operator`` says which."""
KINDS = PRODUCTS | JOINS | UNARY | {OTHER}

RECEIVED, SENT = "received", "sent"
"""Operators of what enters a stage of a network from another one, and of what leaves it."""
DISPATCH, COMBINE = "dispatch", "combine"
"""Operators that bring tokens to the experts a router chose for them, and their results back."""
LOSS = "cross_entropy"
"""The operator of a loss over a vocabulary, whose probabilities are kept in float32."""

INPUT = "input"
"""The name by which layers refer to whatever enters the network."""

Sides = int | tuple[int, int]
"""One number for both sides of a window, or (height, width)."""


class NetworkError(ValueError):
    """A network, or a file that describes one, is malformed."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape of one sample's feature map; a vector has height and width 1."""

    channels: int
    height: int = 1
    width: int = 1

    @property
    def area(self) -> int:
        """Elements of one channel."""
        return self.height * self.width

    @property
    def elements(self) -> int:
        """Elements of one sample."""
        return self.channels * self.area

    def __str__(self) -> str:
        return f"{self.channels}x{self.height}x{self.width}"


def sides(value: Sides) -> tuple[int, int]:
    """Height and width of a window's measure."""
    return value if isinstance(value, tuple) else (value, value)
