"""The area model's coefficients and errors, as docs/explanation/chip-design.md has them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import cache
from typing import NamedTuple

import numpy as np

from experiments.output import table, text_of
from experiments.studies.published_values import published
from hardware import MatrixUnit, Units, VectorUnit
from hardware.units import Area

MIB = 2**20


class Design(NamedTuple):
    """A core of which an area is published (um2)."""

    units: Units
    um2: float

    @property
    def columns(self) -> tuple[float, ...]:
        """How many of each field of ``Area`` it has."""
        (matrix,), (vector,) = self.units.matrix, self.units.vector
        return (
            matrix.macs_per_cycle,
            matrix.count,
            vector.lanes,
            vector.count,
            self.units.buffer_bytes,
            1.0,
        )


RULES: dict[str, Callable[[int, Design], bool]] = {
    "every fifth design": lambda place, _: place % 5 == 0,
    "128 MiB of buffer": lambda _, d: d.units.buffer_bytes == 128 * MIB,
    "2 MiB of buffer": lambda _, d: d.units.buffer_bytes == 2 * MIB,
    "1024 matrix units or more": lambda _, d: d.units.matrix[0].count >= 1024,
    "1024 vector units or more": lambda _, d: d.units.vector[0].count >= 1024,
    "sides of 128 or more": lambda _, d: any(
        max(one.width, one.depth) >= 128 for one in d.units.matrix
    ),
}
"""By name, which designs are held out: by their place in the file, or by what they are."""


@cache
def designs() -> tuple[Design, ...]:
    """The published ones, in the file's order."""
    return tuple(map(_design, published("core_areas")))


def _design(row: dict[str, str]) -> Design:
    values = {key: float(value) for key, value in row.items()}
    matrix = MatrixUnit(int(values["width"]), int(values["depth"]), int(values["num_tc"]))
    vector = VectorUnit(int(values["width_vc"]), int(values["num_vc"]))
    return Design(Units(1.0, (matrix,), (vector,), values["glb_bytes"]), values["area_um2"])


def fit(known: Iterable[Design]) -> Area:
    """Least squares of the relative error."""
    rows = [(*design.columns, design.um2) for design in known]
    table = np.array(rows)
    scaled = table[:, :-1] / table[:, -1:]
    found = np.linalg.lstsq(scaled, np.ones(len(rows)), rcond=None)[0]
    return Area(*found.tolist())


def missed(area: Area, unseen: Iterable[Design]) -> dict[str, float]:
    """How many designs it has not seen, and its relative errors there."""
    errors = np.array([abs(area.um2(design.units) / design.um2 - 1) for design in unseen])
    median, nine, worst = np.quantile(errors, (0.5, 0.9, 1)).tolist()
    return {"designs": len(errors), "median": median, "nine in ten": nine, "worst": worst}


def held_out(rule: str) -> dict[str, float]:
    """The fit on all other designs, on those that a rule holds out."""
    out = [RULES[rule](place, design) for place, design in enumerate(designs())]
    pairs = list(zip(designs(), out, strict=True))
    area = fit(design for design, unseen in pairs if not unseen)
    return missed(area, (design for design, unseen in pairs if unseen))


def main() -> None:
    """Print both tables."""
    area = fit(designs())
    fitted = [{"of each": name, "um2": f"{value:.4f}"} for name, value in asdict(area).items()]
    misses = {"none: the fit itself": missed(area, designs())}
    misses |= {rule: held_out(rule) for rule in RULES}
    rows = [
        {"held out": rule, "designs": miss.pop("designs")}
        | {name: f"{error:.1%}" for name, error in miss.items()}
        for rule, miss in misses.items()
    ]
    print(text_of(table("Fit on all designs", fitted), table("Relative error", rows)), end="")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        raise SystemExit(
            "area_fit takes no arguments: it is of experiments/published/core_areas.csv"
        )
    main()
