"""A real chain of matrices, trained in the order in which a run did things.

Stage k has a matrix W_k; a micro-batch is multiplied through, and the error of the
squared difference to its target goes back. What comes out must be what the schedule promises:
with a flush the step of gradient descent on the whole batch; without one the
recurrence of its paper, written down here minibatch by minibatch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator import Timeline, run
from simulator.engine.operations import RankProgram
from tests.simulator.lowering.pipelines_by_hand import Times, pipeline_of, program

Matrix = NDArray[np.float64]
WIDTH, SAMPLES, RATE = 3, 2, 0.05
RNG = np.random.default_rng(1)
START = [np.eye(WIDTH) + 0.3 * RNG.standard_normal((WIDTH, WIDTH)) for _ in range(8)]
DATA = RNG.standard_normal((64, SAMPLES, WIDTH))
TARGETS = RNG.standard_normal((64, SAMPLES, WIDTH))


def gradients(weights: list[Matrix], batch: int) -> list[Matrix]:
    """Of one micro-batch with these matrices, one for each stage."""
    made = [DATA[batch]]
    for one in weights:
        made.append(made[-1] @ one)
    error, found = made[-1] - TARGETS[batch], list[Matrix]()
    for k in reversed(range(len(weights))):
        found.append(made[k].T @ error)
        error = error @ weights[k].T
    return found[::-1]


@dataclass
class Replica:
    """One stage on one replica: every version of its weights, and what it keeps."""

    weights: dict[int, Matrix]
    newest: int = 0
    kept: dict[int, tuple[int, Matrix]] = field(default_factory=dict)
    owed: dict[int, Matrix] = field(default_factory=dict)
    summed: dict[int, Matrix] = field(default_factory=dict)


class Trainer:
    """Follows a run's records in the order in which they ended."""

    def __init__(self, timeline: Timeline, stages: int) -> None:
        self.timeline, self.stages = timeline, stages
        self.sent: dict[tuple[str, int, int], Matrix] = {}
        self.state: dict[tuple[int, int], Replica] = {}

    def rank_program(self, worker: int) -> RankProgram:
        found = self.timeline.program.workers[worker].rank_program
        assert found is not None
        return found

    def train(self, per_update: int, *, flush: bool) -> None:
        """``per_update`` gradients of all replicas of a stage are one update of all of them."""
        whose = {
            self.timeline.all_resources.workers[w].cores[0]: w
            for w in range(len(self.timeline.program.workers))
        }
        columns = self.timeline.columns
        for resource, number, micro_batch in zip(
            columns.resource, columns.operation, columns.micro_batch, strict=True
        ):
            if resource not in whose:
                continue
            operation = self.timeline.operations[number]
            stage = int(operation.layer.split()[1])
            self._do(str(operation.phase), whose[resource], stage, micro_batch)
            if str(operation.phase) == "gradient" and not flush:
                self._update(whose[resource], stage, per_update)
        if flush:
            for worker, stage in list(self.state):
                if self.state[worker, stage].newest == 0:
                    self._update(worker, stage, per_update)

    def _do(self, phase: str, worker: int, stage: int, micro_batch: int) -> None:
        mine = self.state.setdefault((worker, stage), Replica({0: START[stage]}))
        if phase == "forward":
            version = self.rank_program(worker).versions[micro_batch]
            value = self.sent["forth", stage, micro_batch] if stage else DATA[micro_batch]
            mine.kept[micro_batch] = version, value
            self.sent["forth", stage + 1, micro_batch] = value @ mine.weights[version]
            return
        version, value = mine.kept[micro_batch]
        if phase == "backward":
            last = stage == self.stages - 1
            if last:
                error = self.sent["forth", stage + 1, micro_batch] - TARGETS[micro_batch]
            else:
                error = self.sent["back", stage, micro_batch]
            mine.owed[micro_batch] = value.T @ error
            self.sent["back", stage - 1, micro_batch] = error @ mine.weights[version].T
            return
        mine.summed[micro_batch] = mine.owed.pop(micro_batch)
        del mine.kept[micro_batch]

    def _update(self, worker: int, stage: int, per_update: int) -> None:
        """When all replicas have their parts of an update."""
        rank = self.rank_program(worker).rank
        peers = [
            self.state.get((w, stage))
            for w in range(len(self.timeline.program.workers))
            if self.rank_program(w).rank == rank
        ]
        per_update = max(per_update // len(peers), 1)
        ready = [p for p in peers if p is not None and len(p.summed) >= per_update]
        if len(ready) < len(peers):
            return
        taken = [{t: p.summed.pop(t) for t in sorted(p.summed)[:per_update]} for p in ready]
        total = sum((g for some in taken for g in some.values()), np.zeros((WIDTH, WIDTH)))
        for one in ready:
            one.weights[one.newest + 1] = one.weights[one.newest] - RATE * total
            one.newest += 1

    def newest(self) -> list[Matrix]:
        """The weights of every stage, which all replicas must agree on."""
        found = list[Matrix]()
        for k in range(self.stages):
            some = [r.weights[r.newest] for (_, stage), r in self.state.items() if stage == k]
            for other in some[1:]:
                np.testing.assert_array_equal(other, some[0])
            found.append(some[0])
        return found


def timeline_of(
    schedule: str,
    replicas: tuple[int, ...],
    m: int,
    batches: int = 1,
    v: int = 1,
    *,
    sync: bool = False,
) -> Timeline:
    stages = len(replicas) * v
    pipeline = pipeline_of(schedule, stages, m, replicas, vertical_sync=sync)
    times = [Times(3 + k % 2, 5, 2 + k % 3) for k in range(stages)]
    return run(program(pipeline, times, [1] * (stages - 1), batches))


@pytest.mark.parametrize(
    ("schedule", "replicas", "m", "v"),
    [
        ("gpipe", (1, 1, 1), 5, 1),
        ("gpipe", (1, 1), 4, 3),
        ("1f1b", (1, 1, 1, 1), 7, 1),
        ("1f1b", (2, 1, 4), 8, 1),
        ("1f1b", (1,), 6, 1),
        ("interleaved", (1, 1), 6, 2),
        ("interleaved", (2, 2), 8, 3),
        ("zero-bubble", (1, 1, 1, 1), 9, 1),
        ("zero-bubble", (1, 3), 6, 1),
    ],
)
def test_a_flush_is_the_step_on_the_whole_batch(
    schedule: str, replicas: tuple[int, ...], m: int, v: int
) -> None:
    """Every sample meets the first version in every stage once: data parallelism's gradient."""
    stages = len(replicas) * v
    trainer = Trainer(timeline_of(schedule, replicas, m, v=v), stages)
    trainer.train(m, flush=True)
    whole = [gradients(START[:stages], batch) for batch in range(m)]
    for k, found in enumerate(trainer.newest()):
        wanted = START[k] - RATE * sum(one[k] for one in whole)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert all(not r.kept and not r.owed for r in trainer.state.values())


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("sync", [False, True])
def test_pipedream_is_its_recurrence(n: int, sync: bool) -> None:
    """w_k^(t+1) = w_k^(t) - rate * gradient at (w_1^(t-n+1), ..., w_n^(t)), k from 1.

    In sync the gradient is at w^(t-n+1) of all stages.
    """
    many = 24
    trainer = Trainer(timeline_of("pipedream", (1,) * n, 1, many, sync=sync), n)
    trainer.train(1, flush=False)
    history = [list(START[:n])]
    for t in range(many):
        behind = [n - 1 if sync else n - k for k in range(1, n + 1)]
        met = [history[max(t - late, 0)][k] for k, late in enumerate(behind)]
        new = gradients(met, t)
        history.append([history[-1][k] - RATE * new[k] for k in range(n)])
    for found, wanted in zip(trainer.newest(), history[-1], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    plain = list(START[:n])
    for t in range(many):
        plain = [w - RATE * g for w, g in zip(plain, gradients(plain, t), strict=True)]
    assert (n == 1) == bool(np.allclose(plain, history[-1], rtol=1e-6))


@pytest.mark.parametrize(("replicas", "m"), [((1, 1, 1), 4), ((2, 1), 4), ((1, 1, 2), 6)])
def test_two_buffers_are_one_batch_late(replicas: tuple[int, ...], m: int) -> None:
    """W(t+1) = W(t) - rate * gradient of batch t at W(t-1), alike in all stages."""
    batches = 5
    trainer = Trainer(timeline_of("2bw", replicas, m, batches), len(replicas))
    trainer.train(m, flush=False)
    history = [list(START[: len(replicas)])]
    for t in range(batches):
        met = history[max(t - 1, 0)]
        sums = [gradients(met, t * m + i) for i in range(m)]
        history.append([w - RATE * sum(one[k] for one in sums) for k, w in enumerate(history[-1])])
    for found, wanted in zip(trainer.newest(), history[-1], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
