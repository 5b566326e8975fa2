"""Collectives beside measured ones: NCCL on nodes of GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import median
from typing import Annotated, Any

import numpy as np

from experiments.output import UsageError
from experiments.studies.published_values import shipped_rows
from experiments.validate.section import Section
from hardware import Wires, load_array
from hardware.reader import Cells, checked_rows, number, whole
from simulator import chosen, run_alone

SHIPPED = "nccl.csv"
LARGE = 16e6
"""Bytes from which a collective counts: below it protocols change, which no two constants say."""
MOST_RANKS = 1 << 12


@dataclass(frozen=True, slots=True)
class Given:
    """One measured collective: over the first ``ranks`` GPUs of so many nodes of an array."""

    system: str
    array: str
    nodes: int
    collective: str
    algorithm: str
    ranks: int
    size_bytes: float
    measured_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured collective and what ours takes, by which algorithm."""

    given: Given
    algorithm: str
    ours_s: float

    @property
    def error(self) -> float:
        """Relative to the measured time, signed."""
        return self.ours_s / self.given.measured_s - 1


class GivenCells(Cells):
    """The columns of the table."""

    system: str
    array: str
    nodes: Annotated[int, whole(1, MOST_RANKS)]
    collective: str
    algorithm: str
    ranks: Annotated[int, whole(1, MOST_RANKS)]
    bytes: Annotated[float, number(1e-6, 1e15)]
    time_us: Annotated[float, number(1e-6, 1e15)]
    source: str


def shipped() -> tuple[Given, ...]:
    """Return the table that comes with accelarray."""
    return tuple(
        Given(
            row.system,
            row.array,
            row.nodes,
            row.collective,
            row.algorithm,
            row.ranks,
            row.bytes,
            row.time_us / 1e6,
            row.source,
        )
        for row in checked_rows(GivenCells, shipped_rows(SHIPPED), UsageError)
    )


def compared(rows: Sequence[Given], progress: Callable[[str], None]) -> Iterator[Compared]:
    """Each measured collective, simulated."""
    for row in rows:
        wires = _wires(row.array, row.nodes)
        members = np.arange(row.ranks)
        algorithm, jobs = chosen(wires, row.collective, members, row.size_bytes, row.algorithm)
        yield Compared(row, algorithm, run_alone(wires, jobs)[0])
    progress("measured collectives")


@lru_cache(maxsize=16)
def _wires(array: str, nodes: int) -> Wires:
    return Wires(load_array(array, [f"nodes={nodes}"]))


def section(found: Sequence[Compared]) -> Section:
    """A line for each system and number of GPUs; JSON has every row."""
    large = [case for case in found if case.given.size_bytes > LARGE]
    lines: dict[tuple[str, int, str, int], list[Compared]] = {}
    for case in large:
        given = case.given
        lines.setdefault((given.system, given.nodes, given.array, given.ranks), []).append(case)
    rows: list[dict[str, Any]] = [
        {
            "system": system,
            "array": array,
            "GPUs": ranks,
            "rows": len(cases),
            "by": ", ".join(dict.fromkeys(case.algorithm for case in cases)),
            "median": f"{_median(cases):.1%}",
            "largest": f"{max((case.error for case in cases), key=abs):+.1%}",
        }
        for (system, _, array, ranks), cases in lines.items()
    ]
    inside = [case for case in large if case.given.nodes == 1]
    meshed = [case for case in inside if case.given.array == "dgx-1-v100"]
    small = [case for case in found if case.given.size_bytes <= LARGE]
    remarks = (
        f"Inside a node, above 16 MB: {len(inside)} rows, median {_median(inside):.1%}; on the "
        f"mesh of a DGX-1 at most {max(abs(case.error) for case in meshed):.1%}.",
        f"Not counted: {len(small)} rows of 16 MB and less, median {_median(small):.1%} "
        "(NCCL changes its protocol there).",
    )
    data = [
        asdict(case.given)
        | {"algorithm": case.algorithm, "ours_s": case.ours_s}
        | {"error": case.error, "counted": case.given.size_bytes > LARGE}
        for case in found
    ]
    title = "Collectives: NCCL's measured times, and ours"
    return Section(title, rows, remarks, {"measured_collectives": data})


def _median(cases: Sequence[Compared]) -> float:
    return median(abs(case.error) for case in cases)
