"""The stages of a layout, and what their devices hold at the most."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from planners.sizing import Floats
from simulator.search.closed_form.network_on_array import ZERO_STAGE_OF, Layout, NetworkOnArray
from simulator.search.closed_form.pieces import (
    BEFORE,
    EXPERTS,
    GIVING,
    KEPT,
    WEIGHTS,
    Again,
    Piece,
    Table,
)


class StepStages:
    """One layout's stages, as sums of their pieces."""

    def __init__(self, of: NetworkOnArray, layout: Layout, cuts: tuple[int, ...]) -> None:
        self._of, self._layout, self._axes, self._cuts = of, layout, layout.axes, cuts
        self._many = of.micro_batches(layout)
        self._ways = layout.axes.dp * layout.axes.cp
        self._parts = ZERO_STAGE_OF.get(layout.update, 0) if self._ways > 1 else 0
        # of the pieces as they are, and where only some compute forward again, of those
        modes = ["none", "full"] if layout.recompute.isdecimal() else [layout.recompute]
        tables = [of.tables(layout.axes, layout.micro_batch, one) for one in modes]
        self._tables: list[tuple[Table, ...]] = list(zip(*tables, strict=True))
        self._stages = [
            self._stage(*ends, k % layout.axes.pp) for k, ends in enumerate(pairwise(cuts))
        ]

    @cached_property
    def _places(self) -> list[int]:
        """The first of those places that are alike: it holds most, and is the last to be done."""
        p = self._axes.pp
        found: dict[tuple[float | Piece, ...], int] = {}
        for place in range(p):
            capacity = self._of.capacity_bytes(self._axes, place)
            found.setdefault((capacity, *self._stages[place::p]), place)
        return sorted({*found.values(), p - 1})

    def _stage(self, first: int, end: int, place: int, whole: int | None = None) -> Piece:
        """A stage of pieces, or a part of one, which begins with piece ``whole``."""
        again = self._again(first, end, place, first if whole is None else whole)
        apart = self._layout.usual_schedule == "zero-bubble"
        return self._tables[place][0].stage(first, end, again, apart=apart)

    def _again(self, first: int, end: int, place: int, whole: int) -> Again:
        """The pieces that are computed again, where a number of blocks is: a stage's first ones."""
        _, *again = self._tables[place]
        if not again:
            return None
        begin = max(whole, self._of.blocks[0])
        most = min(begin + int(self._layout.recompute), end, self._of.blocks[1])
        begin = max(begin, first)
        return begin, max(most, begin), again[0]

    def _routed(self, stage: Piece) -> float:
        """The share of experts in its weights."""
        return stage.experts / stage.weights if stage.weights else 0.0

    def _part(self, stage: Piece) -> float:
        """The share of its weights that a device updates, where each updates a part."""
        routed = self._routed(stage)
        return (1 - routed) / self._ways + routed / max(self._ways // self._axes.ep_of_dp, 1)

    def _held(self, place: int) -> float:
        """Bytes on a device of a place that are held all the time."""
        held = 0.0
        for one in self._stages[place :: self._axes.pp]:
            part, gradients = self._part(one), one.gradients
            if self._parts == 2:  # without dummies
                gradients = min(gradients, one.weights / self._of.weight_share)
            sizes = one.state, gradients, one.weights
            held += sum(sizes[self._parts :]) + part * sum(sizes[: self._parts])
            if self._many > 1 and self._parts == 3:
                held += one.sums * part
        return held

    def _passing(self, place: int) -> float:
        """The most beside that: what micro-batches keep, and what a pass needs."""
        if self._parts == 3:
            return self._passing_units()
        stages = self._stages[place :: self._axes.pp]
        in_flight = self._in_flight(place)
        in_parts = self._parts > 1  # gradients, which are not summed of one micro-batch
        sums = [
            one.sums * (self._part(one) * (self._many > 1) if in_parts else 1.0) for one in stages
        ]
        kept = self._fullest(
            in_flight,
            np.array([one.kept for one in stages]),
            np.array([one.passing for one in stages]),
            np.array([one.passing if in_parts else one.beginning for one in stages]),
            np.array(sums),
        )
        if self._layout.usual_schedule == "zero-bubble":  # gradients of weights so much later
            kept += min(place, self._many - in_flight) * stages[0].late
        if self._parts < 2:
            return kept
        ends = []  # of each piece's pass: gradients that are whole then
        for k, one in enumerate(stages):
            first, end = self._cuts[place + k * self._axes.pp :][:2]
            again = self._again(first, end, place, first)
            added, alone = self._tables[place][0].rows(first, end, again)
            held = np.cumsum(np.append(alone[0, KEPT], added[1:, KEPT]))
            needs = held + np.append(alone[0, GIVING], added[1:, GIVING])
            most = float((needs + self._whole(first, added)).max())
            ends.append(most - one.kept - one.passing)
        return kept + max(*ends, 0.0)

    def _whole(self, first: int, added: Floats) -> Floats:
        """Gradients that are whole at each piece of a stage: of a bucket, and of the one before.

        Tied ones wait for their owner's. Without overlap a bucket is gone before the next one.
        """
        each, waits = added[:, WEIGHTS] / self._of.weight_share, np.zeros(len(added))
        tied = self._of.tied
        if tied and first <= tied.owner and tied.user < first + len(added):
            size = tied.share * each[tied.owner - first]
            each[tied.user - first] -= size
            waits[tied.owner - first + 1 : tied.user - first + 1] = size
            dummy = self._of.array.group.arithmetic.dummy_gradients
            waits[tied.user - first] += size * self._of.weight_share * dummy
        full, before, now = self._of.exchanges.bucket_bytes(self._ways), 0.0, 0.0
        for k in reversed(range(len(each))):
            most = 0.0
            for part in self._of.parts[first + k]:
                if now >= full:
                    before, now = now if self._of.execution.overlap else 0.0, 0.0
                now += part * each[k]
                most = max(most, before + now)
            waits[k] += most
        return waits

    def _passing_units(self) -> float:
        """The most at a unit's backward pass, where its weights are gathered.

        Beside it is what units before it keep, and with overlap the weights of the one that is
        next, and the gradients of the one before. Its own gradients are there at the end.
        """
        first, end = self._cuts
        added, alone = self._tables[0][0].rows(first, end, self._again(first, end, 0, first))
        kept = np.cumsum(np.append(alone[0, KEPT], added[1:, KEPT]))
        before, giving = alone[:, [BEFORE, GIVING]].T
        several = self._ways > self._axes.ep_of_dp  # devices that have the same experts
        whole = added[:, WEIGHTS] - (0.0 if several else added[:, EXPERTS])
        beside, gradients = whole.copy(), whole / self._of.weight_share
        if tied := self._of.tied:  # the user's gradient is the owner's, and has a dummy
            dummy = self._of.array.group.arithmetic.dummy_gradients
            giving[tied.user] += tied.share * whole[tied.owner] * dummy
        if self._of.execution.overlap:
            beside[1:] += whole[:-1]
            beside[:-1] += gradients[1:]
        return float((kept + beside + np.maximum(before, giving + gradients)).max())

    def _fullest(
        self,
        in_flight: int,
        kept: np.ndarray,
        passing: np.ndarray,
        beginning: np.ndarray,
        sums: np.ndarray,
    ) -> float:
        """The most at a backward pass: what stages keep of micro-batches, and what it needs.

        Of a place with ``in_flight`` forward passes whose backward passes are not over. Stages
        take groups of p micro-batches in turn, backward the last stage first. A stage's sums of
        gradients are held from its first backward pass on, which needs ``beginning``.
        """
        p, v = self._axes.pp, len(kept)
        many = v * min(self._many, (in_flight // (p * v) + 3) * p)  # then the same again
        forward = np.arange(many) // p % v
        backward = v - 1 - forward
        made, freed = np.cumsum(kept[forward]), np.cumsum(kept[backward]) - kept[backward]
        last = np.minimum(np.arange(many) + in_flight, many) - 1
        first = np.zeros(many, dtype=bool)
        first[np.unique(backward, return_index=True)[1]] = True
        own = np.where(first, sums[backward], 0.0)
        needs = np.where(first, beginning[backward], passing[backward])
        return float((made[last] - freed + np.cumsum(own) - own + needs).max())

    def _in_flight(self, place: int) -> int:
        """How many forward passes a place has in flight at the most."""
        p, v, n = self._axes.pp, self._axes.vp, self._many
        schedule = self._layout.usual_schedule
        if schedule == "interleaved":
            return min((p - place - 1) * 2 + (v - 1) * p + 1, n * v)
        return n if schedule == "gpipe" else min(p - place, n)
