"""Where a stage is: accelerators of an array, in replicas of equal size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from planners.errors import PlanError


@dataclass(frozen=True, slots=True)
class Place:
    """``count`` accelerators (boards, or cores) from number ``first`` on, for one rank.

    They are ``replicas`` of equal size, which take micro-batches in turn.
    """

    first: int
    count: int
    replicas: int = 1

    @property
    def each(self) -> int:
        """Accelerators of one replica."""
        return self.count // self.replicas


def check_places(places: Sequence[Place]) -> None:
    """Raise PlanError for places that overlap, or are not as many replicas of equal size."""
    for place in places:
        if min(place.first, place.count - 1, place.replicas - 1) < 0:
            raise PlanError(f"{place}: it must have accelerators and replicas")
        if place.count % place.replicas:
            raise PlanError(
                f"{place.count} accelerators are not {place.replicas} replicas of equal size"
            )
    taken = sorted((place.first, place.first + place.count) for place in places)
    if any(end > begin for (_, end), (begin, _) in pairwise(taken)):
        raise PlanError("two places have an accelerator in common")
