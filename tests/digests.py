"""What steps did, as digests: `python -m tests.digests` compares this code with the stored ones.

A case is one step: network, planner, array, batch, execution model, folded or
not. Its line in ``data/digests/records.txt`` holds the step's time, how many
records it left, a digest of their places and times, one of everything in them,
and of the HBM's records (kind "memory") only how many there are and the bytes
of all of them. A step that cannot be simulated has the error's name instead.
Neither the order of the records nor how the program inside is built matters.

    python -m tests.digests                      compare every case, about half an hour
    python -m tests.digests --case resnet18      those with these words in their names
    python -m tests.digests --quick              the few that the test suite compares
    python -m tests.digests --write --case X     store what this code does in those

Left out: unfolded under deployed beyond 40 cores (the large arrays are there
with 1 to 3 boards of a kind), unfolded under published beyond 1,000 cores for
networks of more than a few hundred operations, the larger ones of a family.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from hardware import Array, load_array
from planners import Plan, load_planner
from simulator import Execution, Timeline, simulate
from tests.stored import Table
from workloads import ZOO, Network, load_network

STORED = Path(__file__).parent / "data" / "digests" / "records.txt"
PLANNERS = ("data_parallel", "owt", "hypar", "accpar", "model_parallel")
NETWORKS = (*ZOO, "inception-v3", "densenet121", "mobilenet-v2", "vit-b16")
NETWORKS += ("bert-base", "gpt2", "llama3-8b", "gnmt")
DEEP = ("densenet121", "gpt2", "llama3-8b", "gnmt")
"""Networks whose unfolded steps on a thousand cores and more are left out."""
ALIKE = ("vgg11", "vgg13", "vgg19", "resnet34", "densenet121", "llama3-8b")
"""Networks left out on the arrays made small, the last on the large ones too."""
LARGE = ("accpar-mixed", "accpar-homogeneous", "tpu-mixed")
SMALL = ("tpu-v3-8", "ring-8", "hypar-16")
SHRUNK = (
    "accpar-mixed devices.0.count=3 devices.1.count=2",
    "accpar-homogeneous devices.0.count=2",
    "tpu-mixed devices.0.count=1 devices.1.count=3",
)
WIRED = ("hypar-16-h-tree", "hypar-16-torus", "tpu-v2-8", "ethernet-100g", "accpar-mixed-switch")
EXECUTIONS = {
    "published": Execution(),
    "deployed": Execution("deployed"),
    "in-turn": Execution("deployed", overlap=False),
    "exact": Execution("deployed", whole_shards=False),
    "each": Execution("deployed", bucket_bytes=0.0),
    "ring": Execution("deployed", algorithm="ring"),
    "direct": Execution("deployed", algorithm="direct"),
    "halving-doubling": Execution("deployed", algorithm="halving-doubling"),
}


class Case(NamedTuple):
    """One step by its names; ``array`` may be followed by what is set in its spec."""

    network: str
    planner: str
    array: str
    batch: int
    execution: str
    folded: bool

    def __str__(self) -> str:
        words = (self.network, self.planner, self.array, self.batch, self.execution)
        return " | ".join([*map(str, words), "folded" if self.folded else "unfolded"])


def cases() -> Iterator[Case]:
    """Every case, those that share a plan one after the other."""
    both = ("published", "deployed")
    for array, network, planner in itertools.product((*SMALL, *SHRUNK, *LARGE), NETWORKS, PLANNERS):
        if (network in ALIKE and array in SHRUNK) or (network == ALIKE[-1] and array in LARGE):
            continue
        for execution in both:
            yield Case(network, planner, array, 512, execution, True)
            if array not in LARGE or (execution == "published" and network not in DEEP):
                yield Case(network, planner, array, 512, execution, False)
    for array, network in itertools.product((*LARGE, *SMALL), ("lenet", "alexnet", "resnet18")):
        for planner, batch, execution in itertools.product(PLANNERS, (64, 100), both):
            yield Case(network, planner, array, batch, execution, True)
    few = ("lenet", "resnet18", "mobilenet-v2", "gpt2")
    for array, network, planner in itertools.product(WIRED, few, PLANNERS):
        for execution in both:
            yield Case(network, planner, array, 512, execution, True)
    for array, network, execution in itertools.product(
        ("tpu-v3-8", "hypar-16-torus", "accpar-mixed", SHRUNK[0]), few, list(EXECUTIONS)[2:]
    ):
        for planner in ("accpar", "data_parallel", "model_parallel"):
            yield Case(network, planner, array, 512, execution, True)
            if array == SHRUNK[0]:
                yield Case(network, planner, array, 512, execution, False)


def quick(case: Case) -> bool:
    """Whether the test suite compares this case each time: a few of every kind, in seconds."""
    return (
        case.network in ("lenet", "resnet18", "mobilenet-v2")
        and case.planner in ("accpar", "owt", "model_parallel")
        and case.array in (*SMALL, SHRUNK[0])
        and (case.network == "lenet" or case.planner == "accpar")
        and (case.folded or case.network == "lenet" or case.array in SMALL[1:])
    )


@lru_cache(maxsize=4)
def _network(name: str) -> Network:
    return load_network(name)


@lru_cache(maxsize=4)
def _array(name: str) -> Array:
    spec, *changes = name.split()
    return load_array(spec, changes)


@lru_cache(maxsize=2)
def _plan(network: str, planner: str, array: str, batch: int, model: str) -> Plan:
    planned = Execution("deployed" if model == "deployed" else "published").planned(_array(array))
    return load_planner(planner)(_network(network), planned, batch)


def run(case: Case) -> Timeline:
    """The step of ``case``, simulated."""
    execution = EXECUTIONS[case.execution]
    plan = _plan(case.network, case.planner, case.array, case.batch, execution.model)
    network, array = _network(case.network), _array(case.array)
    return simulate(network, plan, array, execution, folded=case.folded)


def _sha(rows: Iterable[tuple[object, ...]]) -> str:
    """A digest of the rows in any order: the first 64 bits of SHA-256, in hex."""
    whole = hashlib.sha256()
    for row in sorted("\t".join(map(str, row)) for row in rows):
        whole.update(row.encode() + b"\n")
    return whole.hexdigest()[:16]


def digest(timeline: Timeline) -> str:
    """A step in one line: its picoseconds, its records, what the HBMs carried."""
    times, rows, hbm_bytes = [], [], []
    for r in timeline:
        if r.kind == "memory":
            hbm_bytes.append(r.multiplicity * float(r.bytes))
            continue
        what = (r.resource, r.multiplicity, r.kind, r.layer, r.phase, r.level)
        when = (*what, r.start_ps, r.end_ps)
        times.append(when)
        rows.append((*when, float(r.bytes), float(r.flops)))
    return (
        f"{timeline.iteration_ps} ps, {len(rows)} records, times {_sha(times)}, all {_sha(rows)}, "
        f"hbm {len(hbm_bytes)} of {math.fsum(hbm_bytes)!r} B"
    )


def measured(case: Case) -> str:
    """The line of ``case`` by this code."""
    try:
        return digest(run(case))
    except Exception as error:  # whatever it is, it should be the same
        return f"error {type(error).__name__}"


def planned(case: Case) -> tuple[object, ...]:
    """What cases share that have the same plan: one process makes it once."""
    return case[:4]


TABLE = Table(STORED, "Records of steps against stored digests.", cases, quick, measured, planned)


if __name__ == "__main__":
    sys.exit(TABLE.main())
