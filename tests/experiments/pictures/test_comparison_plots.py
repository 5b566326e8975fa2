"""What the pictures of comparisons show."""

import io
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from experiments.pictures.figures import PAPER_WIDTH
from experiments.pictures.plots import plot_levels, plot_speedups
from experiments.studies.comparison import Level
from experiments.studies.published_values import Published
from experiments.studies.speedups import Comparison, Row

ROWS = tuple(
    Row(network, planner, 1.0, speedup)
    for network, values in {"first": (1.0, 2.0, 0.5), "$second$": (1.0, 8.0, 4.0)}.items()
    for planner, speedup in zip(("data_parallel", "owt", "accpar"), values, strict=True)
)
RESULT = Comparison("an-array", 64, ROWS, {})
HEIGHTS = {"4": 4.0, "1.41": 2**0.5}
PAPER = {"owt": Published(5.0, "printed"), "accpar": Published(1.0, "printed")}


def bars(axes: Axes) -> list[tuple[float, float]]:
    """Middle and height of every bar, planner by planner."""
    found = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [(round(p.get_x() + p.get_width() / 2, 6), p.get_height()) for p in found]


def labels(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [text.get_text() for text in legend.get_texts()]


def test_a_bar_for_each_speedup_and_each_mean() -> None:
    (axes,) = plot_speedups(RESULT).axes
    heights = [height for _, height in bars(axes)]
    assert heights == pytest.approx([1, 1, 1, 2, 8, 4, 0.5, 4, 2**0.5])
    places = [place for place, _ in bars(axes)]
    assert places[0] < places[3] < places[6]  # planners beside one another
    assert [round(place) for place in places] == [0, 1, 2] * 3
    groups = [label.get_text() for label in axes.get_xticklabels()]
    assert groups == ["first", r"\$second\$", "geometric\nmean"]
    assert axes.get_title() == "an-array, batch 64, published"
    assert labels(axes) == ["data_parallel", "owt", "accpar"]
    written = [text.get_text() for text in axes.texts]
    assert written == [f"{height:.3g}" for height in heights]


def test_the_papers_averages_are_marks_over_the_means() -> None:
    figure = plot_speedups(replace(RESULT, published=PAPER))
    (axes,) = figure.axes
    marks = [line for line in axes.lines if line.get_linewidth() == PAPER_WIDTH]
    middles = {round(float(np.asarray(line.get_xdata()).mean()), 6) for line in marks}
    assert [float(np.asarray(line.get_ydata()).max()) for line in marks] == [5.0, 1.0]
    means = [bars(axes)[i] for i in (5, 8)]
    assert middles == {place for place, _ in means}
    assert labels(axes)[-1] == "the paper's average"
    figure.savefig(io.BytesIO(), format="png")
    places = {text.get_text(): text.get_window_extent() for text in axes.texts[5::3]}
    tops = {name: axes.transData.transform((0, height))[1] for name, height in HEIGHTS.items()}
    assert places["4"].y1 < tops["4"]  # in its bar: the paper's mark is above that
    assert places["1.41"].y0 > tops["1.41"]  # above its bar: the mark is in it


def test_speedups_are_logarithmic() -> None:
    (axes,) = plot_speedups(RESULT).axes
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "speedup over data parallelism"


def test_more_planners_than_colours() -> None:
    many = tuple(Row("net", f"p{i}", 1.0, 1.0 + i) for i in range(9))
    (axes,) = plot_speedups(Comparison("a", 1, many, {})).axes
    assert len(bars(axes)) == 18
    assert labels(axes) == [f"p{i}" for i in range(9)]


def test_a_line_for_each_planner_along_the_sizes() -> None:
    sweep = [
        Level(n, 2**n, replace(RESULT, rows=tuple(replace(r, speedup=r.speedup * n) for r in ROWS)))
        for n in (2, 5, 10)
    ]
    (axes,) = plot_levels("an-array", sweep).axes
    assert [str(line.get_label()) for line in axes.lines] == ["data_parallel", "owt", "accpar"]
    assert np.array_equal(axes.lines[0].get_xdata(), [2, 5, 10])
    assert np.allclose(np.asarray(axes.lines[1].get_ydata()), [8, 20, 40])
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert ticks == ["2\n4", "5\n32", "10\n1,024"]
    title = axes.get_title().replace("\n", " ")
    assert title == "an-array, geometric mean, batch 64, published"
    alone = [replace(one, result=replace(RESULT, rows=ROWS[:3])) for one in sweep]
    (axes,) = plot_levels("an-array", alone).axes
    assert axes.get_title().replace("\n", " ") == "an-array, first, batch 64, published"


def test_a_long_name_of_an_array_stays_in_its_picture() -> None:
    array = "accpar-mixed, " + ", ".join(f"devices.{i}.count=16" for i in range(8))
    figure = plot_speedups(replace(RESULT, array=array))
    figure.savefig(io.BytesIO(), format="png")
    (axes,) = figure.axes
    box = axes.title.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert axes.get_title().replace("\n", " ") == f"{array}, batch 64, published"


@pytest.mark.parametrize("planners", [1, 4, 9])
def test_legends_are_clear_of_bars_values_and_title(planners: int) -> None:
    rows = tuple(Row("net", f"planner_{i}", 1.0, 8.0) for i in range(planners))
    figure = plot_speedups(Comparison("a", 1, rows, {}))
    figure.savefig(io.BytesIO(), format="png")  # lays it out
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    others = [*axes.texts, axes.title]
    assert [text for text in others if box.overlaps(text.get_window_extent())] == []
    assert box.y0 >= axes.get_window_extent().y1 - 2
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1
