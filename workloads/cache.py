"""What depends on one network, graph or the like alone is found once for it."""

from collections.abc import Callable, Hashable
from functools import lru_cache
from threading import RLock
from typing import Generic, TypeVar

ANSWERS = 256
"""Of each function so many are kept: a pipeline asks about each of up to 64 stages."""

once_for_each = lru_cache(maxsize=ANSWERS)
"""Keep a function's latest answers, by the value of what it was asked about."""

Made = TypeVar("Made")


class Weighed(Generic[Made]):
    """The latest answers; the oldest go where all together weigh more than ``most``.

    The latest one is kept, whatever it weighs.
    """

    def __init__(self, most: int, weigh: Callable[[Made], int]) -> None:
        self.most, self._weigh = most, weigh
        self._kept: dict[Hashable, Made] = {}
        self._lock = RLock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made for this key, or is made now."""
        with self._lock:
            if key in self._kept:
                found = self._kept.pop(key)
            else:
                found = make()
                weight = self._weigh(found) + sum(map(self._weigh, self._kept.values()))
                while self._kept and weight > self.most:
                    weight -= self._weigh(self._kept.pop(next(iter(self._kept))))
            self._kept[key] = found
            return found
