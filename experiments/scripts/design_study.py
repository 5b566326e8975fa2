"""WHAM's search against every design of the small space, network by network (docs/results.md)."""

from __future__ import annotations

import sys
from time import perf_counter

from experiments.design.runs import limits_of
from experiments.design.space import load_space
from experiments.design.study import Asked, run_search, study
from experiments.output import table, text_of
from experiments.studies.case import Case
from hardware import load_array
from simulator import DEPLOYED
from workloads import ZOO, load_network

BATCHES = {**dict.fromkeys(ZOO, 64), "bert-large": 8, "gpt2": 8}
"""The nine networks, BERT-large and GPT-2: samples a step."""


def row(name: str) -> dict[str, str]:
    """One network's line of the table."""
    array = load_array("wham-1")
    case = Case(load_network(name), "data_parallel", array, BATCHES[name], execution=DEPLOYED)
    found = study(Asked((case,), load_space("small"), limits_of(array)))
    ours = found.judge
    every, drawn = ours.fresh(), ours.fresh()
    started = perf_counter()
    run_search(every, "exhaustive", None)
    longer = (perf_counter() - started) / found.search_s
    run_search(drawn, "random", ours.evaluations)
    best, top, luck = (judge.top(1)[0].value for judge in (ours, every, drawn))
    return {
        "network": name,
        "evaluated": f"{ours.evaluations} of {every.evaluations:,}",
        "off": f"{1 - best / top:.1%}",
        "random off": f"{1 - luck / top:.1%}",
        "time": f"1/{longer:.0f}",
        "gain": f"{found.winner.value - 1:+.0%}",
        "design": str(found.winner.design),
    }


def main(*networks: str) -> None:
    """Print the table: what the search misses of the best estimate, and the gain on the engine."""
    rows = [row(name) for name in networks or BATCHES]
    print(text_of(table("Designs of equal area and power, against wham-tpu-v2", rows)), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
