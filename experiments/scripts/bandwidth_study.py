"""How planners compare as links get faster: 1 Gbit/s to 1 Tbit/s on the mixed array."""

import sys
from pathlib import Path

from experiments.sweep import Grid, crossovers, sweep
from experiments.sweep_plots import plot_sweep
from experiments.vary import parse_vary
from hardware import format_quantity
from planners import PLANNERS
from workloads import load_network


def main(folder: str = ".", points: str = "16", *networks: str) -> None:
    """Write ``bandwidth.csv`` and ``.png``, and print where planners change places."""
    axis = parse_vary(f"network.bandwidth=1 Gbit/s:1 Tbit/s:log:{points}")
    nets = tuple(load_network(name) for name in networks or ("vgg19", "resnet50"))
    grid = Grid(nets, tuple(PLANNERS), "accpar-mixed", (axis,))
    table = sweep(grid)
    found = crossovers(table, axis)
    table.to_csv(Path(folder) / "bandwidth.csv", index=False)
    plot_sweep(grid, table, found, str(Path(folder) / "bandwidth.png"))
    for cross in found:
        at = format_quantity(cross.value, axis.unit)
        print(f"{cross.network}: {cross.first} = {cross.second} at {at}")


if __name__ == "__main__":
    main(*sys.argv[1:])
