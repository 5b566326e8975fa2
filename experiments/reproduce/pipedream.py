"""PipeDream's evaluation (Narayanan et al., arXiv 2018 and SOSP 2019) on its own profiles.

Layers take what PipeDream's profiler measured on one GPU; the network is one number:
the share of its line rate that transfers get, set so that the paper's headline cell
comes out, and used for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import median

from experiments.reproduce.figure import Figure, Row, beside
from experiments.reproduce.measured_pipelines import Measured, Setting, minibatch_s
from experiments.studies.published_values import published

Progress = Callable[[str], None]

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


def setting(model: str, cluster: str, efficiency: float) -> Setting:
    """A model on a cluster whose links give a share of their rate."""
    rate = LINE[cluster] * efficiency
    return Setting(model, BATCH.get(model, 1.0), SLOWER.get(cluster, 1.0), rate)


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
        given = setting(*CALIBRATED[1:], middle)
        if speedup(given, (15, 1)) / speedup(given, (16,)) > target:
            low = middle
        else:
            high = middle
    return high


def speedup(given: Setting, replicas: Sequence[int]) -> float:
    """Minibatches a second over one GPU's."""
    return Measured(given).single_s / minibatch_s(given, replicas)


def cells(paper: str, progress: Progress) -> list[Row]:
    """Every cell of a table for which there is a profile, ours beside theirs."""
    found = []
    for row in published("pipedream"):
        if row["paper"] != paper or row["model"] not in PROFILED:
            continue
        given = setting(row["model"], row["cluster"], efficiency())
        machines = int(row["machines"])
        shape = row["replicas"] or row["machines"]
        ours = speedup(given, [int(part) for part in shape.split("-")])
        if row["over"] == "dp":
            ours /= speedup(given, [machines])
        said = {"data_parallel": "data parallel", "straight": "straight"}
        what = said.get(row["method"], shape)
        where = f"{row['model']} {row['cluster']} {machines}: {what}"
        labels = {"cell": f"{where} / {row['over']}", "planner": "simulated"}
        calibrates = (paper, row["model"], row["cluster"]) == CALIBRATED
        kind = {"method": row["method"], "over": row["over"], "calibrates": calibrates}
        found.append(beside(ours, float(row["value"]), **labels, **kind))
        progress(where)
    return found


def _median(rows: Sequence[Row]) -> str:
    judged = [abs(row["difference"]) for row in rows if not row["calibrates"]]
    return f"{median(judged):.1%} of {len(judged)}" if judged else "none"


def table(paper: str, title: str) -> Callable[[Progress], Figure]:
    """A table of cells."""

    def figure(progress: Progress) -> Figure:
        rows = cells(paper, progress)
        missing = sorted(
            {
                row["model"]
                for row in published("pipedream")
                if row["paper"] == paper and row["model"] not in PROFILED
            }
        )
        alone = [row for row in rows if row["over"] == "one" and row["method"] == METHOD]
        said = (
            f"Transfers get {efficiency():.1%} of the line rate: set by the headline, VGG-16 on "
            "4 servers of 4, 15-1 over data parallelism (5.28), alone.",
            f"Medians of the differences, that cell apart: {_median(rows)} cells; of pipelines "
            f"over one GPU {_median(alone)}.",
            "Layers take what PipeDream's profiles say of one GPU; a Titan X is taken for "
            f"{V100 / TITAN_X:.2f} times as slow. Replicas are as published, cuts as the paper's "
            "formula has them; machines of several GPUs are taken for single ones on the network.",
            *([f"No profile at hand: {', '.join(missing)}."] if missing else []),
        )
        return Figure(paper, title, "bars", "speedup", tuple(rows), said, ("cell",))

    return figure


def flush(progress: Progress) -> Figure:
    """What a flush costs a straight pipeline, by the number of micro-batches."""
    rows = []
    for cluster in ("4x4", "2x8"):
        given, stages = setting(FLUSHED, cluster, efficiency()), [1] * 16
        steady = minibatch_s(given, stages)
        for many in (16, 32, 64):
            for schedule in ("gpipe", "1f1b"):
                took = minibatch_s(given, stages, schedule, many)
                where = f"{FLUSHED} on {cluster}, {many} micro-batches"
                rows.append(beside(took / steady - 1, None, cell=where, planner=schedule))
                progress(where)
    said = (
        "Seconds of a micro-batch against PipeDream's without a flush, less one. The paper has "
        "35 to 71 % for GPipe on GNMT-16, the number of micro-batches not at hand.",
    )
    title = "What a flush costs a straight pipeline of sixteen"
    return Figure("flush", title, "bars", "slowdown", tuple(rows), said, ("cell",))


FIGURES: dict[str, Callable[[Progress], Figure]] = {
    "arxiv": table("arxiv", "arXiv 2018, Table 1"),
    "sosp": table("sosp", "SOSP 2019, epoch time over data parallelism"),
    "flush": flush,
}


def cases(keys: Sequence[str]) -> int:
    """How often ``progress`` will hear of something."""
    rows = [row for row in published("pipedream") if row["model"] in PROFILED]
    counts = {paper: sum(row["paper"] == paper for row in rows) for paper in ("arxiv", "sosp")}
    return sum((counts | {"flush": 12})[key] for key in keys)


def reproduce(keys: Sequence[str], progress: Progress) -> list[Figure]:
    """The figures, in the order of ``keys``."""
    return [FIGURES[key](progress) for key in keys]
