"""In which order weights are updated: of a plan that says so.

An optimizer that is called when all gradients are there goes through the layers in their
order. One that updates each layer as its gradient arrives (XLA schedules updates so, and
PyTorch's optimizers in backward do) begins while other gradients are on their way.
What needs all gradients first, as clipping by their norm, does the former.
"""

from __future__ import annotations

from typing import Any

from planners.errors import PlanError

LAYERS, ARRIVAL = "layers", "arrival"
UPDATE_ORDERS = (LAYERS, ARRIVAL)


def check_update_order(order: str, whose: str, *, stages: bool) -> None:
    """Raise PlanError unless it is one of the two, or none; of a pipeline its stages say it."""
    if not order:
        return
    if order not in UPDATE_ORDERS:
        raise PlanError(f"{whose}: update_order {order!r} is none of {', '.join(UPDATE_ORDERS)}")
    if stages:
        raise PlanError(f"{whose}: update_order of a pipeline belongs in the plans of its stages")


def update_order_words(order: str) -> str:
    """How updates are done, as people read it."""
    return "updates as gradients arrive" if order == ARRIVAL else "updates in the layers' order"


def update_order_to_json(order: str) -> dict[str, Any]:
    """Of a plan's values, this one; nothing where the plan does not say it."""
    return {"update_order": order} if order else {}


def update_order_from_json(data: dict[str, Any]) -> str:
    """What ``update_order_to_json`` made."""
    return str(data.get("update_order", ""))
