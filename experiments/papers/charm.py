"""CHARM's evaluation (Zhuang et al., FPGA 2023): one matrix unit against two unlike ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import fsum, log
from typing import NamedTuple

from experiments.papers.figure import Figure, Row, beside, grid
from experiments.studies.published_values import published
from hardware import Device
from simulator.cost.units.charm import (
    CLOCK_HZ,
    REACHED,
    THREE_STREAMS,
    CharmUnit,
    assign,
)
from simulator.cost.units.product import Product
from simulator.engine.picoseconds import duration_ps
from simulator.lowering.units.list_scheduling import UnitTask
from simulator.lowering.units.run import in_the_long_run

ONE_UNIT = CharmUnit((6, 4, 16), (8, 1, 2))
DDR_BYTES_PER_S = 3 * THREE_STREAMS * REACHED * CLOCK_HZ
"""What three streams reach together, the most of any number: 22.08 GB/s."""
GFLOP = 1e9
SHARES = [share / 1000 for share in range(50, 1001, 5)]
ONE, TWO = "one unit", "two units"
GFLOP_S = "throughput [GFLOP/s]"


class Application(NamedTuple):
    """Products of a batch, the paper's units for them, and its throughput, gain (over one unit)."""

    name: str
    products: tuple[Product, ...]
    units: tuple[CharmUnit, ...]
    gflops: float
    over_one: float

    @property
    def operations(self) -> int:
        """Of a batch."""
        return sum(product.operations for product in self.products)

    def throughput(self, units: Sequence[CharmUnit], ddr_share: float = 1.0) -> float:
        """Operations / slowest unit, GFLOP/s."""
        return self.operations / assign(self.products, units, ddr_share).slowest_s / GFLOP

    def published(self, planner: str) -> float:
        """The paper's, GFLOP/s."""
        return self.gflops if planner == TWO else self.gflops / self.over_one


@cache
def applications() -> dict[str, Application]:
    """The paper's four, by name."""
    rows = published("charm")
    found = {}
    for name in dict.fromkeys(row["application"] for row in rows):
        mine = [row for row in rows if row["application"] == name]
        products = (
            Product(row["name"], *(int(row[key]) for key in ("m", "k", "n", "times")))
            for row in mine
        )
        units = tuple(map(_unit, mine[0]["units"].split("+")))
        tflops, over_one = float(mine[0]["tflops"]), float(mine[0]["over_one"])
        found[name] = Application(name, tuple(products), units, 1000 * tflops, over_one)
    return found


def _unit(text: str) -> CharmUnit:
    a, b, c, x, y, z = map(int, text.split())
    return CharmUnit((a, b, c), (x, y, z))


def units_of(application: Application, planner: str) -> tuple[CharmUnit, ...]:
    """One unit, or the paper's best composition: one again for NCF and MLP."""
    return (ONE_UNIT,) if planner == ONE else application.units


def run_batches(
    application: Application, units: Sequence[CharmUnit], ddr_share: float, *, on_demand: bool
) -> float:
    """GFLOP/s of the engine's run, several batches in flight, in the steady state.

    CHARM gives each unit an equal part of the DDR for good. ``on_demand`` each may use
    all of it, and what both want at once they share.
    """
    chosen = assign(application.products, units, ddr_share)
    parts = 1 if on_demand else len(units)
    tasks = [
        UnitTask(
            product.name,
            unit,
            duration_ps(units[unit].cycles(product, ddr_share / parts), CLOCK_HZ),
            (i - 1,) if i else (),
            float(units[unit].moved_bytes(product)),
            float(product.operations),
        )
        for i, (product, unit) in enumerate(zip(application.products, chosen.unit_of, strict=True))
    ]
    device = Device("vck190", 1, 1, 8e12, 8 * 2**30, DDR_BYTES_PER_S, 1e9)
    steady = in_the_long_run(device, len(units), tasks, DDR_BYTES_PER_S * ddr_share)
    return application.operations / steady.batch_s / GFLOP


