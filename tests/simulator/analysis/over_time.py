"""How full a worker's HBM is over time, by the records of a run."""

from collections.abc import Iterator

from simulator import Timeline
from simulator.analysis.memory_timeline import filled


def memory_over_time(timeline: Timeline, worker: int) -> Iterator[tuple[int, int, float]]:
    """Start, end (picoseconds) and the most that was held (bytes) of each computation."""
    for one in filled(timeline, worker):
        yield one[:3]


def peak_bytes(timeline: Timeline, worker: int) -> float:
    """The most that one of a worker's cores held at any time, in bytes."""
    held_bytes = timeline.program.workers[worker].held_bytes
    return max((most for _, _, most in memory_over_time(timeline, worker)), default=held_bytes)
