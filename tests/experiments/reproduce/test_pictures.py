"""A heat map and a plan of all three types are drawn too, from rows alone."""

from pathlib import Path

from experiments.reproduce.figure import Figure
from experiments.reproduce.pictures import plot_figures

PLAN = {"network": "n", "levels": ["012", "210"], "published": ["012", "200"], "same": False}
POINTS = [
    {"a": a, "b": b, "ours": i + 1.0, "hypar": i == 2}
    for i, (a, b) in enumerate([("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")])
]


def test_every_shape(tmp_path: Path) -> None:
    figures = [
        Figure("p", "plans", "plans", "types", (PLAN,)),
        Figure("m", "map", "map", "performance", tuple(POINTS), (), ("a", "b")),
    ]
    plot_figures("x", figures, str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-m.png", "x-p.png"]