def _row(application: Application, planner: str, share: float | None = None) -> Row:
    """At a share of the DDR, the fitted one if none is given."""
    at = fitted_share(planner) if share is None else share
    return beside(
        application.throughput(units_of(application, planner), at),
        application.published(planner),
        network=application.name,
        planner=planner,
        ddr_share=at,
    )


def throughput(share: float) -> Figure:
    """One unit against two at a share of the DDR."""
    points = [
        partial(_row, one, each, share) for one in applications().values() for each in (ONE, TWO)
    ]
    title = f"Operations / slowest unit with {share:g} of the DDR's bandwidth"
    return Figure(title, GFLOP_S, points)


def gain() -> Figure:
    """Two unlike units over one, at full DDR."""
    named = applications()

    def value(name: str, _: str) -> float:
        return named[name].throughput(named[name].units) / named[name].throughput((ONE_UNIT,))

    bert, small = named["BERT"], {"scores", "context"}
    seconds = assign(bert.products, (ONE_UNIT,), 1.0).seconds
    taken = [s for p, s in zip(bert.products, seconds, strict=True) if p.name in small]
    work = sum(p.operations for p in bert.products if p.name in small) / bert.operations
    said = (
        f"BERT's batched products are {work:.1%} of its operations and take "
        f"{fsum(taken) / fsum(seconds):.0%} of the time of one unit (the paper: 8 % and 88 %).",
    )
    theirs = {(name, TWO): one.over_one for name, one in named.items()}
    points = grid("network", named, (TWO,), value, theirs)
    return Figure("Throughput over one unit", "gain", points, said)


def fitted() -> Figure:
    """The shares of the DDR that come nearest to the published throughputs."""

    def notes(rows: Sequence[Row]) -> list[str]:
        said, shares = [], []
        for planner in (ONE, TWO):
            own = [row for row in rows if row["planner"] == planner]
            misses = max(abs(row["difference"]) for row in own)
            shares.append(own[0]["ddr_share"])
            said.append(
                f"Fitted share of the DDR, {planner}: {shares[-1]:g}; it misses by up to "
                f"{misses:.0%}."
            )
        said.append(
            f"No single share fits one unit ({shares[0]:g}) and two ({shares[1]:g}): shares are "
            "fitted, not predicted. Two units are fitted where the paper has two."
        )
        return said

    points = [
        partial(_row, one, planner) for planner in (ONE, TWO) for one in published_with(planner)
    ]
    title = "Operations / slowest unit at fitted shares of the DDR's bandwidth"
    return Figure(title, GFLOP_S, points, notes)


def published_with(planner: str) -> list[Application]:
    """The applications for which the paper has a throughput with one unit, or with two."""
    return [a for a in applications().values() if planner == ONE or len(a.units) > 1]


@cache
def fitted_share(planner: str) -> float:
    """Least squares of the logarithms, over the applications, in steps of 0.005."""

    def miss(share: float) -> float:
        return fsum(
            log(a.throughput(units_of(a, planner), share) / a.published(planner)) ** 2
            for a in published_with(planner)
        )

    return min(SHARES, key=miss)


def engine() -> Figure:
    """Formula and concurrent run side by side, at full DDR."""
    named = applications()

    def value(name: str, way: str) -> float:
        one = named[name]
        if way == "formula":
            return one.throughput(one.units)
        return run_batches(one, one.units, 1.0, on_demand=way == "on demand")

    said = (
        "Several batches are in flight; a unit does one product at a time, each batch a chain "
        "of products.",
        "engine: each unit has an equal part of the DDR for good, as in CHARM. on demand: each "
        f"may use all of it, and they share {DDR_BYTES_PER_S / 1e9:g} GB/s.",
    )
    title = "Two unlike units at once on the event engine, full DDR"
    points = grid("network", named, ("formula", "engine", "on demand"), value)
    return Figure(title, GFLOP_S, points, said)


FIGURES: dict[str, Callable[[], Figure]] = {
    "share-1": partial(throughput, 1.0),
    "share-0.75": partial(throughput, 0.75),
    "fitted": fitted,
    "gain": gain,
    "engine": engine,
}
