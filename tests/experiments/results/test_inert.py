"""Names from strangers' files are text in a spreadsheet."""

import csv
import io

import pytest

from experiments.results.formats import csv_of


@pytest.mark.parametrize("name", ["=1+1", "+A1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_names_are_no_formulas_in_a_spreadsheet(name: str) -> None:
    text = csv_of([{"name": name, name: -1.5, "text": "-1.5", "rate": "+3e-2"}])
    head, line = csv.reader(io.StringIO(text, newline=""))
    inert = "'" + name.replace("\r", " ")
    assert head == ["name", inert, "text", "rate"]
    assert line == [inert, "-1.5", "-1.5", "+3e-2"]
