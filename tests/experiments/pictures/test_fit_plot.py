"""What the picture of fit shows."""

from typing import Any

import pytest
from matplotlib.axes import Axes

from accelarray import fit
from experiments.api.fitting import name_of
from experiments.output import UsageError
from experiments.pictures.plots import MOST_NAMED, plot_fit
from planners import Axes as Parallel

GIB = 2.0**30


def row(gib: float, rate: float, tp: int = 1) -> dict[str, Any]:
    return {
        "tp": tp,
        "peak_memory_bytes": gib * GIB,
        "tokens_per_s_each": rate,
        "samples_per_s": rate / 8,
        "size": "",
        "stage_hw": "",
    }


def drawn(rows: list[dict[str, Any]]) -> Axes:
    names = [f"plan {number}" for number, _ in enumerate(rows)]
    (axes,) = plot_fit(rows, names, "net on an array", 80 * GIB).axes
    return axes


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [text.get_text() for text in drawn(rows).texts]


def test_the_front_has_its_names() -> None:
    assert names([row(70, 100), row(40, 90), row(60, 80), row(20, 70)]) == [
        f"plan {number}" for number in (0, 1, 3)
    ]
    many = [row(k, 100 + k) for k in range(10)]
    assert names(many) == [f"plan {number}" for number in (9, 8, 7, 6)]
    assert len(names(many)) == MOST_NAMED
    close = [row(70, 100), row(69, 99.9), row(20, 50)]
    assert names(close) == ["plan 0", "plan 2"]  # two names would lie on each other


def test_a_name_says_all_that_makes_its_step() -> None:
    """Every two combinations have two names; a name's first line is what --parallel takes."""
    varied = ("tp", "sp", "pp", "vp", "micro-batch", "recompute", "zero", "schedule")
    found = fit("gpt2:layers=4:seq=16", "tpu-v3-8", 16, axes=varied, best=40)
    every = list(map(name_of, found.fits))
    assert len({*every}) == len(every) == 40
    for name, one in zip(every, found.fits, strict=True):
        axes = Parallel.parse(name.splitlines()[0])
        assert all(getattr(axes, key) == one[key] for key in ("tp", "sp", "pp", "vp", "cp", "ep"))
        assert f"micro-batch {one['micro_batch']}, ZeRO " in name
    (picture,) = found.plot().axes
    assert {text.get_text() for text in picture.texts} <= {*every}


def test_sizes_of_an_array_are_told_apart() -> None:
    rows = [row(9, 10, tp=2) | {"size": f"nodes={n}"} for n in (16, 2, 2)]
    for some, labels in ((rows, ["nodes=2", "nodes=16"]), ([row(9, 10, tp=2)], ["tp 2"])):
        assert drawn(some).get_legend_handles_labels()[1][: len(labels)] == labels


def test_stages_on_kinds_of_devices_are_told_apart() -> None:
    kinds = row(9, 10) | {"tp": None, "stage_hw": "a100-80:2x8;h100-sxm:2x8"}
    labels = drawn([kinds, row(8, 5)]).get_legend_handles_labels()[1]
    assert labels[:2] == ["stages on kinds", "tp 1"]


def test_differences_can_be_seen() -> None:
    """Rates within a per cent of each other take up the picture, not a line at its top."""
    low, high = drawn([row(70, 1000), row(40, 995)]).get_ylim()
    assert 980 < low < 995
    assert 1000 < high < 1020


def test_a_memory_that_is_far_away_is_said() -> None:
    assert drawn([row(5, 10)]).get_xlabel().endswith("[GiB]; memory limit: 80 GiB")
    with pytest.raises(UsageError, match="no combination fits"):
        plot_fit([], [], "", GIB)
