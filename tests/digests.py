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

import argparse
import hashlib
import itertools
import math
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

from hardware import Array, load_array
from planners import Plan, load_planner
from simulator import Execution, Timeline, simulate
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


def stored(path: Path = STORED) -> dict[str, str]:
    """The stored lines by case; none where there is no file yet."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(": ", 1) for line in lines if line)


def _together(chosen: Iterable[Case]) -> Iterator[tuple[Case, ...]]:
    """Cases that share a plan, so that one process makes it once."""
    for _, group in itertools.groupby(chosen, lambda case: case[:4]):
        yield tuple(group)


def _lines(group: tuple[Case, ...]) -> list[str]:
    return [measured(case) for case in group]


def _each(chosen: list[Case], jobs: int) -> Iterator[tuple[str, str]]:
    """The name and the line of every case, in order, as they are ready."""
    groups = list(_together(chosen))
    if jobs == 1:
        results: Iterable[list[str]] = map(_lines, groups)
        yield from zip(map(str, chosen), itertools.chain.from_iterable(results), strict=True)
        return
    with Pool(jobs, maxtasksperchild=20) as pool:
        results = pool.imap(_lines, groups, chunksize=2)
        yield from zip(map(str, chosen), itertools.chain.from_iterable(results), strict=True)


def compare(chosen: list[Case], jobs: int = 1, path: Path = STORED) -> Iterator[str]:
    """What differs from the stored lines, a paragraph for each case."""
    known = stored(path)
    for name, line in _each(chosen, jobs):
        if known.get(name) != line:
            yield f"{name}\n  stored {known.get(name)}\n  now    {line}"


def main(arguments: list[str] | None = None) -> int:
    """Compare, or store; the exit code says whether everything was the same."""
    parser = argparse.ArgumentParser(description="Records of steps against stored digests.")
    parser.add_argument("--write", action="store_true", help="store what this code does")
    parser.add_argument("--case", default="", help="words of the cases' names")
    parser.add_argument("--quick", action="store_true", help="those that the tests compare")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--file", type=Path, default=STORED, help="the stored digests")
    given = parser.parse_args(arguments)
    words = given.case.split()
    chosen = [
        case
        for case in cases()
        if all(word in str(case) for word in words) and (quick(case) or not given.quick)
    ]
    if given.write:
        lines = stored(given.file) | dict(_each(chosen, given.jobs))
        known = [str(case) for case in cases() if str(case) in lines]
        given.file.write_text("".join(f"{name}: {lines[name]}\n" for name in known))
        return 0
    differing = 0
    for difference in compare(chosen, given.jobs, given.file):
        print(difference, flush=True)
        differing += 1
    print(f"{len(chosen)} cases, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
