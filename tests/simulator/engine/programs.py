"""Small programs by hand for the engine's tests."""

from hardware import Device
from planners.order import Kind, Phase
from simulator import Communicator, Operation, Program, Task, Timeline, Worker

DEVICE = Device("board", 2, 2, 1e12, 1e9, 1e9, 1e9)
OTHER = Device("other", 1, 1, 1e12, 1e9, 1e9, 1e9)
CORE = Device("core", 1, 1, 1e12, 1e9, 1e9, 1e9)


def compute(name: str, duration: int, flops: float = 0.0, hbm_bytes: float = 0.0) -> Operation:
    return Operation(
        Kind.COMPUTE, Phase.FORWARD, name, -1, duration, flops=flops, hbm_bytes=hbm_bytes
    )


def exchange(name: str, duration: int, level: int = 0) -> Operation:
    return Operation(Kind.SUMS, Phase.FORWARD, name, level, duration, (3.0, 5.0))


def in_order(*operations: Operation, parties: int = 2) -> tuple[Task, ...]:
    """Lines of which each waits for the one before it."""
    return tuple(
        Task(op, (place - 1,) if place else (), parties if op.level >= 0 else 0)
        for place, op in enumerate(operations)
    )


def two_boards(first: tuple[Task, ...], second: tuple[Task, ...]) -> Program:
    """A board with four cores and one with one core, under one split."""
    return Program(
        (
            Worker(DEVICE, first, (0,), chips=2, cores_per_chip=2),
            Worker(OTHER, second, (0,), first=1),
        ),
        (Communicator(0),),
    )


def cores(count: int, communicators: int = 1, **more: object) -> Program:
    """Single cores without a template, and splits that nobody is under."""
    workers = [Worker(CORE, first=i, unit="core", **more) for i in range(count)]  # type: ignore[arg-type]
    return Program(tuple(workers), (Communicator(0),) * communicators)


def log(timeline: Timeline) -> list[tuple[str, str, int, int, int]]:
    """Resource, layer, turn, start and end of every record."""
    return [(r.resource, r.layer, r.micro_batch, r.start_ps, r.end_ps) for r in timeline]


def causes(timeline: Timeline) -> list[str | None]:
    """What every record waited for."""
    layers = [record.layer for record in timeline]
    return [layers[row] if row >= 0 else None for row in timeline.columns.cause]
