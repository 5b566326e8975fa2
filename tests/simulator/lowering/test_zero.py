"""ZeRO stages 2 and 3 against a page of recurrences, and bytes against a count of parameters.

Data parallelism of a chain on eight alike cores, as in ``test_sharded_step``: one stream of
exchanges and one core. What products and collectives take alone is the simulator's; units,
order and waiting are written down here once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import load_array, wires_of
from planners import Axes, Plan, PlanError, Staging, Update, load_planner
from planners.axes.planner import planned_by_axes
from planners.order import Kind, Phase
from simulator import DEPLOYED, Execution, Timeline, program_of, simulate
from simulator.collectives.choice import jobs
from simulator.search.updates import with_updates
from tests.simulator.collectives.slow_collectives import predicted_ps
from tests.simulator.lowering.test_sharded_step import NETWORKS, slow
from workloads import Network, load_network

GRADIENTS, WEIGHTS = Update.GRADIENTS, Update.WEIGHTS
ARRAY = load_array("tpu-v3-8")
Unit = tuple[int, ...]
MOVES = (Kind.WEIGHTS, Kind.SUMS)


@dataclass
class Slow:
    """A step with weights in parts, unit by unit; seconds as the simulator's picoseconds."""

    units: Sequence[Unit]
    took: dict[tuple[str, int], int]
    parameters: Sequence[int]
    exchange: Callable[[str, float], int]

    def product(self, phase: Phase, v: int) -> int:
        return self.took.get((phase, v), 0)

    def gather(self, k: int) -> int:
        return self.exchange("all-gather", 2.0 * sum(self.parameters[v] for v in self.units[k]))

    def scatter(self, k: int) -> int:
        return self.exchange("reduce-scatter", 4.0 * sum(self.parameters[v] for v in self.units[k]))

    def overlapped_ps(self) -> int:
        last = len(self.units) - 1
        there = [self.gather(0)] * (last + 1)
        stream, core = there[0], 0
        ends = list[int]()
        for k, unit in enumerate(self.units):
            if k < last:
                room = ends[k - 1] if k else 0
                stream = there[k + 1] = max(stream, room) + self.gather(k + 1)
            core = max(core, there[k]) + sum(self.product(Phase.FORWARD, v) for v in unit)
            ends.append(core)
        summed: dict[int, int] = {}
        for k in reversed(range(last + 1)):
            if k:
                stream = there[k - 1] = max(stream, core) + self.gather(k - 1)
            for v in reversed(self.units[k]):
                if errors := self.product(Phase.BACKWARD, v):
                    core = max(core, there[k] if k < last else 0) + errors
                core += self.product(Phase.GRADIENT, v)
            stream = max(stream, core) + self.scatter(k)
            summed |= dict.fromkeys(self.units[k], stream)
        for v in sorted(summed, reverse=True):
            core = max(core, summed[v]) + self.product(Phase.UPDATE, v)
        return max(core, stream)

    def scattered_ps(self, turns: int) -> int:
        """Gradients in parts: new weights gathered once, gradients scattered by every micro-batch.

        All of that goes one after the other, whichever micro-batch it is of.
        """
        stream = core = 0
        there = []
        for k in range(len(self.units)):
            stream += self.gather(k)
            there.append(stream)
        summed: dict[int, int] = {}
        for turn in range(turns):
            for k, unit in enumerate(self.units):
                core = max(core, 0 if turn else there[k])
                core += sum(self.product(Phase.FORWARD, v) for v in unit)
            for k in reversed(range(len(self.units))):
                for v in reversed(self.units[k]):
                    core += self.product(Phase.BACKWARD, v) + self.product(Phase.GRADIENT, v)
                stream = max(stream, core) + self.scatter(k)
                summed |= dict.fromkeys(self.units[k], stream)
        for v in sorted(summed, reverse=True):
            core = max(core, summed[v]) + self.product(Phase.UPDATE, v)
        return max(core, stream)

    def one_by_one_ps(self, turns: int = 1) -> int:
        """Nothing at the same time; the update once."""
        last = len(self.units) - 1
        gathers = sum(self.gather(k) for k in range(last + 1))
        gathers += sum(self.gather(k) for k in range(last))
        micro_batch = gathers + sum(map(self.scatter, range(last + 1)))
        micro_batch += sum(ps for (phase, _), ps in self.took.items() if phase is not Phase.UPDATE)
        return turns * micro_batch + sum(
            ps for (p, _), ps in self.took.items() if p is Phase.UPDATE
        )


def units_by_hand(names: Sequence[str], parameters: Sequence[int], bucket: float) -> Iterator[Unit]:
    """VGG's blocks (conv3_1, conv3_2); others, 2 B a weight, until a bucket is full."""
    waiting: list[int] = []
    for v, name in enumerate(names):
        block = name.partition("_")[0] if "_" in name else ""
        before = names[v - 1].partition("_")[0] if v and "_" in names[v - 1] else ""
        full = not block and 2 * sum(parameters[u] for u in waiting) >= bucket
        if waiting and (full or block != before):
            yield tuple(waiting)
            waiting = []
        waiting.append(v)
    yield tuple(waiting)


