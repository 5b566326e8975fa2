"""The links that a run follows: all of the wires', or one of each sort that jobs load alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from simulator.engine.jobs import Floats, Ints, Job, Load


class Links(ABC):
    """Links that jobs share, with their ``bandwidth`` (B/s)."""

    bandwidth: Floats

    def __init__(self) -> None:
        self._jobs: dict[Job, Job] = {}

    def carry(self, job: Job) -> Job:
        """A job with its load on these links."""
        if job not in self._jobs:
            self._jobs[job] = replace(job, load=self.of(job.load))
        return self._jobs[job]

    @abstractmethod
    def of(self, load: Load) -> Load:
        """A load by the numbers of these links."""

    @abstractmethod
    def which(self) -> Ints:
        """The number here of what stands for each of the wires' links."""


class EveryLink(Links):
    """All links of the wires."""

    def __init__(self, bandwidth: Floats) -> None:
        super().__init__()
        self.bandwidth = bandwidth

    def of(self, load: Load) -> Load:  # noqa: D102
        return load.everywhere()

    def which(self) -> Ints:  # noqa: D102
        return np.arange(len(self.bandwidth))
