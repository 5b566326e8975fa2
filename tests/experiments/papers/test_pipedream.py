"""PipeDream's cells beside ours: what is calibrated, what is not, and closed forms."""

import itertools
import json

import pytest

from experiments.cli import main
from experiments.papers.pipedream import (
    CALIBRATED,
    FIGURES,
    Measured,
    efficiency,
    table,
)
from experiments.studies.published_values import published

WITHOUT_LINKS = 1e18


def test_one_device_takes_the_profile() -> None:
    given = Measured("vgg16", bytes_per_s=WITHOUT_LINKS)
    assert given.single_s == pytest.approx(0.672535)  # PipeDream's program: without the input
    assert given.minibatch_s((1,)) == pytest.approx(given.single_s, rel=1e-9)


def test_data_parallelism_without_links_is_linear() -> None:
    given = Measured("alexnet", bytes_per_s=WITHOUT_LINKS)
    assert given.minibatch_s((8,)) == pytest.approx(given.single_s / 8, rel=1e-6)


def test_a_straight_pipeline_without_links_is_as_fast_as_its_slowest_stage() -> None:
    given = Measured("vgg16", bytes_per_s=WITHOUT_LINKS)
    firsts = (*given.cuts((1,) * 4), len(given.layers))
    slowest = max(
        sum(x.forward_s + x.backward_s for x in given.layers[first:end])
        for first, end in itertools.pairwise(firsts)
    )
    assert given.minibatch_s((1,) * 4) == pytest.approx(slowest, rel=1e-6)


def test_a_flush_costs_the_bubble() -> None:
    """One stage has none; more micro-batches make it smaller."""
    given = Measured("vgg16", bytes_per_s=WITHOUT_LINKS)
    steady = given.minibatch_s((1,) * 4)
    flushed = [given.minibatch_s((1,) * 4, "1f1b", many) for many in (4, 16, 64)]
    assert flushed == sorted(flushed, reverse=True)
    assert flushed[-1] > steady
    assert given.minibatch_s((1,), "gpipe", 4) == pytest.approx(given.single_s)


def test_the_headline_sets_the_efficiency_and_nothing_else() -> None:
    rows = FIGURES["sosp"]().made().rows
    (calibrated,) = [row for row in rows if row["calibrates"]]
    assert calibrated["difference"] == pytest.approx(0.0, abs=1e-3)
    assert 0.1 < efficiency() < 1.0
    headline = [
        float(row["value"])
        for row in published("pipedream")
        if (row["paper"], row["model"], row["cluster"]) == CALIBRATED
    ]
    assert headline == [calibrated["published"]]
    with_profile = [
        r for r in published("pipedream") if r["paper"] == "sosp" and r["model"] != "s2vt"
    ]
    assert len(rows) == len([r for r in with_profile if r["model"] != "awd-lm"])


def test_gpipes_flush_costs_more_the_fewer_micro_batches() -> None:
    rows = FIGURES["flush"]().made().rows
    gpipe = [row["ours"] for row in rows if row["planner"] == "gpipe" and "4x4" in row["cell"]]
    assert gpipe == sorted(gpipe, reverse=True)
    assert all(cost > 0 for cost in gpipe)


def test_straight_pipelines_are_over_one_gpu_too() -> None:
    rows = [
        {"over": "one", "method": method, "difference": off, "calibrates": False}
        for method, off in (("pipedream", 0.1), ("straight", -0.5), ("data_parallel", 1.0))
    ]
    notes = table("arxiv", "Table 1").notes
    assert callable(notes)
    assert "of pipelines over one GPU 30.0% of 2" in notes(rows)[1]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "pipedream", "--figures", "sosp", "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {row["planner"] for row in data["figures"]["sosp"]} == {"simulated"}
    assert any("line rate" in note for note in data["notes"]["sosp"])
