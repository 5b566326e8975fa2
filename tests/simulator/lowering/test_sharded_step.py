"""Steps with shared-out updates against a page of recurrences, to the picosecond.

Data parallelism of a chain on eight alike cores: one stream of exchanges and one core. Of
the simulator the recurrences take what single products and collectives take alone;
buckets, order and waiting are written down here once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, load_array, wires_of
from planners import Plan, Update, load_planner
from planners.order import Kind, Phase
from planners.plan.updates import sharded, updates_of
from simulator import DEPLOYED, Execution, program_of, simulate
from simulator.collectives.choice import jobs
from tests.simulator.collectives.slow_collectives import predicted_ps
from workloads import Network, load_network

CORES, GRADIENT, WEIGHT = 8, 4.0, 2.0
ARRAY = load_array("tpu-v3-8")
NETWORKS = {name: load_network(name) for name in ("lenet", "alexnet", "vgg11")}
REPLICATED, SHARDED, *_ = Update
Bucket = tuple[int, ...]


@dataclass
class Slow:
    """A step, layer by layer."""

    parameters: Sequence[float]
    shared: frozenset[int]
    bucket: float
    product: Callable[[Phase, int], int]
    exchange: Callable[[str, float], int]

    def buckets(self, layers: Sequence[int], each: float) -> Iterator[Bucket]:
        """Layers that are exchanged together, in this order, ``each`` byte of a parameter."""
        waiting: list[int] = []
        for v in layers:
            if waiting and (waiting[0] in self.shared) != (v in self.shared):
                yield tuple(waiting)
                waiting = []
            waiting.append(v)
            if each * sum(self.parameters[u] for u in waiting) >= self.bucket:
                yield tuple(waiting)
                waiting = []
        if waiting:
            yield tuple(waiting)

    def seconds_ps(self, *, overlap: bool, arrival: bool) -> int:
        layers = range(len(self.parameters))
        core = stream = 0
        there: dict[int, int] = {}
        for some in self.buckets(sorted(self.shared), WEIGHT):
            stream += self.exchange("all-gather", WEIGHT * sum(self.parameters[v] for v in some))
            there |= dict.fromkeys(some, stream)
        core = 0 if overlap else stream
        for v in layers:
            core = max(core, there.get(v, 0)) + self.product(Phase.FORWARD, v)
        made: dict[int, int] = {}
        for v in reversed(layers):
            core += self.product(Phase.BACKWARD, v) + self.product(Phase.GRADIENT, v)
            made[v] = core
        summed: dict[int, int] = {}
        for some in self.buckets(layers[::-1], GRADIENT):
            name = "reduce-scatter" if some[0] in self.shared else "all-reduce"
            took = self.exchange(name, GRADIENT * sum(self.parameters[v] for v in some))
            stream = max(stream, made[some[-1]] if overlap else core) + took
            summed |= dict.fromkeys(some, stream)
        for v in reversed(layers) if arrival else layers:
            core = max(core, summed[v] if overlap else stream) + self.product(Phase.UPDATE, v)
        return max(core, stream)


def slow(network: Network, plan: Plan, array: Array, execution: Execution) -> int:
    wires = wires_of(execution.planned(array))
    program = program_of(network, plan, array, execution)
    (worker,) = program.workers
    took = {
        (task.operation.phase, task.operation.layer): task.operation.duration_ps
        for task in worker.template
        if task.operation.kind is Kind.COMPUTE
    }
    weighted = [layer for layer in network.layers if layer.weighted]

    def product(phase: Phase, v: int) -> int:
        return took.get((phase, weighted[v].name), 0)

    def exchange(collective: str, size: float) -> int:
        return predicted_ps(wires, jobs(wires, collective, range(CORES), size))

    own = [float(layer.parameters) for layer in weighted]
    order = execution.update_order or ("arrival" if plan.updates else "layers")
    return Slow(own, sharded(plan.updates), execution.bucket_of(), product, exchange).seconds_ps(
        overlap=execution.overlap, arrival=order == "arrival"
    )


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(sorted(NETWORKS)), st.booleans())
def test_steps_are_those_of_the_recurrences(data: st.DataObject, name: str, overlap: bool) -> None:
    network = NETWORKS[name]
    bucket = data.draw(st.sampled_from((0.0, 1e5, 4e6, 25 * 2.0**20, 1e12)))
    order = data.draw(st.sampled_from(("", "layers", "arrival")))
    execution = replace(DEPLOYED, overlap=overlap, bucket_bytes=bucket, update_order=order)
    plan = load_planner("data_parallel")(network, execution.planned(ARRAY), 512)
    one = st.sampled_from((REPLICATED, SHARDED))
    updates = data.draw(st.lists(one, min_size=len(plan.nodes), max_size=len(plan.nodes)))
    plan = replace(plan, updates=updates_of(updates))
    timeline = simulate(network, plan, ARRAY, execution, folded=data.draw(st.booleans()))
    assert timeline.iteration_ps == pytest.approx(
        slow(network, plan, ARRAY, execution), abs=2 * len(timeline.operations)
    )


def test_updates_begin_as_gradients_arrive() -> None:
    """The last layer's gradient comes first: its update does not wait for the first layer's."""
    network = NETWORKS["alexnet"]
    execution = replace(DEPLOYED, bucket_bytes=0.0)
    plan = load_planner("data_parallel")(network, execution.planned(ARRAY), 64)

    def begins(plan: Plan) -> dict[str, int]:
        return {
            record.layer: record.start_ps
            for record in simulate(network, plan, ARRAY, execution)
            if (record.kind, record.phase) == (Kind.COMPUTE, Phase.UPDATE)
        }

    before = begins(plan)
    after = begins(replace(plan, updates=(SHARDED,) * len(plan.nodes)))
    assert list(before) == list(plan.nodes)
    assert list(after) == list(reversed(plan.nodes))
    timeline = simulate(
        network, replace(plan, updates=(SHARDED,) * len(plan.nodes)), ARRAY, execution
    )
    summed = {
        record.layer: record.end_ps
        for record in timeline
        if (record.kind, record.phase) == (Kind.SUMS, Phase.GRADIENT)
    }
    assert after["fc8"] < summed["conv1"]
    assert all(after[name] >= summed[name] for name in plan.nodes)
