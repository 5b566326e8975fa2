"""The parts of a report's page, one by one: text, tables, charts, sections."""

import math
from dataclasses import replace
from typing import Any

import pytest

from experiments.pictures.figures import places
from experiments.pictures.palette import SERIES
from experiments.report.charts import Chart, Scale, bars, lines, scale
from experiments.report.comparison import charts, made_by, results, specs, speedups, varied_keys
from experiments.report.page import Number, Table, section
from experiments.studies.published_values import Published
from experiments.studies.running.outputs import NAMES
from experiments.studies.speedups import Comparison, Row
from hardware import Array, load_array
from simulator import MODEL_VERSION
from tests.experiments.pages import EMPTY, Parsed, shown


def test_numbers_carry_their_exact_value() -> None:
    cells = Number(1 / 3, ".2f"), Number(2.0, ".0%", "t<"), Number(None, ".2f"), None, "<b>"
    html = shown(Table("c", ("",) * 6, [("row", *cells)]))
    assert '<td><data value="0.3333333333333333">0.33</data></td>' in html
    assert '<td><data value="2.0" title="t&lt;">200%</data></td><td></td><td>None</td>' in html
    assert "<td>&lt;b&gt;</td>" in html


def test_tables_name_their_rows_and_columns() -> None:
    page = shown(Table("caption", ("a", "b"), [("x", 1), ("y", 2)], [("sum", 3)]))
    parsed = Parsed(page)
    assert parsed.tables["caption"] == [["a", "b"], ["x", "1"], ["y", "2"], ["sum", "3"]]
    scopes = [a["scope"] for name, a in parsed.tags if name == "th"]
    assert scopes == ["col", "col", "row", "row", "row"]
    region = next(a for name, a in parsed.tags if name == "div")  # a table scrolls by itself
    assert region == {
        "class": "scroll",
        "role": "region",
        "tabindex": "0",
        "aria-label": "caption",
    }


def test_data_is_whole_numbers_and_texts() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        section(
            "timeline",
            {"title": "", "seconds": "", "phases": [], "left_out": ""}
            | {"totals": EMPTY, "step": math.nan},
        )


def test_a_scale_is_logarithmic() -> None:
    axis = Scale(1, 100, 0, 200)
    assert [axis(value) for value in (1, 10, 100)] == [0, 100, 200]
    assert axis.ticks() == [1, 2, 5, 10, 20, 50, 100]
    assert Scale(1, 1e9, 0, 1).ticks() == [10.0**n for n in range(10)]  # no twos and fives
    around = scale([4.0], 10, 0)
    assert around.low < 4 < around.high
    assert around(4.0) == 5


def rectangles(*drawn: Chart) -> list[dict[str, str]]:
    tags = Parsed(shown(EMPTY, *drawn)).tags
    return [attributes for name, attributes in tags if name == "rect"]


def test_bars_stand_on_one_and_hang_from_it() -> None:
    page = bars("title", ["a", "b"], {"owt": [2.0, 0.5], "mine": [1.0, 4.0]}, {})
    twice, half, same, four = (rectangles(page)[i] for i in (0, 2, 1, 3))
    foot = float(twice["y"]) + float(twice["height"])
    assert float(half["y"]) == pytest.approx(foot)
    assert float(half["height"]) == pytest.approx(float(twice["height"]), abs=0.02)
    assert float(four["height"]) == pytest.approx(2 * float(twice["height"]), abs=0.02)
    assert float(same["height"]) == 0.5  # a bar of one can be seen
    assert [bar["class"] for bar in rectangles(page)] == ["s1", "s5"] * 2  # "owt" has its own
    html = shown(EMPTY, page)
    texts = Parsed(html).text("title")
    assert texts == ["owt, a: 2.000", "mine, a: 1.000", "owt, b: 0.500", "mine, b: 4.000"]
    assert "the paper" not in html


def test_colours_begin_again() -> None:
    many = {f"p{i}": [2.0] for i in range(len(SERIES) + 1)}
    classes = [bar["class"] for bar in rectangles(bars("t", ["a"], many, {}))]
    assert classes == [f"s{place}" for place in places(list(many)).values()]


def test_lines_join_points_that_have_places_of_their_own() -> None:
    page = lines("t", "batch", "seconds", {"a": [(2, 1.0), (1, 3.0)], "b": [(1, 1.0), (1, 2.0)]})
    parsed = Parsed(shown(EMPTY, page))
    (path,) = [a["points"] for name, a in parsed.tags if name == "polyline"]
    places = [tuple(map(float, pair.split(","))) for pair in path.split()]
    assert places == sorted(places)
    assert places[0][1] < places[1][1]  # three seconds are higher up than one
    assert sum(name == "circle" for name, _ in parsed.tags) == 4
    assert "b: 2 at 1" in parsed.text("title")


STORED: dict[str, Any] = {
    "network": "lenet",
    "planner": "owt",
    "array": "ring-8",
    "accelerators": 8,
    "objective": "time",
    "execution": "published",
    "iteration_s": 1.0,
}


def test_what_outputs_are_called_is_no_varied_value() -> None:
    rows = [STORED | dict.fromkeys(NAMES, i) | {"key": i, "batch": i} for i in range(2)]
    assert varied_keys(rows) == []
    assert varied_keys([row | {"overlap": row["batch"]} for row in rows]) == ["overlap"]
    assert varied_keys([rows[0], rows[1] | {"links.latency": "1 us"}]) == ["links.latency"]


