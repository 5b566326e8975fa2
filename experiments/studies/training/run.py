"""A training run by a method of many workers: what is asked for, and what came of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from os.path import isfile
from typing import Any

from experiments.notices import REMEDY
from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.running.store import Store
from experiments.studies.unread import by_table
from hardware import COMMAND_LINE, Array, SpecError, Wires
from hardware.reader import read_text
from hardware.watched import unread, watched
from planners import Staging
from simulator import PICOSECONDS, Execution, SimulationError, Timeline, overflow, usual
from simulator.asynchronous.algorithm import Algorithm
from simulator.asynchronous.cluster import Cluster, Setting
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.graphs import load_graph
from simulator.asynchronous.learning.models import Learned, learn
from simulator.asynchronous.learning.problems import load_problem
from simulator.asynchronous.registry import ALGORITHMS, load_algorithm
from simulator.asynchronous.run import Run
from simulator.asynchronous.stragglers import MOST_TRACE_BYTES, parse_slowdowns
from simulator.asynchronous.waiting import Hang
from workloads import Network, load_network

MOST_ITERATIONS = 100_000_000
"""Of all workers together."""


@dataclass(frozen=True)
class Training:
    """What is trained, where, by which method, how slowed; ``batch`` is one worker's samples.

    ``method`` is a name, or NAME:OPTION=VALUE:…. Workers are numbered from 0.
    With ``everybody`` the run ends when each worker has done ``iterations``; else when
    they have done so many each on average. ``learn`` is a problem's name.
    """

    network: Network
    method: str
    array: Array
    workers: int
    iterations: int
    execution: Execution
    batch: int = 32
    seed: int = 0
    slowdowns: tuple[str, ...] = ()
    graph: str | None = None
    learn: str | None = None
    everybody: bool = False
    loss: float | None = None
    rate: float | None = None

    @cached_property
    def way(self) -> Algorithm:
        """The method itself; raises TrainingError where it has no such option."""
        name, options = split_method(self.method)
        with _naming(name):
            return load_algorithm(name, options)

    @property
    def is_ours(self) -> bool:
        """Whether nothing but ``identity`` decides what comes of it, as with our methods."""
        return type(self.way) in ALGORITHMS.values()

    @property
    def identity(self) -> tuple[object, ...]:
        """All that decides what comes of it; of files their contents."""
        files = [name for name in (*self.slowdowns, self.graph or "") if isfile(name)]
        step = Case(self.network, "data_parallel", self.array, self.batch, execution=self.execution)
        rest = {one.name: getattr(self, one.name) for one in fields(self)[3:]}
        del rest["execution"]
        texts = [read_text(name, TrainingError, "a trace", MOST_TRACE_BYTES) for name in files]
        return "train", step.key, self.method, rest, texts

    def kept(
        self, store: Store | None, make: Callable[[], dict[str, Any]], *study: str
    ) -> dict[str, Any]:
        """What a store has of it in a study, or what is made now, and kept if it may be."""
        if store is None or not self.is_ours:
            return make()
        return store.get_or_make((*study, *self.identity), make, **self.inputs)

    @property
    def inputs(self) -> dict[str, Any]:
        """What a store lists of it."""
        return {
            "network": self.network.name,
            "array": self.array.name,
            "batch": self.batch,
            "execution": str(self.execution),
            "method": self.method,
            "workers": self.workers,
            "iterations": self.iterations,
            "slowdown": ", ".join(self.slowdowns) or "none",
            "graph": self.graph,
            "seed": self.seed,
        }

    def run(self, progress: Callable[[], object] | None = None) -> Trained:
        """Simulate it, then learn through what happened; raises TrainingError."""
        method = self._checked()
        slow = parse_slowdowns(self.slowdowns, self.workers, self.iterations, self.seed)
        setting = Setting(self.network, self.array, self.workers, self.batch, self.execution)
        cluster = Cluster(setting, method.servers, slow.links, together=method.together)
        named = self.graph or method.graph
        graph = load_graph(named, self.workers) if method.graph else None
        problem = load_problem(self.learn, self.seed, self.rate) if self.learn else None
        run = Run(
            cluster,
            self.iterations,
            self.seed,
            slow,
            graph,
            everybody=self.everybody,
            keeps_history=problem is not None,
            progress=progress,
        )
        method.start(run)
        timeline, hang = run.run()
        learned = None
        if problem is not None:
            learned = learn(problem, self.workers, method.servers, run.history, self.loss)
        return Trained(self, run, timeline, hang, learned, problem.rate if problem else None)

    def learning(self, learned: Learned | None, **rate: float | None) -> dict[str, Any] | None:
        """What ``--format json`` has of what was learned."""
        return learned and {
            "problem": self.learn,
            **rate,
            "loss": learned.curve[-1][1],
            "target": self.loss,
            "time_to_target_s": learned.reached_s,
            "curve": [list(point) for point in learned.curve],
        }

    def _checked(self) -> Algorithm:
        most = MOST_ITERATIONS // max(self.workers, 1)
        if not 1 <= self.iterations <= most:
            raise UsageError(f"--iterations {self.iterations}: within 1…{most:,}")
        if self.seed < 0:
            raise UsageError(f"--seed {self.seed}: 0 or more")
        if self.loss is not None and not 0 < self.loss < math.inf:
            raise UsageError(f"--loss {self.loss}: above 0, and finite")
        if self.workers < 1:
            raise UsageError(f"--workers {self.workers}: at least one worker")
        if (staging := self.execution.staging) is not None:
            named = (f.name for f in fields(Staging) if getattr(staging, f.name) != f.default)
            flag = next(named, "stages").replace("_", "-")
            raise UsageError(f"--{flag}: only --method pipeline has stages; leave it out")
        if self.execution.inference:
            raise UsageError("--mode inference: what trains has a backward pass; see simulate")
        if self.execution.update:
            raise UsageError(
                f"--update {self.execution.update}: every worker updates its own weights, as its "
                "method says; leave it out"
            )
        method = self.way
        with _naming(split_method(self.method)[0]):
            method.check(self.workers)
        if self.graph is not None and not method.graph:
            raise UsageError(f"--graph {self.graph}: {self.method} has no communication graph")
        return method


@contextmanager
def _naming(method: str) -> Iterator[None]:
    """Say whose option an error is about: several methods may be compared."""
    try:
        yield
    except TrainingError as error:
        named = str(error).startswith("option ")
        raise TrainingError(f"{method}: {error}" if named else str(error)) from None


def split_method(text: str) -> tuple[str, dict[str, str]]:
    """``prague:group=4:nodes=yes`` is a name and its options; raises UsageError."""
    words = text.split(":")
    options: dict[str, str] = {}
    while len(words) > 1 and "=" in words[-1]:
        key, _, value = words.pop().partition("=")
        options[key] = value
    return ":".join(words), dict(reversed(options.items()))


@dataclass(frozen=True)
class Trained:
    """What came of a training run."""

    asked: Training
    run: Run
    timeline: Timeline
    hang: Hang | None
    learned: Learned | None
    rate: float | None
    """At which it learned."""

    @property
    def time_s(self) -> float:
        """Simulated seconds until the end, or until nobody could go on."""
        return self.timeline.makespan_s

    @property
    def iterations_per_s(self) -> float:
        """Of all workers together."""
        return sum(self.run.done) / self.time_s if self.time_s else 0.0

    @property
    def each_per_s(self) -> list[float]:
        """Iterations a second of each worker."""
        return [done / self.time_s if self.time_s else 0.0 for done in self.run.done]

    @property
    def bytes(self) -> dict[str, float]:
        """Over every link that carried any; parameter servers' ports too."""
        names = self.run.cluster.ports.names
        return {
            name: moved for name, moved in zip(names, self.timeline.moved, strict=True) if moved
        }

    @property
    def waiting(self) -> dict[str, float]:
        """Seconds that all workers together waited, by cause."""
        total = sum(self.run.waits, Counter[str]())
        return {cause: ps / PICOSECONDS for cause, ps in sorted(total.items())}

    @property
    def computing_s(self) -> float:
        """Seconds that all workers together computed, up to the end."""
        core, operation, _, start, end, _ = self.timeline.columns
        steps, workers = set(self.run.cluster.steps), self.timeline.all_resources.workers
        mine = {i for i, one in enumerate(self.timeline.operations) if one in steps}
        died = {c: at_ps for w, at_ps in self.run.dead.items() for c in workers[w].cores}
        rows = zip(core, operation, start, end, strict=True)
        return sum(min(e, died.get(c, e)) - s for c, o, s, e in rows if o in mine) / PICOSECONDS

    @property
    def notes(self) -> list[str]:
        """What of the array is used otherwise than a reader may think."""
        asked, cluster, array = self.asked, self.run.cluster, self.asked.array.name
        idle, found = len(cluster.free) - cluster.servers, []
        if idle > 0:
            found.append(
                f"the first {cluster.count} {cluster.unit}s of {array} are workers; "
                f"{idle} have nothing to do"
            )
        if idle < 0:
            found.append(
                f"parameter servers beside workers: {-idle}; they use a worker's links, and have "
                "a port each"
            )
        if over := overflow(asked.network.name, asked.method, array, cluster.memory):
            found.append(f"{over} {REMEDY}")
        if self.learned is not None and self.learned.diverged:
            found.append(
                f"{asked.method}: learning diverged; with gradients that stale, try a smaller "
                f"--rate than {self.rate:g}"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """What ``--format json`` prints."""
        asked, run, cluster = self.asked, self.run, self.run.cluster
        everybody_ps = run.everybody_ps  # None if that was not before the end
        return {
            "network": asked.network.name,
            "method": asked.method,
            "source": asked.way.source,
            "as_recalled": asked.way.recalled,
            "array": asked.array.name,
            "execution": str(asked.execution),
            "worker_is": cluster.unit,
            "batch": asked.batch,
            "iterations": asked.iterations,
            "seed": asked.seed,
            "slowdown": list(asked.slowdowns) or ["none"],
            "graph": run.graph.name if asked.way.graph else None,
            "step_s": cluster.steps[0].duration_ps / PICOSECONDS,
            "steps_s": [step.duration_ps / PICOSECONDS for step in cluster.steps],
            "gradient_bytes": cluster.gradient_bytes,
            "model_bytes": cluster.model_bytes,
            "iterations_per_s": self.iterations_per_s,
            "samples_per_s": self.iterations_per_s * asked.batch,
            "workers": self.each_per_s,
            "done": list(run.done),
            "time_s": self.time_s,
            "everybody_s": everybody_ps and everybody_ps / PICOSECONDS,
            "staleness": _histogram(run.staleness),
            "gaps": _histogram(run.gaps),
            "bytes": self.bytes,
            "waiting": self.waiting,
            "computing_s": self.computing_s,
            "hang": self._hang(),
            "learning": self.asked.learning(self.learned, rate=self.rate),
            "notes": self.notes,
        }

    @property
    def said(self) -> list[str]:
        """What a reader has to know besides the numbers."""
        return [*self.notes, *([f"{self.asked.method}: {self.hang}"] if self.hang else [])]

    def history(self) -> dict[str, Any] | None:
        """What ``--history`` writes; None without learning.

        Events are a time in picoseconds, a word, and what it is about (``learning.models``).
        """
        return self.learned and {
            "method": self.asked.method,
            "workers": self.asked.workers,
            "servers": self.asked.way.servers,
            "problem": self.asked.learn,
            "seed": self.asked.seed,
            "rate": self.rate,
            "events": self.run.history,
            "models": self.learned.each.tolist(),
            "model": self.learned.model.tolist(),
        }

    @property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Loss against simulated seconds; empty without learning."""
        return self.learned.curve if self.learned else ()

    @property
    def to_target_s(self) -> float | None:
        """When the loss that was asked about was reached; None if it never was."""
        return self.learned.reached_s if self.learned else None

    def _hang(self) -> dict[str, Any] | None:
        if (hang := self.hang) is None:
            return None
        waits = {str(w): {"for": what, "of": list(whom)} for w, (what, whom) in hang.waits.items()}
        at_s = hang.at_ps / PICOSECONDS
        return {"at_s": at_s, "all": hang.all_stopped, "waits": waits, "dead": list(hang.dead)}


def _histogram(counts: Counter[int]) -> dict[str, int]:
    return {str(value): counts[value] for value in sorted(counts)}


def each(asked: Training, methods: Sequence[str]) -> Iterator[Training]:
    """Several methods on the same draws; a graph goes to those that have one."""
    for method in methods:
        one = replace(asked, method=method)
        yield replace(one, graph=None) if not one.way.graph and len(methods) > 1 else one


PROBE = "lenet"


def _ports_of_nobody(asked: Training) -> list[str]:
    """Keys of boards' ports, where wires between workers have none, and no server has one.

    A step on one board, and a copy of a device, ask for them too: nothing comes of that.
    """
    if asked.execution.model != "deployed" or asked.way.servers:
        return []
    seen = set[str]()
    Wires(watched(asked.array, seen))
    return [key for key in unread(asked.array, seen) if ".network." in f".{key}"]


OF_STEPS = {
    "overlap": "overlap",
    "whole_shards": "shards",
    "bucket_bytes": "bucket",
    "update_order": "update_order",
}
"""Options of a step, by their fields, that a run of workers does not read."""


def unread_options(asked: Training) -> list[str]:
    """A sentence about options of steps that it does not read, if there are any."""
    own, given = usual(asked.array), asked.execution
    idle = [word for key, word in OF_STEPS.items() if getattr(own, key) != getattr(given, key)]
    return [f"training does not read {', '.join(idle)}"] * (own.model == given.model and bool(idle))


def unread_changes(asked: Training) -> list[str]:
    """A sentence about values of the array's spec that were changed, and that it does not read.

    They are found by asking: a small network is trained once on the array, which notes what it is
    asked.
    """
    changed = [one.key for one in asked.array.settings if one.source == COMMAND_LINE]
    if not changed:
        return []
    seen = set[str]()
    small = replace(asked, network=load_network(PROBE), array=watched(asked.array, seen))
    try:
        replace(small, iterations=1, slowdowns=(), learn=None).run()
    except (SpecError, SimulationError):  # the run itself says what is wrong
        return []
    unasked = {*unread(asked.array, seen), *_ports_of_nobody(asked)}
    names = ", ".join(by_table([key for key in changed if key in unasked]))
    return [f"training does not read {names}, which was changed"] * bool(names)
