"""What the search does otherwise than AccPar: ratios that multiply to the whole difference."""

import math
import re

import pytest

from experiments.explain.against_accpar import otherwise
from experiments.studies.case import Case, step_of
from hardware import load_array
from simulator import DEPLOYED, PUBLISHED, Execution
from workloads import load_network


def said(array: str, changes: list[str], execution: Execution, batch: int) -> list[str]:
    case = Case(load_network("lenet"), "search", load_array(array, changes), batch)
    from dataclasses import replace

    case = replace(case, execution=execution)
    plan, timeline = step_of(case)
    return list(otherwise(case, plan, timeline.iteration_s))


def ratios(lines: list[str]) -> tuple[float, float]:
    """The whole difference, and the product of its parts."""
    whole = float(re.findall(r"([\d.]+) times as long", lines[0])[0])
    parts = [float(found) for line in lines[1:] for found in re.findall(r"([\d.]+) x\)?\.", line)]
    return whole, math.prod(parts)


@pytest.mark.parametrize(
    ("array", "changes", "execution", "batch"),
    [
        ("tpu-v3-8", [], DEPLOYED, 512),
        ("accpar-mixed", ["devices.0.count=2", "devices.1.count=2"], PUBLISHED, 512),
        ("tpu-v3-pod", ["devices.0.count=8"], DEPLOYED, 64),
    ],
)
def test_parts_multiply_to_the_whole(
    array: str, changes: list[str], execution: Execution, batch: int
) -> None:
    lines = said(array, changes, execution, batch)
    whole, parts = ratios(lines)
    assert whole >= 1
    assert parts == pytest.approx(whole, rel=0.01)


def test_idle_boards_are_named() -> None:
    lines = said("accpar-mixed", ["devices.0.count=2", "devices.1.count=2"], PUBLISHED, 512)
    assert any("of 4 work: with that accpar takes" in line for line in lines)
