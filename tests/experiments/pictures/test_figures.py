"""Figures: every plot function gives one, and the same one is the same file, byte for byte."""

import io
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from experiments.explain.picture import plot_explanation
from experiments.explain.study import explain
from experiments.measured import pods
from experiments.output import UsageError
from experiments.papers.figure import Figure as Reproduced
from experiments.papers.figure import beside
from experiments.papers.pictures import plot_figure
from experiments.pictures.figures import (
    DPI,
    UNDATED,
    check_plot,
    new_figure,
    panels,
    plain,
    readable_log,
    save,
    shortened,
    speedup_axis,
    write_value,
)
from experiments.pictures.gantt import plot_gantt
from experiments.pictures.lanes import chart, sites
from experiments.pictures.pipeline_plot import plot_pipeline
from experiments.pictures.plan_map import plot_plan
from experiments.pictures.plots import plot_levels, plot_speedups, plot_sweep
from experiments.studies.case import Case, plan_of, step_of
from experiments.studies.comparison import compare
from experiments.studies.comparison import sweep_levels as sizes
from experiments.studies.options import parse_vary, with_options
from experiments.studies.sweep import Grid, sweep
from hardware import load_array
from simulator import DEPLOYED
from workloads import load_network

LENET = load_network("lenet")
SMALL = ("devices.0.count=2", "devices.1.count=2")
ARRAY = load_array("accpar-mixed", SMALL)
CASE = Case(LENET, "accpar", ARRAY, 64)


def speedups() -> Figure:
    return plot_speedups(compare(ARRAY, [LENET], ["data_parallel", "owt", "accpar"], 64))


def levels() -> Figure:
    return plot_levels("a", sizes(load_array("accpar-mixed"), [1, 2], [LENET], ["owt"], 64)[0])


def swept(*vary: str) -> Figure:
    axes = tuple(parse_vary(text) for text in vary)
    grid = Grid((LENET,), ("owt", "accpar"), "accpar-mixed", axes, SMALL)
    return plot_sweep(grid, sweep(grid), [])


def validation() -> Figure:
    errors = {"error": 0.1, "specs_alone_error": 0.2, "peak_only_error": -0.3}
    rows = [row.model_dump() | errors for row in pods.shipped()[:3]]
    return pods.plot({"rows": rows, "constants": {"memory_efficiency": 0.7}})


def gantt(case: Case = CASE) -> Figure:
    timeline = step_of(case)[1]
    return plot_gantt([chart(str(case), timeline, sites(timeline), folded=True)])


def reproduced(shape: str) -> Figure:
    rows = {
        "bars": [beside(2.0, 2.1, network="n", planner=p) for p in ("owt", "hypar")],
        "lines": [beside(x, None, levels=x, planner="owt") for x in (1, 2, 4)],
        "plans": [{"network": "n", "levels": ["012"], "published": ["002"], "same": False}],
        "map": [{"a": a, "b": "0", "ours": 1.0, "hypar": a == "1"} for a in "01"],
    }
    axes = {"lines": ("levels",), "map": ("a", "b")}.get(shape, ("network",))
    return plot_figure(
        Reproduced("title", "speedup", shape=shape, rows=tuple(rows[shape]), axes=axes)
    )


DATES = (b"dc:date", b"CreationDate", b"ModDate", b"tIME", b"Creation Time")
"""How the formats begin a date; two files of one second would be alike in spite of it."""
PLOTS: dict[str, Callable[[], Figure]] = {
    "speedups": speedups,
    "levels": levels,
    "sweep": lambda: swept("batch=64,128"),
    "heat map": lambda: swept("batch=64,128", "network.bandwidth=1 Gbit/s,8 Gbit/s"),
    "gantt": gantt,
    "plan": lambda: plot_plan(plan_of(CASE), ARRAY),
    "explanation": lambda: plot_explanation(explain(CASE)),
    "validation": validation,
    "bars": lambda: reproduced("bars"),
    "lines": lambda: reproduced("lines"),
    "plans": lambda: reproduced("plans"),
    "map": lambda: reproduced("map"),
}


