"""Unweighted operators without a type of their own, told apart by ``Layer.operator``.

Only their memory traffic counts. What is known of the words is here: which of them are
views, which are done by element in passing, which need values backward, and those with a
meaning of their own (a stage's boundary, tokens to experts, a loss).
"""

from __future__ import annotations

import re

from workloads.layer_types.base import (
    FLOAT_BYTES,
    STATISTICS,
    Kept,
    Layer,
    LayerType,
    Role,
    Step,
    register,
)
from workloads.layer_types.element_cycles import cycles_of

OTHER = "other"
RECEIVED, SENT = "received", "sent"
"""Operators of what enters a stage of a network from another one, and of what leaves it."""
WRITE = "write"
"""The operator of a tensor with a part in it that another operator has written."""
DISPATCH, COMBINE = "dispatch", "combine"
"""Operators that bring tokens to the experts a router chose for them, and their results back."""
EXPERT_GLU, EXPERT_BIAS, MASKED_FILL = "expert_glu", "expert_bias", "masked_fill"
KERNELS = {
    EXPERT_GLU: ((11, 11), (23, 14)),
    EXPERT_BIAS: ((7, 7), (12, 8)),
    MASKED_FILL: ((1, 1), (6, 7)),
}
"""What biased, clamped experts do in kernels of their own: how often they read and write what a
product makes, in 2 B, forward and backward; of the gated product besides ``mul``. Counted in
NVIDIA/Megatron-LM, core/transformer/moe/experts.py: each row of the gated product gets its bias
(a sum and a copy, of twice the width), two clamps, quick GELU, an offset, and its probability, in
float32 and back. What the second product makes gets bias x probability: a sum and a copy in
float32, cast back. Backward has the same, sums for each bias and probability, and no copies that
are views.

A mask filled in place into a view of the scores (NVIDIA/Megatron-LM, attention_mask_func) reads and
writes them once. Backward PyTorch copies the gradient into zeros (AsStridedBackward), copies that,
clones the view's part, clones it again and fills the clone, and copies it back (CopySlices). The
mask itself is one for all heads and samples and stays in the cache."""
LOSS = "cross_entropy"
"""The operator of a loss over a vocabulary, whose probabilities are kept in float32."""
FORWARD_CAST, BACKWARD_CAST = "forward cast", "backward cast"
"""What a loss does to logits that are no float32, and to their gradients."""
EAGER_LOSS = "eager_cross_entropy"
"""The same by eager PyTorch, which has three float32 tensors as large as the logits at once.

Backward these are the logarithms of the probabilities, their gradients, and those of the logits;
forward a copy of the logits and the logarithms. pytorch/torchtitan until 2024: ``output.float()``,
then ``torch.nn.functional.cross_entropy``.
"""
LOSS_IN_KERNELS = "vocab_parallel_cross_entropy"
"""The same by Megatron: five kernels, which read float32 logits five times and write them thrice.

NVIDIA/Megatron-LM, core/tensor_parallel/cross_entropy.py, forward, in place: the largest of a row
(read), that subtracted (read and written), exponentials (read and written), their sum (read), and
each divided by it (read and written).
"""
NORMS = frozenset({"layer_norm", "rms_norm", "batch_norm"})
"""Operators with a vector of weights, whose kernels write narrow numbers, too."""
DROPOUT = "dropout"
"""Its mask is written forward and read backward, a byte for each element."""

