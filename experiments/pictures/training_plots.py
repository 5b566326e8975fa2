"""Pictures of training runs: each worker's progress, and loss against simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.pictures.colours import COLOURS
from experiments.pictures.figures import (
    LEGEND_SIZE,
    TITLE_SIZE,
    panels,
    plain,
    readable_log,
    shortened,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.studies.training import Trained

WIDTH, HEIGHT = 5.2, 4.0
MOST_LINES = 64
"""Workers whose progress is drawn: of more, evenly chosen ones."""
MOST_POINTS = 500


def plot_training(found: Sequence[Trained]) -> Figure:
    """Iterations done against time, a line for each worker; with learning, loss beside it."""
    learns = found[0].learned is not None
    figure, axes = panels(WIDTH * (2 if learns else 1.4), HEIGHT, 1, 2 if learns else 1)
    asked = found[0].asked
    slow = ", ".join(asked.slowdowns) or "no slowdown"
    title = f"{asked.network.name}, {asked.workers} workers on {asked.array.name}, {slow}"
    figure.suptitle(
        wrapped(plain(title), WIDTH * (2 if learns else 1.4), TITLE_SIZE), fontsize=TITLE_SIZE
    )
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(found))]
    for one, colour in zip(found, colours, strict=True):
        _progress(axes[0], one, colour)
        if learns:
            _loss(axes[1], one, colour)
    axes[0].set_ylabel("iterations done, each worker")
    for panel in axes:
        panel.set_xlabel("simulated time [s]")
        panel.grid(lw=0.3)
        panel.set_axisbelow(True)
        panel.set_xlim(left=0)
        panel.legend(fontsize=LEGEND_SIZE, frameon=False)
    axes[0].set_ylim(bottom=0)
    if learns:
        readable_log(axes[1])
        axes[1].set_ylabel(f"loss of the mean model, {asked.learn}")
    return figure


def _progress(axes: Axes, one: Trained, colour: str) -> None:
    workers = np.unique(np.linspace(0, len(one.run.ends) - 1, MOST_LINES).astype(int))
    for number, w in enumerate(workers.tolist()):
        ends = np.asarray(one.run.ends[w]) / 1e12
        count = np.arange(len(ends) + 1)
        times = np.concatenate([[0.0], ends])
        some = np.unique(np.linspace(0, len(ends), MOST_POINTS).astype(int))
        label = plain(shortened(one.asked.method, 40)) if not number else None
        axes.plot(times[some], count[some], color=colour, lw=0.7, alpha=0.8, label=label)


def _loss(axes: Axes, one: Trained, colour: str) -> None:
    at_s, loss = zip(*one.curve, strict=True)
    label = plain(shortened(one.asked.method, 40))
    axes.plot(at_s, loss, color=colour, lw=1.0, label=label)
