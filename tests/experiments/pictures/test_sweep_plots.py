"""What the pictures of sweeps show: lines and crossovers, or maps of two varied values."""

from dataclasses import replace

import numpy as np
import pandas
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from experiments.output import UsageError
from experiments.pictures.plots import check_drawable, plot_sweep
from experiments.studies.options import Axis, parse_vary
from experiments.studies.sweep import Crossover, Grid
from workloads import load_network

NETWORKS = tuple(map(load_network, ("lenet", "alexnet")))
RATE = parse_vary("network.bandwidth=1 Gbit/s:1 Tbit/s:log:4")
BATCH = parse_vary("batch=64,128,256")
NAMES = parse_vary("topology.kind=switch,torus")
GRID = Grid(NETWORKS, ("owt", "accpar"), "accpar-mixed", (RATE,))


def table(grid: Grid) -> pandas.DataFrame:
    """Rows as ``sweep`` makes them; speedups count up."""
    rows: list[dict[str, object]] = []
    for point in grid.points():
        for network in grid.networks:
            for planner in grid.planners:
                varied = {
                    axis.title: value.number if axis.numeric else value.label
                    for axis, value in zip(grid.axes, point, strict=True)
                }
                row = {"network": network.name, "planner": planner, "speedup": 1.0 + len(rows)}
                row |= {"array": "an-array", "batch": 512, "execution": "published"}
                row["baseline_fits"] = True
                rows.append({**row, "iteration_s": 0.5 / (1 + len(rows)), **varied})
    return pandas.DataFrame(rows)


def along(line: Line2D, axis: str) -> list[float]:
    """A line's places on one axis."""
    return [float(at) for at in np.asarray(line.get_xdata() if axis == "x" else line.get_ydata())]


def shown(axes: list[Axes]) -> list[Axes]:
    return [one for one in axes if one.get_visible() and one.get_title()]


