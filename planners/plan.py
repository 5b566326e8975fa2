"""A plan: how every layer is split at every level of the bisected array."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from planners.partition import III, Communication, Partition, PartitionType

LARGEST_FILE = 64 << 20
"""Bytes of a plan's file; larger ones are refused."""


MOST_LEVELS = 64


class PlanError(ValueError):
    """A plan cannot be made, read or used as asked."""


@dataclass(frozen=True, slots=True)
class Split:
    """One bisection: a partition per node, and what each half does.

    ``halves`` has one entry when both halves follow the same sub-plan, else
    two; an entry is None where the half is a single accelerator. ``cost`` is
    this split's objective value (elements, or seconds). ``lower_bound`` is
    None where that is the least there is, else what no choice can undercut.
    """

    partitions: tuple[Partition, ...]
    cost: float
    halves: tuple[Split | None, ...]
    lower_bound: float | None = None

    @property
    def types(self) -> tuple[PartitionType, ...]:
        """Each node's type."""
        return tuple(partition.type for partition in self.partitions)

    @property
    def gap(self) -> float | None:
        """How far the cost may lie above the least, as a fraction of the bound; None if exact."""
        if self.lower_bound is None:
            return None
        above = self.cost - self.lower_bound
        return above / self.lower_bound if self.lower_bound > 0 else math.inf if above else 0.0


def one_of(first: Split | None, second: Split | None) -> tuple[Split | None] | None:
    """Both halves' sub-plan where they follow the same, as the one entry of a split's halves.

    Costs may differ where the halves' wires do: it has those of the dearer one.
    """
    if first is second or first is None or second is None:
        return (first,) if first is second else None
    if first.partitions != second.partitions or len(first.halves) != len(second.halves):
        return None
    below = [one_of(*pair) for pair in zip(first.halves, second.halves, strict=True)]
    if None in below:
        return None
    dearer = max(first, second, key=lambda split: split.cost)
    return (replace(dearer, halves=tuple(split for found in below if found for split in found)),)


