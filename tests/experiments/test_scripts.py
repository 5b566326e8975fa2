"""The scripts of the published tables and figures, on little."""

import math
from pathlib import Path

import pandas
from matplotlib.axes import Axes

from experiments.scripts import (
    deployed_sensitivity,
    deployed_study,
)
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


def test_the_deployed_studys_tables() -> None:
    text = deployed_study.tables(made_up())
    assert text.count("\n## ") == 2 * (1 + len(deployed_study.WIRES))
    mixed, alike = text.split("\n## ")[1:3]
    assert mixed.startswith("mixed, published model\n\nBatch 512, exact shards:")
    assert "| network | data parallel [s] | owt | hypar | accpar | alone |" in mixed
    assert "| lenet | 0.12500 | 2.00 | 4.00 | 8.00 | 9.00 |" in mixed
    assert "| geometric mean |  | 2.00 | 4.00 | 8.00 | 9.00 |" in mixed
    assert "alone" not in alike
    assert "Batch 65,536, whole shards, overlap full:" in text


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


def test_the_deployed_page_has_the_studys_numbers() -> None:
    """Every headline mean, and between which ones it lies, from the two tables beside the page."""
    docs = Path(__file__).parents[2] / "docs"
    study = pandas.read_csv(docs / "deployed_study.csv")
    changed = pandas.read_csv(docs / "deployed_sensitivity.csv")
    seen = 0
    page, _, baselines = (docs / "deployed-study.md").read_text().partition("\n## Beside data")
    assert _check_baselines(baselines, study) == 2 * 2 * (1 + len(deployed_study.WIRES))
    for line in page.splitlines():
        if not line.startswith(("| mixed |", "| homogeneous |")):
            continue
        kind, wires, batch, *cells = (cell.strip() for cell in line[1:-1].split("|"))
        of = {"array": kind, "wires": wires, "batch": deployed_batch(batch)}
        published = wires == "published model"
        for planner, cell in zip(("owt", "hypar", "accpar"), cells, strict=False):
            speedups = chosen(study, **of, planner=planner, overlap=not published)["speedup"]
            mean = f"{geometric_mean(list(speedups)):.2f}"
            if not published:
                means = chosen(changed, **of, planner=planner)["speedup"]
                mean += f" ({means.min():.2f} to {means.max():.2f})"
            assert cell == mean
            seen += 1
        if kind == "mixed":
            rows = chosen(study, **of, planner="accpar", overlap=not published)
            assert cells[3] == f"{geometric_mean(list(rows['fast_alone_speedup'])):.2f}"
    assert seen == 3 * 2 * 2 * (1 + len(deployed_study.WIRES))


def _check_baselines(page: str, study: pandas.DataFrame) -> int:
    """Means of AccPar and of both baselines, and what is left of it; how many rows there are."""
    rows = [line for line in page.splitlines() if line.startswith(("| mixed |", "| homogeneous |"))]
    for line in rows:
        kind, wires, batch, *cells = (cell.strip() for cell in line[1:-1].split("|"))
        of = {"array": kind, "wires": wires, "batch": deployed_batch(batch)}
        speedups = {
            planner: chosen(study, **of, planner=planner, overlap=wires != "published model")
            .set_index("network")["speedup"]
            .sort_index()
            for planner in ("best_share", "best_subset", "accpar")
        }
        means = [f"{geometric_mean(list(found)):.2f}" for found in speedups.values()]
        share, subset, accpar = speedups.values()
        left = accpar / share.combine(subset, max)
        assert [*cells[:3], cells[3].partition(" ")[0]] == [
            *means,
            f"{geometric_mean(list(left)):.2f}",
        ]
    return len(rows)


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
    rows = [
        ("mixed", "torus", "512", change, "accpar", 2.0) for change in deployed_sensitivity.CHANGES
    ]
    columns = ["array", "wires", "batch", "change", "planner", "speedup"]
    text = deployed_sensitivity.tables(pandas.DataFrame(rows, columns=columns))
    assert "| mixed | torus | 512 | " + " | ".join(["2.00"] * len(rows)) + " |" in text
