"""Stages over kinds of devices: a dynamic program over layers and free devices of each kind.

What a stage takes and holds is given (``Option``); here are the cuts, the kinds, and how wide
and how often each stage is there. Of a pipeline whose stages s have r_s replicas, which take
a_s for a micro-batch and send it on in c_s, M micro-batches take about

    S_0 + max of all w_s and v_s + e,   S_s = sum of a_j + 2 c_j from s on,
    w_s = (M / r_s - 1) a_s, or (M / r_s - 1) S_s / N_s if that is more and N_s < M / r_s,
    v_s = (M / min(r_s, r_(s+1)) - 1) c_s

as at most N_s of a replica's M / r_s micro-batches are in flight (1F1B), and it sends or takes
one at a time; e is what sums and updates last longer than what is behind them. For each bound on
all w_s and v_s the program finds, from the last stage to the first, the stages with the least
S_0 + e.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from planners.sizing import Floats

BEHIND = 2 / 3
"""The backward share of the time that a micro-batch spends in a stage."""
UNEVEN = 0.08
"""Estimated delay of each micro-batch, as a share, for two neighbours with unlike replica counts.
It only orders candidates: the engine judges them."""
STEP = 0.1
"""From one bound to the next: so much of the bound, or of half the least time of a step."""
MOVED = 4
"""Solutions of each bound that are improved by moving single layers."""
MOST_STATES = 200
"""Most states of the program (numbers of devices in use, by kind)."""
MOST_CUTS = 24
"""Most positions where the program cuts. Solutions are then improved by moving single layers."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """A stage on ``replicas`` of ``tp`` devices of a kind; matrices are by first and end layer.

    ``seconds`` are those of a micro-batch, ``end_s`` those of sums and updates, ``held`` the
    share of the memory that is full without a micro-batch, and ``kept`` what each adds.
    ``send_s`` brings a micro-batch to a stage of each kind, ``near_s`` to one in its node. Where
    its weights are used by the last stage too, their gradients take ``tied_s`` from each kind.
    """

    kind: int
    tp: int
    replicas: int
    seconds: Floats
    end_s: Floats
    held: Floats
    kept: Floats
    send_s: Floats
    near_s: float
    tied_s: Floats


class Chosen(NamedTuple):
    """A stage: an option's number, its first layer, and the one behind its last."""

    option: int
    first: int
    end: int