@pytest.mark.parametrize(
    ("plot", "ending"),
    list(zip(PLOTS.values(), cycle(UNDATED))),
    ids=list(PLOTS),
)
def test_a_picture_made_twice_is_the_same_file(
    plot: Callable[[], Figure], ending: str, tmp_path: Path
) -> None:
    first, second = plot(), plot()
    assert isinstance(first, Figure)
    assert first is not second
    one, two = tmp_path / f"one{ending}", tmp_path / f"two{ending}"
    save(first, str(one))
    save(second, str(two))
    assert one.read_bytes() == two.read_bytes()
    assert not any(date in one.read_bytes() for date in DATES)


DRAW = """
import sys
from tests.experiments.pictures.test_figures import PLOTS, save
for ending in ("svg", "pdf"):
    save(PLOTS["bars"](), f"{sys.argv[1]}.{ending}")
"""


def test_so_is_one_that_another_process_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        subprocess.run([sys.executable, "-c", DRAW, str(tmp_path / seed)], check=True)
    for ending in ("svg", "pdf"):
        one, two = (tmp_path / f"{seed}.{ending}" for seed in ("1", "2"))
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("name", "magic"),
    [
        ("a.png", b"\x89PNG\r\n"),
        ("a.svg", b"<?xml"),
        ("a.pdf", b"%PDF-"),
        ("A.SVG", b"<?xml"),
        ("a.b.PNG", b"\x89PNG\r\n"),
    ],
)
def test_a_files_name_says_its_format(name: str, magic: bytes, tmp_path: Path) -> None:
    save(new_figure(1, 1), str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(magic)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.gif", "a", "png", "a.png.txt", ".svg"])
def test_other_names_are_refused_and_leave_nothing(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / name)
    with pytest.raises(UsageError, match=r"the name must end in \.png, \.svg, \.pdf"):
        check_plot(path)
    with pytest.raises(UsageError, match="must end in"):
        save(new_figure(1, 1), path)
    assert list(tmp_path.iterdir()) == []


def test_a_figure_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        save(new_figure(1, 1), str(tmp_path / "no" / "a.png"))


def test_pictures_are_as_many_inches_as_they_were_asked_for(tmp_path: Path) -> None:
    import matplotlib.image

    save(new_figure(2, 1), str(tmp_path / "a.png"))
    height, width, _ = matplotlib.image.imread(tmp_path / "a.png").shape
    assert (width, height) == (2 * DPI, 1 * DPI)
    figure, places = panels(4, 3, 2, 3)
    assert tuple(figure.get_size_inches()) == (4, 3)
    assert len(places) == 6
    assert places[1].get_position().x0 > places[0].get_position().x0  # row by row
    assert figure.get_layout_engine() is not None
    assert new_figure(1, 1).get_layout_engine() is None


@pytest.mark.filterwarnings("error")
def test_letters_that_the_font_lacks_are_boxes_without_a_warning(tmp_path: Path) -> None:
    figure, (axes,) = panels(2, 2)
    axes.set_title("\u5c42 \U0001f600")
    save(figure, str(tmp_path / "a.png"))


def test_texts() -> None:
    assert plain("$x_1$") == r"\$x_1\$"
    assert shortened("layer", 5) == "layer"
    assert shortened("layer4.1.conv2", 9) == "laye…onv2"
    for longest in (3, 4, 5, 10):
        assert len(shortened("a" * 50, longest)) == longest


def test_a_speedup_axis_reads_as_numbers() -> None:
    figure, (axes,) = panels(3, 3)
    axes.bar([0, 1], [0.5, 20])
    write_value(axes, 1, 20, "20")
    speedup_axis(axes)
    figure.draw_without_rendering()
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert {"0.5", "1", "2", "5", "10", "20"} <= set(labels)
    (text,) = axes.texts
    assert (text.get_text(), text.get_rotation()) == ("20", 90.0)


@pytest.mark.parametrize("ends", [(0.9, 1.3), (1.1, 4.0), (0.5, 30.0), (1.0, 4000.0)])
def test_a_speedup_axis_reads_at_several_places(ends: tuple[float, float]) -> None:
    figure, (axes,) = panels(4, 3)
    axes.plot([0, 1], ends)
    speedup_axis(axes)
    figure.savefig(io.BytesIO(), format="png")
    low, high = axes.get_ylim()
    seen = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert 3 <= len(seen) <= 14
    texts = [axes.yaxis.get_major_formatter()(tick, 0) for tick in seen]
    assert len({*texts}) == len(texts)


def test_the_picture_of_an_explanation_begins_at_nothing() -> None:
    figure = plot_explanation(explain(CASE))
    strip, layers = figure.axes
    assert strip.get_xlim()[0] == layers.get_xlim()[0] == 0
    assert strip.get_title().startswith(
        f"lenet, accpar on {CASE.array.name}, batch 64, published: "
    )
    assert strip.get_title().endswith("\N{NO-BREAK SPACE}\N{MICRO SIGN}s")
    assert all(axes.get_xlabel().endswith("[\N{MICRO SIGN}s]") for axes in figure.axes)


def test_slow_steps_are_told_alike_and_without_exponents() -> None:
    """Lanes, stages and explanations have one way to write the same million seconds."""
    slow = replace(CASE, array=load_array("tpu-v3-8", ["devices.0.chip.peak=100 FLOP/s"]))
    slow = replace(slow, planner="data_parallel", execution=DEPLOYED)
    staged = replace(slow, execution=with_options(DEPLOYED, {"stages": "2"}))
    _, timeline = step_of(slow)
    for figure, seconds in (
        (plot_explanation(explain(slow)), timeline.iteration_s),
        (gantt(slow), timeline.iteration_s),
        (plot_pipeline("", *(found := step_of(staged))), found[1].iteration_s),
    ):
        assert seconds > 1e6
        figure.draw_without_rendering()
        titles = [figure.axes[0].get_title(loc=loc) for loc in ("left", "center")]
        assert f"{seconds:,.0f}\N{NO-BREAK SPACE}s" in "".join(titles)
        for axes in figure.axes:
            assert axes.get_xlabel().endswith("[s]")
            ticks = [label.get_text() for label in axes.get_xticklabels()]
            assert re.fullmatch(r"[1-9]\d{0,2}(,000)+", ticks[1])
            assert axes.xaxis.get_offset_text().get_text() == ""


def test_titles_name_what_is_not_the_default() -> None:
    case = replace(CASE, execution=DEPLOYED, communication="plotted")
    assert (
        str(case)
        == f"lenet, accpar on {CASE.array.name}, batch 64, plotted communication, deployed"
    )


def test_a_png_is_smaller_and_looks_the_same(tmp_path: Path) -> None:
    figure, (axes,) = panels(4, 3)
    axes.imshow([[x * y for x in range(20)] for y in range(20)], cmap="viridis")
    axes.set_title("numbers", color="#ee6677")
    figure.savefig(whole := tmp_path / "whole.png", dpi=DPI)
    save(figure, str(small := tmp_path / "small.png"))
    before, after = (imread(path)[..., :3] for path in (whole, small))
    assert before.shape == after.shape
    assert abs(before - after).mean() < 1e-3
    assert small.stat().st_size < whole.stat().st_size / 1.5


def test_a_percent_is_no_high_bar() -> None:
    _, (axes,) = panels(4, 3)
    axes.bar([0, 1], [1.0, 1.01])
    axes.set_yscale("log")
    readable_log(axes)
    low, high = axes.get_ylim()
    assert low < 1 < 1.01 < high
    assert high == pytest.approx(2 * low)


def test_each_metric_that_was_asked_for_is_a_panel() -> None:
    """Bars are as high as the table says: ratios, and gigabytes."""
    array = load_array("hypar-16")
    result = compare(array, [LENET], ["data_parallel", "hypar"], 64, metrics=("energy", "traffic"))
    energy, traffic = plot_speedups(result).axes
    rows = {row.planner: row for row in result.rows}
    for axes, metric, scale in ((energy, "energy", 1.0), (traffic, "traffic", 1e9)):
        heights = {bar.get_height() for bars in axes.containers for bar in bars}
        assert {(rows[p].metric(metric) or 0) / scale for p in ("hypar",)} <= heights
    assert energy.get_ylabel() == "energy efficiency over data parallelism"
    assert traffic.get_ylabel() == "traffic of a step [GB]"


def test_traffic_that_is_none_is_said() -> None:
    array = load_array("hypar-16", ["devices.0.count=1"])
    result = compare(array, [LENET], ["data_parallel", "hypar"], 64, metrics=("traffic",))
    (axes,) = plot_speedups(result).axes
    assert [text.get_text() for text in axes.texts] == ["no traffic"]
