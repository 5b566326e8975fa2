"""What the picture of fit shows."""

from typing import Any

import pytest

from experiments.output import UsageError
from experiments.pictures.plots import MOST_NAMED, plot_fit

GIB = 2.0**30


def row(gib: float, rate: float, update: str = "", **axes: int) -> dict[str, Any]:
    one = dict.fromkeys(("dp", "tp", "pp", "cp", "ep"), 1) | axes
    return one | {
        "peak_memory_bytes": gib * GIB,
        "tokens_per_s_each": rate,
        "samples_per_s": rate / 8,
        "update": update,
        "size": "",
        "stage_hw": "",
    }


def names(rows: list[dict[str, Any]], capacity: float = 80) -> list[str]:
    (axes,) = plot_fit(rows, "net on an array", capacity * GIB).axes
    return [text.get_text() for text in axes.texts]


def test_the_front_has_its_names() -> None:
    rows = [
        row(70, 100, "replicated", dp=8),
        row(40, 90, "weights", dp=4, tp=2),
        row(60, 80, dp=2),
        row(20, 70, pp=8),
    ]
    assert names(rows) == ["dp 8, ZeRO 0", "dp 4, tp 2, ZeRO 3", "pp 8"]
    assert names([row(1, 10)]) == ["one device"]
    many = [row(k, 100 + k, dp=k) for k in range(1, 10)]
    assert names(many) == [f"dp {k}" for k in (9, 8, 7, 6)]
    assert len(names(many)) == MOST_NAMED
    close = [row(70, 100, dp=8), row(69, 99.9, dp=4), row(20, 50, dp=2)]
    assert names(close) == ["dp 8", "dp 2"]  # two names would lie on each other


def test_sizes_of_an_array_are_told_apart() -> None:
    rows = [row(9, 10, tp=2) | {"size": f"nodes={n}"} for n in (16, 2, 2)]
    for some, labels in ((rows, ["nodes=2", "nodes=16"]), ([row(9, 10, tp=2)], ["tp 2"])):
        (axes,) = plot_fit(some, "", 80 * GIB).axes
        assert axes.get_legend_handles_labels()[1][: len(labels)] == labels


def test_stages_on_kinds_of_devices_have_their_names() -> None:
    axes = dict.fromkeys(("dp", "tp", "pp"))
    kinds = row(9, 10) | axes | {"stage_hw": "a100-80:2x8;h100-sxm:2x8"}
    assert names([kinds, row(8, 5, dp=4)]) == ["a100-80:2x8; h100-sxm:2x8", "dp 4"]
    (drawn,) = plot_fit([kinds, row(8, 5, dp=4)], "", 80 * GIB).axes
    assert drawn.get_legend_handles_labels()[1][:2] == ["stages on kinds", "tp 1"]


def test_differences_can_be_seen() -> None:
    """Rates within a per cent of each other take up the picture, not a line at its top."""
    (axes,) = plot_fit([row(70, 1000, dp=8), row(40, 995, dp=4)], "", 80 * GIB).axes
    low, high = axes.get_ylim()
    assert 980 < low < 995
    assert 1000 < high < 1020


def test_a_memory_that_is_far_away_is_said() -> None:
    (axes,) = plot_fit([row(5, 10)], "", 80 * GIB).axes
    assert axes.get_xlabel().endswith("[GiB]; memory limit: 80 GiB")
    with pytest.raises(UsageError, match="no combination fits"):
        plot_fit([], "", GIB)
