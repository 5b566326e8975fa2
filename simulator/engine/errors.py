"""What can go wrong with a run."""


class SimulationError(ValueError):
    """A run is beyond what the engine can hold."""


class DeadlockError(RuntimeError):
    """A run stopped with operations outstanding; the message says who waits for what."""


class OutOfMemoryError(SimulationError):
    """A step does not fit in a device's HBM, and was to."""
