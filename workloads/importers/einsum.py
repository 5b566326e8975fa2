"""Einstein sums: where two operands meet in a matrix product, that product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from workloads.importers.assembler import Assembler, Value
from workloads.importers.dims import Dims, reshaped
from workloads.importers.matmuls import computed, linear
from workloads.importers.neutral import Constant, ModelOperation


@dataclass(frozen=True, slots=True)
class _Labels:
    """Labels of both operands and the result, an ellipsis written out."""

    left: str
    right: str
    result: str

    @property
    def product(self) -> bool:
        """Whether every label is summed over both, or kept from one or both."""
        one, two, result = map(set, (self.left, self.right, self.result))
        once = len(one) + len(two) + len(result)
        apart = once == len(self.left + self.right + self.result)
        return apart and one ^ two <= result <= one | two

    @property
    def batch(self) -> str:
        """Kept from both."""
        return "".join(c for c in self.left if c in self.right and c in self.result)

    @property
    def rows(self) -> str:
        """In the left operand alone."""
        return "".join(c for c in self.left if c not in self.right)

    @property
    def depth(self) -> str:
        """Summed over."""
        return "".join(c for c in self.left if c in self.right and c not in self.result)

    @property
    def columns(self) -> str:
        """In the right operand alone."""
        return "".join(c for c in self.right if c not in self.left)


def einsum(assembler: Assembler, operation: ModelOperation) -> None:
    """A product of two operands, a constant one on either side; anything else an operator."""
    operands = assembler.operands(operation)
    labels = _labels(operation.attributes["equation"], [len(v.shape) for v in operands])
    if labels is not None and isinstance(operands[0], Constant):
        operands, labels = operands[::-1], _Labels(labels.right, labels.left, labels.result)
    if labels is None or not labels.product:
        equation = operation.attributes["equation"]
        assembler.warn(operation, f"Einsum {equation!r}, which is no matrix product")
        assembler.other(operation)
        return
    left, right = operands
    size = dict(zip(labels.left + labels.right, left.shape + right.shape, strict=True))
    output = next(iter(operation.outputs))
    batch = [size[c] for c in labels.batch]
    merged = [math.prod(size[c] for c in group) for group in (labels.rows, labels.columns)]
    product = replace(operation, inputs=(), outputs={output: (*batch, *merged)})
    _multiply(assembler, product, labels, left, right)
    made = assembler.made_before(output)
    order = labels.batch + labels.rows + labels.columns
    apart = dict(zip(order, reshaped(made.dims, [size[c] for c in order]), strict=True))
    dims = tuple(apart[c] for c in labels.result)
    assembler.values[output] = replace(made, dims=dims)


def _multiply(
    assembler: Assembler,
    product: ModelOperation,
    labels: _Labels,
    left: Value | Constant,
    right: Value | Constant,
) -> None:
    if not isinstance(left, Value):
        return
    first = _gathered(left.dims, labels.left, labels.batch, labels.rows, labels.depth)
    one = replace(left, dims=first)
    if isinstance(right, Constant):
        linear(assembler, product, one, right)
        return
    second = _gathered(right.dims, labels.right, labels.batch, labels.depth, labels.columns)
    computed(assembler, product, one, replace(right, dims=second))


def _gathered(dims: Dims, labels: str, batch: str, *merged: str) -> Dims:
    """Batch dimensions as they are, then one dimension for each group of labels."""
    of = dict(zip(labels, dims, strict=True))
    joined = [tuple(factor for c in group for factor in of[c]) for group in merged]
    return (*(of[c] for c in batch), *joined)


def _labels(equation: str, ranks: Sequence[int]) -> _Labels | None:
    """None where there are not two operands and a result."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != 2 or len(ranks) != 2:
        return None
    free = "".join(chr(0x1F00 + i) for i in range(64))  # letters no equation has
    spans = [
        rank - len(term.replace("...", "")) if "..." in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    full = [t.replace("...", free[64 - n :]) for t, n in zip(terms, spans, strict=True)]
    return _Labels(full[0], full[1], result.replace("...", free[64 - max(spans) :]))