def by_hand(network: Network, plan: Plan, execution: Execution) -> Slow:
    weighted = [layer for layer in network.layers if layer.weighted]
    number = {layer.name: v for v, layer in enumerate(weighted)}
    own = [layer.parameters for layer in weighted]
    (worker,) = program_of(network, plan, ARRAY, execution).workers
    took = {
        (task.operation.phase, number[task.operation.layer]): task.operation.duration_ps
        for task in worker.template
        if task.operation.kind is Kind.COMPUTE
    }
    wires = wires_of(execution.planned(ARRAY))

    def exchange(collective: str, size: float) -> int:
        return predicted_ps(wires, jobs(wires, collective, range(8), size))

    return Slow(list(units_by_hand(list(number), own, execution.bucket_of())), took, own, exchange)


def of(network: Network, update: Update, execution: Execution, batch: int = 512) -> Plan:
    plan = load_planner("data_parallel")(network, execution.planned(ARRAY), batch)
    return replace(plan, updates=(update,) * len(plan.nodes))


NAMES = st.sampled_from(sorted(NETWORKS))
BUCKETS = st.sampled_from((0.0, 1e5, 4e6, 25 * 2.0**20, 1e12))


@settings(max_examples=30, deadline=None)
@given(NAMES, BUCKETS, st.booleans(), st.booleans())
def test_weights_in_parts(name: str, bucket: float, overlap: bool, folded: bool) -> None:
    execution = replace(DEPLOYED, overlap=overlap, bucket_bytes=bucket)
    plan = of(NETWORKS[name], WEIGHTS, execution)
    timeline = simulate(NETWORKS[name], plan, ARRAY, execution, folded=folded)
    wanted = by_hand(NETWORKS[name], plan, execution)
    ps = wanted.overlapped_ps() if overlap else wanted.one_by_one_ps()
    assert timeline.iteration_ps == pytest.approx(ps, abs=2 * len(timeline.operations))


@settings(max_examples=10, deadline=None)
@given(NAMES, BUCKETS)
def test_gradients_in_parts_take_as_long_as_shared_out_updates(name: str, bucket: float) -> None:
    """Of one micro-batch: what is kept is another matter."""
    execution = replace(DEPLOYED, bucket_bytes=bucket)
    plan = of(NETWORKS[name], GRADIENTS, execution)
    timeline = simulate(NETWORKS[name], plan, ARRAY, execution)
    wanted = slow(NETWORKS[name], plan, ARRAY, execution)
    assert timeline.iteration_ps == pytest.approx(wanted, abs=2 * len(timeline.operations))


def in_turns(update: str, turns: int, **more: object) -> tuple[Timeline, Slow]:
    """AlexNet, one sample a core in each micro-batch."""
    network = NETWORKS["alexnet"]
    staging = Staging(parallel=Axes(dp=8), micro_batch=1)
    execution = replace(DEPLOYED, staging=staging, update=update, **more)  # type: ignore[arg-type]
    planned = execution.planned(ARRAY)
    plan = planned_by_axes(network, planned, 8 * turns, Axes(dp=8), staging)
    plan = with_updates(network, plan, ARRAY, execution)
    plain = replace(execution, staging=None)
    once = by_hand(network, of(network, Update(update), plain, 8), plain)
    return simulate(network, plan, ARRAY, execution), once


@pytest.mark.parametrize("turns", [2, 5, 40])
def test_every_micro_batch_gathers_and_scatters(turns: int) -> None:
    """Without overlap as often as there are micro-batches, and the update once."""
    timeline, once = in_turns("weights", turns, overlap=False)
    wanted = once.one_by_one_ps(turns)
    assert timeline.iteration_ps == pytest.approx(wanted, abs=2 * turns * len(timeline.operations))


