"""AccPar's hierarchy sweep: speedup against the number of levels, for one network."""

import sys
from pathlib import Path

import pandas

from experiments.pictures.figures import save
from experiments.pictures.plots import plot_levels
from experiments.studies.comparison import sweep_levels
from hardware import load_array
from planners import PLANNERS
from workloads import load_network


def main(folder: str = ".", network: str = "vgg19", most: str = "9") -> None:
    """Write ``levels-NETWORK.csv`` and ``.png`` for 2 to ``most`` levels of the mixed array."""
    array, levels = load_array("accpar-mixed"), range(2, int(most) + 1)
    sizes = sweep_levels(array, levels, [load_network(network)], list(PLANNERS), 512)
    rows = [{"levels": size.levels} | size.result.geomean for size in sizes]
    table = pandas.DataFrame(rows)
    table.to_csv(Path(folder) / f"levels-{network}.csv", index=False)
    save(plot_levels(array.name, sizes), str(Path(folder) / f"levels-{network}.png"))
    print(table.round(2).to_string(index=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
