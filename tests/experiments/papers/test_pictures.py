"""A heat map and a plan of all three types are drawn too, from rows alone."""

import io
from pathlib import Path

import pytest

from experiments.api.papers import PaperResult
from experiments.papers.figure import Figure, beside
from experiments.papers.pictures import plot_figure

PLAN = {"network": "n", "levels": ["012", "210"], "published": ["012", "200"], "same": False}
POINTS = [
    {"a": a, "b": b, "ours": i + 1.0, "hypar": i == 2}
    for i, (a, b) in enumerate([("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")])
]


def test_every_shape(tmp_path: Path) -> None:
    figures = {
        "p": Figure("plans", "types", shape="plans", rows=(PLAN,)),
        "m": Figure("map", "performance", shape="map", rows=tuple(POINTS), axes=("a", "b")),
    }
    PaperResult("x", figures).save(tmp_path)
    PaperResult("x", figures).save(tmp_path, ".pdf")
    names = [f"x-{key}.{ending}" for key in "mp" for ending in ("pdf", "png")]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


@pytest.mark.parametrize("shape", ["bars", "lines"])
def test_legends_and_titles_are_clear_of_what_is_drawn(shape: str) -> None:
    """A legend among bars hid the highest of them; a value above the paper's mark was not its."""
    axis = "network" if shape == "bars" else "levels"
    rows = [
        beside(ours, theirs, planner=planner, **{axis: place})
        for place, (ours, theirs) in enumerate([(8.0, 9.0), (8.0, None), (9.0, 9.0), (9.0, 1.0)])
        for planner in ("hypar", "model_parallel")
    ]
    figure = Figure("a title", "speedup", (), (), (axis,), "an-array, batch 1", shape, tuple(rows))
    picture = plot_figure(figure)
    picture.savefig(io.BytesIO(), format="png")
    (axes,) = picture.axes
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 >= axes.get_window_extent().y1 - 2
    assert not legend.get_window_extent().overlaps(axes.title.get_window_extent())
    assert axes.get_title() == "a title\nan-array, batch 1"
    for text, row in zip(axes.texts, sorted(rows, key=lambda row: row["planner"]), strict=False):
        top = axes.transData.transform((0, row["ours"]))[1]
        marked = row["published"] is not None and row["published"] >= row["ours"]
        assert (text.get_window_extent().y1 < top) == marked
