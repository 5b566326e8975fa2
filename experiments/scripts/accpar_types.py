"""AccPar's types per level for AlexNet on the homogeneous array."""

import sys
from pathlib import Path

import pandas

from experiments.studies.case import Case, plan_of
from hardware import load_array
from workloads import load_network


def main(folder: str = ".", network: str = "alexnet") -> None:
    """Write ``types-NETWORK.csv``: a row for each layer, a column for each level."""
    array = load_array("accpar-homogeneous")
    plan = plan_of(Case(load_network(network), "accpar", array, 512))
    levels = plan.levels() or []
    table = pandas.DataFrame(
        {f"level {i}": [str(kind) for kind in split.types] for i, split in enumerate(levels)},
        index=pandas.Index(plan.nodes, name="layer"),
    )
    table.to_csv(Path(folder) / f"types-{network}.csv")
    print(table.to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
