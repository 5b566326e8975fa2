"""A step's time and memory in closed form: what ranks plans before the engine simulates some.

The engine measures pieces of the network once for each split of a block (``pieces``). All else is
a formula: what stages take together (``bubbles``), what is exchanged, and the update.

Where devices wait for what they send, that is in a stage's forward pass and in the next one's
backward pass; in a rendezvous in those of who receives as well, but once on a micro-batch's way.
Before all passes, stage 0 gathers the first weights that other devices updated. Behind them, each
stage sums the gradients that its last backward pass does not hide, and updates its weights. With
ZeRO-2 no pass is shorter than a stage's sums of one micro-batch. Exchanges that are hidden make
computing as much longer as ``contention`` of the device says.

What is left out: links that several exchanges use at once, but those of places that share nodes,
and the order of unlike stages at a place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import inf
from typing import NamedTuple

import numpy as np

from hardware import Array
from planners import Axes, PlanError, Update
from planners.axes.stage_cuts import blocks_of, usual_first_nodes
from planners.pipeline.staging import usual_schedule
from planners.plan.updates import ARRIVAL
from simulator.cost.memory import capacity_bytes
from simulator.lowering.execution import Execution
from simulator.search.closed_form.bubbles import Stages
from simulator.search.closed_form.exchange_times import Bucketed, ExchangeTimes
from simulator.search.closed_form.pieces import (
    BEFORE,
    EXPERTS,
    GIVING,
    KEPT,
    WEIGHTS,
    Again,
    Piece,
    Pieces,
    Table,
    Tied,
)
from workloads import Network, partition_graph

SCHEDULES = ("1f1b", "interleaved", "gpipe", "zero-bubble")
"""Those with a closed form."""
IN_PARTS: dict[str, int] = {Update.SHARDED: 1, Update.GRADIENTS: 2, Update.WEIGHTS: 3}
"""How much of the optimizer's state, gradients and weights replicas keep in parts, by update."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A plan that can be estimated: axes whose ``dp`` is known, and options.

    ``firsts`` are the first node of each stage (none: as planner "axes" cuts).
    """

    axes: Axes
    micro_batch: int
    recompute: str = "none"
    update: str = ""
    schedule: str = ""
    firsts: tuple[int, ...] = ()

    @property
    def usual_schedule(self) -> str:
        """The schedule that is named, or else what is usual."""
        return self.schedule or usual_schedule(self.axes.vp)


class Estimate(NamedTuple):
    """Seconds of a step, bytes on the fullest device, and which share of its memory they are.

    ``held_share`` is the largest share that is held all the time.
    """

    seconds: float
    peak_bytes: float
    share: float
    held_share: float


class FirstPass:
    """Estimates for a network on an array, which is as the execution model plans for it."""

    def __init__(self, network: Network, array: Array, batch: int, execution: Execution) -> None:
        self.array, self.execution, self.batch = array, execution, batch
        self.exchanges = ExchangeTimes(array, execution)
        self._network, self._pieces = network, Pieces(network, array, execution)
        self._tables: dict[Hashable, Table] = {}
        self._usual: dict[int, tuple[int, ...]] = {}

    def estimate(self, layout: Layout, room: float = inf) -> Estimate:
        """Time and memory; infinite time of what does not fit in this share of devices' memory.

        Raises PlanError for a layout without a formula, or that does not fit the network.
        """
        if layout.usual_schedule not in SCHEDULES:
            raise PlanError(f"schedule {layout.usual_schedule!r} has no closed form")
        return _Step(self, layout, self._cuts(layout)).estimate(room)

    def _cuts(self, layout: Layout) -> tuple[int, ...]:
        """The first piece of each stage, and the end."""
        stages = layout.axes.pp * layout.axes.vp
        if not layout.firsts and stages not in self._usual:
            self._usual[stages] = usual_first_nodes(self._network, stages)
        firsts = layout.firsts or self._usual[stages]
        if not set(firsts) <= self._numbers.keys():
            raise PlanError("stages begin where pieces do not")
        return (*(self._numbers[node] for node in firsts), len(self._numbers))

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {node: number for number, node in enumerate(self._pieces.begins)}

    @cached_property
    def weighted(self) -> int:
        """Layers with weights."""
        return sum(layer.weighted for layer in self._network.layers)

    def micro_batches(self, layout: Layout) -> int:
        """Of each replica."""
        return self.batch // (layout.axes.dp * layout.micro_batch)

    def table(self, axes: Axes, place: int, micro_batch: int, recompute: str) -> Table:
        """The pieces of a split, on those devices of a place where they take longest.

        Its replicas are not alike where their devices are of other kinds, or nodes part them.
        """
        split = replace(axes, dp=axes.ep_of_dp, pp=1, vp=1)
        each, many = axes.dp * axes.tp * axes.cp, split.dp * split.tp * split.cp
        first = place * each
        runs = {*self.exchanges.nodes.unlike(first, each, many)}
        for end in self._kinds_end:
            if first < end < first + each:
                run = end - (end - first) % many
                runs |= {run, min(run + many, first + each - many)}
        found = (self._table(split, run, many, micro_batch, recompute) for run in sorted(runs))
        return max(found, key=lambda one: one.seconds)

    def _table(self, split: Axes, first: int, many: int, micro_batch: int, recompute: str) -> Table:
        """On so many devices from the ``first`` on."""
        kinds = (bisect_right(self._kinds_end, one) for one in (first, first + many - 1))
        key = split, *kinds, self.exchanges.nodes.parted(first, many), micro_batch, recompute
        if key not in self._tables:
            of = self._pieces.measured(split, micro_batch, first, recompute)
            self._tables[key] = Table(*of, self.tied)
        return self._tables[key]

    def capacity_bytes(self, axes: Axes, place: int) -> float:
        """HBM of a core of the smallest of a place's devices."""
        each = axes.dp * axes.tp * axes.cp
        first = bisect_right(self._kinds_end, place * each)
        last = bisect_right(self._kinds_end, (place + 1) * each - 1)
        return capacity_bytes(self.array.group.kinds[first : last + 1])

    @cached_property
    def _kinds_end(self) -> list[int]:
        """The device behind the last one of each kind."""
        return list(accumulate(self.array.group.leaves))

    @cached_property
    def blocks(self) -> tuple[int, int]:
        """The first of the pieces that are blocks, and the one behind the last."""
        begins, blocks = self._pieces.begins, blocks_of(partition_graph(self._network))
        if not blocks.firsts:
            return 0, len(begins)
        found = [k for k, node in enumerate(begins) if node < blocks.end]
        return int(blocks.firsts[0] in begins[1:2]), len(found)

    @cached_property
    def crossings(self) -> list[float]:
        """Bytes of a sample that cross the cut in front of each piece."""
        found = [0.0] * len(self._pieces.begins)
        for one in self._pieces.cut.crossings:
            for piece in range(one.source + 1, one.target + 1):
                found[piece] += one.tensor.elements * self.array.group.arithmetic.activation_bytes
        return found

    @cached_property
    def tied(self) -> Tied | None:
        """The pieces that share weights, if any do."""
        if not (ties := self._pieces.cut.ties):
            return None
        one = ties[0]
        whole = self._pieces.cut.networks[one.source].parameters
        share = self.tied_bytes / (whole * self.array.group.arithmetic.gradient_bytes)
        return Tied(one.source, one.target, share)

    @cached_property
    def tied_bytes(self) -> float:
        """Gradients of weights that a later piece uses too, without tp."""
        return self._pieces.tied_bytes(Axes(dp=1))

    @cached_property
    def weight_share(self) -> float:
        """Bytes of weights as operators read them, for each byte of their gradients."""
        arithmetic = self.array.group.arithmetic
        return arithmetic.weight_bytes / arithmetic.gradient_bytes

    @cached_property
    def slower(self) -> float:
        """What a second of a hidden exchange adds to computing."""
        most = max(device.roofline.contention for device, _ in self.array.group.kinds)
        return most / (1 + most)


