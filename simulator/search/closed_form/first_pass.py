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

from functools import cached_property
from math import inf

from planners import PlanError
from planners.axes.degrees import SPLITTING, order_of
from planners.plan.updates import ARRIVAL
from simulator.search.closed_form.bubbles import Stages
from simulator.search.closed_form.exchange_times import Bucketed
from simulator.search.closed_form.network_on_array import (
    SCHEDULES,
    Estimate,
    Layout,
    NetworkOnArray,
)
from simulator.search.closed_form.pieces import Piece
from simulator.search.closed_form.step_stages import StepStages

GROUPS = 4
"""Of micro-batches of inference until they follow each other at an even pace."""


class FirstPass(NetworkOnArray):
    """Estimates for a network on an array, which is as the execution model plans for it."""

    def estimate(self, layout: Layout, room: float = inf) -> Estimate:
        """Time and memory; infinite time of what does not fit in this share of devices' memory.

        Raises PlanError for a layout without a formula, or that does not fit the network.
        """
        if layout.usual_schedule not in SCHEDULES:
            raise PlanError(f"schedule {layout.usual_schedule!r} has no closed form")
        staging = self.execution.staging
        if staging and order_of(staging.axis_order) != SPLITTING:
            raise PlanError(f"axis-order {staging.axis_order!r} has no closed form")
        return _Step(self, layout, self.cuts(layout)).estimate(room)


class _Step(StepStages):
    """One layout's step."""

    def estimate(self, room: float) -> Estimate:
        """Its time, where it fits, and memory."""
        peaks = [(place, self._held(place) + self._passing(place)) for place in self._places]
        share, most = max(
            (peak / self._of.capacity_bytes(self._axes, place), peak) for place, peak in peaks
        )
        return Estimate(self._seconds() if share <= room else inf, most, share)

    def _seconds(self) -> float:
        forward_s = [one.forward_s for one in self._stages]
        backward_s = [one.backward_s for one in self._stages]
        start_s = self._gathered(forward_s, backward_s) if self._parts else 0.0
        summed_s = self._summed(backward_s) if self._parts == 2 else [0.0] * len(self._stages)
        for k, one in enumerate(self._stages):  # no pass takes less than its host
            forward_s[k] = max(forward_s[k], one.host_s)
            backward_s[k] = max(backward_s[k], one.host_back_s)
            if self._layout.usual_schedule == "zero-bubble":  # errors hide no gradients
                backward_s[k] += one.hidden_s
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
        if self._of.execution.inference:
            return self._one_after_another(forward_s, sent_s)
        gradient_s = [one.gradient_s for one in self._stages]
        stages = Stages(forward_s, backward_s, gradient_s, sent_s, summed_s)
        schedule = self._layout.usual_schedule
        path_s = stages.passed_s(schedule, self._axes.pp, self._many)
        early_s = stages.early_s(schedule, self._many)
        last_s = max(self._behind_s(place) - early_s[place] for place in self._places)
        return start_s + path_s + last_s

    def _one_after_another(self, forward_s: list[float], sent_s: list[float]) -> float:
        """Inference, whose batches follow one another without a pause.

        Each of p places does its first stage of p micro-batches, then its next stage of these; the
        link behind it carries one at a time. A batch takes as long as the last of some such groups.
        """
        p, many = self._axes.pp, GROUPS if self._axes.pp > 1 else 1
        free_s, link_s, ended_s = [0.0] * p, [0.0] * p, [0.0]
        for _ in range(many):
            came_s = [0.0] * p
            for k, (pass_s, send_s) in enumerate(zip(forward_s, sent_s, strict=True)):
                place = k % p
                for i, at_s in enumerate(came_s):
                    free_s[place] = max(free_s[place], at_s) + pass_s
                    link_s[place] = max(free_s[place], link_s[place]) + send_s
                    came_s[i] = link_s[place]
            ended_s.append(free_s[-1])
        return self._many / p * (ended_s[-1] - ended_s[-2])

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
        weighted, any_parameters = self._of.layers
        many = weighted if self._of.exchanges.bucket_bytes(self._ways) else any_parameters
        return sum(one.weights for one in self._stages) / many

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


def _beside(computed_s: float, exchanged_s: float, slower: float, *, overlap: bool) -> float:
    """A pass beside an exchange, which it hides or not."""
    if not overlap:
        return computed_s + exchanged_s
    return max(computed_s + slower * min(exchanged_s, computed_s), exchanged_s)
