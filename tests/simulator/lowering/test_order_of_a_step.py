"""Nothing of a deployed step begins before all that it must have, by names and times alone.

What features, errors and gradients are ready when is worked out from the
records of each worker and the network's graph; nothing here reads what a
program says that its operations need.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, Topology
from planners import Plan
from planners.order import Kind, Phase
from planners.plan.updates import sharded
from simulator import Execution, Timeline, simulate
from simulator.analysis.worker_records import WorkerRows, worker_rows
from tests.strategies import arrays, networks, plans
from workloads import Graph, Network, partition_graph

Spans = list[tuple[int, int]]


class Seen:
    """What one worker computed and took part in, by kind, phase and layer."""

    def __init__(self, timeline: Timeline, graph: Graph, mine: WorkerRows) -> None:
        self.graph = graph
        self.spans: dict[tuple[Kind, Phase, str], Spans] = defaultdict(list)
        _, operation, _, starts, ends, _ = timeline.columns
        for row in (*mine.computed.tolist(), *mine.joined.tolist()):
            done = timeline.operations[operation[row]]
            self.spans[done.kind, done.phase, done.layer].append((starts[row], ends[row]))
        self.readers: dict[int, list[int]] = defaultdict(list)
        for v, node in enumerate(graph):
            for producer in node.producers:
                self.readers[producer].append(v)

    def of(self, kind: Kind, phase: Phase, *nodes: int) -> Spans:
        return self.spans[kind, phase, " to ".join(self.graph[node].name for node in nodes)]

    def made(self, phase: Phase, v: int) -> int:
        """When this worker has a node's features or errors, sums included."""
        kinds = [Kind.COMPUTE, Kind.SUMS]
        spans = [span for kind in kinds for span in self.of(kind, phase, v)]
        if phase is Phase.BACKWARD and self.graph[v].kind == "matmul":
            spans += self.of(Kind.COMPUTE, Phase.GRADIENT, v)
        return latest(spans, self.wanted(phase, v))

    def wanted(self, phase: Phase, v: int) -> int:
        """When it has all that a node reads: of every producer, or of every reader."""
        if phase is Phase.FORWARD:
            ready = [self.moved(phase, u, v) for u in self.graph[v].producers]
        else:
            ready = [self.moved(phase, v, w) for w in self.readers[v]]
            ready = ready or [self.made(Phase.FORWARD, v)]
        return max(ready, default=0)

    def moved(self, phase: Phase, u: int, v: int) -> int:
        """When a tensor between two nodes is laid out as it is read."""
        source = self.made(phase, u if phase is Phase.FORWARD else v)
        return latest(self.of(Kind.BOUNDARY, phase, u, v), source)


def latest(spans: Spans, otherwise: int) -> int:
    return max((end for _, end in spans), default=otherwise)


def begin(spans: Spans, ready: int) -> None:
    for start, _ in spans:
        assert start >= ready


def check(seen: Seen, shared: frozenset[int]) -> None:
    for v, node in enumerate(seen.graph):
        for phase in (Phase.FORWARD, Phase.BACKWARD):
            begin(seen.of(Kind.COMPUTE, phase, v), seen.wanted(phase, v))
            begin(seen.of(Kind.SUMS, phase, v), latest(seen.of(Kind.COMPUTE, phase, v), 0))
        for u in node.producers:
            begin(seen.of(Kind.BOUNDARY, Phase.FORWARD, u, v), seen.made(Phase.FORWARD, u))
            begin(seen.of(Kind.BOUNDARY, Phase.BACKWARD, u, v), seen.made(Phase.BACKWARD, v))
        products = seen.of(Kind.COMPUTE, Phase.GRADIENT, v)
        begin(products, seen.wanted(Phase.BACKWARD, v))
        summed = seen.of(Kind.SUMS, Phase.GRADIENT, v)
        begin(summed, latest(products, 0))
        updates = seen.of(Kind.COMPUTE, Phase.UPDATE, v)
        begin(updates, latest([*products, *summed], 0))
        gathered = seen.of(Kind.WEIGHTS, Phase.UPDATE, v)
        begin(seen.of(Kind.COMPUTE, Phase.FORWARD, v), latest(gathered, 0))
        if node.tied is not None:
            crossing = seen.of(Kind.BOUNDARY, Phase.GRADIENT, v, node.tied)
            begin(crossing, latest(products, 0))
            owners = seen.of(Kind.SUMS, Phase.GRADIENT, node.tied)
            begin(owners, latest([*products, *crossing], 0))
            update = seen.of(Kind.COMPUTE, Phase.UPDATE, node.tied)
            begin(update, latest([*products, *crossing, *owners], 0))
            new = seen.of(Kind.BOUNDARY, Phase.UPDATE, node.tied, v)
            owned = seen.of(Kind.WEIGHTS, Phase.UPDATE, node.tied)
            if node.tied in shared:  # those of the last step, before this one needs them
                begin(new, latest(owned, 0))
                begin(seen.of(Kind.COMPUTE, Phase.FORWARD, v), latest([*new, *owned], 0))
            else:
                assert not owned
                begin(new, latest(update, 0))


def one_at_a_time(spans: Iterable[tuple[int, int]]) -> None:
    free = 0
    for start, end in sorted(spans):
        assert start >= free
        free = end


@st.composite
def steps(draw: st.DrawFn) -> tuple[Network, Plan, Array, Execution]:
    """Any plan of any network, with and without overlap, on wires that are fast or slow."""
    network, array = draw(networks(5)), draw(arrays(3, 2))
    array = replace(array, topology=Topology(draw(st.sampled_from(("tree", "switch", "ring")))))
    execution = Execution(
        "deployed",
        overlap=draw(st.booleans()),
        whole_shards=draw(st.booleans()),
        bucket_bytes=draw(st.sampled_from((0.0, 25e6))),
    )
    return network, draw(plans(network, execution.planned(array), 24)), array, execution


@settings(max_examples=60, deadline=None)
@given(steps())
def test_nothing_begins_before_what_it_needs(case: tuple[Network, Plan, Array, Execution]) -> None:
    timeline, graph = simulate(*case), partition_graph(case[0])
    for mine in worker_rows(timeline):
        check(Seen(timeline, graph, mine), sharded(case[1].updates))


@settings(max_examples=40, deadline=None)
@given(steps())
def test_gradients_and_new_weights_are_exchanged_one_after_the_other(
    case: tuple[Network, Plan, Array, Execution],
) -> None:
    """As one stream of a communicator does it; cores compute in order as well.

    A product of activations has no weights: its sums are of an activation's gradient.
    """
    timeline = simulate(*case)
    weightless = {node.name for node in partition_graph(case[0]) if node.computed}
    _, operation, _, starts, ends, _ = timeline.columns
    for mine in worker_rows(timeline):
        gradients = [
            row
            for row in mine.joined.tolist()
            for done in [timeline.operations[operation[row]]]
            if (done.kind, done.phase) == (Kind.SUMS, Phase.GRADIENT) or done.kind is Kind.WEIGHTS
            if done.layer not in weightless
        ]
        for rows in (gradients, mine.computed.tolist()):
            one_at_a_time((starts[row], ends[row]) for row in rows)
