"""What the search's plans take, against what they took: `python -m tests.simulator.search.found`.

A line of ``data/search/steps.txt`` is the step of a plan of ``search``, in
picoseconds: nine networks on five arrays at 512 samples, under both execution models.
A longer step than the stored one is a loss, whatever else the change is good for. A
shorter one wants to be stored: else the next change could lose it unseen.

    python -m tests.simulator.search.found                       all, a few minutes
    python -m tests.simulator.search.found --quick               as the test suite does
    python -m tests.simulator.search.found --write --case vgg16  store those of this code
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hardware import load_array
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.search.search import search
from tests.simulator.search.matrix import ARRAYS, NINE
from tests.stored import Table
from workloads import load_network

STORED = Path(__file__).parents[2] / "data" / "search" / "steps.txt"
WHERE = ("tpu-v3-8", "gpu-4x8", "tpu-v3-pod-16", "accpar-mixed", "tpu-mixed")
QUICK = ("tpu-v3-8", "gpu-4x8")
BATCH = 512
TOLERANCE = 1e-9


class Case(NamedTuple):
    """A network, an array by its name in ``matrix``, an execution model."""

    network: str
    array: str
    execution: Execution

    def __str__(self) -> str:
        return f"{self.network} | {self.array} | {BATCH} | {self.execution.model}"


def cases() -> Iterator[Case]:
    """Every case, those of the small arrays first."""
    for array in WHERE:
        for network in NINE:
            for execution in (PUBLISHED, DEPLOYED):
                yield Case(network, array, execution)


def quick(case: Case) -> bool:
    """Whether the test suite compares this case each time: all together take a few seconds."""
    if case.array in QUICK:
        return case.network == "lenet" or (case.network == "alexnet" and case.array != "gpu-4x8")
    return case.network == "lenet" and case.execution == PUBLISHED


def measured(case: Case) -> str:
    """The line of ``case`` by this code."""
    network, array = load_network(case.network), load_array(*ARRAYS[case.array])
    execution = case.execution
    plan = search(network, execution.planned(array), BATCH, execution=execution)
    return f"{simulate(network, plan, array, execution).iteration_ps} ps"


def differs(known: str | None, now: str) -> str:
    """A loss, or a gain that is not stored; "" where a step is what it was."""
    if known is None:
        return f"is not stored; now {now}: {writing()}"
    before_ps, now_ps = (float(line.removesuffix(" ps")) for line in (known, now))
    change = now_ps / before_ps - 1
    if abs(change) <= TOLERANCE:
        return ""
    said = f"stored {known}, now {now}: {abs(change):.3g}"
    return f"{said} of it LOST" if change > 0 else f"{said} of it won; {writing()}"


def writing() -> str:
    """How it is stored."""
    return "store it by python -m tests.simulator.search.found --write"


TABLE = Table(
    STORED, "Steps of the search's plans against stored ones.", cases, quick, measured, str, differs
)

if __name__ == "__main__":
    sys.exit(TABLE.main())
