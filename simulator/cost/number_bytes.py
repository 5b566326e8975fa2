"""What each kind of number costs in bytes, from a device's arithmetic.

An optimizer with momentum and layer-wise rates (LARS, which MLPerf's logs
name) updates a parameter in two passes over HBM, in the formats of its
gradient (g), its master copy (w) and its moments (m):

    norms     R w, R g                             float32: 4 + 4      =  8 B
    update    R w, R g, R each m, W w, W each m    float32: 5 x 4      = 20 B

that is 2 g + 3 w + 2 (sum of m), 28 B in float32 with one moment. The copy in
the format that operators read is taken to be written in passing: its bytes
are not counted, as the measured steps were fitted without them.
"""

from __future__ import annotations

from typing import NamedTuple

from hardware import Arithmetic


class NumberBytes(NamedTuple):
    """Bytes of an activation (or its gradient), of a weight as operators read it, of its gradient.

    ``update`` is what the optimizer reads and writes for one parameter,
    ``state`` what is held of one all the time, its gradient apart; ``buffer`` what of its
    gradient is (0 where gradients come and go), ``dummy`` a number of what stands beside that for
    a gradient (``simulator.cost.dummies``). ``adding`` is what kernels move behind a product to
    add one of its to the buffer, ``more`` what the product itself moves for it besides writing
    it (negative where it writes a narrower one). ``cleared`` is written of a buffer once a step.
    """

    activation: float
    weight: float
    gradient: float
    update: float
    state: float
    buffer: float = 0.0
    dummy: float = 0.0
    adding: float = 0.0
    more: float = 0.0
    cleared: float = 0.0


def number_bytes(arithmetic: Arithmetic) -> NumberBytes:
    """The bytes of a device's numbers.

    A master copy is held beside the weights only where they are in another
    format: bfloat16 weights, float32 copy and one float32 moment are
    2 + 4 + 4 = 10 B of state, float32 throughout is 4 + 4 = 8 B.

    With a buffer each micro-batch adds its gradient to it. A product that adds by itself reads
    the buffer and writes it. Else it writes numbers in the weights' format, and kernels behind
    it move ``gradient_kernel_bytes`` for each. Once a step the whole buffer is cleared
    (NVIDIA/Megatron-LM, core/distributed, zero_grad_buffer).
    """
    weight, master = arithmetic.weight_bytes, arithmetic.master_bytes
    gradient = arithmetic.gradient_bytes
    copy = weight if arithmetic.gradient_copy and gradient > weight else 0.0
    adding = arithmetic.gradient_kernel_bytes
    moments = sum(arithmetic.moment_bytes)
    return NumberBytes(
        activation=arithmetic.activation_bytes,
        weight=weight,
        gradient=arithmetic.gradient_bytes,
        update=2 * arithmetic.gradient_bytes + 3 * master + 2 * moments,
        state=weight + (master if master != weight else 0.0) + moments,
        buffer=gradient + copy if arithmetic.gradient_buffer else 0.0,
        dummy=weight if arithmetic.dummy_gradients else 0.0,
        adding=adding,
        more=weight - gradient if adding else gradient if arithmetic.gradient_buffer else 0.0,
        cleared=gradient if arithmetic.gradient_buffer else 0.0,
    )
