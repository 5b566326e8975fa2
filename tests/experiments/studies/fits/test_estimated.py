"""Steps by the first pass in sweeps: near the engine's, told, and never kept as simulated."""

from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.studies.case import Case
from experiments.studies.fits.estimated import estimate, run_estimated
from experiments.studies.options import with_options
from experiments.studies.running.outputs import run_case
from hardware import load_array
from planners import PlanError
from simulator import deployed
from workloads import load_network


def case(planner: str = "axes", **options: str) -> Case:
    array = load_array("h100-cluster", ["nodes=1"], usual=True)
    execution = with_options(deployed(array), options)
    return Case(load_network("gpt2:layers=8"), planner, array, 32, execution=execution)


@pytest.mark.parametrize(
    "options",
    [
        {"parallel": "tp=2,pp=2", "micro_batch": "2"},
        {"parallel": "pp=2,vp=2", "zero": "1"},
        {"parallel": "dp=8", "zero": "3", "micro_batch": "2", "recompute": "full"},
        {"parallel": "pp=4", "schedule": "gpipe", "stage_layers": "3;2;2;1"},
        {"parallel": "tp=2,sp", "micro_batches": "2", "recompute": "3"},
    ],
    ids=str,
)
def test_an_estimate_is_near_the_step(options: dict[str, str]) -> None:
    asked = case("axes", **options)
    found, ran = run_estimated(asked), run_case(asked)
    assert found["estimated"] is True
    unlike = options.get("zero") == "3"  # units of which one, the embedding, is most of all
    assert found["iteration_s"] == pytest.approx(ran["iteration_s"], rel=0.15 if unlike else 0.08)
    peak = max(one["peak_bytes"] for one in ran["memory"])
    assert found["peak_memory_bytes"] == pytest.approx(peak, rel=0.1)


def test_data_parallelism_is_an_estimate_too_and_other_plans_are_simulated() -> None:
    plain = case("data_parallel")
    assert estimate(plain).seconds == pytest.approx(run_case(plain)["iteration_s"], rel=0.05)
    owt = case("owt")
    with pytest.raises(PlanError, match="'owt' has no closed form"):
        estimate(owt)
    ran = run_estimated(owt)
    assert (ran["estimated"], ran["iteration_s"]) == (False, run_case(owt)["iteration_s"])


def test_axes_in_an_order_of_their_own_are_simulated() -> None:
    """Replicas that are neighbours, and halves of a product that are not: in another order."""
    usual = run_estimated(case("axes", parallel="dp=4,tp=2", axis_order="tp,cp,dp,pp"))
    other = run_estimated(case("axes", parallel="dp=4,tp=2", axis_order="dp,tp,pp"))
    assert (usual["estimated"], other["estimated"]) == (True, False)


def test_what_does_not_fit_is_told() -> None:
    array = load_array("h100-cluster", ["nodes=1", 'devices.0.hbm.capacity="1 GiB"'], usual=True)
    small = Case(load_network("gpt2"), "data_parallel", array, 32, execution=deployed(array))
    assert run_estimated(small)["cores_over_memory"] == 8


def test_a_sweep_says_what_is_estimated_and_keeps_none_of_it(tmp_path: Path) -> None:
    store = tmp_path / "kept.db"
    grid = {"batch": [16, 32]}
    more: dict[str, Any] = {"parallel": "pp=2", "micro_batch": "1"}
    of = ("gpt2:layers=4", ["axes", "owt"], "h100-cluster")
    with (
        pytest.warns(match="--micro-batch is for planner 'axes' alone; owt: a replica's whole"),
        pytest.warns(match="A store keeps simulated steps alone"),
    ):
        found = accelarray.sweep(grid, *of, set=["nodes=1"], estimate=True, store=store, **more)
    frame = found.to_frame()
    assert frame["estimated"].tolist() == [True, False, True, False]
    assert "2 of 4 steps are estimates of the first pass" in found.sentences()[0]
    assert found.sentences()[0].endswith("slow each other down on shared links.")
    with pytest.warns(match="whole share at once"):
        exact = accelarray.sweep(grid, *of, set=["nodes=1"], store=store, **more)
    assert "estimated" not in exact.to_frame()
    assert not any("estimates" in said for said in exact.sentences())
    pairs = zip(frame["iteration_s"], exact.to_frame()["iteration_s"], strict=True)
    for estimated, simulated in pairs:
        assert estimated == pytest.approx(simulated, rel=0.08)
