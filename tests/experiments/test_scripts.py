"""The scripts of the published tables and figures, on little."""

import math
from pathlib import Path

import pandas
from matplotlib.axes import Axes

from experiments.scripts import deployed_sensitivity, deployed_study
from experiments.studies.speedups import geometric_mean
from hardware import load_array
from simulator import Execution


def made_up() -> pandas.DataFrame:
    """A row a case of the deployed study, speedups by planner and wires."""
    speedups = {"data_parallel": 1.0, "owt": 2.0, "hypar": 4.0, "accpar": 8.0}
    rows = [
        {
            "array": kind,
            "wires": wires,
            "batch": batch,
            "overlap": overlap,
            "network": network,
            "planner": planner,
            "iteration_s": 0.125,
            "speedup": speedup * (2 if overlap else 1),
            "fast_alone_speedup": 9.0 if (kind, planner) == ("mixed", "accpar") else math.nan,
        }
        for wires in ("published model", *deployed_study.WIRES)
        for kind in ("mixed", "homogeneous")
        for batch in deployed_study.BATCHES
        for overlap in ((False,) if wires == "published model" else (False, True))
        for network in ("lenet", "alexnet")
        for planner, speedup in speedups.items()
    ]
    return pandas.DataFrame(rows)


def test_the_deployed_studys_picture() -> None:
    figure = deployed_study.plot(made_up())
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [panel.get_title() for panel in panels] == [
        f"{kind}, batch {batch}"
        for batch in deployed_study.BATCHES
        for kind in ("mixed", "homogeneous")
    ]
    heights = sorted({round(text, 6) for text in map(float, texts(panels[1]))})
    assert heights == [2, 4, 8, 16]


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_the_deployed_studys_arrays_are_those_of_its_wires() -> None:
    for wires in deployed_study.WIRES:
        mixed, alike = (deployed_study.array_of(wires, kind) for kind in ("mixed", "homogeneous"))
        assert len(mixed.group.kinds) == 2
        assert len(alike.group.kinds) == 1
        assert mixed.group.size == 2 * alike.group.size
        assert mixed.topology.kind == alike.topology.kind


def test_the_results_page_has_the_studys_numbers() -> None:
    """Geometric means of planners and baselines, and what is left of AccPar, from the table."""
    docs = Path(__file__).parents[2] / "docs"
    study = pandas.read_csv(docs / "data" / "deployed_study.csv")
    planners = ["owt", "hypar", "accpar", "best_share", "best_subset"]
    page = (docs / "results.md").read_text().partition("### What is left on real wires")[2]
    named = tuple(f"| {wires} |" for wires in ("published model", *deployed_study.WIRES))
    rows = [line for line in page.splitlines() if line.startswith(named)]
    assert len(rows) == 2 * len(named)
    for line in rows:
        wires, batch, *cells = (cell.strip() for cell in line[1:-1].split("|"))
        of = {"array": "mixed", "wires": wires, "batch": deployed_batch(batch)}
        own = chosen(study, **of, overlap=wires != "published model")
        speedups = own.pivot_table(index="network", columns="planner", values="speedup")
        left = speedups["accpar"] / speedups[["best_share", "best_subset"]].max(axis=1)
        columns = [*(speedups[name] for name in planners), left]
        assert cells == [f"{geometric_mean(list(column)):.2f}" for column in columns]


def deployed_batch(samples: str) -> str:
    (found,) = (name for name in deployed_study.BATCHES if name.startswith(f"{samples}, "))
    return found


def chosen(table: pandas.DataFrame, **values: object) -> pandas.DataFrame:
    for column, value in values.items():
        table = table[table[column] == value]
    return table


def test_what_the_deployed_study_depends_on() -> None:
    """Each change is one thing alone; a change of tiles is to the other rule of them."""
    array = load_array("tpu-mixed")
    for whole in (True, False):
        execution = Execution("deployed", whole_shards=whole)
        for name in deployed_sensitivity.CHANGES:
            other, run = deployed_sensitivity.changed(array, execution, name)
            same = (other.group == array.group, run == execution)
            assert same == (name == deployed_sensitivity.AS_IT_IS,) * 2 or sum(same) == 1
