"""What every front end reads a model into: operations on named tensors of known shapes.

ONNX files and torch modules are translated to a few verbs; one assembler turns
them into a network, so that both give the same one for the same model. A verb
takes its operands in this order, and these attributes:

- ``conv``: x, weight, [bias]; kernel, stride, padding, dilation, groups, transposed
- ``matmul``: a, b (either may be constant), [bias]; transposed (which operands)
- ``einsum``: a, b; equation
- ``attention``: q, k, v, [mask], [past k, past v]; heads, kv_heads where those are not a
  dimension; further (names of all keys, all values and scores, where those are read)
- ``experts``: x, a matrix for each expert, offsets, [bias]: each row of x meets one of them
- ``embedding``: table, ids
- ``embedding_bag``: table, ids, [offsets], [weights of ids]
- ``index``: x, ids; axes
- ``lstm``, ``gru``: x, trained tensors, states; hidden, directions, biased,
  batch_axis, split
- ``max_pool``, ``avg_pool``: x; kernel, stride, padding, dilation
- ``mean``: x; axes
- ``batch_norm``, ``relu``, ``softmax``: x, trained tensors
- ``add``, ``mul``: operands; ``concat``: operands; axis
- ``reshape``, ``expand``, ``slice``, ``transpose`` (perm), ``select`` (axis): views of x
- ``other``: operands; operator, channel_axis (where it is not as before), axes (that it sums)

Any may have a ``note``: why only its memory traffic is counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]
OF_PARAMETERS = "a product of parameters alone is not counted, nor its gradients"


@dataclass(frozen=True, slots=True)
class ModelOperation:
    """One operation; ``inputs`` may hold "" where an optional one is left out.

    ``outputs`` has the shape of every tensor it makes, by name.
    """

    name: str
    verb: str
    inputs: tuple[str, ...]
    outputs: Mapping[str, Shape]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> Shape:
        """The shape of the first output."""
        return next(iter(self.outputs.values()))


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor that depends on no input; ``trained`` names the parameters it is made of.

    ``part`` tells parts of the same parameters apart: "" is all of them. Where the first dimension
    is of copies of one and the same, ``copies`` is their number, else 0.
    """

    shape: Shape
    trained: Mapping[str, int] = field(default_factory=dict)
    """Elements of each."""
    part: str = ""
    copies: int = 0

    @staticmethod
    def of(how: str, shape: Shape, constants: Sequence[Constant]) -> Constant:
        """What is made of constants alone: a part of them where it has fewer elements.

        The same part where it is made in the same way, ``how``; a product ("") is of all.
        """
        trained = {key: n for one in constants for key, n in one.trained.items()}
        own = [math.prod(one.shape) for one in constants if one.trained]
        largest = max(own, default=0)
        above = next((one.part for one in constants if one.part), "")
        part = f"{above}/{how}" if how and math.prod(shape) < largest else above
        first = shape[0] if len(shape) > 2 else 0
        copied = first > 1 and len(own) == 1 and math.prod(shape) == first * largest
        kept = any(one.copies == first for one in constants)
        return Constant(shape, trained, part, first if copied or kept else 0)


@dataclass(frozen=True, slots=True)
class Model:
    """A model before it is a network.

    ``batch`` is the number of samples its shapes are for; the first dimension
    of an input is the batch where it has that size. ``whole`` names inputs
    whose elements are counted whole (token ids, masks): they have no channels.
    ``origin`` is what messages call it: the file's path.
    """

    name: str
    origin: str
    inputs: Mapping[str, Shape]
    constants: Mapping[str, Constant]
    operations: tuple[ModelOperation, ...]
    batch: int = 1
    whole: frozenset[str] = frozenset()
    description: str = ""
    notes: tuple[str, ...] = ()


def printable(name: str) -> str:
    """A stranger's name, with escapes for what would steer a terminal (controls, line ends)."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
