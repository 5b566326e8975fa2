"""The scan of a selective state space (Mamba-2's SSD, Dao and Gu 2024), in one fused kernel.

Each of H heads has P features and a state of N x P numbers; B writes into the state and C
reads it, each shared by the heads of one of G groups. Positions t run one after the other:

    h_t = exp(a d_t) h_{t-1} + d_t B_t x_t',      y_t = C_t h_t + D x_t

A kernel does chunks of Q positions at once (section 6 of the paper), as products of matrices.
So many multiply-accumulates each position takes, forward and backward:

    scores of a chunk     C B'                  G Q N       3 G Q N    anew, errors of C and B
    its outputs           (scores, decays) x    H Q P       2 H Q P    errors of scores and x
    state it leaves       B' x                  H N P       3 H N P    anew, errors of B and x
    outputs of the state  C h                   H N P       2 H N P    errors of C and h

Sums over decays, and passing states from chunk to chunk (1 / Q of a state a position), are
element-wise and not counted. For backward the kernel keeps its inputs and each position's
sum of decays, in float32, and makes the states again. Trained are a, D and the shift of the
steps d, three numbers a head.
"""

from __future__ import annotations

from workloads.layer_types.base import FLOAT_BYTES, Dimensions, Kept, Layer, Role, Step, register
from workloads.layer_types.computed import Computed
from workloads.tensors import Tensor

CHUNK = 256
"""Positions of a chunk in the authors' program (``state-spaces/mamba``)."""


@register
class StateSpace(Computed):
    """Reads x (H P channels), B and C (G N each) and steps (H), and keeps the shape of x.

    Samples and groups may be split; positions, which depend on all before them, may not.
    """

    name = "state_space"
    inputs = 4
    reads = "x, B, C and steps"
    keys = ("groups", "chunk")
    shardable = ("samples", "groups")

    def output(self, layer: Layer, features: int) -> Tensor:
        return layer.input

    def problem(self, layer: Layer) -> str | None:
        x, b, c, steps = layer.operands
        heads, groups = steps.channels, layer.groups
        whole = b.channels % groups == heads % groups == x.channels % heads == 0
        if whole and b == c and x == layer.output and x.area == b.area == steps.area:
            return None
        return (
            f"x {x}, B {b}, C {c} and steps {steps} do not fit {groups} groups: steps have a "
            "channel for each head, B and C the states of each group, all as many positions"
        )

    def dimensions(self, layer: Layer) -> Dimensions:
        x, b, _, steps = layer.operands
        chunk = min(layer.size("chunk", CHUNK), x.area)
        padded = -(-x.area // chunk) * chunk
        scores, outputs = b.channels * chunk, x.channels * chunk
        states = x.channels * (b.channels // layer.groups)
        forward = padded * (scores + outputs + 2 * states)
        backward = padded * (3 * scores + 2 * outputs + 5 * states)
        operand = b.elements * 2 + steps.elements
        return (
            super()
            .dimensions(layer)
            ._replace(operand=operand, fused=(float(forward), float(backward)))
        )

    def macs(self, layer: Layer) -> int:
        return int(self.dimensions(layer).fused[0])

    def further_parameters(self, layer: Layer) -> int:
        return 3 * layer.operands[3].channels

    def forward(self, layer: Layer) -> tuple[Step, ...]:
        return (Step((Role.INPUTS,), (Role.OUTPUT, _decays(layer)), products=1.0),)

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        """States anew, then the errors of all inputs; those of a, D and the shift in passing."""
        ahead, back = self.dimensions(layer).fused
        reads = (Role.ERROR, Role.INPUTS, _decays(layer))
        return (Step(reads, (Role.ERRORS,), products=back / ahead),)


def _decays(layer: Layer) -> Kept:
    return Kept("decays", layer.operands[3].channels, FLOAT_BYTES)
