"""PipeDream's evaluation (Narayanan et al., arXiv 2018 and SOSP 2019) on its own profiles.

Layers take what PipeDream's profiler measured on one GPU; the network is one number:
the share of its line rate that transfers get, set so that the paper's headline cell
comes out, and used for all others. Pipelines of these layers run on the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from itertools import pairwise
from statistics import median

import numpy as np

from experiments.papers.figure import Figure, Row, beside, grid
from experiments.studies.published_values import published
from planners import Pipeline, Place, Plan, PlanError, Stage
from planners.pipeline.masks import topological
from planners.pipeline.profile import planned_part, read_profile
from simulator import PICOSECONDS, Program
from simulator.engine.replay import run
from simulator.lowering.pipeline.profiled import MeasuredStage, profiled
from simulator.lowering.pipeline.steady import in_the_long_run
from simulator.lowering.schedules.registry import schedule_of

PROFILES = resources.files("experiments") / "published" / "profiles"
"""PipeDream's published profiles (msr-fiddle/pipedream, commit 7db6a1c, MIT)."""
GBIT = 1e9 / 8
LINE = {"A": 25 * GBIT, "B": 10 * GBIT, "4x4": 10 * GBIT, "2x8": 25 * GBIT, "3x4": 10 * GBIT}
"""Bytes a second between machines."""
TITAN_X, V100 = 10.97e12, 15.7e12
"""Peaks, float32; the profiles are taken for a V100's, a Titan X for so much slower."""
SLOWER = {"A": V100 / TITAN_X}
BATCH = {"vgg16": 64 / 128}
"""Of the profile's minibatch what the paper ran, where that differs."""
CALIBRATED = ("sosp", "vgg16", "4x4")
"""The paper's headline cell, 15-1 over data parallelism, sets the efficiency."""
PROFILED = ("vgg16", "alexnet", "resnet50", "gnmt", "gnmt_large")
FLUSHED = "gnmt_large"
METHOD = "pipedream"


class Measured:
    """A profile's layers in a topological order, and what crosses a cut behind each (bytes).

    It is run with ``batch`` times its minibatch and ``slower`` times its seconds, on links of
    ``bytes_per_s``.
    """

    def __init__(
        self, model: str, batch: float = 1.0, slower: float = 1.0, bytes_per_s: float = 1e9
    ) -> None:
        self.bytes_per_s = bytes_per_s
        with resources.as_file(PROFILES / f"{model}.txt") as path:
            profile, _ = planned_part(read_profile(path))  # as PipeDream's program plans it
        order = topological(len(profile.nodes), profile.edges)
        place = {node: i for i, node in enumerate(order)}
        time = batch * slower
        self.layers = [
            replace(n, forward_s=n.forward_s * time, backward_s=n.backward_s * time)
            for n in (profile.nodes[i] for i in order)
        ]
        last = {u: max(place[w] for v, w in profile.edges if v == u) for u, _ in profile.edges}
        self.crossing = [
            sum(
                profile.nodes[u].activation_bytes * batch
                for u, end in last.items()
                if place[u] <= i < end
            )
            for i in range(len(order))
        ]

    @property
    def single_s(self) -> float:
        """A minibatch on one device."""
        return sum(layer.forward_s + layer.backward_s for layer in self.layers)

    def cuts(self, replicas: Sequence[int]) -> tuple[int, ...]:
        """Where stages with so many replicas begin, so that the paper's formula is least."""
        seconds = np.cumsum([0.0, *(x.forward_s + x.backward_s for x in self.layers)])
        weights = np.cumsum([0.0, *(x.parameter_bytes for x in self.layers)])
        sent = np.array([0.0, *self.crossing]) * 2 / self.bytes_per_s
        number = np.arange(len(seconds))
        least, came = np.where(number == 0, 0.0, np.inf), []
        for many in replicas:
            work = seconds[np.newaxis, :] - seconds[:, np.newaxis]
            sums = (weights[np.newaxis, :] - weights[:, np.newaxis]) * 2 * (many - 1) / many
            stage = np.maximum(work, sums / self.bytes_per_s) / many
            stage[number[np.newaxis, :] <= number[:, np.newaxis]] = np.inf
            before = np.maximum(least, np.where(number == 0, 0.0, sent))
            longest = np.maximum(before[:, np.newaxis], stage)
            came.append(longest.argmin(axis=0))
            least = longest.min(axis=0)
        firsts, end = list[int](), len(self.layers)
        for begins in reversed(came):
            end = int(begins[end])
            firsts.append(end)
        return tuple(reversed(firsts))

    def minibatch_s(
        self, replicas: Sequence[int], schedule: str = "pipedream", micro_batches: int = 1
    ) -> float:
        """Seconds of a minibatch in the long run, or of each of a flushed batch's; on the engine.

        Data parallelism is one stage with all devices as replicas.
        """
        if len(replicas) > len(self.layers):
            raise PlanError(f"{len(replicas)} stages for {len(self.layers)} layers")
        behind = np.cumsum([0, *replicas]).tolist()
        places = [Place(first, many, many) for first, many in zip(behind, replicas, strict=False)]
        stages, planned = [], []
        for k, (first, end) in enumerate(pairwise((*self.cuts(replicas), len(self.layers)))):
            own = tuple(self.layers[first:end])
            names = tuple(layer.name for layer in own)
            stages.append(MeasuredStage(own, self.crossing[end - 1]))
            planned.append(Stage(first, k, Plan("measured", "", 1, "time", names, None)))
        pipeline = Pipeline(tuple(planned), tuple(places), schedule, micro_batches)

        def program(batches: int) -> Program:
            return profiled(stages, pipeline, self.bytes_per_s, batches)

        how = schedule_of(schedule)
        if how.flushes:
            return run(program(1)).makespan_ps / PICOSECONDS / micro_batches
        done = in_the_long_run(pipeline, program, whole_batch=how.whole_batch)
        return done.iteration_ps / PICOSECONDS / micro_batches

    def speedup(self, replicas: Sequence[int]) -> float:
        """Minibatches a second over one GPU's."""
        return self.single_s / self.minibatch_s(replicas)


