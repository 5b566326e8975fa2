"""What depends on one object alone is found once for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Generic, TypeVar

MOST = 64
"""Objects of which a function's answers are kept."""

Asked = TypeVar("Asked")
Found = TypeVar("Found")


class _Same(Generic[Asked]):
    """An object that equals itself alone, and so needs no hash of all that it holds."""

    __slots__ = ("it",)

    def __init__(self, it: Asked) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


def once_for_each(function: Callable[[Asked], Found]) -> Callable[[Asked], Found]:
    """Keep the answers for the last MOST objects, which must not change.

    Told apart by identity: a network of 2,000 layers, or its graph, takes longer to
    compare than to look up.
    """
    kept = lru_cache(MOST)(lambda same: function(same.it))

    @wraps(function)
    def found(asked: Asked) -> Found:
        return kept(_Same(asked))

    return found
