"""A planner's colour is its own, in every picture and on the report's page."""

import re
from dataclasses import replace
from pathlib import Path

from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

import experiments.report
from experiments.papers.figure import Figure, beside
from experiments.papers.pictures import plot_figure
from experiments.pictures.figures import PLANNERS, colours, places
from experiments.pictures.palette import PHASES, SERIES, TYPES, css
from experiments.pictures.plots import plot_levels, plot_speedups, plot_sweep
from experiments.report.charts import bars
from experiments.studies.comparison import Level
from experiments.studies.speedups import Comparison, Row
from planners import is_built_in, planner_names
from tests.experiments.pages import EMPTY, shown
from tests.experiments.pictures.test_sweep_plots import GRID, table

SOME = ("accpar", "stranger", "owt")


def test_ours_have_their_own_and_others_what_is_left() -> None:
    assert all(is_built_in(planner) for planner in PLANNERS)
    assert set(planner_names()) <= set(PLANNERS)
    for few in (PLANNERS, PLANNERS[::-1], ("hypar",), SOME):
        own = {name: place for name, place in places(few).items() if name in PLANNERS}
        assert own == {name: PLANNERS.index(name) for name in few if name in PLANNERS}
    seven = (*PLANNERS, "a", "b")
    assert sorted(places(seven).values()) == list(range(7))
    assert list(places(("x", "owt", "y"))) == ["x", "owt", "y"]
    alone = tuple("abcdefg")
    assert len(set(colours(alone).values())) == 7
    assert set(places(tuple("abcdefghij")).values()) == set(range(7))  # all, once more


def test_pictures_agree() -> None:
    rows = tuple(Row("n", planner, 1.0, 2.0) for planner in SOME)
    result = Comparison("a", 1, rows, {})
    wanted = colours(SOME)
    (axes,) = plot_speedups(result).axes
    found = [
        to_hex(patch.get_facecolor()) for patch in axes.patches if isinstance(patch, Rectangle)
    ]
    assert found[::2] == list(wanted.values())
    (axes,) = plot_levels("a", [Level(1, 2, result), Level(2, 4, result)]).axes
    assert [to_hex(str(line.get_color())) for line in axes.lines] == list(wanted.values())
    grid = replace(GRID, planners=SOME)
    panel = plot_sweep(grid, table(grid), []).axes[0]
    assert {str(x.get_label()): str(x.get_color()) for x in panel.lines} == wanted
    beside_paper = tuple(beside(1.0, None, network="n", planner=planner) for planner in SOME)
    (axes,) = plot_figure(Figure("t", "speedup", rows=beside_paper)).axes
    found = [
        to_hex(patch.get_facecolor()) for patch in axes.patches if isinstance(patch, Rectangle)
    ]
    assert found == list(wanted.values())


def test_the_page_agrees() -> None:
    drawing = bars("t", ["n"], {planner: [2.0] for planner in SOME}, {})
    page = shown(EMPTY, drawing)
    drawn = re.findall(r'<rect[^>]* class="s(\d)"', page)
    assert [SERIES[int(number)] for number in drawn] == list(colours(SOME).values())
    keys = re.findall(r'class="key s(\d)"></span>(\w+)', page)
    assert {name: SERIES[int(number)] for number, name in keys} == colours(SOME)
    drawn_as = [re.search(rf"--s{i}: (#\w+);", css())[1] for i in range(7)]  # type: ignore[index]
    assert drawn_as == list(SERIES)
    for name, colour in TYPES.items():
        assert f"--{name}: {colour};" in css()
    for name, (compute, sums, _) in PHASES.items():
        assert f"--{name}: {compute}; --light-{name}: {sums};" in css()
    style = (Path(experiments.report.__path__[0]) / "templates" / "style.css").read_text()
    assert not re.search(r"--(s\d|I+|forward): #", style)  # the palette alone has them