@dataclass(frozen=True, slots=True)
class Plan:
    """A planner's answer for one network, array and batch.

    ``nodes`` names the partitioned layers and joins in topological order;
    ``root`` is None on a single accelerator. ``communication`` is the table its
    exchanges follow. Raises PlanError when a layer lacks a partition, a share
    is not within 0...1, or a type is not in the table.
    """

    planner: str
    network: str
    batch: int
    objective: str
    nodes: tuple[str, ...]
    root: Split | None
    communication: Communication = Communication.PRINTED

    def __post_init__(self) -> None:
        for split in self.splits():
            if len(split.partitions) != len(self.nodes):
                raise PlanError(
                    f"plan for {self.network!r}: {len(split.partitions)} partitions "
                    f"for {len(self.nodes)} layers"
                )
            for name, partition in zip(self.nodes, split.partitions, strict=True):
                if not 0.0 <= partition.share <= 1.0:
                    raise PlanError(
                        f"plan for {self.network!r}: layer {name!r} has share {partition.share}; "
                        "shares lie within 0...1"
                    )
            if self.communication is Communication.PLOTTED and III in split.types:
                raise PlanError(
                    f"plan for {self.network!r}: the 'plotted' table of HyPar has no type III; "
                    "use the 'printed' one"
                )
            costs = (split.cost, split.lower_bound or 0.0)
            if len(split.halves) not in (1, 2) or not all(map(math.isfinite, costs)):
                raise PlanError(f"plan for {self.network!r}: malformed split")

    def splits(self) -> Iterator[Split]:
        """Every distinct split, parents before children."""
        stack = [self.root]
        while stack:
            if split := stack.pop():
                yield split
                stack.extend(reversed(split.halves))

    def levels(self) -> list[Split] | None:
        """The splits from the top down where all halves are alike, else None."""
        levels: list[Split] = []
        split = self.root
        while split:
            if len(split.halves) != 1:
                return None
            levels.append(split)
            split = split.halves[0]
        return levels

    @property
    def gap(self) -> float | None:
        """How far a split's cost may lie above the least, as a fraction of a lower bound on it.

        The largest of all splits; None where every split was solved exactly.
        """
        return max((s.gap for s in self.splits() if s.gap is not None), default=None)

    def gap_fields(self) -> dict[str, bool | float | None]:
        """``exact``, and ``gap`` as a fraction: None where it is exact, or nothing is known."""
        known = self.gap is not None and math.isfinite(self.gap)
        return {"exact": self.gap is None, "gap": self.gap if known else None}

    def to_json(self) -> dict[str, Any]:
        """Plain values for json.dumps; ``from_json`` gives an equal plan back."""
        return {
            "planner": self.planner,
            "network": self.network,
            "batch": self.batch,
            "objective": self.objective,
            "communication": str(self.communication),
            "layers": list(self.nodes),
            "root": _split_to_json(self.root),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Plan:
        """Read what ``to_json`` or ``accelarray plan --format json`` wrote; raises PlanError.

        The latter has a tree, or, where all halves are alike, levels of types.
        """
        try:
            return Plan(
                planner=str(data["planner"]),
                network=str(data["network"]),
                batch=int(data["batch"]),
                objective=str(data["objective"]),
                nodes=tuple(str(name) for name in data["layers"]),
                root=_root_from_json(data),
                communication=Communication(data.get("communication", "printed")),
            )
        except PlanError:
            raise
        except (
            *(KeyError, TypeError, ValueError, AttributeError),
            *(OverflowError, RecursionError),
        ) as error:
            raise PlanError(f"not a plan: {type(error).__name__}: {error}") from None

    @staticmethod
    def read(path: str) -> Plan:
        """The plan in a JSON file (see ``from_json``); raises PlanError with the file's name."""
        try:
            with open(path, "rb") as file:
                raw = file.read(LARGEST_FILE + 1)
            if len(raw) > LARGEST_FILE:
                raise PlanError(f"larger than {LARGEST_FILE >> 20} MiB")
            return Plan.from_json(json.loads(raw))
        except OSError as error:
            raise PlanError(f"{path}: cannot be read: {error.strerror}") from None
        except PlanError as error:
            raise PlanError(f"{path}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise PlanError(f"{path}: not JSON: {error}") from None


def _split_to_json(split: Split | None) -> dict[str, Any] | None:
    if split is None:
        return None
    bound = {} if split.lower_bound is None else {"lower_bound": split.lower_bound}
    return {
        "types": [str(partition.type) for partition in split.partitions],
        "shares": [partition.share for partition in split.partitions],
        "cost": split.cost,
        **bound,
        "halves": [_split_to_json(half) for half in split.halves],
    }


def _root_from_json(data: dict[str, Any]) -> Split | None:
    """The top split, of a tree or of levels whose halves are alike: their shares are one half."""
    if "levels" not in data:
        return _split_from_json(data["tree"] if "tree" in data else data["root"])
    below: Split | None = None
    if len(data["levels"]) > MOST_LEVELS:
        raise PlanError(f"{len(data['levels'])} levels; at most {MOST_LEVELS} make sense")
    bounds = data.get("lower_bound", [None] * len(data["levels"]))
    for types, cost, bound in reversed(
        list(zip(data["levels"], data["cost"], bounds, strict=True))
    ):
        partitions = tuple(Partition(PartitionType[kind], 0.5) for kind in types)
        below = Split(partitions, float(cost), (below,), None if bound is None else float(bound))
    return below


def _split_from_json(data: dict[str, Any] | None) -> Split | None:
    if data is None:
        return None
    pairs = zip(data["types"], data["shares"], strict=True)
    return Split(
        tuple(Partition(PartitionType[kind], float(share)) for kind, share in pairs),
        float(data["cost"]),
        tuple(_split_from_json(half) for half in data["halves"]),
        float(data["lower_bound"]) if "lower_bound" in data else None,
    )
