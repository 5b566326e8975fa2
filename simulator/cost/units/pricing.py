"""An operator on the units of a core: which product it is, and how long each unit takes for it."""

from __future__ import annotations

from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardware import Units
from planners.order import Phase
from planners.partition import Shard
from simulator.cost.operators import Operator
from simulator.cost.units.matrix import Sides, cycles, ideal_cycles, parts
from simulator.cost.units.product import Product
from simulator.cost.units.vectors import UPDATED
from workloads.layer_types.computed import BACKWARD_EXPONENTIALS

Floats = NDArray[np.float64]
ACCUMULATOR_BYTES = 4
REAL_PRODUCTS = 4
"""Of real numbers in one of complex numbers."""
FORWARD_PRODUCTS, BACKWARD_PRODUCTS = 2, 5
"""Of fused attention: scores and results; the scores again, their errors, those of Q, K and V."""
ROUNDING = 1e-9
"""Less than this above a whole number is a float's error."""


class UnitCost(NamedTuple):
    """Seconds on the best matrix unit (``unit``, None without a product) and on vector units.

    ``missed_bytes`` cross HBM again, as the buffer could not hold them.
    """

    unit: int | None
    matrix_s: float
    vector_s: float
    missed_bytes: float

    @property
    def busy_s(self) -> float:
        """Both work at once, element-wise work on what products read or make."""
        return max(self.matrix_s, self.vector_s)


def price(
    operator: Operator, shard: Shard, units: Units, whole: bool = True, element_bytes: float = 2.0
) -> UnitCost:
    """An operator on one core's units; what is not ``whole`` fills every multiplier.

    Products of spectra are done on vector units where these are faster: blocks are many more
    than the sides of matrix units.
    """
    lanes = lanes_of(operator, shard)
    vector_s = ceil(lanes / units.lanes - ROUNDING) / units.clock_hz
    if not operator.macs:
        return UnitCost(None, 0.0, vector_s, 0.0)
    product = product_of(operator, shard)
    count = cycles if whole else ideal_cycles
    by_unit = [count(unit, product) for unit in units.matrix]
    best = min(range(len(by_unit)), key=by_unit.__getitem__)
    missed = missed_bytes(product, operator.repeats, units.buffer_bytes, element_bytes)
    found = UnitCost(best, by_unit[best] / units.clock_hz, vector_s, missed)
    if operator.block > 1:
        lanes += spectral_lanes(operator, shard)
        other_s = ceil(lanes / units.lanes - ROUNDING) / units.clock_hz
        if other_s < found.busy_s:
            return UnitCost(None, 0.0, other_s, missed)
    return found


def lanes_of(operator: Operator, shard: Shard) -> float:
    """Cycles of one lane for all of an operator's element-wise work, updates and transforms.

    A lane does one operation of a transform in a cycle.
    """
    updated = operator.pair.updated * shard.inputs + operator.channel.updated
    each = operator.lanes * shard.rows + UPDATED * updated
    if operator.block > 1:
        each += 2 * (operator.macs - operator.spectral) * shard.rows * shard.inputs
    entry = UPDATED * operator.entry.updated * shard.inputs
    return (each * shard.outputs + entry) * shard.groups


def spectral_lanes(operator: Operator, shard: Shard) -> float:
    """Cycles of one lane for the products of spectra, an operation each."""
    return 2 * operator.spectral * shard.rows * shard.inputs * shard.outputs * shard.groups


