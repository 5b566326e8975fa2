"""What is left of each planner's advantage on real wires: the deployed model on three of them."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pandas

from experiments.output import progress_bar
from experiments.scripts.deployed_pages import page
from experiments.speedup import compare
from hardware import Array, load_array
from planners import PLANNERS
from simulator import Execution
from workloads import ZOO, Network, load_network

SWITCH = "topology.kind=switch"
WIRES = {
    "paper's ports, switch": {
        "mixed": ("accpar-mixed-switch",),
        "homogeneous": ("accpar-homogeneous", SWITCH),
    },
    "inter-chip torus": {
        "mixed": ("tpu-mixed",),
        "homogeneous": ("tpu-v3-pod", "devices.0.count=128"),
    },
    "100 Gbit/s, switch": {
        "mixed": ("ethernet-100g",),
        "homogeneous": ("accpar-homogeneous", SWITCH, "network.bandwidth=100 Gbit/s"),
    },
}
"""Per set of wires, the two arrays: a name and its changes."""
FULL = 65_536
"""Samples a step that give every one of 2,048 cores 32 of them."""
CASES = (
    ("512, exact shards", 512, False),
    (f"{FULL:,}, whole shards", FULL, True),
)
OVERLAPS = (True, False)


def main(folder: str = "docs", *networks: str) -> None:
    """Write ``deployed_study.csv``, its picture and its page of tables."""
    chosen = [load_network(name) for name in networks or ZOO]
    table = study(chosen)
    target = Path(folder)
    table.to_csv(target / "deployed_study.csv", index=False, float_format="%.6g")
    page(table, target)


def study(networks: list[Network]) -> pandas.DataFrame:
    """One row a case: wires, array, batch, overlap, network, planner, seconds, speedups."""
    frames = []
    sets = list(itertools.product(WIRES, ("mixed", "homogeneous"), CASES, OVERLAPS))
    with progress_bar((len(sets) + 2) * len(networks) * len(PLANNERS)) as progress:
        for kind in ("mixed", "homogeneous"):
            result = compare(
                load_array(f"accpar-{kind}"), networks, list(PLANNERS), 512, progress
            )
            frames.append(
                result.to_frame().assign(
                    wires="published model", array=kind, batch=CASES[0][0], overlap=False
                )
            )
        for wires, kind, (label, batch, whole), overlap in sets:
            execution = Execution("deployed", overlap=overlap, whole_shards=whole)
            result = compare(
                array_of(wires, kind), networks, list(PLANNERS), batch, progress, execution=execution
            )
            frames.append(
                result.to_frame().assign(wires=wires, array=kind, batch=label, overlap=overlap)
            )
    return pandas.concat(frames, ignore_index=True)


def array_of(wires: str, kind: str) -> Array:
    """One array of the study."""
    name, *changes = WIRES[wires][kind]
    return load_array(name, changes)


if __name__ == "__main__":
    main(*sys.argv[1:])
