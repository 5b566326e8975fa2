"""No text of a picture is cut: with very long names, at the sizes that a reader sees."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product

import pytest
from matplotlib.figure import Figure

from experiments.collective import plot_bandwidth
from experiments.explain.picture import plot_explanation
from experiments.explain.study import explain
from experiments.pictures.gantt import plot_gantt
from experiments.pictures.lanes import Chart, Lane
from experiments.pictures.plots import (
    pareto,
    plot_fit,
    plot_levels,
    plot_speedups,
    plot_sweep,
    plot_training,
)
from experiments.results.step import stepped
from experiments.studies.case import Case
from experiments.studies.comparison import Level
from experiments.studies.speedups import Comparison, Row
from experiments.studies.training.run import Training
from hardware import Wires, load_array
from planners.order import Kind, Phase
from simulator import DEPLOYED
from tests.experiments.pictures.test_gantt import chart, operation
from tests.experiments.pictures.test_sweep_plots import BATCH, GRID, RATE, table
from workloads import load_network

LONG = "a-network-of-" + "a-very-long-name-" * 8 + "its-end"
DPIS = (96, 150)
"""A browser's, and a saved file's."""
ROW = dict.fromkeys(("tp", "pp", "cp", "ep"), 1) | {
    "dp": 8,
    "update": "sharded",
    "size": "",
    "stage_hw": "",
    "peak_memory_bytes": 79 * 2.0**30,
    "samples_per_s": 8.0,
}


def comparison() -> Comparison:
    rows = tuple(
        Row(f"net{i}", planner, 1.0, 2.0) for i in range(3) for planner in ("owt", "accpar")
    )
    return Comparison(LONG, 1, rows, {})


def sweep(*axes: object) -> Figure:
    grid = replace(GRID, axes=axes)  # type: ignore[arg-type]
    rows = table(grid)
    return plot_sweep(grid, rows.assign(network=LONG + rows["network"], array=LONG), [])


def training() -> Figure:
    asked = Training(load_network("lenet"), "all-reduce", load_array("ring-8"), 8, 6, DEPLOYED)
    slow = replace(asked, slowdowns=tuple(f"worker:{w}:{w + 2}" for w in range(4)))
    return plot_training([slow.run()])


def staged() -> Figure:
    network = replace(load_network("gpt3-125m:layers=2:seq=64"), name=LONG)
    return stepped(Case(network, "owt", load_array("tpu-v3-8"), 8, execution=DEPLOYED)).plot()


def everything() -> Figure:
    """A chart of every phase and kind, so that its legend is as large as can be."""
    pairs = enumerate(product(Phase, Kind))
    slices = [(9 * i, 9 * i + 9 - i % 2 * 8, operation(f"{i}", k, p)) for i, (p, k) in pairs]
    return plot_gantt([chart(100_000, *slices)])


def explained() -> Figure:
    network = replace(load_network("lenet"), name=LONG)
    case = Case(network, "accpar", load_array("tpu-v3-8"), 8, execution=DEPLOYED)
    return plot_explanation(explain(case))


FIGURES: dict[str, Callable[[], Figure]] = {
    "speedups": lambda: plot_speedups(comparison()),
    "levels": lambda: plot_levels(LONG, [Level(n, 2**n, comparison()) for n in (1, 2, 3)]),
    "sweep": lambda: sweep(RATE),
    "map": lambda: sweep(BATCH, RATE),
    "fit": lambda: plot_fit([ROW | {"tokens_per_s_each": 1e5}], [LONG], LONG, 80 * 2.0**30),
    "fit, far": lambda: plot_fit([ROW | {"tokens_per_s_each": None}], [LONG], LONG, 8000 * 2.0**30),
    "design": lambda: pareto([(1, 2), (2, 3)], (1, 1), (2, 3), "throughput", LONG),
    "training": training,
    "gantt": lambda: plot_gantt([Chart(LONG, 1000, (Lane("1 core", ()),))] * 2),
    "gantt, all": everything,
    "explain": explained,
    "step": staged,
    "busbw": lambda: plot_bandwidth(Wires(load_array("dgx-h100")), "all-reduce", 1e9),
}


@pytest.mark.parametrize("dpi", DPIS)
@pytest.mark.parametrize("name", FIGURES)
def test_texts_lie_inside(name: str, dpi: int) -> None:
    figure = FIGURES[name]()
    figure.set_dpi(dpi)
    figure.canvas.draw()
    whole = figure.bbox
    texts = [figure._suptitle, *figure.texts]  # type: ignore[attr-defined]
    legends = [*figure.legends, *filter(None, (axes.get_legend() for axes in figure.axes))]
    texts += [text for legend in legends for text in legend.get_texts()]
    apart = [one.get_window_extent() for one in (*figure.texts, *legends)]
    assert not any(a.overlaps(b) for a, b in combinations(apart, 2)), f"{name}: one on another"
    for axes in figure.axes:
        if axes.get_visible():
            texts += [axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]  # type: ignore[attr-defined]
            texts += axes.texts
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=False)
                texts += [label for at, label in ticks if low <= at <= high]
    shown = [text for text in texts if text is not None and text.get_text() and text.get_visible()]
    assert shown
    for text in shown:
        box = text.get_window_extent()
        inside = whole.x0 - 1 <= box.x0 and box.x1 <= whole.x1 + 1
        inside &= whole.y0 - 1 <= box.y0 and box.y1 <= whole.y1 + 1
        assert inside, f"{name}: {text.get_text()[:60]!r} is cut: {box}"