def product_of(operator: Operator, shard: Shard) -> Product:
    """The matrix product of a weighted layer, or of the heads of a ``matmul``.

    Forward, p positions of each sample times a matrix of inputs (and the kernel's
    elements) by outputs; backward by its transpose; of the weights' gradient the
    positions of all samples are what is summed over. A layer that runs
    step by step repeats a product of the samples of one step, its gates side by side.
    A matmul has a product for each sample and group:

        forward    p x i  by  i x o        (p x i x o multiply-accumulates)
        backward   p x o  by  o x i        the first operand's gradient
        gradient   i x p  by  p x o        the second one's

    Block-circulant weights of blocks of b have products of spectra: at each of b/2 + 1
    frequencies one of complex numbers, i/b x o/b of them, which is four of real ones. So with
    b = 64, 512 to 512: 4 x 33 products of p x 8 by 8 x 8. Transforms are element-wise work.
    Fused attention has ``_of_scores``.
    """
    if operator.attention:
        return _of_scores(operator, shard)
    rows, ins, outs, groups = shard.rows, shard.inputs, shard.outputs, shard.groups
    place, kernel, times = operator.macs / operator.kernel, operator.kernel, groups
    if (block := operator.block) > 1:
        reals = REAL_PRODUCTS * (block // 2 + 1)
        place, times = operator.spectral * block**2 / reals / kernel, groups * reals
        ins, outs, groups = _whole(ins / block), _whole(outs / block), times
    if operator.each_sample:
        rows, times = 1, groups * shard.rows
    if operator.steps > 1:
        outs, times, place = outs * place / operator.steps, groups * operator.steps, 1.0
    m, k, n = rows * place, ins * kernel, outs
    if operator.phase is Phase.BACKWARD:
        m, k, n = m, outs * kernel, ins
    elif operator.phase is Phase.GRADIENT:
        m, k, n = ins * kernel, m, outs
    return Product(operator.name, *(_whole(side) for side in (m, k, n, times)))


def _of_scores(operator: Operator, shard: Shard) -> Product:
    """The products of fused attention: two forward, five backward, of each head of each sample.

    Of n queries, n keys and d features the scores are n x d by d x n, and each of the others has
    these sides in another order: all take what the scores do. Causal ones are half of them. Where
    keys are not as many as queries, and not causal, n is the root of their product.
    """
    each = shard.inputs * shard.outputs
    backward = operator.phase is Phase.BACKWARD
    products = BACKWARD_PRODUCTS if backward else FORWARD_PRODUCTS
    scores = operator.exponentials * each / (BACKWARD_EXPONENTIALS if backward else 1)
    features = operator.macs * each / (products * scores)
    half = 2 if operator.keys else 1
    keys = operator.keys or sqrt(scores)
    queries, heads = half * scores / keys * shard.positions, shard.groups * shard.rows
    times = products * heads / shard.positions / half
    return Product(operator.name, *map(_whole, (queries, features, keys, times)))


def _whole(side: float) -> int:
    """A side of fractions is rounded up."""
    return max(1, ceil(side - ROUNDING))


def missed_bytes(
    product: Product, repeats: float, buffer_bytes: float, element_bytes: float
) -> float:
    """Bytes of the operands that are read again, beyond once, as the buffer is too small.

    Half of it holds what stays, the other half what comes. Where one operand fits there, it
    stays and all is read once. Otherwise outputs are made in blocks of t x t, which
    stay as float32 sums: the first operand is read once for each block column, the second once
    for each block row. A convolution's input is in the buffer without the repetitions
    of its windows (1 / ``repeats``). 4096 x 4096 by 4096 x 4096, 2 B each, from a buffer of 8 MiB:
    32 MiB each, t = sqrt(4 Mi / 4) = 1024, 4 blocks a side: 3 x 64 MiB more.
    """
    return float(missed_by_all(product[1:], repeats, buffer_bytes, element_bytes))


def missed_by_all(
    sides: Sides, repeats: float | Floats, buffer_bytes: float, element_bytes: float
) -> Floats:
    """The same of each product, of which ``sides`` has m, k, n and times as rows; 0 for none."""
    m, k, n, times = np.asarray(sides, dtype=np.int64)
    first, second = m * k * element_bytes / repeats, k * n * element_bytes
    side = max(1, int(sqrt(buffer_bytes / 2 / ACCUMULATOR_BYTES)))  # of a block of sums
    again = first * (parts(n, side) - 1) + second * (parts(m, side) - 1)
    return np.where(np.minimum(first, second) <= buffer_bytes / 2, 0.0, times * again)