def test_a_panel_a_network_and_a_line_a_planner() -> None:
    every = plot_sweep(GRID, table(GRID), []).axes
    first, second = shown(every)
    assert [first.get_title(), second.get_title()] == ["lenet", "alexnet"]
    for panel, offset in ((first, 0), (second, 2)):
        assert [str(line.get_label()) for line in panel.lines] == ["owt", "accpar"]
        for i, line in enumerate(panel.lines):
            assert along(line, "x") == pytest.approx([1e9, 1e10, 1e11, 1e12])
            assert along(line, "y") == [1.0 + offset + i + 4 * n for n in range(4)]
        assert panel.get_xscale() == panel.get_yscale() == "log"
        below = every[2 + offset // 2]
        for lower, line in zip(below.lines, panel.lines, strict=True):
            milliseconds = [500 / speedup for speedup in along(line, "y")]
            assert along(lower, "y") == pytest.approx(milliseconds)
        assert below.get_xlabel() == "network.bandwidth [bit/s]"
        assert panel.get_ylabel() == "speedup over data parallelism"
        assert below.get_ylabel() == "step time [ms]"


def test_where_data_parallelism_does_not_fit_there_is_no_speedup() -> None:
    rows = table(GRID)
    rows["baseline_fits"] = rows["network"] == "alexnet"
    first, second = shown(plot_sweep(GRID, rows, []).axes)
    assert np.isnan(along(first.lines[0], "y")).all()
    assert not np.isnan(along(second.lines[0], "y")).any()
    rows["baseline_fits"] = False
    cross = Crossover("alexnet", "owt", "accpar", 5e10, 3.0, 4e10, 6e10)
    panels = plot_sweep(GRID, rows, [cross]).axes
    assert {panel.get_ylabel() for panel in panels} == {"step time [ms]"}
    assert all(len(panel.lines) == 2 for panel in panels)


def test_crossovers_are_marked_in_their_networks_panel() -> None:
    cross = Crossover("alexnet", "owt", "accpar", 5e10, 3.0, 4e10, 6e10)
    first, second = shown(plot_sweep(GRID, table(GRID), [cross]).axes)
    assert len(first.lines) == 2
    mark = second.lines[2]
    assert (mark.get_marker(), along(mark, "x"), along(mark, "y")) == (
        "x",
        [5e10],
        [3.0],
    )


def test_values_that_go_by_steps_have_a_plain_axis() -> None:
    grid = replace(GRID, axes=(parse_vary("batch=100,200,300,400"),))
    axes = plot_sweep(grid, table(grid), []).axes
    assert axes[0].get_xscale() == "linear"
    assert axes[2].get_xlabel() == "batch"


def test_the_legend_is_the_planners() -> None:
    (legend,) = plot_sweep(GRID, table(GRID), []).legends
    assert [text.get_text() for text in legend.get_texts()] == ["owt", "accpar"]


def test_what_is_not_varied_is_not_drawn() -> None:
    fixed = parse_vary("objective=time")
    grid = replace(GRID, axes=(fixed, RATE))
    assert plot_sweep(grid, table(grid), []).axes[2].get_xlabel() == "network.bandwidth [bit/s]"
    alone = replace(GRID, axes=(parse_vary("batch=64"),))
    panel, _ = shown(plot_sweep(alone, table(alone), []).axes)
    assert along(panel.lines[0], "x") == [64.0]


@pytest.mark.parametrize("second", [RATE, NAMES])
def test_two_varied_values_make_maps(second: Axis) -> None:
    grid = replace(GRID, axes=(BATCH, second))
    rows = table(grid)
    panels = shown(plot_sweep(grid, rows, []).axes)
    assert [panel.get_title() for panel in panels] == [
        f"{network}, {planner}"
        for _ in range(2)
        for network in ("lenet", "alexnet")
        for planner in ("owt", "accpar")
    ]
    own = rows[(rows["network"] == "lenet") & (rows["planner"] == "accpar")]
    for panel, column, unit in ((panels[1], "speedup", 1.0), (panels[5], "iteration_s", 1e-3)):
        heights = own[column].to_numpy().reshape(3, -1).T  # batches across, the other one up
        (image,) = panel.images
        assert np.asarray(image.get_array()) == pytest.approx(heights / unit)
    assert panels[1].get_xlabel() == "batch"
    assert [label.get_text() for label in panels[1].get_xticklabels()] == ["64", "128", "256"]


def test_unused_panels_are_hidden() -> None:
    four = replace(GRID, networks=tuple(map(load_network, ("lenet", "alexnet", "vgg11", "vgg13"))))
    axes = plot_sweep(four, table(four), []).axes
    row, last = [True] * 3, [True, False, False]
    assert [panel.get_visible() for panel in axes] == [*row, *row, *last, *last]
    assert [panel.get_title() for panel in (*axes[:3], axes[6])] == [
        network.name for network in four.networks
    ]


def test_the_title_is_what_is_the_same_everywhere() -> None:
    def title(axes: tuple[Axis, ...], **columns: str) -> str:
        grid = replace(GRID, axes=axes)
        return plot_sweep(grid, table(grid).assign(**columns), []).get_suptitle()

    assert title((RATE,)) == "an-array, batch 512, published"
    assert title((BATCH,)) == title((BATCH, RATE)) == "an-array, published"
    models = parse_vary("execution=published,deployed")
    assert title((models,)) == "an-array, batch 512"
    assert title((RATE,), array="$a$") == r"\$a\$, batch 512, published"


def test_more_than_two_varied_values_are_refused_before_any_run() -> None:
    check_drawable(replace(GRID, axes=(RATE, BATCH)))
    check_drawable(replace(GRID, axes=(RATE, BATCH, parse_vary("objective=time"))))
    with pytest.raises(UsageError, match="one or two varied keys"):
        check_drawable(replace(GRID, axes=(RATE, BATCH, NAMES)))


def test_steps_that_do_not_fit_are_hollow_or_hatched() -> None:
    rows = table(GRID).assign(fits=[n % 4 != 3 for n in range(len(table(GRID)))])
    figure = plot_sweep(GRID, rows, [])
    assert "hollow: does not fit" in figure.get_suptitle()
    first = shown(figure.axes)[0]
    hollow = [line for line in first.lines if line.get_markerfacecolor() == "white"]
    assert sum(len(along(line, "x")) for line in hollow) == sum(
        not fits for fits, network in zip(rows["fits"], rows["network"], strict=True)
        if network == "lenet"
    )  # fmt: skip
    two = Grid(NETWORKS[:1], ("owt",), "accpar-mixed", (RATE, BATCH))
    over = table(two).assign(fits=[n > 2 for n in range(len(table(two)))])
    figure = plot_sweep(two, over, [])
    assert "hatched: does not fit" in figure.get_suptitle()
    hatched = [patch for panel in figure.axes[:1] for patch in panel.patches if patch.get_hatch()]
    assert len(hatched) == sum(~over["fits"])
    assert "fit" not in plot_sweep(two, table(two), []).get_suptitle()


@pytest.mark.parametrize("mixed", [False, True])
def test_names_under_unlike_models_say_which(mixed: bool) -> None:
    """A bus is published's, and a switch deployed's: their times are no comparison."""
    grid = replace(GRID, axes=(NAMES,))
    rows = table(grid)
    if mixed:
        rows.loc[rows["topology.kind"] == "switch", "execution"] = "deployed, bucket 25 MB"
    panel = plot_sweep(grid, rows, []).axes[0]
    names = [str(name) for name in np.asarray(panel.lines[0].get_xdata(orig=True))]
    assert names == (["switch\ndeployed", "torus\npublished"] if mixed else ["switch", "torus"])
