"""AccPar's two speedup figures: nine networks, four planners, mixed and homogeneous arrays."""

import sys
from pathlib import Path

from experiments.pictures.figures import save
from experiments.pictures.plots import plot_speedups
from experiments.studies.comparison import compare
from hardware import load_array
from planners import PLANNERS
from workloads import ZOO, load_network


def main(folder: str = ".", *networks: str) -> None:
    """Write ``speedup-ARRAY.csv`` and ``.png`` for both arrays."""
    for name in ("accpar-mixed", "accpar-homogeneous"):
        nets = [load_network(network) for network in networks or ZOO]
        result = compare(load_array(name), nets, list(PLANNERS))
        result.to_frame().to_csv(Path(folder) / f"speedup-{name}.csv", index=False)
        save(plot_speedups(result), str(Path(folder) / f"speedup-{name}.png"))
        for planner, mean in result.geomean.items():
            paper = result.published.get(planner)
            print(name, planner, f"{mean:.2f}", f"(paper: {paper.speedup})" if paper else "")


if __name__ == "__main__":
    main(*sys.argv[1:])
