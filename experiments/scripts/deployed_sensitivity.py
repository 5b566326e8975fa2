"""How far the deployed study's speedups depend on what is assumed: one change at a time."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas

from experiments.output import progress_bar
from experiments.scripts.deployed_study import BATCHES, WIRES, array_of
from experiments.studies.comparison import compare
from experiments.studies.running.runner import Runner
from experiments.studies.speedups import geometric_mean
from hardware import Array, Device
from planners import PLANNERS
from simulator import Execution
from workloads import ZOO, Network, load_network

AS_IT_IS = "as it is"


def _roofline(**values: Any) -> Callable[[Device], Device]:
    return lambda device: replace(device, roofline=replace(device.roofline, **values))


def _latency(ports_s: float, links_s: float) -> Callable[[Device], Device]:
    return lambda device: replace(
        device,
        network_latency_s=ports_s,
        links=device.links and replace(device.links, latency_s=links_s),
    )


UNTILED = _roofline(tile=False)


def _same(device: Device) -> Device:
    return device


CHANGES: dict[str, tuple[Callable[[Device], Device], dict[str, Any]]] = {
    AS_IT_IS: (_same, {}),
    "the other rule of tiles": (UNTILED, {"whole_shards": True}),
    "fitted constant 0.65": (_roofline(memory_efficiency=0.65), {}),
    "fitted constant 0.85": (_roofline(memory_efficiency=0.85), {}),
    "no latency": (_latency(0.0, 0.0), {}),
    "ports 5 us, links 3 us": (_latency(5e-6, 3e-6), {}),
    "each gradient by itself": (_same, {"bucket_bytes": 0.0}),
}
"""What is done to each device, and which fields of the execution change.

Of tiles: exact shards fill none, and become whole samples that do, on as many cores as
there are samples; whole shards that fill some are left untiled.
"""


def main(folder: str = "docs", *networks: str) -> None:
    """Write ``data/deployed_sensitivity.csv`` into a folder."""
    path = Path(folder) / "data" / "deployed_sensitivity.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    table = study([load_network(name) for name in networks or ZOO])
    table.to_csv(path, index=False, float_format="%.6g")


def study(networks: Sequence[Network]) -> pandas.DataFrame:
    """One row a mean: array, wires, batch, change, planner, geometric mean of the speedups."""
    cells = list(itertools.product(("mixed", "homogeneous"), WIRES, BATCHES, CHANGES))
    rows = []
    with progress_bar(len(cells) * len(networks) * len(PLANNERS)) as progress:
        for kind, wires, batch, name in cells:
            samples, whole = BATCHES[batch]
            array, execution = changed(
                array_of(wires, kind), Execution("deployed", whole_shards=whole), name
            )
            result = compare(
                array,
                networks,
                list(PLANNERS),
                samples,
                progress,
                execution=execution,
                runner=Runner(jobs=None),
            ).to_frame()
            for planner, own in result.groupby("planner", sort=False):
                if planner != "data_parallel":
                    mean = geometric_mean(list(own["speedup"]))
                    rows.append((kind, wires, batch, name, planner, mean))
    return pandas.DataFrame(
        rows, columns=["array", "wires", "batch", "change", "planner", "speedup"]
    )


def changed(array: Array, execution: Execution, name: str) -> tuple[Array, Execution]:
    """An array and how a step is run on it with one of the changes."""
    of_device, fields = CHANGES[name]
    if of_device is UNTILED and not execution.whole_shards:
        of_device = _same  # whole samples fill the tiles that there are
    return array.with_devices(of_device), replace(execution, **fields)


if __name__ == "__main__":
    main(*sys.argv[1:])
