"""What buckets of gradients take at least, node by node and state by state.

A collective's time is concave in its size, so that of a bucket of s bytes lies above the line
through that of one byte and that of the largest bucket there may be:

    a bucket takes at least   start + slope * s

with a start for every bucket and a slope for every byte: each node adds its own bytes, and
where a node's levels differ from those of the one before it, another bucket begins.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.partition import I
from simulator.planning.costs import Costs
from simulator.planning.curves import Floats
from simulator.planning.tables import Tables

REDUCE = "all-reduce"


class Sent(NamedTuple):
    """Of one node by state: what its gradient adds to its bucket, and what a new bucket adds.

    ``alone_s`` is what it takes by itself. ``whole`` says whether all gradients that may
    ever be in a bucket with it do not fill one: then those in a row are one bucket.
    """

    start_s: Floats
    adds_s: Floats
    alone_s: Floats
    whole: NDArray[np.bool_]


def sent(tables: Tables) -> dict[int, Sent]:
    """By the ``id`` of a node's costs."""
    full = tables.bucket_bytes
    together, largest = defaultdict[int, float](float), defaultdict[int, float](float)
    for costs in tables.nodes:
        masks = costs.states.masks[I]
        for mask in set(masks.tolist()):
            size = float(costs.gradient_bytes[masks == mask].max())
            together[mask] += size
            largest[mask] = max(largest[mask], size)
    most = {mask: min(together[mask], full + largest[mask]) for mask in together}
    fit = {mask for mask in together if together[mask] < full}
    return {id(costs): _of_node(tables, costs, most, fit) for costs in tables.nodes}


def _of_node(tables: Tables, costs: Costs, most: dict[int, float], fit: set[int]) -> Sent:
    masks, size = costs.states.masks[I], costs.gradient_bytes * ~costs.hollow
    curves, whole = tables.curves, np.array([mask in fit for mask in masks.tolist()], np.bool_)
    alone_s = curves.of_masks(REDUCE, masks, size)
    if not tables.bucket_bytes:
        return Sent(np.zeros(len(masks)), alone_s, alone_s, whole)
    far = np.array([max(2.0, most[mask]) for mask in masks.tolist()])
    first_s = curves.of_masks(REDUCE, masks, np.ones(len(masks)))
    slope = np.maximum(curves.of_masks(REDUCE, masks, far) - first_s, 0.0) / (far - 1.0)
    start_s = np.maximum(first_s - slope, 0.0)
    return Sent(start_s, slope * size, alone_s, whole)
