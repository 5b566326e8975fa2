"""Links that all jobs of a program load alike, whatever the program: followed as one.

Where sends between stages are among the jobs there is no one cube that all
loads are on (``simulator.collectives.link_classes``). Two links that every job
crosses with as many flows carry the same at any time: only the narrower of them
can hold anybody up.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hardware import Wires
from simulator.engine.jobs import Floats, Ints, Load
from simulator.engine.links import Links


class AlikeLinks(Links):
    """One link for each class that loads tell apart; the last stands for those nobody loads."""

    def __init__(self, wires: Wires, loads: Iterable[Load]) -> None:
        super().__init__()
        bandwidth: Floats = np.asarray(wires.bandwidth, dtype=np.float64)
        everywhere = {load: load.everywhere() for load in dict.fromkeys(loads)}
        label = _classes(len(bandwidth), everywhere.values())
        self._label = label
        narrowest = np.full(int(label.max(initial=0)) + 1, np.inf)
        np.minimum.at(narrowest, label, bandwidth)
        self.bandwidth = narrowest
        self._found = {load: _on(label, every) for load, every in everywhere.items()}

    def of(self, load: Load) -> Load:  # noqa: D102
        return self._found[load]

    def which(self) -> Ints:  # noqa: D102
        return self._label


def _classes(links: int, loads: Iterable[Load]) -> Ints:
    """A number for every link; equal ones are crossed by as many flows of each job.

    Told apart load by load: of the links of a class those that the next load
    crosses get a class for each number of its flows.
    """
    label = np.zeros(links, dtype=np.int64)
    many = 1
    for load in loads:
        if not len(load.links):
            continue
        pairs = np.stack([label[load.links].astype(np.float64), load.flows])
        _, number = np.unique(pairs, axis=1, return_inverse=True)
        label[load.links] = many + number.ravel()
        many += int(number.max()) + 1
    _, found = np.unique(label, return_inverse=True)
    return found.astype(np.int64)


def _on(label: Ints, load: Load) -> Load:
    """A load by classes: their links are all crossed, alike."""
    found, first = np.unique(label[load.links], return_index=True)
    return Load(found, load.flows[first])