@cache
def measured(model: str, cluster: str, efficiency: float) -> Measured:
    """A model on a cluster whose links give a share of their rate."""
    rate = LINE[cluster] * efficiency
    return Measured(model, BATCH.get(model, 1.0), SLOWER.get(cluster, 1.0), rate)


@cache
def efficiency() -> float:
    """The share of the line rate for which the speedup of CALIBRATED comes out."""
    (target,) = (
        float(row["value"])
        for row in published("pipedream")
        if (row["paper"], row["model"], row["cluster"]) == CALIBRATED
    )
    low, high = 0.01, 1.0
    for _ in range(24):
        middle = (low + high) / 2
        given = measured(*CALIBRATED[1:], middle)
        if given.speedup((15, 1)) / given.speedup((16,)) > target:
            low = middle
        else:
            high = middle
    return high


def cell(row: dict[str, str]) -> Row:
    """A cell of a table for which there is a profile, ours beside theirs."""
    model, cluster, machines = row["model"], row["cluster"], row["machines"]
    given = measured(model, cluster, efficiency())
    shape = row["replicas"] or machines
    ours = given.speedup([int(part) for part in shape.split("-")])
    if row["over"] == "dp":
        ours /= given.speedup([int(machines)])
    what = {"data_parallel": "data parallel", "straight": "straight"}.get(row["method"], shape)
    return beside(
        ours,
        float(row["value"]),
        cell=f"{model} {cluster} {machines}: {what} / {row['over']}",
        planner="simulated",
        method=row["method"],
        over=row["over"],
        calibrates=(row["paper"], model, cluster) == CALIBRATED,
    )


def _median(rows: Sequence[Row]) -> str:
    judged = [abs(row["difference"]) for row in rows if not row["calibrates"]]
    return f"{median(judged):.1%} of {len(judged)}" if judged else "none"


def table(paper: str, title: str) -> Figure:
    """A table of cells."""
    own = [row for row in published("pipedream") if row["paper"] == paper]
    missing = sorted({row["model"] for row in own} - {*PROFILED})

    def notes(rows: Sequence[Row]) -> tuple[str, ...]:
        alone = [row for row in rows if row["over"] == "one" and row["method"] != "data_parallel"]
        return (
            f"Transfers get {efficiency():.1%} of the line rate: set by the headline, VGG-16 on "
            "4 servers of 4, 15-1 over data parallelism (5.28), alone.",
            f"Medians of the differences, that cell apart: {_median(rows)} cells; of pipelines "
            f"over one GPU {_median(alone)}.",
            "Layers take what PipeDream's profiles say of one GPU; a Titan X is taken for "
            f"{V100 / TITAN_X:.2f} times as slow. Replicas are as published, cuts as the paper's "
            "formula has them; machines of several GPUs are taken for single ones on the network.",
            *([f"No profile at hand: {', '.join(missing)}."] if missing else []),
        )

    points = [partial(cell, row) for row in own if row["model"] in PROFILED]
    return Figure(title, "speedup", points, notes, ("cell",))


def flush() -> Figure:
    """What a flush costs a straight pipeline, by the number of micro-batches."""
    settings = {
        f"{FLUSHED} on {cluster}, {many} micro-batches": (cluster, many)
        for cluster in ("4x4", "2x8")
        for many in (16, 32, 64)
    }

    def value(where: str, schedule: str) -> float:
        cluster, many = settings[where]
        given, stages = measured(FLUSHED, cluster, efficiency()), [1] * 16
        return given.minibatch_s(stages, schedule, many) / given.minibatch_s(stages) - 1

    said = (
        "Seconds of a micro-batch against PipeDream's without a flush, less one. The paper has "
        "35 to 71 % for GPipe on GNMT-16, the number of micro-batches not at hand.",
    )
    title = "What a flush costs a straight pipeline of sixteen"
    points = grid("cell", settings, ("gpipe", "1f1b"), value)
    return Figure(title, "slowdown", points, said, ("cell",))


FIGURES: dict[str, Callable[[], Figure]] = {
    "arxiv": partial(table, "arxiv", "arXiv 2018, Table 1"),
    "sosp": partial(table, "sosp", "SOSP 2019, epochs faster than data parallelism"),
    "flush": flush,
}
