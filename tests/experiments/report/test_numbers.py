"""The page's numbers, its memory by class, and the picture of it, against explain and by hand."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelarray
from experiments.cli import main
from experiments.report.charts import in_columns, stacked, ticks
from experiments.studies.step_numbers import ALL_COMPUTED, CONVENTION
from experiments.terms import duration
from simulator.engine.operations import CLASSES
from tests.experiments.pages import EMPTY, Parsed, shown
from workloads import load_network

NETWORK = "gpt3-125m:layers=2:seq=128"
STEP = ["--array", "tpu-v3-8", "--batch", "16", "--parallel", "dp=2,pp=2,tp=2"]
STEP += ["--micro-batch", "2"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    target = tmp_path_factory.mktemp("page") / "page.html"
    args = ["report", *STEP, "--networks", NETWORK, "--planners", "axes", "--output", str(target)]
    assert main(args) == 0
    return Parsed(target.read_text(encoding="utf-8"))


def named(made: Parsed, words: str) -> tuple[list[list[str]], list[list[float | None]]]:
    (name,) = (name for name in made.exact if words in name)
    return made.tables[name][1:], made.exact[name][1:]


def test_numbers_and_memory_are_what_explain_says(
    made: Parsed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", NETWORK, *STEP, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    title = next(name for name in made.tables if name.startswith(f"{NETWORK}, axes on"))
    found = dict(made.tables[title][1:])
    assert found["MFU"].startswith(f"{data['mfu']:.2%}")
    assert found["step time"] == duration(data["iteration_s"])
    assert {"tokens/s", "HFU", "bubble"} <= found.keys()
    assert {CONVENTION, ALL_COMPUTED} <= set(made.text("p"))
    texts, values = named(made, "Memory by class at the peak")
    for row, exact, one in zip(texts, values, data["memory"], strict=True):
        assert row[0] == one["device"]
        *classes, whole = [size * 2**30 for size in exact[1 : len(CLASSES) + 2] if size is not None]
        assert classes == [pytest.approx(one["by_class"][name]) for name in CLASSES]
        assert whole == pytest.approx(one["peak_bytes"]) == pytest.approx(math.fsum(classes))
    texts, _ = named(made, "free memory")
    assert [row[0] for row in texts] == [one["what"] for one in data["frees"]]


def test_totals_are_of_one_step_of_several_that_were_simulated() -> None:
    """Eight batches go through a pipeline that is not flushed: bytes and FLOPs are of one."""
    on: dict[str, Any] = {"array": "tpu-v3-8", "batch": 64, "execution": "deployed", "stages": 2}
    on |= {"micro_batches": 4, "schedule": "pipedream", "batches": 8}
    said = Parsed(accelarray.report("lenet", "data_parallel", **on).html)
    texts, values = named(said, "Where the time of")
    found = {text[0]: row[2:] for text, row in zip(texts, values, strict=True)}
    macs = sum(layer.macs for layer in load_network("lenet").layers)
    assert found["compute, forward"] == [0, 2 * 64 * macs]
    step = accelarray.simulate("lenet", "data_parallel", **on)
    assert step.timeline.batches > 1
    of = {one["operation"]: one["bytes"] for one in step.to_dict()["phases"]}
    assert {name: found[name][0] for name in of} == of


def test_stages_and_their_own_plans_are_shown(made: Parsed) -> None:
    assert not any("nothing is split" in text for text in made.text("p"))
    assert any(text.startswith("stage 1") for text in made.text("p"))
    stages = next(rows for rows in made.tables.values() if rows[0][:2] == ["stage", "layers"])
    assert [row[0] for row in stages[1:]] == ["0", "1"]


def test_areas_lie_one_upon_the_other() -> None:
    """Of two for half of the time each, by hand: 4 is the highest, and the axis ends at 4.2."""
    steps = [(0, (1.0, 1.0, 0.0)), (500, (1.0, 3.0, 0.0))]
    drawn = Parsed(
        shown(EMPTY, stacked("title", ("one", "two", "none"), (1.0, 0.0, 0.0), steps, 1000, 100.0))
    )
    found = {
        a["class"]: [tuple(map(float, p.split(","))) for p in a["points"].split()]
        for name, a in drawn.tags
        if name == "polygon"
    }
    left, middle, right = 64.0, 382.0, 700.0

    def up(value: float) -> float:
        return round(220 - 208 * value / 4.2, 2)

    assert found == {
        "s0": [(left, up(1)), (right, up(1)), (right, up(0)), (left, up(0))],
        "s1": [
            *[(left, up(2)), (middle, up(2)), (middle, up(4)), (right, up(4))],
            *[(right, up(1)), (left, up(1))],
        ],
    }
    assert list(drawn.text("li")) == ["one", "two"]
    assert not [a for name, a in drawn.tags if a.get("class") == "mark"]
    near = Parsed(shown(EMPTY, stacked("title", ("one",), (1.0,), [], 1000, 1.4)))
    (line,) = [a for name, a in near.tags if a.get("class") == "mark"]
    assert float(line["y1"]) == pytest.approx(220 - 208 / 1.05, abs=0.01)


def test_long_times_are_written_out() -> None:
    drawn = shown(EMPTY, stacked("title", ("one",), (1.0,), [], 25 * 10**17, 9.0))
    assert ">2,000,000<" in drawn


def test_a_model_without_memory_has_no_such_section(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    target = tmp_path_factory.mktemp("page") / "page.html"
    small = ["--set", "devices.0.count=2", "--set", "devices.1.count=2"]
    args = ["report", "--array", "accpar-mixed", *small, "--networks", "lenet"]
    assert main([*args, "--output", str(target)]) == 0
    ids = {a.get("id") for _, a in Parsed(target.read_text(encoding="utf-8")).tags}
    assert "numbers" in ids
    assert "memory" not in ids


@given(st.data())
def test_each_column_has_the_highest_of_what_falls_into_it(data: st.DataObject) -> None:
    """Against every picosecond by itself."""
    end_ps, count = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 12))
    starts = sorted(data.draw(st.sets(st.integers(0, end_ps - 1), max_size=5)))
    steps = [(at, (data.draw(st.floats(0, 9)), 0.5)) for at in starts]
    rest = (0.5, 0.0)
    found = in_columns(rest, steps, end_ps, count)
    at_ps = [next((v for t, v in reversed(steps) if t <= at), rest) for at in range(end_ps)]
    for column, values in enumerate(found):
        inside = [
            at_ps[at]
            for at in range(end_ps)
            if at * count < (column + 1) * end_ps and (at + 1) * count > column * end_ps
        ]
        assert sum(values) == max(map(sum, inside))


@pytest.mark.parametrize("top", [0.003, 0.9, 1.0, 3.1, 7.0, 25.9, 99.0, 12345.0])
def test_ticks_are_few_and_round(top: float) -> None:
    found = ticks(top)
    assert found[0] == 0
    assert 3 <= len(found) <= 9
    assert found[-1] <= top < found[-1] + found[1]
    assert f"{found[1]:e}"[0] in "125"
