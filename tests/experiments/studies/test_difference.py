"""Comparing two planners: every part adds up to the difference of the iteration times."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.cli import main
from experiments.studies.difference import WAITING, Difference, difference
from experiments.terms import change
from hardware import load_array
from planners import load_planner
from simulator import Timeline, shares, simulate
from tests.strategies import arrays, networks, plans, timelines
from workloads import load_network

SMALL = ["--set", "devices.0.count=2", "--set", "devices.1.count=2"]


def adds_up(result: Difference) -> None:
    """Exactly, in core-picoseconds: the parts are the steps, and nobody waits a negative time."""
    change = result.iteration_ps[1] - result.iteration_ps[0]
    for parts in (result.phases, result.layers):
        assert parts[-1].kind == WAITING
        assert sum(part.change_ps for part in parts) == change * result.cores
        for i in (0, 1):
            assert sum(part.core_ps[i] for part in parts) == result.iteration_ps[i] * result.cores
            assert all(part.core_ps[i] >= 0 for part in parts)
    assert result.phases[-1] == result.layers[-1]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 16))
def test_the_parts_add_up(data: st.DataObject, batch: int) -> None:
    network, array = data.draw(networks()), data.draw(arrays())
    steps = []
    for _ in range(2):
        plan = data.draw(plans(network, array, batch))
        steps.append(simulate(network, plan, array, folded=data.draw(st.booleans())))
    result = difference(("a", "b"), (steps[0], steps[1]))
    adds_up(result)
    changes = [abs(part.change_ps) for part in result.layers[:-1]]
    assert changes == sorted(changes, reverse=True)


@settings(max_examples=40, deadline=None)
@given(timelines("deployed"))
def test_the_parts_add_up_where_exchanges_overlap(timeline: Timeline) -> None:
    result = difference(("a", "a"), (timeline, timeline))
    adds_up(result)
    whole, spent = timeline.iteration_ps * timeline.cores, shares(timeline)
    sums = {"compute": 0, "other": 0}
    for part in result.phases[:-1]:
        sums["compute" if part.kind == "compute" else "other"] += part.core_ps[0]
    if whole:
        assert sums["compute"] / whole == pytest.approx(spent.computing)
        assert sums["other"] / whole == pytest.approx(spent.communicating, abs=1e-12)
        assert result.phases[-1].core_ps[0] / whole == pytest.approx(spent.waiting, abs=1e-12)


def test_parts_are_what_the_records_say() -> None:
    """Counted once more from an unfolded run, core by core and link by link."""
    network, array = load_network("alexnet"), load_array("accpar-mixed", SMALL[1::2])
    steps: list[Timeline] = []
    spent: list[dict[str, Fraction]] = []
    for planner in ("owt", "accpar"):
        plan = load_planner(planner)(network, array, 512)
        steps.append(simulate(network, plan, array))
        cores = {"link0.0": 32, "link1.0": 16, "link1.1": 16}
        layers: dict[str, Fraction] = {}
        for record in simulate(network, plan, array, folded=False):
            seconds = Fraction(record.end_ps - record.start_ps, 32 * 10**12)
            seconds *= cores.get(record.resource, 1)
            layers[record.layer] = layers.get(record.layer, Fraction(0)) + seconds
        spent.append(layers)
    result = difference(("owt", "accpar"), (steps[0], steps[1]))
    adds_up(result)
    assert {part.layer for part in result.layers[:-1]} == set(spent[0]) | set(spent[1])
    for part in result.layers[:-1]:
        for i in (0, 1):
            assert result.seconds(part.core_ps[i]) == float(spent[i].get(part.layer, 0))


def test_a_planner_against_itself() -> None:
    network, array = load_network("lenet"), load_array("accpar-mixed")
    step = simulate(network, load_planner("owt")(network, array, 512), array)
    result = difference(("owt", "owt"), (step, step))
    adds_up(result)
    assert {part.change_ps for part in (*result.phases, *result.layers)} == {0}


def test_unlike_arrays_cannot_be_compared() -> None:
    network = load_network("lenet")
    arrays_ = [load_array("accpar-mixed"), load_array("accpar-homogeneous")]
    first, second = (
        simulate(network, load_planner("owt")(network, array, 512), array) for array in arrays_
    )
    with pytest.raises(ValueError, match="2048 and 1024 cores"):
        difference(("a", "b"), (first, second))


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "both.svg"
    args = ["compare", "vgg16", "--planners", "owt,accpar", *SMALL]
    assert main([*args, "--format", "json", "--plot", str(plot)]) == 0
    out = json.loads(capsys.readouterr().out)
    times = []
    for planner in ("owt", "accpar"):
        assert main(["simulate", "vgg16", "--planner", planner, *SMALL, "--format", "json"]) == 0
        times.append(json.loads(capsys.readouterr().out)["iteration_s"])
    assert out["iteration_s"] == pytest.approx(times, rel=1e-12)
    assert out["difference_s"] == pytest.approx(times[1] - times[0], rel=1e-9)
    for rows in (out["phases"], out["layers"]):
        total = sum(row["difference_s"] for row in rows)
        assert total == pytest.approx(out["difference_s"], rel=1e-9)
    assert out["phases"][0]["phase"] == "forward"
    for planner in ("owt", "accpar"):
        assert f"vgg16, {planner} on accpar-mixed, devices.0.count=" in plot.read_text()
    assert main(args) == 0
    table = capsys.readouterr().out
    assert change(out["difference_s"]) in table
    for row in out["layers"][:10]:
        assert f"│ {row['layer']} " in table
    assert f"{len(out['layers']) - 1 - 10} others" in table
    assert table.count("waiting for communication") == 2
    assert table.count("100.0%") == 2


def test_the_title_says_which_model(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["compare", "lenet", "--planners", "owt,hypar", "--array", "tpu-v2-8"]
    assert main([*args, "--execution", "deployed"]) == 0
    assert "batch 512, deployed" in capsys.readouterr().out
    assert main(args) == 0
    assert "batch 512, published" not in capsys.readouterr().out
