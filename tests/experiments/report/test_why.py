"""What the page says of its study, of the drawn step and of two planners, against the commands."""

from dataclasses import replace
from typing import Any

import pytest

from accelarray import difference, explain, simulate
from experiments.cli import main
from experiments.report.comparison import message, title
from experiments.report.study import report, steps
from experiments.results.result import Result
from experiments.studies.speedups import Comparison, Row
from experiments.terms import duration
from tests.experiments.pages import PLAIN, Parsed, study

STEP = ["--array", "accpar-mixed-switch", "--batch", "64"]
STEP += ["--set", "devices.0.count=2", "--set", "devices.1.count=2"]


def compared(**speedups: list[float]) -> Comparison:
    networks = [f"net{i}" for i in range(len(next(iter(speedups.values()))))]
    rows = [
        Row(network, planner, 1 / values[i], values[i])
        for i, network in enumerate(networks)
        for planner, values in speedups.items()
    ]
    return Comparison("an-array", 64, tuple(rows), {})


BASE = {"data_parallel": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            compared(**BASE, owt=[1.0, 4.0], accpar=[2.0, 8.0]),
            "On an-array, accpar is 4 times as fast as data parallelism in the geometric mean of "
            "2 networks (2 to 8), and 2 times as fast as owt.",
        ),
        (
            compared(data_parallel=[1.0], owt=[3.0]),
            "On an-array, owt is 3 times as fast as data parallelism.",
        ),
        (
            compared(**BASE, owt=[0.25, 1.0], hypar=[0.1, 0.4]),
            "On an-array no planner beats data parallelism: owt, the nearest, is 0.5 times as "
            "fast as it.",
        ),
        (compared(**BASE), "On an-array a step under data parallelism takes 1.000 s."),
    ],
)
def test_the_message_is_what_the_numbers_say(result: Comparison, words: str) -> None:
    assert message([result]) == words
    second = words[:-1].replace("On an-array", "on b", 1)
    assert message([result, replace(result, array="b")]) == f"{words[:-1]}; {second}."


def test_the_message_says_what_does_not_fit() -> None:
    result = replace(compared(**BASE, owt=[1.0, 4.0]), base_full=("net0", "net1"))
    assert message([result]).endswith(" (does not fit in memory: data_parallel for net0 and net1).")


def test_the_title_is_what_is_compared() -> None:
    two = compared(**BASE, owt=[1.0, 1.0], accpar=[1.0, 1.0])
    assert title([two, replace(two, array="b")]) == (
        "owt and accpar against data parallelism for net0 and net1 on an-array and b, batch 64, "
        "published"
    )
    many = compared(data_parallel=[1.0] * 4)
    assert title([many]) == "data_parallel for 4 networks on an-array, batch 64, published"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    target = tmp_path_factory.mktemp("page") / "page.html"
    args = ["report", *STEP, "--networks", "lenet", "--title", "<b>mine</b>"]
    assert main([*args, "--output", str(target)]) == 0
    return Parsed(target.read_text(encoding="utf-8"))


def printed_by(of: Result) -> dict[str, list[list[str]]]:
    """A result's tables as its command prints them: heads, then rows."""
    return {
        str(table.title): [
            [str(column.header) for column in table.columns],
            *map(list, zip(*(column.cells for column in table.columns), strict=True)),
        ]
        for table in of.tables()
        if not isinstance(table, str)
    }


def shown_in(made: Parsed, name: str) -> list[list[str]]:
    return [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in made.tables[name]]


ASKED: dict[str, Any] = {
    "array": "accpar-mixed-switch",
    "batch": 64,
    "set": ("devices.0.count=2", "devices.1.count=2"),
}


def test_a_title_is_text(made: Parsed) -> None:
    assert made.text("h1") == made.text("title")[:1] == ["<b>mine</b>"]
    assert not any(name == "b" for name, _ in made.tags)


@pytest.mark.parametrize(
    "table",
    ["Critical path", "Kinds of layers", "Layers: time on the critical path, and of a mean core"],
)
def test_why_is_what_explain_prints(made: Parsed, table: str) -> None:
    assert shown_in(made, table) == printed_by(explain("lenet", "accpar", **ASKED))[table]


def test_what_helps_is_what_explain_prints(made: Parsed) -> None:
    of = explain("lenet", "accpar", **ASKED)
    assert shown_in(made, "Twice as fast") == printed_by(of)["Twice as fast"]
    best = min(min(k["same_plan_s"], k["replanned_s"]) for k in of.to_dict()["twice_as_fast"])
    said = f"twice as fast the step takes {duration(best)}: "
    assert any(said in text for text in made.text("p"))


def test_the_strip_is_as_long_as_the_step(made: Parsed) -> None:
    place = [a.get("aria-label") for _, a in made.tags].index("critical path")
    parts = []
    for name, attributes in made.tags[place + 1 :]:
        if name not in ("rect", "title"):
            break
        parts += [attributes] if name == "rect" else []
    widths = [float(part["width"]) for part in parts]
    assert sum(widths) == pytest.approx(float(made.tags[place][1]["width"]), abs=0.1)
    assert [float(part["x"]) for part in parts] == [
        pytest.approx(sum(widths[:i]), abs=0.1) for i in range(len(widths))
    ]


def test_two_planners_are_what_compare_prints(made: Parsed) -> None:
    steps = [simulate("lenet", planner, **ASKED) for planner in ("data_parallel", "accpar")]
    of = difference(*steps)
    by = {name.partition(",")[0]: name for name in made.tables}
    for name, wanted in zip(("By operation", "By layer"), printed_by(of).values(), strict=True):
        assert shown_in(made, by[name]) == wanted
    ratio = steps[0].iteration_s / steps[1].iteration_s
    assert any(f"data_parallel takes {ratio:.3g} times as long" in p for p in made.text("p"))


def test_one_planner_alone_is_compared_with_nothing() -> None:
    alone = Parsed(report(replace(study(PLAIN), planners=("accpar",))))
    assert "compare" not in {attributes.get("id") for _, attributes in alone.tags}
    heard: list[str] = []
    report(study(PLAIN), heard.append)
    assert len(heard) == steps(study(PLAIN))
