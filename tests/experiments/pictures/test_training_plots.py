"""The picture of training runs: what its lines show."""

from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from experiments.pictures.plots import MOST_LINES, plot_training
from experiments.studies.training.run import Trained, Training
from hardware import load_array
from simulator import DEPLOYED
from workloads import load_network

ASKED = Training(
    load_network("lenet"), "all-reduce", load_array("ring-8"), 8, 12, DEPLOYED, learn="quadratic"
)


@pytest.fixture(scope="module")
def found() -> list[Trained]:
    slow = replace(ASKED, slowdowns=("worker:0:5",))
    return [slow.run(), replace(slow, method="ad-psgd").run()]


def test_progress_and_loss(found: list[Trained]) -> None:
    figure = plot_training(found)
    progress, loss = figure.axes
    assert len(progress.lines) == 16
    for one, lines in zip(found, (progress.lines[:8], progress.lines[8:]), strict=True):
        for w, line in enumerate(lines):
            times, done = line.get_xdata(), line.get_ydata()
            assert np.asarray(done)[-1] == one.run.done[w]
            assert np.asarray(times)[-1] == pytest.approx(one.run.ends[w][-1] / 1e12)
    assert [len(np.asarray(line.get_xdata())) for line in loss.lines] == [
        len(one.curve) for one in found
    ]
    (legend,) = figure.legends  # below both
    labels = [text.get_text() for text in legend.get_texts()]
    run = found[1].run
    rates = [done / ends[-1] for done, ends in zip(run.done, run.ends, strict=True)]
    slow = [w for w in sorted(range(8), key=rates.__getitem__) if rates[w] < 0.9 * median(rates)]
    assert slow[0] == 0  # which the slowdown names
    named = ", ".join(map(str, slow[:4]))
    assert labels == ["all-reduce", f"ad-psgd, dashed: workers {named}"]
    dashed = [w for w, line in enumerate(progress.lines[8:]) if line.get_linestyle() == "--"]
    assert dashed == sorted(slow[:4])


def test_without_learning_there_is_one_panel_and_few_lines() -> None:
    many = replace(ASKED, learn=None, array=load_array("ring-8", ["devices.0.count=100"]))
    figure = plot_training([replace(many, workers=100, iterations=2).run()])
    (progress,) = figure.axes
    assert len(progress.lines) == MOST_LINES
