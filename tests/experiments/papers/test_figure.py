"""Rows of reproduced figures, ours beside the papers'."""

from typing import Any

import pytest

from experiments.api.papers import PaperResult
from experiments.output import text_of
from experiments.papers.figure import Figure, beside, grid, largest

BARS = (
    beside(2.2, 2.0, network="a", planner="owt"),
    beside(3.0, None, network="a", planner="mine"),
    beside(0.8, 1.0, network="b", planner="owt"),
    beside(1.5, None, network="b", planner="mine"),
)
FIGURE = Figure("title", "energy [J]", rows=BARS, messages=("a message",))


def test_a_row_beside_the_papers() -> None:
    assert beside(2.0, 1.6, network="n") == {
        "network": "n",
        "ours": 2.0,
        "published": 1.6,
        "difference": pytest.approx(0.25),
    }
    assert beside(2.0, None)["difference"] is None


def test_planners_in_the_order_of_the_rows() -> None:
    assert FIGURE.planners == ["owt", "mine"]
    assert Figure("t", "x", shape="map", rows=({"a": 1},)).planners == []


def test_the_largest_difference_of_each_planner() -> None:
    (worst,) = largest({"6": FIGURE})
    assert worst == {
        "figure": "6",
        "planner": "owt",
        "values": 2,
        "where": "b",
        "difference": pytest.approx(-0.2),
    }
    assert largest({"9": Figure("t", "x", shape="map", rows=({"a": 1},))}) == []


def test_a_figure_is_made_of_a_grid() -> None:
    """Groups first, in each the planners; progress hears of every row, notes are made of all."""
    points = grid("size", (1, 2), ("a", "b"), lambda n, p: n + len(p), {(2, "b"): 2.0}, network="n")
    heard: list[str] = []
    asked = Figure("title", "speed", points, lambda rows: [f"{len(rows)} rows"], ("size",), "case")
    figure = asked.made(heard.append)
    assert heard == ["1, a", "1, b", "2, a", "2, b"]
    assert [list(row.values()) for row in figure.rows] == [
        ["n", 1, "a", 2, None, None],
        ["n", 1, "b", 2, None, None],
        ["n", 2, "a", 3, None, None],
        ["n", 2, "b", 3, 2.0, 0.5],
    ]
    assert (figure.messages, figure.axes, figure.case) == (("4 rows",), ("size",), "case")


def cells(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]
        for line in text.splitlines()
        if line.startswith(("│", "┃"))
    ]


def to_table(**figures: Figure) -> str:
    return text_of(*PaperResult("hypar", figures).tables())


def test_bars_as_a_table() -> None:
    text = to_table(**{"6": FIGURE})
    rows = cells(text)
    assert rows[0] == ["network", "owt [J]", "the paper's", "off by", "mine [J]"]
    assert rows[1] == ["a", "2.2", "2", "+10.0%", "3"]
    assert rows[2] == ["b", "0.8", "1", "-20.0%", "1.5"]
    assert rows[-1] == ["6", "owt", "2", "b", "-20.0%"]
    assert "a message" in text
    assert "Largest differences" not in to_table()


def test_one_published_value_for_each_of_many_planners_is_a_row_at_the_end() -> None:
    def row(network: str, planner: str, ours: float, paper: float | None) -> dict[str, Any]:
        off = None if paper is None else ours / paper - 1
        own = {"network": network, "planner": planner, "ours": ours}
        return own | {"published": paper, "difference": off}

    rows = [row("n", planner, 2.0, None) for planner in "abc"]
    rows += [row("mean", "a", 2.2, 2.0), row("mean", "b", 3.0, None), row("mean", "c", 0.8, 1.0)]
    figure = Figure("t", "x", rows=tuple(rows))
    shown = cells(to_table(m=figure))
    assert shown[:2] == [["network", "a", "b", "c"], ["n", "2", "2", "2"]]
    assert shown[2:5] == [
        ["mean", "2.2", "3", "0.8"],
        ["the paper's", "2", "", "1"],
        ["off by", "+10.0%", "", "-20.0%"],
    ]


def test_published_values_of_many_planners_are_rows_that_fit() -> None:
    """In columns a terminal of 80 cut digits: "0.0121" became "0.01"."""
    planners = "model_parallel", "data_parallel", "hypar"
    rows = [
        {"network": network, "planner": one, "ours": 0.01206}
        | {"published": 0.0121, "difference": -0.003}
        for network in ("Lenet-c", "VGG-A")
        for one in planners
    ]
    text = to_table(m=Figure("t", "x [GB]", rows=tuple(rows)))
    shown = cells(text)
    assert shown[0] == ["network", "planner", "ours [GB]", "the paper's", "off by"]
    assert shown[4] == ["VGG-A", "model_parallel", "0.01206", "0.0121", "-0.3%"]
    assert max(map(len, text.splitlines())) <= 80


def test_plans_as_a_table() -> None:
    plans = (
        {"network": "n", "levels": ["01", "10"], "published": ["01", "11"], "same": False},
        {"network": "m", "levels": ["00", "11"], "published": None, "same": None},
    )
    rows = cells(to_table(a=Figure("t", "types", shape="plans", rows=plans)))
    assert rows[1:] == [
        ["n", "H1", "01", "01"],
        ["", "H2", "10", "11"],
        ["m", "H1", "00", ""],
        ["", "H2", "11", ""],
    ]


def test_maps_show_their_best_and_their_own() -> None:
    points = tuple({"a": str(i), "b": "0", "ours": float(i), "hypar": i == 1} for i in range(9))
    rows = cells(to_table(a=Figure("t", "x", shape="map", rows=points, axes=("a", "b"))))
    assert [row[:2] for row in rows[1:]] == [
        ["1", "8"],
        ["2", "7"],
        ["3", "6"],
        ["4", "5"],
        ["5", "4"],
        ["8", "1"],
    ]
    assert rows[-1][-1] == "HyPar's plan"


def test_json_has_it_all() -> None:
    data = PaperResult("accpar", {"6": FIGURE}).to_dict()
    assert data["paper"].startswith("AccPar")
    assert data["figures"] == {"6": list(BARS)}
    assert data["notes"] == {"6": ["a message"]}
    assert data["labels"] == {"6": "energy [J]"}
    assert data["largest_differences"] == largest({"6": FIGURE})