_VIEWS = "flatten reshape view transpose permute squeeze unsqueeze identity slice split shift"
VIEWS = frozenset(_VIEWS.split())
"""Other ways to see a tensor, or a part of it: nothing is computed."""
_LINEAR = "add_table add sub neg scale div mul cast dropout rotary"
LINEAR = frozenset(_LINEAR.split())
"""Element-wise with constants or masks: backward needs no values."""
MOVING = re.compile(
    "(constant_pad|reflection_pad|replication_pad|zero_pad|pad|roll|flip|pixel_shuffle|"
    "pixel_unshuffle|depth_to_space|space_to_depth|upsample|resize|interpolate|cat|concat|stack|"
    "repeat|tile|copy|fill|write|index_select|gather)(_|\\d|$)"
)
"""How operators that only move numbers are called, or begin: backward needs no values."""
_CURVED = """
    relu relu6 leaky_relu prelu elu selu celu gelu quick_gelu silu swish mish sigmoid hardsigmoid
    hard_sigmoid hardswish hard_swish hardtanh tanh softplus softsign clip clamp abs erf exp log
    squared_relu pow sqrt rsqrt reciprocal sin cos
"""
CURVED = frozenset(_CURVED.split())
"""Element-wise operators whose backward needs values."""
_DERIVED = frozenset({"relu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "reciprocal"})
"""Of these, what is derived from its result (PyTorch, tools/autograd/derivatives.yaml)."""


@register
class Other(LayerType):
    """Any further unweighted operator, of one or more inputs."""

    name = OTHER
    inputs = None
    reads = "one input"
    fusible = True

    def forward(self, layer: Layer) -> tuple[Step, ...]:
        """A loss casts its logits to float32, then makes probabilities of them in place."""
        if layer.operator in (RECEIVED, SENT, WRITE):
            return ()
        if layer.operator == "batch_norm":
            return Step((Role.INPUTS,), what=STATISTICS), *super().forward(layer)
        if layer.operator in KERNELS:
            reads, writes = KERNELS[layer.operator][0]
            return (Step((Role.INPUTS,) * reads, (Role.OUTPUT,) * writes),)
        if layer.operator == LOSS:
            kept = _probabilities(layer)
            return Step((Role.INPUTS,), (kept,), what=FORWARD_CAST), Step((kept, kept))
        if layer.operator == LOSS_IN_KERNELS:
            kept = _probabilities(layer)
            return Step((Role.INPUTS,), (kept,), what=FORWARD_CAST), Step((kept,) * 8, times=5)
        if layer.operator == EAGER_LOSS:
            wide, kept = _wide(layer, "float logits"), _probabilities(layer)
            return Step((Role.INPUTS,), (wide,), what=FORWARD_CAST), Step((wide,), (kept,))
        return super().forward(layer)

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        """What is sent gets its gradient from the stage that read it."""
        if not needed or layer.operator == SENT:
            return ()
        if layer.operator in (LOSS, LOSS_IN_KERNELS):
            kept = _probabilities(layer)
            return Step((kept, kept)), Step((kept,), (Role.ERRORS,), what=BACKWARD_CAST)
        if layer.operator == EAGER_LOSS:
            kept, wide = _probabilities(layer), _wide(layer, "float errors")
            late = _wide(layer, "errors of probabilities")
            return (
                Step((), (late,), what="backward of the mean"),
                Step((late, kept), (wide,)),
                Step((wide,), (Role.ERRORS,), what=BACKWARD_CAST),
            )
        if layer.operator in KERNELS:
            reads, writes = KERNELS[layer.operator][1]
            return (Step((Role.ERROR,) * reads, (Role.ERRORS,) * writes),)
        if MOVING.match(layer.operator):
            return (Step((Role.ERROR,), (Role.ERRORS,)),)
        if layer.apart and layer.operator in LINEAR:
            scale = Step((Role.ERROR, Role.INPUTS), what="weight gradient")
            return (Step((Role.ERROR,), (Role.ERRORS,)), *[scale] * self._scaled(layer))
        if layer.operator in _DERIVED:
            return (Step((Role.ERROR, Role.OUTPUT), (Role.ERRORS,)),)
        if layer.apart and layer.operator in NORMS:
            summed = Step((Role.ERROR, Role.INPUTS), what="weight gradient", times=0)
            return (*super().backward(layer, needed=needed), summed)
        return super().backward(layer, needed=needed)

    def in_passing(self, layer: Layer) -> bool:
        if layer.apart or len(layer.inputs) > 1:
            return False
        into, out = layer.input.elements, layer.output.elements
        if self.view(layer):
            return out <= into
        return layer.operator in LINEAR | CURVED and out == into

    def needs_values(self, layer: Layer) -> bool:
        return self._scaled(layer) or layer.operator in CURVED

    def _scaled(self, layer: Layer) -> bool:
        """Whether it multiplies by trained numbers."""
        return layer.operator in ("mul", "scale", "div") and layer.extra > 0

    def view(self, layer: Layer) -> bool:
        return layer.operator in VIEWS

    def element_cycles(self, layer: Layer, *, forward: bool) -> float:
        return cycles_of(layer.operator or self.name, forward=forward)


def _probabilities(layer: Layer) -> Kept:
    return _wide(layer, "probabilities")


def _wide(layer: Layer, name: str) -> Kept:
    """A tensor of float32, as large as what a layer reads."""
    return Kept(name, layer.output.channels, FLOAT_BYTES)
