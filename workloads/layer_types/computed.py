"""Products of what other layers compute, without weights: of two matrices, and attention.

Heads that share one k x n matrix (grouped-query attention) stay together: to planners they
are more positions of one group.
"""

from __future__ import annotations

from workloads.layer_types.base import (
    FLOAT_BYTES,
    Dimensions,
    Kept,
    Layer,
    LayerType,
    Operand,
    Role,
    Step,
    register,
)
from workloads.layer_types.element_cycles import cycles_of
from workloads.tensors import Tensor


class Computed(LayerType):
    """A product of computed operands, for each sample and group."""

    computed = True
    sums_error = True
    shardable: tuple[str, ...] = ("samples", "groups", "positions")
    keys: tuple[str, ...] = ("features", "groups")

    def output(self, layer: Layer, features: int) -> Tensor:
        return Tensor(features, layer.input.height, layer.input.width)

    def _by(self, layer: Layer, groups: int) -> Dimensions:
        """Dimensions where ``groups`` have matrices of their own."""
        k, n = layer.input.channels // layer.groups, layer.output.channels // layer.groups
        rows = layer.input.area * (layer.groups // groups)
        operand = sum(shape.elements for shape in layer.operands[1:])
        return Dimensions(groups, groups * k, groups * n, rows, rows, operand)


@register
class Matmul(Computed):
    """In each group, positions x k times k x n."""

    name = "matmul"
    inputs = 2
    reads = "two inputs"

    def problem(self, layer: Layer) -> str | None:
        """The second operand must be whole k x n matrices, each serving as many groups."""
        right, groups = layer.operands[1].elements, layer.groups
        matrix = (layer.input.channels // groups) * (layer.output.channels // groups)
        matrices = right // matrix
        if right % matrix or groups % max(matrices, 1) or layer.input.area != layer.output.area:
            second = layer.operands[1]
            return f"{layer.input} times {second} in {groups} groups is not {layer.output}"
        return None

    def dimensions(self, layer: Layer) -> Dimensions:
        k, n = layer.input.channels // layer.groups, layer.output.channels // layer.groups
        return self._by(layer, layer.operands[1].elements // (k * n))

    def macs(self, layer: Layer) -> int:
        return layer.input.elements * layer.output.channels // layer.groups

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        """The gradient of one operand is a product with the other one."""
        return (Step((Role.ERROR, Operand(1)), (Operand(0),), products=1.0),)

    def gradient(self, layer: Layer) -> tuple[Step, ...]:
        return (Step((Role.ERROR, Operand(0)), (Operand(1),), products=1.0),)


BACKWARD_EXPONENTIALS = 2
"""As many for each score take as long as fused attention's backward does beside its products."""


@register
class Attention(Computed):
    """Softmax(Q K^T) V in one operator, whose scores never leave the chip.

    A fused kernel (FlashAttention, Dao et al. 2022) keeps queries, keys, values, the result
    and a logarithm for each of its rows; it computes the scores again backward. Forward takes one
    exponential of each score. Backward takes as long as two: one, and its product with the
    score's error (measured on an H100: 2.3 in cuDNN, 1.6 in FlashAttention-2). Blocks of keys add
    to the queries' gradient in float32. A kernel before them clears it, and sums the result
    times its error by rows; a kernel behind them casts it
    (Dao-AILab/flash-attention, csrc/flash_attn/src/flash_bwd_preprocess_kernel.h).
    """

    name = "attention"
    inputs = 3
    reads = "queries, keys and values"
    softmax_kernel = True

    def problem(self, layer: Layer) -> str | None:
        """Keys have a head's query features, values its outputs, each of as many positions."""
        query, key, value = layer.operands
        each, made = query.channels // layer.groups, layer.output.channels // layer.groups
        heads = value.channels // made
        fits = heads * made == value.channels and heads * each == key.channels
        same = key.area == value.area and query.area == layer.output.area
        if not (fits and same and heads and layer.groups % heads == 0):
            return (
                f"queries {query}, keys {key} and values {value} in {layer.groups} heads do not fit"
            )
        return None

    def dimensions(self, layer: Layer) -> Dimensions:
        """Forward S = Q K^T and O = P V.

        Backward S again, P's error by O's and V, and those of Q, K and V: with as many
        features in values as in keys 2.5 times as many multiply-accumulates. Of 4 positions in
        causal attention the first sees 1, the last 4: 10 of 16 pairs.
        """
        value, made = layer.operands[2], layer.output.channels // layer.groups
        of, area = self._by(layer, value.channels // made), layer.operands[1].area
        work = (area + 1) / (2 * area) if layer.causal else 1.0
        keys, values = of.in_channels, of.out_channels
        forward = work * of.in_area * of.operand
        backward = forward * (3 * keys + 2 * values) / (keys + values)
        return of._replace(work=work, fused=(forward, backward))

    def macs(self, layer: Layer) -> int:
        both = layer.input.channels + layer.output.channels
        return layer.input.area * layer.operands[1].area * both

    def forward(self, layer: Layer) -> tuple[Step, ...]:
        writes = (Role.OUTPUT, _of_rows(layer, "logarithms"))
        return (Step((Role.INPUTS,), writes, products=1.0, exponentials=_scores(layer)),)

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        """The scores anew, then the errors of all operands, between two kernels without products.

        What the last kernel writes, the queries' gradient, is counted with the products.
        """
        ahead, back = self.dimensions(layer).fused
        sums, logarithms = _of_rows(layer, "sums"), _of_rows(layer, "logarithms")
        added = Kept("sums of its queries' gradient", layer.input.channels, FLOAT_BYTES)
        return (
            Step((Role.ERROR, Role.OUTPUT), (sums, added), what="backward sums", times=0),
            Step(
                (Role.ERROR, Role.INPUTS, logarithms, sums, added),
                (Role.ERRORS, added),
                products=back / ahead,
                exponentials=BACKWARD_EXPONENTIALS * _scores(layer),
            ),
            Step((added,), what="backward cast", times=0),
        )

    def element_cycles(self, layer: Layer, *, forward: bool) -> float:
        """Those of a softmax of the scores, which backward makes anew."""
        scores = self.dimensions(layer).fused[0] * _scores(layer)
        each = cycles_of("softmax", forward=True)
        each += 0.0 if forward else cycles_of("softmax", forward=False)
        return each * scores / layer.output.elements


def _scores(layer: Layer) -> float:
    """Scores for each multiply-accumulate of its two products: 1 / 256 with 128 features a head."""
    _, key, value = layer.operands
    made = layer.output.channels // layer.groups
    return 1 / (key.channels // (value.channels // made) + made)


def _of_rows(layer: Layer, what: str) -> Kept:
    """A number for each row of a head: its exponentials' sum's logarithm, or another sum."""
    return Kept(what, layer.groups, FLOAT_BYTES)
