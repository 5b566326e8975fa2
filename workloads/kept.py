"""What depends on one object alone is found once for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sized
from functools import wraps
from typing import Any, TypeVar

MOST = 512
"""Objects of which a function's answers are kept."""
MOST_LAYERS = 20_000
"""Layers that they have together: a large transformer has 2,000, its stages (up to 64) as many."""

Asked = TypeVar("Asked")
Found = TypeVar("Found")


def once_for_each(function: Callable[[Asked], Found]) -> Callable[[Asked], Found]:
    """Keep the answers for the last MOST objects, which must not change, of MOST_LAYERS.

    Told apart by identity: a network of 2,000 layers, or its graph, takes longer to
    compare than to look up.
    """
    kept: OrderedDict[int, tuple[Asked, Found]] = OrderedDict()
    layers = 0

    @wraps(function)
    def found(asked: Asked) -> Found:
        nonlocal layers
        key = id(asked)  # of an object that is kept: no other one has it
        if key in kept:
            kept.move_to_end(key)
            return kept[key][1]
        answer = function(asked)
        kept[key] = asked, answer
        layers += _size(asked)
        while len(kept) > 1 and (len(kept) > MOST or layers > MOST_LAYERS):
            _, (oldest, _) = kept.popitem(last=False)
            layers -= _size(oldest)
        return answer

    return found


def _size(asked: Any) -> int:
    """Layers of a network, nodes of a graph or of what is made of one; 1 for anything else."""
    for name in ("layers", "graph"):
        asked = getattr(asked, name, asked)
    return len(asked) if isinstance(asked, Sized) else 1
