"""How long one core takes for a node's operators on each of many shards, all shards at once.

A planner asks for every way to halve a node, some sixty on a thousand cores. What
``roofline`` does to the numbers of one shard it does to arrays of them, to the same last digit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from planners.partition import Shard
from simulator.cost.operators import Operator
from simulator.cost.roofline import Core, casts, flops, traffic

Floats = NDArray[np.float64]


def seconds_of(operators: Sequence[Operator], shards: Sequence[Shard], core: Core) -> list[float]:
    """Seconds on each shard, as ``costs`` has them in sum; the core has no units.

    None of the shards is empty.
    """
    if not operators or not shards:
        return [0.0] * len(shards)
    every = Shard(*cast("Any", np.array(shards, dtype=np.float64).T))
    done: list[Floats] = []
    for operator in operators:
        done += (np.asarray(one.seconds) for one in casts(operator, every, core))
        done.append(_seconds(operator, every, core))
    each = [math.fsum(row) for row in zip(*(one.tolist() for one in done), strict=True)]
    host_s = core.host_s * sum(operator.steps for operator in operators)
    if not host_s:
        return each
    waits_s = [max(0.0, host_s - one) for one in each]
    done[-1] = done[-1] + waits_s
    return [math.fsum(row) for row in zip(*(one.tolist() for one in done), strict=True)]


def _seconds(operator: Operator, every: Shard, core: Core) -> Floats:
    """What ``roofline.cost`` has of one operator."""
    compute_s = flops(operator, every, core.pad_matrix_unit) / core.rate(operator)
    move_s = traffic(operator, every, core) / core.hbm_bytes_per_s
    shorter_s, busy_s = np.minimum(compute_s, move_s), np.maximum(compute_s, move_s)
    found: Floats = busy_s + (operator.steps * core.overhead_s + (1 - core.concurrent) * shorter_s)
    return found
