"""What files of one rank each have in common: who is in which group, sizes of messages, names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from experiments.explain.kernels import Ends, communication, ends_of
from experiments.output import UsageError
from hardware import Array
from planners.order import Kind, Phase
from simulator import Operation, Timeline

MOST_RANKS = 4096
"""Files that are written at most."""
_ENDING = re.compile(r"(\.pt\.trace\.json(?:\.gz)?|\.et)$", re.IGNORECASE)
_LAPS = {"all-reduce": 2}


class Message(NamedTuple):
    """An exchange as one rank sees it: its group, and bytes that it brings and has afterwards."""

    work: str
    group: tuple[int, ...]
    brings: float
    has: float


class Ranks:
    """The ranks of a run of every device: one for each worker of its program.

    They are counted as the array counts devices, without those that no plan uses.
    """

    def __init__(self, timeline: Timeline, array: Array) -> None:
        """Raises UsageError where there are too many."""
        workers = timeline.program.workers
        if len(workers) > MOST_RANKS:
            raise UsageError(
                f"{len(workers):,} devices: a file for each of at most {MOST_RANKS:,}; "
                "take a smaller array"
            )
        firsts = sorted(worker.first for worker in workers)
        self.of_device = {first: rank for rank, first in enumerate(firsts)}
        """By the device's number in the array."""
        self.numbers = [self.of_device[worker.first] for worker in workers]
        self.ends: Ends = ends_of(timeline.program)
        self._arithmetic = array.group.arithmetic
        self.groups: dict[tuple[int, ...], int] = {tuple(sorted(self.numbers)): 0}
        """Names in files of those of all exchanges, the same for every rank: that of all is 0."""
        for operation, parties in self.ends.parties.items():
            for worker in parties:
                group = self.message(operation, self.numbers[worker]).group
                self.groups.setdefault(group, len(self.groups))
        self._tags: dict[tuple[Operation, int], int] = {}

    def message(self, operation: Operation, rank: int) -> Message:
        """What an exchange is for a rank."""
        work = communication(operation)
        parties = self._named(self.ends.parties[operation])
        takers = self._named(self.ends.takers.get(operation, ()))
        if operation.kind == Kind.SEND:
            each = operation.bytes / len(parties if rank in parties else takers)
            return Message(work, tuple(sorted({*parties, *takers})), each, each)
        group, many = self._group(operation, rank) or (parties, len(parties))
        each, n = operation.bytes / many, len(group)
        whole = each * n / (_LAPS.get(work, 1) * max(n - 1, 1))
        if work == "send/recv":
            whole = each
        brings = whole / n if work == "all-gather" else whole
        has = whole / n if work == "reduce-scatter" else whole
        return Message(work, group, brings, has)

    def tag(self, key: tuple[Operation, int]) -> int:
        """A number for a send of one micro-batch, the same for who receives it."""
        return self._tags.setdefault(key, len(self._tags))

    def peers(self, operation: Operation) -> list[tuple[int, int]]:
        """Who sends to whom: ranks in their order, each to one, or to several in turn."""
        source = self._named(self.ends.parties[operation])
        target = self._named(self.ends.takers.get(operation, ()))
        many = max(len(source), len(target)) if target else 0
        return [
            (source[i * len(source) // many], target[i * len(target) // many]) for i in range(many)
        ]

    def element_bytes(self, operation: Operation) -> float:
        """Of a number that is exchanged."""
        of = self._arithmetic
        if operation.kind == Kind.SUMS and operation.phase == Phase.GRADIENT:
            return of.gradient_bytes
        return of.weight_bytes if operation.kind == Kind.WEIGHTS else of.activation_bytes

    def _named(self, workers: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(self.numbers[worker] for worker in workers))

    def _group(self, operation: Operation, rank: int) -> tuple[tuple[int, ...], int] | None:
        """The group of a rank, and how many members all groups have."""
        many = sum(groups.rows().size for groups in operation.groups)
        for groups in operation.groups:
            for row in groups.rows().tolist():
                if rank in (members := [self.of_device[device] for device in row]):
                    return tuple(sorted(members)), many
        return None


def file_of(path: str, rank: int) -> str:
    """The file of a rank: step.3.et."""
    return _ENDING.sub(rf".{rank}\1", path)


def one_a_rank(path: str) -> bool:
    """Whether a name ends as files of one rank each do."""
    return _ENDING.search(path) is not None