def test_a_chart_for_results_that_differ_in_one_thing() -> None:
    rows = [STORED | {"batch": b, "iteration_s": b / 8} for b in (8, 16)]
    assert [[chart.caption] for chart in charts(rows)] == [
        ["lenet, ring-8, 8 accelerators, time, published"]
    ]
    assert list(charts([rows[0], rows[1] | {"network": "vgg11"}])) == []
    assert (
        list(charts([row | {"iteration_s": 1.0} for row in rows])) == []
    )  # a flat line says nothing
    rates = [
        STORED | {"batch": 8, "network.bandwidth": rate, "iteration_s": s}
        for rate, s in (("1 Gbit/s", 2.0), ("4 Gbit/s", 1.0), ("none", 3.0))
    ]
    (chart,) = charts(rates)
    assert "owt: 2 at 1e+09" in Parsed(shown(EMPTY, chart)).text("title")


def test_charts_are_of_one_model_and_have_the_newest_of_like_rows() -> None:
    rows = [
        STORED | {"batch": b, "iteration_s": model * b, "model": model}
        for model in (27, 28)
        for b in (8, 16)
    ]
    old, new = charts(rows)  # across the batch, and none across the model
    assert old.caption.endswith("model 27")
    assert new.caption.endswith("model 28")
    (chart,) = charts([*rows[:2], rows[0] | {"iteration_s": 5.0}])
    texts = [*Parsed(shown(EMPTY, chart)).text("title")]
    assert "owt: 5 at 8" in texts
    assert not any("216 at 8" in text for text in texts)
    assert len([name for name, _ in Parsed(shown(EMPTY, chart)).tags if name == "circle"]) == 2


def test_results_are_a_table_with_exact_numbers() -> None:
    shown = STORED | {"batch": 8, "iteration_s": 1 / 3, "computing": 0.25, "finished": "today"}
    parsed = Parsed(section("results", results([shown])))
    head, cells = parsed.tables["Results, oldest first"]
    assert cells[head.index("step time [s]")] == "0.333333333"
    assert parsed.exact["Results, oldest first"][1][head.index("step time [s]")] == 1 / 3
    assert cells[head.index("compute")] == "25.00%"
    assert cells[head.index("finished")] == "today"
    assert "1 results." in parsed.text("p")
    assert "0 results." in Parsed(section("results", results([]))).text("p")


ROWS = (
    Row("net", "data_parallel", 2.0, 1.0, traffic_bytes=4e9),
    Row("net", "mine", 1.0, 2.0, traffic_bytes=1e9),
)
RESULT = Comparison("array", 64, ROWS, {})


def test_speedups_as_the_page_has_them() -> None:
    parsed = Parsed(section("speedups", speedups([RESULT])))
    name = "Speedups on array, batch 64, published"
    assert parsed.tables[name] == [
        ["network", "data_parallel [ms]", "mine"],
        ["net", "2,000", "2.000"],
        ["geometric mean", "", "2.000"],
    ]
    assert len(rectangles(*speedups([RESULT])[0]["charts"])) == 2  # the network, and the mean


def test_a_page_of_the_baseline_alone_has_no_bars() -> None:
    alone = replace(RESULT, rows=ROWS[:1])
    assert speedups([alone])[0]["charts"] == []


def test_marks_and_differences_beside_the_paper() -> None:
    result = replace(RESULT, published={"mine": Published(1.6, "recalled")})
    parsed = Parsed(section("speedups", speedups([result])))
    assert parsed.tables["Speedups on array, batch 64, published"][-2:] == [
        ["the paper's", "", "1.60"],
        ["difference", "", "+25.0%"],
    ]
    assert sum(a.get("class") == "mark" for _, a in parsed.tags) == 1
    assert any("recalled, not verified" in text for text in parsed.text("p"))


def test_other_metrics_have_tables_of_their_own() -> None:
    parsed = Parsed(
        section("speedups", speedups([replace(RESULT, metrics=("time", "traffic", "energy"))]))
    )
    traffic = parsed.tables["Traffic of a step in GB, array, batch 64, published"]
    assert traffic[1:] == [["net", "4", "1"], ["geometric mean", "4", "1"]]
    energy = parsed.tables["Energy efficiency over data parallelism, array, batch 64, published"]
    assert energy[1] == ["net", "-", "-"]


def test_specs_say_where_values_are_from() -> None:
    array = load_array("accpar-mixed", ["devices.0.count=4"])
    parsed = Parsed(section("specs", specs([array])))
    (rows,) = parsed.tables.values()
    assert rows[0] == ["key", "value", "source"]
    assert ["devices.0.count", "4", "command line"] in rows
    assert len(rows) == 1 + len(array.settings)
    made = Array("made", "", array.group)
    assert "This array was made in Python, not from a spec." in Parsed(
        section("specs", specs([made]))
    ).text("p")


def test_versions_and_command() -> None:
    parsed = Parsed(section("made", made_by("accelarray report --output <p>.html")))
    (rows,) = parsed.tables.values()
    assert ["execution model", f"version {MODEL_VERSION}"] in rows
    assert parsed.text("code") == ["accelarray report --output <p>.html"]
    assert Parsed(section("made", made_by(""))).text("code") == []