Stages = tuple[Chosen, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StageSearch:
    """``devices`` of each kind in nodes of so many, what stages there may be, and micro-batches.

    A stage that fits into a node does not straddle two, and no replica does.
    Where weights are ``tied``, the replicas of the first and of the last stage are multiples of
    each other.
    """

    devices: Sequence[int]
    nodes: Sequence[int]
    options: Sequence[Option]
    micro_batches: int
    tied: bool = False

    def best(self, worth_s: float) -> list[tuple[float, Stages]]:
        """Seconds and stages, the shortest first, of all that are found below ``worth_s``."""
        found: dict[Stages, float] = {}
        bound_s, least_s = 0.0, self.least_s
        most_s = self.micro_batches * max(map(_slowest_s, self.options), default=0.0)
        while max(bound_s, least_s) < min(worth_s, *found.values(), np.inf):
            for stages in sorted(self._within(bound_s), key=self.seconds)[:MOVED]:
                better = self._moved(stages)
                found[better] = self.seconds(better)
            if bound_s > most_s:  # nothing waits longer
                break
            bound_s += STEP * max(bound_s, least_s / 2)
        return sorted((seconds, stages) for stages, seconds in found.items() if seconds < np.inf)

    @property
    def least_s(self) -> float:
        """A lower bound: all work, spread without loss over all devices."""
        rates = [0.0] * len(self.devices)
        for one in self.options:
            layers = np.diagonal(one.seconds, 1).sum() * one.tp
            rates[one.kind] = max(rates[one.kind], self.devices[one.kind] / layers)
        return self.micro_batches / sum(rates) if sum(rates) else np.inf

    def seconds(self, stages: Stages) -> float:
        """What these take; infinite where they do not fit."""
        ends = self._ends(stages)
        if ends is None:
            return np.inf
        total_s = end_s = wait_s = 0.0
        behind, after, following = 0, -1, 0
        head, tail = (self.options[stages[k].option] for k in (0, -1))
        for (number, first, end), last in zip(reversed(stages), reversed(ends), strict=True):
            one = self.options[number]
            took_s = one.seconds[first, end]
            near = after == one.kind and last % self.nodes[one.kind]
            total_s += took_s
            if behind:
                sent_s = one.near_s if near else one.send_s[after]
                total_s += 2 * sent_s
                turns = self.micro_batches // min(one.replicas, following)
                wait_s = max(wait_s, (turns - 1) * sent_s)
            in_flight = (behind + one.replicas - 1) // one.replicas + 1
            turns = self.micro_batches // one.replicas
            if one.held[first, end] + min(in_flight, turns) * one.kept[first, end] > 1:
                return np.inf
            cycle_s = max(took_s, total_s / in_flight if in_flight < turns else 0.0)
            wait_s = max(wait_s, (turns - 1) * cycle_s)
            end_s = max(one.end_s[first, end], end_s - BEHIND * took_s)
            behind, after, following = behind + one.replicas, one.kind, one.replicas
        if self.tied and len(stages) > 1:
            end_s += _tied_s(head, tail)
        replicas = [self.options[one.option].replicas for one in stages]
        wait_s *= 1 + UNEVEN * sum(one != other for one, other in pairwise(replicas))
        return total_s + wait_s + end_s

    def _ends(self, stages: Stages) -> list[int] | None:
        """Of each stage the device of its kind behind its last; None where one straddles nodes."""
        taken, found = [0] * len(self.devices), []
        for number, _, _ in stages:
            one = self.options[number]
            if straddles(taken[one.kind], one.tp, one.replicas, self.nodes[one.kind]):
                return None
            taken[one.kind] += one.tp * one.replicas
            found.append(taken[one.kind])
        return found

    def _moved(self, stages: Stages) -> Stages:
        """The same with layers moved to neighbours, one after the other, while that helps."""
        best, best_s = stages, self.seconds(stages)
        while True:
            for other in _neighbours(best):
                if (other_s := self.seconds(other)) < best_s * (1 - 1e-9):
                    best, best_s = other, other_s
                    break
            else:
                return best

    def _within(self, bound_s: float) -> Iterator[Stages]:
        """For each number of devices in use, stages that wait no longer for the slowest of them."""
        units = self._units()
        sizes = [many // unit + 1 for many, unit in zip(self.devices, units, strict=True)]
        table = _Table(self, bound_s, units, sizes)
        for used in product(*map(range, sizes)):
            table.fill(used)
        yield from table.complete()

    def _units(self) -> list[int]:
        """Devices of each kind that are taken together, so that there are not too many states."""
        units = np.ones(len(self.devices), dtype=np.int64)
        while np.prod(counts := np.array(self.devices) // units + 1) > MOST_STATES:
            units[counts.argmax()] *= 2
        found: list[int] = units.tolist()
        return found


def straddles(first: Any, tp: Any, replicas: Any, node: Any) -> Any:
    """Whether devices from a number on are in two nodes, though they, or a replica, fit in one."""
    many = tp * replicas
    return (first % node + many > node) & ((many <= node) | (first % tp > 0))


def _tied_s(head: Option, tail: Option) -> float:
    """What the first and the last stage take for the gradients of weights that both have."""
    most, least = sorted((head.replicas, tail.replicas), reverse=True)
    if most % least:
        return np.inf
    return float(max(head.tied_s[tail.kind], tail.tied_s[head.kind]) * (most // least))


def _slowest_s(one: Option) -> float:
    """All layers on one option, each sent on and back."""
    layers = len(one.seconds) - 1
    return float(one.seconds[0, -1] + 2 * layers * max(one.send_s.max(), one.near_s))


def _neighbours(stages: Stages) -> Iterator[Stages]:
    for k in range(len(stages) - 1):
        one, other = stages[k : k + 2]
        for by in (-1, 1):
            if one.first < one.end + by < other.end:
                moved = one._replace(end=one.end + by), other._replace(first=one.end + by)
                yield (*stages[:k], *moved, *stages[k + 2 :])


class _Table:
    """By devices in use behind a layer, and that layer: the best stages from it on."""

    def __init__(
        self, search: StageSearch, bound_s: float, units: Sequence[int], sizes: Sequence[int]
    ) -> None:
        self._search, self._bound_s, self._sizes = search, bound_s, sizes
        ends = len(search.options[0].seconds)
        self._cuts = np.append(np.arange(0, ends - 1, -(-(ends - 1) // MOST_CUTS)), ends - 1)
        layers = len(self._cuts)
        fitting = [
            (number, one, one.tp * one.replicas // units[one.kind])
            for number, one in enumerate(search.options)
            if one.tp * one.replicas % units[one.kind] == 0
        ]
        self._numbers = np.array([number for number, _, _ in fitting], dtype=np.int64)
        self._kinds = np.array([one.kind for _, one, _ in fitting], dtype=np.int64)
        self._needs = np.array([many for _, _, many in fitting], dtype=np.int64)
        self._replicas = np.array([one.replicas for _, one, _ in fitting], dtype=np.int64)
        self._unit, node = np.array(units)[self._kinds], np.array(search.nodes)[self._kinds]
        self._shape = np.array([one.tp for _, one, _ in fitting]), self._replicas, node
        shape = (len(fitting), layers, layers)
        of, at = [one for _, one, _ in fitting], np.ix_(self._cuts, self._cuts)
        self._seconds, self._end_s, self._held, self._kept = (
            np.array([getattr(one, what)[at] for one in of]).reshape(shape)
            for what in ("seconds", "end_s", "held", "kept")
        )
        self._send_s = np.array([one.send_s for one in of])
        self._near_s = np.array([one.near_s for one in of])
        self._tied_s = np.array([[_tied_s(one, other) for other in of] for one in of])
        self._strides = np.array([int(np.prod(sizes[k + 1 :])) for k in range(len(sizes))])
        states = int(np.prod(sizes)), layers
        self._total_s = np.full(states, np.inf)
        self._over_s = np.zeros(states)
        self._total_s[0, -1] = 0.0
        self._behind, self._last, self._kind, self._next = (
            np.zeros(states, dtype=np.int64) for _ in range(4)
        )
        self._from = np.full((*states, 2), -1, dtype=np.int64)

    def fill(self, used: Sequence[int]) -> None:
        """The best stages on so many devices, behind each layer."""
        free = np.array(used)[self._kinds] - self._needs
        mine = np.flatnonzero((free >= 0) & ~straddles(free * self._unit, *self._shape))
        if not len(mine):
            return
        here = int(self._strides @ np.array(used))
        before = here - self._needs[mine] * self._strides[self._kinds[mine]]
        reached = np.isfinite(self._total_s[before]).any(axis=1)
        mine, before = mine[reached], before[reached]
        if not len(mine):
            return
        took_s, many = self._seconds[mine], self._replicas[mine][:, None]
        behind, kind = self._behind[before], self._kind[before]
        near = (free * self._unit % self._shape[2])[mine, None] > 0
        near = near & (kind == self._kinds[mine, None])
        sent_s = np.where(near, self._near_s[mine, None], self._send_s[mine[:, None], kind])
        sent_s = sent_s * (behind > 0)
        total_s = took_s + (self._total_s[before] + 2 * sent_s)[:, None, :]
        in_flight = (behind + many - 1) // many + 1
        turns = self._search.micro_batches // many
        kept = np.minimum(in_flight, turns)[:, None, :] * self._kept[mine]
        finite = np.isfinite(total_s)
        turn_s = np.where((in_flight < turns)[:, None, :], total_s / in_flight[:, None, :], 0.0)
        turn_s = np.where(finite, np.maximum(took_s, turn_s), 0.0)
        pairs = np.minimum(many, np.maximum(self._next[before], 1))
        sending_s = (self._search.micro_batches // pairs - 1) * sent_s
        wait_s = np.maximum((turns - 1)[:, :, None] * turn_s, sending_s[:, None, :])
        fits = finite & (self._held[mine] + kept <= 1) & (wait_s <= self._bound_s * (1 + 1e-9))
        over_s = np.maximum(
            self._end_s[mine],
            self._over_s[before][:, None, :] - BEHIND * np.where(fits, took_s, 0.0),
        )
        uneven = (behind > 0) & (self._next[before] != many)
        over_s += np.where(uneven, UNEVEN * self._bound_s, 0.0)[:, None, :]
        if self._search.tied:
            tied_s = self._tied_s[mine[:, None], self._last[before]]
            over_s[:, 0, :] += np.where(behind > 0, tied_s, 0.0)
        cost = np.where(fits, total_s + over_s, np.inf).transpose(1, 0, 2)
        layers = cost.shape[0]
        flat = cost.reshape(layers, -1)
        which = flat.argmin(axis=1)
        rows = np.arange(layers)
        option, end = np.divmod(which, layers)
        good = np.isfinite(flat[rows, which])
        rows, option, end = rows[good], option[good], end[good]
        self._total_s[here, rows] = total_s[option, rows, end]
        self._over_s[here, rows] = over_s[option, rows, end]
        self._behind[here, rows] = behind[option, end] + many[option, 0]
        first = self._behind[before[option], end] == 0
        self._last[here, rows] = np.where(first, mine[option], self._last[before[option], end])
        self._kind[here, rows] = self._kinds[mine[option]]
        self._next[here, rows] = many[option, 0]
        self._from[here, rows] = np.stack([mine[option], end], axis=1)

    def complete(self) -> Iterator[Stages]:
        """Stages of all layers, for each number of devices for which there are any."""
        for state in np.flatnonzero(np.isfinite(self._total_s[:, 0])).tolist():
            yield self._stages(state)

    def _stages(self, state: int) -> Stages:
        found, first = list[Chosen](), 0
        while first < self._total_s.shape[1] - 1:
            option, end = self._from[state, first].tolist()
            ends = self._cuts[[first, end]].tolist()
            found.append(Chosen(int(self._numbers[option]), *ends))
            state -= int(self._needs[option] * self._strides[self._kinds[option]])
            first = end
        return tuple(found)
