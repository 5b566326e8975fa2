"""What each piece of a network adds to a step: time, memory and gradients, measured by the engine.

The network is cut wherever a stage may begin. The engine runs each piece alone, and with the piece
before it, on the devices of one replica. What a piece adds is the difference: its own work, and
what is exchanged at the joint. So the sum over the pieces of a stage is the whole stage, where
pieces that are not neighbours do not change each other. Identical pieces are run once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hardware import Array
from planners import Axes, planned_by_axes
from planners.axes.node_types import experts
from planners.axes.stage_cuts import between_blocks, blocks_of, repeats_blocks, signature
from planners.order import Kind, Phase
from planners.pipeline.staging import cut_into
from planners.sizing import Floats
from simulator.engine.operations import MOVING, Operation, Program, Task, Worker
from simulator.engine.picoseconds import PICOSECONDS
from simulator.engine.replay import run
from simulator.engine.timeline import Timeline
from simulator.lowering.execution import Execution
from simulator.lowering.models import rules_of
from simulator.lowering.step.training_step import HOST, training_step
from workloads import Cut, Graph, Network, partition_graph

ALL = 1e18
"""A bucket that is never full (bytes)."""
GRADIENTS = MOVING.index("gradients")


class Piece(NamedTuple):
    """Seconds of a micro-batch and of the update, and bytes on the fullest device.

    ``backward_s`` includes what is computed again, and ``gradient_s``: products for gradients of
    weights, which hide ``hidden_s`` of errors' exchanges. ``state``, ``gradients`` and ``weights``
    are held during the whole step, and ``kept`` from the forward to the backward pass, ``late``
    from there until gradients of weights, where those are a pass of their own. ``passing`` is the
    temporary memory of a pass. ``sums`` are gradients that the first backward pass makes, which
    needs ``beginning`` with what it has made so far, and to which others add. ``before`` is what a
    pass needs until its first gradient of weights, ``giving`` from there on, both without
    gradients and their dummies.
    ``experts`` are weights of experts. Of the update, ``launch_s`` do not depend on how many
    weights there are. ``host_s`` and ``host_back_s`` are what the host needs for layers of
    experts, forward and backward: no pass through a stage takes less.
    """

    forward_s: float
    backward_s: float
    gradient_s: float
    hidden_s: float
    update_s: float
    launch_s: float
    host_s: float
    host_back_s: float
    state: float
    gradients: float
    weights: float
    experts: float
    kept: float
    sums: float
    late: float
    passing: float
    beginning: float
    before: float
    giving: float

    @property
    def seconds(self) -> float:
        """Of a micro-batch."""
        return self.forward_s + self.backward_s


class Alone(NamedTuple):
    """Pieces as a network by themselves, and the products that read what it receives."""

    network: Network
    readers: frozenset[int]


UPDATE, LAUNCH, STATE, WEIGHTS, EXPERTS, KEPT, SUMS, LATE, PASSING, BEGINNING, BEFORE, GIVING = map(
    Piece._fields.index,
    (
        *("update_s", "launch_s", "state", "weights", "experts"),
        *("kept", "sums", "late", "passing", "beginning", "before", "giving"),
    ),
)
"""Columns of a table: seconds in front of ``STATE``, then bytes."""
TIED = [STATE, Piece._fields.index("gradients"), WEIGHTS, SUMS]


class Tied(NamedTuple):
    """A piece whose weights another one uses too: the share of its weights that does so."""

    owner: int
    user: int
    share: float


class Table:
    """Pieces of a split as matrices, by piece and field."""

    def __init__(self, alone: Sequence[Piece], added: Sequence[Piece], tied: Tied | None) -> None:
        self.alone, self.added, self._tied = np.array(alone), np.array(added), tied
        self._known: dict[tuple[int, int, int, bool], Piece] = {}
        self.seconds = float(self.added[:, :2].sum())
        """Of a micro-batch through all pieces."""

    def rows(self, first: int, end: int, again: Again = None) -> tuple[Floats, Floats]:
        """What each piece of a stage adds, and what it is by itself.

        Some pieces may compute forward ``again``: from a number to another, as in a table.
        """
        added, alone = self.added[first:end].copy(), self.alone[first:end].copy()
        if again is not None:
            begin, middle, table = again
            added[begin - first : middle - first] = table.added[begin:middle]
            alone[begin - first : middle - first] = table.alone[begin:middle]
        return added, alone

    def stage(self, first: int, end: int, again: Again = None, *, apart: bool = False) -> Piece:
        """A stage: times with what is exchanged at its entry, memory as it is by itself.

        Where gradients of weights are a pass ``apart``, what they need stays until then.
        """
        key = first, end, again[1] if again else 0, apart
        if key not in self._known:
            added, (alone, *_) = self.rows(first, end, again)
            times, held = added.sum(axis=0), added[1:].sum(axis=0) + alone
            needs = np.vstack([alone, added[1:]])
            if self._tied and first <= self._tied.owner and self._tied.user < end:
                of = self._tied.share * self.alone[self._tied.owner]
                times[UPDATE] -= of[UPDATE] - of[LAUNCH]
                held[TIED] -= of[TIED]
                needs[: self._tied.owner - first + 2, BEGINNING] -= of[SUMS]  # the user had them
            # backward, what the pieces behind one have kept is free again
            freed = added[:, KEPT] - (added[:, LATE] if apart else 0.0)
            needs -= np.append(np.cumsum(freed[:0:-1])[::-1], 0.0)[:, None]
            made_behind = np.append(np.cumsum(added[:0:-1, SUMS])[::-1], 0.0)
            needs[:, BEGINNING] += made_behind
            most = needs[:, PASSING:].max(axis=0).tolist()
            found = [*times[:STATE].tolist(), *held[STATE:PASSING].tolist(), *most]
            self._known[key] = Piece(*found)
        return self._known[key]


Again = tuple[int, int, Table] | None
"""The first of the pieces that compute forward again, the one behind the last, and their table."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of a network on an array, which is as the execution model plans for it."""

    network: Network
    array: Array
    execution: Execution

    @cached_property
    def begins(self) -> tuple[int, ...]:
        """The node with which each piece begins."""
        return pieces_of(self.network)

    @cached_property
    def cut(self) -> Cut:
        """The network in its pieces."""
        return cut_into(self.network, self.begins)

    @cached_property
    def _distinct(self) -> tuple[list[Alone], list[int], list[int]]:
        """What to run, and which of it is each piece, and each pair with the one before it.

        Pairs come from two cuts: those that begin with an even piece, and with an odd one.
        """
        odd = cut_into(self.network, (0, *self.begins[1::2]))
        even = cut_into(self.network, self.begins[::2])
        ends, graph = (*self.begins, len(self.cut.graph)), self.cut.graph
        seen = Counter(signature(graph, *both) for both in pairwise(ends))
        runs: dict[Hashable, int] = {}
        found: list[Alone] = []

        def number(cut: Cut, stage: int, first: int, many: int) -> int:
            key = signature(graph, ends[first], ends[first + many])
            if many == 1 and seen[key] == 2:  # the pair of both ends with what is behind the last
                key = key, len(cut.networks[stage].layers)
            at = runs.setdefault(key, len(found))
            if at == len(found):
                found.append(Alone(cut.networks[stage], _readers(cut, stage)))
            return at

        alone = [number(self.cut, k, k, 1) for k in range(len(self.cut.networks))]
        pairs = [
            number(odd if k % 2 else even, k // 2 + k % 2, k, 2) for k in range(len(alone) - 1)
        ]
        return found, alone, pairs

    @property
    def _free(self) -> Execution:
        """Gradients are summed behind the backward pass, where they do not delay it."""
        own = replace(self.execution, staging=None, strict_memory=False, update="")
        return replace(own, bucket_bytes=ALL)

    def measured(
        self, axes: Axes, micro_batch: int, first: int = 0, recompute: str = "none"
    ) -> tuple[list[Piece], list[Piece]]:
        """All pieces alone, and what each adds to the one before it.

        Of ``micro_batch`` samples, split along tp, cp and ep; ``first`` is the number of the first
        device in use. Raises PlanError for axes that do not fit the network.
        """
        free = replace(self._free, recompute=recompute)

        distinct, alone, pairs = self._distinct
        ran = [self._ran(one, axes, micro_batch, first, free) for one in distinct]
        pieces = [ran[number] for number in alone]
        added = [_added(ran[pair], one) for pair, one in zip(pairs, pieces, strict=False)]
        return pieces, [pieces[0], *added]

    def _ran(
        self, piece: Alone, axes: Axes, micro_batch: int, first: int, free: Execution
    ) -> Piece:
        network = piece.network
        graph = partition_graph(network)
        ways = axes.ep_of_dp
        whole = any(map(experts, graph))
        own = replace(axes, dp=ways, pp=1, vp=1, ep=axes.ep if whole else 1)
        part = self.array.part(first, ways * axes.tp * axes.cp)
        plan = planned_by_axes(network, part, micro_batch * ways, own)
        rules = rules_of(network, plan, part, free, folded=True)
        rules.received_in_parts |= piece.readers if axes.sp and axes.tp > 1 else set()
        program = training_step(rules)
        worker = program.workers[0]
        kept, late, passing, beginning, before, giving = _held(worker, graph)
        sums = sum(task.accumulated for task in worker.template)
        forward_ps, backward_ps = _ends(run(program))
        waits = [task.operation for task in worker.template if task.operation.layer == HOST]
        late_s = _seconds_of(waits, forward=True), _seconds_of(waits, forward=False)
        dispatch_s = max(device.roofline.host_layer_s for device, _ in part.group.kinds)
        layers, again = rules.dispatches
        updates, weights = _of_phase(worker, Phase.UPDATE), _weights(graph)
        host_s = max(device.roofline.host_s for device, _ in part.group.kinds)
        found = _of_phase(worker, Phase.GRADIENT)
        gradients = [task for task in found if task.operation.layer in weights]
        gradient_s, hidden_s = _seconds(gradients), 0.0
        if gradients and free.overlap and own.tp * own.cp * own.ep > 1:
            _, apart_ps = _ends(run(_without_gradients(program, weights)))
            hidden_s = max(gradient_s - (backward_ps - apart_ps) / PICOSECONDS, 0.0)
        each = part.group.arithmetic
        weight = each.weight_bytes / each.gradient_bytes
        state = worker.held_bytes - worker.weight_bytes - worker.gradient_bytes
        return Piece(
            forward_ps / PICOSECONDS - late_s[0],
            (backward_ps - forward_ps) / PICOSECONDS - late_s[1],
            gradient_s,
            hidden_s,
            _seconds(updates),
            sum(_launch_s(task.operation, host_s) for task in updates),
            dispatch_s * layers / 3,
            dispatch_s * (2 * layers + again) / 3,
            state,
            worker.gradient_bytes,
            worker.weight_bytes,
            sum(rules.tied_largest(v) for v, node in enumerate(graph) if experts(node)) * weight,
            kept,
            sums,
            late,
            passing,
            beginning,
            before,
            giving,
        )

    def tied_bytes(self, axes: Axes) -> float:
        """Gradients of weights that a later piece uses too (bytes on a device)."""
        part = self.array.part(0, axes.tp * axes.cp)
        free = self._free
        found = 0.0
        for tie in self.cut.ties:
            network = self.cut.networks[tie.source]
            own = replace(axes, dp=1, pp=1, vp=1, ep=1)
            plan = planned_by_axes(network, part, 1, own)
            rules = rules_of(network, plan, part, free, folded=True)
            found += rules.tied_largest(tie.owner - self.begins[tie.source])
        return found


def _readers(cut: Cut, stage: int) -> frozenset[int]:
    """The products of a stage that read what it receives: gathered, with sequence parallelism."""
    into = (one.consumers for one in cut.crossings if one.target == stage)
    nodes = (v for consumers in into for v in consumers)
    products = (v for v in nodes if not (cut.graph[v].join or cut.graph[v].operand))
    return frozenset(v - cut.firsts[stage] for v in products)


def _launch_s(update: Operation, host_s: float) -> float:
    """Seconds that an update takes of however few weights: overhead, or its host's time.

    One that waits for its host already takes a whole number of the host's times.
    """
    took_s, over_s = update.duration_ps / PICOSECONDS, update.bound_s[2]
    starts = took_s / host_s if host_s else 0.0
    waits = starts > 0 and abs(starts - round(starts)) < 1e-6
    return took_s if waits else max(over_s, min(host_s, took_s))


def _added(pair: Piece, before: Piece) -> Piece:
    """What the second piece of a pair adds; temporary memory is that of the pair."""
    apart = (both - one for both, one in zip(pair, before, strict=True))
    return Piece(*[*apart][:PASSING], *pair[PASSING:])


def _ends(timeline: Timeline) -> tuple[int, int]:
    """When forward is over, and backward: without the exchange of gradients, and the update."""
    forward = backward = 0
    for one in timeline:
        if one.phase == Phase.FORWARD:
            forward = max(forward, one.end_ps)
        elif one.phase != Phase.UPDATE and (one.kind, one.phase) != (Kind.SUMS, Phase.GRADIENT):
            backward = max(backward, one.end_ps)
    return forward, max(backward, forward)


def _without_gradients(program: Program, weights: set[str]) -> Program:
    """The same, where products for gradients of weights take no time."""

    def quick(task: Task) -> Task:
        of = task.operation
        if not task.computes or of.phase != Phase.GRADIENT or of.layer not in weights:
            return task
        return task._replace(operation=replace(of, duration_ps=0, hbm_bytes=0.0))

    workers = (replace(one, template=tuple(map(quick, one.template))) for one in program.workers)
    return replace(program, workers=tuple(workers))


def _of_phase(worker: Worker, phase: Phase) -> list[Task]:
    """What the cores do in a phase."""
    tasks = (task for task in worker.template if task.computes)
    return [task for task in tasks if task.operation.phase == phase]


def _weights(graph: Graph) -> set[str]:
    """Nodes with weights: the "gradient" of others is the error of a second operand."""
    return {node.name for node in graph if not node.operand}


def _seconds(tasks: Sequence[Task]) -> float:
    return sum(task.operation.duration_ps for task in tasks) / PICOSECONDS


def _seconds_of(waits: Sequence[Operation], *, forward: bool) -> float:
    """Of waits for the host those behind the forward pass, or behind the others."""
    found = (one.duration_ps for one in waits if (one.phase is Phase.FORWARD) == forward)
    return sum(found) / PICOSECONDS


def _held(worker: Worker, graph: Graph) -> tuple[float, ...]:
    """Bytes held when forward is over, when errors are, and what is needed besides at the most.

    That is in all, with the sums of gradients that are made so far, and without dummies before
    the first gradient of weights, and from there on. Else sums do not count: they are held from
    pass to pass.
    """
    weights, needs = _weights(graph), [0.0, 0.0]
    level = most = kept = late = made = beginning = 0.0
    given = False
    for task in worker.template:
        phase, more = task.operation.phase, task.held.more - task.accumulated
        if phase == Phase.UPDATE:
            continue
        gradient = phase == Phase.GRADIENT and task.operation.layer in weights
        given = given or gradient
        here = level + task.held.most - task.accumulated
        most, beginning = max(most, here), max(beginning, made + here + task.accumulated)
        made += task.accumulated
        dummy = (
            task.held.most_by[GRADIENTS] - task.accumulated
            if gradient and task.held.most_by
            else 0.0
        )
        needs[given] = max(needs[given], here - dummy)
        level += more
        kept = level if phase == Phase.FORWARD else kept
        late += 0.0 if gradient else more
    return kept, max(late, 0.0), *(one - kept for one in (most, beginning, *needs))


def pieces_of(network: Network) -> tuple[int, ...]:
    """The nodes in front of which stages may begin: blocks, and what is before and behind them.

    Without blocks that are alike, wherever one tensor crosses; each piece has weights.
    """
    graph = partition_graph(network)
    blocks = blocks_of(graph)
    equal = repeats_blocks(graph)
    begins = (0, *blocks.firsts, blocks.end) if equal else tuple(between_blocks(graph))
    weighted = {layer.name for layer in network.layers if layer.weighted}
    whole = equal and blocks.firsts[0] > 0 and blocks.end < len(graph)
    if whole and all(_any(graph, weighted, *ends) for ends in ((0, begins[1]), (begins[-1], None))):
        return begins
    if equal:
        return (0, *blocks.firsts[1:])
    found, last = [0], 0
    for begin in begins[1:]:
        if _any(graph, weighted, last, begin) and _any(graph, weighted, begin, None):
            found.append(begin)
            last = begin
    return tuple(found)


def _any(graph: Graph, weighted: set[str], first: int, end: int | None) -> bool:
    return any(node.name in weighted for node in graph[first:end])
