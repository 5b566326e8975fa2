"""NCCL's measured collectives beside ours: what counts, and that constants are near the best."""

from __future__ import annotations

from statistics import median

import pytest

from experiments.validate.measured_collectives import (
    LARGE,
    Compared,
    Given,
    compared,
    section,
    shipped,
)
from hardware import Wires, load_array
from simulator import chosen


@pytest.fixture(scope="module")
def found() -> list[Compared]:
    return list(compared(shipped(), lambda _: None))


def counted(found: list[Compared], system: str = "") -> list[float]:
    return [
        case.error
        for case in found
        if case.given.size_bytes > LARGE
        and case.given.nodes == 1
        and case.given.system.startswith(system)
    ]


def test_every_machine_is_within_five_percent_in_the_median(found: list[Compared]) -> None:
    for system in ("A100", "H200", "B200", "V100", ""):
        assert median(map(abs, counted(found, system))) < 0.05


def test_the_mesh_is_within_fifteen_percent_everywhere(found: list[Compared]) -> None:
    assert max(map(abs, counted(found, "V100"))) < 0.15


def test_the_switch_sums_where_it_was_measured_to(found: list[Compared]) -> None:
    by = {case.given.system: case.algorithm for case in found if case.given.size_bytes > LARGE}
    assert by["H200 node (NVLink4 with NVLS/SHARP on)"] == "in-switch"
    assert by["A100 node (NVLink3)"] == "direct"


@pytest.mark.parametrize(
    ("array", "system"), [("dgx-a100", "A100 node (NVLink3)"), ("dgx-h100", "H200 node (NVL")]
)
@pytest.mark.parametrize("change", [0.93, 1.07])
def test_other_constants_fit_worse(array: str, system: str, change: float) -> None:
    """Of the sum of absolute errors, with 7 % less or more of bandwidth, or twice the half size."""

    def errors(*changes: str) -> float:
        wires = Wires(load_array(array, changes))
        total = 0.0
        for row in shipped():
            if row.system.startswith(system) and row.size_bytes > LARGE:
                _, jobs = chosen(wires, row.collective, range(row.ranks), row.size_bytes)
                ours = sum(job.alone_ps(wires.bandwidth) for job in jobs) / 1e12
                total += abs(ours / row.measured_s - 1)
        return total

    reached = load_array(array).topology.levels[0].bytes_per_s
    link = {"dgx-a100": 300e9, "dgx-h100": 450e9}[array]
    assert errors() < errors(f"topology.levels.0.efficiency={change * reached / link}")
    assert errors() < errors('topology.levels.0.half_size="30 MB"')


def test_small_ones_and_several_nodes_are_told_apart() -> None:
    rows = [
        Given("A", "dgx-a100", 1, "all-reduce", "auto", 8, size, 1.0, "") for size in (1e6, 1e8)
    ]
    rows.append(Given("H", "h200-cluster", 2, "all-reduce", "auto", 16, 1e9, 1.0, ""))
    rows.append(Given("V", "dgx-1-v100", 1, "all-reduce", "auto", 8, 1e9, 1.0, ""))
    part = section(list(compared(rows, lambda _: None)))
    assert [row["GPUs"] for row in part.rows] == [8, 16, 8]
    assert part.messages[0].startswith("Inside a node, above 16 MB: 2 rows")
    assert [row["counted"] for row in part.data["measured_collectives"]] == [False, *[True] * 3]


def test_every_row_has_a_source() -> None:
    assert all(len(row.source) > 10 for row in shipped())
