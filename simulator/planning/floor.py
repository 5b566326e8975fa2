"""What no layout undercuts, found without any re-laid tensor: each node by itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.planning.chain import MOST_WEIGHT, Chain
from simulator.planning.curves import Floats

WEIGHTS = (0.0, 0.5, MOST_WEIGHT)


def floor_s(chain: Chain) -> float:
    """The most of what a few weights say; a long way from the bound where much is re-laid."""
    return max(sum(float(one.min()) for one in each) for each in by_weight(chain))


def by_weight(chain: Chain) -> Iterator[list[Floats]]:
    """For a few weights, what each node adds at least, by its state, whatever its neighbours'."""
    nodes = range(len(chain.nodes))
    for weight in WEIGHTS[: 3 if chain.overlap else 1]:
        yield [chain.own(v, weight) + _waited(chain, v, weight) for v in nodes]


def _waited(chain: Chain, v: int, weight: float) -> Floats:
    """By a node's state, what of its own lies between its products and its neighbours'.

    Sums of 3 ms that the node before waits for, beside a gradient of 2 ms, make 3.
    """
    costs, waits = chain.nodes[v], chain.waits
    found = np.zeros(len(costs.states))
    if not chain.overlap:  # sums and gradients are its own then
        return found
    if v + 1 < len(chain.nodes) and waits.forward[v + 1] and chain.read(v + 1):
        found = found + costs.forward_sums_s
    if not v:
        return found
    summed = waits.backward[v] and waits.computes[v] and chain.read(v)
    back = costs.backward_sums_s if summed else np.zeros(len(found))
    if not chain.matmul(v):
        back = np.maximum(back, costs.gradient_s)
    return found + (1.0 - weight) * back
