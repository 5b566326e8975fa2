"""The area model is the fit that it says, and holds on designs that it has not seen."""

from dataclasses import astuple

import pytest

from experiments.scripts import area_fit
from experiments.scripts.area_fit import RULES, Design, designs, fit, held_out, missed
from experiments.studies.case import Case, step_of
from hardware import load_array
from hardware.units import AREA, Area
from simulator import DEPLOYED
from workloads import load_network


def test_all_designs_are_there() -> None:
    assert len(designs()) == 3670
    first = designs()[0]
    (matrix,), (vector,) = first.units.matrix, first.units.vector
    assert (matrix.count, vector.count, matrix.width, matrix.depth) == (4096, 4096, 16, 2)
    assert first.um2 == 246416424.736


def test_the_models_numbers_are_the_fits() -> None:
    assert astuple(fit(designs())) == pytest.approx(astuple(AREA), rel=1e-6)


def test_a_fit_finds_a_law_that_is_there() -> None:
    law = Area(700.0, 5000.0, 800.0, 6000.0, 1.25, 5e5)
    made = [Design(design.units, law.um2(design.units)) for design in designs()[::7]]
    assert astuple(fit(made)) == pytest.approx(astuple(law))
    assert missed(law, made)["worst"] == pytest.approx(0, abs=1e-12)
    other = Area(*(2 * value for value in astuple(law)))
    assert missed(other, made)["median"] == pytest.approx(1)


@pytest.mark.parametrize("rule", RULES)
def test_held_out_designs_are_missed_by_little(rule: str) -> None:
    miss = held_out(rule)
    assert 300 <= miss["designs"] < 1500
    assert miss["median"] <= 0.05
    assert miss["worst"] <= 0.10
    assert miss["median"] <= miss["nine in ten"] <= miss["worst"]


def test_the_script_prints_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    area_fit.main()
    said = capsys.readouterr().out
    assert "multiplier" in said
    assert "every fifth design" in said


@pytest.mark.parametrize("version", ["v2", "v3"])
def test_boards_by_units_are_within_a_tenth_of_their_rooflines(version: str) -> None:
    devices = (f"tpu-{version}", f"tpu-{version}-units")
    arrays = [load_array(f"tpu-{version}-8", [f"devices.0.device={one}"]) for one in devices]
    network = load_network("resnet50")
    roofline_s, units_s = (
        step_of(Case(network, "data_parallel", array, 1024, execution=DEPLOYED))[1].iteration_s
        for array in arrays
    )
    assert units_s == pytest.approx(roofline_s, rel=0.10)
    assert units_s != roofline_s
