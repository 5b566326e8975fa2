"""Who updates the weights that several devices have: all of them, or each its part.

Devices that hold the same weights (splits of types I and V leave such) sum their gradients.
*Replicated*, each of them gets the whole sum and updates all of its weights.
*Sharded* (ZeRO stage 1: Rajbhandari et al., SC 2020; Xu et al., arXiv 2004.13336), each
of n gets 1/n of the sum, keeps 1/n of the optimizer's state, updates 1/n of the weights,
and receives the rest of the new ones before they are used again: at the beginning of
the next step. Of a split of 12 devices, 8 and 4, the sides receive 2/3 and 1/3 of
the gradient, and of the new weights what they have not updated, 1/3 and 2/3.

What else of a layer's is kept in parts, beside that state, is a matter of degree: nothing
(*sharded*), its *gradients* (ZeRO stage 2), or its *weights* too (stage 3, fully sharded
data parallelism), which are then gathered for each use, and not after the update.

*When* is another matter. An optimizer that is called when all gradients are there goes through
the layers in their order. One that updates each layer as its gradient arrives (XLA schedules
updates so, and PyTorch's optimizers in backward do) begins while other gradients are on
their way. What needs all gradients first, as clipping by their norm, does the former.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from hardware import format_quantity
from planners.errors import PlanError
from planners.partition import SAME_WEIGHTS, Partition


class Update(StrEnum):
    """How a layer's weights are updated where several devices have them."""

    REPLICATED = "replicated"
    SHARDED = "sharded"
    GRADIENTS = "gradients"
    WEIGHTS = "weights"

    @property
    def scatters(self) -> bool:
        """Whether gradients are in parts, too: scattered as they come, in every micro-batch."""
        return self in (Update.GRADIENTS, Update.WEIGHTS)


_NAMES = ", ".join(Update.__members__)
ZERO = {str(stage): update.value for stage, update in enumerate(Update)}
"""Stages of ZeRO (Rajbhandari et al., SC 2020) as updates."""
ZERO_STAGE = {update: stage for stage, update in ZERO.items()}
"""Updates as stages of ZeRO, which people read."""

LAYERS, ARRIVAL = "layers", "arrival"
UPDATE_ORDERS = (LAYERS, ARRIVAL)
"""Once all gradients are there, or as they arrive."""

Updates = tuple[Update, ...]
"""One for each node, or none: replicated all of them."""


def updates_of(updates: Sequence[Update]) -> Updates:
    """As a plan has them: nothing where all are replicated."""
    return tuple(updates) if set(updates) - {Update.REPLICATED} else ()


def sharded(updates: Updates) -> frozenset[int]:
    """The nodes whose weights are updated in parts."""
    return frozenset(v for v, update in enumerate(updates) if update is not Update.REPLICATED)


def kept_in_parts(updates: Updates) -> frozenset[int]:
    """The nodes of which the weights themselves are in parts, and gathered for each use."""
    return frozenset(v for v, update in enumerate(updates) if update is Update.WEIGHTS)


def check_updates(
    updates: Updates, order: str, nodes: Sequence[str], whose: str, *, stages: bool
) -> None:
    """Raise PlanError unless there is one for every node, or none, and there is such an order.

    The order of a pipeline its ``stages`` say.
    """
    if order and order not in UPDATE_ORDERS:
        raise PlanError(f"{whose}: update_order {order!r} is none of {', '.join(UPDATE_ORDERS)}")
    if order and stages:
        raise PlanError(f"{whose}: update_order of a pipeline belongs in the plans of its stages")
    if strange := [update for update in updates if not isinstance(update, Update)]:
        raise PlanError(f"{whose}: updates: {strange[0]!r}: must be one of {_NAMES}, of Update")
    if updates and (len(updates) != len(nodes) or not sharded(updates)):
        raise PlanError(
            f"{whose}: {len(updates)} updates for {len(nodes)} layers; one each, or none where "
            "all are replicated"
        )
    if 0 < len(kept_in_parts(updates)) < len(updates):
        raise PlanError(f"{whose}: weights are kept in parts ('weights') of all layers, or of none")


def update_order_words(order: str) -> str:
    """How updates are done, as people read it."""
    return "updates as gradients arrive" if order == ARRIVAL else "updates in the layers' order"


Kept = tuple[float, float]
"""Of the weights that a split's sides both hold, the fractions that each of them updates."""


def kept_by_sides(
    shared: frozenset[int], partitions: Sequence[Partition], devices: tuple[int, int]
) -> list[Kept | None]:
    """Of every node whose update a split shares out, how: by numbers of devices.

    That is a split of type I (or V) of a node that is ``shared`` out. Any other cuts the weights
    themselves.
    """
    first = devices[0] / sum(devices)
    return [
        (first, 1.0 - first) if v in shared and partition.type in SAME_WEIGHTS else None
        for v, partition in enumerate(partitions)
    ]


def check_bucket(bucket_bytes: float | None, whose: str, *, stages: bool) -> None:
    """Raise PlanError unless it is a number of bytes, or none; of a pipeline its stages say it."""
    if bucket_bytes is None:
        return
    if not (math.isfinite(bucket_bytes) and bucket_bytes >= 0):
        raise PlanError(
            f"{whose}: bucket_bytes is {bucket_bytes}; it must be a number of bytes, 0 for each "
            "gradient by itself"
        )
    if stages:
        raise PlanError(f"{whose}: bucket_bytes of a pipeline belong in the plans of its stages")


def bucket_words(bucket_bytes: float) -> str:
    """How gradients go, as people read it."""
    if not bucket_bytes:
        return "each gradient by itself"
    return f"gradients in buckets of {format_quantity(bucket_bytes, 'B', 4)}"
