"""What can be wrong with what is asked for."""

from __future__ import annotations

from simulator.engine.errors import SimulationError


class TrainingError(SimulationError):
    """A method, slowdown, graph or cluster that makes no sense; the message says what would."""