@pytest.mark.parametrize("turns", [1, 2, 7])
@pytest.mark.parametrize("latency", ["0 s", "1 ms"])
def test_gradients_of_all_micro_batches_go_one_after_the_other(
    turns: int, latency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where links are slow to start, those of two micro-batches could else wait at once."""
    slow_links = load_array("tpu-v3-8", [f'devices.0.links.latency="{latency}"'])
    monkeypatch.setattr("tests.simulator.lowering.test_zero.ARRAY", slow_links)
    timeline, once = in_turns("gradients", turns, bucket_bytes=0.0)
    wanted = once.scattered_ps(turns)
    assert timeline.iteration_ps == pytest.approx(wanted, abs=2 * turns * len(timeline.operations))


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("overlap", [True, False])
def test_bytes_are_those_of_the_parameters(turns: int, overlap: bool) -> None:
    """Each of 8 cores receives 7/8 of what is gathered (2 B), and of what is summed (4 B)."""
    network = NETWORKS["alexnet"]
    own = [layer.parameters for layer in network.layers if layer.weighted]
    timeline, once = in_turns("weights", turns, overlap=overlap)
    moved = {key: total.bytes for key, total in timeline.totals().items() if key[1] in MOVES}
    last = sum(own[v] for v in once.units[-1])
    assert len(once.units) > 2
    assert moved == {
        (Phase.FORWARD, Kind.WEIGHTS): pytest.approx(turns * 7 * 2 * sum(own)),
        (Phase.BACKWARD, Kind.WEIGHTS): pytest.approx(turns * 7 * 2 * (sum(own) - last)),
        (Phase.GRADIENT, Kind.SUMS): pytest.approx(turns * 7 * 4 * sum(own)),
    }
    timeline, _ = in_turns("gradients", turns, overlap=overlap)
    moved = {key: total.bytes for key, total in timeline.totals().items() if key[1] in MOVES}
    assert moved == {
        (Phase.UPDATE, Kind.WEIGHTS): pytest.approx(7 * 2 * sum(own)),
        (Phase.GRADIENT, Kind.SUMS): pytest.approx(turns * 7 * 4 * sum(own)),
    }


def gathered(axes: Axes, recompute: str = "none") -> dict[str, float]:
    """Bytes of weights in a step of GPT-2 with two micro-batches, each layer outside a unit."""
    network = load_network("gpt2:seq=16")
    staging = Staging(parallel=axes, micro_batch=1)
    execution = replace(
        DEPLOYED, staging=staging, update="weights", recompute=recompute, bucket_bytes=0.0
    )
    plan = planned_by_axes(network, execution.planned(ARRAY), 2 * axes.dp, axes, staging)
    plan = with_updates(network, plan, ARRAY, execution)
    totals = simulate(network, plan, ARRAY, execution).totals()
    return {phase: one.bytes for (phase, kind), one in totals.items() if kind is Kind.WEIGHTS}


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_bytes_of_a_transformer(recompute: str) -> None:
    """Forward all weights, the table of words twice, which the head uses too.

    Backward as much, but for the head, which it begins with: with recompute no more.
    """
    network = load_network("gpt2:seq=16")
    table = 50257 * 768
    every = sum(layer.parameters for layer in network.layers)
    assert gathered(Axes(dp=8), recompute) == {
        Phase.FORWARD: pytest.approx(2 * 7 * 2 * (every + table)),
        Phase.BACKWARD: pytest.approx(2 * 7 * 2 * every),
    }


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_bytes_beside_tensor_parallelism(recompute: str) -> None:
    """Each of 8 cores receives 3/4 of what it uses: of all that tp=2 cuts the half.

    Of 50257 words the larger half counts. Norms, positions, and biases of layers that are cut
    by what they read are used by both.
    """
    cut = 12 * (12 * 768 * 768 + 2304 + 3072)
    both = 12 * 2 * 768 + 1024 * 768 + 25 * 2 * 768
    table = 25129 * 768
    assert gathered(Axes(dp=4, tp=2), recompute) == {
        Phase.FORWARD: pytest.approx(2 * 2 * 6 * (cut / 2 + both + 2 * table)),
        Phase.BACKWARD: pytest.approx(2 * 2 * 6 * (cut / 2 + both + table)),
    }


def test_at_most_two_units_at_a_time() -> None:
    """A unit is gathered once the one before the last is done."""
    network = NETWORKS["alexnet"]
    execution = replace(DEPLOYED, bucket_bytes=0.0)
    timeline = simulate(network, of(network, WEIGHTS, execution, 8), ARRAY, execution)
    names = [layer.name for layer in network.layers if layer.weighted]
    ends: dict[tuple[str, str], int] = {}
    begins: dict[tuple[str, str], int] = {}
    for one in timeline:
        if one.kind is not Kind.MEMORY:
            key = ("gather " if one.kind == Kind.WEIGHTS else "") + one.phase, one.layer
            ends[key] = max(ends.get(key, 0), one.end_ps)
            begins[key] = min(begins.get(key, one.start_ps), one.start_ps)
    for a, c in zip(names, names[2:], strict=False):
        assert begins["gather forward", c] >= ends["forward", a]
        assert begins["gather backward", a] >= ends["gradient", c] or c == names[-1]


def test_stages_do_not_gather() -> None:
    network = load_network("gpt2:seq=16")
    staging = Staging(parallel=Axes(dp=4, pp=2), micro_batch=1)
    execution = replace(DEPLOYED, staging=staging, update="weights")
    plan = planned_by_axes(network, execution.planned(ARRAY), 8, Axes(dp=4, pp=2), staging)
    with pytest.raises(PlanError, match="with 2 stages and schedule '1f1b' take zero=2"):
        simulate(network, with_updates(network, plan, ARRAY, execution), ARRAY, execution)
