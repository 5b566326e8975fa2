"""The papers' values that come with accelarray."""

from pathlib import Path

import pytest

import experiments
from experiments.studies.published_values import averages, published
from hardware import Array, Group, load_array

FOLDER = Path(experiments.__file__).parent / "published"
FILES = sorted(path.stem for path in FOLDER.glob("*.csv"))


@pytest.mark.parametrize("name", FILES)
def test_every_table_is_rows_of_its_columns(name: str) -> None:
    """Comments say where from; every row has every column, and no column has no name."""
    lines = (FOLDER / f"{name}.csv").read_text().splitlines()
    plain = [line for line in lines if not line.startswith("#")]
    rows = published(name)
    assert len(rows) == len(plain) - 1
    assert list(rows[0]) == plain[0].split(",")
    for row in rows:
        assert None not in row
        assert None not in row.values()
    assert lines[0].startswith("#")


def test_averages_of_the_papers_arrays_as_they_are() -> None:
    found = averages(load_array("accpar-mixed"))
    assert {planner: value.speedup for planner, value in found.items()} == {
        "owt": 2.98,
        "hypar": 3.78,
        "accpar": 6.30,
    }
    assert {value.certainty for value in found.values()} == {"printed"}
    assert averages(load_array("accpar-homogeneous"))["accpar"].certainty == "recalled"


def test_no_averages_of_another_array() -> None:
    homogeneous = load_array("accpar-homogeneous")
    assert averages(load_array("accpar-mixed", ["devices.0.count=64"])) == {}
    assert averages(load_array("accpar-mixed", ["network.bandwidth=1 Gbit/s"])) == {}
    assert averages(load_array("tpu-v3-pod")) == {}
    assert averages(Array("accpar-mixed", "", Group(homogeneous.group.kinds))) == {}
    assert averages(Array("nobody's", "", homogeneous.group)) == {}
