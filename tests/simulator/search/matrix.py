"""The search against every rival, case by case: `python -m tests.simulator.search.matrix`.

A rival is a registered planner's plan, this with one share for all layers where
kinds of devices part, or one for a power of two of one kind with all else idle. The
search may not lose to any of them, without any tolerance. A line of the CSV says what
the search took to plan, its step, the best rival's and AccPar's, and the bound.

    python -m tests.simulator.search.matrix                      all, hours
    python -m tests.simulator.search.matrix --case "alexnet tpu" those with these words
    python -m tests.simulator.search.matrix --output found.csv
    python -m tests.simulator.search.matrix --execution published

Exit code 1 where the search loses.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hardware import Array, load_array
from planners import BASELINES, PLANNERS, TIME, Plan, PlanError
from simulator import DEPLOYED, Execution, simulate
from simulator.collectives.algorithms import CollectiveError
from simulator.lowering.models import MODELS
from simulator.search.bounds import is_layout, step_bound
from simulator.search.candidates import alone, lifted, powers_of_two, with_one_share
from simulator.search.search import search
from workloads import ZOO, Network, load_network

OTHERS = {**PLANNERS, **BASELINES}
NINE = tuple(ZOO)[:9]
LARGE = ("bert-large", "gpt2-xl", "llama-7b")
CLUSTER = Path(__file__).parents[2] / "data" / "clusters" / "gpu-4x8.toml"
ARRAYS: dict[str, tuple[str, list[str]]] = {
    "tpu-v3-8": ("tpu-v3-8", []),
    "gpu-4x8": (str(CLUSTER), []),
    "tpu-v3-pod-16": ("tpu-v3-pod", ["devices.0.count=16"]),
    "tpu-v3-pod-128": ("tpu-v3-pod", ["devices.0.count=128"]),
    "accpar-mixed": ("accpar-mixed", []),
    "tpu-mixed": ("tpu-mixed", []),
}


class Case(NamedTuple):
    """A network, an array by its name above, and a batch."""

    network: str
    array: str
    batch: int

    def __str__(self) -> str:
        return f"{self.network} {self.array} {self.batch}"


class Rival(NamedTuple):
    """A plan that the search may not lose to; whether it is AccPar's, and on a subset."""

    name: str
    plan: Plan
    accpar: bool
    subset: bool


def cases() -> Iterator[Case]:
    """All of them: 512 and 32 samples a core, of transformers 1 a core."""
    for array, (spec, changes) in ARRAYS.items():
        cores = DEPLOYED.planned(load_array(spec, changes)).group.size
        for network in NINE:
            for batch in sorted({512, 32 * cores}):
                yield Case(network, array, batch)
        for network in LARGE:
            yield Case(network, array, cores)


def rivals(network: Network, array: Array, batch: int) -> Iterator[Rival]:
    """Every other planner's plan, with one share, and on each power of two of a kind."""
    for name, planner in OTHERS.items():
        accpar = name == "accpar"
        plan = planner(network, array, batch, TIME)
        yield Rival(name, plan, accpar, subset=False)
        for shared in with_one_share(plan, array.group):
            yield Rival(f"{name}, one share", shared, accpar=False, subset=False)
        for device, size in powers_of_two(array):
            part = alone(array, device, size)
            if part is not None:
                some = planner(network, part, batch, TIME)
                root = lifted(some.root, array.group, device, size, len(some.nodes))
                on = f"{name} on {size} of {device.name}"
                yield Rival(on, replace(some, root=root), accpar, subset=True)


def seconds(network: Network, plan: Plan, array: Array, execution: Execution) -> float:
    """What a plan takes; forever where it cannot be run.

    A bus runs no plan with idle halves, one share for all may leave less
    than two groups where the plan's own left enough to part them again, and an
    algorithm that is asked for may not be for the groups of a plan.
    """
    try:
        return simulate(network, plan, array, execution).iteration_s
    except (PlanError, CollectiveError):
        return math.inf


def row(case: Case, execution: Execution = DEPLOYED) -> dict[str, Any]:
    """What is found out about a case."""
    spec, changes = ARRAYS[case.array]
    network, array = load_network(case.network), load_array(spec, changes)
    planned = execution.planned(array)
    began_s = time.process_time()
    plan = search(network, planned, case.batch, execution=execution)
    planning_s = time.process_time() - began_s
    ours_s = simulate(network, plan, array, execution).iteration_s
    found = [
        (seconds(network, rival.plan, array, execution), rival)
        for rival in rivals(network, planned, case.batch)
    ]
    best_s, best = min(found, key=lambda one: one[0])
    accpar = [(taken, rival.subset) for taken, rival in found if rival.accpar]
    layout = is_layout(network, plan, planned)
    step, bucket = (network, planned, case.batch, execution), plan.bucket_bytes
    bound = step_bound(*step, layout=layout, bucket_bytes=bucket)
    return {
        **case._asdict(),
        "execution": str(execution),
        "planning_s": round(planning_s, 2),
        "bucket_bytes": bucket,
        "search_s": ours_s,
        "rival": best.name,
        "rival_s": best_s,
        "rivals": len(found),
        "accpar_s": next(taken for taken, subset in accpar if not subset),
        "accpar_subset_s": min(taken for taken, _ in accpar),
        "bound_s": bound.seconds if bound else None,
        "covers": bound.covers if bound else None,
    }


def main(arguments: list[str] | None = None) -> int:
    """Go through the cases; 1 where the search loses."""
    parser = argparse.ArgumentParser(description="the search against every rival")
    parser.add_argument("--case", default="", help="words that a case's name has")
    parser.add_argument("--execution", choices=MODELS, default="deployed")
    parser.add_argument("--output", type=Path, help="a CSV to add lines to")
    asked = parser.parse_args(arguments)
    lost = 0
    for case in cases():
        if not all(word in str(case) for word in asked.case.split()):
            continue
        found = row(case, Execution(asked.execution))
        ours_s, rival_s = found["search_s"], found["rival_s"]
        wins = ours_s <= rival_s
        lost += not wins
        line = " ".join(f"{key}={value}" for key, value in found.items())
        print(f"{'wins' if wins else 'LOSES'} {line}", flush=True)
        if asked.output:
            new = not asked.output.exists()
            with asked.output.open("a", newline="") as file:
                writer = csv.DictWriter(file, list(found))
                if new:
                    writer.writeheader()
                writer.writerow(found)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
