"""How planners compare as links get faster: 1 Gbit/s to 1 Tbit/s, under both execution models."""

import sys
from pathlib import Path

from experiments.pictures.figures import save
from experiments.pictures.plots import plot_sweep
from experiments.studies.options import parse_vary
from experiments.studies.sweep import Grid, crossovers, sweep
from hardware import format_quantity
from planners import PLANNERS
from simulator import DEPLOYED, PUBLISHED
from workloads import load_network

MODELS = {
    "bandwidth": ("accpar-mixed", PUBLISHED),
    "bandwidth-deployed": ("accpar-mixed-switch", DEPLOYED),
}


def main(folder: str = ".", points: str = "16", *networks: str) -> None:
    """Write a table and a picture for each model, and print where planners change places."""
    axis = parse_vary(f"network.bandwidth=1 Gbit/s:1 Tbit/s:log:{points}")
    nets = tuple(load_network(name) for name in networks or ("vgg19", "resnet50"))
    for name, (array, execution) in MODELS.items():
        grid = Grid(nets, tuple(PLANNERS), array, (axis,), execution=execution)
        table = sweep(grid)
        found = crossovers(table, axis)
        table.to_csv(Path(folder) / f"{name}.csv", index=False)
        save(plot_sweep(grid, table, found), str(Path(folder) / f"{name}.png"))
        for cross in found:
            at = format_quantity(cross.value, axis.unit)
            print(f"{execution}: {cross.network}: {cross.first} = {cross.second} at {at}")


if __name__ == "__main__":
    main(*sys.argv[1:])
