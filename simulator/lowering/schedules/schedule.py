"""What a schedule is: in which order a rank takes the passes of its micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from planners import PlanError
from simulator.engine.operations import Part

FORWARD = frozenset({Part.FORWARD})
BACKWARD = frozenset({Part.BACKWARD, Part.WEIGHTS})
"""Errors and gradients of weights, as frameworks compute them: layer by layer."""
ERRORS = frozenset({Part.BACKWARD})
WEIGHTS = frozenset({Part.WEIGHTS})


class Rank(NamedTuple):
    """Who asks: place ``rank`` of ``ranks``, which has ``virtual`` stages.

    It takes ``micro_batches``; where each forward pass is followed by a backward one it
    computes ``ahead`` of them before (p - s - 1 where all have as many replicas).
    """

    rank: int
    ranks: int
    virtual: int
    micro_batches: int
    ahead: int


class Pass(NamedTuple):
    """One pass of the rank's ``number``-th micro-batch, through its ``chunk``-th stage."""

    parts: frozenset[Part]
    number: int
    chunk: int = 0


Order = Callable[[Rank], Iterator[Pass]]
"""A rank's passes, one after the other."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order with its name, and when weights change.

    One that ``flushes`` ends with the batch: all of its gradients are summed, then
    weights are updated. Others go on with the next batch meanwhile, and update
    after each micro-batch, or after a ``whole_batch``; backward then needs the
    version of the weights that forward used. ``check`` gives what is wrong with the
    replicas of each rank, a number of virtual stages and one of micro-batches, or nothing.
    """

    name: str
    order: Order
    says: str
    flushes: bool = True
    whole_batch: bool = True
    check: Callable[[Sequence[int], int, int], str | None] = lambda replicas, virtual, many: None
    least_virtual: int = 1
    """Stages of a place that somebody who asks for it must have: with fewer it is another."""

    def passes(self, who: Rank) -> list[Pass]:
        """A rank's passes; PlanError where the order fails, or gives what no rank can do.

        Every micro-batch goes through every stage of the rank once: forward, errors, gradients
        of weights, each behind the one before.
        """
        wanted = {(n, c) for n in range(who.micro_batches) for c in range(who.virtual)}
        try:
            found = list(islice(self.order(who), len(Part) * len(wanted) + 1))
            for one in found:
                if not (isinstance(one, Pass) and one.parts <= BACKWARD | FORWARD):
                    raise TypeError(f"{one!r:.60} is no pass")
        except (Exception, SystemExit) as error:
            raise self.failed(error) from error
        for part in (Part.FORWARD, Part.BACKWARD, Part.WEIGHTS):
            seen = [(one.number, one.chunk) for one in found if part in one.parts]
            if len(seen) != len(wanted) or set(seen) != wanted:
                raise PlanError(
                    f"schedule {self.name!r}: rank {who.rank} does not take each of its "
                    f"{who.micro_batches} micro-batches once through part {part.name.lower()}"
                )
        check_order(f"schedule {self.name!r}: rank {who.rank}", found)
        return found

    def wrong(self, replicas: Sequence[int], virtual: int, micro_batches: int) -> str | None:
        """What ``check`` says; PlanError where it fails."""
        try:
            return self.check(replicas, virtual, micro_batches)
        except (Exception, SystemExit) as error:
            raise self.failed(error) from error

    def failed(self, error: BaseException) -> PlanError:
        """What goes wrong in a stranger's module."""
        return PlanError(f"schedule {self.name!r} failed: {type(error).__name__}: {error}")


def check_order(where: str, passes: Sequence[Pass]) -> None:
    """Raise PlanError where a rank goes back with what it has not done forward."""
    done = set[tuple[int, int, Part]]()
    needs = {Part.BACKWARD: Part.FORWARD, Part.WEIGHTS: Part.BACKWARD}
    for one in passes:
        done.update((one.number, one.chunk, part) for part in one.parts)
        for part, before in needs.items():
            if part in one.parts and (one.number, one.chunk, before) not in done:
                raise PlanError(
                    f"{where}: micro-batch {one.number} has {part.name.lower()} before "
                    f"{before.name.lower()}"
                )


def no_virtual(replicas: Sequence[int], virtual: int, micro_batches: int) -> str | None:
    """For orders that know one stage a place."""
    del replicas, micro_batches
    return f"it has one stage a place, not {virtual}" if virtual > 1 else None