class _Step:
    """One layout's step."""

    def __init__(self, of: FirstPass, layout: Layout, cuts: tuple[int, ...]) -> None:
        self._of, self._layout, self._axes, self._cuts = of, layout, layout.axes, cuts
        self._many = of.micro_batches(layout)
        self._parts = IN_PARTS.get(layout.update, 0)
        self._ways = layout.axes.dp * layout.axes.cp
        self._tables = [self._tables_of(place) for place in range(layout.axes.pp)]
        self._stages = [
            self._stage(*ends, k % layout.axes.pp) for k, ends in enumerate(pairwise(cuts))
        ]

    def estimate(self, room: float) -> Estimate:
        """Its time, where it fits, and memory."""
        held = [self._held(place) for place in self._places]
        whole = [self._of.capacity_bytes(self._axes, place) for place in self._places]
        peaks = [
            each + self._passing(place) for each, place in zip(held, self._places, strict=True)
        ]
        share, most = max((each / one, each) for each, one in zip(peaks, whole, strict=True))
        held_share = max(each / one for each, one in zip(held, whole, strict=True))
        return Estimate(self._seconds() if share <= room else inf, most, share, held_share)

    @cached_property
    def _places(self) -> list[int]:
        """The first of those places that are alike: it holds most, and is the last to be done."""
        p = self._axes.pp
        found: dict[tuple[float | Piece, ...], int] = {}
        for place in range(p):
            capacity = self._of.capacity_bytes(self._axes, place)
            found.setdefault((capacity, *self._stages[place::p]), place)
        return sorted({*found.values(), p - 1})

    def _tables_of(self, place: int) -> list[Table]:
        """Of the pieces as they are, and where only some compute forward again, of those."""
        mode, of = self._layout.recompute, (self._axes, place, self._layout.micro_batch)
        return [
            self._of.table(*of, one) for one in (["none", "full"] if mode.isdecimal() else [mode])
        ]

    def _stage(self, first: int, end: int, place: int, whole: int | None = None) -> Piece:
        """A stage of pieces, or a part of one, which begins with piece ``whole``."""
        again = self._again(first, end, place, first if whole is None else whole)
        return self._tables[place][0].stage(first, end, again)

    def _again(self, first: int, end: int, place: int, whole: int) -> Again:
        """The pieces that are computed again, where a number of blocks is: a stage's first ones."""
        _, *again = self._tables[place]
        if not again:
            return None
        begin = max(whole, self._of.blocks[0])
        most = min(begin + int(self._layout.recompute), end, self._of.blocks[1])
        begin = max(begin, first)
        return begin, max(most, begin), again[0]

    def _seconds(self) -> float:
        forward_s = [one.forward_s for one in self._stages]
        backward_s = [one.backward_s for one in self._stages]
        start_s = self._gathered(forward_s, backward_s) if self._parts else 0.0
        summed_s = self._summed(backward_s) if self._parts == 2 else [0.0] * len(self._stages)
        for k, one in enumerate(self._stages):  # no pass takes less than its host
            forward_s[k] = max(forward_s[k], one.host_s)
            backward_s[k] = max(backward_s[k], one.host_back_s)
        samples, crossings = self._layout.micro_batch, self._of.crossings
        sent_s = [
            self._of.exchanges.handed_s(self._axes, k % self._axes.pp, samples * crossings[first])
            for k, first in enumerate(self._cuts[1:-1])
        ]
        sends = self._of.execution.stage_sends(self._layout.usual_schedule, self._axes.vp)
        if sends != "beside":
            both = sends == "rendezvous"
            for k, each_s in enumerate(sent_s):
                forward_s[k] += each_s
                backward_s[k + 1] += each_s
                if both:
                    forward_s[k + 1] += each_s
                    backward_s[k] += each_s
            # on a micro-batch's way, where each send is once, passes have it once, or twice
            sent_s = [-each_s if both else 0.0 for each_s in sent_s]
        sent_s.append(0.0)
        if self._of.execution.inference:  # batches follow one another without a pause
            p = self._axes.pp
            # of a place, and of the link behind it
            busy_s = [sum(each[place::p]) for each in (forward_s, sent_s) for place in range(p)]
            return self._many * max(busy_s)
        gradient_s = [one.gradient_s for one in self._stages]
        stages = Stages(forward_s, backward_s, gradient_s, sent_s, summed_s)
        path_s = stages.passed_s(self._layout.usual_schedule, self._axes.pp, self._many)
        early_s = [0.0, *accumulate(map(sum, zip(backward_s, sent_s, strict=True)))]
        last_s = max(self._behind_s(place) - early_s[place] for place in self._places)
        return start_s + path_s + last_s

    def _gathered(self, forward_s: list[float], backward_s: list[float]) -> float:
        """Weights in parts lengthen passes, and the start, which is returned."""
        stage, overlap, slower = self._stages[0], self._of.execution.overlap, self._of.slower
        if self._parts == 3:
            forward_s[0], backward_s[0] = self._unit_by_unit()
            return 0.0
        gather = self._bucketed("all-gather", 0, stage)
        if not overlap:
            return gather.whole_s
        share = gather.bucket_s / gather.whole_s if gather.whole_s else 1.0
        left_s = max(gather.last_s, gather.whole_s - forward_s[0] * (1 - share))
        return left_s + slower * max(gather.whole_s - left_s, 0.0)

    def _summed(self, backward_s: list[float]) -> list[float]:
        """What a micro-batch's sums of gradients take at each stage, in the passes of the next one.

        They lengthen backward passes; without overlap they are part of them.
        """
        sums_s = [
            self._bucketed("reduce-scatter", k % self._axes.pp, one).whole_s
            for k, one in enumerate(self._stages)
        ]
        overlap, slower = self._of.execution.overlap, self._of.slower
        for k, each_s in enumerate(sums_s):
            backward_s[k] += slower * min(each_s, backward_s[k]) if overlap else each_s
        return sums_s if overlap else [0.0] * len(sums_s)

    def _unit_by_unit(self) -> tuple[float, float]:
        """Forward and backward where each unit's weights are gathered beside the one before it.

        Backward each unit's gradients are scattered beside the next one's errors. The first
        gathering and the last scattering are hidden by nothing.
        """
        overlap, slower = self._of.execution.overlap, self._of.slower
        start, end = self._cuts[0], self._cuts[-1]
        units = [self._stage(k, k + 1, 0, start) for k in range(start, end)]
        gather_s = [self._bucketed("all-gather", 0, one, whole=True).whole_s for one in units]
        scatter_s = [self._bucketed("reduce-scatter", 0, one, whole=True).whole_s for one in units]
        forward_s, backward_s = gather_s[0], scatter_s[0]
        for k, one in enumerate(units):
            ahead_s = gather_s[k + 1] if k + 1 < len(units) else 0.0
            forward_s += _beside(one.forward_s, ahead_s, slower, overlap=overlap)
            back_s = gather_s[k - 1] if k else 0.0
            back_s += scatter_s[k + 1] if k + 1 < len(units) else 0.0
            backward_s += _beside(one.backward_s, back_s, slower, overlap=overlap)
        return forward_s, backward_s

    def _bucketed(self, what: str, place: int, *stages: Piece, whole: bool = False) -> Bucketed:
        """What a place exchanges of ``stages``: gradients, or ("all-gather") weights."""
        share = 1.0 if what == "all-gather" else 1 / self._of.weight_share
        routed = sum(self._routed(one) * one.weights for one in stages)
        dense = sum(one.weights for one in stages) - routed
        first, last = self._ends
        ends = (
            first * share if stages[0] is self._stages[0] else 0.0,
            last * share if stages[-1] is self._stages[-1] else 0.0,
        )
        sizes = dense * share, routed * share, ends, self._each * share
        return self._of.exchanges.bucketed(what, self._axes, place, *sizes, whole=whole)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Bytes of the weights of the first piece, and of the last one."""
        first, end = self._cuts[0], self._cuts[-1]
        entry = self._stage(first, first + 1, 0).weights
        last = self._stage(end - 1, end, self._axes.pp - 1).weights if end - first > 1 else 0.0
        tied = self._of.tied
        if tied and len(self._stages) == 1 and (tied.owner, tied.user) == (first, end - 1):
            last -= tied.share * entry  # the same weights
        return entry, last

    @cached_property
    def _each(self) -> float:
        """Bytes of a layer's weights, on average."""
        return sum(one.weights for one in self._stages) / self._of.weighted

    def _routed(self, stage: Piece) -> float:
        """The share of experts in its weights."""
        return stage.experts / stage.weights if stage.weights else 0.0

    def _part(self, stage: Piece) -> float:
        """The share of its weights that a device updates, where each updates a part."""
        routed = self._routed(stage)
        return (1 - routed) / self._ways + routed / max(self._ways // self._axes.ep_of_dp, 1)

    def _behind_s(self, place: int) -> float:
        """Of a place behind its last backward pass: what is left of sums, and the update."""
        stages, overlap = self._stages[place :: self._axes.pp], self._of.execution.overlap
        what = "reduce-scatter" if self._parts else "all-reduce"
        sums = self._bucketed(what, place, *stages)
        update_s = 0.0
        for one in stages:
            part = self._part(one) if self._parts else 1.0
            update_s += one.launch_s + (one.update_s - one.launch_s) * part
        share = sums.bucket_s / sums.whole_s if sums.whole_s else 1.0
        left_s = sums.whole_s
        if self._parts == 3 or (self._parts == 2 and not overlap):
            left_s = 0.0  # in every pass
        elif overlap:
            backward_s = sum(one.backward_s for one in stages)
            left_s = max(sums.last_s, sums.whole_s - backward_s * (1 - share))
            if self._parts < 2:  # with 2 every pass has them
                left_s += self._of.slower * max(sums.whole_s - left_s, 0.0)
        asked = self._of.execution.update_order
        if asked == ARRIVAL or (self._parts and not asked):
            left_s = max(left_s + update_s * share, update_s)
        else:
            left_s += update_s
        if len(self._stages) > 1 and place in (0, self._axes.pp - 1) and self._of.tied_bytes:
            tied = self._of.tied_bytes / self._axes.tp
            left_s += self._of.exchanges.send_s(self._axes, self._axes.pp - 1, tied)
        return left_s

    def _held(self, place: int) -> float:
        """Bytes on a device of a place that are held all the time."""
        held = 0.0
        for one in self._stages[place :: self._axes.pp]:
            sizes, part = (one.state, one.gradients, one.weights), self._part(one)
            held += sum(sizes[self._parts :]) + part * sum(sizes[: self._parts])
            if self._many > 1:
                held += one.sums * (part if self._parts > 1 else 1.0)
        return held

    def _passing(self, place: int) -> float:
        """The most beside that: what micro-batches keep, and what a pass needs."""
        if self._parts == 3:
            return self._passing_units()
        stages = self._stages[place :: self._axes.pp]
        first = self._many == 1 and self._parts < 2  # in parts, gradients do not gather
        in_flight = self._in_flight(place)
        kept = self._fullest(
            in_flight,
            np.array([one.kept for one in stages]),
            np.array([one.beginning if first else one.passing for one in stages]),
        )
        if self._layout.usual_schedule == "zero-bubble":  # gradients of weights so much later
            kept += min(place, self._many - in_flight) * stages[0].late
        if self._parts < 2:
            return kept
        buckets = 2 * self._of.exchanges.bucket_bytes(self._ways)
        ends = []  # of passes, at their first piece: two buckets of gradients
        for begins, one in zip(self._cuts[place :: self._axes.pp], stages, strict=False):
            piece = self._stage(begins, begins + 1, place)
            gone = one.kept + one.passing - piece.kept - piece.giving
            ends.append(min(buckets, one.weights / self._of.weight_share) - gone)
        return kept + max(*ends, 0.0)

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

    def _fullest(self, in_flight: int, kept: np.ndarray, passing: np.ndarray) -> float:
        """The most at a backward pass: what stages keep of micro-batches, and what it needs.

        Of a place with ``in_flight`` forward passes whose backward passes are not over. Stages
        take groups of p micro-batches in turn, backward the last stage first.
        """
        p, v = self._axes.pp, len(kept)
        many = v * min(self._many, (in_flight // (p * v) + 3) * p)  # then the same again
        forward = np.arange(many) // p % v
        backward = v - 1 - forward
        made, freed = np.cumsum(kept[forward]), np.cumsum(kept[backward]) - kept[backward]
        last = np.minimum(np.arange(many) + in_flight, many) - 1
        return float((made[last] - freed + passing[backward]).max())

    def _in_flight(self, place: int) -> int:
        """How many forward passes a place has in flight at the most."""
        p, v, n = self._axes.pp, self._axes.vp, self._many
        schedule = self._layout.usual_schedule
        if schedule == "interleaved":
            return min((p - place - 1) * 2 + (v - 1) * p + 1, n * v)
        return n if schedule == "gpipe" else min(p - place, n)


def _beside(computed_s: float, exchanged_s: float, slower: float, *, overlap: bool) -> float:
    """A pass beside an exchange, which it hides or not."""
    if not overlap:
        return computed_s + exchanged_s
    return max(computed_s + slower * min(exchanged_s, computed_s), exchanged_s)
