"""What is left of each planner's advantage on real wires: the deployed model on three of them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas

from experiments.output import progress_bar
from experiments.pictures.figures import colours, panels, save, speedup_axis, write_value
from experiments.studies.comparison import compare
from experiments.studies.running.runner import Runner
from experiments.studies.speedups import geometric_mean
from hardware import Array, load_array
from planners import PLANNERS
from simulator import Execution
from simulator.search.shares import FAIRER
from workloads import ZOO, Network, load_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
BATCHES = {"512, exact shards": (512, False), "65,536, whole shards": (65_536, True)}
"""Samples a step, and whether shards are whole; the second gives 2,048 cores 32 samples each."""


def main(folder: str = "docs", *networks: str) -> None:
    """Write ``data/deployed_study.csv`` and its picture into a folder."""
    target = Path(folder)
    for part in ("data", "pictures"):
        (target / part).mkdir(parents=True, exist_ok=True)
    table = study([load_network(name) for name in networks or ZOO])
    table.to_csv(target / "data" / "deployed_study.csv", index=False, float_format="%.6g")
    save(plot(table), str(target / "pictures" / "deployed-study.png"))


def study(networks: Sequence[Network]) -> pandas.DataFrame:
    """One row a case: array, wires, batch, overlap, network, planner, seconds, speedups.

    Data parallelism on its best share and subset is found with overlap alone, as it is run.
    """
    cases = [
        (kind, "published model", batch, load_array(f"accpar-{kind}"), Execution(), False)
        for kind in ("mixed", "homogeneous")
        for batch in BATCHES
    ]
    for wires, kind, batch, overlap in itertools.product(
        WIRES, ("mixed", "homogeneous"), BATCHES, (False, True)
    ):
        execution = Execution("deployed", overlap=overlap, whole_shards=BATCHES[batch][1])
        cases.append((kind, wires, batch, array_of(wires, kind), execution, overlap))
    frames = []
    with progress_bar(len(cases) * len(networks) * len(PLANNERS)) as progress:
        for kind, wires, batch, array, execution, overlap in cases:
            result = compare(
                array,
                networks,
                [*FAIRER, *PLANNERS] if overlap or execution == Execution() else list(PLANNERS),
                BATCHES[batch][0],
                progress,
                execution=execution,
                runner=Runner(jobs=None),
            )
            rows = result.to_frame()
            frames.append(rows.assign(array=kind, wires=wires, batch=batch, overlap=overlap))
    return pandas.concat(frames, ignore_index=True)


def array_of(wires: str, kind: str) -> Array:
    """One array of the study."""
    name, *changes = WIRES[wires][kind]
    return load_array(name, changes)


def plot(table: pandas.DataFrame) -> Figure:
    """Geometric means over data parallelism, by wires: rows are batches, columns arrays."""
    shown = list(PLANNERS)[1:]
    groups = ["published model", *WIRES]
    figure, axes = panels(11, 6.5, len(BATCHES), 2)
    for place, (batch, kind) in zip(
        axes, itertools.product(BATCHES, ("mixed", "homogeneous")), strict=True
    ):
        part = table[(table["batch"] == batch) & (table["array"] == kind)]
        for g, wires in enumerate(groups):
            for i, (planner, overlap) in enumerate(itertools.product(shown, (False, True))):
                rows = part[(part["wires"] == wires) & (part["overlap"] == overlap)]
                if rows.empty:
                    continue
                height = geometric_mean(list(rows[rows["planner"] == planner]["speedup"]))
                x = g + (i - 2.5) * 0.14
                alpha = 1.0 if overlap else 0.5
                place.bar(x, height, 0.13, color=colours(shown)[planner], alpha=alpha)
                write_value(place, x, height, f"{height:.2f}")
        place.axhline(1, color="#555555", lw=0.6)
        speedup_axis(place)
        place.margins(y=0.26)
        place.set_xticks(
            range(len(groups)), [name.replace(", ", ",\n") for name in groups], fontsize=7
        )
        place.set_title(f"{kind}, batch {batch}", fontsize=9)
        place.set_ylabel("speedup over data parallelism", fontsize=7)
    handles = [
        figure.axes[0].bar(0, 0, color=colour, label=planner)
        for planner, colour in colours(shown).items()
    ]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=3,
        fontsize=8,
        title="geometric means; pale: without overlap; deployed model, except the first group",
        title_fontsize=7,
    )
    return figure


if __name__ == "__main__":
    main(*sys.argv[1:])
